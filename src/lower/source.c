/* Custom ops whose implementation is text: a kernel that calls the function rp_op of the op's source for each of its items, or one of the
 * op's own, in PTX.
 *
 * Sources may be in a unit several times, in kernels of different calls: a guard by hash (of the text and of where its attributes
 * are) lets the compiler see each once, and names what it defines. Lines of its own are counted from its first, under the op's name, so that an error of the compiler says whose it is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "ir/custom.h"
#include "ir/text.h"
#include "lower/cuda.h"

enum { THREADS = 256, GRAIN = 1024 };

typedef struct source_op {
    const rp_op_desc *d;
    const ir_node *n;
    const ir_type *types; /* of the arguments */
    const char *text;     /* the source */
    char hash[33];
    bool cuda;
} source_op;

/* --- the source --------------------------------------------------------------------------------- */

static const char types_text[] = "#ifndef RP_OP_TYPES\n"
                                 "#define RP_OP_TYPES\n"
                                 "typedef struct rp_op_view {\n"
                                 "    void *data;\n"
                                 "    long long dim[6];\n"
                                 "    int rank, dtype;\n"
                                 "} rp_op_view;\n"
                                 "typedef struct rp_op_value {\n"
                                 "    long long i;\n"
                                 "    double f;\n"
                                 "    const char *s;\n"
                                 "    long long n;\n"
                                 "    const long long *is;\n"
                                 "    const double *fs;\n"
                                 "    const char *const *ss;\n"
                                 "} rp_op_value;\n"
                                 "#endif\n";

/* What is compiled once: the text, and the places of the attributes in it. */
static rp_status hash_source(source_op *s, rp_error *err) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_add(&b, s->text, strlen(s->text) + 1);
    for (uint32_t i = 0; a && i < a->n; i++)
        base_buf_add(&b, a->u.values[i].name, strlen(a->u.values[i].name) + 1);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) base_hash_hex(base_hash(b.data, b.len), s->hash);
    base_buf_done(&b);
    return st;
}

/* ATTR_eps: the place of `eps` in attr. */
static void put_names(const source_op *s, bool on, base_buf *b) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    for (uint32_t i = 0; a && i < a->n; i++)
        if (on)
            base_buf_printf(b, "#define ATTR_%s %u\n", a->u.values[i].name, i);
        else
            base_buf_printf(b, "#undef ATTR_%s\n", a->u.values[i].name);
}

static void put_source(const source_op *s, base_buf *b) {
    base_buf_puts(b, types_text);
    base_buf_printf(b, "#ifndef RP_OP_%s\n#define RP_OP_%s\n", s->hash, s->hash);
    put_names(s, true, b);
    base_buf_printf(b, "#define rp_op rp_op_%s\n", s->hash);
    if (s->cuda) base_buf_printf(b, "namespace rp_own_%s {\n", s->hash);
    base_buf_printf(b, "#line 1 \"custom op %s\"\n%s\n", s->d->name, s->text);
    if (s->cuda) base_buf_puts(b, "}\n");
    base_buf_puts(b, "#undef rp_op\n");
    put_names(s, false, b);
    base_buf_puts(b, "#endif\n");
}

/* --- its arguments ------------------------------------------------------------------------------- */

static void put_views(lowerer *L, const source_op *s) {
    base_buf *b = &L->source;
    base_buf_puts(b, "    const rp_op_view view[] = {\n");
    for (uint32_t i = 0; i < L->n_args; i++) {
        const ir_type *t = &s->types[i];
        base_buf_printf(b, "        {arg[%u], {", i);
        for (uint32_t d = 0; d < t->shape.rank; d++) {
            base_buf_puts(b, d ? ", " : "");
            ir_dim_print_c(L->out->dims, t->shape.dim[d], "dim", b);
        }
        base_buf_printf(b, "%s}, %u, %d},\n", t->shape.rank ? "" : "0", t->shape.rank,
                        (int)t->dtype);
    }
    base_buf_puts(b, "    };\n");
}

static void put_integer(int64_t v, base_buf *b) {
    if (v == INT64_MIN)
        base_buf_puts(b, "(-9223372036854775807LL - 1)");
    else
        base_buf_printf(b, "%" PRId64 "LL", v);
}

/* C has no number that is infinite or none. */
static void put_number(double v, base_buf *b) {
    if (v != v)
        base_buf_puts(b, "(1e300 * 1e300 - 1e300 * 1e300)");
    else if (v - v != 0)
        base_buf_puts(b, v < 0 ? "(-1e300 * 1e300)" : "(1e300 * 1e300)");
    else
        ir_float_print(v, b);
}

static void put_string(const char *s, base_buf *b) {
    base_buf_putc(b, '"');
    for (; *s; s++)
        if (*s >= ' ' && *s <= '~' && !strchr("\"\\?", *s))
            base_buf_putc(b, *s);
        else
            base_buf_printf(b, "\\%03o", (unsigned)(unsigned char)*s);
    base_buf_putc(b, '"');
}

static void put_list(const rp_op_attr *a, uint32_t at, base_buf *b) {
    static const char *const element[] = {
        [RP_OP_I64S] = "long long", [RP_OP_F64S] = "double", [RP_OP_STRINGS] = "char *const"};
    if (a->kind < RP_OP_I64S || a->n == 0) return;
    base_buf_printf(b, "    const %s list%u[] = {", element[a->kind], at);
    for (uint32_t i = 0; i < a->n; i++) {
        base_buf_puts(b, i ? ", " : "");
        if (a->kind == RP_OP_I64S)
            put_integer(a->is[i], b);
        else if (a->kind == RP_OP_F64S)
            put_number(a->fs[i], b);
        else
            put_string(a->ss[i], b);
    }
    base_buf_puts(b, "};\n");
}

static void put_value(const rp_op_attr *a, uint32_t at, base_buf *b) {
    char list[16] = "0";
    if (a->kind >= RP_OP_I64S && a->n > 0) (void)snprintf(list, sizeof list, "list%u", at);
    base_buf_puts(b, "        {");
    put_integer(a->kind == RP_OP_I64 ? a->i : 0, b);
    base_buf_puts(b, ", ");
    put_number(a->kind == RP_OP_F64 ? a->f : 0, b);
    base_buf_puts(b, ", ");
    if (a->kind == RP_OP_STRING)
        put_string(a->s, b);
    else
        base_buf_puts(b, "0");
    base_buf_printf(b, ", %u, %s, %s, %s},\n", a->kind >= RP_OP_I64S ? a->n : 0,
                    a->kind == RP_OP_I64S ? list : "0", a->kind == RP_OP_F64S ? list : "0",
                    a->kind == RP_OP_STRINGS ? list : "0");
}

static void put_values(const source_op *s, base_buf *b) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    for (uint32_t i = 0; a && i < a->n; i++) put_list(&a->u.values[i], i, b);
    base_buf_puts(b, "    const rp_op_value attr[] = {\n");
    for (uint32_t i = 0; a && i < a->n; i++) put_value(&a->u.values[i], i, b);
    base_buf_puts(b, "        {0, 0, 0, 0, 0, 0, 0}};\n");
}

/* --- the kernel ------------------------------------------------------------------------------------- */

static void put_host_kernel(lowerer *L, const source_op *s, const char *name) {
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "void %s(void *const *arg, const long long *dim, long long begin, long long "
                    "end, void *scratch)\n{\n",
                    name);
    put_views(L, s);
    put_values(s, b);
    base_buf_printf(b,
                    "    void (*const op)(const rp_op_view *, const rp_op_value *, long long) = "
                    "rp_op_%s;\n"
                    "    (void)dim, (void)scratch;\n"
                    "    for (long long item = begin; item < end; item++) op(view, attr, item);\n"
                    "}\n",
                    s->hash);
}

static void put_cuda_kernel(lowerer *L, const source_op *s, const char *name, uint32_t threads) {
    base_buf *b = &L->source;
    lower_cuda_head(L, name, threads, 0, "");
    base_buf_puts(b, "    rk_wait();\n");
    put_views(L, s);
    put_values(s, b);
    if (s->d->items == RP_OP_ELEMENTS)
        base_buf_printf(b,
                        "    for (long long item = blockIdx.x * %uLL + threadIdx.x; item < items; "
                        "item += gridDim.x * %uLL)\n"
                        "        rp_own_%s::rp_op_%s(view, attr, item);\n}\n",
                        threads, threads, s->hash, s->hash);
    else
        base_buf_printf(b,
                        "    for (long long item = blockIdx.x; item < items; item += gridDim.x) "
                        "{\n"
                        "        rp_own_%s::rp_op_%s(view, attr, item);\n"
                        "        __syncthreads();\n    }\n}\n",
                        s->hash, s->hash);
}

/* How many items there are: a dim of the piece. */
static rp_status items_of(const lowerer *L, const source_op *s, ir_dim *out) {
    bool rows = s->d->items == RP_OP_ROWS;
    const ir_shape *first = &s->types[rows ? 0 : s->n->n_in].shape;
    uint32_t rank = s->d->items == RP_OP_WHOLE ? 0 : first->rank;
    if (rows && rank > 0) rank--;
    ir_dim all = ir_dim_const(L->out->dims, 1);
    for (uint32_t i = 0; i < rank && all != IR_DIM_BAD; i++)
        all = ir_dim_mul(L->out->dims, all, first->dim[i]);
    if (all == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED, "custom op %s: more than 2^63 items", s->d->name);
    *out = all;
    return RP_OK;
}

/* --- PTX ---------------------------------------------------------------------------------------------- */

static int64_t word_of(const rp_op_attr *a) {
    int64_t bits;
    if (a->kind == RP_OP_I64) return a->i;
    memcpy(&bits, &a->f, sizeof bits);
    return bits;
}

/* Sizes of all arguments, then the attributes. */
static rp_status put_parameters(lowerer *L, const source_op *s, lower_launch *l) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    const uint32_t n_words = a ? a->n : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < L->n_args; i++) n += s->types[i].shape.rank;
    ir_dim *sizes = base_arena_array(L->arena, n + 1u, sizeof *sizes);
    int64_t *words = base_arena_array(L->arena, n_words + 1u, sizeof *words);
    if (!sizes || !words) return rp_fail(L->err, RP_NOMEM, "parameters of %s", s->d->name);
    n = 0;
    for (uint32_t i = 0; i < L->n_args; i++)
        for (uint32_t d = 0; d < s->types[i].shape.rank; d++) sizes[n++] = s->types[i].shape.dim[d];
    for (uint32_t i = 0; i < n_words; i++) words[i] = word_of(&a->u.values[i]);
    l->sizes = sizes;
    l->words = words;
    l->n_sizes = n;
    l->n_words = n_words;
    return RP_OK;
}

/* The module is a unit of its own (compile/units.h); in the text of the piece a comment stands for it. */
static void put_ptx(lowerer *L, const source_op *s, const char *name, size_t begin) {
    char hex[33];
    base_hash_hex(base_hash(s->d->ptx, strlen(s->d->ptx)), hex);
    base_buf_printf(&L->source, "/* %s: custom op %s, PTX %s, entry %s */\n", name, s->d->name, hex,
                    s->d->ptx_entry);
    lower_kernel *k = lower_add_kernel(L, name, begin, (gen_matmul_uses){0});
    k->ptx = s->d->ptx;
    k->entry = s->d->ptx_entry;
}

static void put_text(lowerer *L, source_op *s, const char *name, uint32_t threads, size_t begin) {
    put_source(s, &L->source);
    if (s->cuda)
        put_cuda_kernel(L, s, name, threads);
    else
        put_host_kernel(L, s, name);
    base_buf_puts(&L->source, "#line 1 \"generated\"\n");
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){0});
}

rp_status lower_source_op(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d) {
    bool cuda = L->opt->target == GEN_CUDA;
    source_op s = {.d = d, .n = n, .cuda = cuda, .text = cuda ? d->cuda_source : d->c_source};
    uint32_t threads = d->threads ? d->threads : THREADS;
    size_t begin = L->source.len;
    ir_type *types;
    ir_dim items;
    RP_TRY(lower_operand_types(L->g, r, L->out, &types, L->err));
    s.types = types;
    RP_TRY(items_of(L, &s, &items));
    const bool ptx = cuda && d->ptx;
    if (!ptx) RP_TRY(hash_source(&s, L->err));
    char *name = lower_name(L, "op", &r, 1, (uint32_t)(L->group - L->f->groups));
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel of custom op %s", d->name);
    if (ptx)
        put_ptx(L, &s, name, begin);
    else
        put_text(L, &s, name, threads, begin);
    lower_launch *l = lower_add_launch(L);
    if (ptx) RP_TRY(put_parameters(L, &s, l));
    l->name = name;
    l->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = name};
    l->n_alts = 1;
    l->rows = l->items = items;
    l->grain = d->items == RP_OP_ELEMENTS ? GRAIN : 1;
    if (cuda) l->threads = threads;
    if (cuda) l->per_block = d->items == RP_OP_ELEMENTS ? threads : 1;
    RP_TRY(base_buf_status(&L->source, L->err));
    return lower_take_args(L, l);
}
