/* Levels, channels and the one callback. Text of several lines is delivered line
 * by line; channel lines start with "[name] ". REPRISE_LOGS is read once, before
 * the first question about a channel, unless rp_log_set_channels came earlier.
 * The callback runs under a lock and must not log. Nothing is written here. */
#include "base/log.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/status.h"
#include "base/str.h"

static_assert(RP_LOG_CH_COUNT_ <= 32, "channels fit in one mask each");

static const char *const names[RP_LOG_CH_COUNT_] = {
#define CHANNEL_NAME(id, name, help) [RP_LOG_CH_##id] = (name),
    RP_LOG_CHANNELS(CHANNEL_NAME)
#undef CHANNEL_NAME
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards callback and callback_user */
static rp_log_fn callback;
static void *callback_user;
static atomic_bool have_callback; /* lets a silent program skip formatting */
static _Atomic int max_level = RP_LOG_INFO;
static _Atomic uint64_t channels; /* low half: on, high half: debug */
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

void rp_log_set_callback(rp_log_fn fn, void *user) {
    (void)pthread_mutex_lock(&lock);
    callback = fn;
    callback_user = user;
    atomic_store(&have_callback, fn != NULL);
    (void)pthread_mutex_unlock(&lock);
}

void rp_log_set_level(rp_log_level level) {
    atomic_store(&max_level, (int)level);
}

static void deliver(rp_log_level level, char *text) {
    (void)pthread_mutex_lock(&lock);
    for (char *line = text, *end; line && callback; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        if (end && !*end) end = NULL; /* a newline at the very end starts no line */
        callback(callback_user, level, line);
    }
    (void)pthread_mutex_unlock(&lock);
}

static void format_and_deliver(rp_log_level level, const char *channel, const char *fmt,
                               va_list ap) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_vprintf(&b, fmt, ap);
    if (channel && !b.failed) {
        base_buf tagged;
        base_buf_init(&tagged, 0);
        for (const char *p = b.data; *p;) {
            size_t n = strcspn(p, "\n");
            base_buf_printf(&tagged, "[%s] %.*s\n", channel, (int)n, p);
            p += n + (p[n] != 0);
        }
        base_buf_done(&b);
        b = tagged;
    }
    if (b.failed) {
        char lost[] = "a log line was lost: out of memory";
        deliver(level, lost);
    } else if (b.data) {
        deliver(level, b.data);
    }
    base_buf_done(&b);
}

void base_log(rp_log_level level, const char *fmt, ...) {
    if (!atomic_load_explicit(&have_callback, memory_order_relaxed)) return;
    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed)) return;
    va_list ap;
    va_start(ap, fmt);
    format_and_deliver(level, NULL, fmt, ap);
    va_end(ap);
}

/* One word of a spec: name, +name or all; *mask gains its bits. */
static rp_status parse_word(base_str word, uint64_t *mask, rp_error *err) {
    char name[64];
    uint64_t debug = 0;
    if (base_str_prefix(word, "+")) {
        debug = UINT64_C(1) << 32;
        word = (base_str){word.ptr + 1, word.len - 1};
    }
    if (base_str_eq(word, "all")) {
        uint64_t every = (UINT64_C(1) << RP_LOG_CH_COUNT_) - 1;
        *mask |= every | every * debug;
        return RP_OK;
    }
    for (unsigned i = 0; i < RP_LOG_CH_COUNT_; i++) {
        if (!base_str_eq(word, names[i])) continue;
        *mask |= ((UINT64_C(1) | debug) << i);
        return RP_OK;
    }
    size_t n = word.len < sizeof name - 1 ? word.len : sizeof name - 1;
    memcpy(name, word.ptr, n);
    name[n] = 0;
    const char *near = base_str_nearest(name, names, RP_LOG_CH_COUNT_);
    return rp_fail(err, RP_CONFIG, "unknown log name '%s'; %s%s", name,
                   near ? "did you mean " : "names are dynamo, graph, guards, recompiles, fusion, ",
                   near ? near : "cudagraphs, cache and others (see reprise help env)");
}

static rp_status set_channels(const char *spec, rp_error *err) {
    uint64_t mask = 0;
    for (const char *p = spec ? spec : ""; *p;) {
        size_t n = strcspn(p, ", ");
        if (n) RP_TRY(parse_word((base_str){p, n}, &mask, err));
        p += n + (p[n] != 0);
    }
    atomic_store(&channels, mask);
    return RP_OK;
}

static void read_env(void) {
    rp_error err = {0};
    if (set_channels(base_env_get(BASE_ENV_LOGS), &err) != RP_OK)
        base_log(RP_LOG_WARNING, "REPRISE_LOGS is ignored: %s", err.text);
}

static void nothing(void) {
}

rp_status rp_log_set_channels(const char *spec, rp_error *err) {
    (void)pthread_once(&env_once, nothing); /* from now on the environment has no say */
    return set_channels(spec, err);
}

bool base_log_on(rp_log_channel ch, bool debug) {
    if (!atomic_load_explicit(&have_callback, memory_order_relaxed)) return false;
    (void)pthread_once(&env_once, read_env);
    unsigned bit = (unsigned)ch + (debug ? 32 : 0);
    return atomic_load_explicit(&channels, memory_order_relaxed) >> bit & 1;
}

void base_log_ch(rp_log_channel ch, bool debug, const char *fmt, ...) {
    if (!base_log_on(ch, debug)) return;
    va_list ap;
    va_start(ap, fmt);
    format_and_deliver(debug ? RP_LOG_DEBUG : RP_LOG_INFO, names[ch], fmt, ap);
    va_end(ap);
}
