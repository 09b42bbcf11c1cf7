/* The autotuner on a GPU: blocks of another size by a clock that is set, kept for the next process, and the same bits. */
#include "support/both_gpu.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
#include "compile/tune.h"

static const char *fastest;
static uint32_t n_read;

static rp_status by_choice(void *user, const compile_trial *t, int64_t *ns, rp_error *err) {
    base_buf b;
    (void)user;
    (void)err;
    base_buf_init(&b, 0);
    lower_choice_print(t->choice, false, &b);
    *ns = (b.len && strcmp(b.data, fastest) == 0 ? 1000 : 2000) * (int64_t)t->n;
    assert_true(t->launches->threads > 0);
    base_buf_done(&b);
    n_read++;
    return RP_OK;
}

static plan_run ran(const ir_graph *g, const random_leaves *v, hal_device *d, compile_tuner *t) {
    plan_run_options o = both_on_gpu(true, false);
    rp_error err = {0};
    plan_run r = {0};
    o.open = d;
    o.tuner = t;
    CHECK_OK(plan_run_graph(g, v, &o, &r, &err), &err);
    compile_tuner_done(t);
    return r;
}

static void blocks_of_any_size_give_the_same_bits(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[5,700]) -> f32[5,700] {\n  %0 = exp %x\n"
        "  %1 = sum %0 {axis=1, keep=true}\n  %2 = div %0, %1\n  ret %2\n}\n",
        "graph @g(%x: f32[T,90]) -> f32[T,90] where T in [1,64] {\n  %0 = tanh %x\n  ret %0\n}\n"};
    static const char *const choices[] = {"threads=32", "threads=128", "threads=1024"};
    hal_device *d = NULL;
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        random_leaves v = {0};
        ir_graph *g = NULL;
        CHECK_OK(ir_parse(texts[i], strlen(texts[i]), &g, &err), &err);
        CHECK_OK(random_leaves_new(g, 3, &v, &err), &err);
        plan_run want = ran(g, &v, d, NULL);
        for (size_t c = 0; c < sizeof choices / sizeof *choices; c++) {
            char path[400];
            (void)snprintf(path, sizeof path, "%s/objects/tuning", cache_store_dir(host.store));
            tree_list files = tree_files(path);
            for (size_t k = 0; k < files.n; k++) {
                char one[800];
                (void)snprintf(one, sizeof one, "%s/%s", path, files.path[k]);
                assert_int_equal(base_path_remove(one, NULL), RP_OK);
            }
            tree_list_free(&files);
            fastest = choices[c];
            n_read = 0;
            compile_tuner t = {
                .device = d, .list = true, .budget = INT64_MAX / 2, .time = by_choice};
            plan_run got = ran(g, &v, d, &t);
            assert_true(n_read > 0);
            const char *differs = plan_run_differs(g, &want, &got);
            if (differs) fail_msg("%s: %s in\n%s", choices[c], differs, texts[i]);
            plan_run_done(&got);
            n_read = 0;
            got = ran(g, &v, d, &t);
            assert_int_equal(n_read, 0);
            plan_run_done(&got);
        }
        plan_run_done(&want);
        random_leaves_done(&v);
        ir_graph_free(g);
    }
    hal_close(d);
}

/* By the events of the device. */
static void readings_come_from_the_device(void **state) {
    static const char text[] =
        "graph @g(%x: f32[3,40]) -> f32[3,40] {\n  %0 = exp %x\n  ret %0\n}\n";
    hal_device *d = NULL;
    random_leaves v = {0};
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(random_leaves_new(g, 3, &v, &err), &err);
    compile_tuner t = {.device = d, .list = true, .budget = INT64_MAX / 2};
    const uint64_t before = compile_tune_readings();
    plan_run r = ran(g, &v, d, &t);
    assert_true(compile_tune_readings() > before);
    plan_run_done(&r);
    random_leaves_done(&v);
    ir_graph_free(g);
    hal_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_any_size_give_the_same_bits),
        cmocka_unit_test(readings_come_from_the_device),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
