/* call, cond, while and scan compiled: as the interpreter says, and eager the same bits, for any number of threads; captured
 * lists decide anew at each replay; plans with plans inside are stored, shared and fail as others. */
#include "support/both.h"
#include "support/control_cases.h"

#include "compile/builtin.h"
#include "plan/exec.h"

static void agree_on_threads(const char *text, uint64_t seed, uint32_t threads) {
    rp_error err = {0};
    both b = both_of(text, seed);
    plan_run_options o = both_compiled(gen_isa_best());
    plan_run more = {0};
    both_agree(&b, text, 1e-5);
    o.threads = threads;
    CHECK_OK(plan_run_graph(b.g, &b.l, &o, &more, &err), &err);
    const char *d = plan_run_differs(b.g, &more, &b.eager);
    if (d) fail_msg("%s: %u threads: %s", text, threads, d);
    plan_run_done(&more);
    both_done(&b);
}

static void agree_on_three(const char *text, void *user) {
    (void)user;
    for (uint64_t seed = 1; seed < 4; seed++) agree_on_threads(text, seed, 3);
}

static void cases_agree(void **state) {
    (void)state;
    control_each(agree_on_three, NULL);
}

static void wide_bodies_agree(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 9; seed++)
        agree_on_threads(control_wide, seed, 1 + (uint32_t)seed % 4);
}

/* Sizes of a body are in another order than those around it. */
static const char *const turned_sizes[] = {
    "graph @two(%p: bool[], %a: f32[A], %b: f32[B]) where A in [1,9], B in [10,30] {\n"
    "  %r = cond %p, %b, %a {\n"
    "    then=graph @f(%b: f32[B], %a: f32[A]) where B in [10,30], A in [1,9] {\n"
    "      %s = sum %b {axis=0} ret %s },\n"
    "    else=graph @g(%b: f32[B], %a: f32[A]) where B in [10,30], A in [1,9] {\n"
    "      %s = sum %a {axis=0} ret %s }}\n"
    "  ret %r\n"
    "}\n",
    "graph @three(%h: f32[A], %b: f32[B], %xs: f32[T,C])\n"
    "    where A in [1,9], B in [10,30], C in [31,60], T in [1,4] {\n"
    "  %r = scan %h, %xs, %b {carried=1, sliced=1,\n"
    "    body=graph @step(%h: f32[A], %x: f32[C], %b: f32[B])\n"
    "        where C in [31,60], B in [10,30], A in [1,9] {\n"
    "      %s = sum %x {axis=0, keep=true}\n"
    "      %m = amax %b {axis=0, keep=true}\n"
    "      %t = mul %s, %m\n"
    "      %n = add %h, %t\n"
    "      ret %n, %s }}\n"
    "  %sums = result %r {index=1}\n"
    "  ret %r, %sums\n"
    "}\n"};

static void bodies_have_sizes_in_their_own_order(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) agree_on_three(turned_sizes[i], NULL);
}

/* --- 512 steps ------------------------------------------------------------------------ */

#define STEP                  \
    "  %d = mul %h, %a\n"     \
    "  %in = mul %x, %b\n"    \
    "  %new = add %d, %in\n"  \
    "  %out = mul %new, %c\n" \
    "  %y = sum %out {axis=0}\n"

static const char recurrence[] =
    "graph @ssm(%h: f32[16], %xs: f32[512], %a: f32[16], %b: f32[16], %c: f32[16]) {\n"
    "  %r = scan %h, %xs, %a, %b, %c {carried=1, sliced=1, body=graph @step(\n"
    "      %h: f32[16], %x: f32[], %a: f32[16], %b: f32[16], %c: f32[16]) {\n" STEP
    "  ret %new, %y }}\n"
    "  %ys = result %r {index=1}\n"
    "  ret %ys, %r\n"
    "}\n";

static char *unrolled(void) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "graph @ssm(%h0: f32[16], %xs: f32[512], %a: f32[16], %b: f32[16], %c: "
                      "f32[16]) {\n");
    for (int t = 0; t < 512; t++)
        base_buf_printf(&b,
                        "  %%x%d = slice %%xs {axis=0, start=%d, stop=%d}\n"
                        "  %%d%d = mul %%h%d, %%a\n"
                        "  %%i%d = mul %%x%d, %%b\n"
                        "  %%h%d = add %%d%d, %%i%d\n"
                        "  %%o%d = mul %%h%d, %%c\n"
                        "  %%y%d = sum %%o%d {axis=0, keep=true}\n",
                        t, t, t + 1, t, t, t, t, t + 1, t, t, t, t + 1, t, t);
    base_buf_puts(&b, "  %ys = concat ");
    for (int t = 0; t < 512; t++) base_buf_printf(&b, t ? ", %%y%d" : "%%y%d", t);
    base_buf_puts(&b, " {axis=0}\n  ret %ys, %h512\n}\n");
    assert_false(b.failed);
    return base_buf_take(&b);
}

static void a_recurrence_equals_its_steps(void **state) {
    rp_error err = {0};
    char *text = unrolled();
    both a = both_of(recurrence, 7), b = both_of(text, 7);
    (void)state;
    both_agree(&a, "scan", 1e-5);
    CHECK_OK(both_run(&b, gen_isa_best(), &err), &err);
    assert_null(both_differ(&b));
    const char *d = plan_run_differs(a.g, &a.code, &b.code);
    if (d) fail_msg("unrolled: %s", d);
    both_done(&a);
    both_done(&b);
    base_free(text);
}

static rp_status compile(const char *text, bool eager, plan **out, compile_stats *stats,
                         rp_error *err) {
    static const compile_toolchain none;
    ir_graph *g = NULL;
    compile_options o = {.backend = eager ? &compile_eager : &compile_inductor,
                         .isa = gen_isa_best(),
                         .toolchain = eager ? &none : &host.toolchain,
                         .store = eager ? NULL : host.store,
                         .threads = 1,
                         .passes = !eager};
    RP_TRY(ir_parse(text, strlen(text), &g, err));
    rp_status st = compile_graph(g, &o, out, stats, err);
    ir_graph_free(g);
    return st;
}

static void a_body_is_compiled_once(void **state) {
    rp_error err = {0};
    compile_stats stats = {0};
    plan *p = NULL;
    (void)state;
    CHECK_OK(compile(recurrence, false, &p, &stats, &err), &err);
    assert_int_equal(p->n_inner, 1);
    assert_true(p->n_launches <= 2 && p->inner[0]->n_launches <= 4);
    assert_true(stats.kernels >= 1 && stats.kernels <= 4);
    plan_free(p);
}

/* --- plans with plans inside -------------------------------------------------------------- */

typedef struct loaded {
    plan *p;
    hal_device *d;
    plan_exec *x;
    plan_bound *b;
    float in, out;
    uint8_t pred;
} loaded;

static rp_status load(loaded *l, bool eager, rp_error *err) {
    plan *made = NULL;
    char *bytes = NULL, *again = NULL;
    size_t size, size_again;
    rp_status st = compile(control_decides, eager, &made, NULL, err);
    if (st == RP_OK) st = plan_save(made, &bytes, &size, err);
    if (st == RP_OK) st = plan_load(bytes, size, &l->p, err);
    if (st == RP_OK) st = plan_save(l->p, &again, &size_again, err);
    if (st == RP_OK && (size != size_again || memcmp(bytes, again, size) != 0))
        st = rp_fail(err, RP_INTERNAL, "a plan saves to other bytes than it was read from");
    base_free(bytes);
    base_free(again);
    plan_free(made);
    RP_TRY(st);
    RP_TRY(hal_open("cpu", 2, &l->d, err));
    plan_exec_options o = {.device = l->d, .store = host.store, .builtin = compile_builtin_find};
    RP_TRY(plan_exec_new(l->p, &o, &l->x, err));
    RP_TRY(plan_bound_new(l->x, 0, l->p->n_pieces, &l->b, err));
    plan_exec_set(l->x, PLAN_INPUT, 0, &l->in);
    plan_exec_set(l->x, PLAN_INPUT, 1, &l->pred);
    plan_exec_set(l->x, PLAN_OUTPUT, 0, &l->out);
    return plan_exec_bind(l->x, l->b, NULL, err);
}

static void unload(loaded *l) {
    plan_bound_free(l->b);
    plan_exec_free(l->x);
    hal_close(l->d);
    plan_free(l->p);
}

static void a_captured_list_decides_anew(void **state) {
    (void)state;
    for (int eager = 0; eager < 2; eager++) {
        rp_error err = {0};
        loaded l = {.in = 1};
        hal_graph *g = NULL;
        CHECK_OK(load(&l, eager, &err), &err);
        CHECK_OK(l.d->ops->graph_build(l.d, l.b->launches, l.b->n, l.b->scratch, "g", &g, &err),
                 &err);
        for (int i = 0; i < 8; i++) {
            float x = l.in = (float)(1 + 60 * i);
            l.pred = i % 2;
            while (x < 100) x += x;
            CHECK_OK(l.d->ops->graph_launch(g, &err), &err);
            assert_true(l.out == (i % 2 ? -x : x));
        }
        l.in = 100 * 0x1p-20F; /* as many iterations as there may be */
        CHECK_OK(l.d->ops->graph_launch(g, &err), &err);
        assert_true(l.out == -100);
        l.in = 99 * 0x1p-20F;
        assert_int_equal(l.d->ops->graph_launch(g, &err), RP_INVALID);
        assert_string_equal(err.text,
                            "while: cond @small still holds after 20 iterations, its limit");
        l.d->ops->graph_free(g);
        unload(&l);
    }
}

static void executors_of_a_family_have_their_own(void **state) {
    rp_error err = {0};
    loaded l = {.in = 3};
    plan_exec *x = NULL;
    plan_bound *b = NULL;
    hal_device *d = NULL;
    float out = 0, in = 70;
    uint8_t yes = 1;
    (void)state;
    CHECK_OK(load(&l, false, &err), &err);
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    CHECK_OK(plan_exec_again(l.x, d, &x, &err), &err);
    CHECK_OK(plan_bound_new(x, 0, l.p->n_pieces, &b, &err), &err);
    plan_exec_set(x, PLAN_INPUT, 0, &in);
    plan_exec_set(x, PLAN_INPUT, 1, &yes);
    plan_exec_set(x, PLAN_OUTPUT, 0, &out);
    CHECK_OK(plan_exec_bind(x, b, NULL, &err), &err);
    CHECK_OK(l.d->ops->launch(l.d, l.b->launches, l.b->n, l.b->scratch, &err), &err);
    CHECK_OK(d->ops->launch(d, b->launches, b->n, b->scratch, &err), &err);
    assert_true(l.out == 192 && out == -140);
    plan_bound_free(b);
    plan_exec_free(x);
    hal_close(d);
    unload(&l);
}

static void every_allocation_may_fail(void **state) {
    size_t live = base_live();
    uint64_t failures = 0;
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        loaded l = {.in = 3};
        rp_status st = load(&l, true, &err);
        if (st == RP_OK) st = l.d->ops->launch(l.d, l.b->launches, l.b->n, l.b->scratch, &err);
        assert_true(st == RP_OK ? l.out == 192 : st == RP_NOMEM || st == RP_DEVICE);
        failures += st != RP_OK;
        unload(&l);
        assert_int_equal(base_live(), live);
    }
    assert_true(failures > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_agree),
        cmocka_unit_test(wide_bodies_agree),
        cmocka_unit_test(bodies_have_sizes_in_their_own_order),
        cmocka_unit_test(a_recurrence_equals_its_steps),
        cmocka_unit_test(a_body_is_compiled_once),
        cmocka_unit_test(a_captured_list_decides_anew),
        cmocka_unit_test(executors_of_a_family_have_their_own),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
