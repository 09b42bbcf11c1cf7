/* The step builder.
 *
 * Invariants: one function writes the real rows of all inputs and one writes all padding, so no
 * input can be padded in one path only; every real token has a KV slot of its own; rows at and
 * above the padded sizes are left as they are and nothing may depend on them. */
#include "engine/step.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/draw.h"

struct engine_step {
    engine_step_buffers b;
    int32_t block_size;
    int32_t *cu_q, *cu_k;  /* [max_seqs + 1] */
    int32_t *context_lens; /* [max_seqs] */
    int32_t *draws;        /* [max_seqs] */
    engine_step_extent extent;
    const engine_kv *kv; /* whose tables lie there as far as known_width */
    uint32_t known_width;
    uint64_t *stamps;  /* [max_seqs]: of their rows (engine_kv_stamp); 0: of none */
    rp_dispatch dummy; /* sizes up to which all inputs hold padding alone */
};

rp_status engine_step_new(const engine_step_buffers *b, uint32_t block_size, engine_step **out,
                          rp_error *err) {
    rp_status st = RP_OK;
    engine_step *s = base_alloc(sizeof *s);

    if (!s) return rp_fail(err, RP_NOMEM, "step builder");
    s->b = *b;
    s->block_size = (int32_t)block_size;
    s->cu_q = base_alloc_array((size_t)b->max_seqs + 1, sizeof *s->cu_q);
    s->cu_k = base_alloc_array((size_t)b->max_seqs + 1, sizeof *s->cu_k);
    s->context_lens = base_alloc_array(b->max_seqs, sizeof *s->context_lens);
    s->stamps = base_alloc_array(b->max_seqs, sizeof *s->stamps);
    s->draws = base_alloc_array(b->max_seqs, GEN_DRAW_WORDS * sizeof *s->draws);
    if (!s->cu_q || !s->cu_k || !s->context_lens || !s->stamps || !s->draws)
        RP_TRY_OUT(rp_fail(err, RP_NOMEM, "step of %u sequences", b->max_seqs));
    *out = s;
    s = NULL;
out:
    engine_step_free(s);
    return st;
}

void engine_step_free(engine_step *s) {
    if (!s) return;
    base_free(s->cu_q);
    base_free(s->cu_k);
    base_free(s->context_lens);
    base_free(s->stamps);
    base_free(s->draws);
    base_free(s);
}

static rp_status check_sizes(const engine_step *s, const engine_batch *batch, const rp_dispatch *d,
                             rp_error *err) {
    const engine_step_buffers *b = &s->b;

    if (d->padded < 0 || (uint32_t)d->padded > b->max_tokens || d->padded_reqs < 0 ||
        (uint32_t)d->padded_reqs > b->max_seqs || d->padded_logits < 0 ||
        (uint32_t)d->padded_logits > b->max_rows)
        return rp_fail(
            err, RP_INVALID,
            "step padded to %d tokens, %d requests, %d logit rows is beyond the static inputs "
            "of %u, %u, %u",
            d->padded, d->padded_reqs, d->padded_logits, b->max_tokens, b->max_seqs, b->max_rows);
    if (batch && (batch->num_tokens > (uint32_t)d->padded || batch->n > (uint32_t)d->padded_reqs ||
                  batch->num_logits > (uint32_t)d->padded_logits ||
                  batch->num_tokens != (uint32_t)d->num_tokens))
        return rp_fail(
            err, RP_INVALID,
            "batch of %u tokens, %u requests, %u logit rows was dispatched as %d, %d, %d",
            batch->num_tokens, batch->n, batch->num_logits, d->padded, d->padded_reqs,
            d->padded_logits);
    return RP_OK;
}

/* In whole WIDTHs, which chunks of positions of every kernel divide. */
static uint32_t width_of(const engine_step *s, const engine_batch *batch, const engine_kv *kv) {
    enum { WIDTH = 64 };
    uint32_t most = 0, n;

    for (uint32_t i = 0; i < batch->n; i++) {
        (void)engine_kv_table(kv, batch->entry[i].seq, &n);
        if (n > most) most = n;
    }
    most = (most + WIDTH - 1) / WIDTH * WIDTH;
    return most < s->b.max_blocks ? most : s->b.max_blocks;
}

/* Rows of block tables that were written as far as this step reads them need not be written again. */
static void keep_rows(engine_step *s, const engine_kv *kv) {
    if (s->kv == kv && s->known_width == s->extent.width) return;
    memset(s->stamps, 0, s->b.max_seqs * sizeof *s->stamps);
    s->kv = kv;
    s->known_width = s->extent.width;
}

/* Those in front that are not drawn have a scale of 0. */
static rp_status put_draw(engine_step *s, const engine_batch_entry *e, uint32_t row,
                          rp_error *err) {
    if (row >= s->b.max_seqs)
        return rp_fail(err, RP_INTERNAL, "request %llu draws from logit row %u of %u",
                       (unsigned long long)e->req->id, row, s->b.max_seqs);
    for (uint32_t i = s->extent.n_draws; i < row; i++)
        s->draws[i * GEN_DRAW_WORDS + GEN_DRAW_SCALE] = 0;
    engine_draw_put(&e->req->sampling, e->step, s->draws + (size_t)row * GEN_DRAW_WORDS);
    s->extent.n_draws = row + 1;
    return RP_OK;
}

/* Token rows of entry i from row t on, which has blocks for all of them. */
static void put_tokens(const engine_step *s, const engine_batch_entry *e, const int32_t *table,
                       uint32_t i, uint32_t t) {
    const engine_step_buffers *b = &s->b;
    const uint32_t size = (uint32_t)s->block_size, known = e->n_tokens - (e->from >= 0);
    uint32_t block = e->start / size, offset = e->start % size;

    if (e->from >= 0) b->token_ids[t + known] = -1 - e->from;
    for (uint32_t k = 0; k < e->n_tokens; k++) {
        if (k < known) b->token_ids[t + k] = engine_request_token(e->req, e->start + k);
        b->positions[t + k] = (int32_t)(e->start + k);
        b->slots[t + k] = table[block] * (int32_t)size + (int32_t)offset;
        b->seqs[t + k] = (int32_t)i;
        if (++offset < size) continue;
        offset = 0;
        block++;
    }
}

/* Real rows of entry i, from token row t and logit row r on. */
static rp_status put_entry(engine_step *s, const engine_batch_entry *e, const engine_kv *kv,
                           uint32_t i, uint32_t t, uint32_t r, rp_error *err) {
    const engine_step_buffers *b = &s->b;
    uint32_t n_blocks;
    const int32_t *table = engine_kv_table(kv, e->seq, &n_blocks);
    int32_t *row = b->block_tables + (size_t)i * b->max_blocks;
    const uint32_t last = e->start + e->n_tokens - 1;

    if (n_blocks > b->max_blocks || last / (uint32_t)s->block_size >= n_blocks)
        return rp_fail(
            err, RP_INTERNAL,
            "request %llu has %u KV blocks for positions up to %u, block-table rows hold %u",
            (unsigned long long)e->req->id, n_blocks, last, b->max_blocks);
    put_tokens(s, e, table, i, t);
    for (uint32_t k = 0; k < e->n_logits; k++)
        b->rows[r + k] = (int32_t)(t + e->n_tokens - e->n_logits + k);
    if (s->stamps[i] != engine_kv_stamp(kv, e->seq)) { /* else it is there */
        memcpy(row, table, n_blocks * sizeof *row);
        memset(row + n_blocks, 0, (s->extent.width - n_blocks) * sizeof *row);
        s->stamps[i] = engine_kv_stamp(kv, e->seq);
    }
    s->cu_q[i + 1] = s->cu_q[i] + (int32_t)e->n_tokens;
    s->context_lens[i] = (int32_t)(e->start + e->n_tokens);
    s->cu_k[i + 1] = s->cu_k[i] + s->context_lens[i];
    if (!e->samples || !engine_request_draws_within(e->req)) return RP_OK;
    return put_draw(s, e, r + e->n_logits - 1, err);
}

/* All padding of all inputs: n requests, t tokens and r logit rows are real. */
static void put_padding(engine_step *s, const rp_dispatch *d, uint32_t n, uint32_t t, uint32_t r) {
    const engine_step_buffers *b = &s->b;

    for (uint32_t i = t; i < (uint32_t)d->padded; i++) {
        b->token_ids[i] = 0;
        b->positions[i] = 0;
        b->slots[i] = -1;
        b->seqs[i] = -1;
    }
    for (uint32_t i = n; i < (uint32_t)d->padded_reqs; i++) {
        memset(b->block_tables + (size_t)i * b->max_blocks, 0, s->extent.width * sizeof(int32_t));
        s->stamps[i] = 0;
        s->cu_q[i + 1] = s->cu_q[i];
        s->cu_k[i + 1] = s->cu_k[i];
        s->context_lens[i] = 0;
    }
    for (uint32_t i = r; i < (uint32_t)d->padded_logits; i++) b->rows[i] = 0;
}

static void put_context(const engine_step *s, const engine_batch *batch, const rp_dispatch *d,
                        rp_forward_context *out) {
    int32_t longest = 0;

    for (uint32_t i = 0; batch && i < batch->n; i++)
        if (s->context_lens[i] > longest) longest = s->context_lens[i];
    *out = (rp_forward_context){
        .attn_metadata = {.cu_seqlens_q = s->cu_q,
                          .cu_seqlens_k = s->cu_k,
                          .slot_mapping = s->b.slots,
                          .token_seqs = s->b.seqs,
                          .context_lens = s->context_lens,
                          .block_tables = s->b.block_tables,
                          .block_tables_stride = (int32_t)s->b.max_blocks,
                          .block_size = s->block_size,
                          .max_seqlen_q = batch ? (int32_t)batch->max_query_len : 0,
                          .max_seqlen_k = longest,
                          .num_actual_tokens = batch ? (int32_t)batch->num_tokens : 0,
                          .num_prefills = batch ? (int32_t)batch->n_prefills : 0,
                          .num_decodes = batch ? (int32_t)batch->n_decodes : 0},
        .context = {.positions = s->b.positions,
                    .is_prefill = batch && batch->n_prefills > 0,
                    .is_dummy = !batch,
                    .batch_size = batch ? (int32_t)batch->n : 0,
                    .graph_bs = d->padded_reqs},
        .batch_descriptor = d->key,
        .cudagraph_runtime_mode = d->mode,
        .dispatch = *d,
    };
}

rp_status engine_step_build(engine_step *s, const engine_batch *batch, const engine_kv *kv,
                            const rp_dispatch *d, rp_forward_context *out, rp_error *err) {
    uint32_t t = 0, r = 0;

    if (batch->n == 0) return rp_fail(err, RP_INVALID, "a step needs at least one request");
    RP_TRY(check_sizes(s, batch, d, err));
    s->dummy = (rp_dispatch){0};
    s->cu_q[0] = s->cu_k[0] = 0;
    s->extent = (engine_step_extent){.width = width_of(s, batch, kv)};
    keep_rows(s, kv);
    for (uint32_t i = 0; i < batch->n; i++) {
        RP_TRY(put_entry(s, &batch->entry[i], kv, i, t, r, err));
        t += batch->entry[i].n_tokens;
        r += batch->entry[i].n_logits;
    }
    put_padding(s, d, batch->n, t, r);
    put_context(s, batch, d, out);
    return RP_OK;
}

engine_step_extent engine_step_extents(const engine_step *s) {
    return s->extent;
}

const int32_t *engine_step_draws(const engine_step *s) {
    return s->draws;
}

const uint64_t *engine_step_stamps(const engine_step *s) {
    return s->stamps;
}

void engine_step_dirty(engine_step *s) {
    s->dummy = (rp_dispatch){0};
    memset(s->stamps, 0, s->b.max_seqs * sizeof *s->stamps);
}

/* A ladder of captures begins with its largest step: the smaller ones find everything padded. */
static bool holds_padding(const engine_step *s, const rp_dispatch *d) {
    return d->padded <= s->dummy.padded && d->padded_reqs <= s->dummy.padded_reqs &&
           d->padded_logits <= s->dummy.padded_logits;
}

rp_status engine_step_dummy(engine_step *s, const rp_dispatch *d, rp_forward_context *out,
                            rp_error *err) {
    RP_TRY(check_sizes(s, NULL, d, err));
    if (!holds_padding(s, d)) {
        s->cu_q[0] = s->cu_k[0] = 0;
        s->extent = (engine_step_extent){.width = s->b.max_blocks};
        put_padding(s, d, 0, 0, 0);
        s->dummy = *d;
    }
    put_context(s, NULL, d, out);
    return RP_OK;
}
