/* How the entry of a call is found: items that are plain tensors are read as each would be alone; what is guessed by is never believed; the
 * list stays in order of use. Arguments: how many random tuples (default 20000). */
#include "support/jits.h"

#include <stdlib.h>

#include "front/front.h"

enum { SIZES = 24, CALLS = 2000, MOST = 9 };

static uint32_t n_tuples = 20000;
static float room[64];

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* --- reading -------------------------------------------------------------------------------- */

static rp_value draw_tensor(uint32_t *seed) {
    static const int64_t sizes[] = {0,
                                    1,
                                    2,
                                    7,
                                    -1,
                                    INT64_C(1) << 27,
                                    (INT64_C(1) << 27) - 1,
                                    (INT64_C(1) << 28) - 1,
                                    (INT64_C(1) << 55) - 1,
                                    INT64_C(1) << 55,
                                    INT64_C(1) << 19,
                                    INT64_MAX};
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_TENSOR;
    v.tensor.dtype = next(seed) % 8 ? RP_DTYPE_F32 : (rp_dtype)(next(seed) % (RP_DTYPE_COUNT_ + 1));
    v.tensor.rank = next(seed) % 8 ? next(seed) % 3 : next(seed) % (RP_MAX_RANK + 2);
    v.tensor.data = next(seed) % 16 ? room : NULL;
    bool any = next(seed) % 4 == 0; /* else small ones */
    for (uint32_t d = 0; d < RP_MAX_RANK; d++)
        v.tensor.dim[d] =
            sizes[any ? next(seed) % (sizeof sizes / sizeof *sizes) : 1 + next(seed) % 3];
    v.state = next(seed) % 8 == 0;
    v.strided = next(seed) % 16 == 0;
    v.indirect = next(seed) % 64 == 0;
    v.rows = next(seed) % 64 == 0;
    for (uint32_t d = 0; d < RP_MAX_RANK; d++) v.stride[d] = next(seed) % 3;
    return v;
}

static rp_value draw_value(uint32_t *seed) {
    switch (next(seed) % 12) {
    case 0: return rp_value_int(next(seed) % 3);
    case 1: return rp_value_none();
    default: return draw_tensor(seed);
    }
}

/* The words of all, which are a head and those of each; false: they cannot be read. */
static bool read_each(const rp_value *all, front_args *out, uint32_t *n_tensors) {
    rp_error err = {0};
    bool ok = true;
    *n_tensors = 0;
    out->n = 1;
    for (uint32_t i = 0; i < all->n && ok; i++) {
        front_args one;
        ok = front_args_read(&one, &all->item[i], &err) == RP_OK;
        if (ok) memcpy(out->few_words + out->n, one.word, one.n * sizeof *one.word);
        if (ok && one.n_tensors) out->few_at[(*n_tensors)++] = out->n;
        out->n += ok ? one.n : 0;
        front_args_done(&one);
    }
    return ok;
}

static void items_are_read_as_each_alone(void **state) {
    static front_args together, each;
    uint32_t seed = 3, good = 0;
    (void)state;
    for (uint32_t i = 0; i < n_tuples; i++) {
        rp_error err = {0};
        rp_value item[MOST];
        uint32_t n = next(&seed) % MOST, tensors;
        for (uint32_t k = 0; k < n; k++) item[k] = draw_value(&seed);
        rp_value all = rp_value_tuple(item, n);
        bool ok = front_args_read(&together, &all, &err) == RP_OK;
        assert_int_equal(ok, read_each(&all, &each, &tensors));
        good += ok;
        if (ok) {
            assert_int_equal(together.n, each.n);
            assert_int_equal(together.n_tensors, tensors);
            assert_memory_equal(together.word + 1, each.few_words + 1,
                                (each.n - 1) * sizeof(uint64_t));
            assert_memory_equal(together.at, each.few_at, tensors * sizeof(uint32_t));
            for (uint32_t k = 0, t = 0; k < n; k++)
                if (item[k].kind == RP_VALUE_TENSOR)
                    assert_ptr_equal(together.tensor[t++], &item[k]);
        }
        front_args_done(&together);
    }
    assert_in_range(good, n_tuples / 8, n_tuples - n_tuples / 8);
}

/* By whatever way they are read: guards of numbers alone compare hashes first. */
static void equal_words_have_one_hash(void **state) {
    static const char *const names[] = {"x", "a longer name", ""};
    uint32_t seed = 8, differ = 0;
    uint64_t before = 0;
    (void)state;
    for (uint32_t i = 0; i < n_tuples / 4; i++) {
        rp_error err = {0};
        front_args plain, strided;
        rp_value item[MOST], turned[MOST];
        uint32_t n = 1 + next(&seed) % (MOST - 1);
        for (uint32_t k = 0; k < n; k++) {
            rp_buffer b = {RP_DTYPE_F32, next(&seed) % (RP_MAX_RANK + 1), {0}, room};
            int64_t stride[RP_MAX_RANK], step = 1;
            for (uint32_t d = b.rank; d-- > 0; step *= b.dim[d]) {
                b.dim[d] = 1 + next(&seed) % 3;
                stride[d] = step;
            }
            item[k] = turned[k] = rp_value_tensor(b);
            if (next(&seed) % 3 == 0) turned[k] = rp_value_strided(b, stride);
            if (next(&seed) % 6 == 0) item[k] = turned[k] = rp_value_string(names[k % 3]);
        }
        rp_value one = rp_value_tuple(item, n), other = rp_value_tuple(turned, n);
        CHECK_OK(front_args_read(&plain, &one, &err), &err);
        CHECK_OK(front_args_read(&strided, &other, &err), &err);
        assert_int_equal(plain.n, strided.n);
        assert_memory_equal(plain.word, strided.word, plain.n * sizeof *plain.word);
        assert_true(plain.hash == strided.hash);
        differ += plain.hash != before;
        before = plain.hash;
        front_args_done(&plain);
        front_args_done(&strided);
    }
    assert_true(differ > n_tuples / 4 - n_tuples / 40);
}

/* More than there is room for at first, of all ranks. */
static void many_items_are_read(void **state) {
    enum { MANY = 1000 };
    static rp_value item[MANY];
    front_args a;
    rp_error err = {0};
    uint32_t n = 1;
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        rp_buffer b = {RP_DTYPE_F32, i % (RP_MAX_RANK + 1), {1, 2, 3, 1, 2, 3}, room};
        item[i] = rp_value_tensor(b);
    }
    rp_value all = rp_value_tuple(item, MANY);
    CHECK_OK(front_args_read(&a, &all, &err), &err);
    assert_int_equal(a.n_tensors, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(a.tensor[i], &item[i]);
        assert_int_equal(a.at[i], n);
        assert_int_equal(front_rank(a.word[n]), i % (RP_MAX_RANK + 1));
        n += 1 + item[i].tensor.rank;
    }
    assert_int_equal(a.n, n);
    front_args_done(&a);
}

/* --- finding --------------------------------------------------------------------------------- */

static rp_status copied(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_neg(rp_jit_tensor(call, &args->item[0])));
    return RP_OK;
}

/* Entries by use, as the list is to be; each is of one size. */
typedef struct order {
    uint32_t n;
    int64_t size[SIZES];
} order;

static bool used(order *o, int64_t size) {
    uint32_t i = 0;
    while (i < o->n && o->size[i] != size) i++;
    bool there = i < o->n;
    if (!there) o->n++;
    memmove(o->size + 1, o->size, i * sizeof *o->size);
    o->size[0] = size;
    return there;
}

static void drop(order *o, uint32_t i) {
    o->n--;
    memmove(o->size + i, o->size + i + 1, (o->n - i) * sizeof *o->size);
}

static void check_order(rp_jit *f, const order *o) {
    front_entries_order(f);
    const front_entry *e = f->entries, *before = NULL;
    assert_int_equal(f->n_entries, o->n);
    for (uint32_t i = 0; i < o->n; i++, before = e, e = e->behind) {
        assert_non_null(e);
        assert_int_equal(e->guards.want[2], o->size[i]);
        assert_ptr_equal(e->before, before);
    }
    assert_null(e);
}

static front_entry *entry_at(rp_jit *f, uint32_t i) {
    front_entries_order(f);
    front_entry *e = f->entries;
    while (i-- > 0 && e) e = e->behind;
    return e;
}

/* Everything that a look-up may guess by says something else. */
static void mislead(rp_jit *f, uint32_t *seed) {
    for (uint32_t i = 0; i < FRONT_MEMO; i++)
        if (f->memo[i].entry) f->memo[i].entry = entry_at(f, next(seed) % f->n_entries);
}

static void call(rp_jit *f, int64_t size, order *o) {
    rp_value v = f32_of(room, 1, size, 0), args = rp_value_tuple(&v, 1);
    rp_output *out = jit_ok(f, &args);
    assert_int_equal(jit_result(out)->tensor.dim[0], size);
    assert_int_equal(rp_output_ran(out), used(o, size) ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
    rp_output_free(out);
}

static void entries_are_found_whatever_is_guessed(void **state) {
    rp_error err = {0};
    rp_jit_options options = jit_options(copied);
    rp_jit *f = NULL;
    order o = {0};
    uint32_t seed = 11;
    (void)state;
    options.dynamic = RP_DYNAMIC_NONE;
    options.recompile_limit = SIZES;
    CHECK_OK(jit_of(options, "level=1 threads=1", &f, &err), &err);
    for (int i = 0; i < CALLS; i++) {
        bool in_turn = i / 200 % 2; /* else at random */
        uint32_t k = in_turn ? (uint32_t)i : next(&seed);
        if (i % 50 == 7) mislead(f, &seed);
        if (i % 40 == 39) {
            uint32_t gone = next(&seed) % o.n;
            front_entry_drop(f, entry_at(f, gone));
            drop(&o, gone);
        }
        call(f, 2 + k % SIZES, &o);
        if (i % 3 == 0) check_order(f, &o);
    }
    rp_jit_reset(f);
    o.n = 0;
    call(f, 5, &o);
    check_order(f, &o);
    rp_jit_free(f);
}

/* Who found an entry, and has waited since, is told that it is gone; a look-up does not find it, by whatever way. */
static void what_was_dropped_serves_nobody(void **state) {
    rp_error err = {0};
    front_args a;
    (void)state;
    rp_jit *f = jit_at(copied, 1, RP_DYNAMIC_NONE, NULL);
    rp_value v = f32_of(room, 1, 8, 0), args = rp_value_tuple(&v, 1);
    for (int last = 0; last < 2;
         last++) { /* where another was used behind it; where it was the last */
        v.tensor.dim[0] = 8;
        rp_output_free(jit_ok(f, &args));
        v.tensor.dim[0] = 9;
        if (!last) rp_output_free(jit_ok(f, &args));
        v.tensor.dim[0] = 8;
        CHECK_OK(front_args_read(&a, &args, &err), &err);
        front_entry *e = front_entry_find(f, &a);
        assert_non_null(e);
        assert_true(front_entry_serves(f, e, &a));
        front_entry_drop(f, e);
        assert_false(front_entry_serves(f, e, &a));
        assert_null(front_entry_find(f, &a));
        const uint32_t n = f->n_entries;
        front_entry_drop(f, e); /* nothing is dropped twice */
        assert_int_equal(f->n_entries, n);
        assert_int_equal(atomic_load(&e->refs), 1); /* this one's; with the next line it is gone */
        front_entry_unref(e);
        front_args_done(&a);
    }
    rp_jit_free(f);
}

/* A hash is a reason to look no further, and never one to believe. */
static void equal_hashes_are_no_equal_words(void **state) {
    rp_error err = {0};
    front_args a;
    (void)state;
    rp_jit *f = jit_at(copied, 1, RP_DYNAMIC_NONE, NULL);
    rp_value v = f32_of(room, 1, 8, 0), args = rp_value_tuple(&v, 1);
    rp_output_free(jit_ok(f, &args));
    front_guards *g = &f->last->guards;
    for (int64_t size = 7; size < 10; size++) {
        v.tensor.dim[0] = size;
        CHECK_OK(front_args_read(&a, &args, &err), &err);
        assert_int_equal(a.hash == g->hash, size == 8);
        a.hash = g->hash;
        assert_int_equal(front_guards_hold(g, &a), size == 8);
        front_args_done(&a);
    }
    rp_jit_free(f);
}

/* An entry of a size and one of any size both serve it: the second one was used later, whatever came in between. */
static void of_several_the_last_used_serves(void **state) {
    rp_error err = {0};
    rp_jit_options options = jit_options(copied);
    rp_jit *f = NULL;
    (void)state;
    CHECK_OK(jit_of(options, "level=1 threads=1", &f, &err), &err);
    static const struct {
        uint32_t rank;
        int64_t size;
        uint32_t number; /* of the entry */
    } calls[] = {{1, 8, 0}, {1, 16, 1}, {2, 4, 2}, {1, 8, 1}, {2, 4, 2}, {1, 12, 1}, {2, 4, 2}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        rp_value v = f32_of(room, calls[i].rank, calls[i].size, 2), args = rp_value_tuple(&v, 1);
        rp_output_free(jit_ok(f, &args));
        assert_int_equal(f->last->number, calls[i].number);
    }
    rp_jit_free(f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_read_as_each_alone),
        cmocka_unit_test(equal_words_have_one_hash),
        cmocka_unit_test(many_items_are_read),
        cmocka_unit_test(entries_are_found_whatever_is_guessed),
        cmocka_unit_test(what_was_dropped_serves_nobody),
        cmocka_unit_test(equal_hashes_are_no_equal_words),
        cmocka_unit_test(of_several_the_last_used_serves),
    };
    if (argc > 1) n_tuples = (uint32_t)atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
