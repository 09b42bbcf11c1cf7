#include "engine/results.h"

#include "engine/room.h"

static size_t logits_size(const engine_results *r) {
    return r->max_rows * r->row_size;
}

static size_t best_size(const engine_results *r) {
    return r->max_rows * (sizeof(float) + sizeof(int32_t));
}

static rp_status open_logits(engine_results *r, int64_t max_num_seqs, rp_error *err) {
    engine_room room = {"the logits of a step", "max_num_seqs", max_num_seqs, HAL_DEVICE_MEMORY,
                        logits_size(r)};
    hal_device_info info;
    r->device->ops->info(r->device, &info);
    RP_TRY(engine_room_take(r->device, &room, &r->logits, err));
    room.kind = HAL_MAPPED_MEMORY;
    return info.unified ? RP_OK : engine_room_take(r->device, &room, &r->host_logits, err);
}

rp_status engine_results_open(engine_results *r, int64_t max_num_seqs, rp_error *err) {
    const hal_device_ops *ops = r->device->ops;
    void *best = NULL, *host_best = NULL;
    RP_TRY(open_logits(r, max_num_seqs, err));
    RP_TRY(ops->alloc(r->device, HAL_DEVICE_MEMORY, best_size(r), &best, err));
    r->best = best; /* so that what follows may fail */
    RP_TRY(
        ops->alloc(r->device, HAL_MAPPED_MEMORY, best_size(r) * ENGINE_FLIGHTS, &host_best, err));
    r->host_best = host_best;
    for (int i = 0; i < ENGINE_FLIGHTS; i++) RP_TRY(ops->event_new(r->device, &r->done[i], err));
    return RP_OK;
}

void engine_results_close(engine_results *r) {
    hal_device *d = r->device;
    if (r->logits) d->ops->release(d, r->logits, logits_size(r));
    if (r->host_logits) d->ops->release(d, r->host_logits, logits_size(r));
    if (r->best) d->ops->release(d, r->best, best_size(r));
    if (r->host_best) d->ops->release(d, r->host_best, best_size(r) * ENGINE_FLIGHTS);
    for (int i = 0; i < ENGINE_FLIGHTS; i++)
        if (r->done[i]) d->ops->event_free(r->done[i]);
    *r = (engine_results){0};
}

/* Of the step with that number, counted from 0. */
static float *host_best_of(const engine_results *r, uint64_t step) {
    return r->host_best + step % ENGINE_FLIGHTS * 2 * r->max_rows;
}

rp_status engine_results_send(engine_results *r, rp_error *err) {
    hal_device *d = r->device;
    RP_TRY(d->ops->copy(d, host_best_of(r, r->n_launched), r->best, best_size(r), err));
    RP_TRY(d->ops->event_record(d, r->done[r->n_launched % ENGINE_FLIGHTS], err));
    r->n_launched++;
    return RP_OK;
}

rp_status engine_results_wait(engine_results *r, rp_error *err) {
    if (engine_results_in_flight(r) == 0) return rp_fail(err, RP_INTERNAL, "no step is in flight");
    RP_TRY(r->device->ops->event_synchronize(r->done[r->n_waited % ENGINE_FLIGHTS], err));
    r->n_waited++;
    return RP_OK;
}

uint32_t engine_results_in_flight(const engine_results *r) {
    return (uint32_t)(r->n_launched - r->n_waited);
}

void engine_results_drain(engine_results *r) {
    (void)r->device->ops->synchronize(r->device, NULL); /* nobody wants what failed */
    r->n_waited = r->n_launched;
}

engine_best engine_results_best(const engine_results *r) {
    const float *best = host_best_of(r, r->n_waited - 1);
    return (engine_best){best, (const int32_t *)(const void *)(best + r->max_rows)};
}

const void *engine_results_token(const engine_results *r, uint32_t row) {
    return host_best_of(r, r->n_launched - 1) + r->max_rows + row;
}

rp_status engine_results_logits(engine_results *r, uint32_t first, uint32_t n, const float **out,
                                rp_error *err) {
    char *from = (char *)r->logits + first * r->row_size;
    if (n > r->max_rows || first > r->max_rows - n)
        return rp_fail(err, RP_INTERNAL, "logit rows %u to %u of %u", first, first + n,
                       r->max_rows);
    if (engine_results_in_flight(r))
        return rp_fail(err, RP_INTERNAL, "logits of a step that has another behind it");
    if (r->host_logits) {
        hal_device *d = r->device;
        RP_TRY(d->ops->copy(d, r->host_logits, from, n * r->row_size, err));
        RP_TRY(d->ops->synchronize(d, err));
        from = r->host_logits;
    }
    *out = (const float *)(const void *)from;
    return RP_OK;
}

size_t engine_results_logits_bytes(const engine_results *r) {
    return r->host_logits ? 2 * logits_size(r) : logits_size(r);
}

size_t engine_results_best_bytes(const engine_results *r) {
    return best_size(r) * (1 + ENGINE_FLIGHTS);
}

rp_status engine_results_poison(const engine_results *r, rp_error *err) {
    hal_device *d = r->device;
    RP_TRY(d->ops->fill(d, r->logits, 0xff, logits_size(r), err));
    return d->ops->fill(d, r->best, 0xff, best_size(r), err);
}
