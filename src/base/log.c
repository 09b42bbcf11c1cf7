/* Levels, channels and where the lines go. Text of several lines is delivered line
 * by line; channel lines start with "[name] ". REPRISE_LOGS is read once, at the first
 * line: it chooses the channels unless rp_log_set_channels came earlier, and where no
 * callback was set it makes standard error the default sink, the only place where the
 * library writes to it. Without either nothing is formatted but what the user's code asked
 * to see (base_log_say), which goes there, too. The callback runs under a lock and must not
 * log. */
#include "base/log.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/status.h"
#include "base/str.h"

/* Not in `all`: a line for each launch of each graph. */
#define LONG_CHANNELS (UINT64_C(1) << RP_LOG_CH_BYTECODE)

static_assert(RP_LOG_CH_COUNT_ <= 32, "channels fit in one mask each");

static const char *const names[RP_LOG_CH_COUNT_] = {
#define CHANNEL_NAME(id, name, help, line) [RP_LOG_CH_##id] = (name),
    RP_LOG_CHANNELS(CHANNEL_NAME)
#undef CHANNEL_NAME
};

/* Where lines go; the environment decides only what the program left open. */
enum { SINK_OPEN, SINK_NONE, SINK_UNSET, SINK_CALLBACK, SINK_STDERR };
enum { LEVEL_OPEN = -1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards callback and callback_user */
static rp_log_fn callback;
static void *callback_user;
static _Atomic int sink = SINK_OPEN; /* lets a silent program skip formatting */
static _Atomic int max_level = LEVEL_OPEN;
static _Atomic uint64_t channels; /* low half: on, high half: debug */
static atomic_bool have_channels; /* by rp_log_set_channels */
static pthread_once_t env_once = PTHREAD_ONCE_INIT, level_once = PTHREAD_ONCE_INIT;
static _Atomic int env_level = LEVEL_OPEN, default_level = LEVEL_OPEN;

static void write_line(void *user, rp_log_level level, const char *text) {
    const char *word = level == RP_LOG_ERROR     ? "reprise: error: "
                       : level == RP_LOG_WARNING ? "reprise: warning: "
                                                 : "";
    (void)user;
    (void)fprintf(stderr, "%s%s\n", word, text);
}

/* only_open: what a program has set stays. */
static void set_sink(int kind, rp_log_fn fn, void *user, bool only_open) {
    (void)pthread_mutex_lock(&lock);
    if (!only_open || atomic_load(&sink) == SINK_OPEN) {
        callback = fn;
        callback_user = user;
        atomic_store(&sink, kind);
    }
    (void)pthread_mutex_unlock(&lock);
}

void rp_log_set_callback(rp_log_fn fn, void *user) {
    set_sink(fn ? SINK_CALLBACK : SINK_NONE, fn, user, false);
}

void rp_log_set_level(rp_log_level level) {
    atomic_store(&max_level, (int)level);
}

void rp_log_set_default_level(rp_log_level level) {
    atomic_store(&default_level, (int)level);
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

static void read_env(void);

/* Somebody gets the lines. */
static bool is_heard(void) {
    int where = atomic_load_explicit(&sink, memory_order_relaxed);
    if (where == SINK_OPEN) {
        (void)pthread_once(&env_once, read_env);
        where = atomic_load_explicit(&sink, memory_order_relaxed);
    }
    return where >= SINK_CALLBACK;
}

/* What the environment says, if it says a level. */
static void read_level(void) {
    static const char *const words[] = {"error", "warning", "info", "debug"};
    const char *v = base_env_get(BASE_ENV_LOGGING_LEVEL);
    for (int i = 0; v && i < 4; i++)
        if (base_same_word(v, words[i])) atomic_store(&env_level, i);
}

/* A user who asked for channels alone is not told everything else. */
static int top_level(void) {
    int level = atomic_load_explicit(&max_level, memory_order_relaxed);
    if (level != LEVEL_OPEN) return level;
    (void)pthread_once(&level_once, read_level);
    if ((level = atomic_load(&env_level)) != LEVEL_OPEN) return level;
    if ((level = atomic_load(&default_level)) != LEVEL_OPEN) return level;
    return atomic_load_explicit(&sink, memory_order_relaxed) == SINK_STDERR ? RP_LOG_WARNING
                                                                            : RP_LOG_INFO;
}

void base_log(rp_log_level level, const char *fmt, ...) {
    if (!is_heard() || (int)level > top_level()) return;
    va_list ap;
    va_start(ap, fmt);
    format_and_deliver(level, NULL, fmt, ap);
    va_end(ap);
}

bool base_log_by_environment(void) {
    return is_heard() && atomic_load_explicit(&sink, memory_order_relaxed) == SINK_STDERR;
}

void base_log_say(const char *fmt, ...) {
    (void)is_heard(); /* it settles where lines go */
    if (atomic_load_explicit(&sink, memory_order_relaxed) == SINK_NONE) return;
    va_list ap;
    va_start(ap, fmt);
    format_and_deliver(RP_LOG_INFO, NULL, fmt, ap);
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
        uint64_t every = ((UINT64_C(1) << RP_LOG_CH_COUNT_) - 1) & ~LONG_CHANNELS;
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
    if (*name == '-')
        return rp_fail(err, RP_CONFIG,
                       "unknown log name '%s': none is taken away; name those that are wanted",
                       name);
    const char *near = base_str_nearest(name, names, RP_LOG_CH_COUNT_);
    return rp_fail(err, RP_CONFIG, "unknown log name '%s'; %s%s", name,
                   near ? "did you mean " : "names are dynamo, graph, guards, recompiles, fusion, ",
                   near ? near : "cudagraphs, cache and others (see reprise help logs)");
}

static rp_status parse_channels(const char *spec, uint64_t *mask, rp_error *err) {
    *mask = 0;
    for (const char *p = spec ? spec : ""; *p;) {
        size_t n = strcspn(p, ", ");
        if (n) RP_TRY(parse_word((base_str){p, n}, mask, err));
        p += n + (p[n] != 0);
    }
    return RP_OK;
}

rp_status base_log_check(const char *spec, rp_error *err) {
    uint64_t mask;
    return parse_channels(spec, &mask, err);
}

static rp_status set_channels(const char *spec, rp_error *err) {
    uint64_t mask;
    RP_TRY(parse_channels(spec, &mask, err));
    atomic_store(&channels, mask);
    return RP_OK;
}

/* Settles the sink before anything is logged, so that a line from here does not come back. */
static void read_env(void) {
    rp_error err = {0};
    const char *spec = base_env_get(BASE_ENV_LOGS);
    set_sink(spec ? SINK_STDERR : SINK_UNSET, write_line, NULL, true);
    if (!atomic_load(&have_channels) && set_channels(spec, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "REPRISE_LOGS is ignored: %s", err.text);
}

rp_status rp_log_set_channels(const char *spec, rp_error *err) {
    base_error_clear(err);
    atomic_store(&have_channels, true); /* from now on the environment has no say in them */
    return set_channels(spec, err);
}

bool base_log_on(rp_log_channel ch, bool debug) {
    if (!is_heard()) return false;
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
