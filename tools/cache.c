/* reprise cache ls|verify|why|dir|prune|export|import. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/output.h"

typedef struct listing {
    const tool_args *a;
    uint64_t n, bytes, n_bad;
    bool verify, failed;
} listing;

static bool on_entry(void *user, const rp_cache_entry *e) {
    listing *l = user;
    l->n++;
    l->bytes += e->size;
    l->n_bad += !e->ok;
    if (l->a->json) {
        json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:b,s:o,s:o,s:o,s:I,s:I}", "kind", e->kind, "key",
                              e->key, "size", (json_int_t)e->size, "mtime", (json_int_t)e->mtime,
                              "ok", (int)e->ok, "reason", tool_json_text(e->ok ? NULL : e->reason),
                              "model", tool_json_text(e->model), "settings",
                              tool_json_text(e->settings), "code_size", (json_int_t)e->code_size,
                              "weights_size", (json_int_t)e->weights_size);
        l->failed |= !tool_event("object", o, 10);
        return !l->failed;
    }
    char day[32] = "";
    struct tm tm;
    time_t t = (time_t)e->mtime;
    if (gmtime_r(&t, &tm)) (void)strftime(day, sizeof day, "%Y-%m-%d %H:%M", &tm);
    if (l->verify && e->ok) return true;
    (void)printf("%-8s %s %12" PRIu64 "  %s%s%s%s%s", e->kind, e->key, e->size, day,
                 e->model ? "  " : "", e->model ? e->model : "", e->settings ? "  " : "",
                 e->settings ? e->settings : "");
    if (e->code_size || e->weights_size)
        (void)printf("  code %" PRIu64 " weights %" PRIu64, e->code_size, e->weights_size);
    (void)printf("%s%s\n", e->ok ? "" : "  BAD: ", e->ok || !e->reason ? "" : e->reason);
    return true;
}

static bool add_share(void *user, const rp_cache_share *s) {
    return json_object_set_new(user, s->what,
                               json_pack("{s:I,s:I}", "files", (json_int_t)s->files, "bytes",
                                         (json_int_t)s->bytes)) == 0;
}

static bool note_share(void *user, const rp_cache_share *s) {
    if (s->files)
        tool_note(user, "  %-10s %8" PRIu64 " files %14" PRIu64 " bytes", s->what, s->files,
                  s->bytes);
    return true;
}

static int list(tool_args *a, rp_cache *c, bool verify) {
    listing l = {.a = a, .verify = verify};
    rp_error err = {0};
    rp_status st = rp_cache_list(c, verify, on_entry, &l, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    json_t *takes = a->json ? json_object() : NULL;
    if (a->json) {
        st = rp_cache_usage(c, add_share, takes, &err);
        l.failed |=
            !tool_event("summary",
                        json_pack("{s:o,s:I,s:I,s:I,s:o}", "dir", tool_json_text(rp_cache_dir(c)),
                                  "objects", (json_int_t)l.n, "bytes", (json_int_t)l.bytes, "bad",
                                  (json_int_t)l.n_bad, "takes", takes),
                        10);
    } else if (verify) {
        (void)printf("%" PRIu64 " objects, %" PRIu64 " bad\n", l.n, l.n_bad);
    } else {
        tool_note(a, "%" PRIu64 " objects, %" PRIu64 " bytes in %s", l.n, l.bytes, rp_cache_dir(c));
        st = rp_cache_usage(c, note_share, a, &err);
    }
    if (st != RP_OK) return tool_fail(st, &err);
    if (verify && l.n_bad)
        return tool_error("%" PRIu64 " of %" PRIu64
                          " objects were bad; they are in %s/quarantine and will be made again",
                          l.n_bad, l.n, rp_cache_dir(c));
    return l.failed ? TOOL_EXIT_FAILED : 0;
}

/* --- why --- */

enum { MAX_SHOWN = 48 };

/* A value of a factor as one short piece of text, cut at its end, never inside of a character. */
static bool put_value(const json_t *v) {
    const char *z = json_string_value(v);
    if (!z) {
        (void)fputs("(none)", stdout);
        return false;
    }
    size_t n = strlen(z);
    bool quoted = !(*z && strchr("\"[{", *z)), cut = n > MAX_SHOWN;
    for (n = cut ? MAX_SHOWN : n; cut && n && ((unsigned char)z[n] & 0xC0) == 0x80;) n--;
    if (quoted) (void)putchar('"');
    for (size_t i = 0; i < n; i++)
        (void)putchar((unsigned char)z[i] < ' ' ? ' ' : z[i]); /* of several lines, too */
    (void)printf("%s%s", cut ? "..." : "", quoted ? "\"" : "");
    return cut;
}

/* The differences of one plan, or of two objects, a line each; whether a value was cut. */
static bool print_differences(const json_t *o, const char *whose) {
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const json_t *key = json_object_get(o, kind ? "key" : "plan");
    const json_t *differ = json_object_get(o, "differ"), *d;
    int n = (int)json_integer_value(json_object_get(o, "factors"));
    bool cut = false;
    size_t i;
    (void)printf("%s %.12s%s: ", kind ? kind : "plan", json_string_value(key), whose);
    if (json_array_size(differ) == 0)
        (void)printf("all %d factors equal\n", n);
    else
        (void)printf("%zu of %d factors differ\n", json_array_size(differ), n);
    json_array_foreach((json_t *)(uintptr_t)differ, i, d) {
        (void)printf("  %s ", json_string_value(json_object_get(d, "factor")));
        cut |= put_value(json_object_get(d, "stored"));
        (void)fputs(" -> ", stdout);
        cut |= put_value(json_object_get(d, "now"));
        (void)putchar('\n');
    }
    return cut;
}

static int print_why(tool_args *a, const char *text) {
    json_t *all = json_loads(text, 0, NULL), *o;
    bool cut = false, good = all != NULL;
    size_t i;
    if (json_is_object(all)) { /* two that were compared */
        char whose[32];
        (void)snprintf(whose, sizeof whose, " -> %.12s",
                       json_string_value(json_object_get(all, "with")));
        if (a->json)
            good = tool_event("why", json_incref(all), 10);
        else
            cut = print_differences(all, whose);
    }
    json_array_foreach(json_is_array(all) ? all : NULL, i, o) {
        bool same = json_is_true(json_object_get(o, "same_model"));
        if (a->json)
            good &= tool_event("why", json_incref(o), 10);
        else
            cut |= print_differences(o, same ? "" : " (another model)");
    }
    if (json_is_array(all) && json_array_size(all) == 0 && !a->json)
        (void)puts("no plan is stored");
    if (cut) tool_note(a, "values that end in ... are cut; --json has them whole");
    json_decref(all);
    return good ? 0 : TOOL_EXIT_FAILED;
}

/* The start of a key, as `cache ls` prints it. */
static bool is_key(const char *z) {
    size_t n = strspn(z, "0123456789abcdef");
    return n >= 4 && !z[n];
}

static int why(tool_args *a, rp_cache *c) {
    rp_error err = {0};
    rp_status st = RP_OK;
    char *text = NULL;
    if (a->n_pos < 2)
        return tool_usage(
            "cache why needs a model, or two entries: reprise cache why MODEL, reprise "
            "cache why KEY KEY");
    if (a->n_pos == 2 && is_key(a->pos[1]) && access(a->pos[1], F_OK) != 0)
        return tool_usage("cache why %s: one key is compared with another, or a model with all: "
                          "reprise cache why KEY KEY",
                          a->pos[1]);
    if (a->n_pos > 2) {
        st = rp_cache_compare_json(c, a->pos[1], a->pos[2], &text, &err);
    } else {
        rp_compilation_config *cfg = tool_take_config(a, &st);
        if (!cfg) return rp_status_exit_code(st);
        st = rp_cache_why_json(c, a->pos[1], cfg, &text, &err);
    }
    if (st != RP_OK) return tool_fail(st, &err);
    int rc = print_why(a, text);
    rp_engine_text_free(text);
    return rc;
}

/* "500M" in bytes. */
static bool bytes_of(const char *z, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    unsigned long long v = z && *z >= '0' && *z <= '9' ? strtoull(z, &end, 10) : 0;
    if (!end || end == z) return false;
    unsigned shift = *end == 'K' || *end == 'k'   ? 10
                     : *end == 'M' || *end == 'm' ? 20
                     : *end == 'G' || *end == 'g' ? 30
                                                  : 0;
    if (shift) end++;
    if (*end || errno || v > UINT64_MAX >> shift) return false;
    *out = v << shift;
    return true;
}

static int prune(tool_args *a, rp_cache *c) {
    uint64_t max = 0, removed = 0, left = 0;
    rp_error err = {0};
    const char *z = tool_get(a, TOOL_FLAG_MAX_BYTES);
    if (!z)
        return tool_usage(
            "cache prune needs --max-bytes=N: the bytes that may stay, for example 500M");
    if (!bytes_of(z, &max))
        return tool_usage("--max-bytes=%s: expected bytes, up to 2^64 - 1, as in 4096, 500K, 500M "
                          "or 2G",
                          z);
    rp_status st = rp_cache_prune(c, max, &removed, &left, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (a->json)
        return tool_event("summary",
                          json_pack("{s:I,s:I}", "removed", (json_int_t)removed, "bytes_left",
                                    (json_int_t)left),
                          10)
                   ? 0
                   : TOOL_EXIT_FAILED;
    (void)printf("%" PRIu64 " objects removed, %" PRIu64 " bytes left\n", removed, left);
    return 0;
}

static int bundle(tool_args *a, rp_cache *c, bool out) {
    uint64_t files = 0, bytes = 0;
    rp_error err = {0};
    const char *verb = out ? "export" : "import";
    if (a->n_pos < 2) return tool_usage("cache %s needs a file: reprise cache %s FILE", verb, verb);
    bool piped = out && strcmp(a->pos[1], "-") == 0;
    if (piped && a->json)
        return tool_usage(
            "cache export - writes the bundle to standard output, where the events of "
            "--json go: leave one out");
    rp_status st = out ? rp_cache_export(c, a->pos[1], &files, &bytes, &err)
                       : rp_cache_import(c, a->pos[1], &files, &bytes, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (a->json)
        return tool_event("summary",
                          json_pack("{s:o,s:I,s:I}", "file", tool_json_text(a->pos[1]), "files",
                                    (json_int_t)files, "bytes", (json_int_t)bytes),
                          10)
                   ? 0
                   : TOOL_EXIT_FAILED;
    if (piped)
        tool_note(a, "%" PRIu64 " files, %" PRIu64 " bytes exported", files, bytes);
    else
        (void)printf("%" PRIu64 " files, %" PRIu64 " bytes %sed\n", files, bytes, verb);
    return 0;
}

static const char *const verbs[] = {"ls", "verify", "why", "dir", "prune", "export", "import"};
enum { LS, VERIFY, WHY, DIR_, PRUNE, EXPORT, IMPORT, VERBS };

static const char *verb_at(size_t i) {
    return verbs[i];
}

static int do_verb(tool_args *a, rp_cache *c, int verb) {
    switch (verb) {
    case LS:
    case VERIFY: return list(a, c, verb == VERIFY);
    case WHY: return why(a, c);
    case PRUNE: return prune(a, c);
    case EXPORT:
    case IMPORT: return bundle(a, c, verb == EXPORT);
    default:
        if (a->json)
            return tool_event("summary", json_pack("{s:o}", "dir", tool_json_text(rp_cache_dir(c))),
                              10)
                       ? 0
                       : TOOL_EXIT_FAILED;
        (void)puts(rp_cache_dir(c));
        return 0;
    }
}

/* Whether "cache_dir=..", or a JSON object, names the folder and nothing else. */
static bool names_folder_alone(const char *value) {
    static const char name[] = "cache_dir";
    size_t n = strlen(name);
    if (*value != '{') return strncmp(value, name, n) == 0 && (!value[n] || value[n] == '=');
    json_t *o = json_loads(value, 0, NULL);
    bool alone = json_object_get(o, name) && json_object_size(o) == 1;
    json_decref(o);
    return alone;
}

/* A flag that the verb would not look at. Only why has a model, which settings are of. */
static int check_flags(const tool_args *a, int verb) {
    for (size_t i = 0; i < a->n_given; i++) {
        tool_flag f = a->given[i].flag;
        bool setting = f != TOOL_FLAG_CACHE_DIR && (tool_flags[f].key || f == TOOL_FLAG_OLEVEL);
        bool settings = f == TOOL_FLAG_CC && !names_folder_alone(a->given[i].value);
        if ((setting || settings) && verb != WHY)
            return tool_usage("cache %s does nothing with --%s%s%s, a setting of a model: leave it "
                              "out",
                              verbs[verb], tool_flags[f].name, settings ? " " : "",
                              settings ? a->given[i].value : "");
        if (f == TOOL_FLAG_MAX_BYTES && verb != PRUNE)
            return tool_usage("cache %s does nothing with --max-bytes, which is for cache prune",
                              verbs[verb]);
    }
    return 0;
}

int tool_cache(tool_args *a) {
    rp_cache *c = NULL;
    rp_error err = {0};
    int verb = 0;
    while (verb < VERBS && strcmp(a->pos[0], verbs[verb]) != 0) verb++;
    if (verb == VERBS) {
        const char *near = tool_nearest(a->pos[0], verb_at, VERBS);
        return tool_usage("unknown cache command '%s'; %s%s", a->pos[0],
                          near ? "the nearest is " : "see reprise help cache", near ? near : "");
    }
    if (a->n_pos > 2 && verb != WHY)
        return tool_usage("cache %s takes one argument: '%s' is one too many", a->pos[0],
                          a->pos[2]);
    if (a->n_pos > 1 && verb != WHY && verb != EXPORT && verb != IMPORT)
        return tool_usage("cache %s takes no more: '%s' is one argument too many", a->pos[0],
                          a->pos[1]);
    int wrong = check_flags(a, verb);
    if (wrong) return wrong;
    char *json = NULL, *dir = NULL;
    json_t *typed = NULL;
    if (rp_config_get_json(a->config, "cache_dir", &json, NULL) == RP_OK)
        typed = json_loads(json, JSON_DECODE_ANY, NULL);
    const char *z = json_string_value(typed);
    dir = z && *z ? strdup(z) : NULL;
    json_decref(typed);
    rp_config_text_free(json);
    rp_status st = rp_cache_open(dir, &c, &err);
    free(dir);
    if (st != RP_OK) return tool_fail(st, &err);
    if (rp_cache_off_reason(c) && verb != DIR_ && verb != IMPORT) {
        int rc = tool_error("the cache is not usable: %s", rp_cache_off_reason(c));
        rp_cache_close(c);
        return rc;
    }
    int rc = do_verb(a, c, verb);
    rp_cache_close(c);
    return rc;
}
