/* Values for the symbols of a graph, from text and from the shapes of inputs. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "ir/site.h"
#include "ir/text.h"
#include "ir/told.h"

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

rp_status api_check_sizes(const ir_graph *g, rp_error *err) {
    uint32_t i;
    ir_ref r;
    RP_TRY(ir_find_untold(g, &i, err));
    if (i == UINT32_MAX) return RP_OK;
    RP_TRY(ir_find_dependent(g, i, &r, err));
    const char *name = ir_dims_symbol(ir_graph_dims(g), i)->name;
    rp_status st = rp_fail(
        err, RP_INVALID,
        "%s %s of graph @%s depends on size %s, which no input tells: give it an input with %s, "
        "or a multiple of %s plus a number, as a dimension",
        ir_op_table(ir_node_at(g, r)->op)->name, ir_type_of(g, r).s, ir_graph_name(g), name, name,
        name);
    ir_site_blame(g, r, err);
    return st;
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
