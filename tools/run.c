/* reprise run: text from a model. The text of a single answer goes to standard output as it is made; several answers are
 * told whole, as each ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/answers.h"
#include "tools/commands.h"
#include "tools/input.h"

typedef struct run {
    tool_args *a;
    rp_engine *e;
    rp_request_options req; /* what all answers share */
    tool_ids ids;
    tool_prompts file;
    const char *single, *system; /* the only prompt; NULL: no message */
    uint32_t n_prompts, n_samples;
    uint32_t n, n_submitted, n_first; /* answers; those before n_first are told */
    uint64_t *id;                     /* of each answer, 0 once it is told */
    const char **stops;
    bool write_failed;
    int failed;   /* exit code of prompts that ended with an error of their own */
    bool stopped; /* by a failure of a step, which is told once for all */
    tool_answers answers;
} run;

/* --- what to run --------------------------------------------------------------------- */

static int read_prompts(run *r) {
    tool_args *a = r->a;
    const char *file = tool_get(a, TOOL_FLAG_PROMPT_FILE), *ids = tool_get(a, TOOL_FLAG_PROMPT_IDS);
    const char *chats = tool_get(a, TOOL_FLAG_MESSAGES);
    const char *flag = tool_get(a, TOOL_FLAG_PROMPT), *pos = a->n_pos > 1 ? a->pos[1] : NULL;
    int given = (file != NULL) + (chats != NULL) + (ids != NULL) + (flag != NULL) + (pos != NULL);
    if (given == 0)
        return tool_usage("no prompt; write it behind the model, or use --prompt-file, --messages "
                          "or --prompt-ids");
    if (given > 1)
        return tool_usage("more than one prompt; give a prompt, --prompt-file, --messages or "
                          "--prompt-ids, not several");
    r->n_prompts = 1;
    r->single = flag ? flag : pos;
    if (ids) return tool_parse_ids("prompt-ids", ids, &r->ids);
    if (flag) return tool_check_flag_text(a, TOOL_FLAG_PROMPT);
    if (pos) return tool_check_text("the prompt", pos, strlen(pos));
    int rc = file ? tool_read_prompts(file, &r->file) : tool_read_messages(chats, &r->file);
    r->n_prompts = r->file.n;
    return rc;
}

static bool read_sampling(run *r) {
    tool_args *a = r->a;
    rp_sampling *s = &r->req.sampling;
    long long top_k = 0, seed = 0, max_tokens = 0, n = 0, top = 0;
    bool ok = tool_real(a, TOOL_FLAG_TEMPERATURE, 0.0, &s->temperature) &&
              tool_real(a, TOOL_FLAG_TOP_P, 1.0, &s->top_p) &&
              tool_real(a, TOOL_FLAG_MIN_P, 0.0, &s->min_p) &&
              tool_int(a, TOOL_FLAG_TOP_K, 0, &top_k) && tool_int(a, TOOL_FLAG_SEED, 0, &seed) &&
              tool_int(a, TOOL_FLAG_N, 1, &n) && tool_int(a, TOOL_FLAG_LOGPROBS, 0, &top) &&
              tool_int(a, TOOL_FLAG_MAX_TOKENS, 256, &max_tokens);
    s->top_k = (int32_t)top_k;
    s->seed = (uint64_t)seed;
    r->n_samples = (uint32_t)n;
    r->req.logprobs = tool_get(a, TOOL_FLAG_LOGPROBS) != NULL;
    r->req.top_logprobs = (uint32_t)top;
    r->req.max_tokens = (uint32_t)max_tokens;
    if (!ok || seed <= INT64_MAX - (n - 1)) return ok;
    (void)tool_usage("--seed=%lld: with --n=%lld the last sample's seed would be above 2^63 - 1",
                     seed, n);
    return false;
}

/* What goes into the chat template wants one. */
static int read_system(run *r) {
    const char *kind = tool_get(r->a, TOOL_FLAG_CHAT_TEMPLATE);
    const char *chats = tool_get(r->a, TOOL_FLAG_MESSAGES);
    const char *flag = chats ? "messages" : "system";
    r->system = tool_get(r->a, TOOL_FLAG_SYSTEM);
    if (r->system && chats)
        return tool_usage("--system with --messages: write it as the first message of each list");
    if ((r->system || chats) && (r->req.raw || r->ids.v))
        return tool_usage("--%s goes into the chat template, which --%s leaves out", flag,
                          r->ids.v ? "prompt-ids" : "raw");
    if ((r->system || chats) && kind && strcmp(kind, "none") == 0)
        return tool_usage("--%s goes into the chat template, which --chat-template none is "
                          "without",
                          flag);
    int rc = tool_check_template(r->a);
    return rc ? rc : tool_check_flag_text(r->a, TOOL_FLAG_SYSTEM);
}

static int read_options(run *r) {
    tool_args *a = r->a;
    r->req = (rp_request_options)RP_REQUEST_OPTIONS_INIT;
    if (!read_sampling(r)) return TOOL_EXIT_USAGE;
    r->req.raw = tool_on(a, TOOL_FLAG_RAW);
    r->req.ignore_eos = tool_on(a, TOOL_FLAG_IGNORE_EOS);
    r->stops = calloc(a->n_given + 1, sizeof *r->stops);
    if (!r->stops) return tool_error("out of memory");
    for (size_t i = 0; i < a->n_given; i++)
        if (a->given[i].flag == TOOL_FLAG_STOP) {
            const char *stop = a->given[i].value;
            if (!*stop) return tool_usage("--stop needs a text that is not empty");
            int rc = tool_check_text("--stop", stop, strlen(stop));
            if (rc) return rc;
            r->stops[r->req.n_stop++] = stop;
        }
    r->req.stop = r->stops;
    int rc = read_prompts(r);
    if (rc == 0) rc = read_system(r);
    if ((uint64_t)r->n_prompts * r->n_samples > UINT32_MAX)
        return tool_usage("--n=%u: too many answers for %u prompts", r->n_samples, r->n_prompts);
    r->n = r->n_prompts * r->n_samples;
    return rc;
}

/* Roles are lost where the model has no template. */
static int check_model_template(const run *r) {
    const char *flag = r->system ? "system" : "messages";
    if (!r->system && !tool_get(r->a, TOOL_FLAG_MESSAGES)) return 0;
    json_t *o = tool_facts(r->e);
    if (!o) return TOOL_EXIT_FAILED;
    bool none = strcmp(json_string_value(json_object_get(o, "chat_template")), "none") == 0;
    json_decref(o);
    return none ? tool_usage("--%s goes into the chat template, which %s is without; give "
                             "--chat-template chatml",
                             flag, r->a->pos[0])
                : 0;
}

/* --- running ----------------------------------------------------------------------------- */

static bool on_text(void *user, uint64_t id, const char *text, size_t len) {
    run *r = user;
    (void)id;
    tool_progress_clear();
    if (len) r->answers.ends_with_newline = text[len - 1] == '\n';
    r->write_failed |= fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0;
    return !r->write_failed;
}

/* An error about a prompt of a file says which. */
static int fail_prompt(const run *r, uint32_t prompt, rp_status st, const rp_error *err) {
    if (!r->file.v) return tool_fail(st, err);
    return tool_fail_at(r->file.path, r->file.v[prompt].line, st, err);
}

/* A sample is what its prompt alone gives with the seed of the sample: that of the command line and its number. */
static rp_status submit(run *r, uint32_t i, rp_error *err) {
    rp_request_options o = r->req;
    const tool_prompt *p = r->file.v ? &r->file.v[i / r->n_samples] : NULL;
    const char *text = p ? p->text : r->single;
    rp_message chat[2] = {{"system", r->system}, {"user", text}};
    o.sampling.seed += i % r->n_samples;
    o.prompt_ids = r->ids.v;
    o.n_prompt_ids = r->ids.n;
    if (p && p->messages) {
        o.messages = p->messages;
        o.n_messages = p->n_messages;
    } else if (r->system) {
        o.messages = chat;
        o.n_messages = 2;
    } else if (!r->ids.v) {
        o.prompt = text;
    }
    return rp_engine_submit(r->e, &o, &r->id[i], err);
}

static int submit_all(run *r) {
    r->id = calloc(r->n, sizeof *r->id);
    if (!r->id || !tool_answers_init(&r->answers, r->a, r->e, r->n_prompts, r->n_samples))
        return tool_error("out of memory");
    if (r->n == 1 && !r->a->json) {
        r->req.on_text = on_text;
        r->req.user = r;
        r->answers.streamed = true;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        rp_error err = {0};
        rp_status st = submit(r, i, &err);
        if (st != RP_OK) return fail_prompt(r, i / r->n_samples, st, &err);
        r->n_submitted++;
    }
    return 0;
}

/* Tells what has ended, or all: then also what has not. Requests start in order, so only as many as run at once are
 * looked at. */
static int tell_ended(run *r, bool all) {
    int64_t at_once = 0;
    rp_error err = {0};
    rp_status st = rp_config_get_int(rp_engine_config(r->e), "max_num_seqs", &at_once, &err);
    for (uint32_t i = r->n_first; st == RP_OK && i < r->n_submitted && (all || at_once > 0); i++) {
        rp_result res = RP_RESULT_INIT;
        if (!r->id[i]) continue;
        at_once--;
        st = rp_engine_result(r->e, r->id[i], &res, &err);
        if (st == RP_OK && r->n == 1 && res.n_output_ids == 0)
            tool_progress_prompt(res.n_computed, res.n_prompt_ids);
        if (st != RP_OK || (!all && !*res.finish_reason)) continue;
        int rc = tool_answers_tell(&r->answers, i, &res);
        if (rc) return rc;
        if (*res.error && !r->stopped) {
            rp_error why = {0};
            (void)snprintf(why.text, sizeof why.text, "%s", res.error);
            r->failed = fail_prompt(r, i / r->n_samples, RP_INTERNAL, &why);
        }
        rp_engine_release(r->e, r->id[i]);
        r->id[i] = 0;
    }
    while (r->n_first < r->n_submitted && !r->id[r->n_first]) r->n_first++;
    if (r->n > 1) tool_progress_answers(r->answers.n_told, r->n);
    return st == RP_OK ? 0 : tool_fail(st, &err);
}

static int step_all(run *r) {
    bool more = true, aborted = false;
    while (more) {
        rp_error err = {0};
        if (tool_interrupted() && !aborted) {
            for (uint32_t i = 0; i < r->n_submitted; i++) rp_engine_abort(r->e, r->id[i]);
            aborted = true;
        }
        rp_status st = rp_engine_step(r->e, &more, &err);
        if (st != RP_OK) {
            r->stopped = true;
            (void)tell_ended(r, true);
            return tool_fail(st, &err);
        }
        int rc = tell_ended(r, false);
        if (rc) return rc;
    }
    int rc = tell_ended(r, true);
    return rc ? rc : aborted ? tool_interrupt_exit() : 0;
}

/* --- summary ------------------------------------------------------------------------------- */

/* What was typed and did nothing is a skip like any other. */
static void add_idle_flags(const run *r, json_t *summary) {
    static const tool_flag flags[] = {TOOL_FLAG_TOP_P, TOOL_FLAG_TOP_K, TOOL_FLAG_MIN_P,
                                      TOOL_FLAG_SEED, TOOL_FLAG_N};
    char what[80] = "";
    size_t at = 0;
    if (r->req.sampling.temperature > 0.0) return;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (tool_get(r->a, flags[i]))
            at += (size_t)snprintf(what + at, sizeof what - at, "%s--%s", at ? ", " : "",
                                   tool_flags[flags[i]].name);
    if (at)
        (void)json_array_append_new(
            json_object_get(summary, "skips"),
            json_pack("{s:s,s:s}", "what", what, "reason",
                      "temperature is 0, which always takes the likeliest token"));
}

static int summarise(run *r, int rc) {
    json_t *o = tool_summary(r->a, r->e);
    if (!o) return TOOL_EXIT_FAILED;
    add_idle_flags(r, o);
    if (!r->a->json) {
        if (isatty(STDOUT_FILENO)) tool_note(r->a, "%s", "");
        if (r->answers.ended) tool_note(r->a, "ended: %s", r->answers.ended);
        tool_print_summary(r->a, o, r->answers.n_prompt_ids, r->answers.n_output_ids);
        json_decref(o);
        return rc;
    }
    (void)json_object_set_new(o, "prompts", json_integer(r->n_prompts));
    (void)json_object_set_new(o, "samples", json_integer(r->n_samples));
    tool_answers_summarise(&r->answers, o);
    return tool_event("summary", o, 10) ? rc : TOOL_EXIT_FAILED;
}

static int run_all(run *r) {
    int rc = read_options(r);
    if (rc) return rc;
    r->e = tool_open(r->a, false, &rc);
    if (!r->e) return rc;
    rc = check_model_template(r);
    if (rc == 0) rc = submit_all(r);
    if (rc) return rc;
    rc = step_all(r);
    tool_progress_clear();
    if (rc != 0 && !(tool_interrupted() && rc == tool_interrupt_exit())) return rc;
    return summarise(r, rc ? rc : r->failed);
}

int tool_run(tool_args *a) {
    run r = {.a = a};
    tool_interrupt_init();
    int rc = run_all(&r);
    rp_engine_close(r.e);
    tool_answers_done(&r.answers);
    free(r.ids.v);
    tool_prompts_done(&r.file);
    free(r.id);
    free(r.stops);
    return rc;
}
