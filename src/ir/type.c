/* Types as text, and what every shape and name must satisfy. */
#include <string.h>

#include "ir/node.h"

void ir_type_print(const ir_graph *g, rp_dtype dtype, const ir_shape *shape, base_buf *out) {
    base_buf_puts(out, rp_dtype_name(dtype));
    base_buf_putc(out, '[');
    for (uint32_t i = 0; i < shape->rank && i < IR_MAX_RANK; i++) {
        if (i > 0) base_buf_putc(out, ',');
        ir_dim_print(ir_graph_dims(g), shape->dim[i], out);
    }
    base_buf_putc(out, ']');
}

static void cut_text(base_buf *b, ir_type_text *out) {
    size_t n = b->data ? b->len : 0, max = sizeof out->s - 1;
    if (n > 0) memcpy(out->s, b->data, n < max ? n : max);
    out->s[n < max ? n : max] = 0;
    if (n > max) memcpy(out->s + max - 3, "...", 3);
    base_buf_done(b);
}

ir_type_text ir_shape_text(const ir_graph *g, rp_dtype dtype, const ir_shape *shape) {
    ir_type_text t;
    base_buf b;
    base_buf_init(&b, 0);
    ir_type_print(g, dtype, shape, &b);
    cut_text(&b, &t);
    return t;
}

ir_type_text ir_type_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    if (!n) return (ir_type_text){"?"};
    return ir_shape_text(g, n->dtype, &n->shape);
}

ir_type_text ir_name_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    ir_type_text t;
    base_buf b;
    uint32_t number = 0;
    base_buf_init(&b, 0);
    for (ir_ref i = 0; n && i < r; i++) number += ir_node_at(g, i)->op != IR_input;
    if (!n)
        base_buf_putc(&b, '?');
    else if (n->op == IR_input)
        base_buf_printf(&b, "%%%s", n->name);
    else
        base_buf_printf(&b, "%%%u", number);
    cut_text(&b, &t);
    return t;
}

ir_type_text ir_dim_text(const ir_graph *g, ir_dim d) {
    ir_type_text t;
    base_buf b;
    base_buf_init(&b, 0);
    ir_dim_print(ir_graph_dims(g), d, &b);
    cut_text(&b, &t);
    return t;
}

rp_status ir_check_shape(const ir_graph *g, const char *what, rp_dtype dtype, const ir_shape *shape,
                         rp_error *err) {
    int64_t lo, hi;
    ir_dims *t = ir_graph_dims(g);
    if ((unsigned)dtype >= RP_DTYPE_COUNT_)
        return rp_fail(err, RP_INVALID, "%s: unknown element type %d", what, (int)dtype);
    if (shape->rank > IR_MAX_RANK)
        return rp_fail(err, RP_INVALID, "%s: rank %u; %d is the most", what, shape->rank,
                       IR_MAX_RANK);
    for (uint32_t i = 0; i < shape->rank; i++) {
        ir_dim_bounds(t, shape->dim[i], &lo, &hi);
        if (shape->dim[i] == IR_DIM_BAD)
            return rp_fail(err, ir_dims_refusal(t),
                           "%s: the size of axis %u is invalid or overflows", what, i);
        if (lo < 0 && ir_dim_le(t, ir_dim_const(t, 0), shape->dim[i]) != IR_TRUE)
            return rp_fail(err, RP_INVALID, "%s: axis %u of %s %s negative", what, i,
                           ir_shape_text(g, dtype, shape).s, hi < 0 ? "is" : "may be");
    }
    if (!rp_dtype_is_quant(dtype)) return RP_OK;
    int64_t block = (int64_t)rp_dtype_block(dtype);
    if (shape->rank == 0 || ir_dim_divisible(t, shape->dim[shape->rank - 1], block) != IR_TRUE)
        return rp_fail(err, RP_INVALID, "%s: the last axis of %s is not a multiple of %lld", what,
                       ir_shape_text(g, dtype, shape).s, (long long)block);
    return RP_OK;
}

bool ir_alpha(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool ir_digit(char c) {
    return c >= '0' && c <= '9';
}

bool ir_word_char(char c) {
    return ir_alpha(c) || ir_digit(c) || c == '_';
}

bool ir_name_char(char c) {
    return ir_word_char(c) || c == '.' || c == '-' || c == '/';
}

static size_t name_length(const char *name) {
    size_t n = 0;
    if (!ir_alpha(*name) && *name != '_') return 0;
    while (ir_name_char(name[n])) n++;
    return n;
}

bool ir_name_ok(const char *name) {
    size_t n = name_length(name);
    return n > 0 && name[n] == 0 && n <= IR_MAX_NAME;
}

bool ir_custom_name_ok(const char *name) {
    size_t n = name_length(name);
    return n > 0 && name[n] == ':' && name[n + 1] == ':' && ir_name_ok(name + n + 2) &&
           strlen(name) <= IR_MAX_NAME;
}
