/* Law 2 on 300 seeded random graphs: what the inductor backend compiles stays near the interpreter, and is
 * the eager backend's result bit for bit. Every tenth graph is also split at an op of its own and run piece by piece.
 *
 * Two processes share the seeds, so that a crash of generated code names its seed. NUM_SEED and NUM_COUNT choose others;
 * NUM_ISA another instruction set. */
#include "support/check.h"
#include "support/plan_run.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define JOBS 2
/* Deep graphs of float32 over values of at most 64: a few hundred roundings of 2^-24. */
#define BOUND 1e-4
/* A value beside a rounding border of i16 blocks falls to one side in float32 and to the other in float64: one
 * step of a block of values up to 64, times a weight. */
#define BOUND_QUANT 2e-3

static compile_toolchain toolchain;
static cache_store *store;
static char folder[] = "/tmp/num_random_XXXXXX";

typedef struct seed_case {
    ir_graph *g;
    random_leaves l;
    ir_value states[8], *want;
} seed_case;

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static gen_isa chosen_isa(void) {
    gen_isa isa = gen_isa_best();
    const char *text = getenv("NUM_ISA");
    if (text && !gen_isa_parse(text, &isa)) fail_msg("NUM_ISA=%s is unknown", text);
    return isa;
}

static rp_status make_case(uint64_t seed, seed_case *c, rp_error *err) {
    random_graph_options opt = RANDOM_GRAPH_ALL;
    opt.symbolic = seed % 4 != 0;
    opt.n_steps = 6 + (uint32_t)(seed % 13);
    RP_TRY(random_graph_new(seed, &opt, &c->g, err));
    RP_TRY(random_leaves_new(c->g, seed * 31 + 7, &c->l, err));
    c->want = base_alloc_array(ir_output_count(c->g) + 1u, sizeof *c->want);
    if (!c->want) return rp_fail(err, RP_NOMEM, "case");
    return ir_eval(c->g, c->l.leaf[IR_LEAF_INPUT], c->l.leaf[IR_LEAF_PARAM], c->states,
                   c->l.symbols, c->want, err);
}

static void case_done(seed_case *c) {
    for (uint32_t i = 0; c->want && i < ir_output_count(c->g); i++) ir_value_done(&c->want[i]);
    base_free(c->want);
    random_leaves_done(&c->l);
    ir_graph_free(c->g);
}

/* An op of the middle of the graph, as splitting_ops names it. */
static const char *op_to_split_at(const ir_graph *g) {
    for (ir_ref r = ir_graph_count(g) / 2; r < ir_graph_count(g); r++) {
        const ir_op_info *info = ir_op_table(ir_node_at(g, r)->op);
        if (info->kind == IR_KIND_ELEMENTWISE || info->kind == IR_KIND_REDUCE) return info->name;
    }
    return NULL;
}

static double bound_of(const ir_graph *g) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        if (ir_node_at(g, r)->op == IR_quantize) return BOUND_QUANT;
    return BOUND;
}

static bool report(uint64_t seed, const char *what, const char *why) {
    if (!why) return false;
    printf("seed %llu: %s: %s\n", (unsigned long long)seed, what, why);
    return true;
}

/* Level 3: more pieces than one, the same bits. */
static bool pieces_differ(uint64_t seed, const seed_case *c, plan_run_options o,
                          const plan_run *whole) {
    rp_error err = {0};
    plan_run pieces;
    const char *at = op_to_split_at(c->g);
    if (!at) return false;
    o.splitting_ops = &at;
    o.n_splitting_ops = 1;
    if (plan_run_graph(c->g, &c->l, &o, &pieces, &err) != RP_OK)
        return report(seed, "in pieces", err.text);
    bool bad = report(seed, "whole and in pieces", plan_run_differs(c->g, whole, &pieces));
    plan_run_done(&pieces);
    return bad;
}

static bool seed_fails(uint64_t seed, gen_isa isa) {
    static const compile_toolchain none;
    rp_error err = {0};
    seed_case c = {0};
    plan_run code = {0}, eager = {0};
    plan_run_options o = {.backend = &compile_inductor,
                          .isa = isa,
                          .toolchain = &toolchain,
                          .store = store,
                          .threads = 2,
                          .passes = true};
    plan_run_options e = {.backend = &compile_eager, .isa = isa, .toolchain = &none, .threads = 1};
    bool bad = make_case(seed, &c, &err) != RP_OK && report(seed, "interpreter", err.text);
    if (!bad && plan_run_graph(c.g, &c.l, &o, &code, &err) != RP_OK)
        bad = report(seed, "inductor", err.text);
    if (!bad && plan_run_graph(c.g, &c.l, &e, &eager, &err) != RP_OK)
        bad = report(seed, "eager", err.text);
    if (!bad) {
        bad = report(seed, "compiled and interpreted",
                     plan_run_is_off(c.g, &code, c.want, c.states, bound_of(c.g)));
        bad |= report(seed, "compiled and eager", plan_run_differs(c.g, &code, &eager));
        if (seed % 10 == 0) bad |= pieces_differ(seed, &c, o, &code);
    }
    plan_run_done(&code);
    plan_run_done(&eager);
    case_done(&c);
    return bad;
}

static void run_job(uint64_t job, uint64_t first, uint64_t n, gen_isa isa, volatile uint64_t *now) {
    int failed = 0;
    for (uint64_t s = first + job; s < first + n; s += JOBS) {
        *now = s;
        failed += seed_fails(s, isa);
    }
    fflush(stdout);
    _exit(failed ? 1 : 0);
}

static void compiled_equals_interpreter(void **state) {
    uint64_t first = number("NUM_SEED", 1), n = number("NUM_COUNT", 300);
    gen_isa isa = chosen_isa();
    pid_t pid[JOBS];
    int failed = 0;
    (void)state;
    if (!toolchain.path) SKIP_TEST("no C compiler");
    uint64_t *now =
        mmap(NULL, sizeof *now * JOBS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(now != MAP_FAILED);
    fflush(stdout);
    for (int j = 0; j < JOBS; j++) {
        pid[j] = fork();
        assert_true(pid[j] >= 0);
        if (pid[j] == 0) run_job((uint64_t)j, first, n, isa, &now[j]);
    }
    for (int j = 0; j < JOBS; j++) {
        int st = 0;
        assert_true(waitpid(pid[j], &st, 0) == pid[j]);
        if (WIFSIGNALED(st))
            printf("seed %llu: signal %d\n", (unsigned long long)now[j], WTERMSIG(st));
        failed += st != 0;
    }
    munmap(now, sizeof *now * JOBS);
    assert_int_equal(failed, 0);
}

static int set_up(void **state) {
    rp_error err = {0};
    (void)state;
    if (!mkdtemp(folder) || compile_toolchain_find(&toolchain, &err) != RP_OK ||
        cache_store_open(folder, &store, &err) != RP_OK)
        return -1;
    return 0;
}

static int tear_down(void **state) {
    rp_error err = {0};
    (void)state;
    cache_store_close(store);
    compile_toolchain_done(&toolchain);
    return base_path_remove(folder, &err) == RP_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compiled_equals_interpreter)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
