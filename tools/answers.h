/* What `run` wrote, told as each answer ends: text with a head line when there are several, or an event. */
#ifndef TOOLS_ANSWERS_H
#define TOOLS_ANSWERS_H

#include "tools/output.h"

enum { TOOL_ANSWER_FIELDS = 6 };

/* Answer i is sample i % n_samples of prompt i / n_samples. */
typedef struct tool_answers {
    const tool_args *a;
    rp_engine *e;
    uint32_t n, n_samples, n_told;
    bool streamed;          /* the only text is on standard output already */
    bool ends_with_newline; /* what was streamed */
    size_t n_prompt_ids, n_output_ids;
    json_t *lists[TOOL_ANSWER_FIELDS]; /* of all answers, for the summary */
    char *ended;                       /* why the only answer ended */
} tool_answers;

/* False without memory; done after that, too. */
bool tool_answers_init(tool_answers *t, const tool_args *a, rp_engine *e, uint32_t n_prompts,
                       uint32_t n_samples);
void tool_answers_done(tool_answers *t);
/* Tells answer i; gives the exit code. */
int tool_answers_tell(tool_answers *t, uint32_t i, const rp_result *res);
/* Adds the lists to the summary; fields of the only answer are no lists there. */
void tool_answers_summarise(const tool_answers *t, json_t *summary);

#endif
