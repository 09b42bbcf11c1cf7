/* What commands read: token ids, prompts, models. */
#ifndef TOOLS_INPUT_H
#define TOOLS_INPUT_H

#include "tools/output.h"

enum { TOOL_MAX_INPUT = 64 << 20 }; /* bytes of a file */

typedef struct tool_ids {
    int32_t *v; /* free */
    uint32_t n;
} tool_ids;

/* "1,2,3", "[1, 2, 3]" or "@FILE" of either; name is for messages. Prints what is wrong; gives the exit code. */
int tool_parse_ids(const char *name, const char *text, tool_ids *out);

/* Refuses bytes that are no UTF-8 text, in words that are the same wherever text comes from: source ("--prompt",
 * "FILE:LINE") and offset from its start. Gives the exit code, 0 for text. */
int tool_check_text(const char *source, const char *text, size_t len);
int tool_check_flag_text(const tool_args *a, tool_flag f); /* 0 also when the flag is not given */

/* Refuses a chat template that the prompt is not put into. */
int tool_check_template(const tool_args *a);

/* A text, or a conversation. */
typedef struct tool_prompt {
    const char *text;     /* NULL: messages */
    rp_message *messages; /* free */
    uint32_t n_messages;
    uint32_t line; /* in its file, from 1 */
} tool_prompt;

typedef struct tool_prompts {
    const char *path; /* as messages call it */
    char *text;       /* what the prompts point into */
    json_t *json;     /* or the messages */
    tool_prompt *v;
    uint32_t n;
} tool_prompts;

const char *tool_file_name(const char *path); /* for messages: - is standard input */
/* Lines of a UTF-8 file without the empty ones. Prints what is wrong and where; gives the exit code. */
int tool_read_prompts(const char *path, tool_prompts *out);
/* Lists of {"role", "content"} as JSON, one behind the other (messages.c). */
int tool_read_messages(const char *path, tool_prompts *out);
void tool_prompts_done(tool_prompts *p);

/* A token's text, null where it has none; and as a quoted string, cut to size. */
json_t *tool_token_json(rp_engine *e, int32_t id);
const char *tool_token_text(rp_engine *e, int32_t id, char *out, size_t size);

/* Opens the engine of a->pos[0] with the configuration of the command line; NULL after printing why not, with the
 * exit code in *rc. */
rp_engine *tool_open(tool_args *a, bool no_capture, int *rc);

/* The engine's summary as an object; NULL after printing. */
json_t *tool_facts(const rp_engine *e);
/* The same at the end of a command. Says where the stages of compiling were written to. */
json_t *tool_summary(const tool_args *a, const rp_engine *e);
/* Measures decode steps (rp_engine_profile). Prints what is wrong; gives the exit code. */
int tool_measure(rp_engine *e, const rp_profile_options *o, json_t **out);
void tool_print_times(const json_t *times); /* NULL: nothing */
/* The summary for people, on standard error. */
void tool_print_summary(const tool_args *a, const json_t *summary, size_t n_prompt,
                        size_t n_output);

#endif
