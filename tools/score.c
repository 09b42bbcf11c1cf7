/* reprise score: teacher forcing. Feeds a prompt and its continuation and reports each token of the latter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/input.h"

typedef struct score {
    tool_args *a;
    rp_engine *e;
    tool_ids prompt, rest;
    bool owned_by_engine[2];
    uint32_t n_tokens, n_top1;
    double sum;
    bool write_failed;
} score;

static void on_token(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits) {
    score *s = user;
    if (tool_interrupted()) tool_interrupt_now("stopped while scoring");
    s->n_tokens++;
    s->sum += logprob;
    if (k > 0) s->n_top1 += top_ids[0] == id;
    char text[64];
    if (!s->a->json) {
        (void)printf("%u\t%d\t%.9g\t%s", position, id, logprob,
                     tool_token_text(s->e, id, text, sizeof text));
        for (uint32_t i = 0; i < k; i++)
            (void)printf("\t%d:%.9g", top_ids[i], (double)top_logits[i]);
        (void)putchar('\n');
        return;
    }
    json_t *top = json_array();
    for (uint32_t i = 0; i < k; i++)
        (void)json_array_append_new(
            top, json_pack("[i,o]", top_ids[i], tool_json_real((double)top_logits[i])));
    json_t *o = json_pack("{s:I,s:i,s:o,s:o,s:o}", "position", (json_int_t)position, "id", id,
                          "text", tool_token_json(s->e, id), "logprob", tool_json_real(logprob),
                          "top", top);
    s->write_failed |= !tool_event("score", o, 9);
}

/* --- tokens --------------------------------------------------------------------------- */

static int prompt_of_text(score *s, const char *text) {
    rp_error err = {0};
    rp_message m = {"user", text};
    rp_status st =
        tool_on(s->a, TOOL_FLAG_RAW)
            ? rp_engine_tokenize(s->e, text, strlen(text), &s->prompt.v, &s->prompt.n, &err)
            : rp_engine_chat_ids(s->e, &m, 1, &s->prompt.v, &s->prompt.n, &err);
    s->owned_by_engine[0] = true;
    return st == RP_OK ? 0 : tool_fail(st, &err);
}

static int rest_of_text(score *s, const char *text) {
    rp_error err = {0};
    rp_status st = rp_engine_tokenize(s->e, text, strlen(text), &s->rest.v, &s->rest.n, &err);
    s->owned_by_engine[1] = true;
    return st == RP_OK ? 0 : tool_fail(st, &err);
}

static int one_of(const char *what, const char *text, const char *ids) {
    if (!text && !ids) return tool_usage("score needs --%s or --%s-ids", what, what);
    return text && ids ? tool_usage("give --%s or --%s-ids, not both", what, what) : 0;
}

static int read_flags(score *s) {
    const tool_args *a = s->a;
    const char *p = tool_get(a, TOOL_FLAG_PROMPT_IDS), *c = tool_get(a, TOOL_FLAG_CONTINUATION_IDS);
    int rc = one_of("prompt", tool_get(a, TOOL_FLAG_PROMPT), p);
    if (rc == 0) rc = one_of("continuation", tool_get(a, TOOL_FLAG_CONTINUATION), c);
    if (rc == 0) rc = tool_check_template(a);
    if (rc == 0) rc = tool_check_flag_text(a, TOOL_FLAG_PROMPT);
    if (rc == 0) rc = tool_check_flag_text(a, TOOL_FLAG_CONTINUATION);
    if (rc == 0 && p) rc = tool_parse_ids("prompt-ids", p, &s->prompt);
    if (rc == 0 && c) rc = tool_parse_ids("continuation-ids", c, &s->rest);
    return rc;
}

/* --- the whole -------------------------------------------------------------------------- */

static int summarise(score *s, double perplexity) {
    json_t *o = tool_summary(s->a, s->e);
    if (!o) return TOOL_EXIT_FAILED;
    if (!s->a->json) {
        tool_note(s->a, "%u tokens, mean log probability %.6f, perplexity %.6f", s->n_tokens,
                  s->n_tokens ? s->sum / s->n_tokens : 0.0, perplexity);
        json_decref(o);
        return 0;
    }
    (void)json_object_set_new(o, "prompt_ids", tool_json_ids(s->prompt.v, s->prompt.n));
    (void)json_object_set_new(o, "continuation_ids", tool_json_ids(s->rest.v, s->rest.n));
    (void)json_object_set_new(o, "tokens", json_integer(s->n_tokens));
    (void)json_object_set_new(o, "perplexity", tool_json_real(perplexity));
    (void)json_object_set_new(
        o, "top1", tool_get(s->a, TOOL_FLAG_TOP_LOGITS) ? json_integer(s->n_top1) : json_null());
    return tool_event("summary", o, 9) ? 0 : TOOL_EXIT_FAILED;
}

static int score_all(score *s) {
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    long long step = 0, k = 0;
    double perplexity = 0.0;
    rp_error err = {0};
    int rc = read_flags(s);
    if (rc) return rc;
    if (!tool_int(s->a, TOOL_FLAG_STEP, 0, &step) || !tool_int(s->a, TOOL_FLAG_TOP_LOGITS, 0, &k))
        return TOOL_EXIT_USAGE;
    s->e = tool_open(s->a, false, &rc);
    if (!s->e) return rc;
    if (!s->prompt.v) rc = prompt_of_text(s, tool_get(s->a, TOOL_FLAG_PROMPT));
    if (rc == 0 && !s->rest.v) rc = rest_of_text(s, tool_get(s->a, TOOL_FLAG_CONTINUATION));
    if (rc) return rc;
    o.prompt_ids = s->prompt.v;
    o.n_prompt_ids = s->prompt.n;
    o.continuation_ids = s->rest.v;
    o.n_continuation_ids = s->rest.n;
    o.step = (uint32_t)step;
    o.top_logits = (uint32_t)k;
    o.on_token = on_token;
    o.user = s;
    rp_status st = rp_engine_score(s->e, &o, &perplexity, &err);
    return st == RP_OK ? summarise(s, perplexity) : tool_fail(st, &err);
}

static void free_ids(tool_ids *i, bool engine) {
    if (engine)
        rp_engine_text_free(i->v);
    else
        free(i->v);
}

int tool_score(tool_args *a) {
    score s = {.a = a};
    tool_interrupt_init();
    int rc = score_all(&s);
    free_ids(&s.prompt, s.owned_by_engine[0]);
    free_ids(&s.rest, s.owned_by_engine[1]);
    rp_engine_close(s.e);
    return rc;
}
