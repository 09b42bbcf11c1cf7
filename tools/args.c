/* Reads the command line by the table in flags.def. What belongs to the configuration is set at once, in
 * order, so that the last one wins as in one long list; nothing is checked here that the library checks. */
#include "tools/args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/output.h"

const tool_flag_info tool_flags[TOOL_FLAG_COUNT_] = {
#define ANY \
    { TOOL_ANY, 0, 0 }
#define INT(min, max) \
    { TOOL_INT, min, max }
#define REAL(min, max) \
    { TOOL_REAL, min, max }
#define ABOVE(min, max) \
    { TOOL_ABOVE, min, max }
#define FLAG(id, name, value, range, where, key, help) {name, value, range, where, key, help},
#include "tools/flags.def"
#undef FLAG
};

/* --- nearest names --------------------------------------------------------------- */

enum { LONGEST = 63 };

/* Edit distance of names up to LONGEST characters; two neighbours that changed places count once. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][LONGEST + 1], na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) return LONGEST + 1;
    for (size_t j = 0; j <= nb; j++) rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *up = rows[(i - 1) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

/* One slip a word, two in a long one: what is further away was not misspelt, it is something else. */
const char *tool_nearest(const char *z, const char *(*name_at)(size_t i), size_t n) {
    const char *best = NULL;
    size_t len = strlen(z), least = len < 3 ? 0 : len < 8 ? 1 : len / 4;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(z, name_at(i));
        if (d > least || (best && d == least)) continue;
        best = name_at(i);
        least = d;
    }
    return best;
}

static const char *flag_name(size_t i) {
    return tool_flags[i].name;
}

/* --- one flag ----------------------------------------------------------------------- */

typedef struct reader {
    tool_args *a;
    int argc, at;
    char **argv;
} reader;

static int fail(rp_status st, const rp_error *err) {
    return st == RP_OK ? 0 : tool_fail(st, err);
}

static int set_key(tool_args *a, const char *key, const char *value) {
    rp_error err = {0};
    return fail(rp_config_set_key(a->config, key, value, &err), &err);
}

static int set_olevel(tool_args *a, const char *value) {
    rp_error err = {0};
    if (strlen(value) != 1 || *value < '0' || *value > '3')
        return tool_usage("-O%s: expected -O0, -O1, -O2 or -O3", value);
    return fail(rp_config_set_olevel(a->config, *value - '0', &err), &err);
}

static bool is_digits(const char *z) {
    return *z && !z[strspn(z, "0123456789")];
}

/* A number alone is the level. */
static int set_json(tool_args *a, const char *value) {
    rp_error err = {0};
    if (is_digits(value)) return set_key(a, "level", value);
    return fail(rp_config_set_json(a->config, value, &err), &err);
}

static bool is_switch_value(const char *v, const char **out) {
    static const char *const yes[] = {"true", "1", "yes", "on"}, *const no[] = {"false", "0", "no",
                                                                                "off"};
    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(v, yes[i]) == 0)
            *out = "true";
        else if (strcasecmp(v, no[i]) == 0)
            *out = "false";
        else
            continue;
        return true;
    }
    return false;
}

/* The value of a flag: behind '=', or the next argument whatever it starts with. */
static int value_of(reader *r, tool_flag f, const char *eq, const char **out) {
    const tool_flag_info *i = &tool_flags[f];
    const char *next = r->at + 1 < r->argc ? r->argv[r->at + 1] : NULL;
    if (!i->value) {
        *out = "true";
        if (eq && !is_switch_value(eq, out))
            return tool_usage("--%s=%s: expected true or false", i->name, eq);
        return 0;
    }
    if (eq) {
        *out = eq;
        return 0;
    }
    bool word = next && (strcasecmp(next, "off") == 0 || strcasecmp(next, "warn") == 0 ||
                         strcasecmp(next, "fatal") == 0);
    if (f == TOOL_FLAG_SEALED && !word) {
        *out = "fatal";
        return 0;
    }
    if (!next) return tool_usage("--%s needs a value: --%s=%s", i->name, i->name, i->value);
    *out = next;
    r->at++;
    return 0;
}

static int apply(tool_args *a, tool_flag f, const char *value) {
    a->given[a->n_given++] = (tool_given){f, value};
    if (f == TOOL_FLAG_CC) return set_json(a, value);
    if (f == TOOL_FLAG_OLEVEL) return set_olevel(a, value);
    if (tool_flags[f].key && (a->cmd->where & TOOL_ENGINE))
        return set_key(a, tool_flags[f].key, value);
    return 0;
}

/* A flag that is none, as it was written. */
static int fail_unknown(const tool_args *a, const char *dashes, const char *name) {
    const char *why = tool_foreign(name), *near = tool_nearest(name, flag_name, TOOL_FLAG_COUNT_);
    if (why) return tool_absent("%s%s is not supported here: %s", dashes, name, why);
    return near ? tool_usage("unknown flag %s%s; the nearest is --%s", dashes, name, near)
                : tool_usage("unknown flag %s%s; see reprise help %s", dashes, name, a->cmd->name);
}

/* name: of a switch also with "no-" ahead, which is what *off says. */
static int find_flag(const tool_args *a, const char *name, size_t len, tool_flag *out, bool *off) {
    char key[64] = {0};
    for (size_t i = 0; i < len && i < sizeof key - 1; i++) key[i] = name[i] == '_' ? '-' : name[i];
    for (int f = 0; f < TOOL_FLAG_COUNT_ && len < sizeof key; f++) {
        *off = strncmp(key, "no-", 3) == 0 && !tool_flags[f].value;
        if (strcmp(key + (*off ? 3 : 0), tool_flags[f].name) != 0) continue;
        if (!(tool_flags[f].where & a->cmd->where))
            return tool_usage("%s does not take --%s; see reprise help %s", a->cmd->name, key,
                              a->cmd->name);
        *out = (tool_flag)f;
        return 0;
    }
    return fail_unknown(a, "--", key);
}

/* A list whose items are arguments of their own: 1 2 4. What is no number ends it. */
static int read_items(reader *r, const char *key) {
    char more[64];
    int rc = 0;
    (void)snprintf(more, sizeof more, "%s+", key);
    while (rc == 0 && r->at + 1 < r->argc && is_digits(r->argv[r->at + 1]))
        rc = set_key(r->a, more, r->argv[++r->at]);
    return rc;
}

static int read_long(reader *r, const char *arg) {
    const char *name = arg + 2, *eq = strchr(name, '='), *value = NULL;
    tool_flag f = TOOL_FLAG_COUNT_;
    bool off = false;
    int rc = find_flag(r->a, name, eq ? (size_t)(eq - name) : strlen(name), &f, &off);
    if (rc == 0 && off && eq)
        rc = tool_usage("--no-%s takes no value: --%s=false says the same", tool_flags[f].name,
                        tool_flags[f].name);
    if (rc == 0) rc = value_of(r, f, off ? "false" : eq ? eq + 1 : NULL, &value);
    if (rc == 0) rc = apply(r->a, f, value);
    if (rc == 0 && !eq && f == TOOL_FLAG_CUDAGRAPH_SIZES && is_digits(value))
        rc = read_items(r, tool_flags[f].key);
    return rc;
}

/* "a.b=c", or "a.b" with the value in the next argument. */
static int read_dotted(reader *r, const char *flag, const char *key) {
    rp_error err = {0};
    if (!(r->a->cmd->where & TOOL_ENGINE))
        return tool_usage("%s does not take %s", r->a->cmd->name, flag);
    r->a->given[r->a->n_given++] = (tool_given){TOOL_FLAG_CC, key};
    if (!*key || *key == '=')
        return tool_usage("%s. needs the name of a setting: %s.level=3", flag, flag);
    if (strchr(key, '=')) return fail(rp_config_set(r->a->config, key, &err), &err);
    if (r->at + 1 >= r->argc)
        return tool_usage("%s.%s needs a value: %s.%s=VALUE", flag, key, flag, key);
    return set_key(r->a, key, r->argv[++r->at]);
}

/* -cc JSON, -cc=JSON, -cc N, -O N, -O=N and -ON, -tp N. */
static int read_joined(reader *r, tool_flag f, const char *rest) {
    const char *value = NULL;
    const char *eq = *rest == '=' ? rest + 1 : *rest ? rest : NULL;
    if (!(tool_flags[f].where & r->a->cmd->where))
        return tool_usage("%s does not take %s", r->a->cmd->name, r->argv[r->at]);
    int rc = value_of(r, f, eq, &value);
    return rc ? rc : apply(r->a, f, value);
}

static bool is_config_prefix(const char *arg, const char **key) {
    static const char *const prefixes[] = {"-cc.", "--compilation-config.",
                                           "--compilation_config."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(arg, prefixes[i], strlen(prefixes[i])) == 0) {
            *key = arg + strlen(prefixes[i]);
            return true;
        }
    return false;
}

static int read_short(reader *r, const char *arg) {
    if (strcmp(arg, "-h") == 0) return apply(r->a, TOOL_FLAG_HELP, "true");
    if (strcmp(arg, "-cc") == 0 || strncmp(arg, "-cc=", 4) == 0)
        return read_joined(r, TOOL_FLAG_CC, arg + 3);
    if (strcmp(arg, "-tp") == 0 || strncmp(arg, "-tp=", 4) == 0)
        return read_joined(r, TOOL_FLAG_TP_SIZE, arg + 3);
    if (arg[1] == 'O') return read_joined(r, TOOL_FLAG_OLEVEL, arg + 2);
    return fail_unknown(r->a, "-", arg + 1);
}

/* --- ahead of the rest ---------------------------------------------------------------- */

static bool is_flag(const char *name, const char *known) {
    while (*name && (*name == '_' ? '-' : *name) == *known) name++, known++;
    return !*name && !*known;
}

static bool takes_next(const char *arg) {
    if (strcmp(arg, "-cc") == 0 || strcmp(arg, "-O") == 0 || strcmp(arg, "-tp") == 0) return true;
    if (strncmp(arg, "-cc.", 4) == 0) return !strchr(arg, '=');
    for (int f = 0; arg[0] == '-' && arg[1] == '-' && f < TOOL_FLAG_COUNT_; f++)
        if (is_flag(arg + 2, tool_flags[f].name))
            return tool_flags[f].value && f != TOOL_FLAG_SEALED;
    return false;
}

bool tool_args_json(int argc, char **argv) {
    bool json = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value = "true";
        if (takes_next(argv[i]))
            i++;
        else if (strcmp(argv[i], "--json") == 0 ||
                 (strncmp(argv[i], "--json=", 7) == 0 && is_switch_value(argv[i] + 7, &value)))
            json = *value == 't';
    }
    return json;
}

/* --- the whole ------------------------------------------------------------------------- */

static int read_all(reader *r) {
    bool only_pos = false;
    int rc = 0;
    for (r->at = 0; rc == 0 && r->at < r->argc; r->at++) {
        const char *arg = r->argv[r->at], *key;
        if (only_pos || arg[0] != '-' || !arg[1]) {
            if (r->a->n_pos == r->a->cmd->max_pos && r->at > 0) r->a->ahead = r->argv[r->at - 1];
            r->a->pos[r->a->n_pos++] = arg;
        } else if (strcmp(arg, "--") == 0)
            only_pos = true;
        else if (is_config_prefix(arg, &key))
            rc = read_dotted(r, arg[1] == '-' ? "--compilation-config" : "-cc", key);
        else if (arg[1] == '-')
            rc = read_long(r, arg);
        else
            rc = read_short(r, arg);
    }
    return rc;
}

/* What stands behind a flag that takes a value with '=' alone was perhaps meant to be it. */
static bool wants_equals(const char *arg) {
    for (int f = 0; arg && arg[0] == '-' && arg[1] == '-' && f < TOOL_FLAG_COUNT_; f++)
        if (is_flag(arg + 2, tool_flags[f].name))
            return !tool_flags[f].value || f == TOOL_FLAG_SEALED;
    return false;
}

static int check_pos(const tool_args *a) {
    const tool_command *c = a->cmd;
    if (tool_on(a, TOOL_FLAG_HELP)) return 0;
    if (a->n_pos < c->min_pos)
        return tool_usage("%s needs more: reprise %s%s%s", c->name, c->name, *c->args ? " " : "",
                          c->args);
    if (a->n_pos > c->max_pos && wants_equals(a->ahead))
        return tool_usage("%s: '%s' is one argument too many; a value of %s is written %s=%s",
                          c->name, a->pos[c->max_pos], a->ahead, a->ahead, a->pos[c->max_pos]);
    if (a->n_pos > c->max_pos)
        return tool_usage("%s: '%s' is one argument too many: reprise %s%s%s", c->name,
                          a->pos[c->max_pos], c->name, *c->args ? " " : "", c->args);
    return 0;
}

static int set_logging(const tool_args *a) {
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    const char *level = tool_get(a, TOOL_FLAG_LOG_LEVEL), *logs = tool_get(a, TOOL_FLAG_LOGS);
    rp_error err = {0};
    int found = -1;
    for (int i = 0; level && i < 4; i++)
        if (strcasecmp(level, levels[i]) == 0) found = i;
    if (level && found < 0)
        return tool_usage("--log-level=%s: expected error, warning, info or debug", level);
    rp_log_set_default_level(RP_LOG_WARNING);
    if (level) rp_log_set_level((rp_log_level)found);
    return logs ? fail(rp_log_set_channels(logs, &err), &err) : 0;
}

static int check_environment(void) {
    rp_error err = {0};
    return fail(rp_env_check(&err), &err);
}

int tool_args_parse(tool_args *a, const tool_command *cmd, int argc, char **argv) {
    *a = (tool_args){.cmd = cmd, .config = rp_config_new()};
    a->given = calloc((size_t)argc + 1, sizeof *a->given);
    a->pos = calloc((size_t)argc + 1, sizeof *a->pos);
    if (!a->config || !a->given || !a->pos) return tool_error("out of memory");
    reader r = {a, argc, 0, argv};
    int rc = read_all(&r);
    a->json = tool_on(a, TOOL_FLAG_JSON);
    a->quiet = tool_on(a, TOOL_FLAG_QUIET);
    if (rc == 0) rc = set_logging(a);
    if (rc == 0 && cmd->where != TOOL_HELP) rc = check_environment();
    return rc ? rc : check_pos(a);
}

void tool_args_done(tool_args *a) {
    rp_config_free(a->config);
    free(a->given);
    free(a->pos);
    *a = (tool_args){0};
}

/* --- values ------------------------------------------------------------------------------ */

const char *tool_get(const tool_args *a, tool_flag f) {
    for (size_t i = a->n_given; i-- > 0;)
        if (a->given[i].flag == f) return a->given[i].value;
    return NULL;
}

bool tool_on(const tool_args *a, tool_flag f) {
    const char *v = tool_get(a, f);
    return v && strcmp(v, "true") == 0;
}

bool tool_int(const tool_args *a, tool_flag f, long long deflt, long long *out) {
    const char *v = tool_get(a, f);
    const tool_range *r = &tool_flags[f].range;
    char *end = NULL;
    *out = deflt;
    if (!v) return true;
    errno = 0;
    long long n = strtoll(v, &end, 10);
    if (end == v || *end || errno || n < r->min || n > r->max) {
        (void)tool_usage("--%s=%s: expected a number from %lld to %lld", tool_flags[f].name, v,
                         r->min, r->max);
        return false;
    }
    *out = n;
    return true;
}

bool tool_real(const tool_args *a, tool_flag f, double deflt, double *out) {
    const char *v = tool_get(a, f);
    const tool_range *r = &tool_flags[f].range;
    bool above = r->kind == TOOL_ABOVE;
    char *end = NULL;
    *out = deflt;
    if (!v) return true;
    double x = strtod(v, &end), min = (double)r->min;
    if (end == v || *end || !isfinite(x) || x < min || (above && x <= min) || x > (double)r->max) {
        (void)tool_usage(above ? "--%s=%s: expected a number above %lld, up to %lld"
                               : "--%s=%s: expected a number from %lld to %lld",
                         tool_flags[f].name, v, r->min, r->max);
        return false;
    }
    *out = x;
    return true;
}

rp_compilation_config *tool_take_config(tool_args *a, rp_status *st) {
    rp_error err = {0};
    rp_compilation_config *c = a->config;
    *st = rp_config_apply_default_olevel(c, 2, &err);
    if (*st != RP_OK) {
        (void)tool_fail(*st, &err);
        return NULL;
    }
    a->config = NULL;
    return c;
}
