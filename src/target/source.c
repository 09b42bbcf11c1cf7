/* Custom ops whose implementation is text.
 *
 * Sources may be in a unit several times, in kernels of different calls: a guard by hash (of the text and of where its attributes
 * are) lets the compiler see each once, and names what it defines. Lines of its own are counted from its first, under the op's name, so that an error of the compiler says whose it is. */
#include "target/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "ir/text.h"

enum { GRAIN = 1024 };

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
static rp_status hash_source(target_source *s, rp_error *err) {
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
static void put_names(const target_source *s, bool on, base_buf *b) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    for (uint32_t i = 0; a && i < a->n; i++)
        if (on)
            base_buf_printf(b, "#define ATTR_%s %u\n", a->u.values[i].name, i);
        else
            base_buf_printf(b, "#undef ATTR_%s\n", a->u.values[i].name);
}

void target_source_put(lowerer *L, const target_source *s, bool scoped) {
    base_buf *b = &L->source;
    base_buf_puts(b, types_text);
    base_buf_printf(b, "#ifndef RP_OP_%s\n#define RP_OP_%s\n", s->hash, s->hash);
    put_names(s, true, b);
    base_buf_printf(b, "#define rp_op rp_op_%s\n", s->hash);
    if (scoped) base_buf_printf(b, "namespace rp_own_%s {\n", s->hash);
    base_buf_printf(b, "#line 1 \"custom op %s\"\n%s\n", s->d->name, s->text);
    if (scoped) base_buf_puts(b, "}\n");
    base_buf_puts(b, "#undef rp_op\n");
    put_names(s, false, b);
    base_buf_puts(b, "#endif\n");
}

/* --- its arguments ------------------------------------------------------------------------------- */

static void put_views(lowerer *L, const target_source *s) {
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

static void put_values(const target_source *s, base_buf *b) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    for (uint32_t i = 0; a && i < a->n; i++) put_list(&a->u.values[i], i, b);
    base_buf_puts(b, "    const rp_op_value attr[] = {\n");
    for (uint32_t i = 0; a && i < a->n; i++) put_value(&a->u.values[i], i, b);
    base_buf_puts(b, "        {0, 0, 0, 0, 0, 0, 0}};\n");
}

void target_source_put_arguments(lowerer *L, const target_source *s) {
    put_views(L, s);
    put_values(s, &L->source);
}

/* --- the kernel ------------------------------------------------------------------------------------- */

/* How many items there are: a dim of the piece. */
static rp_status items_of(const lowerer *L, const target_source *s, ir_dim *out) {
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

rp_status target_source_begin(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d,
                              const char *text, target_source *out) {
    ir_type *types;
    *out = (target_source){.d = d, .n = n, .text = text, .begin = L->source.len};
    RP_TRY(lower_operand_types(L->g, r, L->out, &types, L->err));
    out->types = types;
    RP_TRY(items_of(L, out, &out->items));
    if (text) RP_TRY(hash_source(out, L->err));
    out->name = lower_name(L, "op", &r, 1, (uint32_t)(L->group - L->f->groups));
    return out->name ? RP_OK : rp_fail(L->err, RP_NOMEM, "kernel of custom op %s", d->name);
}

void target_source_end(lowerer *L, const target_source *s) {
    base_buf_puts(&L->source, "#line 1 \"generated\"\n");
    (void)lower_add_kernel(L, s->name, s->begin, (gen_matmul_uses){0});
}

lower_launch *target_source_launch(lowerer *L, const target_source *s) {
    lower_launch *l = lower_add_launch(L);
    l->name = s->name;
    l->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = s->name};
    l->n_alts = 1;
    l->rows = l->items = s->items;
    l->grain = s->d->items == RP_OP_ELEMENTS ? GRAIN : 1;
    return l;
}
