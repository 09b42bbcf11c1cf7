/* Reporting failures: rp_fail and the two idioms of handling them. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stddef.h>

#include "base/attr.h"
#include "reprise/status.h"

/* Records the failure in err (first failure wins; err may be NULL) and returns code. */
rp_status base_fail(rp_error *err, rp_status code, const char *file, int line, const char *fmt, ...)
    RP_PRINTF(5, 6) RP_COLD;
/* The value is spelled out so that compilers and analyzers see that it is code, which
 * is therefore evaluated twice. */
#define rp_fail(err, code, ...) \
    (base_fail((err), (code), __FILE__, __LINE__, __VA_ARGS__), (rp_status)(code))

/* The head of each public function: what err (may be NULL) says is of that call. Within it the first failure wins, so
 * nothing else clears one that is a parameter. */
static inline void base_error_clear(rp_error *err) {
    if (!err) return;
    err->code = RP_OK;
    err->line = 0;
    err->file = NULL;
    err->text[0] = 0;
}

/* For functions that own nothing: return at the first failure. */
#define RP_TRY(call)                                \
    do {                                            \
        rp_status rp_try_st_ = (call);              \
        if (rp_try_st_ != RP_OK) return rp_try_st_; \
    } while (0)

/* For functions that own something: `rp_status st` declared, one `out:` label. */
#define RP_TRY_OUT(call)           \
    do {                           \
        st = (call);               \
        if (st != RP_OK) goto out; \
    } while (0)

#endif
