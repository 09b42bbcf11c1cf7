/* Streams a large object to where it will be mapped from. Three places in turn: a temporary file of
 * the store, an unlinked file in TMPDIR, anonymous memory. When one refuses a write, what is written
 * moves to the next; a full disk costs time, never the run. Only the first place is ever published,
 * by fsync and rename: a mapped object is checked by sample, so its bytes must be on disk before its
 * name is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/sys.h"
#include "cache/priv.h"

enum { FLUSH_EVERY = 8 << 20 };

typedef enum sink { IN_STORE, IN_TMP, IN_MEMORY } sink;

struct cache_writer {
    cache_store *s;
    cache_kind kind;
    base_hash128 key;
    sink sink;
    int fd;          /* IN_STORE, IN_TMP */
    uint8_t *memory; /* IN_MEMORY: the whole file */
    char *path;      /* of the object */
    base_buf temp;   /* name of the temporary file in the store; empty when there is none */
    uint64_t size, offset, done,
        flushed;    /* payload: size, where it begins, bytes written, sent to disk */
    uint8_t *head;  /* header and table; offset bytes */
    uint8_t *chunk; /* the chunk being filled */
    size_t in_chunk;
};

static rp_status fail_sink(const char *where, rp_error *err) {
    return rp_fail(err, RP_IO, "cannot write %s: %s", where, base_errno_text(errno));
}

static int open_temp(const char *path) {
    return base_sys_fails() ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
}

static rp_status open_store(cache_writer *w, rp_error *err) {
    base_buf_clear(&w->temp);
    cache_temp_name(w->s, w->path, &w->temp);
    RP_TRY(base_buf_status(&w->temp, err));
    w->fd = open_temp(w->temp.data);
    if (w->fd < 0 && errno == ENOENT && cache_folders_make(w->s, NULL) == RP_OK)
        w->fd = open_temp(w->temp.data);
    if (w->fd >= 0) return RP_OK;
    rp_status st = fail_sink(w->path, err);
    base_buf_clear(&w->temp);
    return st;
}

static rp_status open_tmp(cache_writer *w, rp_error *err) {
    const char *tmp = base_env_get(BASE_ENV_TMPDIR);
    base_buf name;
    base_buf_init(&name, 0);
    base_buf_printf(&name, "%s/reprise-XXXXXX", tmp ? tmp : "/tmp");
    rp_status st = base_buf_status(&name, err);
    if (st == RP_OK) {
        if (!base_sys_fails()) w->fd = mkostemp(name.data, O_CLOEXEC);
        if (w->fd < 0)
            st = fail_sink(name.data, err);
        else
            (void)unlink(name.data);
    }
    base_buf_done(&name);
    return st;
}

static rp_status open_memory(cache_writer *w, rp_error *err) {
    void *p = base_sys_fails() ? MAP_FAILED
                               : mmap(NULL, w->offset + w->size, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return rp_fail(err, RP_NOMEM, "no memory for %llu bytes of packed weights",
                       (unsigned long long)w->size);
    w->memory = p;
    return RP_OK;
}

static void close_sink(cache_writer *w) {
    if (w->fd >= 0) (void)close(w->fd);
    w->fd = -1;
    if (w->temp.len) (void)unlink(w->temp.data);
    base_buf_clear(&w->temp);
}

static rp_status write_sink(cache_writer *w, const void *data, size_t size, uint64_t at,
                            rp_error *err) {
    if (w->sink == IN_MEMORY) {
        memcpy(w->memory + at, data, size);
        return RP_OK;
    }
    return cache_write_at(w->fd, w->sink == IN_STORE ? w->path : "a temporary file", data, size, at,
                          err);
}

/* Copies the payload written so far from the old file. */
static rp_status copy_from(cache_writer *w, int old, uint64_t done, rp_error *err) {
    uint8_t part[16384];
    for (uint64_t at = w->offset, end = at + done; at < end;) {
        size_t want = end - at < sizeof part ? (size_t)(end - at) : sizeof part;
        ssize_t n = base_sys_fails() ? -1 : pread(old, part, want, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return rp_fail(err, RP_IO, "cannot read back a temporary file");
        RP_TRY(write_sink(w, part, (size_t)n, at, err));
        at += (uint64_t)n;
    }
    return RP_OK;
}

/* The next place that opens and takes what is there; e is why the present one failed. */
static rp_status move_on(cache_writer *w, const rp_error *e, rp_error *err) {
    int old = w->fd;
    rp_status st = RP_IO;
    if (w->sink == IN_STORE) cache_write_failed(w->s, e);
    while (st == RP_IO && w->sink != IN_MEMORY) {
        rp_error why = {0};
        if (w->fd != old) close_sink(w);
        w->fd = -1;
        w->sink = w->sink == IN_STORE ? IN_TMP : IN_MEMORY;
        st = w->sink == IN_TMP ? open_tmp(w, &why) : open_memory(w, &why);
        if (st == RP_OK) st = copy_from(w, old, w->done, &why);
        if (st != RP_OK && (st != RP_IO || w->sink == IN_MEMORY))
            st = rp_fail(err, st, "%s", why.text);
    }
    if (old >= 0) (void)close(old);
    if (w->temp.len) (void)unlink(w->temp.data);
    base_buf_clear(&w->temp);
    return st;
}

rp_status cache_writer_open(cache_store *s, cache_kind kind, base_hash128 key, size_t size,
                            cache_writer **out, rp_error *err) {
    rp_status st = RP_OK;
    rp_error e = {0};
    size_t total;
    uint64_t offset = cache_large_offset(size);
    if (offset > UINT32_MAX || !base_add_size(size, offset, &total))
        return rp_fail(err, RP_NOMEM, "%zu bytes are too many for one cache object", size);
    cache_writer *w = base_alloc(sizeof *w);
    if (!w) return rp_fail(err, RP_NOMEM, "no memory to write to the cache");
    *w = (cache_writer){.s = s, .kind = kind, .key = key, .fd = -1, .size = size, .offset = offset};
    base_buf_init(&w->temp, 0);
    w->head = base_alloc(offset);
    w->chunk = base_alloc(CACHE_CHUNK);
    if (!w->head || !w->chunk) {
        st = rp_fail(err, RP_NOMEM, "no memory to write to the cache");
        goto out;
    }
    if (s->dir) RP_TRY_OUT(cache_object_path(s, kind, key, "", &w->path, err));
    if (!cache_takes(s)) {
        w->sink = IN_TMP;
        st = open_tmp(w, &e);
    } else {
        st = open_store(w, &e);
    }
    if (st != RP_OK) st = st == RP_NOMEM ? rp_fail(err, st, "%s", e.text) : move_on(w, &e, err);
    if (st != RP_OK) goto out;
    *out = w;
    w = NULL;
out:
    cache_writer_free(w);
    return st;
}

static rp_status write_through(cache_writer *w, const void *data, size_t size, rp_error *err) {
    rp_error e = {0};
    rp_status st = write_sink(w, data, size, w->offset + w->done, &e);
    while (st == RP_IO) {
        RP_TRY(move_on(w, &e, err));
        e = (rp_error){0};
        st = write_sink(w, data, size, w->offset + w->done, &e);
    }
    w->done += size;
    /* Disk writes begin now, so that fsync at the end has little left to wait for. */
    if (w->sink == IN_STORE && w->done - w->flushed >= FLUSH_EVERY) {
        (void)sync_file_range(w->fd, (off_t)(w->offset + w->flushed), (off_t)(w->done - w->flushed),
                              SYNC_FILE_RANGE_WRITE);
        w->flushed = w->done;
    }
    return st;
}

/* Hashes and writes the chunk that is full, or the last. */
static rp_status end_chunk(cache_writer *w, const uint8_t *data, size_t size, rp_error *err) {
    cache_hash_store(base_hash(data, size),
                     w->head + CACHE_HEADER_SIZE + 16 * (w->done / CACHE_CHUNK));
    w->in_chunk = 0;
    return write_through(w, data, size, err);
}

rp_status cache_writer_add(cache_writer *w, const void *data, size_t size, rp_error *err) {
    const uint8_t *p = data;
    if (size > w->size - w->done - w->in_chunk)
        return rp_fail(err, RP_INTERNAL, "more bytes than the %llu announced for a cache object",
                       (unsigned long long)w->size);
    while (size) {
        if (w->in_chunk == 0 && size >= CACHE_CHUNK) { /* whole chunks need no copy */
            RP_TRY(end_chunk(w, p, CACHE_CHUNK, err));
            p += CACHE_CHUNK;
            size -= CACHE_CHUNK;
            continue;
        }
        size_t room = CACHE_CHUNK - w->in_chunk, n = size < room ? size : room;
        memcpy(w->chunk + w->in_chunk, p, n);
        w->in_chunk += n;
        p += n;
        size -= n;
        if (w->in_chunk == CACHE_CHUNK) RP_TRY(end_chunk(w, w->chunk, CACHE_CHUNK, err));
    }
    return RP_OK;
}

/* Header and table, then the name. RP_IO leaves the payload where it is. */
static rp_status publish(cache_writer *w, rp_error *err) {
    uint8_t *head = w->head;
    cache_header_encode(&(cache_header){.kind = w->kind,
                                        .payload_size = w->size,
                                        .key = w->key,
                                        .payload_offset = (uint32_t)w->offset},
                        base_hash(head + CACHE_HEADER_SIZE, w->offset - CACHE_HEADER_SIZE), head);
    RP_TRY(write_sink(w, head, w->offset, 0, err));
    if (base_sys_fails() || fsync(w->fd) != 0) return fail_sink(w->path, err);
    bool named = cache_move_in(w->s, w->temp.data, w->path);
    if (!named && errno == ENOENT && cache_folders_make(w->s, NULL) == RP_OK)
        named = rename(w->temp.data, w->path) == 0;
    if (!named) return fail_sink(w->path, err);
    base_buf_clear(&w->temp); /* nothing to remove any more */
    return RP_OK;
}

static rp_status map_sink(cache_writer *w, base_mapping *file, rp_error *err) {
    size_t total = w->offset + w->size;
    void *p = w->memory;
    if (w->sink == IN_MEMORY) {
        (void)mprotect(p, total, PROT_READ);
        w->memory = NULL; /* the mapping owns it */
    } else {
        p = base_sys_fails() ? MAP_FAILED : mmap(NULL, total, PROT_READ, MAP_SHARED, w->fd, 0);
        if (p == MAP_FAILED)
            return rp_fail(err, RP_IO, "cannot map %zu bytes of the cache: %s", total,
                           base_errno_text(errno));
    }
    *file = (base_mapping){.data = p, .size = total};
    if (w->sink != IN_MEMORY) {
        file->guard = base_guard_up(p, total, w->fd);
        w->fd = -1; /* the guard's now */
    }
    return RP_OK;
}

rp_status cache_writer_commit(cache_writer *w, base_mapping *file, const uint8_t **payload,
                              rp_error *err) {
    rp_error e = {0};
    if (w->in_chunk && w->done + w->in_chunk == w->size)
        RP_TRY(end_chunk(w, w->chunk, w->in_chunk, err));
    if (w->done != w->size)
        return rp_fail(err, RP_INTERNAL, "%llu of %llu bytes of a cache object were written",
                       (unsigned long long)(w->done + w->in_chunk), (unsigned long long)w->size);
    if (w->sink == IN_STORE && publish(w, &e) != RP_OK) {
        /* The bytes can still be mapped from the file, which loses its name. */
        cache_write_failed(w->s, &e);
        (void)unlink(w->temp.data);
        base_buf_clear(&w->temp);
        w->sink = IN_TMP;
    }
    RP_TRY(map_sink(w, file, err));
    *payload = file->data + w->offset;
    return RP_OK;
}

void cache_writer_free(cache_writer *w) {
    if (!w) return;
    close_sink(w);
    if (w->memory) (void)munmap(w->memory, w->offset + w->size);
    base_buf_done(&w->temp);
    base_free(w->path);
    base_free(w->head);
    base_free(w->chunk);
    base_free(w);
}
