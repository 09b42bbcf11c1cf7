#include "support/gpu_graphs.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/check.h"
#include "support/gpu.h"
#include "support/hasty.h"
#include "support/op_grid.h"
#include "support/trees.h"

enum { MOST_JOBS = 16 };

bool gpu_graphs_open(gpu_graphs_mode mode, gpu_graphs *out) {
    hal_device_info info = {.arch = "sm_90"};
    memset(out, 0, sizeof *out);
    if (mode == GPU_GRAPHS_RUN && hal_open("cuda:0", 1, &out->device, NULL) != RP_OK) return false;
    if (out->device) out->device->ops->info(out->device, &info);
    if (compile_nvrtc_find(info.arch, &out->nvrtc, NULL) == RP_OK &&
        tree_make(out->folder, sizeof out->folder) == 0 &&
        cache_store_open(out->folder, &out->store, NULL) == RP_OK) {
        if (!out->device) hasty_nvrtc(&out->nvrtc.api);
        return true;
    }
    gpu_graphs_close(out);
    return false;
}

void gpu_graphs_close(gpu_graphs *q) {
    for (uint32_t i = 0; i < q->n; i++) ir_graph_free(q->graph[i]);
    cache_store_close(q->store);
    compile_nvrtc_done(&q->nvrtc);
    if (q->device) hal_close(q->device);
    if (*q->folder && base_path_remove(q->folder, NULL) != RP_OK)
        (void)fprintf(stderr, "%s is left behind\n", q->folder);
    q->n = 0;
}

static bool calls_host(const ir_graph *g) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        if (ir_op_run_by_host(ir_node_at(g, r)->op)) return true;
    return false;
}

void gpu_graphs_add(gpu_graphs *q, ir_graph *g, bool special) {
    if (calls_host(g)) {
        ir_graph_free(g);
        q->n_host++;
        return;
    }
    assert_true(q->n < GPU_GRAPHS_MOST);
    q->special[q->n] = special;
    q->graph[q->n++] = g;
}

void gpu_graphs_add_text(gpu_graphs *q, const char *text, bool special) {
    rp_error err = {0};
    ir_graph *g = NULL;
    if (ir_parse(text, strlen(text), &g, &err) != RP_OK) fail_msg("%s\n%s", err.text, text);
    gpu_graphs_add(q, g, special);
}

static bool report(const gpu_graphs *q, uint32_t i, const char *why) {
    base_buf text;
    base_buf_init(&text, 0);
    ir_print(q->graph[i], &text);
    printf("%s\ngraph %u: %s\n", text.failed ? "" : text.data, i, why);
    base_buf_done(&text);
    return true;
}

/* A size of more terms than a plan holds is refused on every target. */
static bool is_too_long(rp_status st, const rp_error *err) {
    return st == RP_UNSUPPORTED && strstr(err->text, "a size of more than");
}

/* --- compiling --------------------------------------------------------------------- */

static bool does_not_compile(const gpu_graphs *q, uint32_t i) {
    const compile_options o = {.backend = &compile_cuda,
                               .store = q->store,
                               .nvrtc = &q->nvrtc,
                               .threads = 1,
                               .passes = true,
                               .exact = true};
    rp_error err = {0};
    plan *p = NULL;
    rp_status st = compile_graph(q->graph[i], &o, &p, NULL, &err);
    if (is_too_long(st, &err)) return false;
    if (st != RP_OK) return report(q, i, err.text);
    plan_free(p);
    return false;
}

/* Job number `job` of n, in a process of its own. */
static void compile_share(const gpu_graphs *q, uint32_t job, uint32_t n) {
    gpu_graphs own = *q;
    bool bad = cache_store_open(q->folder, &own.store, NULL) != RP_OK;
    for (uint32_t i = job; !bad && i < q->n; i += n) bad = does_not_compile(&own, i);
    (void)fflush(stdout);
    _exit(bad);
}

/* --- running ------------------------------------------------------------------------ */

static bool has_graphs(const ir_graph *g) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        if (ir_node_graph(ir_node_at(g, r), 0)) return true;
    return false;
}

static bool differs(const gpu_graphs *q, uint32_t i) {
    static const compile_toolchain none;
    plan_run_options cuda = {.backend = &compile_cuda,
                             .store = q->store,
                             .nvrtc = &q->nvrtc,
                             .open = q->device,
                             .threads = 1,
                             .passes = true,
                             .exact = true,
                             .watch = i % 2};
    plan_run_options eager = {
        .backend = &compile_eager, .isa = gen_isa_best(), .toolchain = &none, .threads = 1};
    plan_run got = {0}, want = {0};
    random_leaves l;
    rp_error err = {0};
    CHECK_OK(random_leaves_new(q->graph[i], i + 3, &l, &err), &err);
    if (q->special[i]) op_grid_special(q->graph[i], &l);
    rp_status st = plan_run_graph(q->graph[i], &l, &eager, &want, &err);
    if (st == RP_OK) st = plan_run_graph(q->graph[i], &l, &cuda, &got, &err);
    const char *why = st == RP_OK ? plan_run_differs(q->graph[i], &want, &got) : err.text;
    if (!why && gpu_may_branch() && has_graphs(q->graph[i])) {
        plan_run_done(&got);
        cuda.as_graph = true;
        st = plan_run_graph(q->graph[i], &l, &cuda, &got, &err);
        why = st == RP_OK ? plan_run_differs(q->graph[i], &want, &got) : err.text;
    }
    if (is_too_long(st, &err)) why = NULL;
    if (why) (void)report(q, i, why);
    plan_run_done(&want);
    plan_run_done(&got);
    random_leaves_done(&l);
    return why;
}

void gpu_graphs_check(gpu_graphs *q) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t jobs = cores < 2 ? 1 : cores < MOST_JOBS ? (uint32_t)cores : MOST_JOBS;
    pid_t pid[MOST_JOBS];
    uint32_t bad = 0;
    (void)fflush(stdout);
    for (uint32_t j = 0; j < jobs; j++) {
        pid[j] = fork();
        assert_true(pid[j] >= 0);
        if (pid[j] == 0) compile_share(q, j, jobs);
    }
    for (uint32_t j = 0; j < jobs; j++) {
        int status = 0;
        assert_true(waitpid(pid[j], &status, 0) == pid[j]);
        bad += status != 0;
    }
    for (uint32_t i = 0; q->device && i < q->n; i++) bad += differs(q, i);
    print_message("%u graphs, %u of the host left out\n", q->n, q->n_host);
    assert_int_equal(bad, 0);
}
