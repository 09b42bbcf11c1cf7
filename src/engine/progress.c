/* What who opens an engine hears of it, and how he ends it. */
#include "engine/progress.h"

#include "base/clock.h"

/* With reporting held. */
static void tell(rp_engine *e, engine_report r) {
    e->reported = r;
    if (!e->progress(e->user, r.stage, r.done, r.total)) atomic_store(&e->cancelled, true);
}

/* One call at a time, as promised: compile threads come here, too. */
static void report(rp_engine *e, rp_stage stage, uint64_t done, uint64_t total) {
    if (!e->progress) return;
    (void)pthread_mutex_lock(&e->reporting);
    tell(e, (engine_report){stage, done, total});
    (void)pthread_mutex_unlock(&e->reporting);
}

bool engine_still_wanted(void *user) {
    rp_engine *e = user;
    (void)pthread_mutex_lock(&e->reporting);
    if (e->progress && !atomic_load(&e->cancelled)) tell(e, e->reported);
    (void)pthread_mutex_unlock(&e->reporting);
    return !atomic_load(&e->cancelled);
}

void engine_fetch_progress(void *user, const char *phase, uint64_t done, uint64_t total) {
    rp_engine *e = user;
    (void)phase;
    if (!e->t_fetch) e->t_fetch = base_now_ns(); /* no watcher runs yet */
    report(e, RP_STAGE_FETCH, done, total);
}

bool engine_pack_progress(void *user, uint64_t done, uint64_t total) {
    rp_engine *e = user;
    report(e, RP_STAGE_PACK, done, total);
    return !e->cancelled;
}

void engine_compile_progress(void *user, uint32_t done, uint32_t total) {
    report(user, RP_STAGE_COMPILE, done, total);
}

bool engine_capture_progress(void *user, uint32_t done, uint32_t total) {
    rp_engine *e = user;
    report(e, RP_STAGE_CAPTURE, done, total);
    return !e->cancelled;
}

rp_status engine_check_cancelled(const rp_engine *e, rp_error *err) {
    return e->cancelled ? rp_fail(err, RP_CANCELLED, "loading was cancelled") : RP_OK;
}
