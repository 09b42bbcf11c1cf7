/* What a model says of itself (reprise/support.h): its sizes are marks behind those of the user, and its names are looked for in each
 * call that is traced. */
#include "trace/support.h"

#include "base/alloc.h"
#include "base/options.h"
#include "base/str.h"
#include "config/config.h"
#include "front/recording.h"

/* --- taking ------------------------------------------------------------------------------- */

/* As front_describe has it: x is L['x']. */
static rp_status take_name(const char *name, const char **out, rp_error *err) {
    base_buf b;
    if (!name || !*name) return rp_fail(err, RP_INVALID, "rp_support: an argument without a name");
    bool whole = name[0] == 'L' && (name[1] == 0 || name[1] == '[');
    base_buf_init(&b, 0);
    base_buf_printf(&b, whole ? "%s" : "L['%s']", name);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        *out = base_buf_take(&b);
    else
        base_buf_done(&b);
    return st;
}

/* NULL stays NULL. */
static rp_status take_dims(const rp_arg_dim **list, uint32_t *n, rp_error *err) {
    const rp_arg_dim *given = *list;
    uint32_t n_given = *n;
    *list = NULL;
    *n = 0;
    if (!given) return RP_OK;
    rp_arg_dim *own = base_alloc_array(n_given + 1u, sizeof *own);
    if (!own) return rp_fail(err, RP_NOMEM, "rp_support");
    for (*list = own; *n < n_given; ++*n) {
        own[*n].axis = given[*n].axis;
        RP_TRY(take_name(given[*n].arg, &own[*n].arg, err));
    }
    return RP_OK;
}

static rp_status take_mutates(rp_support *s, rp_error *err) {
    const char *const *given = s->mutates;
    uint32_t n_given = given ? s->n_mutates : 0;
    const char **own = base_alloc_array(n_given + 1u, sizeof *own);
    s->n_mutates = 0;
    s->mutates = own;
    if (!own) return rp_fail(err, RP_NOMEM, "rp_support");
    for (; s->n_mutates < n_given; s->n_mutates++)
        RP_TRY(take_name(given[s->n_mutates], &own[s->n_mutates], err));
    return RP_OK;
}

rp_status front_support_take(rp_jit *f, const rp_support *given, rp_error *err) {
    rp_support s = {.size = sizeof s};
    if (!given) return RP_OK;
    RP_TRY(base_options_take(&s, sizeof s, given, "rp_support", err));
    f->support = base_alloc(sizeof *f->support);
    if (!f->support) return rp_fail(err, RP_NOMEM, "rp_support");
    *f->support = s;
    rp_status dynamic =
        take_dims(&f->support->dynamic_arg_dims, &f->support->n_dynamic_arg_dims, err);
    rp_status unbacked =
        take_dims(&f->support->mark_unbacked_dims, &f->support->n_mark_unbacked_dims, err);
    rp_status mutates = take_mutates(f->support, err);
    return dynamic != RP_OK ? dynamic : unbacked != RP_OK ? unbacked : mutates;
}

static void free_dims(const rp_arg_dim *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) base_free((char *)(uintptr_t)list[i].arg);
    base_free((rp_arg_dim *)(uintptr_t)list);
}

void front_support_done(rp_jit *f) {
    rp_support *s = f->support;
    if (!s) return;
    free_dims(s->dynamic_arg_dims, s->n_dynamic_arg_dims);
    free_dims(s->mark_unbacked_dims, s->n_mark_unbacked_dims);
    for (uint32_t i = 0; i < s->n_mutates; i++) base_free((char *)(uintptr_t)s->mutates[i]);
    base_free((char **)(uintptr_t)s->mutates);
    base_free(s);
}

void front_support_ask(rp_jit *f, const rp_compilation_config *resolved) {
    const rp_support *s = f->support;
    f->disabled = s && s->enable_if && !s->enable_if(f->user, resolved);
    f->eager = f->eager || f->disabled;
}

/* --- sizes -------------------------------------------------------------------------------- */

const front_mark *front_support_mark(const rp_jit *f, const char *source, uint32_t axis,
                                     uint32_t rank) {
    static const front_mark dynamic = {.kind = FRONT_MARK_DYNAMIC,
                                       .max = INT64_MAX,
                                       .yields = true},
                            unbacked = {.kind = FRONT_MARK_UNBACKED, .max = INT64_MAX};
    const rp_support *s = f->support;
    if (!s) return NULL;
    if (trace_support_lists(s->mark_unbacked_dims, s->n_mark_unbacked_dims, source, axis, rank))
        return &unbacked;
    if (!trace_support_dynamic(s, source, axis, rank)) return NULL;
    return f->shapes == CONFIG_SHAPES_UNBACKED ? &unbacked : &dynamic;
}

/* --- names -------------------------------------------------------------------------------- */

/* An item of v by the text in front of its next one, "['x']" or "[3]", which is stepped over; NULL: there is none. */
static const rp_value *item_of(const rp_value *v, const char **text) {
    const char *z = *text + 1;
    bool list = v->kind == RP_VALUE_LIST || v->kind == RP_VALUE_TUPLE;
    uint32_t i = 0;
    if (v->kind == RP_VALUE_MAP && *z == '\'') {
        for (; i < v->n; i++) {
            size_t n = strlen(v->name[i]);
            if (strncmp(z + 1, v->name[i], n) != 0 || strncmp(z + 1 + n, "']", 2) != 0) continue;
            *text = z + n + 3;
            return &v->item[i];
        }
        return NULL;
    }
    if (!list || *z < '0' || *z > '9') return NULL;
    while (*z >= '0' && *z <= '9' && i < v->n) i = i * 10 + (uint32_t)(*z++ - '0');
    *text = z + 1;
    return *z == ']' && i < v->n ? &v->item[i] : NULL;
}

static const rp_value *find(const rp_value *args, const char *name) {
    const char *z = name + 1;
    while (args && *z == '[') args = item_of(args, &z);
    return args && *z == 0 ? args : NULL;
}

static rp_status check_name(const rp_jit *f, const front_args *a, const char *list,
                            const char *name, rp_error *err) {
    if (find(a->value, name)) return RP_OK;
    return rp_fail(err, RP_INVALID, "%s: %s of the model names %s, which no argument is called",
                   f->name, list, name);
}

/* Each tensor that d stands for has the axis. */
static rp_status check_axis(const rp_jit *f, const front_args *a, const char *list,
                            const rp_arg_dim *d, rp_error *err) {
    rp_status st = RP_OK;
    base_buf source;
    base_buf_init(&source, 0);
    for (uint32_t i = 0; i < a->n_tensors && st == RP_OK; i++) {
        uint32_t rank = a->tensor[i]->tensor.rank;
        base_buf_clear(&source);
        (void)front_describe(a->word, a->at[i], &source);
        st = base_buf_status(&source, err);
        if (st == RP_OK && trace_support_covers(d->arg, source.data) &&
            trace_support_axis(d, rank) == UINT32_MAX)
            st = rp_fail(err, RP_INVALID, "%s: %s of the model names axis %d of %s, which has %u",
                         f->name, list, d->axis, source.data, rank);
    }
    base_buf_done(&source);
    return st;
}

static rp_status check_dims(const rp_jit *f, const front_args *a, const char *list,
                            const rp_arg_dim *dims, uint32_t n, rp_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        RP_TRY(check_name(f, a, list, dims[i].arg, err));
        RP_TRY(check_axis(f, a, list, &dims[i], err));
    }
    return RP_OK;
}

rp_status front_support_check(const rp_jit *f, const front_args *a, rp_error *err) {
    const rp_support *s = f->support;
    if (!s) return RP_OK;
    RP_TRY(check_dims(f, a, "dynamic_arg_dims", s->dynamic_arg_dims, s->n_dynamic_arg_dims, err));
    RP_TRY(check_dims(f, a, "mark_unbacked_dims", s->mark_unbacked_dims, s->n_mark_unbacked_dims,
                      err));
    for (uint32_t i = 0; i < s->n_mutates; i++)
        RP_TRY(check_name(f, a, "mutates", s->mutates[i], err));
    return RP_OK;
}

/* --- writes ------------------------------------------------------------------------------- */

rp_status front_support_write(const rp_jit *f, const front_args *a, uint32_t k, const ir_graph *g,
                              ir_ref effect, rp_error *err) {
    base_buf source;
    if (!f->support) return RP_OK;
    base_buf_init(&source, 0);
    (void)front_describe(a->word, a->at[k], &source);
    rp_status st = base_buf_status(&source, err);
    if (st == RP_OK) st = trace_support_write(f->support, g, effect, source.data, err);
    base_buf_done(&source);
    return st;
}

/* The tensor of the arguments whose memory x writes as operand i; n_tensors: none. */
static uint32_t written_by(const rp_jit_call *call, const ir_node *x, uint32_t i) {
    ir_ref leaf = ir_node_at(call->g->ir, x->in[i])->memory;
    uint32_t k = 0;
    while (k < call->a->n_tensors && call->tensor[k].ref != leaf) k++;
    return k;
}

rp_status front_support_writes(const rp_jit_call *call, rp_error *err) {
    const ir_graph *g = call->g->ir;
    for (ir_ref e = 0; call->f->support && e < ir_graph_count(g); e++) {
        const ir_node *x = ir_node_at(g, e);
        uint64_t writes = ir_node_is_effect(x) ? ir_node_writes(x) : 0;
        for (uint32_t i = 0; i < x->n_in && i < 64; i++) {
            if (!(writes >> i & 1)) continue;
            uint32_t k = written_by(call, x, i);
            if (k < call->a->n_tensors) RP_TRY(front_support_write(call->f, call->a, k, g, e, err));
        }
    }
    return RP_OK;
}
