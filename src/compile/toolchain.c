/* Runs `cc` in a scratch folder of its own; the shared object goes into the cache. */
#include "compile/toolchain.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/sys.h"

static atomic_uint_fast64_t n_runs;

uint64_t compile_toolchain_runs(void) {
    return atomic_load(&n_runs);
}

static rp_status ask_version(compile_toolchain *t, rp_error *err) {
    base_buf out;
    int code = 0;
    const char *argv[] = {t->path, "--version", NULL};
    base_buf_init(&out, 0);
    rp_status st = base_spawn(argv, &out, &code, err);
    if (st == RP_OK && out.data) {
        char *end = strchr(out.data, '\n');
        t->version = base_strndup(out.data, end ? (size_t)(end - out.data) : out.len);
        t->family = strstr(out.data, "clang") ? GEN_CC_CLANG : GEN_CC_GCC;
    }
    base_buf_done(&out);
    if (st == RP_OK && (code != 0 || !t->version))
        st = rp_fail(err, RP_UNSUPPORTED,
                     "%s --version exited with %d; set REPRISE_CC to a C compiler", t->path, code);
    return st;
}

static const char *const names[] = {"cc", "gcc", "clang"};

const char *compile_toolchain_tried(char *out, size_t size) {
    const char *chosen = base_env_get(BASE_ENV_CC), *path = base_env_get(BASE_ENV_PATH);
    size_t n = path ? strlen(path) : 0;
    char in[160];
    (void)snprintf(in, sizeof in, n ? "PATH=%.120s%s" : "an empty PATH", n ? path : "",
                   n > 120 ? "..." : "");
    if (!chosen)
        (void)snprintf(out, size, "no cc, gcc or clang in %s", in);
    else if (strchr(chosen, '/'))
        (void)snprintf(out, size, "REPRISE_CC=%.160s is no program", chosen);
    else
        (void)snprintf(out, size, "REPRISE_CC=%.160s is not in %s", chosen, in);
    return chosen ? "correct or unset REPRISE_CC" : "install gcc or set REPRISE_CC";
}

rp_status compile_toolchain_find(compile_toolchain *out, rp_error *err) {
    compile_toolchain t = {0};
    const char *chosen = base_env_get(BASE_ENV_CC);
    if (chosen) t.path = base_find_program(chosen);
    for (size_t i = 0; !t.path && !chosen && i < sizeof names / sizeof *names; i++)
        t.path = base_find_program(names[i]);
    if (t.path) {
        rp_status st = ask_version(&t, err);
        if (st != RP_OK) {
            compile_toolchain_done(&t);
            return st;
        }
    }
    *out = t;
    return RP_OK;
}

void compile_toolchain_done(compile_toolchain *t) {
    base_free(t->path);
    base_free(t->version);
    *t = (compile_toolchain){0};
}

/* --- scratch -------------------------------------------------------------------- */

static const char scratch_prefix[] = "reprise-cc-";
enum { STALE_SECONDS = 3600 };

/* A folder of ours that a killed process left: nothing else has this name, this owner and this age. */
static rp_status remove_stale(void *user, const char *name, bool is_dir, rp_error *err) {
    struct stat info;
    base_buf b;
    if (!is_dir || strncmp(name, scratch_prefix, sizeof scratch_prefix - 1) != 0) return RP_OK;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s", (const char *)user, name);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK && lstat(b.data, &info) == 0 && S_ISDIR(info.st_mode) &&
        info.st_uid == geteuid() && time(NULL) - info.st_mtime > STALE_SECONDS) {
        base_log(RP_LOG_DEBUG, "%s was left by a process that was killed: removed", b.data);
        st = base_path_remove(b.data, err);
    }
    base_buf_done(&b);
    return st;
}

/* Once a process, which then starts a compiler: the cost does not show. */
static void remove_all_stale(const char *tmp) {
    static atomic_flag done = ATOMIC_FLAG_INIT;
    rp_error ignored = {0};
    if (atomic_flag_test_and_set(&done)) return;
    if (base_dir_list(tmp, remove_stale, (void *)(uintptr_t)tmp, &ignored) != RP_OK)
        base_log(RP_LOG_DEBUG, "old scratch stays in %s: %s", tmp, ignored.text);
}

static rp_status scratch_dir(char *out, size_t size, rp_error *err) {
    const char *tmp = base_env_get(BASE_ENV_TMPDIR) ? base_env_get(BASE_ENV_TMPDIR) : "/tmp";
    base_buf b;
    remove_all_stale(tmp);
    base_buf_init(&b, size);
    base_buf_printf(&b, "%s/%sXXXXXX", tmp, scratch_prefix);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) {
        memcpy(out, b.data, b.len + 1);
        if (!mkdtemp(out))
            st = rp_fail(err, RP_IO, "cannot make a scratch folder in %s: %s; set TMPDIR", tmp,
                         base_errno_text(errno));
    }
    base_buf_done(&b);
    return st;
}

/* --- running --------------------------------------------------------------------- */

static rp_status run_cc(const compile_toolchain *t, gen_isa isa, const char *c, const char *so,
                        rp_error *err) {
    const char *argv[48];
    size_t n = 0, n_flags = 0;
    const char *const *flags = gen_isa_flags(isa, t->family, &n_flags);
    argv[n++] = t->path;
    for (size_t i = 0; i < n_flags && n < 32; i++) argv[n++] = flags[i];
    static const char *const fixed[] = {
        "-w", "-shared", "-fPIC", "-fvisibility=default", "-nostartfiles", "-x", "c"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[n++] = fixed[i];
    argv[n++] = c;
    argv[n++] = "-o";
    argv[n++] = so;
    argv[n] = NULL;
    base_buf out;
    int code = 0;
    base_buf_init(&out, 1 << 20);
    atomic_fetch_add(&n_runs, 1);
    rp_status st = base_spawn_while(argv, t->wanted, t->user, &out, &code, err);
    if (st == RP_OK && code != 0) {
        const char *bad = out.data ? strstr(out.data, "error") : NULL;
        st = rp_fail(
            err, RP_INTERNAL,
            "%s failed on generated code (exit %d): %.200s; REPRISE_CC names another compiler",
            t->path, code,
            bad        ? bad
            : out.data ? out.data
                       : "no message");
    }
    base_buf_done(&out);
    return st;
}

static rp_status write_source(const char *path, const char *source, rp_error *err) {
    rp_error why = {0};
    rp_status st = base_file_write_atomic(path, source, strlen(source), &why);
    if (st == RP_OK) return RP_OK;
    return rp_fail(err, st, "%s; compiling needs room there, or set TMPDIR", why.text);
}

rp_status compile_toolchain_run(const compile_toolchain *t, const char *source, gen_isa isa,
                                base_hash128 key, cache_store *store, rp_error *err) {
    char dir[512], c[544], so[544];
    struct stat info;
    rp_error ignored = {0};
    if (!t->path) {
        char tried[400];
        const char *cure = compile_toolchain_tried(tried, sizeof tried);
        return rp_fail(err, RP_UNSUPPORTED, "no C compiler (%s); %s", tried, cure);
    }
    if (t->wanted && !t->wanted(t->user))
        return rp_fail(err, RP_CANCELLED, "compiling was stopped");
    RP_TRY(scratch_dir(dir, sizeof dir, err));
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/piece.c%c%s/piece.so", dir, 0, dir);
    rp_status st = base_buf_status(&b, err);
    char *path = NULL;
    if (st != RP_OK) goto out;
    size_t split = strlen(b.data) + 1;
    memcpy(c, b.data, split);
    memcpy(so, b.data + split, b.len - split + 1);
    RP_TRY_OUT(write_source(c, source, err));
    RP_TRY_OUT(run_cc(t, isa, c, so, err));
    if (stat(so, &info) != 0 && errno == ENOENT)
        RP_TRY_OUT(rp_fail(err, RP_INTERNAL,
                           "%s ended well and wrote nothing; REPRISE_CC names another compiler",
                           t->path));
    RP_TRY_OUT(cache_put_code(store, key, GEN_ISA_BIT(isa), so, &path, err));
out:
    base_free(path);
    base_buf_done(&b);
    /* Memory may have been short for a moment only; a folder left in TMPDIR after that harms nobody. */
    if (base_path_remove(dir, &ignored) != RP_OK && base_path_remove(dir, &ignored) != RP_OK)
        base_log(RP_LOG_DEBUG, "%s is left behind: %s", dir, ignored.text);
    return st;
}
