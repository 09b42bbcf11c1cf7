#include "engine/inputs.h"

#include <string.h>

#include "base/alloc.h"
#include "gen/exchange.h"

enum { TOKEN_ARRAYS = 4, PATCH = 2, MOST_PATCHES = 1 << 13 };

static size_t table_words(const engine_step_buffers *b) {
    return (size_t)b->max_seqs * b->max_blocks;
}

static void lay_out(engine_step_buffers *b, int32_t *at) {
    const size_t tokens = b->max_tokens;
    b->token_ids = at;
    b->positions = at + tokens;
    b->slots = at + tokens * 2;
    b->seqs = at + tokens * 3;
    b->rows = at + tokens * TOKEN_ARRAYS;
    b->block_tables = b->rows + b->max_rows;
}

/* With the word behind them, in which the device tells what it has taken. */
static size_t blocks_size(const engine_inputs *in) {
    return (2 * in->block_words + 1) * sizeof *in->blocks;
}

/* An even number, so that patches of blocks do not lie across words that are read at once, and as much as is read before it is known how much there is. */
static void size_blocks(engine_inputs *in) {
    const engine_step_buffers *b = &in->b;
    const size_t fixed = GEN_EXCHANGE_HEAD + (size_t)b->max_tokens * TOKEN_ARRAYS + b->max_rows +
                         1 + (size_t)b->max_seqs * GEN_DRAW_WORDS;
    in->room = table_words(b) < MOST_PATCHES ? (uint32_t)table_words(b) : MOST_PATCHES;
    in->block_words = fixed + (size_t)in->room * PATCH;
    if (in->block_words < GEN_EXCHANGE_LEAST) in->block_words = GEN_EXCHANGE_LEAST;
    in->block_words = (in->block_words + 63) / 64 * 64;
}

static void make_launch(engine_inputs *in) {
    void *const arg[] = {in->blocks, in->copy, in->results->tokens, in->x->state,
                         in->results->draws};
    const size_t size[] = {
        blocks_size(in), in->size, hal_range_size(in->device, in->results->tokens),
        GEN_EXCHANGE_STATE * sizeof *in->x->state, hal_range_size(in->device, in->results->draws)};
    memcpy(in->arg, arg, sizeof arg);
    memcpy(in->arg_size, size, sizeof size);
    in->dim[0] = (long long)in->block_words;
    in->dim[1] = in->b.max_tokens;
    in->dim[2] = in->b.max_rows;
    in->dim[3] = in->results->max_rows;
    in->fetch = engine_exchange_launch((hal_launch){.name = "inputs of a step",
                                                    .fn = in->x->fetch,
                                                    .arg = in->arg,
                                                    .arg_size = in->arg_size,
                                                    .dim = in->dim,
                                                    .n_arg = sizeof in->arg / sizeof *in->arg,
                                                    .n_dim = sizeof in->dim / sizeof *in->dim});
}

static rp_status open_blocks(engine_inputs *in, rp_error *err) {
    const hal_device_ops *ops = in->device->ops;
    void *blocks = NULL;
    size_blocks(in);
    in->known = base_alloc_array(table_words(&in->b), sizeof *in->known);
    in->seen = base_alloc_array(in->b.max_seqs, sizeof *in->seen);
    if (!in->known || !in->seen) return rp_fail(err, RP_NOMEM, "block tables of a step");
    RP_TRY(ops->alloc(in->device, HAL_DEVICE_MEMORY, in->size, &in->copy, err));
    /* So that a block in it is one that the cache has, whenever it is read. */
    RP_TRY(ops->fill(in->device, in->copy, 0, in->size, err));
    RP_TRY(ops->alloc(in->device, HAL_MAPPED_MEMORY, blocks_size(in), &blocks, err));
    in->blocks = blocks;
    make_launch(in);
    return RP_OK;
}

rp_status engine_inputs_open(engine_inputs *in, hal_device *device, rp_error *err) {
    const engine_step_buffers *b = &in->b;
    in->device = device;
    in->size = ((size_t)b->max_tokens * TOKEN_ARRAYS + b->max_rows + table_words(b)) *
               sizeof(int32_t);
    if (in->x->needed) {
        RP_TRY(open_blocks(in, err));
        in->memory = base_alloc(in->size);
        if (!in->memory) return rp_fail(err, RP_NOMEM, "inputs of a step");
    } else {
        RP_TRY(device->ops->alloc(device, HAL_MAPPED_MEMORY, in->size, &in->memory, err));
    }
    lay_out(&in->b, in->memory);
    return RP_OK;
}

void engine_inputs_close(engine_inputs *in) {
    hal_device *d = in->device;
    if (in->memory && in->known)
        base_free(in->memory);
    else if (in->memory)
        d->ops->release(d, in->memory, in->size);
    if (in->blocks) d->ops->release(d, in->blocks, blocks_size(in));
    if (in->copy) d->ops->release(d, in->copy, in->size);
    base_free(in->known);
    base_free(in->seen);
    *in = (engine_inputs){0};
}

void *engine_inputs_for_kernels(const engine_inputs *in, int32_t *p) {
    if (!in->copy) return p;
    return (char *)in->copy + ((char *)p - (char *)in->b.token_ids);
}

/* --- blocks ----------------------------------------------------------------------- */

/* A block under way, of a step of these padded sizes. */
typedef struct writer {
    engine_inputs *in;
    const rp_dispatch *d;
    const engine_route *route;
    uint32_t n_draws;
    int32_t *head, *patches; /* the latter where they are behind the arrays */
    uint32_t n_patches;
} writer;

/* The number of the block taken last, as the device tells the host. */
static uint32_t taken(const engine_inputs *in) {
    const int32_t *at = in->blocks + 2 * in->block_words;
    return (uint32_t)__atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* The next block, once nobody reads its place any more: as a rule that is so, since the step before the last was waited for. */
static rp_status begin(writer *w, rp_error *err) {
    const engine_inputs *in = w->in;
    const uint32_t number = in->x->sent + 1;
    const size_t rows = (size_t)w->d->padded_logits;
    if (number > 2 && (int32_t)(taken(in) - (number - 2)) < 0)
        RP_TRY(in->device->ops->synchronize(in->device, err));
    w->head = in->blocks + number % 2 * in->block_words;
    w->patches = w->head + GEN_EXCHANGE_HEAD + (size_t)w->d->padded * TOKEN_ARRAYS + rows +
                 rows % 2 + (size_t)w->n_draws * GEN_DRAW_WORDS;
    w->n_patches = 0;
    return RP_OK;
}

static void end(writer *w, int32_t tokens, int32_t rows, uint32_t n_draws) {
    engine_exchange *x = w->in->x;
    x->sent++;
    w->head[GEN_EXCHANGE_NUMBER] = (int32_t)x->sent;
    w->head[GEN_EXCHANGE_PLACE] = (int32_t)w->route->place;
    w->head[GEN_EXCHANGE_FROM] = (int32_t)w->route->from;
    w->head[GEN_EXCHANGE_TOKENS] = tokens;
    w->head[GEN_EXCHANGE_ROWS] = rows;
    w->head[GEN_EXCHANGE_DRAWS] = (int32_t)n_draws;
    w->head[GEN_EXCHANGE_UNREAD] = w->route->unread && n_draws == 0;
    w->head[GEN_EXCHANGE_PATCHES] = (int32_t)w->n_patches;
}

static rp_status take_block(engine_inputs *in, rp_error *err) {
    hal_device *d = in->device;
    return d->ops->launch(d, &in->fetch, 1, 0, err);
}

/* A block of patches alone goes ahead of the step's, which has no room for as many: so it is where long prompts come in. */
static rp_status send_patches(writer *w, rp_error *err) {
    memmove(w->head + GEN_EXCHANGE_HEAD, w->patches,
            (size_t)w->n_patches * PATCH * sizeof *w->patches);
    end(w, 0, 0, 0);
    RP_TRY(take_block(w->in, err));
    return begin(w, err);
}

static void forget_seen(engine_inputs *in, uint32_t n_blocks) {
    memset(in->seen, 0, in->b.max_seqs * sizeof *in->seen);
    in->seen_width = n_blocks;
}

/* Whether the row was the same when it was compared last; from now on it was. */
static bool is_seen(engine_inputs *in, uint32_t row) {
    const uint64_t stamp = in->stamps ? in->stamps[row] : 0, last = in->seen[row];
    in->seen[row] = stamp;
    return stamp && stamp == last;
}

/* The first n entries of a row of block tables, where the device does not have them. */
static rp_status put_row(writer *w, uint32_t row, uint32_t n, rp_error *err) {
    const size_t first = (size_t)row * w->in->b.max_blocks;
    const int32_t *want = w->in->b.block_tables + first;
    int32_t *known = w->in->known + first;
    if (is_seen(w->in, row) || memcmp(want, known, n * sizeof *want) == 0) return RP_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (known[i] == want[i]) continue;
        if (w->n_patches == w->in->room) RP_TRY(send_patches(w, err));
        w->patches[w->n_patches * PATCH] = (int32_t)(first + i);
        w->patches[w->n_patches++ * PATCH + 1] = known[i] = want[i];
    }
    return RP_OK;
}

static int32_t *put(int32_t *at, const int32_t *from, int32_t n) {
    memcpy(at, from, (size_t)n * sizeof *from);
    return at + n;
}

static void put_arrays(const writer *w) {
    const engine_step_buffers *b = &w->in->b;
    int32_t *at = w->head + GEN_EXCHANGE_HEAD;
    at = put(at, b->token_ids, w->d->padded);
    at = put(at, b->positions, w->d->padded);
    at = put(at, b->slots, w->d->padded);
    at = put(at, b->seqs, w->d->padded);
    at = put(at, b->rows, w->d->padded_logits);
    at += w->d->padded_logits % 2;
    if (w->n_draws > 0) (void)put(at, w->in->draws, (int32_t)w->n_draws * GEN_DRAW_WORDS);
}

/* Tokens of the step before, which is done. */
static void take_tokens(const engine_inputs *in, const rp_dispatch *d, const int32_t *from) {
    int32_t *ids = in->b.token_ids;
    for (int32_t i = 0; i < d->padded; i++)
        if (ids[i] < 0) ids[i] = from[-1 - ids[i]];
}

static rp_status write_block(writer *w, uint32_t n_blocks, rp_error *err) {
    const rp_dispatch *d = w->d;
    RP_TRY(begin(w, err));
    if (w->in->seen_width != n_blocks) forget_seen(w->in, n_blocks);
    for (uint32_t i = 0; i < (uint32_t)d->padded_reqs; i++) RP_TRY(put_row(w, i, n_blocks, err));
    put_arrays(w);
    end(w, d->padded, d->padded_logits, w->n_draws);
    return RP_OK;
}

rp_status engine_inputs_write(engine_inputs *in, const rp_dispatch *d, engine_step_extent extent,
                              const engine_route *route, rp_error *err) {
    writer w = {.in = in, .d = d, .route = route, .n_draws = extent.n_draws};
    if (!in->copy) {
        take_tokens(in, d, route->ids);
        return RP_OK;
    }
    rp_status st = write_block(&w, extent.width, err);
    if (st != RP_OK) engine_inputs_lost(in);
    return st;
}

rp_status engine_inputs_fetch(engine_inputs *in, rp_error *err) {
    if (!in->copy) return RP_OK;
    rp_status st = take_block(in, err);
    if (st != RP_OK) engine_inputs_lost(in);
    return st;
}

void engine_inputs_lost(engine_inputs *in) {
    if (!in->copy) return;
    engine_exchange_reset(in->x);
    forget_seen(in, 0);
    memset(in->known, 0xff,
           table_words(&in->b) * sizeof *in->known); /* no block has such a number */
}

rp_status engine_inputs_poison(engine_inputs *in, rp_error *err) {
    hal_device *d = in->device;
    memset(in->memory, 0x7f, in->size);
    if (!in->copy) return RP_OK;
    forget_seen(in, 0);
    memset(in->known, 0x7f, table_words(&in->b) * sizeof *in->known);
    memset(in->blocks, 0x7f, 2 * in->block_words * sizeof *in->blocks);
    return d->ops->fill(d, in->copy, 0x7f, in->size, err);
}

size_t engine_inputs_bytes(const engine_inputs *in) {
    if (!in->copy) return in->size;
    return 2 * in->size + blocks_size(in) + table_words(&in->b) * sizeof *in->known +
           in->b.max_seqs * sizeof *in->seen;
}
