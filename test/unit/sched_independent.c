/* Whether the iterations of a loop may run in any order, against all pairs of them: random loops over a few elements. */
#include "support/check.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sched/rules.h"

enum { MAX_ACCESSES = 3, INNER = 3, BUFS = 4, FIRST = 40 /* no index is negative */ };

static const uint32_t slots[BUFS] = {0, 1, 0, 0}; /* three names of one argument, */
static const rp_dtype types[BUFS] = {RP_DTYPE_F32, RP_DTYPE_F32, RP_DTYPE_F32,
                                     RP_DTYPE_BF16}; /* of which one has other elements */

/* Element step * i + inner * j + far * (i / by) + near * (i % by) + at of a buffer, in iteration i and inner iteration j. */
typedef struct access {
    bool stores;
    uint32_t buf;
    int64_t step, inner, far, near, by, at;
} access;

typedef struct loop_case {
    int64_t n;
    uint32_t n_accesses;
    access access[MAX_ACCESSES];
} loop_case;

static uint64_t rng;

static int64_t pick(int64_t lo, int64_t hi) {
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return lo + (int64_t)((rng >> 33) % (uint64_t)(hi - lo + 1));
}

static int64_t first; /* index of a case */

static int64_t element(const access *a, int64_t i, int64_t j) {
    int64_t at = first + a->at + a->step * i + a->inner * j;
    return a->by ? at + a->far * (i / a->by) + a->near * (i % a->by) : at;
}

static loop_case random_case(void) {
    loop_case c = {.n = pick(1, 9), .n_accesses = (uint32_t)pick(1, MAX_ACCESSES)};
    access like = {0};
    bool halves = false;
    for (uint32_t k = 0; k < c.n_accesses; k++) {
        access a = {.buf = (uint32_t)pick(0, BUFS - 1), .step = pick(-3, 4), .at = pick(0, 4)};
        if (pick(0, 2) == 0) a.inner = pick(-1, 2);
        if (pick(0, 3) == 0) {
            a.by = pick(2, 4);
            a.far = pick(0, 6);
            a.near = pick(0, 3);
            a.step = 0;
        }
        if (k > 0 && pick(0, 1)) { /* beside the one before */
            a = like;
            a.at = pick(0, 4);
        }
        a.stores = k == 0 || pick(0, 2) == 0;
        c.access[k] = like = a;
        halves = halves || types[a.buf] == RP_DTYPE_BF16;
    }
    /* Elements of two sizes lie beside each other near the beginning alone. */
    first = halves ? 0 : FIRST;
    for (uint32_t k = 0; halves && k < c.n_accesses; k++) {
        c.access[k].step = llabs(c.access[k].step);
        c.access[k].inner = llabs(c.access[k].inner);
    }
    return c;
}

static kir_ref times(kir_func *f, kir_ref x, int64_t k) {
    return kir_bin(f, KIR_IMUL, x, kir_const_i(f, k));
}

static kir_ref index_of(kir_func *f, const access *a, kir_ref i, kir_ref j) {
    kir_ref at = kir_const_i(f, first + a->at);
    if (a->step) at = kir_bin(f, KIR_IADD, at, times(f, i, a->step));
    if (a->inner) at = kir_bin(f, KIR_IADD, at, times(f, j, a->inner));
    if (!a->by) return at;
    kir_ref by = kir_const_i(f, a->by);
    at = kir_bin(f, KIR_IADD, at, times(f, kir_bin(f, KIR_IDIV, i, by), a->far));
    return kir_bin(f, KIR_IADD, at, times(f, kir_bin(f, KIR_IMOD, i, by), a->near));
}

/* par 2 { loop n { loop INNER { accesses } } }; *loop is the one in the middle. */
static kir_func *build(const loop_case *c, kir_ref *loop) {
    kir_func *f = kir_new("random", KIR_KERNEL, NULL);
    static const char *const names[BUFS] = {"x", "y", "also_x", "halves_of_x"};
    for (uint32_t b = 0; b < BUFS; b++)
        assert_int_equal(kir_add_buf(f, names[b], KIR_ARG, types[b], slots[b], 0, 0), b);
    (void)kir_begin(f, KIR_PAR, kir_const_i(f, 2));
    *loop = kir_begin(f, KIR_LOOP, kir_const_i(f, c->n));
    kir_ref j = kir_begin(f, KIR_LOOP, kir_const_i(f, INNER)), value = kir_const_f(f, 1.0);
    for (uint32_t k = 0; k < c->n_accesses; k++) {
        const access *a = &c->access[k];
        kir_ref at = index_of(f, a, *loop, j);
        if (a->stores)
            kir_store(f, a->buf, at, value);
        else
            value = kir_load(f, a->buf, at);
    }
    kir_end(f);
    kir_end(f);
    kir_end(f);
    return f;
}

static bool overlap(const access *a, int64_t at, const access *b, int64_t other) {
    const int64_t x = (int64_t)rp_dtype_block_bytes(types[a->buf]),
                  y = (int64_t)rp_dtype_block_bytes(types[b->buf]);
    return at * x < (other + 1) * y && other * y < (at + 1) * x;
}

/* Two iterations touch one element, and one of them writes it. */
static bool meet(const access *a, int64_t i, const access *b, int64_t k) {
    if (slots[a->buf] != slots[b->buf] || !(a->stores || b->stores)) return false;
    for (int64_t j = 0; j < INNER; j++)
        for (int64_t l = 0; l < INNER; l++)
            if (overlap(a, element(a, i, j), b, element(b, k, l))) return true;
    return false;
}

static bool any_meet(const loop_case *c) {
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t k = i + 1; k < c->n; k++)
            for (uint32_t a = 0; a < c->n_accesses; a++)
                for (uint32_t b = 0; b < c->n_accesses; b++)
                    if (meet(&c->access[a], i, &c->access[b], k)) return true;
    return false;
}

static void loops_said_to_be_independent_are(void **state) {
    enum { CASES = 20000 };
    uint32_t said = 0, independent = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        rp_error err = {0};
        sched *s = NULL;
        kir_ref loop;
        rng = seed;
        loop_case c = random_case();
        kir_func *f = build(&c, &loop);
        CHECK_OK(kir_status(f, &err), &err);
        CHECK_OK(sched_new(&sched_cuda, f, NULL, &s, &err), &err);
        bool free_to_run = !any_meet(&c), answer = sched_is_independent(s, loop);
        if (answer && !free_to_run) {
            base_buf text;
            base_buf_init(&text, 0);
            kir_print(f, &text);
            fail_msg("seed %llu: iterations meet in\n%s", (unsigned long long)seed, text.data);
        }
        said += answer;
        independent += free_to_run;
        sched_free(s);
        kir_free(f);
    }
    print_message("%u of %u loops found\n", said, independent);
    assert_true(said * 2 > independent);
}

/* Two loops of an item: the first touches element `first` of an argument, the second `second` of the same or another. */
static uint32_t parts_of(bool first_stores, bool second_stores, bool same) {
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0),
             y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_F32, 1, 0, 0),
             out[] = {kir_add_buf(f, "a", KIR_ARG, RP_DTYPE_F32, 2, 0, 0),
                      kir_add_buf(f, "b", KIR_ARG, RP_DTYPE_F32, 3, 0, 0)};
    rp_error err = {0};
    (void)kir_begin(f, KIR_PAR, kir_const_i(f, 4));
    for (int i = 0; i < 2; i++) {
        bool stores = i ? second_stores : first_stores;
        uint32_t shared = i && !same ? y : x;
        kir_ref j = kir_begin(f, KIR_LOOP, kir_const_i(f, 3));
        kir_ref v = stores ? kir_const_f(f, i) : kir_load(f, shared, j);
        kir_store(f, stores ? shared : out[i], j, v);
        kir_end(f);
    }
    kir_end(f);
    CHECK_OK(kir_status(f, &err), &err);
    uint32_t n = sched_parts_of(f).n;
    kir_free(f);
    return n;
}

static void parts_wait_for_whoever_touches_what_they_store(void **state) {
    (void)state;
    assert_int_equal(parts_of(true, false, true), 1);
    assert_int_equal(parts_of(false, true, true), 1);
    assert_int_equal(parts_of(true, true, true), 1);
    assert_int_equal(parts_of(false, false, true), 2);
    assert_int_equal(parts_of(true, false, false), 2);
    assert_int_equal(parts_of(false, true, false), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_said_to_be_independent_are),
        cmocka_unit_test(parts_wait_for_whoever_touches_what_they_store)};
    return cmocka_run_group_tests_name("sched_independent", tests, NULL, NULL);
}
