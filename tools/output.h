/* What the command writes: results to standard output, everything else to standard error. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <jansson.h>

#include "tools/args.h"

enum {
    TOOL_EXIT_OK = 0,
    TOOL_EXIT_FAILED = 1,
    TOOL_EXIT_USAGE = 2,
    TOOL_EXIT_UNSUPPORTED = 3,
    TOOL_EXIT_DIFFERS = 4 /* bisect: compiled code is wrong */
};

/* One line "reprise: text" on standard error, and with --json the same as an event on standard output; give the exit
 * code that belongs to it. */
void tool_error_events(bool on);
int tool_usage(const char *fmt, ...) RP_PRINTF(1, 2);
int tool_error(const char *fmt, ...) RP_PRINTF(1, 2);
int tool_absent(const char *fmt, ...) RP_PRINTF(1, 2);
int tool_fail_as(int code, const char *fmt, ...) RP_PRINTF(2, 3);
int tool_fail(rp_status st, const rp_error *err);
/* The same with the file in front; line 0: the file as a whole. */
int tool_fail_at(const char *path, uint32_t line, rp_status st, const rp_error *err);

/* A line on standard error that was asked for. */
void tool_tell(const char *fmt, ...) RP_PRINTF(1, 2);
/* A line of the summary on standard error, unless --quiet. */
void tool_note(const tool_args *a, const char *fmt, ...) RP_PRINTF(2, 3);

/* Writes {"event": name, ...} as one line and releases o. Numbers with `digits` digits. False: nobody reads. */
bool tool_event(const char *name, json_t *o, int digits);
/* Text as JSON whatever its bytes are: what is no UTF-8 becomes U+FFFD. NULL is null. */
json_t *tool_json_text(const char *z);
/* Where the text stops being UTF-8; len when it does not. */
size_t tool_utf8_bad(const char *z, size_t len);
/* null for what JSON cannot hold. */
json_t *tool_json_real(double v);
json_t *tool_json_ids(const int32_t *ids, uint32_t n);

/* Flushes standard output; an error when it could not be written. Gives rc otherwise. */
int tool_finish(int rc);

/* Log lines go to standard error. */
void tool_log_init(void);

/* Progress bars on standard error when it is a terminal; else a line when fetching starts and one when it has ended. A
 * rp_progress_fn; false after Ctrl-C. */
void tool_progress_init(const tool_args *a);
bool tool_progress(void *user, rp_stage stage, uint64_t done, uint64_t total);
/* The line that fetching has ended, if nothing came after it that would have brought it. */
void tool_progress_fetched(void);
/* Tokens of the only prompt that are computed, of all. */
void tool_progress_prompt(uint64_t done, uint64_t total);
/* Answers that are told, of all. */
void tool_progress_answers(uint64_t done, uint64_t total);
/* Removes the bar that stands on the terminal. */
void tool_progress_clear(void);

/* The first Ctrl-C or SIGTERM sets a flag, the second one ends the process. */
void tool_interrupt_init(void);
bool tool_interrupted(void);
/* Says what was stopped, as an error, and ends the process as the signal would have; what is written is flushed. */
void tool_interrupt_now(const char *what);
/* 130 after Ctrl-C, 143 after SIGTERM. */
int tool_interrupt_exit(void);

/* Whole file ("-": standard input), NUL-terminated, to be freed; NULL after printing why not. */
char *tool_read(const char *path, size_t max, size_t *out_size);

#endif
