/* Runs `cc` in a private scratch folder, which is its TMPDIR, too, so that a compiler that is killed leaves its own
 * temporary files there; the shared object goes into the cache. */
#include "compile/toolchain.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/number.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/temp.h"
#include "cache/key.h"
#include "compile/late.h"
#include "compile/link.h"
#include "compile/steps.h"

/* Of every unit, beside those of its instruction set. */
const char *const compile_toolchain_options[] = {
    "-w", "-fPIC", "-fvisibility=default", "-nostdlib", "-x", "c", NULL};

static atomic_uint_fast64_t n_runs;

uint64_t compile_toolchain_runs(void) {
    return atomic_load(&n_runs);
}

/* --- time -------------------------------------------------------------------------- */

struct atomic_late {
    atomic_bool is;
};

static void say_late(const compile_toolchain *t, char *out, size_t size) {
    (void)base_snprintf(out, size, "%.200s did not end within %g s and was killed", t->path,
                        (double)(t->limit_ns < 0 ? t->asked_ns : t->limit_ns) / 1e9);
}

static const char late_cure[] = "REPRISE_CC_TIMEOUT gives it more time, REPRISE_CC names another";

static void lose_late(compile_toolchain *t) {
    say_late(t, t->missing, sizeof t->missing);
    t->cure = late_cure;
    t->told = !compile_late_is_news(t->path);
    base_free(t->path);
    t->path = NULL;
}

bool compile_toolchain_late(compile_toolchain *t) {
    if (!t->late || !atomic_load(&t->late->is) || !t->path) return false;
    lose_late(t);
    return true;
}

/* Nobody waits as long once more. */
static rp_status refuse_late(const compile_toolchain *t, rp_error *err) {
    char text[300];
    say_late(t, text, sizeof text);
    if (t->late) atomic_store(&t->late->is, true);
    return rp_fail(err, RP_UNSUPPORTED, "%s; %s", text, late_cure);
}

static rp_status stop_late(const compile_toolchain *t, bool mute, rp_error *err) {
    compile_late_note(t->path, t->asked_ns, mute);
    return refuse_late(t, err);
}

/* How long a run may take, by what it took before. */
static rp_status take_limit(compile_toolchain *t, rp_error *err) {
    RP_TRY(base_env_seconds(BASE_ENV_CC_TIMEOUT, &t->asked_ns, err));
    t->limit_ns = compile_late_limit(t->path, t->asked_ns);
    return RP_OK;
}

static bool is_given_up(const compile_toolchain *t) {
    return t->path && compile_late_limit(t->path, t->asked_ns) < 0;
}

/* --- what it says ---------------------------------------------------------------------- */

/* Of the source of a custom op, whose name it has in the place of a file's. */
static bool is_of_op(base_str line) {
    static const char head[] = "custom op ";
    return line.len >= sizeof head && memcmp(line.ptr, head, sizeof head - 1) == 0;
}

/* Where the line says error, as compilers do: a name in it may hold the word. */
static const char *find_error(base_str line) {
    static const char word[] = " error: ";
    const size_t n = sizeof word - 1;
    if (line.len >= n - 1 && memcmp(line.ptr, word + 1, n - 1) == 0) return line.ptr;
    const char *at = memmem(line.ptr, line.len, word, n);
    return at ? at + 1 : NULL;
}

/* What a linker says of an object or a symbol. */
static bool is_of_linker(base_str line) {
    return !is_of_op(line) && (memmem(line.ptr, line.len, "ld:", 3) ||
                               memmem(line.ptr, line.len, "undefined reference", 19));
}

/* The line of a compiler's output that says what is wrong: what names an error, or what the linker says ahead of the
 * compiler's note that it failed; else the first one. */
static base_str telling_line(const char *out) {
    base_str first = {"no message", 10};
    for (const char *at = out ? out : ""; *at;) {
        size_t n = strcspn(at, "\n");
        base_str line = {at, n};
        const char *bad = find_error(line);
        if (at == out) first = line;
        if (is_of_linker(line)) return line;
        if (bad && is_of_op(line)) return line;
        if (bad) return (base_str){bad, n - (size_t)(bad - at)};
        at += n + (at[n] != 0);
    }
    return first;
}

/* Of the shell that was to start it, or of a program that was to start another one. */
static bool could_not_start(int code) {
    return code == 126 || code == 127;
}

static rp_status fail_start(const char *program, int code, const char *said, rp_status st,
                            rp_error *err) {
    base_str line = telling_line(said);
    return rp_fail(err, st, "%s cannot be run (exit %d): %.*s; set REPRISE_CC to a C compiler",
                   program, code, (int)(line.len < 200 ? line.len : 200), line.ptr);
}

/* --- what it is ------------------------------------------------------------------------ */

static rp_status ask_version(compile_toolchain *t, rp_error *err) {
    base_buf out;
    int code = 0;
    bool late = false;
    rp_error why = {0};
    const char *argv[] = {t->path, "--version", NULL};
    const base_spawn_options o = {.limit_ns = t->asked_ns, .out_late = &late};
    if (t->limit_ns < 0) return refuse_late(t, err);
    base_buf_init(&out, 1 << 16);
    rp_status st = base_spawn_with(argv, &o, &out, &code, &why);
    if (st != RP_OK) st = late ? stop_late(t, true, err) : rp_fail(err, st, "%s", why.text);
    if (st == RP_OK && out.data) {
        char *end = strchr(out.data, '\n');
        t->version = base_strndup(out.data, end ? (size_t)(end - out.data) : out.len);
    }
    if (st == RP_OK && could_not_start(code))
        st = fail_start(t->path, code, out.data, RP_UNSUPPORTED, err);
    else if (st == RP_OK && (code != 0 || !t->version))
        st = rp_fail(err, RP_UNSUPPORTED,
                     "%s --version exited with %d; set REPRISE_CC to a C compiler", t->path, code);
    base_buf_done(&out);
    return st;
}

/* What changes when the program at path is replaced, or looks for its own elsewhere. What a wrapper calls may be replaced unseen. */
static rp_status key_of_program(const char *path, cache_key *k, rp_error *err) {
    struct stat info;
    if (stat(path, &info) != 0) return rp_fail(err, RP_IO, "cannot look at %s", path);
    RP_TRY(cache_key_add(k, "learned", "version and steps", err));
    RP_TRY(cache_key_add(k, "program", path, err));
    RP_TRY(cache_key_add(k, "COMPILER_PATH", base_env_or_default(BASE_ENV_COMPILER_PATH), err));
    RP_TRY(cache_key_add(k, "GCC_EXEC_PREFIX", base_env_or_default(BASE_ENV_GCC_EXEC_PREFIX), err));
    RP_TRY(cache_key_addf(k, err, "size", "%lld", (long long)info.st_size));
    return cache_key_addf(k, err, "changed", "%lld.%09ld", (long long)info.st_mtim.tv_sec,
                          info.st_mtim.tv_nsec);
}

static rp_status ask(compile_toolchain *t, rp_error *err) {
    RP_TRY(ask_version(t, err));
    return compile_steps_ask(t->path, &t->steps, err);
}

/* What is stored: the version's line, then those of the steps. */
static rp_status read_learned(compile_toolchain *t, const char *text, rp_error *err) {
    const char *end = strchrnul(text, '\n');
    t->version = base_strndup(text, (size_t)(end - text));
    t->steps = base_strdup(*end ? end + 1 : end);
    return t->version && t->steps ? RP_OK : rp_fail(err, RP_NOMEM, "what %s is", t->path);
}

static rp_status keep_learned(const compile_toolchain *t, cache_store *store, cache_key *k,
                              rp_error *err) {
    base_buf text;
    base_buf_init(&text, 0);
    base_buf_printf(&text, "%s\n%s", t->version, t->steps);
    rp_status st = base_buf_status(&text, err);
    if (st == RP_OK)
        st = cache_put(store, CACHE_TUNING, cache_key_hash(k), text.data, text.len, err);
    base_buf_done(&text);
    return st == RP_OK ? cache_put_factors(store, CACHE_TUNING, k, err) : st;
}

static void forget(compile_toolchain *t) {
    base_free(t->version);
    base_free(t->steps);
    t->version = t->steps = NULL;
}

/* The version and the steps as the store has them, or else, and where a step's program is gone, as the program says itself, which
 * the store then has. */
static rp_status learn(compile_toolchain *t, cache_store *store, rp_error *err) {
    char *text = NULL;
    size_t size;
    cache_key *k = cache_key_new();
    rp_status st = k ? key_of_program(t->path, k, err) : rp_fail(err, RP_NOMEM, "a key");
    RP_TRY_OUT(st);
    st = cache_get(store, CACHE_TUNING, cache_key_hash(k), &text, &size, err);
    if (st == RP_OK) st = read_learned(t, text, err);
    if (st == RP_OK && !compile_steps_there(t->steps)) {
        forget(t);
        st = RP_NOT_FOUND;
    }
    if (st != RP_NOT_FOUND) goto out;
    RP_TRY_OUT(ask(t, err));
    st = keep_learned(t, store, k, err);
out:
    base_free(text);
    cache_key_free(k);
    return st;
}

/* $REPRISE_CC, or else the first there is of the usual names; NULL: there is none. */
static rp_status find_program(char **out, rp_error *err) {
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *chosen = base_env_get(BASE_ENV_CC);
    if (chosen) return base_program_find(chosen, out, err);
    *out = NULL;
    for (size_t i = 0; !*out && i < sizeof names / sizeof *names; i++)
        RP_TRY(base_program_find(names[i], out, err));
    return RP_OK;
}

static void say_missing(compile_toolchain *t) {
    const char *path = base_env_get(BASE_ENV_PATH);
    size_t n = path ? strlen(path) : 0;
    char in[160];
    (void)snprintf(in, sizeof in, n ? "PATH=%.120s%s" : "an empty PATH", n ? path : "",
                   n > 120 ? "..." : "");
    (void)snprintf(t->missing, sizeof t->missing, "no C compiler (no cc, gcc or clang in %s)", in);
    t->cure = "install gcc or set REPRISE_CC";
}

/* A compiler that was named is wanted: another one, or none, would not be what was asked for. */
static rp_status fail_chosen(const char *chosen, rp_error *err) {
    return rp_fail(err, RP_UNSUPPORTED, "REPRISE_CC=%.160s: %s; %s", chosen,
                   strchr(chosen, '/') ? "there is no such program" : "PATH has no such program",
                   strchr(chosen, ' ') ? "name one program, without arguments"
                                       : "correct or unset it");
}

/* --- scratch -------------------------------------------------------------------- */

static const char scratch_prefix[] = "reprise-cc";

/* Without it nothing can be compiled, which is as if there were no compiler. */
rp_status compile_toolchain_room(compile_toolchain *t, rp_error *err) {
    static atomic_flag swept = ATOMIC_FLAG_INIT;
    rp_error why = {0};
    if (!t->path || t->scratch) return RP_OK;
    if (!atomic_flag_test_and_set(&swept)) cache_scratch_sweep();
    rp_status st = base_temp_dir(scratch_prefix, &t->scratch, &why);
    if (st == RP_NOMEM) return rp_fail(err, st, "%s", why.text);
    if (st == RP_OK) return RP_OK;
    (void)snprintf(t->missing, sizeof t->missing, "no room to compile (%.370s)", why.text);
    t->cure = "give it a folder that can be written";
    base_free(t->path);
    t->path = NULL;
    return RP_OK;
}

/* Memory may have been short for a moment only; a folder that stays is removed by a later compile. */
static void remove_scratch(const compile_toolchain *t) {
    rp_error ignored = {0};
    if (!t->scratch) return;
    if (base_path_remove(t->scratch, &ignored) != RP_OK &&
        base_path_remove(t->scratch, &ignored) != RP_OK)
        base_log(RP_LOG_DEBUG, "%s is left behind: %s", t->scratch, ignored.text);
}

/* One that does not even say what it is, is as if it were not there. */
static rp_status learn_in_time(compile_toolchain *t, cache_store *store, rp_error *err) {
    rp_error why = {0};
    rp_status st = store ? learn(t, store, &why) : ask(t, &why);
    if (st == RP_OK) return st;
    if (st != RP_UNSUPPORTED || !is_given_up(t)) return rp_fail(err, st, "%s", why.text);
    lose_late(t);
    return RP_OK;
}

rp_status compile_toolchain_look(cache_store *store, compile_toolchain *out, rp_error *err) {
    compile_toolchain t = {0};
    rp_status st = RP_OK;
    RP_TRY(find_program(&t.path, err));
    if (!t.path && base_env_get(BASE_ENV_CC)) return fail_chosen(base_env_get(BASE_ENV_CC), err);
    if (!t.path) say_missing(&t);
    if (t.path) st = take_limit(&t, err);
    if (t.path && st == RP_OK) st = learn_in_time(&t, store, err);
    if (t.version && strstr(t.version, "clang")) t.family = GEN_CC_CLANG;
    if (t.path && st == RP_OK) st = base_program_find("ld", &t.linker, err);
    if (t.path && st == RP_OK) {
        t.late = base_alloc(sizeof *t.late);
        if (!t.late)
            st = rp_fail(err, RP_NOMEM, "%s", t.path);
        else
            atomic_init(&t.late->is, t.limit_ns < 0);
    }
    if (st == RP_OK)
        *out = t;
    else
        compile_toolchain_done(&t);
    return st;
}

rp_status compile_toolchain_find(cache_store *store, compile_toolchain *out, rp_error *err) {
    compile_toolchain t;
    RP_TRY(compile_toolchain_look(store, &t, err));
    rp_status st = compile_toolchain_room(&t, err);
    if (st == RP_OK)
        *out = t;
    else
        compile_toolchain_done(&t);
    return st;
}

void compile_toolchain_done(compile_toolchain *t) {
    remove_scratch(t);
    base_free(t->path);
    base_free(t->linker);
    base_free(t->version);
    base_free(t->steps);
    base_free(t->scratch);
    base_free(t->late);
    *t = (compile_toolchain){0};
}

rp_status compile_toolchain_chosen(cache_store *store, char **out, rp_error *err) {
    compile_toolchain t = {0};
    rp_status st = RP_OK;
    *out = NULL;
    if (base_env_get(BASE_ENV_CC)) RP_TRY(find_program(&t.path, err));
    if (t.path) st = take_limit(&t, err);
    if (t.path && st == RP_OK) st = learn_in_time(&t, store, err);
    if (st == RP_OK && *t.missing) { /* nothing is code of this one */
        t.version = base_strdup("late");
        if (!t.version) st = rp_fail(err, RP_NOMEM, "a compiler");
    }
    if (st == RP_OK)
        *out = t.version;
    else
        base_free(t.version);
    base_free(t.steps);
    base_free(t.path);
    return st;
}

bool compile_toolchain_there(void) {
    char *path = NULL;
    rp_error ignored = {0};
    bool none = find_program(&path, &ignored) == RP_OK && !path;
    base_free(path);
    return !none;
}

/* into: see base_spawn_options. */
static rp_status run_programs(const compile_toolchain *t, const char *const *argv,
                              const char *const *into, rp_error *err) {
    bool late = false, second = false;
    const base_spawn_options o = {.tmpdir = t->scratch,
                                  .into = into,
                                  .out_second = &second,
                                  .wanted = t->wanted,
                                  .user = t->user,
                                  .limit_ns = t->limit_ns,
                                  .out_late = &late};
    base_buf out;
    rp_error why = {0};
    int code = 0;
    if (t->late && atomic_load(&t->late->is)) return refuse_late(t, err);
    base_buf_init(&out, 1 << 20);
    rp_status st = base_spawn_with(argv, &o, &out, &code, &why);
    if (late)
        st = stop_late(t, false, err);
    else if (st != RP_OK)
        st = rp_fail(err, st, "%s", why.text);
    else if (t->limit_ns != t->asked_ns)
        compile_late_clear(t->path);
    if (st == RP_OK && code != 0) {
        const char *failed = second && into ? into[0] : argv[0];
        base_str line = telling_line(out.data);
        int n = (int)(line.len < 200 ? line.len : 200);
        if (is_of_op(line))
            st = rp_fail(err, RP_INVALID, "%.*s", n, line.ptr);
        else if (could_not_start(code))
            st = fail_start(failed, code, out.data, RP_INTERNAL, err);
        else
            st = rp_fail(
                err, RP_INTERNAL,
                "%s failed on generated code (exit %d): %.*s; REPRISE_CC names another compiler",
                failed, code, n, line.ptr);
    }
    base_buf_done(&out);
    return st;
}

enum { MAX_ARGS = 48, MAX_FLAGS = 32 };

static rp_status run_driver(const compile_toolchain *t, const char *const *flags, const char *from,
                            const char *to, rp_error *err) {
    const char *argv[MAX_ARGS] = {t->path, t->linker ? "-c" : "-shared", "-pipe"};
    size_t n = 3;
    for (size_t i = 0; flags[i] && i < MAX_FLAGS; i++) argv[n++] = flags[i];
    for (const char *const *o = compile_toolchain_options; *o; o++) argv[n++] = *o;
    argv[n++] = from;
    argv[n++] = "-o";
    argv[n++] = to;
    argv[n] = NULL;
    return run_programs(t, argv, NULL, err);
}

/* What the driver would start, without it. RP_NOT_FOUND: that is not known. */
static rp_status run_steps(const compile_toolchain *t, const char *const *flags, const char *from,
                           const char *to, rp_error *err) {
    compile_steps s = {0};
    rp_status st = RP_NOT_FOUND;
    if (*t->steps && compile_steps_make(t->steps, flags, from, to, &s))
        st = run_programs(t, s.compiler, s.assembler, err);
    compile_steps_done(&s);
    return st;
}

/* From `from` to `to`: an object where it is linked after that. Calls that a compiler makes up (memset) are found in this
 * process. The driver says what is wrong with a text, and knows what has changed since it was asked. */
static rp_status run_cc(const compile_toolchain *t, gen_isa isa, const char *from, const char *to,
                        rp_error *err) {
    const char *const *flags = gen_isa_flags(isa, t->family, NULL);
    rp_error why = {0};
    atomic_fetch_add(&n_runs, 1);
    rp_status st = t->linker ? run_steps(t, flags, from, to, &why) : RP_NOT_FOUND;
    if (why.code && (st == RP_INTERNAL || st == RP_NOT_FOUND))
        base_log(RP_LOG_DEBUG, "%s compiles, which takes longer: %s", t->path, why.text);
    if (st == RP_INTERNAL || st == RP_NOT_FOUND) return run_driver(t, flags, from, to, err);
    return st == RP_OK ? st : rp_fail(err, st, "%s", why.text);
}

/* A tenth of a small unit's time is what compilers do around the linker (of gcc: collect2, a plugin for code that is
 * optimised as it is linked). One that does not know this machine's objects leaves the work to the compiler. */
static rp_status run_linker(const compile_toolchain *t, const char *o, const char *so,
                            rp_error *err) {
    const char *const direct[] = {t->linker, "-shared", o, "-o", so, NULL};
    const char *const asked[] = {t->path, "-shared", "-nostdlib", o, "-o", so, NULL};
    rp_error why = {0};
    rp_status st = run_programs(t, direct, NULL, &why);
    if (st == RP_INTERNAL) {
        base_log(RP_LOG_DEBUG, "%s links, which takes longer: %s", t->path, why.text);
        return run_programs(t, asked, NULL, err);
    }
    return st == RP_OK ? st : rp_fail(err, st, "%s", why.text);
}

static rp_status write_scratch(const char *path, const void *data, size_t size, rp_error *err) {
    rp_error why = {0};
    rp_status st = base_file_write(path, data, size, &why);
    if (st == RP_OK) return RP_OK;
    return rp_fail(err, st, "%s; compiling needs room there, or set TMPDIR", why.text);
}

enum { MAX_OBJECT = 1 << 28 };

/* Here, as nearly always, or by a linker, which takes a tenth of a small unit's time. */
static rp_status link_object(const compile_toolchain *t, const char *o, const char *so,
                             rp_error *err) {
    rp_error why = {0};
    char *object = NULL;
    size_t size = 0;
    base_buf out;
    base_buf_init(&out, 0);
    rp_status st = base_file_read(o, MAX_OBJECT, &object, &size, err);
    if (st == RP_OK) {
        st = compile_link(object, size, &out, &why);
        if (st == RP_OK)
            st = write_scratch(so, out.data, out.len, err);
        else if (st == RP_UNSUPPORTED)
            st = run_linker(t, o, so, err);
        else
            st = rp_fail(err, st, "%s", why.text);
    }
    base_buf_done(&out);
    base_free(object);
    return st;
}

/* The files that a unit goes through. */
typedef struct files {
    base_buf c, o, so;
} files;

static rp_status name_files(files *f, const char *stem, rp_error *err) {
    base_buf_init(&f->c, 0);
    base_buf_init(&f->o, 0);
    base_buf_init(&f->so, 0);
    base_buf_printf(&f->c, "%s.c", stem);
    base_buf_printf(&f->o, "%s.o", stem);
    base_buf_printf(&f->so, "%s.so", stem);
    RP_TRY(base_buf_status(&f->c, err));
    RP_TRY(base_buf_status(&f->o, err));
    return base_buf_status(&f->so, err);
}

static void drop_files(files *f) {
    if (f->c.data) (void)unlink(f->c.data);
    if (f->o.data) (void)unlink(f->o.data);
    if (f->so.data) (void)unlink(f->so.data); /* the store has taken it, or it could not */
    base_buf_done(&f->c);
    base_buf_done(&f->o);
    base_buf_done(&f->so);
}

static rp_status check_written(const compile_toolchain *t, const char *path, rp_error *err) {
    struct stat info;
    if (stat(path, &info) == 0 || errno != ENOENT) return RP_OK;
    return rp_fail(err, RP_INTERNAL,
                   "%s ended well and wrote nothing; REPRISE_CC names another compiler", t->path);
}

/* Compiles at <stem>.c to <stem>.so, which goes into the store. */
static rp_status compile_at(const compile_toolchain *t, const char *stem, const char *source,
                            gen_isa isa, base_hash128 key, cache_store *store, rp_error *err) {
    rp_status st;
    char *path = NULL;
    files f;
    RP_TRY_OUT(name_files(&f, stem, err));
    RP_TRY_OUT(write_scratch(f.c.data, source, strlen(source), err));
    const char *first = t->linker ? f.o.data : f.so.data;
    RP_TRY_OUT(run_cc(t, isa, f.c.data, first, err));
    RP_TRY_OUT(check_written(t, first, err));
    if (t->linker) RP_TRY_OUT(link_object(t, f.o.data, f.so.data, err));
    RP_TRY_OUT(cache_put_code(store, key, GEN_ISA_BIT(isa), f.so.data, &path, err));
out:
    base_free(path);
    drop_files(&f);
    return st;
}

rp_status compile_toolchain_run(const compile_toolchain *t, const char *source, gen_isa isa,
                                base_hash128 key, cache_store *store, rp_error *err) {
    char hex[33];
    base_buf stem;
    if (!t->path) return rp_fail(err, RP_UNSUPPORTED, "%s; %s", t->missing, t->cure);
    if (t->wanted && !t->wanted(t->user))
        return rp_fail(err, RP_CANCELLED, "compiling was stopped");
    base_hash_hex(key, hex);
    base_buf_init(&stem, 0);
    base_buf_printf(&stem, "%s/%s", t->scratch, hex);
    rp_status st = base_buf_status(&stem, err);
    if (st == RP_OK) st = compile_at(t, stem.data, source, isa, key, store, err);
    base_buf_done(&stem);
    return st;
}
