/* A second architecture (support/parallel_model) at every level: prefill of a ragged batch, a chunk more, then decode.
 *
 * Each step is compared with the interpreter run on the same cache (law 2), and levels 0 to 3 with
 * each other bit for bit, logits and caches (law 3). */
#include "support/check.h"
#include "support/parallel_model.h"
#include "support/trees.h"

#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ir/eval.h"
#include "trace/trace.h"

enum { LEVELS = 4, INPUTS = 6, MAX_PARAMS = 64, STATES = 2 * PM_LAYERS };

/* One way of running it. */
typedef struct runner {
    rp_compiled *c;
    void *state[STATES];
    float logits[PM_MAX_TOKENS][PM_VOCAB];
} runner;

typedef struct world {
    rp_graph *graph;
    const ir_graph *g;
    ir_value param[MAX_PARAMS], state[STATES];
    void *packed[MAX_PARAMS];
    runner run[LEVELS];
    int64_t length[PM_MAX_SEQS]; /* positions already in the cache */
    double bound;
    bool whole; /* level 2 too, which compiles all layers as one unit */
} world;

/* New tokens of each sequence, and rows of padding. */
typedef struct step {
    int n[PM_MAX_SEQS], seqs, padding;
} step;

static char folder[64];

/* --- values ----------------------------------------------------------------------- */

static size_t bytes_of(rp_dtype t, int64_t n) {
    return (size_t)n / rp_dtype_block(t) * rp_dtype_block_bytes(t);
}

static void *pack(rp_dtype t, const ir_value *v) {
    int64_t row = v->dim[v->rank - 1];
    char *p = base_alloc_aligned(bytes_of(t, v->n), 64);
    assert_non_null(p);
    for (int64_t i = 0; i < v->n; i += row) ir_pack(t, v->data + i, row, p + bytes_of(t, i));
    return p;
}

/* Weights of the size that a trained model has, so that nothing saturates. */
static void make_params(world *w) {
    rp_error err = {0};
    for (uint32_t i = 0; i < ir_leaf_count(w->g, IR_LEAF_PARAM); i++) {
        const ir_node *n = ir_node_at(w->g, ir_leaf_at(w->g, IR_LEAF_PARAM, i));
        int64_t dim[2] = {n->shape.dim[0], n->shape.rank > 1 ? n->shape.dim[1] : 0};
        for (uint32_t d = 0; d < n->shape.rank; d++)
            assert_true(ir_dim_is_const(ir_graph_dims(w->g), n->shape.dim[d], &dim[d]));
        assert_true(i < MAX_PARAMS);
        CHECK_OK(ir_random_value(n->dtype, dim, n->shape.rank, 1, 1000 + i, &w->param[i], &err),
                 &err);
        ir_value *v = &w->param[i];
        bool turn = strcmp(n->name, "cos") == 0 || strcmp(n->name, "sin") == 0;
        for (int64_t k = 0; turn && k < v->n; k++) {
            double angle = (double)(k / dim[1]) * pow(100.0, -(double)(k % dim[1]) / 8);
            v->data[k] = ir_round(n->dtype, *n->name == 'c' ? cos(angle) : sin(angle));
        }
        for (int64_t k = 0; n->shape.rank == 2 && !rp_dtype_is_quant(n->dtype) && !turn && k < v->n;
             k++)
            v->data[k] = ir_round(n->dtype, v->data[k] / 4);
        w->packed[i] = pack(n->dtype, v);
    }
}

static void make_states(world *w) {
    int64_t dim[4] = {PM_BLOCKS, 1, PM_BLOCK, PM_HEAD_DIM};
    rp_error err = {0};
    assert_int_equal(ir_leaf_count(w->g, IR_LEAF_STATE), STATES);
    for (int i = 0; i < STATES; i++) {
        rp_dtype t = ir_node_at(w->g, ir_leaf_at(w->g, IR_LEAF_STATE, (uint32_t)i))->dtype;
        CHECK_OK(ir_random_value(t, dim, 4, 1, 7u + (unsigned)i, &w->state[i], &err), &err);
        for (int level = 0; level < LEVELS; level++) w->run[level].state[i] = pack(t, &w->state[i]);
    }
}

static rp_dtype state_type(const world *w, int i) {
    return ir_node_at(w->g, ir_leaf_at(w->g, IR_LEAF_STATE, (uint32_t)i))->dtype;
}

/* --- compiling --------------------------------------------------------------------- */

static void compile_level(world *w, int level) {
    rp_error err = {0};
    runner *r = &w->run[level];
    rp_compilation_config *cfg = rp_config_new();
    char text[80];
    assert_non_null(cfg);
    (void)snprintf(text, sizeof text, "level=%d", level);
    CHECK_OK(rp_config_set(cfg, text, &err), &err);
    (void)snprintf(text, sizeof text, "cache_dir=%s", folder);
    CHECK_OK(rp_config_set(cfg, text, &err), &err);
    CHECK_OK(rp_config_set(cfg, "threads=2", &err), &err);
    CHECK_OK(rp_compile(w->graph, cfg, &r->c, &err), &err);
    for (uint32_t i = 0; i < ir_leaf_count(w->g, IR_LEAF_PARAM); i++)
        CHECK_OK(rp_compiled_bind(r->c, ir_node_at(w->g, ir_leaf_at(w->g, IR_LEAF_PARAM, i))->name,
                                  w->packed[i], &err),
                 &err);
    for (uint32_t i = 0; i < STATES; i++)
        CHECK_OK(rp_compiled_bind(r->c, ir_node_at(w->g, ir_leaf_at(w->g, IR_LEAF_STATE, i))->name,
                                  r->state[i], &err),
                 &err);
    rp_config_free(cfg);
}

/* 2L+1 pieces; one piece below level 3. */
static void check_pieces(const world *w) {
    rp_error err = {0};
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    CHECK_OK(rp_compiled_get_info(w->run[3].c, &info, &err), &err);
    assert_int_equal(info.pieces, 2 * PM_LAYERS + 1);
    assert_int_equal(info.compiled, PM_LAYERS + 1);
    CHECK_OK(rp_compiled_get_info(w->run[0].c, &info, &err), &err);
    assert_int_equal(info.pieces, 1);
}

static bool has_level(const world *w, int level) {
    return level != 2 || w->whole;
}

static void world_new(world *w, const parallel_model_options *opt, double bound, bool whole) {
    rp_error err = {0};
    *w = (world){.bound = bound, .whole = whole};
    CHECK_OK(parallel_model_new(opt, &w->graph, &err), &err);
    w->g = trace_graph_ir(w->graph);
    make_params(w);
    make_states(w);
    for (int level = 0; level < LEVELS; level++)
        if (has_level(w, level)) compile_level(w, level);
    check_pieces(w);
}

static void world_done(world *w) {
    for (int level = 0; level < LEVELS; level++) {
        rp_compiled_free(w->run[level].c);
        for (int i = 0; i < STATES; i++) base_free(w->run[level].state[i]);
    }
    for (int i = 0; i < STATES; i++) ir_value_done(&w->state[i]);
    for (int i = 0; i < MAX_PARAMS; i++) {
        ir_value_done(&w->param[i]);
        base_free(w->packed[i]);
    }
    rp_graph_free(w->graph);
}

/* --- one step ------------------------------------------------------------------------ */

typedef struct feed {
    int32_t tokens[PM_MAX_TOKENS], positions[PM_MAX_TOKENS], slots[PM_MAX_TOKENS],
        seqs[PM_MAX_TOKENS], tables[PM_MAX_SEQS][PM_TABLE], rows[PM_MAX_TOKENS];
    int64_t t, r, s;
} feed;

/* Blocks of the sequences are interleaved and in no order; block 0 is nobody's. */
static int32_t block_of(int seq, int64_t at) {
    return 1 + (int32_t)((at * 7 + seq * 5) % 8 * 2 + seq % 2);
}

static feed feed_of(const world *w, const step *st) {
    feed f = {.s = st->seqs};
    for (int s = 0; s < st->seqs; s++) {
        for (int b = 0; b < PM_TABLE; b++) f.tables[s][b] = b < 8 ? block_of(s, b) : 0;
        for (int i = 0; i < st->n[s]; i++, f.t++) {
            int64_t p = w->length[s] + i;
            f.tokens[f.t] = (int32_t)((p * 31 + s * 17 + 5) % PM_VOCAB);
            f.positions[f.t] = (int32_t)p;
            f.slots[f.t] = block_of(s, p / PM_BLOCK) * PM_BLOCK + (int32_t)(p % PM_BLOCK);
            f.seqs[f.t] = s;
        }
        f.rows[f.r++] = (int32_t)f.t - 1;
    }
    for (int i = 0; i < st->padding; i++, f.t++) f.slots[f.t] = f.seqs[f.t] = -1;
    return f;
}

static void buffers_of(feed *f, rp_buffer *in) {
    int32_t *data[INPUTS] = {f->tokens, f->positions, f->slots, f->seqs, &f->tables[0][0], f->rows};
    for (int i = 0; i < INPUTS; i++)
        in[i] = (rp_buffer){.dtype = RP_DTYPE_I32, .rank = 1, .dim = {f->t}, .data = data[i]};
    in[4].rank = 2;
    in[4].dim[0] = f->s;
    in[4].dim[1] = PM_TABLE;
    in[5].dim[0] = f->r;
}

/* The interpreter starts from the cache that level 3 has. */
static void interpret(world *w, const rp_buffer *in, const feed *f, ir_value *out) {
    rp_error err = {0};
    ir_value v[INPUTS];
    int64_t symbols[3];
    const ir_dims *dims = ir_graph_dims(w->g);
    for (int i = 0; i < INPUTS; i++) {
        int64_t n = in[i].rank == 2 ? in[i].dim[0] * in[i].dim[1] : in[i].dim[0];
        v[i] = (ir_value){.rank = in[i].rank, .n = n};
        memcpy(v[i].dim, in[i].dim, in[i].rank * sizeof *v[i].dim);
        v[i].data = base_alloc_array((size_t)n, sizeof(double));
        for (int64_t k = 0; k < n; k++) v[i].data[k] = ((const int32_t *)in[i].data)[k];
    }
    for (int i = 0; i < STATES; i++)
        ir_unpack(state_type(w, i), w->run[3].state[i], w->state[i].n, w->state[i].data);
    symbols[ir_dims_find(dims, "T")] = f->t;
    symbols[ir_dims_find(dims, "S")] = f->s;
    symbols[ir_dims_find(dims, "R")] = f->r;
    CHECK_OK(ir_eval(w->g, v, w->param, w->state, symbols, out, &err), &err);
    for (int i = 0; i < INPUTS; i++) ir_value_done(&v[i]);
}

static void run_level(world *w, int level, const rp_buffer *in, const feed *f) {
    rp_error err = {0};
    runner *r = &w->run[level];
    memset(r->logits, 0x5a, sizeof r->logits);
    rp_buffer out = {.dtype = RP_DTYPE_F32, .rank = 2, .dim = {f->r, PM_VOCAB}, .data = r->logits};
    CHECK_OK(rp_compiled_run(r->c, in, INPUTS, &out, 1, &err), &err);
    const unsigned char *after = (const unsigned char *)r->logits[f->r];
    for (size_t i = 0; i < 64; i++) assert_int_equal(after[i], 0x5a);
}

static void check_near(const char *what, int step_no, double x, double want, double bound) {
    if (!isfinite(want) || !(fabs(x - want) <= bound * fmax(1, fabs(want))))
        fail_msg("step %d: %s: %.9g, want %.9g", step_no, what, x, want);
}

static void check_step(const world *w, int no, const feed *f, const ir_value *want) {
    for (int64_t i = 0; i < f->r * PM_VOCAB; i++)
        check_near("logit", no, w->run[3].logits[i / PM_VOCAB][i % PM_VOCAB], want->data[i],
                   w->bound);
    for (int i = 0; i < STATES; i++) {
        size_t size = bytes_of(state_type(w, i), w->state[i].n);
        double *x = base_alloc_array((size_t)w->state[i].n, sizeof *x);
        ir_unpack(state_type(w, i), w->run[3].state[i], w->state[i].n, x);
        for (int64_t k = 0; k < w->state[i].n; k++)
            check_near("cache", no, x[k], w->state[i].data[k], w->bound);
        base_free(x);
        for (int level = 0; level < 3; level++)
            if (has_level(w, level) &&
                memcmp(w->run[level].state[i], w->run[3].state[i], size) != 0)
                fail_msg("step %d: cache %d differs between levels %d and 3", no, i, level);
    }
    for (int level = 0; level < 3; level++)
        if (has_level(w, level) &&
            memcmp(w->run[level].logits, w->run[3].logits, sizeof w->run[3].logits) != 0)
            fail_msg("step %d: logits differ between levels %d and 3", no, level);
}

static void run_step(world *w, int no, const step *st) {
    feed f = feed_of(w, st);
    rp_buffer in[INPUTS];
    ir_value want = {0};
    buffers_of(&f, in);
    interpret(w, in, &f, &want);
    for (int level = 0; level < LEVELS; level++)
        if (has_level(w, level)) run_level(w, level, in, &f);
    check_step(w, no, &f, &want);
    ir_value_done(&want);
    for (int s = 0; s < st->seqs; s++) w->length[s] += st->n[s];
}

static void run_all(parallel_model_options opt, double bound, bool whole) {
    static const step steps[] = {
        {{7, 3}, 2, 1},       {{1, 11, 5}, 3, 0}, {{1, 1, 1}, 3, 5},    {{1, 1, 1}, 3, 0},
        {{1, 1, 1, 9}, 4, 2}, {{1}, 1, 0},        {{1, 1, 1, 1}, 4, 0},
    };
    static world w;
    world_new(&w, &opt, bound, whole);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) run_step(&w, (int)i, &steps[i]);
    world_done(&w);
}

/* --- cases ----------------------------------------------------------------------------- */

/* Bounds: float32 rounds at 2^-24; where values are rounded to a smaller type, a sum that falls on the
 * other side of a border moves that value by one step of it (i16 blocks 2^-15, f16 2^-11, bf16 2^-8). */
#define CASE(name, weights, kv, numerics, bound, whole)                                          \
    static void name(void **state) {                                                             \
        (void)state;                                                                             \
        run_all(                                                                                 \
            (parallel_model_options){RP_DTYPE_##weights, RP_DTYPE_##kv, RP_NUMERICS_##numerics}, \
            bound, whole);                                                                       \
    }
CASE(f32_exact, F32, F32, EXACT, 5e-6, true)
CASE(q4_1_default, Q4_1, F16, DEFAULT, 2e-3, true)
CASE(q4_0_default, Q4_0, F16, DEFAULT, 2e-3, false)
CASE(q8_0_default, Q8_0, F16, DEFAULT, 2e-3, false)
CASE(q4_1_exact, Q4_1, F32, EXACT, 2e-5, false)
CASE(q8_0_exact, Q8_0, F32, EXACT, 2e-5, false)
CASE(f16_default, F16, F16, DEFAULT, 4e-3, false)
CASE(bf16_default, BF16, BF16, DEFAULT, 1e-2, true)
CASE(bf16_exact, BF16, F32, EXACT, 5e-6, false)

static int set_up(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int tear_down(void **state) {
    rp_error err = {0};
    (void)state;
    return base_path_remove(folder, &err) == RP_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_exact),    cmocka_unit_test(q4_1_default),
        cmocka_unit_test(q4_0_default), cmocka_unit_test(q8_0_default),
        cmocka_unit_test(q4_1_exact),   cmocka_unit_test(q8_0_exact),
        cmocka_unit_test(f16_default),  cmocka_unit_test(bf16_default),
        cmocka_unit_test(bf16_exact),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
