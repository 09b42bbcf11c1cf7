/* Interpreter of effects: update, kv_store, attention, custom ops (through their CPU function).
 *
 * An effect makes a new value of the version that it overwrites: a copy where that is needed later, else the same storage. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/eval_node.h"

static ir_value *in(const eval_state *s, const ir_node *n, uint32_t i) {
    return s->value[n->in[i]];
}

/* Offset of (slot, head) in a cache [blocks, kv_heads, block, head_dim]. */
static int64_t cache_at(const ir_value *c, int64_t block, int64_t head, int64_t pos) {
    return ((block * c->dim[1] + head) * c->dim[2] + pos) * c->dim[3];
}

/* Gives node r the contents of operand i, to write into. */
static rp_status next_version(eval_state *s, ir_ref r, uint32_t i) {
    const ir_node *n = ir_node_at(s->g, r);
    ir_ref old = n->in[i];
    bool taken = s->last[old] == r;
    for (uint32_t k = 0; k < n->n_in; k++) taken = taken && (k == i || n->in[k] != old);
    if (!taken) {
        RP_TRY(ir_eval_alloc(s, r));
        if (s->own[r].n > 0)
            memcpy(s->own[r].data, s->value[old]->data,
                   (size_t)s->own[r].n * sizeof *s->own[r].data);
        return RP_OK;
    }
    s->value[r] = s->value[old];
    if (s->value[old] == &s->own[old]) {
        s->own[r] = s->own[old];
        s->own[old] = (ir_value){0};
        s->value[r] = &s->own[r];
    }
    s->value[old] = NULL;
    return RP_OK;
}

static void eval_update(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    const ir_attr *offsets = ir_attr_get(n, IR_ATTR_OFFSETS);
    const ir_value *x = in(s, n, 1);
    ir_value *to = s->value[r];
    int64_t idx[IR_MAX_RANK] = {0}, first[IR_MAX_RANK] = {0};
    for (uint32_t d = 0; offsets && d < to->rank; d++)
        first[d] = ir_dim_eval(ir_graph_dims(s->g), offsets->u.dims[d], s->symbols);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < to->rank; d++) at = at * to->dim[d] + first[d] + idx[d];
        memcpy(&to->data[at], &x->data[i], sizeof *to->data); /* i64 is no double */
        for (uint32_t d = to->rank; d-- > 0;) {
            if (++idx[d] < x->dim[d]) break;
            idx[d] = 0;
        }
    }
}

static rp_status eval_kv_store(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    ir_value *c = s->value[r];
    const ir_value *x = in(s, n, 1), *slots = in(s, n, 2);
    rp_dtype t = ir_node_at(s->g, n->in[0])->dtype;
    int64_t bs = c->dim[2], hd = c->dim[3];
    for (int64_t row = 0; row < x->dim[0]; row++) {
        int64_t slot = (int64_t)slots->data[row];
        if (slot < 0) continue;
        if (bs == 0 || slot / bs >= c->dim[0])
            return rp_fail(s->err, RP_INVALID, "kv_store: slot %lld of a cache of %lld x %lld",
                           (long long)slot, (long long)c->dim[0], (long long)bs);
        for (int64_t h = 0; h < c->dim[1]; h++)
            for (int64_t d = 0; d < hd; d++)
                c->data[cache_at(c, slot / bs, h, slot % bs) + d] =
                    ir_round(t, x->data[(row * c->dim[1] + h) * hd + d]);
    }
    return RP_OK;
}

typedef struct attention {
    const ir_value *q, *k, *v, *tables;
    int64_t heads, head_dim, group;
    double scale;
    double *score; /* one per position */
} attention;

static void attention_head(const attention *a, int64_t row, int64_t head, int64_t seq, int64_t n,
                           double *out) {
    const double *q = a->q->data + (row * a->heads + head) * a->head_dim;
    int64_t bs = a->k->dim[2], kvh = head / a->group;
    const double *blocks = a->tables->data + seq * a->tables->dim[1];
    double top = -(double)INFINITY, sum = 0;
    for (int64_t p = 0; p < n; p++) {
        const double *k = a->k->data + cache_at(a->k, (int64_t)blocks[p / bs], kvh, p % bs);
        double dot = 0;
        for (int64_t d = 0; d < a->head_dim; d++) dot += q[d] * k[d];
        a->score[p] = dot * a->scale;
        top = fmax(top, a->score[p]);
    }
    for (int64_t d = 0; d < a->head_dim; d++) out[d] = 0;
    for (int64_t p = 0; p < n; p++) {
        const double *v = a->v->data + cache_at(a->v, (int64_t)blocks[p / bs], kvh, p % bs);
        double w = exp(a->score[p] - top);
        sum += w;
        for (int64_t d = 0; d < a->head_dim; d++) out[d] += w * v[d];
    }
    for (int64_t d = 0; d < a->head_dim; d++) out[d] = ir_round(RP_DTYPE_F32, out[d] / sum);
}

/* The blocks that positions 0 .. n-1 of seq use must exist. */
static rp_status check_blocks(eval_state *s, const attention *a, int64_t seq, int64_t n) {
    int64_t bs = a->k->dim[2], width = a->tables->dim[1];
    if (seq >= a->tables->dim[0] || bs == 0 || (n + bs - 1) / bs > width)
        return rp_fail(
            s->err, RP_INVALID,
            "attention: request %lld at position %lld; block_tables is %lld x %lld blocks of %lld",
            (long long)seq, (long long)n - 1, (long long)a->tables->dim[0], (long long)width,
            (long long)bs);
    for (int64_t i = 0; i * bs < n; i++) {
        double b = a->tables->data[seq * width + i];
        if (!(b >= 0 && b < (double)a->k->dim[0]))
            return rp_fail(s->err, RP_INVALID, "attention: block %g of a cache of %lld", b,
                           (long long)a->k->dim[0]);
    }
    return RP_OK;
}

static rp_status eval_attention(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    attention a = {.q = in(s, n, 0), .k = in(s, n, 1), .v = in(s, n, 2), .tables = in(s, n, 5)};
    const ir_value *seqs = in(s, n, 3), *pos = in(s, n, 4);
    ir_value *out = s->value[r];
    rp_status st = RP_OK;
    a.heads = ir_attr_int(n, IR_ATTR_HEADS, 1);
    a.head_dim = ir_attr_int(n, IR_ATTR_HEAD_DIM, 1);
    a.group = a.heads / ir_attr_int(n, IR_ATTR_KV_HEADS, 1);
    a.scale = ir_attr_float(n, IR_ATTR_SCALE, 1);
    a.score = base_alloc_array((size_t)(a.tables->dim[1] * a.k->dim[2]) + 1, sizeof *a.score);
    if (!a.score) return rp_fail(s->err, RP_NOMEM, "eval: out of memory");
    for (int64_t row = 0; row < a.q->dim[0]; row++) {
        int64_t seq = (int64_t)seqs->data[row], len = (int64_t)pos->data[row] + 1;
        if (seq < 0 || len <= 0) { /* padding */
            for (int64_t i = 0; i < a.heads * a.head_dim; i++)
                out->data[row * a.heads * a.head_dim + i] = 0;
            continue;
        }
        RP_TRY_OUT(check_blocks(s, &a, seq, len));
        for (int64_t h = 0; h < a.heads; h++)
            attention_head(&a, row, h, seq, len, out->data + (row * a.heads + h) * a.head_dim);
    }
out:
    base_free(a.score);
    return st;
}

/* Bytes of a value as a kernel sees it; NULL when memory is exhausted. */
static void *pack_value(rp_dtype t, const ir_value *v) {
    size_t block = rp_dtype_block(t), row = v->rank > 0 ? (size_t)v->dim[v->rank - 1] : 1;
    size_t bytes = (size_t)v->n / block * rp_dtype_block_bytes(t);
    char *p = base_alloc(bytes);
    for (size_t i = 0; p && row > 0 && i < (size_t)v->n; i += row)
        ir_pack(t, v->data + i, (int64_t)row, p + i / block * rp_dtype_block_bytes(t));
    return p;
}

static void unpack_value(rp_dtype t, const char *p, ir_value *v) {
    size_t block = rp_dtype_block(t), row = v->rank > 0 ? (size_t)v->dim[v->rank - 1] : 1;
    for (size_t i = 0; row > 0 && i < (size_t)v->n; i += row)
        ir_unpack(t, p + i / block * rp_dtype_block_bytes(t), (int64_t)row, v->data + i);
}

static rp_status fill_buffer(eval_state *s, rp_dtype t, const ir_value *v, rp_buffer *b) {
    b->dtype = t;
    b->rank = v->rank;
    for (uint32_t i = 0; i < v->rank; i++) b->dim[i] = v->dim[i];
    b->data = pack_value(b->dtype, v);
    return b->data ? RP_OK : rp_fail(s->err, RP_NOMEM, "eval: out of memory");
}

/* What custom op n left of operand i. */
static rp_status keep_written(eval_state *s, const ir_node *n, uint32_t i, const rp_buffer *b) {
    const ir_value *old = in(s, n, i);
    ir_value *v = &s->after[n->in[i]];
    *v = *old;
    v->data = base_alloc_array((size_t)old->n + 1u, sizeof *v->data);
    if (!v->data) return rp_fail(s->err, RP_NOMEM, "eval: out of memory");
    unpack_value(b->dtype, b->data, v);
    return RP_OK;
}

static rp_status eval_custom(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    const rp_op_desc *d = ir_custom_of(n);
    rp_buffer args[64 + IR_MAX_RESULTS] = {{0}}, *results = args + n->n_in;
    rp_status st = RP_OK;
    if (!d || !d->cpu)
        return rp_fail(s->err, RP_UNSUPPORTED, "custom op %s has no CPU function; register one",
                       ir_attr_get(n, IR_ATTR_NAME)->u.s);
    RP_TRY(ir_eval_alloc(s, r));
    for (uint32_t i = 0; i < n->n_in; i++)
        RP_TRY_OUT(fill_buffer(s, ir_node_at(s->g, n->in[i])->dtype, in(s, n, i), &args[i]));
    RP_TRY_OUT(fill_buffer(s, n->dtype, s->value[r], &results[0]));
    for (uint32_t i = 0; i < n->n_more; i++)
        RP_TRY_OUT(fill_buffer(s, n->more[i].dtype, &s->more[r][i], &results[i + 1]));
    rp_op_call call = ir_custom_call_at(d, n);
    RP_TRY_OUT(ir_custom_run_checked(d, &call, args, s->err));
    for (uint32_t i = 0; i < n->n_in; i++)
        if (d->mutates >> i & 1) RP_TRY_OUT(keep_written(s, n, i, &args[i]));
    unpack_value(n->dtype, results[0].data, s->value[r]);
    for (uint32_t i = 0; i < n->n_more; i++)
        unpack_value(n->more[i].dtype, results[i + 1].data, &s->more[r][i]);
out:
    for (uint32_t i = 0; i <= n->n_in + n->n_more; i++) base_free(args[i].data);
    return st;
}

rp_status ir_eval_written(eval_state *s, ir_ref r) {
    ir_ref old = ir_node_at(s->g, r)->in[0];
    s->own[r] = s->after[old];
    s->after[old] = (ir_value){0};
    s->value[r] = &s->own[r];
    return RP_OK;
}

rp_status ir_eval_effect(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    if (n->op == IR_custom) return eval_custom(s, r);
    if (ir_op_has_graphs(n->op)) return ir_eval_graphs(s, r);
    RP_TRY(next_version(s, r, n->op == IR_attention ? 6 : 0));
    if (n->op == IR_attention) return eval_attention(s, r);
    if (n->op == IR_kv_store) return eval_kv_store(s, r);
    eval_update(s, r);
    return RP_OK;
}
