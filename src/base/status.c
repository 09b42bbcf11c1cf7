/* Names of the status codes and the filling of rp_error.
 * The first failure wins, the text stays one line, nothing allocates. */
#include "base/status.h"

#include <stdarg.h>
#include <string.h>

#include "base/number.h"

static const char *const names[RP_STATUS_COUNT_] = {
#define RP_STATUS_NAME(name, wire, meaning) [RP_##name] = (wire),
    RP_STATUS_LIST(RP_STATUS_NAME)
#undef RP_STATUS_NAME
};

const char *rp_status_name(rp_status code) {
    return (unsigned)code < RP_STATUS_COUNT_ ? names[code] : "unknown";
}

int rp_status_exit_code(rp_status code) {
    switch (code) {
    case RP_OK: return 0;
    case RP_CONFIG: return 2;
    case RP_UNSUPPORTED: return 3;
    default: return 1;
    }
}

/* Ends a text that did not fit in "...", never inside a UTF-8 sequence. */
static void mark_cut(char *text, size_t size) {
    size_t end = size - 4;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
    memcpy(text + end, "...", 4);
}

rp_status base_fail(rp_error *err, rp_status code, const char *file, int line, const char *fmt,
                    ...) {
    if (!err || err->code != RP_OK) return code;
    err->code = code;
    err->line = line;
    err->file = file;
    va_list ap;
    va_start(ap, fmt);
    int n = base_vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n < 0) err->text[0] = 0;
    if (n >= (int)sizeof err->text) mark_cut(err->text, sizeof err->text);
    for (char *p = err->text; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' ';
    return code;
}
