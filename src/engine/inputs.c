#include "engine/inputs.h"

static size_t size_of(const engine_step_buffers *b) {
    return ((size_t)b->max_tokens * 4 + b->max_rows + (size_t)b->max_seqs * b->max_blocks) *
           sizeof(int32_t);
}

static void lay_out(engine_step_buffers *b, int32_t *at) {
    const size_t tokens = b->max_tokens;
    b->token_ids = at;
    b->positions = at + tokens;
    b->slots = at + tokens * 2;
    b->seqs = at + tokens * 3;
    b->rows = at + tokens * 4;
    b->block_tables = b->rows + b->max_rows;
}

rp_status engine_inputs_open(engine_inputs *in, hal_device *device, rp_error *err) {
    hal_device_info info;
    device->ops->info(device, &info);
    in->device = device;
    in->size = size_of(&in->b);
    RP_TRY(device->ops->alloc(device, HAL_MAPPED_MEMORY, in->size, &in->memory, err));
    lay_out(&in->b, in->memory);
    if (info.unified) return RP_OK;
    return device->ops->alloc(device, HAL_DEVICE_MEMORY, in->size, &in->copy, err);
}

void engine_inputs_close(engine_inputs *in) {
    hal_device *d = in->device;
    if (in->memory) d->ops->release(d, in->memory, in->size);
    if (in->copy) d->ops->release(d, in->copy, in->size);
    *in = (engine_inputs){0};
}

void *engine_inputs_for_kernels(const engine_inputs *in, int32_t *p) {
    if (!in->copy) return p;
    return (char *)in->copy + ((char *)p - (char *)in->memory);
}

static rp_status send(const engine_inputs *in, int32_t *from, size_t n, rp_error *err) {
    return in->device->ops->copy(in->device, engine_inputs_for_kernels(in, from), from,
                                 n * sizeof *from, err);
}

rp_status engine_inputs_send(const engine_inputs *in, const rp_dispatch *d, rp_error *err) {
    const engine_step_buffers *b = &in->b;
    const size_t tokens = (size_t)d->padded;
    if (!in->copy) return RP_OK;
    RP_TRY(send(in, b->token_ids, tokens, err));
    RP_TRY(send(in, b->positions, tokens, err));
    RP_TRY(send(in, b->slots, tokens, err));
    RP_TRY(send(in, b->seqs, tokens, err));
    RP_TRY(send(in, b->rows, (size_t)d->padded_logits, err));
    return send(in, b->block_tables, (size_t)d->padded_reqs * b->max_blocks, err);
}

rp_status engine_inputs_poison(const engine_inputs *in, rp_error *err) {
    hal_device *d = in->device;
    RP_TRY(d->ops->fill(d, in->memory, 0x7f, in->size, err));
    return in->copy ? d->ops->fill(d, in->copy, 0x7f, in->size, err) : RP_OK;
}

size_t engine_inputs_bytes(const engine_inputs *in) {
    return in->copy ? in->size * 2 : in->size;
}
