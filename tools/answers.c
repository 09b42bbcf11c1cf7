/* Answers on standard output, what belongs to them (why they ended, log probabilities) on standard error or in events. */
#include "tools/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/input.h"

static const char *const names[TOOL_ANSWER_FIELDS] = {"prompt_ids",    "output_ids",    "text",
                                                      "finish_reason", "finish_detail", "logprobs"};

bool tool_answers_init(tool_answers *t, const tool_args *a, rp_engine *e, uint32_t n_prompts,
                       uint32_t n_samples) {
    bool ok = true;
    *t = (tool_answers){.a = a, .e = e, .n = n_prompts * n_samples, .n_samples = n_samples};
    for (int k = 0; k < TOOL_ANSWER_FIELDS; k++) {
        t->lists[k] = json_array();
        for (uint32_t i = 0; a->json && i < t->n; i++)
            ok = ok && json_array_append_new(t->lists[k], json_null()) == 0;
        ok = ok && t->lists[k];
    }
    return ok;
}

void tool_answers_done(tool_answers *t) {
    for (int k = 0; k < TOOL_ANSWER_FIELDS; k++) json_decref(t->lists[k]);
    free(t->ended);
    *t = (tool_answers){0};
}

/* --- log probabilities --------------------------------------------------------------- */

static json_t *logprobs_json(const rp_result *res) {
    json_t *all = res->logprobs ? json_array() : json_null();
    for (uint32_t i = 0; res->logprobs && i < res->n_output_ids; i++) {
        json_t *top = json_array();
        for (uint32_t k = 0; k < res->n_top; k++) {
            size_t at = (size_t)i * res->n_top + k;
            (void)json_array_append_new(
                top, json_pack("[i,o]", res->top_ids[at], tool_json_real(res->top_logprobs[at])));
        }
        (void)json_array_append_new(all,
                                    json_pack("{s:i,s:o,s:o}", "id", res->output_ids[i], "logprob",
                                              tool_json_real(res->logprobs[i]), "top", top));
    }
    return all;
}

static void note_logprobs(const tool_answers *t, const rp_result *res) {
    char line[900], text[64];
    for (uint32_t i = 0; i < res->n_output_ids; i++) {
        size_t at = (size_t)snprintf(line, sizeof line, "%11.6f %s", res->logprobs[i],
                                     tool_token_text(t->e, res->output_ids[i], text, sizeof text));
        for (uint32_t k = 0; k < res->n_top && at < sizeof line - 96; k++) {
            size_t from = (size_t)i * res->n_top + k;
            at += (size_t)snprintf(line + at, sizeof line - at, "%s %s %.6f", k ? "," : "  of",
                                   tool_token_text(t->e, res->top_ids[from], text, sizeof text),
                                   res->top_logprobs[from]);
        }
        tool_tell("%s", line);
    }
}

/* --- one answer ------------------------------------------------------------------------- */

static void name_of(const tool_answers *t, uint32_t i, char *out, size_t size) {
    uint32_t prompt = i / t->n_samples + 1, sample = i % t->n_samples;
    if (t->n_samples > 1)
        (void)snprintf(out, size, "prompt %u, sample %u", prompt, sample);
    else
        (void)snprintf(out, size, "prompt %u", prompt);
}

static int tell_text(tool_answers *t, uint32_t i, const rp_result *res) {
    char name[64];
    /* The detail of an error is its line, which is told apart. */
    const char *ended = *res->error                                ? res->finish_reason
                        : strcmp(res->finish_reason, "abort") == 0 ? "interrupted"
                                                                   : res->finish_detail;
    size_t len = strlen(res->text);
    bool newline = t->streamed ? t->ends_with_newline : len > 0 && res->text[len - 1] == '\n';
    name_of(t, i, name, sizeof name);
    tool_progress_clear();
    if (t->n > 1) (void)printf("%s==> %s <==\n", t->n_told ? "\n" : "", name);
    if (!t->streamed) (void)fwrite(res->text, 1, len, stdout);
    /* A single answer that failed before its first character, or that a failed step left unfinished, is no line. */
    bool nothing = (*res->error || !*res->finish_reason) && len == 0 && t->n == 1;
    if (!newline && !nothing) (void)putchar('\n');
    if (fflush(stdout) != 0) return TOOL_EXIT_FAILED;
    if (t->n > 1)
        tool_note(t->a, "%s: %u + %u tokens; ended: %s", name, res->n_prompt_ids, res->n_output_ids,
                  ended);
    else
        t->ended = strdup(ended);
    if (res->logprobs) note_logprobs(t, res);
    return 0;
}

static int tell_event(tool_answers *t, uint32_t i, const rp_result *res) {
    json_t *o = json_pack("{s:I,s:I}", "index", (json_int_t)(i / t->n_samples), "sample",
                          (json_int_t)(i % t->n_samples));
    json_t *fields[TOOL_ANSWER_FIELDS] = {tool_json_ids(res->prompt_ids, res->n_prompt_ids),
                                          tool_json_ids(res->output_ids, res->n_output_ids),
                                          tool_json_text(res->text),
                                          json_string(res->finish_reason),
                                          json_string(res->finish_detail),
                                          logprobs_json(res)};
    for (int k = 0; k < TOOL_ANSWER_FIELDS; k++) {
        (void)json_object_set(o, names[k], fields[k]);
        (void)json_array_set_new(t->lists[k], i, fields[k]);
    }
    if (t->n > 1) return tool_event("output", o, 10) ? 0 : TOOL_EXIT_FAILED;
    json_decref(o);
    return 0;
}

int tool_answers_tell(tool_answers *t, uint32_t i, const rp_result *res) {
    t->n_prompt_ids += res->n_prompt_ids;
    t->n_output_ids += res->n_output_ids;
    int rc = t->a->json ? tell_event(t, i, res) : tell_text(t, i, res);
    t->n_told++;
    return rc;
}

void tool_answers_summarise(const tool_answers *t, json_t *summary) {
    for (int k = 0; k < TOOL_ANSWER_FIELDS; k++)
        (void)json_object_set(summary, names[k],
                              t->n == 1 ? json_array_get(t->lists[k], 0) : t->lists[k]);
}
