/* call, cond, while and scan on an emulated GPU: the bits of the cpu with and without passes, where the host reads back what decides,
 * and as graphs, in which the GPU decides at each replay. */
#include "support/both_gpu.h"
#include "support/control_cases.h"
#include "support/gpu.h"

#include "compile/builtin.h"
#include "plan/exec.h"

static void equals_the_cpu(const char *text, void *user) {
    rp_error err = {0};
    uint64_t seed = user ? *(const uint64_t *)user : 1;
    both b = both_of(text, seed);
    both_agree(&b, text, 1e-3);
    for (int how = 0; how < 2 + gpu_may_branch(); how++) {
        plan_run_options o = both_on_gpu(how > 0, true);
        plan_run more = {0};
        o.as_graph = how == 2;
        if (plan_run_graph(b.g, &b.l, &o, &more, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
        const char *d = plan_run_differs(b.g, &more, &b.code);
        if (d) fail_msg("%s: passes %d, graph %d: %s", text, how > 0, how == 2, d);
        plan_run_done(&more);
    }
    both_done(&b);
}

static void cases_equal_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    control_each(equals_the_cpu, NULL);
}

static void wide_bodies_equal_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    for (uint64_t seed = 1; seed < 4; seed++) equals_the_cpu(control_wide, &seed);
}

static void random_ones_equal_the_cpu(void **state) {
    random_graph_options opt = RANDOM_GRAPH_ALL;
    (void)state;
    NEEDS_GPU();
    opt.control = true;
    opt.n_steps = 5;
    for (uint64_t seed = 7001; seed < 7007; seed++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        base_buf text;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        base_buf_init(&text, 0);
        ir_print(g, &text);
        equals_the_cpu(text.data, &seed);
        base_buf_done(&text);
        ir_graph_free(g);
    }
}

/* --- replays ------------------------------------------------------------------------------- */

/* Doubles x until it is at least 100, and negates it where p, which both branches then change. */
static const char counts[] =
    "graph @counts(%x: f32[], %p: bool[] mutates) {\n"
    "  %w = while %x {cond=graph @small(%x: f32[]) { %h = const 100 %m = lt %x, %h ret %m },\n"
    "                 body=graph @twice(%x: f32[]) { %y = add %x, %x ret %y }}\n"
    "  %r = cond %p, %w, %p {then=graph @minus(%x: f32[], %p: bool[] mutates) {\n"
    "        %n = not %p %q = update %p, %n %y = neg %x ret %y },\n"
    "      else=graph @same(%x: f32[], %p: bool[] mutates) {\n"
    "        %n = not %p %q = update %p, %n ret %x }}\n"
    "  ret %r\n"
    "}\n";

typedef struct loaded {
    plan *p;
    hal_device *d;
    plan_exec *x;
    plan_bound *b;
    float *in, *out;
    uint8_t *pred;
} loaded;

static rp_status mapped(loaded *l, plan_seg seg, uint32_t i, size_t size, void *out,
                        rp_error *err) {
    void *at = NULL;
    RP_TRY(l->d->ops->alloc(l->d, HAL_MAPPED_MEMORY, size, &at, err));
    memcpy(out, &at, sizeof at);
    plan_exec_set(l->x, seg, i, at);
    return RP_OK;
}

static rp_status load(loaded *l, const char *text, rp_error *err) {
    ir_graph *g = NULL;
    compile_options o = {.backend = &compile_cuda,
                         .store = host.store,
                         .nvrtc = &gpu.nvrtc,
                         .threads = 1,
                         .passes = true};
    RP_TRY(ir_parse(text, strlen(text), &g, err));
    rp_status st = compile_graph(g, &o, &l->p, NULL, err);
    ir_graph_free(g);
    RP_TRY(st);
    RP_TRY(hal_open("cuda:0", 1, &l->d, err));
    plan_exec_options xo = {.device = l->d, .store = host.store, .builtin = compile_builtin_find};
    RP_TRY(plan_exec_new(l->p, &xo, &l->x, err));
    RP_TRY(plan_bound_new(l->x, 0, l->p->n_pieces, &l->b, err));
    RP_TRY(mapped(l, PLAN_INPUT, 0, sizeof *l->in, &l->in, err));
    RP_TRY(mapped(l, PLAN_INPUT, 1, 1, &l->pred, err));
    RP_TRY(mapped(l, PLAN_OUTPUT, 0, sizeof *l->out, &l->out, err));
    return plan_exec_bind(l->x, l->b, NULL, err);
}

static void unload(loaded *l) {
    plan_bound_free(l->b);
    plan_exec_free(l->x);
    l->d->ops->release(l->d, l->in, sizeof *l->in);
    l->d->ops->release(l->d, l->pred, 1);
    l->d->ops->release(l->d, l->out, sizeof *l->out);
    hal_close(l->d);
    plan_free(l->p);
}

static void a_graph_decides_anew(void **state) {
    rp_error err = {0};
    loaded l = {0};
    hal_graph *g = NULL;
    (void)state;
    NEEDS_GPU();
    CHECK_OK(load(&l, counts, &err), &err);
    CHECK_OK(l.d->ops->graph_build(l.d, l.b->launches, l.b->n, l.b->scratch, "g", &g, &err), &err);
    for (int i = 0; i < 8; i++) {
        float x = *l.in = (float)(1 + 60 * i);
        *l.pred = (uint8_t)(i % 3 ? 0 : i + 1); /* any byte but 0 is true */
        while (x < 100) x += x;
        CHECK_OK(l.d->ops->graph_launch(g, &err), &err);
        CHECK_OK(l.d->ops->synchronize(l.d, &err), &err);
        assert_true(*l.out == (i % 3 ? x : -x));
        assert_int_equal(*l.pred, i % 3 != 0);
    }
    assert_int_equal(hal_device_counters(l.d)->graph_launches, 8);
    assert_int_equal(hal_device_counters(l.d)->launches, 0);
    l.d->ops->graph_free(g);
    unload(&l);
}

/* A limit is counted by the host alone. */
static void a_limit_is_for_the_host(void **state) {
    rp_error err = {0};
    loaded l = {0};
    hal_graph *g = NULL;
    (void)state;
    NEEDS_GPU();
    CHECK_OK(load(&l, control_decides, &err), &err);
    *l.in = 3;
    CHECK_OK(l.d->ops->launch(l.d, l.b->launches, l.b->n, l.b->scratch, &err), &err);
    CHECK_OK(l.d->ops->synchronize(l.d, &err), &err);
    assert_true(*l.out == 192);
    *l.in = 0;
    assert_int_equal(l.d->ops->launch(l.d, l.b->launches, l.b->n, l.b->scratch, &err), RP_INVALID);
    assert_string_equal(err.text, "while: cond @small still holds after 20 iterations, its limit");
    err = (rp_error){0};
    assert_int_equal(l.d->ops->graph_build(l.d, l.b->launches, l.b->n, l.b->scratch, "g", &g, &err),
                     RP_UNSUPPORTED);
    assert_string_equal(err.text, "while: a graph of a GPU does not count iterations of @twice, "
                                  "whose limit is 20");
    assert_false(hal_capturing(l.d));
    *l.in = 70; /* the queue is well */
    CHECK_OK(l.d->ops->launch(l.d, l.b->launches, l.b->n, l.b->scratch, &err), &err);
    CHECK_OK(l.d->ops->synchronize(l.d, &err), &err);
    assert_true(*l.out == 140);
    unload(&l);
}

static void long_scans_are_for_the_host(void **state) {
    static const char text[] =
        "graph @s(%x: f32[], %p: bool[]) {\n"
        "  %r = scan %x, %p {carried=1, sliced=0, length=9000, body=graph @half(\n"
        "      %x: f32[], %p: bool[]) { %h = const 0x1p-1 %y = mul %x, %h ret %y }}\n"
        "  ret %r\n"
        "}\n";
    rp_error err = {0};
    loaded l = {0};
    hal_graph *g = NULL;
    (void)state;
    NEEDS_GPU();
    CHECK_OK(load(&l, text, &err), &err);
    assert_int_equal(l.d->ops->graph_build(l.d, l.b->launches, l.b->n, l.b->scratch, "g", &g, &err),
                     RP_UNSUPPORTED);
    assert_string_equal(err.text, "scan: 9000 iterations of @half are more than a graph of a GPU "
                                  "takes, 8192");
    *l.in = 1;
    CHECK_OK(l.d->ops->launch(l.d, l.b->launches, l.b->n, l.b->scratch, &err), &err);
    CHECK_OK(l.d->ops->synchronize(l.d, &err), &err);
    assert_true(*l.out == 0);
    unload(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_equal_the_cpu),       cmocka_unit_test(wide_bodies_equal_the_cpu),
        cmocka_unit_test(random_ones_equal_the_cpu), cmocka_unit_test(a_graph_decides_anew),
        cmocka_unit_test(a_limit_is_for_the_host),   cmocka_unit_test(long_scans_are_for_the_host),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
