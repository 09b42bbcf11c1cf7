#include "engine/results.h"

#include <string.h>

#include "engine/room.h"
#include "gen/exchange.h"

/* Of logits for the host, where that is not the device: as many as scoring wants for the head to run at its full speed. */
enum { ROWS_AT_ONCE = 32 };

static size_t logits_size(const engine_results *r) {
    return r->max_rows * r->row_size;
}

static size_t host_logits_size(const engine_results *r) {
    return r->at_once * r->row_size;
}

static size_t best_size(const engine_results *r) {
    return r->max_rows * (sizeof(float) + sizeof(int32_t));
}

static size_t host_best_size(const engine_results *r) {
    return best_size(r) * (ENGINE_FLIGHTS + 1);
}

static size_t tokens_size(const engine_results *r) {
    return r->max_rows * sizeof(int32_t) * (ENGINE_FLIGHTS + 1);
}

static size_t draws_size(const engine_results *r) {
    return r->max_rows * GEN_DRAW_WORDS * sizeof(int32_t);
}

static rp_status open_logits(engine_results *r, int64_t max_num_seqs, rp_error *err) {
    engine_room room = {"the logits of a step", "max_num_seqs", max_num_seqs, HAL_DEVICE_MEMORY,
                        logits_size(r)};
    RP_TRY(engine_room_take(r->device, &room, &r->logits, err));
    r->at_once = r->max_rows;
    if (!r->x->needed) return RP_OK;
    if (r->at_once > ROWS_AT_ONCE) r->at_once = ROWS_AT_ONCE;
    room.kind = HAL_MAPPED_MEMORY;
    room.size = host_logits_size(r);
    return engine_room_take(r->device, &room, &r->host_logits, err);
}

static void make_launch(engine_results *r) {
    void *const arg[] = {r->best, r->host_best, r->tokens, r->x->state, r->logits, r->draws};
    const size_t size[] = {best_size(r),   host_best_size(r),
                           tokens_size(r), GEN_EXCHANGE_STATE * sizeof *r->x->state,
                           logits_size(r), draws_size(r)};
    memcpy(r->arg, arg, sizeof arg);
    memcpy(r->arg_size, size, sizeof size);
    r->dim[0] = r->max_rows;
    r->dim[1] = (long long)(r->row_size / sizeof(float));
    r->deliver = engine_exchange_launch((hal_launch){.name = "results of a step",
                                                     .fn = r->x->deliver,
                                                     .arg = r->arg,
                                                     .arg_size = r->arg_size,
                                                     .dim = r->dim,
                                                     .n_arg = sizeof r->arg / sizeof *r->arg,
                                                     .n_dim = sizeof r->dim / sizeof *r->dim});
}

static rp_status open_delivery(engine_results *r, rp_error *err) {
    void *tokens = NULL, *draws = NULL;
    RP_TRY(r->device->ops->alloc(r->device, HAL_DEVICE_MEMORY, tokens_size(r), &tokens, err));
    r->tokens = tokens;
    RP_TRY(r->device->ops->alloc(r->device, HAL_DEVICE_MEMORY, draws_size(r), &draws, err));
    r->draws = draws;
    make_launch(r);
    return RP_OK;
}

rp_status engine_results_open(engine_results *r, int64_t max_num_seqs, rp_error *err) {
    const hal_device_ops *ops = r->device->ops;
    void *best = NULL, *host_best = NULL;
    RP_TRY(open_logits(r, max_num_seqs, err));
    RP_TRY(ops->alloc(r->device, HAL_DEVICE_MEMORY, best_size(r), &best, err));
    r->best = best; /* so that what follows may fail */
    RP_TRY(ops->alloc(r->device, HAL_MAPPED_MEMORY, host_best_size(r), &host_best, err));
    r->host_best = host_best;
    for (int i = 0; i < ENGINE_FLIGHTS; i++) RP_TRY(ops->event_new(r->device, &r->done[i], err));
    return r->x->needed ? open_delivery(r, err) : RP_OK;
}

void engine_results_close(engine_results *r) {
    hal_device *d = r->device;
    if (r->logits) d->ops->release(d, r->logits, logits_size(r));
    if (r->host_logits) d->ops->release(d, r->host_logits, host_logits_size(r));
    if (r->best) d->ops->release(d, r->best, best_size(r));
    if (r->host_best) d->ops->release(d, r->host_best, host_best_size(r));
    if (r->tokens) d->ops->release(d, r->tokens, tokens_size(r));
    if (r->draws) d->ops->release(d, r->draws, draws_size(r));
    for (int i = 0; i < ENGINE_FLIGHTS; i++)
        if (r->done[i]) d->ops->event_free(r->done[i]);
    *r = (engine_results){0};
}

/* Of the step with that number, counted from 0. */
static float *host_best_of(const engine_results *r, uint64_t step) {
    return r->host_best + step % ENGINE_FLIGHTS * 2 * r->max_rows;
}

engine_route engine_results_route(const engine_results *r) {
    const float *last = host_best_of(r, r->n_launched + ENGINE_FLIGHTS - 1);
    return (engine_route){.from = (uint32_t)((r->n_launched + ENGINE_FLIGHTS - 1) % ENGINE_FLIGHTS),
                          .place = (uint32_t)(r->n_launched % ENGINE_FLIGHTS),
                          .ids = (const int32_t *)(const void *)(last + r->max_rows)};
}

engine_route engine_results_nowhere(const engine_results *r) {
    engine_route route = engine_results_route(r);
    route.place = ENGINE_NO_FLIGHT;
    return route;
}

rp_status engine_results_deliver(engine_results *r, uint32_t rows, rp_error *err) {
    hal_device *d = r->device;
    hal_launch l = r->deliver;
    if (!r->x->needed)
        return d->ops->copy(d, host_best_of(r, r->n_launched), r->best, best_size(r), err);
    l.items += rows;
    return d->ops->launch(d, &l, 1, 0, err);
}

rp_status engine_results_launched(engine_results *r, rp_error *err) {
    hal_device *d = r->device;
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

rp_status engine_results_logits(engine_results *r, uint32_t first, uint32_t n, const float **out,
                                rp_error *err) {
    char *from = (char *)r->logits + first * r->row_size;
    if (n > r->at_once || first > r->max_rows - n)
        return rp_fail(err, RP_INTERNAL, "logit rows %u to %u of %u, %u at once", first, first + n,
                       r->max_rows, r->at_once);
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
    return logits_size(r) + (r->host_logits ? host_logits_size(r) : 0);
}

size_t engine_results_best_bytes(const engine_results *r) {
    return best_size(r) + host_best_size(r) + (r->tokens ? tokens_size(r) : 0) +
           (r->draws ? draws_size(r) : 0);
}

rp_status engine_results_poison(const engine_results *r, rp_error *err) {
    hal_device *d = r->device;
    RP_TRY(d->ops->fill(d, r->logits, 0xff, logits_size(r), err));
    return d->ops->fill(d, r->best, 0xff, best_size(r), err);
}
