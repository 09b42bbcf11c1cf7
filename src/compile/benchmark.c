/* The table of what is timed is written here; the program around it is embed/benchmark.c.inc. */
#include "compile/benchmark.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"

BASE_EMBED(benchmark_c_inc);

/* Floats get small numbers, all else zeros, which are in range wherever they are an index. */
enum { FLOAT_BYTE = 0x3c };

typedef struct writer {
    const ir_graph *g;
    const lower_piece *low;
    int64_t *graph_size, *size; /* of each symbol of g, and of low */
    base_buf cases;
    uint32_t n_cases;
    base_buf *out;
    rp_error *err;
} writer;

/* --- sizes ----------------------------------------------------------------------------- */

static int64_t nominal(const ir_symbol *s) {
    int64_t n = IR_DIM_NOMINAL < s->max ? IR_DIM_NOMINAL : s->max;
    n -= n % s->divisor;
    return n >= s->min ? n : (s->min + s->divisor - 1) / s->divisor * s->divisor;
}

static rp_status choose_sizes(writer *w) {
    const ir_dims *own = ir_graph_dims(w->g), *t = w->low->dims;
    w->graph_size = base_alloc_array(ir_dims_symbol_count(own) + 1u, sizeof *w->graph_size);
    w->size = base_alloc_array(ir_dims_symbol_count(t) + 1u, sizeof *w->size);
    if (!w->graph_size || !w->size) return rp_fail(w->err, RP_NOMEM, "sizes to measure with");
    for (uint32_t i = 0; i < ir_dims_symbol_count(own); i++)
        w->graph_size[i] = nominal(ir_dims_symbol(own, i));
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        uint32_t same = ir_dims_find(own, ir_dims_symbol(t, i)->name);
        w->size[i] = same == UINT32_MAX ? nominal(ir_dims_symbol(t, i)) : w->graph_size[same];
    }
    return RP_OK;
}

static bool is_float(rp_dtype t) {
    return rp_dtype_is_float(t) || rp_dtype_is_quant(t) || t == RP_DTYPE_F64;
}

/* Bytes of an argument and what to fill them with; false where it is nothing that a program of its own has. */
static bool argument(const writer *w, lower_ref a, int64_t *size, int *byte) {
    static const ir_leaf kind[] = {[LOWER_INPUT] = IR_LEAF_INPUT,
                                   [LOWER_PARAM] = IR_LEAF_PARAM,
                                   [LOWER_STATE] = IR_LEAF_STATE};
    *byte = 0;
    if (a.seg == LOWER_TEMP) {
        *size = ir_dim_eval(w->low->dims, w->low->temps[a.idx].bytes, w->size);
        return *size >= 0;
    }
    if (a.seg != LOWER_INPUT && a.seg != LOWER_PARAM && a.seg != LOWER_STATE) return false;
    const ir_node *n = ir_node_at(w->g, ir_leaf_at(w->g, kind[a.seg], a.idx));
    ir_dim bytes = lower_bytes(ir_graph_dims(w->g), n);
    if (bytes == IR_DIM_BAD) return false;
    *size = ir_dim_eval(ir_graph_dims(w->g), bytes, w->graph_size);
    if (is_float(n->dtype)) *byte = FLOAT_BYTE;
    return *size >= 0;
}

/* --- kernels ------------------------------------------------------------------------------ */

static const lower_alt *alt_of(const writer *w, const lower_launch *l) {
    int64_t rows = ir_dim_eval(w->low->dims, l->rows, w->size);
    for (uint32_t i = 0; i < l->n_alts; i++)
        if (rows <= l->alts[i].max || i + 1 == l->n_alts) return &l->alts[i];
    return NULL;
}

static bool is_of_library(const writer *w, const char *symbol) {
    for (uint32_t i = 0; i < w->low->n_kernels; i++) {
        const lower_kernel *k = &w->low->kernels[i];
        if (strcmp(k->name, symbol) == 0)
            return k->uses.quant || k->uses.floats || k->uses.attention;
    }
    return true;
}

static bool put_arguments(writer *w, const lower_launch *l) {
    base_buf list;
    bool ok = true;
    base_buf_init(&list, 0);
    base_buf_printf(&list, "static const benchmark_arg args_%u[] = {", w->n_cases);
    for (uint32_t i = 0; i < l->n_args && ok; i++) {
        int64_t size = 0;
        int byte = 0;
        ok = argument(w, l->args[i], &size, &byte);
        base_buf_printf(&list, "%s{%" PRId64 ", 0x%02x}", i ? ", " : "", size, (unsigned)byte);
    }
    base_buf_puts(&list, "};\n");
    w->out->failed |= list.failed;
    if (ok) base_buf_add(w->out, list.data, list.len);
    base_buf_done(&list);
    return ok;
}

static void put_launch(writer *w, const lower_launch *l) {
    const lower_alt *a = l->custom || l->control || l->n_args == 0 ? NULL : alt_of(w, l);
    if (!a || !a->symbol || a->symbol[0] == '@') return;
    if (is_of_library(w, a->symbol) || !put_arguments(w, l)) {
        base_buf_printf(
            w->out,
            "/* not %s: it takes packed weights, or a product that is code of the library */\n",
            a->symbol);
        return;
    }
    base_buf_printf(&w->cases,
                    "    {\"%s\", %s, %" PRId64 ", %" PRId64
                    ", sizeof args_%u / sizeof *args_%u, args_%u},\n",
                    a->symbol, a->symbol, ir_dim_eval(w->low->dims, l->items, w->size), a->scratch,
                    w->n_cases, w->n_cases, w->n_cases);
    w->n_cases++;
}

/* --- the program ---------------------------------------------------------------------------- */

static void put_head(const writer *w, gen_isa isa, gen_cc_family family, const char *source) {
    const ir_dims *t = w->low->dims;
    base_buf_printf(w->out, "/* Times each kernel of %s alone, on memory of its sizes", source);
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++)
        base_buf_printf(w->out, "%s%s = %" PRId64, i ? ", " : ", where ",
                        ir_dims_symbol(t, i)->name, w->size[i]);
    base_buf_puts(w->out, ". GB/s: bytes of all arguments, each counted once.\n *\n *   cc -w");
    for (const char *const *f = gen_isa_flags(isa, family, NULL); *f; f++)
        base_buf_printf(w->out, " %s", *f);
    base_buf_puts(w->out,
                  " THIS_FILE -o benchmark -lm\n *   ./benchmark [MILLISECONDS [KERNEL]]\n */\n");
    base_buf_printf(w->out, "#ifndef RP_ISA\n#define RP_ISA %d\n#endif\n#include \"%s\"\n\n",
                    isa >= GEN_ISA_AVX512 ? 2 : (int)isa, source);
    base_buf_puts(w->out, "typedef struct benchmark_arg {\n    rp_size size;\n    int byte;\n"
                          "} benchmark_arg;\n\ntypedef struct benchmark_case {\n"
                          "    const char *name;\n    void (*run)(void *const *arg, "
                          "const long long *dim, long long begin, long long end, void *scratch);\n"
                          "    long long items;\n    rp_size scratch, n_args;\n"
                          "    const benchmark_arg *arg;\n} benchmark_case;\n\n");
    base_buf_puts(w->out, "static const long long benchmark_dim[] = {");
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++)
        base_buf_printf(w->out, "%" PRId64 ", ", w->size[i]);
    base_buf_puts(w->out, "0};\n");
}

rp_status compile_benchmark_print(const ir_graph *g, const lower_piece *low, gen_isa isa,
                                  gen_cc_family family, const char *source, base_buf *out,
                                  rp_error *err) {
    writer w = {.g = g, .low = low, .out = out, .err = err};
    size_t begin = out->len;
    rp_status st = RP_OK;
    if (low->target != GEN_HOST) return RP_OK;
    base_buf_init(&w.cases, 0);
    RP_TRY_OUT(choose_sizes(&w));
    put_head(&w, isa, family, source);
    for (uint32_t i = 0; i < low->n_launches; i++) put_launch(&w, &low->launches[i]);
    RP_TRY_OUT(base_buf_status(&w.cases, err));
    base_buf_puts(out, "\nstatic const benchmark_case benchmark_cases[] = {\n");
    if (w.n_cases) base_buf_add(out, w.cases.data, w.cases.len);
    base_buf_puts(out, "};\n");
    base_buf_add(out, rp_embed_benchmark_c_inc, rp_embed_benchmark_c_inc_size);
    st = base_buf_status(out, err);
    if (st == RP_OK && w.n_cases == 0) out->data[out->len = begin] = 0;
out:
    base_buf_done(&w.cases);
    base_free(w.graph_size);
    base_free(w.size);
    return st;
}
