/* Model names. A name never hides a file: `smollm2` is the name, `./smollm2` a path. */
#include "model/resolve.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/str.h"
#include "base/temp.h"
#include "model/fetch.h"

enum { FETCH_PATIENCE_MS = 60 * 60 * 1000 };

char *model_named_path(const char *spec, const char *cache_dir) {
    const model_package *p = model_package_find(spec);
    if (!p || !cache_dir) return NULL;
    base_buf path;
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/models/%s", cache_dir, p->file);
    return base_buf_take(&path);
}

/* Takes dir/file over as *out where it is whole: one that somebody is still copying has another size. */
static bool find_in(base_str dir, const char *sub, const model_package *p, base_buf *out) {
    struct stat info;
    base_buf_clear(out);
    base_buf_printf(out, "%.*s%s/%s", (int)dir.len, dir.ptr, sub, p->file);
    return dir.len > 0 && !out->failed && stat(out->data, &info) == 0 &&
           (uint64_t)info.st_size == p->size;
}

char *model_find_fetched(const char *spec, const char *cache_dir, const char *default_dir) {
    const model_package *p = model_package_find(spec);
    const char *shared = base_env_or_default(BASE_ENV_MODELS);
    base_buf path;
    if (!p) return NULL;
    base_buf_init(&path, 0);
    bool found = find_in(base_str_of(cache_dir ? cache_dir : ""), "/models", p, &path) ||
                 find_in(base_str_of(default_dir ? default_dir : ""), "/models", p, &path);
    for (const char *at = shared; !found && *at;) {
        size_t n = strcspn(at, ":");
        found = find_in((base_str){at, n}, "", p, &path);
        at += n + (at[n] == ':');
    }
    char *out = found ? base_buf_take(&path) : NULL;
    base_buf_done(&path);
    return out;
}

/* One process fetches, the others wait for it. */
static rp_status fetch_or_wait(const model_package *p, const char *path,
                               const model_resolve_options *o, rp_error *err) {
    base_lock *lock = NULL;
    bool waited = false;
    base_buf name;
    base_buf_init(&name, 0);
    base_buf_printf(&name, "%s.lock", path);
    rp_status st = base_buf_status(&name, err);
    if (st == RP_OK) {
        const base_lock_options l = {.path = name.data,
                                     .what = p->name,
                                     .patience_ms = FETCH_PATIENCE_MS,
                                     .wanted = o->wanted,
                                     .user = o->user};
        st = base_lock_take(&l, &lock, &waited, err);
    }
    if (st == RP_OK && !(waited && base_file_exists(path))) st = model_fetch(p, path, o, err);
    base_lock_drop(lock);
    base_buf_done(&name);
    return st;
}

static rp_status fetch_missing(const model_package *p, const char *path,
                               const model_resolve_options *o, rp_error *err) {
    rp_status st;
    rp_error why = {0};
    base_buf dir;
    base_buf_init(&dir, 0);
    base_buf_printf(&dir, "%s/models", o->cache_dir);
    RP_TRY_OUT(base_buf_status(&dir, err));
    st = base_dir_make(dir.data, &why);
    if (st == RP_OK) {
        base_temp_sweep(dir.data, p->file);
        st = fetch_or_wait(p, path, o, &why);
    }
    if (st == RP_CANCELLED)
        st = rp_fail(err, st, "fetching '%s' was stopped", p->name);
    else if (st != RP_OK)
        st = rp_fail(err, st,
                     "cannot fetch '%s': %s: put the file there yourself (%s) or name a .gguf file",
                     p->name, why.text, path);
out:
    base_buf_done(&dir);
    return st;
}

static rp_status open_package(const model_package *p, const model_resolve_options *o,
                              model_source **out, rp_error *err) {
    rp_status st = RP_OK;
    char *path = model_find_fetched(p->name, o->cache_dir, o->default_dir);
    if (!path && !o->cache_dir)
        return rp_fail(err, RP_NOT_FOUND,
                       "'%s' is fetched into the cache folder, and there is none: give --cache-dir",
                       p->name);
    if (!path) path = model_named_path(p->name, o->cache_dir);
    if (!path) return rp_fail(err, RP_NOMEM, "no memory for a path");
    if (!base_file_exists(path)) {
        if (o->offline) {
            st = rp_fail(err, RP_NOT_FOUND,
                         "'%s' was not fetched yet, and this call fetches nothing: run it first, "
                         "or put it at '%s'",
                         p->name, path);
            goto out;
        }
        RP_TRY_OUT(fetch_missing(p, path, o, err));
    }
    RP_TRY_OUT(model_source_open_gguf(path, out, err));
out:
    base_free(path);
    return st;
}

static bool ends_in_gguf(const char *spec) {
    size_t n = strlen(spec);
    return n > 5 && base_same_word(spec + n - 5, ".gguf");
}

rp_status model_resolve(const char *spec, const model_resolve_options *o, model_source **out,
                        rp_error *err) {
    static const char *const names[] = {"smollm2", "synthetic:tiny", "synthetic:smollm2-135m",
                                        "synthetic:llama-1b", "synthetic:llama-8b"};
    struct stat info;
    if (strncmp(spec, MODEL_SYNTH_PREFIX, strlen(MODEL_SYNTH_PREFIX)) == 0)
        return model_source_open_synthetic(spec, out, err);
    const model_package *p = model_package_find(spec);
    if (p) return open_package(p, o, out, err);
    bool found = stat(spec, &info) == 0;
    if (found && S_ISDIR(info.st_mode))
        return rp_fail(err, RP_UNSUPPORTED,
                       "'%s' is a folder: models in safetensors format are not supported yet, "
                       "convert it to .gguf; " MODEL_FORMS,
                       spec);
    if (found || ends_in_gguf(spec)) return model_source_open_gguf(spec, out, err);
    const char *near = base_str_nearest(spec, names, sizeof names / sizeof names[0]);
    return rp_fail(err, RP_CONFIG, "no model '%.120s'%s%s%s: " MODEL_FORMS, spec,
                   near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
}
