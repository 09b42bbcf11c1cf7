/* Graph to text (docs/ir.md).
 *
 * Everything a graph holds is printed, dead nodes too, in node order; values get new numbers, inputs
 * keep their names. No pointer, locale, hash order or default is left implicit, so equal graphs
 * have equal texts. */
#include <inttypes.h>
#include <string.h>

#include "ir/node.h"
#include "ir/op_attrs.h"
#include "ir/text.h"

#define TYPE_COLUMN 44

void ir_float_print(double v, base_buf *out) {
    uint64_t bits, mant;
    memcpy(&bits, &v, sizeof bits);
    int exp = (int)(bits >> 52 & 0x7ff);
    mant = bits & ((UINT64_C(1) << 52) - 1);
    if (exp == 0x7ff && mant != 0) {
        base_buf_puts(out, "nan");
        return;
    }
    if (bits >> 63) base_buf_putc(out, '-');
    if (exp == 0x7ff) {
        base_buf_puts(out, "inf");
        return;
    }
    int digits = 13;
    int e2 = exp != 0 ? exp - 1023 : mant != 0 ? -1022 : 0;
    while (digits > 0 && (mant & 15) == 0) {
        mant >>= 4;
        digits--;
    }
    base_buf_printf(out, "0x%d", exp != 0);
    if (digits > 0) base_buf_printf(out, ".%0*" PRIx64, digits, mant);
    base_buf_printf(out, "p%+d", e2);
}

static void print_list(const ir_graph *g, const ir_attr *a, bool dims, base_buf *out) {
    base_buf_putc(out, '[');
    for (uint32_t i = 0; i < a->n; i++) {
        if (i > 0) base_buf_putc(out, ',');
        if (dims)
            ir_dim_print(ir_graph_dims(g), a->u.dims[i], out);
        else
            base_buf_printf(out, "%lld", (long long)a->u.ints[i]);
    }
    base_buf_putc(out, ']');
}

static void print_types(const ir_graph *g, const ir_type *t, uint32_t n, base_buf *out) {
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0) base_buf_putc(out, ',');
        ir_type_print(g, t[i].dtype, &t[i].shape, out);
    }
}

/* Its lines, further to the right. */
static void print_graph(const ir_graph *g, base_buf *out) {
    const char *text = ir_graph_text(g);
    if (!text) out->failed = true;
    for (const char *p = text; p && *p; p++)
        if (*p != '\n')
            base_buf_putc(out, *p);
        else if (p[1])
            base_buf_puts(out, "\n  ");
}

/* brief: a graph's name is enough. */
static void print_attr(const ir_graph *g, const ir_attr *a, bool brief, base_buf *out) {
    base_buf_printf(out, "%s=", ir_attr_key_name(a->key));
    switch (ir_attr_key_type(a->key)) {
    case IR_ATTR_TYPE_INT: base_buf_printf(out, "%lld", (long long)a->u.i); break;
    case IR_ATTR_TYPE_INTS: print_list(g, a, false, out); break;
    case IR_ATTR_TYPE_FLOAT: ir_float_print(a->u.f, out); break;
    case IR_ATTR_TYPE_BOOL: base_buf_puts(out, a->u.i ? "true" : "false"); break;
    case IR_ATTR_TYPE_STR: base_buf_printf(out, "\"%s\"", a->u.s); break;
    case IR_ATTR_TYPE_DTYPE: base_buf_puts(out, rp_dtype_name((rp_dtype)a->u.i)); break;
    case IR_ATTR_TYPE_DIM: ir_dim_print(ir_graph_dims(g), a->u.dim, out); break;
    case IR_ATTR_TYPE_DIMS: print_list(g, a, true, out); break;
    case IR_ATTR_TYPE_TYPES:
        base_buf_putc(out, '[');
        print_types(g, a->u.types, a->n, out);
        base_buf_putc(out, ']');
        break;
    case IR_ATTR_TYPE_GRAPH:
        if (brief)
            base_buf_printf(out, "@%s", ir_graph_name(a->u.graph));
        else
            print_graph(a->u.graph, out);
        break;
    case IR_ATTR_TYPE_VALUES: ir_op_attrs_print(a->u.values, a->n, out); break;
    }
}

static void print_const(const ir_node *n, base_buf *out) {
    double v = ir_attr_float(n, IR_ATTR_VALUE, 0);
    base_buf_putc(out, ' ');
    if (ir_dtype_is_real(n->dtype))
        ir_float_print(v, out);
    else
        base_buf_printf(out, "%lld", (long long)v);
}

/* number[r]: the printed number of node r; unused for inputs. */
static void print_ref(const ir_graph *g, const uint32_t *number, ir_ref r, base_buf *out) {
    const ir_node *n = ir_node_at(g, r);
    if (n->op == IR_input)
        base_buf_printf(out, "%%%s", n->name);
    else
        base_buf_printf(out, "%%%u", number[r]);
}

static void print_op(const ir_graph *g, const uint32_t *number, ir_ref r, bool brief,
                     base_buf *out) {
    const ir_node *n = ir_node_at(g, r);
    base_buf_printf(out, "%%%u = %s", number[r], ir_op_table(n->op)->name);
    if (n->name) base_buf_printf(out, " @%s", n->name);
    for (uint32_t i = 0; i < n->n_in; i++) {
        base_buf_puts(out, i > 0 ? ", " : " ");
        print_ref(g, number, n->in[i], out);
    }
    if (n->op == IR_const) {
        print_const(n, out);
    } else if (n->n_attrs > 0) {
        for (uint32_t i = 0; i < n->n_attrs; i++) {
            base_buf_puts(out, i > 0 ? ", " : " {");
            print_attr(g, &n->attrs[i], brief, out);
        }
        base_buf_putc(out, '}');
    }
}

static void print_result_types(const ir_graph *g, const ir_node *n, base_buf *out) {
    if (n->n_more > 0) base_buf_putc(out, '(');
    ir_type_print(g, n->dtype, &n->shape, out);
    for (uint32_t i = 0; i < n->n_more; i++) {
        base_buf_puts(out, ", ");
        ir_type_print(g, n->more[i].dtype, &n->more[i].shape, out);
    }
    if (n->n_more > 0) base_buf_putc(out, ')');
}

static void print_node(const ir_graph *g, const uint32_t *number, ir_ref r, base_buf *out) {
    const ir_node *n = ir_node_at(g, r);
    size_t start = out->len, width;
    base_buf_puts(out, "  ");
    print_op(g, number, r, false, out);
    width = ir_node_graph(n, 0) ? TYPE_COLUMN : out->len - start;
    base_buf_printf(out, "%*s: ", width < TYPE_COLUMN ? (int)(TYPE_COLUMN - width) : 1, "");
    print_result_types(g, n, out);
    base_buf_putc(out, '\n');
}

static void print_where(const ir_dims *t, base_buf *out) {
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        base_buf_printf(out, "%s %s in [%lld,", i > 0 ? "," : " where", s->name, (long long)s->min);
        if (s->max == INT64_MAX)
            base_buf_puts(out, "inf]");
        else
            base_buf_printf(out, "%lld]", (long long)s->max);
        if (s->divisor != 1) base_buf_printf(out, " by %lld", (long long)s->divisor);
    }
}

static void print_header(const ir_graph *g, base_buf *out) {
    uint32_t n_out = ir_output_count(g);
    base_buf_printf(out, "graph @%s(", ir_graph_name(g));
    for (uint32_t i = 0; i < ir_leaf_count(g, IR_LEAF_INPUT); i++) {
        const ir_node *n = ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i));
        base_buf_printf(out, "%s%%%s: ", i > 0 ? ", " : "", n->name);
        ir_type_print(g, n->dtype, &n->shape, out);
        if (n->mutates) base_buf_puts(out, " mutates");
    }
    base_buf_puts(out, n_out == 1 ? ") -> " : ") -> (");
    for (uint32_t i = 0; i < n_out; i++) {
        const ir_node *n = ir_node_at(g, ir_output_at(g, i));
        if (i > 0) base_buf_puts(out, ", ");
        ir_type_print(g, n->dtype, &n->shape, out);
    }
    if (n_out != 1) base_buf_putc(out, ')');
    print_where(ir_graph_dims(g), out);
    base_buf_puts(out, " {\n");
}

/* Of each node but inputs, which have names; NULL without memory, and then out has failed. */
static uint32_t *number_nodes(const ir_graph *g, base_buf *out) {
    uint32_t n = ir_graph_count(g), next = 0;
    uint32_t *number = base_alloc_array(n + 1u, sizeof *number);
    if (!number) out->failed = true;
    for (ir_ref r = 0; r < n && number; r++)
        if (ir_node_at(g, r)->op != IR_input) number[r] = next++;
    return number;
}

void ir_print_nodes(const ir_graph *g, const ir_ref *nodes, uint32_t n, base_buf *out) {
    uint32_t *number = number_nodes(g, out);
    for (uint32_t i = 0; i < n && number; i++)
        if (ir_node_at(g, nodes[i])->op != IR_input) print_node(g, number, nodes[i], out);
    base_free(number);
}

void ir_print_line(const ir_graph *g, ir_ref r, base_buf *out) {
    uint32_t *number = ir_node_at(g, r)->op == IR_input ? NULL : number_nodes(g, out);
    if (!number) return;
    print_op(g, number, r, true, out);
    base_buf_puts(out, " : ");
    print_result_types(g, ir_node_at(g, r), out);
    base_free(number);
}

void ir_print(const ir_graph *g, base_buf *out) {
    uint32_t n = ir_graph_count(g);
    uint32_t *number = number_nodes(g, out);
    if (!number) return;
    print_header(g, out);
    for (ir_ref r = 0; r < n; r++)
        if (ir_node_at(g, r)->op != IR_input) print_node(g, number, r, out);
    base_buf_puts(out, "  ret");
    for (uint32_t i = 0; i < ir_output_count(g); i++) {
        base_buf_puts(out, i > 0 ? ", " : " ");
        print_ref(g, number, ir_output_at(g, i), out);
    }
    base_buf_puts(out, "\n}\n");
    base_free(number);
}

rp_status ir_print_string(const ir_graph *g, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    ir_print(g, &b);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}
