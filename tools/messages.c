/* Conversations as JSON: lists of {"role", "content"}, one behind the other. */
#include <stdlib.h>
#include <string.h>

#include "tools/input.h"

static bool is_role(const char *role) {
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0) return true;
    return false;
}

/* Message i of the conversation that begins in `line` of the file. */
static int take_message(const tool_prompts *file, uint32_t line, size_t i, const json_t *m,
                        rp_message *out) {
    const char *key;
    json_t *value;
    *out = (rp_message){json_string_value(json_object_get(m, "role")),
                        json_string_value(json_object_get(m, "content"))};
    if (!is_role(out->role))
        return tool_usage("%s:%u: message %zu has no role that is system, user, assistant or tool",
                          file->path, line, i + 1);
    if (!out->content)
        return tool_usage("%s:%u: message %zu has no content that is a string", file->path, line,
                          i + 1);
    json_object_foreach((json_t *)(uintptr_t)m, key, value) if (
        strcmp(key, "role") != 0 &&
        strcmp(key, "content") !=
            0) return tool_usage("%s:%u: message %zu has '%s'; only role and content are read",
                                 file->path, line, i + 1, key);
    return 0;
}

/* Takes list, on failure, too. */
static int take_list(tool_prompts *file, uint32_t line, json_t *list) {
    size_t n = json_array_size(list);
    rp_message *m = calloc(n + 1, sizeof *m);
    tool_prompt *v = realloc(file->v, (file->n + 1) * sizeof *v);
    bool kept = json_array_append_new(file->json, list) == 0;
    if (v) file->v = v;
    if (!m || !v || !kept) {
        free(m);
        return tool_error("out of memory");
    }
    file->v[file->n++] = (tool_prompt){.messages = m, .n_messages = (uint32_t)n, .line = line};
    if (n == 0)
        return tool_usage(
            "%s:%u: expected a list of messages: [{\"role\":\"user\",\"content\":\"..\"}]",
            file->path, line);
    for (size_t i = 0; i < n; i++) {
        int rc = take_message(file, line, i, json_array_get(list, i), &m[i]);
        if (rc) return rc;
    }
    return 0;
}

static uint32_t lines_in(const char *from, const char *to) {
    uint32_t n = 0;
    for (; from < to; from++) n += *from == '\n';
    return n;
}

int tool_read_messages(const char *path, tool_prompts *out) {
    size_t size = 0;
    uint32_t line = 1;
    *out = (tool_prompts){.path = tool_file_name(path), .json = json_array()};
    char *text = out->text = tool_read(path, TOOL_MAX_INPUT, &size);
    if (!text) return TOOL_EXIT_FAILED;
    for (const char *at = text, *end = text + size;;) {
        const char *from = at;
        json_error_t why;
        while (at < end && strchr(" \t\r\n", *at)) at++;
        line += lines_in(from, at);
        if (at == end) break;
        json_t *list = json_loadb(at, (size_t)(end - at),
                                  JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &why);
        if (!list)
            return tool_usage("%s:%u: no JSON: %s", out->path, line + (uint32_t)why.line - 1,
                              why.text);
        int rc = take_list(out, line, list);
        if (rc) return rc;
        line += lines_in(at, at + why.position);
        at += why.position;
    }
    return out->n > 0 ? 0 : tool_usage("%s:1: no conversation in %zu bytes", out->path, size);
}
