/* Reading of ids and prompts, opening of engines, and the summary that run, score and compile share. */
#include "tools/input.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- ids ----------------------------------------------------------------------------- */

static int bad_id(const char *name, const char *at) {
    size_t n = strcspn(at, ", \t\r\n]");
    return tool_usage("--%s: '%.*s' is no token id; write 1,2,3 or [1,2,3] or @FILE", name,
                      (int)(n > 40 ? 40 : n), at);
}

static int parse_list(const char *name, const char *text, tool_ids *out) {
    const char *p = text + strspn(text, " \t\r\n");
    bool bracket = *p == '[';
    out->v = malloc((strlen(text) / 2 + 1) * sizeof *out->v);
    if (!out->v) return tool_error("out of memory");
    for (p += bracket;;) {
        char *end = NULL;
        p += strspn(p, " \t\r\n");
        if (!*p || (*p == ']' && bracket)) break;
        errno = 0;
        long long v = strtoll(p, &end, 10);
        if (end == p || errno || v < 0 || v > INT32_MAX || (*end && !strchr(", \t\r\n]", *end)))
            return bad_id(name, p);
        out->v[out->n++] = (int32_t)v;
        p = end + strspn(end, " \t\r\n");
        if (*p == ',') p++;
    }
    if (bracket && *p == ']')
        p += 1 + strspn(p + 1, " \t\r\n");
    else if (bracket)
        return tool_usage("--%s: the list has no ']'", name);
    if (*p) return bad_id(name, p);
    if (out->n == 0) return tool_usage("--%s: no token id; write 1,2,3 or [1,2,3] or @FILE", name);
    return 0;
}

int tool_parse_ids(const char *name, const char *text, tool_ids *out) {
    size_t size = 0;
    *out = (tool_ids){0};
    if (*text != '@') return parse_list(name, text, out);
    char *file = tool_read(text + 1, TOOL_MAX_INPUT, &size);
    int rc = file ? parse_list(name, file, out) : TOOL_EXIT_FAILED;
    free(file);
    return rc;
}

/* --- prompts --------------------------------------------------------------------------- */

int tool_check_text(const char *source, const char *text, size_t len) {
    size_t bad = tool_utf8_bad(text, len);
    const char *nul = memchr(text, 0, len);
    if (nul && (size_t)(nul - text) < bad) bad = (size_t)(nul - text);
    if (bad == len) return 0;
    return tool_usage("%s: byte 0x%02x at offset %zu is no UTF-8 text; write it in UTF-8", source,
                      (unsigned char)text[bad], bad);
}

int tool_check_flag_text(const tool_args *a, tool_flag f) {
    char source[64];
    const char *text = tool_get(a, f);
    (void)snprintf(source, sizeof source, "--%s", tool_flags[f].name);
    return text ? tool_check_text(source, text, strlen(text)) : 0;
}

int tool_check_template(const tool_args *a) {
    const char *kind = tool_get(a, TOOL_FLAG_CHAT_TEMPLATE);
    bool ids = tool_get(a, TOOL_FLAG_PROMPT_IDS) != NULL;
    if (!kind || strcmp(kind, "none") == 0 || !(ids || tool_on(a, TOOL_FLAG_RAW))) return 0;
    return tool_usage("--chat-template=%s does nothing with --%s, which leaves the template out: "
                      "give one of the two",
                      kind, ids ? "prompt-ids" : "raw");
}

const char *tool_file_name(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* Cuts one line off; *at is the next one, NULL at the end. Gives the line's length, NUL bytes included. */
static size_t cut_line(char **at, const char *end) {
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
    size_t len = (size_t)((stop ? stop : end) - line);
    *at = stop ? stop + 1 : NULL;
    line[len] = 0;
    if (len && line[len - 1] == '\r') line[--len] = 0;
    return len;
}

static int check_line(const char *path, uint32_t number, const char *line, size_t len) {
    char source[4200];
    (void)snprintf(source, sizeof source, "%s:%u", tool_file_name(path), number);
    return tool_check_text(source, line, len);
}

int tool_read_prompts(const char *path, tool_prompts *out) {
    size_t size = 0, max = 1;
    uint32_t number = 1;
    *out = (tool_prompts){.path = tool_file_name(path)};
    char *text = out->text = tool_read(path, TOOL_MAX_INPUT, &size);
    if (!text) return TOOL_EXIT_FAILED;
    for (size_t i = 0; i < size; i++) max += text[i] == '\n';
    out->v = calloc(max, sizeof *out->v);
    if (!out->v) return tool_error("out of memory");
    const char *end = text + size;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* a byte order mark */
    for (char *at = text; at; number++) {
        const char *line = at;
        int rc = check_line(path, number, line, cut_line(&at, end));
        if (rc) return rc;
        if (line[strspn(line, " \t")])
            out->v[out->n++] = (tool_prompt){.text = line, .line = number};
    }
    return out->n > 0 ? 0
                      : tool_usage("%s:1: no prompt in %zu bytes; write one a line",
                                   tool_file_name(path), size);
}

void tool_prompts_done(tool_prompts *p) {
    for (uint32_t i = 0; i < p->n; i++) free(p->v[i].messages);
    json_decref(p->json);
    free(p->text);
    free(p->v);
    *p = (tool_prompts){0};
}

/* --- engine ------------------------------------------------------------------------------- */

rp_engine *tool_open(tool_args *a, bool no_capture, int *rc) {
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_engine *e = NULL;
    rp_error err = {0};
    rp_status st = RP_OK;
    o.config = tool_take_config(a, &st);
    if (!o.config) {
        *rc = rp_status_exit_code(st);
        return NULL;
    }
    o.model = a->pos[0];
    o.chat_template = tool_get(a, TOOL_FLAG_CHAT_TEMPLATE);
    o.no_capture = no_capture;
    o.progress = tool_progress;
    tool_progress_init(a);
    st = rp_engine_open(&o, &e, &err);
    tool_progress_fetched();
    tool_progress_clear();
    if (st == RP_OK) return e;
    *rc = st == RP_CANCELLED && tool_interrupted()
              ? tool_fail_as(tool_interrupt_exit(), "stopped while loading %s", a->pos[0])
              : tool_fail(st, &err);
    return NULL;
}

json_t *tool_token_json(rp_engine *e, int32_t id) {
    char *text = NULL;
    if (rp_engine_detokenize(e, &id, 1, &text, NULL) != RP_OK) return json_null();
    json_t *j = tool_json_text(text);
    rp_engine_text_free(text);
    return j;
}

const char *tool_token_text(rp_engine *e, int32_t id, char *out, size_t size) {
    json_t *j = tool_token_json(e, id);
    char *quoted = json_dumps(j, JSON_ENCODE_ANY);
    (void)snprintf(out, size, "%s", quoted ? quoted : "?");
    free(quoted);
    json_decref(j);
    return out;
}

json_t *tool_facts(const rp_engine *e) {
    rp_error err = {0};
    char *text = NULL;
    rp_status st = rp_engine_summary(e, &text, &err);
    if (st != RP_OK) return tool_fail(st, &err), NULL;
    json_t *o = json_loads(text, 0, NULL);
    rp_engine_text_free(text);
    if (!o) (void)tool_error("the summary is no JSON");
    return o;
}

json_t *tool_summary(const tool_args *a, const rp_engine *e) {
    json_t *o = tool_facts(e);
    if (!o) return NULL;
    const char *dump = json_string_value(json_object_get(o, "debug_dump"));
    if (dump) tool_note(a, "every stage of compiling is in %s", dump);
    return o;
}

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key) {
    const char *z = json_string_value(json_object_get(o, key));
    return z ? z : "?";
}

static void print_compiling(const tool_args *a, const json_t *o) {
    const json_t *p = json_object_get(o, "pieces");
    double compiles = number(o, "compiles");
    bool packed = number(o, "pack_ms") > 0.0;
    char fetched[40] = "";
    if (number(o, "fetch_ms") > 0.0)
        (void)snprintf(fetched, sizeof fetched, "fetch %.0f, ", number(o, "fetch_ms"));
    tool_note(
        a,
        "%.0f pieces, %.0f compiled, %.0f distinct; %.0f traces, %.0f compiles; loaded in %.0f ms "
        "(%sdevice %.0f, trace %.0f, compile %.0f, %s %.0f, runner %.0f, capture %.0f)",
        number(p, "total"), number(p, "compiled"), number(p, "distinct"), number(o, "traces"),
        compiles, number(o, "load_ms"), fetched, number(o, "device_ms"), number(o, "trace_ms"),
        number(o, "compile_ms"), packed ? "pack" : "weights",
        number(o, packed ? "pack_ms" : "weights_ms"), number(o, "runner_ms"),
        number(o, "capture_ms"));
}

/* Speeds of a run that shared its cores are those of one thread. A few lists say nothing. */
static void print_crowded(const tool_args *a, const json_t *o) {
    enum { LEAST = 64 };
    double crowded = number(o, "crowded_lists"), all = number(o, "shared_lists");
    if (all >= LEAST && crowded > all / 2)
        tool_note(
            a,
            "note: one thread did %.0f of %.0f launch lists: other programs held the cores; free "
            "them or lower --threads",
            crowded, all);
}

void tool_print_summary(const tool_args *a, const json_t *o, size_t n_prompt, size_t n_output) {
    size_t i;
    json_t *skip;
    tool_note(a, "%s on %s (%s, %.0f threads), level %.0f, %s", text(o, "model"), text(o, "device"),
              text(o, "isa"), number(o, "threads"), number(o, "level"), text(o, "cudagraph_mode"));
    print_compiling(a, o);
    if (n_output) {
        char decode[40] = "";
        if (number(o, "decode_tokens") > 0.0)
            (void)snprintf(decode, sizeof decode, ", decode %.1f tok/s", number(o, "decode_tok_s"));
        tool_note(a,
                  "%zu + %zu tokens; first token after %.1f ms (%.2f s from program start); "
                  "prefill %.0f tok/s%s; %.0f MB at most",
                  n_prompt, n_output, number(o, "ttft_ms"),
                  number(o, "wall_to_first_token_ms") / 1e3, number(o, "prefill_tok_s"), decode,
                  number(o, "peak_rss_bytes") / 1e6);
    }
    json_array_foreach(json_object_get(o, "skips"), i, skip)
        tool_note(a, "note: %s: %s", text(skip, "what"), text(skip, "reason"));
    print_crowded(a, o);
}
