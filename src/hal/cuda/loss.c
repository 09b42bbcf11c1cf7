#include "hal/cuda/loss.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MOST_GPUS = 64 };

typedef struct loss {
    atomic_bool lost;
    unsigned queues;
    char why[400]; /* written before lost is set, and not while it is */
} loss;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static loss losses[MOST_GPUS];

bool cuda_loss_is(int code) {
    switch (code) {
    case 214: /* ECC error that cannot be corrected */
    case 220: /* the same of NVLink */
    case 226: /* contained: a fault that this process alone has */
    case 700: /* illegal address */
    case 702: /* launch time-out */
    case 709: /* the context was destroyed */
    case 710: /* assert */
    case 714: /* hardware stack error */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failed */
    case 721: /* tensor memory not given back */ return true;
    default: return false;
    }
}

static loss *of(const cuda_caller *c) {
    return &losses[(unsigned)c->device % MOST_GPUS];
}

static rp_status tell(const loss *l, rp_error *err) {
    return rp_fail(err, RP_DEVICE, "%s", l->why);
}

rp_status cuda_loss_join(const cuda_caller *c, rp_error *err) {
    loss *l = of(c);
    (void)pthread_mutex_lock(&lock);
    if (l->queues++ == 0) atomic_store(&l->lost, false); /* the driver is asked again */
    (void)pthread_mutex_unlock(&lock);
    return cuda_loss_told(c, err) ? RP_DEVICE : RP_OK;
}

void cuda_loss_over(const cuda_caller *c) {
    loss *l = of(c);
    (void)pthread_mutex_lock(&lock);
    if (!atomic_load(&l->lost)) l->why[0] = 0;
    (void)pthread_mutex_unlock(&lock);
}

void cuda_loss_leave(const cuda_caller *c) {
    (void)pthread_mutex_lock(&lock);
    of(c)->queues--;
    (void)pthread_mutex_unlock(&lock);
}

rp_status cuda_loss_note(const cuda_caller *c, const char *text, rp_error *err) {
    loss *l = of(c);
    (void)pthread_mutex_lock(&lock);
    if (!l->why[0])
        (void)snprintf(
            l->why, sizeof l->why,
            "cuda:%d is lost to this process: %s%s%s%s%s; close what uses it and start a "
            "new process (CUDA_LAUNCH_BLOCKING=1 with cudagraph_mode=NONE names the "
            "kernel), or use --device cpu",
            c->device, text, c->kind ? ", last launched: " : "", c->kind ? c->kind : "",
            c->kind ? " " : "", c->kind ? c->last : "");
    atomic_store(&l->lost, true);
    (void)pthread_mutex_unlock(&lock);
    return tell(l, err);
}

bool cuda_loss_told(const cuda_caller *c, rp_error *err) {
    const loss *l = of(c);
    if (!atomic_load(&l->lost)) return false;
    (void)tell(l, err);
    return true;
}
