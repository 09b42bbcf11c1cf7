/* Runs a list of launches on the pool: every thread walks the list and takes its fixed share.
 *
 * Thread t of n gets chunks [c*t/n, c*(t+1)/n) of `grain` items, so shares depend on the launch and
 * the thread count alone and a replay touches the same memory from the same core. A launch of one
 * chunk, and a host call, is solo: thread 0 does it. A barrier that a launch asks for is owed until
 * a thread could tell the difference: between solo launches there is none. Every thread derives the
 * same barriers from the list alone.
 *
 * A launch that is lists itself: thread 0 asks for the next one, runs it alone where all of it is solo, and shows the others
 * one that is not, behind a barrier. So a loop of small launches costs no barriers but two.
 *
 * Where other programs hold the cores, threads wait for one that does not run at every barrier, and a list takes a
 * hundred times as long. Results do not depend on the thread count, so then the caller runs alone for a while:
 * twice as long each time it turns out that nothing has changed. */
#include "base/clock.h"
#include "base/log.h"
#include "hal/cpu/cpu.h"

enum { ALONE_FIRST = 8, ALONE_MOST = 512, LOST_LEAST_NS = 500 * 1000 };

typedef struct list_run {
    cpu_device *d;
    const hal_launch *list;
    uint32_t n;
    rp_error *err;
    rp_status st;             /* thread 0 */
    _Atomic uint32_t stop_at; /* leave after this barrier of the run; 0 = none */
    hal_list shown[2];        /* by thread 0 to the others, behind even and behind odd barriers */
} list_run;

static inline long long chunks_of(const hal_launch *l) {
    return l->grain > 1 ? l->items / l->grain + (l->items % l->grain != 0) : l->items;
}

/* Done by thread 0 alone. */
static inline bool is_solo(const hal_launch *l) {
    if (l->kind == HAL_LISTS) return false;
    return l->kind == HAL_HOST_CALL || l->items <= l->grain || l->items <= 1;
}

static bool all_solo(const hal_launch *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!is_solo(&list[i])) return false;
    return true;
}

static void run_share(const list_run *r, const hal_launch *l, uint32_t t) {
    long long chunks = chunks_of(l), n = r->d->n_threads, grain = l->grain > 1 ? l->grain : 1;
    long long begin = chunks * t / n * grain, end = chunks * (t + 1) / n * grain;
    if (end > l->items) end = l->items;
    if (begin < end) l->fn.host(l->arg, l->dim, begin, end, r->d->scratch[t]);
}

static inline void run_kernel(const cpu_device *d, const hal_launch *l) {
    if (l->items > 0) l->fn.host(l->arg, l->dim, 0, l->items, d->scratch[0]);
}

static RP_APART rp_status run_other(cpu_device *d, const hal_launch *l, rp_error *err);

/* Without shared launches, or without others, no thread is woken. */
static inline rp_status walk_alone(cpu_device *d, const hal_launch *list, uint32_t n,
                                   rp_error *err) {
    for (const hal_launch *l = list; l < list + n; l++)
        if (l->kind == HAL_KERNEL)
            run_kernel(d, l);
        else
            RP_TRY(run_other(d, l, err));
    return RP_OK;
}

/* No kernel. */
static RP_APART rp_status run_other(cpu_device *d, const hal_launch *l, rp_error *err) {
    hal_list inner = {0};
    if (l->kind == HAL_HOST_CALL) return l->call(l->user, l->arg, l->dim, err);
    for (uint64_t turn = 0;; turn++) {
        RP_TRY(l->next(l->user, &d->base, l->arg, l->dim, turn, &inner, err));
        if (!inner.v) return RP_OK;
        RP_TRY(walk_alone(d, inner.v, inner.n, err));
    }
}

/* A thread on its way through a run. */
typedef struct walker {
    list_run *r;
    uint32_t t, passed; /* barriers */
    bool owed, shared;  /* a barrier is owed; others have worked since the last */
} walker;

/* False: leave. */
static bool meet(walker *w) {
    cpu_pool_barrier(w->r->d->team->pool, w->t);
    w->passed++;
    w->owed = w->shared = false;
    return atomic_load_explicit(&w->r->stop_at, memory_order_relaxed) != w->passed;
}

/* Thread 0: the others leave where all meet next, so that none is left waiting. */
static void stop(walker *w) {
    atomic_store_explicit(&w->r->stop_at, w->passed + 1, memory_order_relaxed);
}

/* The next list that others take part in; NULL behind the last. */
static rp_status next_shared(const list_run *r, const hal_launch *l, uint64_t *turn,
                             hal_list *out) {
    for (;;) {
        RP_TRY(l->next(l->user, &r->d->base, l->arg, l->dim, (*turn)++, out, r->err));
        if (!out->v || !all_solo(out->v, out->n)) return RP_OK;
        RP_TRY(walk_alone(r->d, out->v, out->n, r->err));
    }
}

static bool walk_list(walker *w, const hal_launch *list, uint32_t n);

/* What is shown is read behind the next barrier; the place is used again behind one more, when all have read it. */
static bool walk_lists(walker *w, const hal_launch *l) {
    list_run *r = w->r;
    uint64_t turn = 0;
    for (;;) {
        if (w->shared && !meet(w)) return false;
        uint32_t at = w->passed % 2;
        if (w->t == 0) {
            if (r->st == RP_OK) r->st = next_shared(r, l, &turn, &r->shown[at]);
            if (r->st != RP_OK) stop(w);
        }
        if (!meet(w)) return false;
        if (!r->shown[at].v) return true;
        if (!walk_list(w, r->shown[at].v, r->shown[at].n)) return false;
    }
}

static bool walk_list(walker *w, const hal_launch *list, uint32_t n) {
    list_run *r = w->r;
    for (uint32_t i = 0; i < n; i++) {
        const hal_launch *l = &list[i];
        bool solo = is_solo(l);
        if (w->owed && (w->shared || !solo) && !meet(w)) return false;
        if (l->kind == HAL_LISTS) {
            if (!walk_lists(w, l)) return false;
            continue;
        }
        w->owed |= !l->no_barrier;
        w->shared |= !solo;
        if (w->t != 0) {
            if (!solo) run_share(r, l, w->t);
        } else if (r->st == RP_OK) {
            if (!solo)
                run_share(r, l, w->t);
            else
                r->st = walk_alone(r->d, l, 1, r->err);
            if (r->st != RP_OK) stop(w);
        }
    }
    return true;
}

static void walk(void *user, uint32_t t) {
    list_run *r = user;
    walker w = {.r = r, .t = t};
    (void)walk_list(&w, r->list, r->n);
}

rp_status cpu_queue_refuse(rp_error *err) {
    return rp_fail(err, RP_INTERNAL, "two threads use the queue of one cpu device at a time");
}

/* More than half of the time lost to waiting: uneven shares lose far less. */
static void judge(cpu_device *d, int64_t took, int64_t lost) {
    if (lost < LOST_LEAST_NS || lost < took / 2) {
        d->alone_next = ALONE_FIRST;
        return;
    }
    if (d->alone_next < ALONE_FIRST) d->alone_next = ALONE_FIRST;
    d->alone_left = d->alone_next;
    base_log(
        RP_LOG_DEBUG,
        "cpu: %lld of %lld us lost waiting for threads that do not run; %u lists on one thread",
        (long long)lost / 1000, (long long)took / 1000, d->alone_left);
    if (d->alone_next < ALONE_MOST) d->alone_next *= 2;
}

static RP_APART rp_status run_shared(cpu_device *d, const hal_launch *list, uint32_t n,
                                     rp_error *err) {
    list_run r = {.d = d, .list = list, .n = n, .err = err};
    d->base.counters.shared_lists++;
    if (d->alone_left > 0) {
        d->alone_left--;
        d->base.counters.crowded_lists++;
        return walk_alone(d, list, n, err);
    }
    /* Another queue has the threads, perhaps the one whose host call came here. */
    if (atomic_flag_test_and_set_explicit(&d->team->busy, memory_order_acquire))
        return walk_alone(d, list, n, err);
    cpu_pool *pool = d->team->pool;
    int64_t start = base_now_ns(), waited = cpu_pool_waited(pool);
    cpu_pool_run(pool, walk, &r);
    judge(d, base_now_ns() - start, cpu_pool_waited(pool) - waited);
    atomic_flag_clear_explicit(&d->team->busy, memory_order_release);
    return r.st;
}

static inline rp_status run_list(cpu_device *d, const hal_launch *list, uint32_t n, rp_error *err) {
    return d->n_threads == 1 || all_solo(list, n) ? walk_alone(d, list, n, err)
                                                  : run_shared(d, list, n, err);
}

rp_status cpu_list_run(cpu_device *d, const hal_launch *list, uint32_t n, rp_error *err) {
    return run_list(d, list, n, err);
}

rp_status cpu_launch(hal_device *base, const hal_launch *list, uint32_t n, size_t scratch_size,
                     rp_error *err) {
    cpu_device *d = (cpu_device *)base;
    if (hal_capturing(base)) return hal_note_capture(base, list, n, scratch_size, err);
    RP_TRY(cpu_queue_enter(d, err));
    rp_status st = cpu_scratch_reserve(d, scratch_size, err);
    if (st == RP_OK) st = run_list(d, list, n, err);
    if (st == RP_OK) hal_note_launch(base, list, n);
    cpu_queue_leave(d);
    return st;
}
