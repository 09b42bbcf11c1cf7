/* Errors, events, logs, files: the only place that writes to the standard streams' raw form.
 *
 * An error is one line whatever its text holds: control characters become spaces. */
#include "tools/output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool error_events;

void tool_error_events(bool on) {
    error_events = on;
}

static void put_line(const char *prefix, const char *fmt, va_list ap, char *text, size_t size) {
    (void)vsnprintf(text, size, fmt, ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127) *p = ' ';
    tool_progress_clear();
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s%s\n", prefix, text);
}

static int put_error(int code, const char *fmt, va_list ap) {
    char text[1024];
    put_line("reprise: ", fmt, ap, text, sizeof text);
    if (error_events && !ferror(stdout))
        (void)tool_event("error",
                         json_pack("{s:i,s:o}", "code", code, "message", tool_json_text(text)), 10);
    return code;
}

#define PUT_ERROR(code)             \
    va_list ap;                     \
    va_start(ap, fmt);              \
    (void)put_error(code, fmt, ap); \
    va_end(ap);                     \
    return code

int tool_usage(const char *fmt, ...) {
    PUT_ERROR(TOOL_EXIT_USAGE);
}

int tool_error(const char *fmt, ...) {
    PUT_ERROR(TOOL_EXIT_FAILED);
}

int tool_absent(const char *fmt, ...) {
    PUT_ERROR(TOOL_EXIT_UNSUPPORTED);
}

void tool_tell(const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    put_line("", fmt, ap, text, sizeof text);
    va_end(ap);
}

void tool_note(const tool_args *a, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    if (a->quiet) return;
    va_start(ap, fmt);
    put_line("", fmt, ap, text, sizeof text);
    va_end(ap);
}

int tool_fail_as(int code, const char *fmt, ...) {
    PUT_ERROR(code);
}

static const char *text_of(rp_status st, const rp_error *err) {
    return err && err->text[0] ? err->text : rp_status_name(st);
}

int tool_fail(rp_status st, const rp_error *err) {
    return tool_fail_as(rp_status_exit_code(st), "%s", text_of(st, err));
}

int tool_fail_at(const char *path, uint32_t line, rp_status st, const rp_error *err) {
    int code = rp_status_exit_code(st);
    if (line == 0) return tool_fail_as(code, "%s: %s", path, text_of(st, err));
    return tool_fail_as(code, "%s:%u: %s", path, line, text_of(st, err));
}

/* --- events -------------------------------------------------------------------------- */

bool tool_event(const char *name, json_t *o, int digits) {
    json_t *e = json_pack("{s:s}", "event", name);
    if (!e || !o || json_object_update(e, o) != 0) {
        json_decref(e);
        json_decref(o);
        error_events = false; /* no memory for another one either */
        return tool_error("out of memory"), false;
    }
    int rc = json_dumpf(e, stdout, JSON_COMPACT | JSON_REAL_PRECISION((size_t)digits));
    json_decref(e);
    json_decref(o);
    (void)putchar('\n');
    (void)fflush(stdout);
    return rc == 0 && !ferror(stdout);
}

/* Bytes of the UTF-8 character at s, 0 when there is none. */
static size_t utf8_len(const unsigned char *s, size_t n) {
    size_t len = s[0] < 0x80   ? 1
                 : s[0] < 0xc2 ? 0
                 : s[0] < 0xe0 ? 2
                 : s[0] < 0xf0 ? 3
                 : s[0] < 0xf5 ? 4
                               : 0;
    if (len == 0 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

size_t tool_utf8_bad(const char *z, size_t len) {
    size_t i = 0, k;
    while (i < len && (k = utf8_len((const unsigned char *)z + i, len - i)) > 0) i += k;
    return i;
}

json_t *tool_json_text(const char *z) {
    json_t *j = z ? json_string(z) : json_null();
    if (j) return j;
    size_t len = strlen(z), n = 0;
    char *fixed = malloc(3 * len + 1);
    if (!fixed) return NULL;
    for (size_t i = 0; i < len;) {
        size_t k = utf8_len((const unsigned char *)z + i, len - i);
        memcpy(fixed + n, k ? z + i : "\xef\xbf\xbd", k ? k : 3);
        n += k ? k : 3;
        i += k ? k : 1;
    }
    j = json_stringn(fixed, n);
    free(fixed);
    return j;
}

json_t *tool_json_real(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *tool_json_ids(const int32_t *ids, uint32_t n) {
    json_t *a = json_array();
    for (uint32_t i = 0; i < n; i++) (void)json_array_append_new(a, json_integer(ids[i]));
    return a;
}

int tool_finish(int rc) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return rc;
    int why = errno;
    (void)tool_error("cannot write to standard output%s%s", why ? ": " : "",
                     why ? strerror(why) : "");
    return rc ? rc : TOOL_EXIT_FAILED;
}

/* --- logs and files -------------------------------------------------------------------- */

static void log_line(void *user, rp_log_level level, const char *text) {
    (void)user;
    tool_progress_clear();
    (void)fprintf(stderr, "%s%s\n",
                  level == RP_LOG_ERROR     ? "reprise: error: "
                  : level == RP_LOG_WARNING ? "reprise: warning: "
                                            : "",
                  text);
}

void tool_log_init(void) {
    rp_log_set_callback(log_line, NULL);
}

static char *read_stream(FILE *f, size_t max, size_t *out_size) {
    size_t n = 0, cap = 4096;
    char *p = malloc(cap);
    while (p && n <= max) {
        size_t got = fread(p + n, 1, cap - n - 1, f);
        n += got;
        if (got == 0) break;
        if (n + 1 < cap) continue;
        char *more = realloc(p, cap *= 2);
        if (!more) free(p);
        p = more;
    }
    if (p) p[n] = 0;
    *out_size = n;
    return p;
}

char *tool_read(const char *path, size_t max, size_t *out_size) {
    bool in = strcmp(path, "-") == 0;
    FILE *f = in ? stdin : fopen(path, "rb");
    if (in) path = "standard input";
    if (!f) return tool_error("cannot read %s: %s", path, strerror(errno)), NULL;
    errno = 0;
    char *p = read_stream(f, max, out_size);
    int failed = ferror(f) ? errno : 0;
    if (!in) (void)fclose(f);
    if (p && !failed && *out_size <= max) return p;
    if (!p)
        (void)tool_error("out of memory reading %s", path);
    else if (failed)
        (void)tool_error("cannot read %s: %s", path, strerror(failed));
    else
        (void)tool_error("%s is larger than %zu bytes", path, max);
    free(p);
    return NULL;
}
