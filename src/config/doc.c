/* Help and reference pages from the tables: `reprise help config`, docs/config.md, docs/env.md.
 *
 * A test compares the committed pages with these texts, so what is documented is what exists. */
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/status.h"
#include "config/table.h"

/* fields.def flattened: headings between fields. */
static const struct doc_row {
    const char *section;
    int id;
} rows[] = {
#define SECTION(title) {(title), -1},
#define FIELD(kind, id_, name, extra, deflt, key, status, help) {NULL, CONFIG_ID_##id_},
#include "config/fields.def"
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool optional(const config_field *f) {
    return strcmp(f->deflt, "null") == 0;
}

static const char *shown_default(const config_field *f) {
    if (f->kind == CONFIG_KIND_STR && !f->deflt[0]) return "\"\"";
    return f->deflt;
}

static rp_status finish(base_buf *b, char **out, rp_error *err) {
    char *text = base_buf_take(b);
    base_buf_done(b);
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for a page of help");
    *out = text;
    return RP_OK;
}

/* Words of text in lines of at most `width`, each after `indent` spaces. */
static void wrap(base_buf *b, const char *text, int indent, int width) {
    int column = 0;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column && column + 1 + n > width) {
            base_buf_putc(b, '\n');
            column = 0;
        }
        if (!column) {
            base_buf_printf(b, "%*s", indent, "");
            column = indent;
        } else {
            base_buf_putc(b, ' ');
            column++;
        }
        base_buf_add(b, text, (size_t)n);
        column += n;
        text += n;
        while (*text == ' ') text++;
    }
    base_buf_putc(b, '\n');
}

/* A wrapped sentence: prefix, text and a full stop. */
static void sentence(base_buf *b, const char *prefix, const char *text, const char *suffix) {
    base_buf line;
    base_buf_init(&line, 0);
    base_buf_printf(&line, "%s%s%s.", prefix, text, suffix);
    if (line.failed)
        b->failed = true;
    else
        wrap(b, line.data, 6, 96);
    base_buf_done(&line);
}

static void help_field(base_buf *b, const config_field *f) {
    char expected[256];
    config_value_expected(f, expected, sizeof expected);
    base_buf_printf(b, "  %s=%s\n", f->name, shown_default(f));
    sentence(b, "", f->help, "");
    if (f->status == CONFIG_DERIVED) {
        sentence(b, "Computed; set ", f->status_reason, "");
        return;
    }
    sentence(b, "Takes ", expected, optional(f) ? ", or null" : "");
    if (f->status == CONFIG_UNSUP)
        sentence(b, "Not supported away from its default: ", f->status_reason, "");
    if (f->status == CONFIG_HOLDS) sentence(b, "Holds in any case: ", f->status_reason, "");
}

rp_status rp_config_help_text(char **out, rp_error *err) {
    base_error_clear(err);
    base_buf b;
    if (!out) return rp_fail(err, RP_INVALID, "rp_config_help_text: out must be given");
    base_buf_init(&b, 0);
    base_buf_puts(
        &b, "Settings, with their defaults. Set them with --compilation-config '{\"level\":3}' "
            "or\n-cc.key=value; lists are [1,2,4] or 1,2,4, and -cc.key+=8 appends.\n");
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].section)
            base_buf_printf(&b, "\n%s\n", rows[i].section);
        else
            help_field(&b, &config_table[rows[i].id]);
    }
    base_buf_puts(&b, "\nOther names\n");
    for (size_t i = 0; i < config_n_aliases; i++)
        base_buf_printf(&b, "  %s is %s\n", config_aliases[i].name, config_aliases[i].target);
    return finish(&b, out, err);
}

rp_status rp_config_help_of(const char *key, char **out, rp_error *err) {
    base_error_clear(err);
    base_buf b;
    int id = -1;
    bool known = false;
    if (!key || !out) return rp_fail(err, RP_INVALID, "rp_config_help_of: key and out needed");
    base_buf_init(&b, 0);
    if ((id = config_find(key)) >= 0) help_field(&b, &config_table[id]);
    for (size_t i = 0; id < 0 && i < config_n_aliases; i++) {
        if (strcmp(config_aliases[i].name, key) != 0) continue;
        base_buf_printf(&b, "  %s is %s\n", key, config_aliases[i].target);
        known = true;
        help_field(&b, &config_table[config_find(config_aliases[i].target)]);
    }
    if (id >= 0 || known) return finish(&b, out, err);
    base_buf_done(&b);
    const char *near = config_nearest(key);
    return rp_fail(err, RP_CONFIG, "unknown setting %.60s%s%s", key, near ? "; did you mean " : "",
                   near ? near : "");
}

/* A table cell: '|' would end it. */
static void cell(base_buf *b, const char *text) {
    for (; *text; text++) {
        if (*text == '|') base_buf_putc(b, '\\');
        base_buf_putc(b, *text);
    }
}

static void doc_field(base_buf *b, const config_field *f) {
    char expected[256];
    config_value_expected(f, expected, sizeof expected);
    base_buf_printf(b, "| `%s` | ", f->name);
    cell(b, f->status == CONFIG_DERIVED ? "computed" : expected);
    base_buf_printf(b, " | `%s` | ", shown_default(f));
    cell(b, f->help);
    if (f->status == CONFIG_UNSUP) {
        base_buf_puts(b, ". Not supported away from its default: ");
        cell(b, f->status_reason);
    }
    if (f->status == CONFIG_HOLDS) {
        base_buf_puts(b, ". Holds in any case: ");
        cell(b, f->status_reason);
    }
    base_buf_puts(b, " | ");
    if (f->key == CONFIG_KEY_PIECE)
        base_buf_puts(b, "plan and piece");
    else if (f->key == CONFIG_KEY_OUTER)
        base_buf_puts(b, "plan");
    else {
        base_buf_puts(b, "no: ");
        cell(b, f->key_reason);
    }
    base_buf_puts(b, " |\n");
}

static const char intro[] =
    "# Configuration\n"
    "\n"
    "This page is made from `src/config/fields.def`. `reprise help config` prints the same table;\n"
    "`BLESS=1 make test` rewrites it.\n"
    "\n"
    "```\n"
    "reprise run MODEL \"prompt\" --compilation-config "
    "'{\"level\":3,\"pass_config\":{\"eliminate_noops\":true}}'\n"
    "reprise run MODEL \"prompt\" -cc.cudagraph_mode=FULL -cc.cudagraph_capture_sizes=1,2,4 "
    "-cc.skip_passes+=simplify\n"
    "```\n"
    "\n"
    "Nested objects and dotted keys are equal, dashes in a key equal underscores, enum values are\n"
    "accepted in any case, `null` takes a setting back to \"not given\" (not so where a text is\n"
    "typed behind a dot: `-cc.device=null` is the device of that name). An unknown key is an "
    "error\n"
    "that names the nearest known one. The last column says whether a setting enters the key of a\n"
    "cached plan, the key of each compiled piece, or why it does not.\n";

rp_status rp_config_doc_markdown(char **out, rp_error *err) {
    base_error_clear(err);
    base_buf b;
    if (!out) return rp_fail(err, RP_INVALID, "rp_config_doc_markdown: out must be given");
    base_buf_init(&b, 0);
    base_buf_puts(&b, intro);
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].section)
            base_buf_printf(&b,
                            "\n## %s\n\n| setting | takes | default | meaning | in the key |\n"
                            "|---|---|---|---|---|\n",
                            rows[i].section);
        else
            doc_field(&b, &config_table[rows[i].id]);
    }
    base_buf_puts(&b, "\n## Other names\n\n| name | is |\n|---|---|\n");
    for (size_t i = 0; i < config_n_aliases; i++)
        base_buf_printf(&b, "| `%s` | `%s` |\n", config_aliases[i].name, config_aliases[i].target);
    base_buf_puts(&b, "\n## Written by a run, not set\n\n| name | why |\n|---|---|\n");
    for (size_t i = 0; i < config_n_readonly; i++)
        base_buf_printf(&b, "| `%s` | %s |\n", config_readonly[i].name, config_readonly[i].target);
    return finish(&b, out, err);
}

/* Who comes from vLLM is told which name the settings have here. */
static void note_aliases(void) {
    size_t n;
    const base_env_info *env = base_env_table(&n);
    for (size_t i = 0; i < n; i++) {
        const char *name = base_env_source((base_env_id)i);
        if (name && strcmp(name, env[i].name) != 0)
            base_log(RP_LOG_WARNING, "%s is read as %s", name, env[i].name);
    }
}

static void note_stranger(void *user, base_str name, const char *near) {
    (void)user;
    base_log(RP_LOG_WARNING, "%.*s is no variable of reprise and does nothing; %s%s",
             (int)(name.len < 60 ? name.len : 60), name.ptr,
             near ? "did you mean " : "see reprise help env", near ? near : "");
}

rp_status rp_env_check(rp_error *err) {
    base_error_clear(err);
    const char *logs = base_env_get(BASE_ENV_LOGS), *xdg = base_env_get(BASE_ENV_XDG_CACHE_HOME);
    rp_error why = {0};
    RP_TRY(base_env_check(err));
    rp_status st = base_log_check(logs, &why);
    if (st != RP_OK) return rp_fail(err, st, "REPRISE_LOGS=%.60s: %s", logs, why.text);
    if (xdg && *xdg != '/')
        base_log(RP_LOG_WARNING, "XDG_CACHE_HOME=%.100s is ignored: it does not start with /", xdg);
    note_aliases();
    base_env_strangers(note_stranger, NULL);
    return RP_OK;
}

rp_status rp_env_help_text(char **out, rp_error *err) {
    base_error_clear(err);
    base_buf b;
    size_t n;
    if (!out) return rp_fail(err, RP_INVALID, "rp_env_help_text: out must be given");
    const base_env_info *env = base_env_table(&n);
    base_buf_init(&b, 0);
    base_buf_puts(&b, "Environment variables, with their defaults.\n\n");
    for (size_t i = 0; i < n; i++) {
        base_buf_printf(&b, "  %s%s%s\n", env[i].name, *env[i].deflt ? "=" : "", env[i].deflt);
        sentence(&b, "", env[i].help, "");
        sentence(&b, strchr(env[i].accepted, ',') ? "Takes one of " : "Takes ", env[i].accepted,
                 "");
    }
    return finish(&b, out, err);
}

rp_status rp_env_doc_markdown(char **out, rp_error *err) {
    base_error_clear(err);
    base_buf b;
    size_t n;
    if (!out) return rp_fail(err, RP_INVALID, "rp_env_doc_markdown: out must be given");
    const base_env_info *env = base_env_table(&n);
    base_buf_init(&b, 0);
    base_buf_puts(&b, "# Environment variables\n"
                      "\n"
                      "Written from `src/base/env.def` by `scripts/env-doc.sh`; `reprise help env "
                      "--markdown` prints the same.\n"
                      "\n"
                      "| variable | default | accepted | meaning |\n"
                      "|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        bool given = env[i].deflt[0] != '\0';
        base_buf_printf(&b, "| `%s` | %s%s%s | ", env[i].name, given ? "`" : "",
                        given ? env[i].deflt : "-", given ? "`" : "");
        cell(&b, env[i].accepted);
        base_buf_puts(&b, " | ");
        cell(&b, env[i].help);
        base_buf_puts(&b, " |\n");
    }
    return finish(&b, out, err);
}
