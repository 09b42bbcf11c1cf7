/* Integer arguments that the function takes as sizes (rp_jit_dim): symbols like those of tensors, in the first call a number.
 *
 * A graph is told its sizes by its inputs alone, so an integer is an input behind the tensors: without elements, and as long as its size. A size
 * is not negative, so of a negative integer the symbol is what it is times -1, which its guards say.
 *
 * What a function reads of an integer as a number of C, the library does not see. A trace with symbols of integers is therefore made once more, with
 * another number in each: where that makes another graph, the integer is a number. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "front/recording.h"

#define MOST_NUMBER (INT64_C(1) << 61)

/* --- symbols -------------------------------------------------------------------------------- */

static int64_t size_of(int64_t is) {
    return (int64_t)(is < 0 ? 0 - (uint64_t)is : (uint64_t)is);
}

static rp_status outside(const rp_jit *f, const char *source, int64_t is, const front_mark *m,
                         rp_error *err) {
    const int64_t most = m->max == INT64_MAX ? FRONT_MOST_INT : m->max;
    return rp_fail(err, RP_INVALID,
                   "%s: %s is %" PRId64 ", which is outside of its mark, [%" PRId64 ", %" PRId64
                   "]%s",
                   f->name, source, is, m->min, most,
                   m->max == INT64_MAX ? ": no symbol of an integer is larger" : "");
}

/* An integer, and how sizes are traced that nobody marked. */
typedef struct asked_int {
    rp_jit *f;
    const char *source;
    int64_t is;
    front_sizes sizes;
    bool eager; /* it is a number, and only the range of a mark is held */
} asked_int;

/* Whether the integer is to be a symbol, by marks and history. */
static rp_status want_symbol(const asked_int *k, front_symbol *out, bool *wanted, rp_error *err) {
    rp_jit *f = k->f;
    const char *source = k->source;
    const int64_t is = k->is;
    const front_mark *m = front_mark_of_int(f, source);
    const int64_t size = size_of(is);
    *out = (front_symbol){.hint = size,
                          .min = is < 0,
                          .max = FRONT_MOST_INT,
                          .divisor = 1,
                          .table_i = UINT32_MAX,
                          .integer = true,
                          .negated = is < 0,
                          .leaf = IR_NONE};
    *wanted = false;
    if (m && m->kind == FRONT_MARK_STATIC) return RP_OK;
    if (m && (is < m->min || is > m->max || (m->max == INT64_MAX && is > FRONT_MOST_INT)))
        return outside(f, source, is, m, err);
    if (k->eager) return RP_OK;
    if (m) {
        *wanted = true;
        out->policy = m->kind == FRONT_MARK_DYNAMIC ? FRONT_MARKED : FRONT_UNBACKED;
        out->strict = m->max != INT64_MAX;
        out->min = m->min;
        if (out->strict) out->max = m->max;
        return RP_OK;
    }
    if (f->shapes == CONFIG_SHAPES_BACKED && size <= 1 && size >= 0) return RP_OK;
    *wanted = k->sizes >= FRONT_ALL ||
              (k->sizes == FRONT_BY_HISTORY && front_wobbled(f, source, 0));
    if (f->shapes == CONFIG_SHAPES_UNBACKED) out->policy = FRONT_UNBACKED;
    if (size >= 0 && size <= FRONT_MOST_INT) return RP_OK;
    if (*wanted)
        base_log_ch(RP_LOG_CH_DYNAMIC, false,
                    "%s = %" PRId64 " of %s is a number: a symbol of an integer is in [%" PRId64
                    ", %" PRId64 "]",
                    source, is, f->name, -FRONT_MOST_INT, FRONT_MOST_INT);
    *wanted = false;
    return RP_OK;
}

/* What the symbol is called, the caller's; NULL: out of memory. */
static char *named(const char *source, bool negated) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s%s", negated ? "-" : "", source);
    if (!b.failed) return base_buf_take(&b);
    base_buf_done(&b);
    return NULL;
}

rp_status front_int_symbols(rp_jit *f, const front_args *a, front_sizes sizes, bool eager,
                            front_solver *s, rp_error *err) {
    rp_status st = RP_OK;
    base_buf source;
    base_buf_init(&source, 0);
    for (uint32_t head = 0, word; front_next_int(a, &head, &word);) {
        front_symbol *y = &s->symbol[s->n_symbols];
        bool wanted;
        base_buf_clear(&source);
        (void)front_describe(a->word, word, &source);
        RP_TRY_OUT(base_buf_status(&source, err));
        const asked_int k = {f, source.data, (int64_t)a->word[word], sizes, eager};
        RP_TRY_OUT(want_symbol(&k, y, &wanted, err));
        if (!wanted) continue;
        y->source = named(source.data, y->negated);
        if (!y->source) {
            st = rp_fail(err, RP_NOMEM, "sizes of %s", f->name);
            goto out;
        }
        y->word = word;
        (void)snprintf(y->name, sizeof y->name, "%c%u", y->policy == FRONT_UNBACKED ? 'u' : 's',
                       s->n_symbols++);
    }
out:
    base_buf_done(&source);
    return st;
}

/* --- what functions call -------------------------------------------------------------------- */

rp_buffer front_told(const front_symbol *y, const uint64_t *word) {
    return (rp_buffer){FRONT_TOLD_TYPE, 2, {0, front_symbol_value(y, word)}, NULL};
}

static rp_dim fail(const rp_jit_call *call, const char *why) {
    (void)rp_fail(&call->g->err, RP_INVALID, "rp_jit_dim: %s", why);
    return trace_dim_out(call->g, IR_DIM_BAD);
}

/* The input that tells y, of this size; where a run is under way it has its value at once. */
static bool make_leaf(const rp_jit_call *call, front_symbol *y, rp_dim size) {
    rp_graph *g = call->g;
    const rp_shape shape = {2, {rp_dim_const(0), size}};
    const uint32_t n_fresh = g->n_fresh;
    struct rp_jit_call *function = g->call;
    char name[64];
    front_input_name(y->source + y->negated, 0, g, name);
    g->call = NULL; /* it is not the function that adds it */
    rp_tensor x = (rp_input)(g, name, FRONT_TOLD_TYPE, shape);
    g->call = function;
    g->n_fresh = n_fresh; /* of no call of the user's */
    if (x.ref == IR_NONE) return false;
    y->leaf = x.ref;
    if (!call->session) return true;
    const rp_buffer b = front_told(y, call->a->word);
    return front_hold(call->session, x.ref, &b, &g->err) == RP_OK;
}

rp_status front_tell_rests(const rp_jit_call *call, rp_error *err) {
    front_solver *s = call->sizes;
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        front_symbol *y = &s->symbol[i];
        if (!y->rest || y->fixed || y->replaced || y->leaf != IR_NONE) continue;
        if (!make_leaf(call, y, trace_dim_out(call->g, front_solver_size(s, i))))
            return rp_fail(err, call->g->err.code, "%s", call->g->err.text);
    }
    return RP_OK;
}

static void log_symbol(const front_symbol *y) {
    base_log_ch(RP_LOG_CH_DYNAMIC, false,
                "create_symbol %s = %" PRId64 " for %s [%" PRId64 ", %" PRId64 "]", y->name,
                y->hint, y->source, y->min, y->max);
}

static rp_dim dim_of(const rp_jit_call *call, uint32_t i) {
    front_solver *s = call->sizes;
    front_symbol *y = &s->symbol[i];
    rp_graph *g = call->g;
    if (!y->asked) log_symbol(y);
    y->asked = true;
    if (y->leaf == IR_NONE) {
        rp_dim size = trace_dim_out(g, front_solver_size(s, i));
        if (rp_dim_is_const(size, NULL)) return y->negated ? rp_dim_sub(0, size) : size;
        if (!make_leaf(call, y, size)) return trace_dim_out(g, IR_DIM_BAD);
    }
    rp_dim size = trace_dim_out(g, ir_node_at(g->ir, y->leaf)->shape.dim[1]);
    return y->negated ? rp_dim_sub(0, size) : size;
}

/* A size that is a number has a range of its own. */
static rp_dim number_of(const rp_jit_call *call, int64_t is) {
    if (is >= -MOST_NUMBER && is <= MOST_NUMBER) return rp_dim_const(is);
    (void)rp_fail(&call->g->err, RP_INVALID,
                  "rp_jit_dim: the integer is %" PRId64 ", and a size is at most 2^61", is);
    return trace_dim_out(call->g, IR_DIM_BAD);
}

rp_dim(rp_jit_dim)(const rp_jit_call *call, const rp_value *v) {
    if (!call) return rp_dim_const(0);
    const int64_t at = v && v->kind == RP_VALUE_INT ? v->tensor.dim[0] : 0;
    const uint32_t word = (uint32_t)at;
    if (at <= 0 || at >= call->a->n)
        return fail(call, "the value is no integer of the arguments of this call");
    if (call->dims) call->dims[word] = true;
    for (uint32_t i = 0; i < call->sizes->n_symbols; i++) {
        const front_symbol *y = &call->sizes->symbol[i];
        if (y->integer && y->word == word && !y->literal) return dim_of(call, i);
    }
    return number_of(call, (int64_t)call->a->word[word]);
}

/* --- numbers after all ---------------------------------------------------------------------- */

bool front_is_open_int(const front_symbol *y) {
    return y->integer && y->asked && !y->fixed;
}

/* What the function finds in an integer: what it is, unless it is in question. */
static int64_t number_in(const front_args *a, const front_solver *s, uint32_t poison,
                         uint32_t word) {
    const int64_t is = (int64_t)a->word[word];
    for (uint32_t i = 0; poison != FRONT_NO_POISON && i < s->n_symbols; i++)
        if (s->symbol[i].word == word && front_is_open_int(&s->symbol[i]) &&
            (poison == FRONT_ALL_POISON || poison == i))
            return is < 0 ? 1 : -1;
    return is;
}

static void fill(rp_value *v, const front_args *a, const front_solver *s, uint32_t poison,
                 uint32_t *head) {
    if (v->kind == RP_VALUE_INT) {
        uint32_t word;
        if (!front_next_int(a, head, &word)) return;
        v->tensor.dim[0] = word; /* which an integer has no use for */
        v->as.integer = number_in(a, s, poison, word);
        return;
    }
    if (v->kind != RP_VALUE_LIST && v->kind != RP_VALUE_TUPLE && v->kind != RP_VALUE_MAP) return;
    for (uint32_t i = 0; i < v->n; i++)
        fill((rp_value *)(uintptr_t)&v->item[i], a, s, poison, head); /* a copy of one's own */
}

void front_fill_ints(rp_value *args, const front_args *a, const front_solver *s, uint32_t poison) {
    uint32_t head = 0;
    fill(args, a, s, poison, &head);
}

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool same_literal(const rp_value *a, const rp_value *b) {
    switch (a->kind) {
    case RP_VALUE_BOOL: return a->as.boolean == b->as.boolean;
    case RP_VALUE_INT:
    case RP_VALUE_TENSOR: return a->as.integer == b->as.integer;
    case RP_VALUE_FLOAT: return bits_of(a->as.number) == bits_of(b->as.number);
    case RP_VALUE_STRING: return strcmp(a->as.string, b->as.string) == 0;
    default: return true;
    }
}

static bool same_value(const rp_value *a, const rp_value *b) {
    if (a->kind != b->kind || a->n != b->n || !same_literal(a, b)) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kind == RP_VALUE_MAP && strcmp(a->name[i], b->name[i]) != 0) return false;
        if (!same_value(&a->item[i], &b->item[i])) return false;
    }
    return true;
}

static rp_status same_graph(const ir_graph *a, const ir_graph *b, bool *out, rp_error *err) {
    char *one = NULL, *other = NULL;
    rp_status st = ir_print_string(a, &one, err);
    if (st == RP_OK) st = ir_print_string(b, &other, err);
    *out = st == RP_OK && strcmp(one, other) == 0;
    base_free(one);
    base_free(other);
    return st;
}

rp_status front_same_traced(const front_traced *a, const front_traced *b, bool *out,
                            rp_error *err) {
    *out = a->n_outputs == b->n_outputs && same_value(&a->result, &b->result);
    return *out ? same_graph(a->graph->ir, b->graph->ir, out, err) : RP_OK;
}

rp_status front_int_is_number(const rp_jit *f, front_solver *s, uint32_t i, rp_error *err) {
    front_symbol *y = &s->symbol[i];
    const bool marked = y->policy == FRONT_MARKED ||
                        (y->policy == FRONT_UNBACKED && f->shapes != CONFIG_SHAPES_UNBACKED);
    if (marked)
        return rp_fail(err, RP_INVALID,
                       "%s: Constraints violated (%s)! You marked %s as dynamic but the function "
                       "reads it as a number, too; read it by rp_jit_dim alone",
                       f->name, y->source, y->source);
    base_log_ch(RP_LOG_CH_DYNAMIC, false,
                "%s of %s is a number: the function reads it as one beside rp_jit_dim",
                y->source + y->negated, f->name);
    y->literal = y->fixed = true;
    return RP_OK;
}

void front_ints_settle(const rp_jit *f, front_solver *s) {
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        front_symbol *y = &s->symbol[i];
        if (!y->integer || y->asked || y->literal) continue;
        if (y->policy == FRONT_MARKED)
            base_log(RP_LOG_WARNING,
                     "%s: %s is marked as dynamic, and this trace did not read it by rp_jit_dim: "
                     "each value of it is a graph of its own",
                     f->name, y->source);
        y->literal = y->fixed = true;
    }
}
