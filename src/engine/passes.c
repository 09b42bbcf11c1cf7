/* Counts of passes as a text of the cache: a line each, "name matches". */
#include "engine/passes.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compile/compile.h"
#include "rewrite/registry.h"

static const char TEXT[] = "passes";

rp_status engine_passes_store(cache_store *s, base_hash128 key, const pass_counts *c,
                              rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "");
    for (uint32_t i = 0; i < c->n; i++)
        base_buf_printf(&b, "%s %u\n", c->of[i].name, c->of[i].matches);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = cache_put_text(s, key, TEXT, b.data ? b.data : "", err);
    base_buf_done(&b);
    return st;
}

/* A name that lives as long as the process; NULL: nobody has it. */
static const char *known(const char *name) {
    uint32_t n;
    const pass_info *own = pass_table(&n);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(own[i].name, name) == 0) return own[i].name;
    if (strcmp(name, COMPILE_LOWERED_OPS) == 0) return COMPILE_LOWERED_OPS;
    const rewrite_pass *p;
    for (uint32_t i = 0; (p = rewrite_at(i)) != NULL; i++)
        if (strcmp(p->name, name) == 0) return p->name;
    return NULL;
}

static void read_line(const char *line, pass_counts *out) {
    char name[REWRITE_MOST_NAME];
    unsigned matches;
    if (sscanf(line, "%63s %u", name, &matches) != 2 || !known(name)) return;
    pass_count *c = pass_count_of(out, known(name));
    if (c) c->matches = matches;
}

void engine_passes_load(cache_store *s, base_hash128 key, pass_counts *out) {
    char *text = NULL;
    rp_error err = {0};
    out->n = 0;
    if (cache_get_text(s, key, TEXT, &text, &err) != RP_OK) return;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        read_line(line, out);
        line = end ? end + 1 : NULL;
    }
    base_free(text);
}

bool engine_passes_failed(const pass_counts *c) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->of[i].failures) return true;
    return false;
}

json_t *engine_passes_json(const pass_counts *c) {
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < c->n; i++)
        json_array_append_new(a, json_pack("{s:s,s:I}", "name", c->of[i].name, "matches",
                                           (json_int_t)c->of[i].matches));
    return a;
}
