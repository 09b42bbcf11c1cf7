/* Plans as bytes: what is saved comes back, and no other bytes do harm. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "support/plans.h"

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static bytes save(const plan *p) {
    rp_error err = {0};
    bytes b = {0};
    CHECK_OK(plan_save(p, &b.data, &b.n, &err), &err);
    return b;
}

static char *text_of(const plan *p) {
    base_buf b;
    base_buf_init(&b, 0);
    plan_print(p, &b);
    assert_false(b.failed);
    return base_buf_take(&b);
}

static ir_graph *custom_graph(void) {
    static const char text[] = "graph @c(%x: f32[T,8]) -> f32[T,8] where T in [1,64] {\n"
                               "  %0 = neg %x : f32[T,8]\n"
                               "  %1 = custom %0 {name=\"plan_file::twice\"} : f32[T,8]\n"
                               "  %2 = neg %1 : f32[T,8]\n"
                               "  ret %2\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    return g;
}

static rp_status twice(void *user, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)user, (void)args, (void)n, (void)err;
    return RP_OK;
}

static plan *plan_with_custom(void) {
    ir_graph *g = custom_graph();
    plan *p = plan_of(g);
    ir_graph_free(g);
    return p;
}

static void check_round_trip(plan *p) {
    rp_error err = {0};
    plan *q = NULL;
    bytes a = save(p);
    CHECK_OK(plan_load(a.data, a.n, &q, &err), &err);
    bytes b = save(q);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    char *s = text_of(p), *t = text_of(q);
    assert_string_equal(s, t);
    base_free(s);
    base_free(t);
    base_free(a.data);
    base_free(b.data);
    plan_free(q);
    plan_free(p);
}

static void saved_plans_come_back(void **state) {
    (void)state;
    check_round_trip(plan_of_llama(1));
    check_round_trip(plan_of_llama(5));
    check_round_trip(plan_with_custom());
    check_round_trip(plan_new("empty"));
}

/* Law 9 in small: built twice, with other memory around, the bytes are the same. */
static void equal_plans_are_equal_bytes(void **state) {
    (void)state;
    plan *p = plan_of_llama(3);
    void *gap = base_alloc(12345);
    memset(gap, 0xa5, 12345);
    base_free(gap);
    plan *q = plan_of_llama(3);
    bytes a = save(p), b = save(q);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    base_free(a.data);
    base_free(b.data);
    plan_free(p);
    plan_free(q);
}

/* RP_CORRUPT, or a plan that verifies and saves to the same bytes. */
static bool check_bytes(const char *data, size_t n) {
    rp_error err = {0};
    plan *q = NULL;
    rp_status st = plan_load(data, n, &q, &err);
    if (st != RP_OK) {
        if (st != RP_CORRUPT) fail_msg("%s: %s", rp_status_name(st), err.text);
        assert_true(err.text[0] && !strchr(err.text, '\n'));
        return false;
    }
    CHECK_OK(plan_verify(q, &err), &err);
    bytes b = save(q);
    assert_int_equal(b.n, n);
    assert_memory_equal(b.data, data, n);
    base_free(b.data);
    plan_free(q);
    return true;
}

static void every_cut_is_corrupt(void **state) {
    plan *p = plan_of_llama(2);
    bytes a = save(p);
    (void)state;
    for (size_t n = 0; n < a.n; n++) assert_false(check_bytes(a.data, n));
    char *longer = base_alloc(a.n + 1);
    memcpy(longer, a.data, a.n);
    assert_false(check_bytes(longer, a.n + 1));
    base_free(longer);
    base_free(a.data);
    plan_free(p);
}

static void check_flips(plan *p) {
    bytes a = save(p);
    size_t n_loaded = 0;
    for (size_t i = 0; i < a.n; i++)
        for (int bit = 0; bit < 9; bit++) {
            char was = a.data[i];
            a.data[i] = bit < 8 ? (char)(was ^ 1 << bit) : (char)~was;
            n_loaded += check_bytes(a.data, a.n);
            a.data[i] = was;
        }
    print_message("%zu bytes: %zu of %zu flips gave a plan\n", a.n, n_loaded, 9 * a.n);
    base_free(a.data);
    plan_free(p);
}

static void every_flip_is_harmless(void **state) {
    (void)state;
    check_flips(plan_of_llama(1));
    check_flips(plan_with_custom());
}

/* Counts of 4 GiB at every place of the file must not become allocations: loading takes a bounded multiple of the input. */
/* Each use of each value, before and after its life. */
static void uses_outside_of_a_life_are_refused(void **state) {
    uint32_t tried = 0;
    (void)state;
    plan *p = plan_with_custom();
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_args; a++) {
            const plan_arg *arg = &p->launches[i].args[a];
            if (arg->seg != PLAN_ARENA) continue;
            plan_value *v = &p->values[arg->idx], good = *v;
            for (int late = 0; late < 2; late++) {
                rp_error err = {0};
                if (late ? i == 0 || v->first == i : i + 1 == p->n_launches || v->last == i)
                    continue;
                if (late)
                    v->last = i - 1;
                else
                    v->first = i + 1;
                assert_int_equal(plan_verify(p, &err), RP_CORRUPT);
                assert_non_null(strstr(err.text, "outside its life"));
                *v = good;
                tried++;
            }
        }
    assert_true(tried >= 2);
    plan_free(p);
}

static void memory_is_proportional_to_the_input(void **state) {
    plan *p = plan_of_llama(1);
    bytes a = save(p);
    size_t most = 0;
    (void)state;
    for (size_t i = 8; i + 4 <= a.n; i++) {
        char was[4];
        rp_error err = {0};
        plan *q = NULL;
        memcpy(was, a.data + i, 4);
        memcpy(a.data + i, "\x00\x00\x01\x00", 4);
        if (plan_load(a.data, a.n, &q, &err) == RP_OK) {
            if (base_arena_used(q->arena) > most) most = base_arena_used(q->arena);
            plan_free(q);
        }
        memcpy(a.data + i, was, 4);
    }
    assert_true(most < 40 * a.n);
    base_free(a.data);
    plan_free(p);
}

static void failed_allocations_leave_nothing(void **state) {
    plan *p = plan_of_llama(1);
    bytes a = save(p);
    size_t live = base_live();
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        plan *q = NULL;
        rp_status st = plan_load(a.data, a.n, &q, &err);
        if (st == RP_OK)
            plan_free(q);
        else
            assert_int_equal(st, RP_NOMEM);
        assert_int_equal(base_live(), live);
    }
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        bytes b = {0};
        rp_status st = plan_save(p, &b.data, &b.n, &err);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        base_free(b.data);
        assert_int_equal(base_live(), live);
    }
    base_free(a.data);
    plan_free(p);
}

static void text_tells_the_whole_plan(void **state) {
    plan *p = plan_of_llama(2);
    char *s = text_of(p);
    (void)state;
    assert_non_null(strstr(s, "plan small: 5 pieces, 3 compiled, 3 distinct,"));
    assert_non_null(strstr(s, "symbol T in [1,64]\n"));
    assert_non_null(strstr(s, "l0.q [64] | l0.k [32] | l0.v [32]\n"));
    assert_non_null(strstr(s, "l0.gate l0.up [96]\n"));
    assert_non_null(strstr(s, "submod_3, splitting, same as submod_1:\n"));
    for (uint32_t i = 0; i < p->n_launches; i++) assert_non_null(strstr(s, p->launches[i].name));
    base_free(s);
    plan_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_plans_come_back),
        cmocka_unit_test(equal_plans_are_equal_bytes),
        cmocka_unit_test(every_cut_is_corrupt),
        cmocka_unit_test(every_flip_is_harmless),
        cmocka_unit_test(uses_outside_of_a_life_are_refused),
        cmocka_unit_test(memory_is_proportional_to_the_input),
        cmocka_unit_test(failed_allocations_leave_nothing),
        cmocka_unit_test(text_tells_the_whole_plan),
    };
    rp_op_desc desc = {.size = sizeof desc, .name = "plan_file::twice", .cpu = twice};
    rp_error err = {0};
    if (rp_op_register(&desc, &err) != RP_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
