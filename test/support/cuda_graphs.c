/* See cuda_graphs.h. Models are split and optimised as the compiler does it; a random graph is one piece. */
#include "support/cuda_graphs.h"

#include "base/hash.h"
#include "target/target.h"
#include "model/llama.h"
#include "pass/pipeline.h"
#include "split/split.h"
#include "support/check.h"
#include "support/parallel_model.h"
#include "support/small_llama.h"

void cuda_graphs_init(cuda_graphs *c) {
    *c = (cuda_graphs){.seen = base_map_new()};
    base_buf_init(&c->text, 0);
    assert_non_null(c->seen);
}

void cuda_graphs_done(cuda_graphs *c) {
    base_buf_done(&c->text);
    base_map_free(c->seen);
}

/* One kernel, unless an equal one of another name was there. */
static void add_kernel(cuda_graphs *c, const char *text, size_t n) {
    const char *args = memchr(text, '(', n); /* of __launch_bounds__ */
    rp_error err = {0};
    uint64_t at;
    args = args ? memchr(args + 1, '(', n - (size_t)(args + 1 - text)) : NULL;
    assert_non_null(args);
    base_hash128 hash = base_hash(args, n - (size_t)(args - text));
    if (base_map_get(c->seen, &hash, sizeof hash, &at)) return;
    CHECK_OK(base_map_put(c->seen, &hash, sizeof hash, c->n_kernels, &err), &err);
    base_buf_printf(&c->text, "namespace kernel_%u {\n%.*s}\n", c->n_kernels++, (int)n, text);
    assert_false(c->text.failed);
}

static void add_text(cuda_graphs *c, const char *kernels) {
    static const char linkage[] = "extern \"C\" ";
    const char *p = kernels ? strstr(kernels, linkage) : NULL;
    while (p) {
        const char *next = strstr(p + 1, linkage);
        p += sizeof linkage - 1;
        add_kernel(c, p, next ? (size_t)(next - p) : strlen(p));
        p = next;
    }
}

/* RP_UNSUPPORTED: a kernel's scratch does not fit a block. */
static rp_status add_piece(cuda_graphs *c, const ir_graph *g, rp_error *err) {
    ir_graph *opt = NULL;
    lower_piece p = {0};
    base_buf kernels;
    base_buf_init(&kernels, 0);
    const lower_options o = {.isa = GEN_ISA_PORTABLE, .printed = &kernels, .printed_for = GEN_CUDA};
    CHECK_OK(pass_run_all(g, NULL, &opt, err), err);
    rp_status st = target_lower(opt, &o, &p, err);
    if (st == RP_OK) add_text(c, kernels.data);
    lower_done(&p);
    base_buf_done(&kernels);
    ir_graph_free(opt);
    return st;
}

/* Both as pieces between attention and as one. Takes g. */
static void add_model(cuda_graphs *c, rp_graph *g) {
    static const char *const ops[] = {"reprise::attention"};
    rp_error err = {0};
    for (uint32_t n_ops = 0; n_ops < 2; n_ops++) {
        split_result s = {0};
        CHECK_OK(split_graph(trace_graph_ir(g), ops, n_ops, &s, &err), &err);
        for (uint32_t i = 0; i < s.n_pieces; i++)
            if (s.pieces[i].distinct == i) CHECK_OK(add_piece(c, s.pieces[i].graph, &err), &err);
        split_done(&s);
    }
    rp_graph_free(g);
}

static void add_llama(cuda_graphs *c, const char *spec, rp_numerics numerics) {
    const model_graph_options o = {.numerics = numerics, .max_tokens = 64, .max_seqs = 8};
    rp_error err = {0};
    model_source *s = NULL;
    rp_graph *g = NULL;
    CHECK_OK(model_source_open_synthetic(spec, &s, &err), &err);
    CHECK_OK(model_llama_graph(s, &o, &g, &err), &err);
    add_model(c, g);
    CHECK_OK(model_llama_head(s, &o, &g, &err), &err);
    add_model(c, g);
    model_source_free(s);
}

void cuda_graphs_add_models(cuda_graphs *c) {
    static const rp_dtype weights[] = {RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_Q4_1, RP_DTYPE_Q8_0};
    static const char *const specs[] = {"synthetic:tiny", "synthetic:tiny,dtype=bf16"};
    for (rp_numerics n = RP_NUMERICS_DEFAULT; n <= RP_NUMERICS_FAST; n++) {
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) add_llama(c, specs[i], n);
        for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
            const small_llama_options small = {.layers = 2, .weights = weights[i], .numerics = n};
            const parallel_model_options par = {
                .weights = weights[i], .kv = i ? RP_DTYPE_F16 : RP_DTYPE_F32, .numerics = n};
            rp_error err = {0};
            rp_graph *g = NULL;
            CHECK_OK(small_llama_new(&small, &g, &err), &err);
            add_model(c, g);
            CHECK_OK(parallel_model_new(&par, &g, &err), &err);
            add_model(c, g);
        }
    }
}

void cuda_graphs_add_random(cuda_graphs *c, uint64_t first_seed, uint32_t n) {
    const random_graph_options all = RANDOM_GRAPH_ALL;
    for (uint32_t i = 0; i < n; i++) {
        rp_error err = {0};
        ir_graph *g = NULL;
        CHECK_OK(random_graph_new(first_seed + i, &all, &g, &err), &err);
        rp_status st = add_piece(c, g, &err);
        if (st != RP_UNSUPPORTED) CHECK_OK(st, &err);
        c->n_refused += st == RP_UNSUPPORTED;
        ir_graph_free(g);
    }
}
