/* Levels, named channels (TORCH_LOGS' names) and the callback they go to.
 * Without a callback REPRISE_LOGS sends them to standard error; else the library is silent. Thread-safe. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "reprise/log.h"

/* RP_CONFIG for a word that rp_log_set_channels would refuse. */
rp_status base_log_check(const char *spec, rp_error *err) RP_MUST_USE;
/* One formatted line (no newline) at a level; dropped when below the level. */
void base_log(rp_log_level level, const char *fmt, ...) RP_PRINTF(2, 3);
/* What the user's code asked to see: to the callback whatever the level is, and to standard error where the program has set none; dropped
 * where it has set NULL. */
void base_log_say(const char *fmt, ...) RP_PRINTF(1, 2);
/* Lines go to standard error, for REPRISE_LOGS says so and no callback was set. */
bool base_log_by_environment(void);
/* One line on a channel; dropped unless the channel is on. `debug` lines need "+name". */
bool base_log_on(rp_log_channel ch, bool debug);
void base_log_ch(rp_log_channel ch, bool debug, const char *fmt, ...) RP_PRINTF(3, 4);

#endif
