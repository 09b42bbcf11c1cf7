/* reprise run: text from a model. The text goes to standard output as it is made; with several prompts each
 * one's whole text in their order, whichever ends first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/input.h"

typedef struct run {
    tool_args *a;
    rp_engine *e;
    rp_request_options req; /* what all prompts share */
    tool_ids ids;
    tool_prompts file;
    const char *single; /* the only prompt */
    uint32_t n;
    uint64_t *id;
    uint32_t n_submitted, n_printed;
    const char **stops;
    bool ends_with_newline, write_failed;
    int failed; /* exit code of prompts that ended with an error of their own */
    size_t n_prompt_ids, n_output_ids;
    json_t *lists[4]; /* per prompt: prompt_ids, output_ids, text, finish_reason */
} run;

static const char *const list_names[4] = {"prompt_ids", "output_ids", "text", "finish_reason"};

/* --- what to run --------------------------------------------------------------------- */

static int read_prompts(run *r) {
    tool_args *a = r->a;
    const char *file = tool_get(a, TOOL_FLAG_PROMPT_FILE), *ids = tool_get(a, TOOL_FLAG_PROMPT_IDS);
    const char *flag = tool_get(a, TOOL_FLAG_PROMPT), *pos = a->n_pos > 1 ? a->pos[1] : NULL;
    int given = (file != NULL) + (ids != NULL) + (flag != NULL) + (pos != NULL);
    if (given == 0)
        return tool_usage(
            "no prompt; write it behind the model, or use --prompt-file or --prompt-ids");
    if (given > 1)
        return tool_usage(
            "more than one prompt; give a prompt, --prompt-file or --prompt-ids, not several");
    r->n = 1;
    r->single = flag ? flag : pos;
    if (ids) return tool_parse_ids("prompt-ids", ids, &r->ids);
    if (flag) return tool_check_flag_text(a, TOOL_FLAG_PROMPT);
    if (!file) return tool_check_text("the prompt", pos, strlen(pos));
    int rc = tool_read_prompts(file, &r->file);
    r->n = r->file.n;
    return rc;
}

static bool read_sampling(run *r) {
    tool_args *a = r->a;
    rp_sampling *s = &r->req.sampling;
    long long top_k = 0, seed = 0, max_tokens = 0;
    bool ok = tool_real(a, TOOL_FLAG_TEMPERATURE, 0.0, 1e6, 0.0, &s->temperature) &&
              tool_real(a, TOOL_FLAG_TOP_P, 0.0, 1.0, 1.0, &s->top_p) &&
              tool_real(a, TOOL_FLAG_MIN_P, 0.0, 1.0, 0.0, &s->min_p) &&
              tool_int(a, TOOL_FLAG_TOP_K, -1, INT32_MAX, 0, &top_k) &&
              tool_int(a, TOOL_FLAG_SEED, 0, INT64_MAX, 0, &seed) &&
              tool_int(a, TOOL_FLAG_MAX_TOKENS, 0, 1 << 24, 256, &max_tokens);
    s->top_k = (int32_t)top_k;
    s->seed = (uint64_t)seed;
    r->req.max_tokens = (uint32_t)max_tokens;
    return ok;
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
    return read_prompts(r);
}

/* --- running ----------------------------------------------------------------------------- */

static bool on_text(void *user, uint64_t id, const char *text, size_t len) {
    run *r = user;
    (void)id;
    if (len) r->ends_with_newline = text[len - 1] == '\n';
    r->write_failed |= fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0;
    return !r->write_failed;
}

/* An error about a prompt of a file says which. */
static int fail_prompt(const run *r, uint32_t i, rp_status st, const rp_error *err) {
    if (!r->file.v) return tool_fail(st, err);
    return tool_fail_at(r->file.path, r->file.v[i].line, st, err);
}

static int submit_all(run *r) {
    rp_error err = {0};
    r->id = calloc(r->n, sizeof *r->id);
    if (!r->id) return tool_error("out of memory");
    if (r->n == 1 && !r->a->json) {
        r->req.on_text = on_text;
        r->req.user = r;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        rp_request_options o = r->req;
        o.prompt_ids = r->ids.v;
        o.n_prompt_ids = r->ids.n;
        if (!r->ids.v) o.prompt = r->file.v ? r->file.v[i].text : r->single;
        rp_status st = rp_engine_submit(r->e, &o, &r->id[i], &err);
        if (st != RP_OK) return fail_prompt(r, i, st, &err);
        r->n_submitted++;
    }
    return 0;
}

static int print_text(run *r, uint32_t i, const rp_result *res) {
    if (r->n > 1) (void)printf("%s==> prompt %u <==\n%s", i ? "\n" : "", i + 1, res->text);
    size_t len = strlen(res->text);
    if (r->n == 1 ? !r->ends_with_newline : len == 0 || res->text[len - 1] != '\n')
        (void)putchar('\n');
    return fflush(stdout) == 0 ? 0 : TOOL_EXIT_FAILED;
}

static int print_result(run *r, uint32_t i, const rp_result *res) {
    json_t *parts[4] = {tool_json_ids(res->prompt_ids, res->n_prompt_ids),
                        tool_json_ids(res->output_ids, res->n_output_ids),
                        tool_json_text(res->text, strlen(res->text)),
                        json_string(res->finish_reason)};
    r->n_prompt_ids += res->n_prompt_ids;
    r->n_output_ids += res->n_output_ids;
    json_t *o = json_pack("{s:I}", "index", (json_int_t)i);
    for (int k = 0; k < 4; k++) {
        (void)json_object_set(o, list_names[k], parts[k]);
        (void)json_array_append_new(r->lists[k], parts[k]);
    }
    if (r->a->json && r->n > 1) return tool_event("output", o, 10) ? 0 : TOOL_EXIT_FAILED;
    json_decref(o);
    return r->a->json ? 0 : print_text(r, i, res);
}

/* Prints what has ended, in order; with all also what has not. */
static int print_ended(run *r, bool all) {
    for (; r->n_printed < r->n_submitted; r->n_printed++) {
        rp_result res;
        rp_error err = {0};
        rp_status st = rp_engine_result(r->e, r->id[r->n_printed], &res, &err);
        if (st != RP_OK) return tool_fail(st, &err);
        if (!all && !*res.finish_reason) return 0;
        int rc = print_result(r, r->n_printed, &res);
        if (rc) return rc;
        if (*res.error) {
            (void)snprintf(err.text, sizeof err.text, "%s", res.error);
            r->failed = fail_prompt(r, r->n_printed, RP_INTERNAL, &err);
        }
    }
    return 0;
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
            (void)print_ended(r, true);
            return tool_fail(st, &err);
        }
        int rc = print_ended(r, false);
        if (rc) return rc;
    }
    int rc = print_ended(r, true);
    return rc ? rc : aborted ? tool_interrupt_exit() : 0;
}

static int summarise(run *r, int rc) {
    json_t *o = tool_summary(r->e);
    if (!o) return TOOL_EXIT_FAILED;
    if (!r->a->json) {
        if (isatty(STDOUT_FILENO)) tool_note(r->a, "%s", "");
        tool_print_summary(r->a, o, r->n_prompt_ids, r->n_output_ids);
        json_decref(o);
        return rc;
    }
    (void)json_object_set_new(o, "prompts", json_integer(r->n));
    for (int k = 0; k < 4; k++)
        (void)json_object_set(o, list_names[k],
                              r->n == 1 ? json_array_get(r->lists[k], 0) : r->lists[k]);
    return tool_event("summary", o, 10) ? rc : TOOL_EXIT_FAILED;
}

static int run_all(run *r) {
    int rc = read_options(r);
    if (rc) return rc;
    r->e = tool_open(r->a, false, &rc);
    if (!r->e) return rc;
    rc = submit_all(r);
    if (rc) return rc;
    rc = step_all(r);
    if (rc != 0 && !(tool_interrupted() && rc == tool_interrupt_exit())) return rc;
    return summarise(r, rc ? rc : r->failed);
}

int tool_run(tool_args *a) {
    run r = {.a = a};
    for (int k = 0; k < 4; k++) r.lists[k] = json_array();
    tool_interrupt_init();
    int rc = run_all(&r);
    rp_engine_close(r.e);
    for (int k = 0; k < 4; k++) json_decref(r.lists[k]);
    free(r.ids.v);
    tool_prompts_done(&r.file);
    free(r.id);
    free(r.stops);
    return rc;
}
