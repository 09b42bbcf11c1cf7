/* Values for the symbols of a graph, from text and from the shapes of inputs. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"

static int64_t default_size(const ir_symbol *s) {
    int64_t d = s->divisor > 0 ? s->divisor : 1, want = s->min > 2 ? s->min : 2;
    if (want > s->max) want = s->max;
    int64_t up = (want + d - 1) / d * d;
    return up <= s->max ? up : s->max / d * d;
}

static const int64_t NOT_GIVEN = INT64_MIN; /* no size is negative */

static rp_status set_one(const ir_dims *t, char *item, int64_t *values, rp_error *err) {
    char *eq = strchr(item, '=');
    int64_t v = 0;
    if (!eq)
        return rp_fail(err, RP_CONFIG, "size '%s' is not NAME=NUMBER; write for example T=4,R=2",
                       item);
    *eq = 0;
    uint32_t i = ir_dims_find(t, item);
    if (i == UINT32_MAX) return rp_fail(err, RP_CONFIG, "the graph has no size called '%s'", item);
    if (values[i] != NOT_GIVEN) return rp_fail(err, RP_CONFIG, "size '%s' is given twice", item);
    const ir_symbol *s = ir_dims_symbol(t, i);
    if (!base_parse_i64(eq + 1, &v) || v < s->min || v > s->max ||
        (s->divisor > 1 && v % s->divisor))
        return rp_fail(err, RP_CONFIG, "%s=%s: a number from %lld to %lld%s is expected", item,
                       eq + 1, (long long)s->min, (long long)s->max,
                       s->divisor > 1 ? " that its divisor divides" : "");
    values[i] = v;
    return RP_OK;
}

rp_status api_sizes(const ir_graph *g, const char *sizes, int64_t *values, rp_error *err) {
    const ir_dims *t = ir_graph_dims(g);
    rp_status st = RP_OK;
    bool given = sizes && *sizes;
    char *list = given ? base_strdup(sizes) : NULL;
    if (given && !list) return rp_fail(err, RP_NOMEM, "sizes");
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) values[i] = NOT_GIVEN;
    for (char *at = list, *end; at; at = end) {
        end = strchr(at, ',');
        if (end) *end++ = 0;
        RP_TRY_OUT(set_one(t, at, values, err));
    }
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++)
        if (values[i] == NOT_GIVEN) values[i] = default_size(ir_dims_symbol(t, i));
out:
    base_free(list);
    return st;
}

/* The value of symbol s, where dim d of an input is a multiple of it and a constant. */
static bool read_dim(const plan *p, const rp_buffer *inputs, uint32_t i, uint32_t d, uint32_t *s,
                     int64_t *v) {
    int64_t coef, constant;
    if (!ir_dim_code_linear(&p->inputs[i].dim[d], s, &coef, &constant)) return false;
    *v = (inputs[i].dim[d] - constant) / coef;
    return true;
}

static rp_status symbol_differs(const plan *p, const rp_buffer *inputs, uint32_t symbol, uint32_t i,
                                uint32_t d, rp_error *err) {
    uint32_t s = UINT32_MAX, at = 0, axis = 0;
    int64_t first = 0, now = 0;
    for (at = 0; s != symbol && at < p->n_inputs; at++)
        for (axis = 0; s != symbol && axis < p->inputs[at].rank; axis++)
            if (!read_dim(p, inputs, at, axis, &s, &first)) s = UINT32_MAX;
    (void)read_dim(p, inputs, i, d, &s, &now);
    return rp_fail(err, RP_INVALID,
                   "%s is %lld by axis %u of input %s and %lld by axis %u of input %s; it must be "
                   "one size",
                   p->symbols[symbol].name, (long long)first, axis - 1, p->inputs[at - 1].name,
                   (long long)now, d, p->inputs[i].name);
}

/* --- sizes that no input tells --------------------------------------------------------- */

static bool dims_use(const ir_dims *t, const ir_dim *d, uint32_t n, uint32_t symbol) {
    for (uint32_t i = 0; i < n; i++)
        if (ir_dim_uses(t, d[i], symbol)) return true;
    return false;
}

static bool types_use(const ir_dims *t, const ir_type *x, uint32_t n, uint32_t symbol) {
    for (uint32_t i = 0; i < n; i++)
        if (dims_use(t, x[i].shape.dim, x[i].shape.rank, symbol)) return true;
    return false;
}

static bool attr_uses(const ir_dims *t, const ir_attr *a, uint32_t symbol) {
    switch (ir_attr_key_type(a->key)) {
    case IR_ATTR_TYPE_DIM: return ir_dim_uses(t, a->u.dim, symbol);
    case IR_ATTR_TYPE_DIMS: return dims_use(t, a->u.dims, a->n, symbol);
    case IR_ATTR_TYPE_TYPES: return types_use(t, a->u.types, a->n, symbol);
    default: return false;
    }
}

static rp_status depends_on(const ir_graph *g, const char *name, bool *out, rp_error *err);

static rp_status node_depends(const ir_dims *t, const ir_node *n, uint32_t symbol, bool *out,
                              rp_error *err) {
    const ir_graph *inner;
    *out = dims_use(t, n->shape.dim, n->shape.rank, symbol) ||
           types_use(t, n->more, n->n_more, symbol);
    for (uint32_t i = 0; i < n->n_attrs && !*out; i++) *out = attr_uses(t, &n->attrs[i], symbol);
    for (uint32_t i = 0; !*out && (inner = ir_node_graph(n, i)); i++)
        RP_TRY(depends_on(inner, ir_dims_symbol(t, symbol)->name, out, err));
    return RP_OK;
}

/* Whether anything that g gives or writes does. */
static rp_status depends_on(const ir_graph *g, const char *name, bool *out, rp_error *err) {
    const ir_dims *t = ir_graph_dims(g);
    uint32_t n = ir_graph_count(g), symbol = ir_dims_find(t, name);
    rp_status st = RP_OK;
    *out = false;
    if (symbol == UINT32_MAX) return RP_OK;
    bool *alive = base_alloc_array(n + 1u, sizeof *alive);
    if (!alive) return rp_fail(err, RP_NOMEM, "sizes");
    for (uint32_t i = 0; i < ir_output_count(g); i++) alive[ir_output_at(g, i)] = true;
    for (ir_ref r = n; r-- > 0 && st == RP_OK && !*out;) {
        const ir_node *x = ir_node_at(g, r);
        if (!alive[r] && !ir_node_is_effect(x)) continue;
        for (uint32_t i = 0; i < x->n_in; i++) alive[x->in[i]] = true;
        st = node_depends(t, x, symbol, out, err);
    }
    base_free(alive);
    return st;
}

/* As read_dim finds it in the plan. */
static bool is_told(const ir_graph *g, uint32_t symbol) {
    const ir_dims *t = ir_graph_dims(g);
    for (uint32_t i = 0; i < ir_leaf_count(g, IR_LEAF_INPUT); i++) {
        const ir_shape *s = &ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->shape;
        for (uint32_t d = 0; d < s->rank; d++) {
            ir_dim_code code;
            uint32_t of;
            int64_t coef, constant;
            if (ir_dim_code_of(t, s->dim[d], &code, NULL) == RP_OK &&
                ir_dim_code_linear(&code, &of, &coef, &constant) && of == symbol)
                return true;
        }
    }
    return false;
}

rp_status api_check_sizes(const ir_graph *g, rp_error *err) {
    const ir_dims *t = ir_graph_dims(g);
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        bool matters = false;
        if (s->min == s->max || is_told(g, i)) continue;
        RP_TRY(depends_on(g, s->name, &matters, err));
        if (matters)
            return rp_fail(err, RP_INVALID,
                           "graph @%s depends on size %s, which no input tells: give it an input "
                           "with %s, or a multiple of %s plus a number, as a dimension",
                           ir_graph_name(g), s->name, s->name, s->name);
    }
    return RP_OK;
}

/* --- sizes of a call ------------------------------------------------------------------- */

rp_status api_read_sizes(const plan *p, const rp_buffer *inputs, int64_t *symbols, rp_error *err) {
    const int64_t unknown = INT64_MIN;
    for (uint32_t s = 0; s < p->n_symbols; s++) symbols[s] = unknown;
    for (uint32_t i = 0; i < p->n_inputs; i++)
        for (uint32_t d = 0; d < p->inputs[i].rank; d++) {
            uint32_t s;
            int64_t v;
            if (!read_dim(p, inputs, i, d, &s, &v)) continue;
            if (symbols[s] != unknown && symbols[s] != v)
                return symbol_differs(p, inputs, s, i, d, err);
            symbols[s] = v;
        }
    for (uint32_t s = 0; s < p->n_symbols; s++)
        if (symbols[s] == unknown) symbols[s] = p->symbols[s].min;
    return RP_OK;
}
