/* What is said on log channels, as one text. */
#ifndef SUPPORT_HEARD_H
#define SUPPORT_HEARD_H

#include "support/check.h"

#include "base/log.h"
#include "base/str.h"

static void heard_line(void *user, rp_log_level level, const char *text) {
    (void)level;
    assert_null(strchr(text, '\n')); /* include/reprise/log.h: one line a call */
    base_buf_printf(user, "%s\n", text);
}

/* b receives every line of the channels from now on. */
static inline void heard_start(base_buf *b, const char *channels) {
    rp_error err = {0};
    base_buf_init(b, 0);
    rp_log_set_callback(heard_line, b);
    CHECK_OK(rp_log_set_channels(channels, &err), &err);
}

static inline void heard_done(base_buf *b) {
    rp_error err = {0};
    CHECK_OK(rp_log_set_channels("", &err), &err);
    rp_log_set_callback(NULL, NULL);
    base_buf_done(b);
}

/* A failure leaves the test: nobody may write to b any more. */
#define CHECK_HEARD(b, text)                                                       \
    do {                                                                           \
        if (!(b)->data || !strstr((b)->data, text)) {                              \
            rp_log_set_callback(NULL, NULL);                                       \
            fail_msg("no '%s' in\n%s", text, (b)->data ? (b)->data : "(nothing)"); \
        }                                                                          \
    } while (0)

#endif
