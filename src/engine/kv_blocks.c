/* The block manager.
 *
 * Invariants: every block but the null block is either on the free stack or named by as many tables of
 * open sequences as it has owners; the tail of a table beyond its blocks is the null block; reserving is
 * all or nothing. */
#include "engine/kv_blocks.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

struct engine_kv {
    engine_kv_options o;
    int32_t *free_blocks; /* a stack */
    uint32_t n_free;
    uint32_t *owners;    /* [n_blocks]: tables that name it */
    uint32_t *free_seqs; /* a stack */
    uint32_t n_free_seqs;
    bool *open;
    uint32_t *n_blocks; /* [max_seqs] */
    int32_t *tables;    /* [max_seqs, max_blocks] */
    uint64_t *stamps;   /* [max_seqs]: the change that made each table what it is */
    uint64_t n_changes;
    uint32_t *seen; /* [n_blocks], for the check */
};

static rp_status kv_alloc(engine_kv *kv, rp_error *err) {
    const engine_kv_options *o = &kv->o;
    size_t cells;

    if (!base_mul_size(o->max_seqs, o->max_blocks, &cells))
        return rp_fail(err, RP_INVALID, "%u sequences of %u blocks are too many", o->max_seqs,
                       o->max_blocks);
    kv->free_blocks = base_alloc_array(o->n_blocks, sizeof *kv->free_blocks);
    kv->owners = base_alloc_array(o->n_blocks, sizeof *kv->owners);
    kv->free_seqs = base_alloc_array(o->max_seqs, sizeof *kv->free_seqs);
    kv->open = base_alloc_array(o->max_seqs, sizeof *kv->open);
    kv->n_blocks = base_alloc_array(o->max_seqs, sizeof *kv->n_blocks);
    kv->tables = base_alloc_array(cells, sizeof *kv->tables);
    kv->stamps = base_alloc_array(o->max_seqs, sizeof *kv->stamps);
    kv->seen = base_alloc_array(o->n_blocks, sizeof *kv->seen);
    if (!kv->free_blocks || !kv->owners || !kv->free_seqs || !kv->open || !kv->n_blocks ||
        !kv->tables || !kv->stamps || !kv->seen)
        return rp_fail(err, RP_NOMEM, "tables of %u KV blocks", o->n_blocks);
    return RP_OK;
}

/* Low numbers on top, so that a lone sequence fills the cache from its start. */
static void add_blocks(engine_kv *kv, uint32_t from, uint32_t to) {
    for (uint32_t b = to; b-- > from;) kv->free_blocks[kv->n_free++] = (int32_t)b;
}

rp_status engine_kv_new(const engine_kv_options *o, engine_kv **out, rp_error *err) {
    rp_status st;
    engine_kv *kv = NULL;

    if (o->n_blocks < 2 || (o->grow && (o->n_ready < 2 || o->n_ready > o->n_blocks)) ||
        o->max_seqs < 1 || o->max_blocks < 1 ||
        o->n_blocks > (uint32_t)INT32_MAX / (o->block_size ? o->block_size : ENGINE_KV_BLOCK))
        return rp_fail(
            err, RP_INVALID,
            "KV cache of %u blocks (one is reserved), %u sequences of %u blocks cannot work",
            o->n_blocks, o->max_seqs, o->max_blocks);
    kv = base_alloc(sizeof *kv);
    if (!kv) return rp_fail(err, RP_NOMEM, "KV block manager");
    kv->o = *o;
    if (kv->o.block_size == 0) kv->o.block_size = ENGINE_KV_BLOCK;
    RP_TRY_OUT(kv_alloc(kv, err));
    if (!o->grow) kv->o.n_ready = o->n_blocks;
    add_blocks(kv, 1, kv->o.n_ready);
    for (uint32_t s = o->max_seqs; s-- > 0;) kv->free_seqs[kv->n_free_seqs++] = s;
    *out = kv;
    kv = NULL;
out:
    engine_kv_free(kv);
    return st;
}

void engine_kv_free(engine_kv *kv) {
    if (!kv) return;
    base_free(kv->free_blocks);
    base_free(kv->owners);
    base_free(kv->free_seqs);
    base_free(kv->open);
    base_free(kv->n_blocks);
    base_free(kv->tables);
    base_free(kv->stamps);
    base_free(kv->seen);
    base_free(kv);
}

bool engine_kv_open(engine_kv *kv, uint32_t *out_seq) {
    if (kv->n_free_seqs == 0) return false;
    *out_seq = kv->free_seqs[--kv->n_free_seqs];
    kv->open[*out_seq] = true;
    kv->stamps[*out_seq] = ++kv->n_changes;
    return true;
}

static int32_t *table_of(const engine_kv *kv, uint32_t seq) {
    return kv->tables + (size_t)seq * kv->o.max_blocks;
}

bool engine_kv_fork(engine_kv *kv, uint32_t from, uint32_t n, uint32_t *out_seq) {
    assert(kv->open[from] && n <= kv->n_blocks[from]);
    if (!engine_kv_open(kv, out_seq)) return false;
    for (uint32_t i = 0; i < n; i++) {
        int32_t b = table_of(kv, from)[i];

        table_of(kv, *out_seq)[i] = b;
        kv->owners[b]++;
    }
    kv->n_blocks[*out_seq] = n;
    return true;
}

void engine_kv_close(engine_kv *kv, uint32_t seq) {
    int32_t *t = table_of(kv, seq);

    assert(seq < kv->o.max_seqs && kv->open[seq]);
    while (kv->n_blocks[seq] > 0) {
        uint32_t i = --kv->n_blocks[seq];

        if (--kv->owners[t[i]] == 0) kv->free_blocks[kv->n_free++] = t[i];
        t[i] = ENGINE_KV_NULL_BLOCK;
    }
    kv->open[seq] = false;
    kv->free_seqs[kv->n_free_seqs++] = seq;
}

uint32_t engine_kv_blocks_for(const engine_kv *kv, uint32_t n_tokens) {
    return n_tokens / kv->o.block_size + (n_tokens % kv->o.block_size != 0);
}

uint32_t engine_kv_missing(const engine_kv *kv, uint32_t seq, uint32_t n_tokens) {
    uint32_t need = engine_kv_blocks_for(kv, n_tokens);

    return need > kv->n_blocks[seq] ? need - kv->n_blocks[seq] : 0;
}

/* False: there are no more, from now on either. */
static bool grow(engine_kv *kv, uint32_t missing) {
    uint32_t want = kv->o.n_ready + missing - kv->n_free, was = kv->o.n_ready;

    if (want > kv->o.n_blocks) return false;
    kv->o.n_ready = kv->o.grow(kv->o.user, want);
    add_blocks(kv, was, kv->o.n_ready);
    if (kv->o.n_ready < want) kv->o.n_blocks = kv->o.n_ready;
    return kv->o.n_ready >= want;
}

bool engine_kv_reserve(engine_kv *kv, uint32_t seq, uint32_t n_tokens) {
    uint32_t missing = engine_kv_missing(kv, seq, n_tokens);
    int32_t *t = table_of(kv, seq);

    assert(kv->open[seq]);
    if (kv->n_blocks[seq] + missing > kv->o.max_blocks) return false;
    if (missing > kv->n_free && !grow(kv, missing)) return false;
    if (missing > 0) kv->stamps[seq] = ++kv->n_changes;
    while (missing-- > 0) {
        int32_t b = kv->free_blocks[--kv->n_free];

        t[kv->n_blocks[seq]++] = b;
        kv->owners[b] = 1;
    }
    return true;
}

const int32_t *engine_kv_table(const engine_kv *kv, uint32_t seq, uint32_t *out_n) {
    *out_n = kv->n_blocks[seq];
    return table_of(kv, seq);
}

uint64_t engine_kv_stamp(const engine_kv *kv, uint32_t seq) {
    return kv->stamps[seq];
}

int32_t engine_kv_slot(const engine_kv *kv, uint32_t seq, uint32_t position) {
    uint32_t i = position / kv->o.block_size;

    if (i >= kv->n_blocks[seq]) return -1;
    return table_of(kv, seq)[i] * (int32_t)kv->o.block_size +
           (int32_t)(position % kv->o.block_size);
}

uint32_t engine_kv_n_usable(const engine_kv *kv) {
    return kv->o.n_blocks - 1;
}

uint32_t engine_kv_n_free(const engine_kv *kv) {
    return kv->n_free + kv->o.n_blocks - kv->o.n_ready;
}

uint32_t engine_kv_block_size(const engine_kv *kv) {
    return kv->o.block_size;
}

uint32_t engine_kv_max_blocks(const engine_kv *kv) {
    return kv->o.max_blocks;
}

uint32_t engine_kv_max_tokens(const engine_kv *kv) {
    uint32_t n = engine_kv_n_usable(kv) < kv->o.max_blocks ? engine_kv_n_usable(kv)
                                                           : kv->o.max_blocks;

    return n * kv->o.block_size;
}

/* Counts block b once more, where it may be. */
static rp_status check_block(const engine_kv *kv, int32_t b, bool is_free, rp_error *err) {
    const char *where = is_free ? "on the free stack" : "in a table";

    if (b <= 0 || (uint32_t)b >= kv->o.n_ready)
        return rp_fail(err, RP_INTERNAL, "KV block %d %s is outside 1..%u", b, where,
                       kv->o.n_ready - 1);
    if (is_free && kv->owners[b])
        return rp_fail(err, RP_INTERNAL, "KV block %d %s has %u owners", b, where, kv->owners[b]);
    kv->seen[b]++;
    return RP_OK;
}

/* Every block was seen once when it is free, else by each of its owners. */
static rp_status check_counts(const engine_kv *kv, rp_error *err) {
    for (uint32_t b = 1; b < kv->o.n_ready; b++)
        if (kv->seen[b] != (kv->owners[b] ? kv->owners[b] : 1))
            return rp_fail(err, RP_INTERNAL, "KV block %u has %u owners and is named by %u", b,
                           kv->owners[b], kv->seen[b]);
    return RP_OK;
}

rp_status engine_kv_check(const engine_kv *kv, rp_error *err) {
    uint32_t open = 0;

    memset(kv->seen, 0, kv->o.n_blocks * sizeof *kv->seen);
    for (uint32_t i = 0; i < kv->n_free; i++)
        RP_TRY(check_block(kv, kv->free_blocks[i], true, err));
    for (uint32_t s = 0; s < kv->o.max_seqs; s++) {
        const int32_t *t = table_of(kv, s);

        if (!kv->open[s] && kv->n_blocks[s])
            return rp_fail(err, RP_INTERNAL, "closed sequence %u holds %u KV blocks", s,
                           kv->n_blocks[s]);
        open += kv->open[s];
        for (uint32_t i = 0; i < kv->n_blocks[s]; i++) RP_TRY(check_block(kv, t[i], false, err));
        for (uint32_t i = kv->n_blocks[s]; i < kv->o.max_blocks; i++)
            if (t[i] != ENGINE_KV_NULL_BLOCK)
                return rp_fail(err, RP_INTERNAL, "table of sequence %u names block %d past its end",
                               s, t[i]);
    }
    if (open + kv->n_free_seqs != kv->o.max_seqs)
        return rp_fail(err, RP_INTERNAL, "%u sequences open and %u free of %u", open,
                       kv->n_free_seqs, kv->o.max_seqs);
    return check_counts(kv, err);
}
