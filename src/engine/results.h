/* What steps give: logits of the rows that are kept, of each row its largest logit and that one's token, and how the host gets
 * them. Steps are counted as they are launched and waited for, in that order. One thread at a time. */
#ifndef ENGINE_RESULTS_H
#define ENGINE_RESULTS_H

#include "engine/exchange.h"

/* Steps that may be launched and not waited for. */
enum {
    ENGINE_FLIGHTS = 2,
    ENGINE_NO_FLIGHT = ENGINE_FLIGHTS /* where results go that nobody wants */
};

typedef struct engine_best {
    const float *logit;
    const int32_t *id; /* its token, or the one that was drawn within the step */
} engine_best;

typedef struct engine_results {
    hal_device *device; /* set by the caller, with the next three */
    engine_exchange *x;
    uint32_t max_rows; /* of logits that the device keeps */
    uint32_t
        at_once; /* of them that the host gets: all, or a few, since it takes long to pin memory for many */
    size_t row_size; /* bytes of the logits of a row */
    void *logits;    /* [max_rows] of them */
    float *best;     /* of each row the largest logit, then the ids of all of them */
    float *
        host_best; /* the same of the last steps, one after the other, in mapped memory, and of steps that are none */
    void *host_logits; /* where the host reads rows; NULL where it reads them in place */
    hal_event *done[ENGINE_FLIGHTS];
    uint64_t n_launched, n_waited;
    hal_launch
        deliver; /* draws and brings them where best is not what the host reads; its arguments, their bytes, its sizes. Wants a block more than there are rows. */
    void *arg[6];
    size_t arg_size[6];
    long long dim[2];
    int32_t *tokens; /* with it: of the same steps the ids, for the steps behind them, */
    int32_t *draws;  /* and parameters of the rows of a step (gen/draw.h) */
} engine_results;

/* max_num_seqs, which decides max_rows, is told where there is no room. engine_results_close also after a failure. */
rp_status engine_results_open(engine_results *r, int64_t max_num_seqs, rp_error *err) RP_MUST_USE;
void engine_results_close(engine_results *r); /* a zero one is fine */

/* Where the results of the next step go and those of the step launched last are, for engine_inputs_write. */
engine_route engine_results_route(const engine_results *r);
/* The same for a step whose results nobody wants. */
engine_route engine_results_nowhere(const engine_results *r);
/* Queues what brings the results of the step of `rows` rows that was just queued, unless r->deliver was the last launch of it. */
rp_status engine_results_deliver(engine_results *r, uint32_t rows, rp_error *err) RP_MUST_USE;
/* That step is launched. */
rp_status engine_results_launched(engine_results *r, rp_error *err) RP_MUST_USE;
/* Waits for the oldest step that was launched and not waited for. */
rp_status engine_results_wait(engine_results *r, rp_error *err) RP_MUST_USE;
uint32_t engine_results_in_flight(const engine_results *r);
/* Waits for all of them, whatever they gave. */
void engine_results_drain(engine_results *r);

/* Of the step waited for last; valid until the next wait. */
engine_best engine_results_best(const engine_results *r);
/* Logits of rows [first, first + n), of which there are r->at_once at most; valid until the next call. RP_INTERNAL while a step is in flight, which writes to them. */
rp_status engine_results_logits(engine_results *r, uint32_t first, uint32_t n, const float **out,
                                rp_error *err) RP_MUST_USE;

/* Bytes of logits, of device and host, and of the rest. */
size_t engine_results_logits_bytes(const engine_results *r);
size_t engine_results_best_bytes(const engine_results *r);
/* For tests: what no step has written is garbage. */
rp_status engine_results_poison(const engine_results *r, rp_error *err) RP_MUST_USE;

#endif
