#include "engine/inputs.h"

enum { TOKEN_ARRAYS = 4 };

static size_t size_of(const engine_step_buffers *b) {
    return ((size_t)b->max_tokens * TOKEN_ARRAYS + b->max_rows +
            (size_t)b->max_seqs * b->max_blocks) *
           sizeof(int32_t);
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

static size_t host_size(const engine_inputs *in) {
    return in->copy ? 2 * in->size : in->size;
}

void engine_inputs_turn(engine_inputs *in, uint64_t turn) {
    size_t set = in->copy && turn % 2 ? in->size : 0;
    lay_out(&in->b, (int32_t *)(void *)((char *)in->memory + set));
}

rp_status engine_inputs_open(engine_inputs *in, hal_device *device, rp_error *err) {
    hal_device_info info;
    device->ops->info(device, &info);
    in->device = device;
    in->size = size_of(&in->b);
    if (!info.unified)
        RP_TRY(device->ops->alloc(device, HAL_DEVICE_MEMORY, in->size, &in->copy, err));
    RP_TRY(device->ops->alloc(device, HAL_MAPPED_MEMORY, host_size(in), &in->memory, err));
    engine_inputs_turn(in, 0);
    return RP_OK;
}

void engine_inputs_close(engine_inputs *in) {
    hal_device *d = in->device;
    if (in->memory) d->ops->release(d, in->memory, host_size(in));
    if (in->copy) d->ops->release(d, in->copy, in->size);
    *in = (engine_inputs){0};
}

void *engine_inputs_for_kernels(const engine_inputs *in, int32_t *p) {
    if (!in->copy) return p;
    return (char *)in->copy + ((char *)p - (char *)in->b.token_ids);
}

/* The first n of each of `count` rows of `pitch` elements. */
static rp_status send(const engine_inputs *in, int32_t *from, size_t count, size_t n, size_t pitch,
                      rp_error *err) {
    const hal_device_ops *ops = in->device->ops;
    void *to = engine_inputs_for_kernels(in, from);
    if (count <= 1 || n == pitch)
        return ops->copy(in->device, to, from, count * n * sizeof *from, err);
    const hal_rows rows = {count, n * sizeof *from, pitch * sizeof *from};
    return ops->copy_rows(in->device, to, from, &rows, err);
}

/* Arrays of one element a token lie one behind the other, so they go together, and with them that of logit rows where it is as long. */
rp_status engine_inputs_send(const engine_inputs *in, const rp_dispatch *d, uint32_t n_blocks,
                             rp_error *err) {
    const engine_step_buffers *b = &in->b;
    if (!in->copy) return RP_OK;
    const bool alike = b->max_rows == b->max_tokens && d->padded_logits <= d->padded;
    RP_TRY(send(in, b->token_ids, TOKEN_ARRAYS + alike, (size_t)d->padded, b->max_tokens, err));
    if (!alike) RP_TRY(send(in, b->rows, 1, (size_t)d->padded_logits, b->max_rows, err));
    return send(in, b->block_tables, (size_t)d->padded_reqs, n_blocks, b->max_blocks, err);
}

rp_status engine_inputs_poison(const engine_inputs *in, rp_error *err) {
    hal_device *d = in->device;
    RP_TRY(d->ops->fill(d, in->memory, 0x7f, host_size(in), err));
    return in->copy ? d->ops->fill(d, in->copy, 0x7f, in->size, err) : RP_OK;
}

size_t engine_inputs_bytes(const engine_inputs *in) {
    return in->copy ? in->size + host_size(in) : in->size;
}
