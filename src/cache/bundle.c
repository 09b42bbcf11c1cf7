/* Bundles: one zstd stream of
 *   "RPBUNDLE" u32 version, then a record a file: u32 name length, u64 size, name, bytes; a name of
 *   length 0 ends it.
 * Names are relative to the root. The stream carries zstd's own checksum; what matters is that every
 * object inside carries ours. Nothing is held in memory but two buffers. */
#include "cache/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "base/target.h"
#include "base/temp.h"
#include "cache/priv.h"

enum { VERSION = 1, LEVEL = 3, BUFFER = 1 << 17, MAX_NAME = 200 };

static const char magic[8] = "RPBUNDLE";

/* ---- names: the only ones that leave or enter ---- */

static bool is_text_name(const char *z) {
    size_t n = strspn(z, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return n > 0 && z[n] == 0 && *z != '.' && !strstr(z, ".tmp-");
}

static bool is_stored_name(const char *name) {
    base_hash128 key;
    char hex[33], prefix[32];
    for (int kind = 0; kind < CACHE_KIND_COUNT_; kind++) {
        int n = snprintf(prefix, sizeof prefix, "objects/%s/", cache_kind_names[kind]);
        if (strncmp(name, prefix, (size_t)n) != 0) continue;
        if (!cache_parse_hex(name + n, &key, hex)) return false;
        const char *rest = name + n + 32;
        return kind == CACHE_CODE ? !strcmp(rest, ".so") || !strcmp(rest, ".sum") : *rest == 0;
    }
    return strncmp(name, "plans/", 6) == 0 && cache_parse_hex(name + 6, &key, hex) &&
           name[38] == '/' && is_text_name(name + 39);
}

static void put_le(uint8_t *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* ---- export ---- */

typedef struct packer {
    cache_store *s;
    ZSTD_CCtx *z;
    base_target *to;
    const char *path;
    uint8_t *buffer;
    char dir[64]; /* folder being walked, relative to the root */
    cache_bundle_info info;
} packer;

static rp_status fail_file(const char *verb, const char *path, rp_error *err) {
    return rp_fail(err, errno == ENOENT ? RP_NOT_FOUND : RP_IO, "cannot %s %s: %s", verb, path,
                   base_errno_text(errno));
}

static rp_status squeeze(packer *p, const void *data, size_t size, ZSTD_EndDirective end,
                         rp_error *err) {
    ZSTD_inBuffer in = {data, size, 0};
    for (;;) {
        ZSTD_outBuffer out = {p->buffer, BUFFER, 0};
        size_t left = ZSTD_compressStream2(p->z, &out, &in, end);
        if (ZSTD_isError(left))
            return rp_fail(err, RP_NOMEM, "compressing %s: %s", p->path, ZSTD_getErrorName(left));
        RP_TRY(base_target_write(p->to, p->buffer, out.pos, err));
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size) return RP_OK;
    }
}

static rp_status pack_record(packer *p, const char *name, const base_mapping *m, rp_error *err) {
    uint8_t head[12];
    put_le(head, strlen(name), 4);
    put_le(head + 4, m->size, 8);
    RP_TRY(squeeze(p, head, sizeof head, ZSTD_e_continue, err));
    RP_TRY(squeeze(p, name, strlen(name), ZSTD_e_continue, err));
    RP_TRY(squeeze(p, m->data, m->size, ZSTD_e_continue, err));
    p->info.n_files++;
    p->info.n_bytes += m->size;
    return RP_OK;
}

static rp_status pack_file(void *user, const char *name, bool is_dir, rp_error *err) {
    packer *p = user;
    char local[MAX_NAME];
    base_mapping m = {0};
    base_buf path;
    int n = snprintf(local, sizeof local, "%s/%s", p->dir, name);
    if (is_dir || n >= MAX_NAME || !is_stored_name(local)) return RP_OK;
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/%s", p->s->dir, local);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK) st = base_file_map(path.data, &m, err);
    if (st == RP_OK) st = pack_record(p, local, &m, err);
    base_file_unmap(&m);
    base_buf_done(&path);
    return st;
}

static rp_status pack_folder(packer *p, const char *dir, base_dir_fn fn, rp_error *err) {
    base_buf path;
    (void)snprintf(p->dir, sizeof p->dir, "%s", dir);
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/%s", p->s->dir, dir);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK) st = base_dir_list(path.data, fn, p, err);
    base_buf_done(&path);
    return st;
}

static rp_status pack_plan(void *user, const char *name, bool is_dir, rp_error *err) {
    base_hash128 key;
    char hex[33], dir[64];
    if (!is_dir || !cache_parse_hex(name, &key, hex) || name[32]) return RP_OK;
    (void)snprintf(dir, sizeof dir, "plans/%s", hex);
    return pack_folder(user, dir, pack_file, err);
}

static rp_status pack_all(packer *p, rp_error *err) {
    uint8_t head[12] = {0};
    char dir[64];
    memcpy(head, magic, sizeof magic);
    put_le(head + 8, VERSION, 4);
    RP_TRY(squeeze(p, head, sizeof head, ZSTD_e_continue, err));
    for (int kind = 0; kind < CACHE_KIND_COUNT_; kind++) {
        (void)snprintf(dir, sizeof dir, "objects/%s", cache_kind_names[kind]);
        RP_TRY(pack_folder(p, dir, pack_file, err));
    }
    RP_TRY(pack_folder(p, "plans", pack_plan, err));
    memset(head, 0, sizeof head);
    return squeeze(p, head, sizeof head, ZSTD_e_end, err);
}

static rp_status check_on(const cache_store *s, rp_error *err) {
    if (!atomic_load(&s->off)) return RP_OK;
    return rp_fail(err, RP_IO, "the cache is off: %s", s->reason);
}

rp_status cache_export(cache_store *s, const char *path, cache_bundle_info *info, rp_error *err) {
    rp_status st = RP_OK;
    packer p = {.s = s, .path = strcmp(path, "-") == 0 ? "standard output" : path};
    RP_TRY(check_on(s, err));
    p.buffer = base_alloc(BUFFER);
    p.z = ZSTD_createCCtx();
    if (!p.buffer || !p.z || ZSTD_isError(ZSTD_CCtx_setParameter(p.z, ZSTD_c_checksumFlag, 1)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p.z, ZSTD_c_compressionLevel, LEVEL))) {
        st = rp_fail(err, RP_NOMEM, "no memory to export the cache");
        goto out;
    }
    RP_TRY_OUT(base_target_open(path, "a bundle", 0600, &p.to, err));
    st = pack_all(&p, err);
out:
    st = base_target_close(p.to, st, err);
    if (st == RP_OK && info) *info = p.info;
    (void)ZSTD_freeCCtx(p.z);
    base_free(p.buffer);
    return st;
}

/* ---- import ---- */

struct cache_bundle {
    cache_store *s; /* that the files go into */
    ZSTD_DCtx *z;
    int fd;
    ZSTD_inBuffer in; /* what was read and not yet taken; size 0 at the end of the file */
    uint8_t *raw, *buffer;
    size_t pos, end; /* unread bytes of buffer */
    bool ended;      /* the stream is complete, its checksum right */
    const char *path;
    cache_bundle_info info; /* of what is in s */
};

/* Reads on when all that was read is taken. */
static rp_status read_on(cache_bundle *u, rp_error *err) {
    if (u->in.pos < u->in.size) return RP_OK;
    for (;;) {
        ssize_t n = base_sys_fails() ? -1 : read(u->fd, u->raw, BUFFER);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_file("read", u->path, err);
        u->in = (ZSTD_inBuffer){u->raw, (size_t)n, 0};
        return RP_OK;
    }
}

static rp_status refill(cache_bundle *u, rp_error *err) {
    ZSTD_outBuffer out = {u->buffer, BUFFER, 0};
    u->pos = u->end = 0;
    while (out.pos == 0) {
        RP_TRY(read_on(u, err));
        bool last = u->in.size == 0;
        size_t left = ZSTD_decompressStream(u->z, &out, &u->in);
        if (ZSTD_isError(left))
            return rp_fail(err, RP_CORRUPT, "%s is no cache bundle or is damaged (%s)", u->path,
                           ZSTD_getErrorName(left));
        u->ended = left == 0;
        if (out.pos == 0 && (u->ended || last))
            return rp_fail(err, RP_CORRUPT, "%s is cut short; export it again", u->path);
    }
    u->end = out.pos;
    return RP_OK;
}

static rp_status take(cache_bundle *u, void *dst, size_t size, rp_error *err) {
    for (size_t done = 0; done < size;) {
        if (u->pos == u->end) RP_TRY(refill(u, err));
        size_t n = u->end - u->pos < size - done ? u->end - u->pos : size - done;
        memcpy((char *)dst + done, u->buffer + u->pos, n);
        u->pos += n;
        done += n;
    }
    return RP_OK;
}

static rp_status pour(cache_bundle *u, int fd, const char *path, uint64_t size, rp_error *err) {
    for (uint64_t at = 0; at < size;) {
        if (u->pos == u->end) RP_TRY(refill(u, err));
        size_t n = u->end - u->pos < size - at ? u->end - u->pos : (size_t)(size - at);
        RP_TRY(cache_write_at(fd, path, u->buffer + u->pos, n, at, err));
        u->pos += n;
        at += n;
    }
    return RP_OK;
}

static rp_status unpack_file(cache_bundle *u, const char *path, uint64_t size, rp_error *err) {
    base_buf temp;
    base_buf_init(&temp, 0);
    cache_temp_name(u->s, path, &temp);
    rp_status st = base_buf_status(&temp, err);
    int fd = -1;
    if (st == RP_OK && !base_sys_fails())
        fd = open(temp.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (st == RP_OK && fd < 0) st = fail_file("write", path, err);
    if (st == RP_OK) st = pour(u, fd, path, size, err);
    if (st == RP_OK &&
        (base_sys_fails() || fsync(fd) != 0 || base_sys_fails() || rename(temp.data, path) != 0))
        st = fail_file("write", path, err);
    if (fd >= 0) (void)close(fd);
    if (fd >= 0 && st != RP_OK) (void)unlink(temp.data);
    base_buf_done(&temp);
    return st;
}

/* One record; *last when it is the end mark. */
static rp_status unpack_record(cache_bundle *u, bool *last, rp_error *err) {
    uint8_t head[12];
    char name[MAX_NAME + 1];
    RP_TRY(take(u, head, sizeof head, err));
    uint64_t name_size = get_le(head, 4), size = get_le(head + 4, 8);
    *last = name_size == 0;
    if (*last) return RP_OK;
    if (name_size >= MAX_NAME)
        return rp_fail(err, RP_CORRUPT, "%s holds a name of %llu bytes; it is no bundle of ours",
                       u->path, (unsigned long long)name_size);
    RP_TRY(take(u, name, name_size, err));
    name[name_size] = 0;
    if (strlen(name) != name_size || !is_stored_name(name))
        return rp_fail(err, RP_CORRUPT, "%s holds a file that no cache has; nothing more is taken",
                       u->path);
    base_buf path;
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/%s", u->s->dir, name);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK) {
        char *slash = strrchr(path.data, '/');
        *slash = 0;
        st = base_dir_make(path.data, err);
        *slash = '/';
    }
    if (st == RP_OK) st = unpack_file(u, path.data, size, err);
    base_buf_done(&path);
    if (st != RP_OK) return st;
    u->info.n_files++;
    u->info.n_bytes += size;
    return RP_OK;
}

/* Nothing may follow the end mark but the end of the stream with its checksum. */
static rp_status finish(cache_bundle *u, rp_error *err) {
    ZSTD_outBuffer out = {u->buffer, BUFFER, 0};
    bool good = u->pos == u->end;
    while (good && !u->ended) {
        RP_TRY(read_on(u, err));
        size_t left = u->in.size ? ZSTD_decompressStream(u->z, &out, &u->in) : 1;
        u->ended = left == 0;
        good = !ZSTD_isError(left) && out.pos == 0 && u->in.size > 0;
    }
    if (good) RP_TRY(read_on(u, err));
    if (good && u->in.size == 0) return RP_OK;
    return rp_fail(err, RP_CORRUPT, "%s is damaged at its end", u->path);
}

static rp_status check_head(cache_bundle *u, rp_error *err) {
    uint8_t head[12];
    RP_TRY(take(u, head, sizeof head, err));
    if (memcmp(head, magic, sizeof magic) != 0)
        return rp_fail(err, RP_CORRUPT, "%s is no cache bundle", u->path);
    if (get_le(head + 8, 4) == VERSION) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED, "%s has bundle version %u, known is %d; export it again",
                   u->path, (unsigned)get_le(head + 8, 4), VERSION);
}

rp_status cache_bundle_open(const char *path, cache_bundle **out, rp_error *err) {
    rp_status st = RP_OK;
    bool in = strcmp(path, "-") == 0;
    cache_bundle *u = base_alloc(sizeof *u);
    if (!u) return rp_fail(err, RP_NOMEM, "no memory to import %s", path);
    *u = (cache_bundle){.fd = -1, .path = in ? "standard input" : path};
    u->raw = base_alloc(BUFFER);
    u->buffer = base_alloc(BUFFER);
    u->z = ZSTD_createDCtx();
    if (!u->raw || !u->buffer || !u->z) {
        st = rp_fail(err, RP_NOMEM, "no memory to import %s", u->path);
        goto out;
    }
    if (!base_sys_fails())
        u->fd = in ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (u->fd < 0) {
        st = fail_file("read", u->path, err);
        goto out;
    }
    RP_TRY_OUT(check_head(u, err));
    *out = u;
    u = NULL;
out:
    cache_bundle_close(u);
    return st;
}

void cache_bundle_close(cache_bundle *u) {
    if (!u) return;
    if (u->fd >= 0) (void)close(u->fd);
    (void)ZSTD_freeDCtx(u->z);
    base_free(u->raw);
    base_free(u->buffer);
    base_free(u);
}

static rp_status unpack_all(cache_bundle *u, rp_error *err) {
    for (bool last = false; !last;) RP_TRY(unpack_record(u, &last, err));
    return finish(u, err);
}

rp_status cache_bundle_unpack(cache_bundle *u, cache_store *s, cache_bundle_info *info,
                              rp_error *err) {
    rp_error why = {0};
    RP_TRY(check_on(s, err));
    u->s = s;
    rp_status st = unpack_all(u, &why);
    if (st == RP_OK && info) *info = u->info;
    if (st == RP_OK) return st;
    if (u->info.n_files == 0) return rp_fail(err, st, "%s", why.text);
    return rp_fail(err, st, "%s; files taken ahead of that: %llu", why.text,
                   (unsigned long long)u->info.n_files);
}

rp_status cache_import(cache_store *s, const char *path, cache_bundle_info *info, rp_error *err) {
    cache_bundle *b = NULL;
    RP_TRY(cache_bundle_open(path, &b, err));
    rp_status st = cache_bundle_unpack(b, s, info, err);
    cache_bundle_close(b);
    return st;
}
