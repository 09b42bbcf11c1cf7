/* What replays will run, on a log channel, and the launch log: the last LOG_LINES events at the device border as text.
 * All memory is taken when recording is switched on, so that a recorded step allocates nothing.
 * Off, it costs one relaxed load an event. Thread-safe; reading is for when the device rests. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "hal/device.h"

enum { LOG_LINES = 8192 };

hal_log *hal_log_new(void) {
    hal_log *log = base_alloc(sizeof *log);
    if (log) (void)pthread_mutex_init(&log->lock, NULL);
    return log;
}

void hal_log_free(hal_log *log) {
    if (!log) return;
    (void)pthread_mutex_destroy(&log->lock);
    base_free(log->line);
    base_free(log);
}

void hal_log_record(hal_device *d, bool on) {
    hal_log *log = d->log;
    (void)pthread_mutex_lock(&log->lock);
    if (on && !atomic_load(&log->on)) {
        if (!log->line) log->line = base_alloc_array(LOG_LINES, HAL_LOG_WIDTH);
        log->n = 0;
    }
    atomic_store(&log->on, on && log->line);
    (void)pthread_mutex_unlock(&log->lock);
}

void hal_log_line(hal_log *log, const char *verb, const char *text) {
    if (!atomic_load_explicit(&log->on, memory_order_relaxed)) return;
    (void)pthread_mutex_lock(&log->lock);
    (void)snprintf(log->line[log->n++ % LOG_LINES], HAL_LOG_WIDTH, "%s %s", verb,
                   text ? text : "?");
    (void)pthread_mutex_unlock(&log->lock);
}

void hal_log_launches(hal_log *log, const hal_launch *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) hal_log_line(log, "launch", list[i].name);
}

size_t hal_log_count(const hal_device *d) {
    size_t n = d->log->n;
    return n < LOG_LINES ? n : LOG_LINES;
}

const char *hal_log_at(const hal_device *d, size_t i) {
    const hal_log *log = d->log;
    size_t count = hal_log_count(d);
    if (i >= count) return NULL;
    return log->line[(log->n - count + i) % LOG_LINES];
}

/* Of equal sizes only the order is news: + prints where arguments lie. */
void hal_log_replay(const char *label, const hal_launch *list, uint32_t n) {
    base_buf b;
    if (!base_log_on(RP_LOG_CH_BYTECODE, false)) return;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "REPLAY LIST %s: %u launches\n", label ? label : "", n);
    for (uint32_t i = 0; i < n; i++) {
        base_buf_printf(&b, "%4u %s %s", i, list[i].kind == HAL_KERNEL ? "LAUNCH" : "CALL  ",
                        list[i].name);
        if (list[i].kind == HAL_KERNEL)
            base_buf_printf(&b, " items %lld grain %lld", list[i].items, list[i].grain);
        base_buf_puts(&b, list[i].no_barrier ? "" : ", barrier");
        for (uint32_t k = 0; k < list[i].n_arg && base_log_on(RP_LOG_CH_BYTECODE, true); k++)
            base_buf_printf(&b, "%s%p", k ? ", " : " at ", list[i].arg[k]);
        base_buf_putc(&b, '\n');
    }
    if (!b.failed) base_log_ch(RP_LOG_CH_BYTECODE, false, "%s", b.data);
    base_buf_done(&b);
}
