/* Every flag of the command that takes a number, by the table of flags: below, at and above its range. */
#include "support/check.h"

#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "base/spawn.h"
#include "config/table.h"
#include "tools/args.h"

static const tool_flag_info flags[] = {
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
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

/* What a command says of --flag=value, ahead of anything that it would do: the model is not there. */
static int say(const tool_flag_info *f, const char *value, base_buf *out) {
    const char *command = getenv("REPRISE");
    char flag[160];
    (void)snprintf(flag, sizeof flag, "--%s=%s", f->name, value);
    const char *argv[9] = {command ? command : "build/reprise"};
    size_t n = 1;
    if (f->where & TOOL_RUN) {
        argv[n++] = "run";
        argv[n++] = "absent.gguf";
        argv[n++] = "hi";
    } else if (f->where & TOOL_SCORE) {
        argv[n++] = "score";
        argv[n++] = "absent.gguf";
        argv[n++] = "--prompt=a";
        argv[n++] = "--continuation=b";
    } else {
        argv[n++] = f->where & TOOL_EVAL      ? "eval"
                    : f->where & TOOL_EXPLAIN ? "explain"
                    : f->where & TOOL_BENCH   ? "bench"
                                              : "bisect";
        argv[n++] = f->where & TOOL_EVAL ? "absent.ir" : "absent.gguf";
    }
    argv[n] = flag;
    int code = -1;
    rp_error err = {0};
    base_buf_init(out, 0);
    CHECK_OK(base_spawn(argv, out, &code, &err), &err);
    return code;
}

/* As typed for a flag of its own; a setting's value is told as JSON. */
static void refused(const tool_flag_info *f, const char *value, const char *name,
                    const char *expected) {
    base_buf out;
    char start[120], end[300];
    int code = say(f, value, &out);
    (void)snprintf(start, sizeof start, "reprise: %s=%s", name, f->key ? "" : value);
    (void)snprintf(end, sizeof end, ": expected %s\n", expected);
    size_t n = strlen(end);
    if (code != 2 || strncmp(out.data, start, strlen(start)) != 0 || out.len < n ||
        strcmp(out.data + out.len - n, end) != 0)
        fail_msg("--%s=%s gives %d and %s, not %s...%s", f->name, value, code, out.data, start,
                 end);
    base_buf_done(&out);
}

/* Goes on to the model. */
static void taken(const tool_flag_info *f, const char *value) {
    base_buf out;
    int code = say(f, value, &out);
    if (code != 1 || !strstr(out.data, "absent."))
        fail_msg("--%s=%s gives %d and %s", f->name, value, code, out.data);
    base_buf_done(&out);
}

/* v + by, which may be one more than a long long holds. */
static const char *whole(long long v, int by, char text[40]) {
    if (by > 0 && v == INT64_MAX)
        (void)snprintf(text, 40, "9223372036854775808");
    else
        (void)snprintf(text, 40, "%lld", v + by);
    return text;
}

static void own_numbers_have_their_range(void **state) {
    unsigned n = 0;
    (void)state;
    for (const tool_flag_info *f = flags; f < flags + N_FLAGS; f++) {
        const tool_range *r = &f->range;
        bool above = r->kind == TOOL_ABOVE;
        char expected[120], name[80], text[40];
        if (r->kind == TOOL_ANY) continue;
        n++;
        (void)snprintf(name, sizeof name, "--%s", f->name);
        (void)snprintf(expected, sizeof expected,
                       above ? "a number above %lld, up to %lld" : "a number from %lld to %lld",
                       r->min, r->max);
        taken(f, whole(r->max, 0, text));
        if (above)
            refused(f, whole(r->min, 0, text), name, expected);
        else
            taken(f, whole(r->min, 0, text));
        if (r->kind == TOOL_INT) {
            refused(f, whole(r->min, -1, text), name, expected);
            refused(f, whole(r->max, 1, text), name, expected);
            refused(f, "1.5", name, expected);
        } else {
            (void)snprintf(text, sizeof text, "%.17g", nextafter((double)r->min, above ? 1 : -1));
            if (above)
                taken(f, text);
            else
                refused(f, text, name, expected);
            (void)snprintf(text, sizeof text, "%.17g", nextafter((double)r->max, DBL_MAX));
            refused(f, text, name, expected);
            refused(f, "nan", name, expected);
        }
        refused(f, "", name, expected);
        refused(f, "1x", name, expected);
    }
    assert_true(n >= 11);
}

/* Of flags that set the configuration: the setting's. */
static void settings_have_theirs(void **state) {
    unsigned n = 0;
    (void)state;
    for (const tool_flag_info *f = flags; f < flags + N_FLAGS; f++) {
        const config_field *c = f->key ? &config_table[config_find(f->key)] : NULL;
        char expected[120], text[40];
        if (!c || (c->kind != CONFIG_KIND_INT && c->kind != CONFIG_KIND_OINT &&
                   c->kind != CONFIG_KIND_FLOAT))
            continue;
        n++;
        config_value_expected(c, expected, sizeof expected);
        refused(f, whole(c->min, -1, text), c->name, expected);
        refused(f, whole(c->max, 1, text), c->name, expected);
        refused(f, "1x", c->name, expected);
        taken(f, whole(c->max, 0, text));
        taken(f, whole(c->min, 0, text));
    }
    assert_true(n >= 8);
}

/* A number without a range would be one that nobody checks. */
static void no_number_is_without_a_range(void **state) {
    static const char *const numbers[] = {"N", "K", "P", "T", "F"};
    (void)state;
    for (const tool_flag_info *f = flags; f < flags + N_FLAGS; f++)
        for (size_t i = 0; f->value && i < sizeof numbers / sizeof *numbers; i++)
            if (strcmp(f->value, numbers[i]) == 0 && f->range.kind == TOOL_ANY && !f->key &&
                f->where != TOOL_CACHE) /* bytes, with K, M and G: cache.t */
                fail_msg("--%s=%s has no range", f->name, f->value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_numbers_have_their_range),
        cmocka_unit_test(settings_have_theirs),
        cmocka_unit_test(no_number_is_without_a_range),
    };
    return cmocka_run_group_tests_name("cli_flags", tests, NULL, NULL);
}
