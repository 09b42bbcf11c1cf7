/* Which sizes differed, kept in the cache for the next process: its first call makes them symbols at once, where torch keeps a profile.
 *
 * A record is text, a line a tensor: axes that differed as bits, rank, and what the tensor is called; of an integer that is a size, int and what it is called. It is of a function by name, file and line. A
 * process does not read what it has stored itself: what two functions of one name show each other depends on no order. */
#include "front/decisions.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cache/key.h"
#include "config/config.h"

#define FORMAT "sizes 1"
#define INTEGER "int " /* a line begins with it */

/* Tells this process from others, children among them. */
static uint64_t own_mark(void) {
    static _Atomic int64_t began;
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(&began, &none, base_now_ns() | 1);
    return (uint64_t)atomic_load(&began) ^ (uint64_t)getpid() << 40;
}

/* --- records --------------------------------------------------------------------------------------- */

/* Owned by the caller, also where it failed. */
static rp_status key_of(const rp_jit *f, cache_key **out, rp_error *err) {
    *out = cache_key_new();
    if (!*out) return rp_fail(err, RP_NOMEM, "a key");
    RP_TRY(cache_key_add(*out, "learned", FORMAT, err));
    RP_TRY(cache_key_add(*out, "function", f->name, err));
    RP_TRY(cache_key_add(*out, "file", f->file, err));
    return cache_key_addf(*out, err, "line", "%d", f->line);
}

static unsigned axes_of(const front_seen *s) {
    unsigned axes = 0;
    for (uint32_t d = 0; d < s->now.rank; d++) axes |= (unsigned)s->now.wobbled[d] << d;
    return axes;
}

static void put_record(const rp_jit *f, base_buf *out) {
    base_buf_printf(out, FORMAT "\nby %" PRIx64 "\n", own_mark());
    for (const front_seen *s = f->seen; s; s = s->next)
        if (!axes_of(s) || strchr(s->source, '\n') || (s->now.integer && !s->now.taken))
            continue;
        else if (s->now.integer)
            base_buf_printf(out, INTEGER "%s\n", s->source);
        else
            base_buf_printf(out, "%x %u %s\n", axes_of(s), s->now.rank, s->source);
}

static rp_status read_line(rp_jit *f, const char *line, rp_error *err) {
    unsigned axes, rank;
    int at = 0;
    if (strncmp(line, INTEGER, strlen(INTEGER)) == 0 && line[strlen(INTEGER)]) {
        line += strlen(INTEGER);
        base_log_ch(RP_LOG_CH_DYNAMIC, false, "%s of %s differed in an earlier process", line,
                    f->name);
        return front_see_stored_int(f, line, err);
    }
    if (sscanf(line, "%x %u %n", &axes, &rank, &at) != 2 || at == 0 || !line[at] ||
        rank > RP_MAX_RANK || axes >> rank)
        return RP_OK; /* not ours: a size is then a number at first, as without it */
    base_log_ch(RP_LOG_CH_DYNAMIC, false, "%s of %s: axes 0x%x differed in an earlier process",
                line + at, f->name, axes);
    return front_see_stored(f, line + at, rank, axes, err);
}

static rp_status read_record(rp_jit *f, char *text, rp_error *err) {
    uint64_t by;
    const size_t head = strlen(FORMAT "\n");
    if (strncmp(text, FORMAT "\n", head) != 0 || sscanf(text + head, "by %" SCNx64, &by) != 1 ||
        by == own_mark())
        return RP_OK;
    for (char *line = text + head, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        RP_TRY(read_line(f, line, err));
    }
    return RP_OK;
}

/* --- the cache ---------------------------------------------------------------------------------------- */

static rp_status open_store(const rp_jit *f, cache_store **out, rp_error *err) {
    const char *dir = f->config->cache_dir;
    return cache_store_open(dir && *dir ? dir : NULL, out, err);
}

rp_status front_decisions_load(rp_jit *f, rp_error *err) {
    cache_key *key = NULL;
    cache_store *store = NULL;
    char *text = NULL;
    size_t size;
    rp_status st = RP_OK;
    if (f->loaded) return RP_OK;
    RP_TRY_OUT(key_of(f, &key, err));
    RP_TRY_OUT(open_store(f, &store, err));
    st = cache_get(store, CACHE_TUNING, cache_key_hash(key), &text, &size, err);
    if (st == RP_OK) st = read_record(f, text, err);
out:
    base_free(text);
    if (store) cache_store_close(store);
    cache_key_free(key);
    f->loaded = st == RP_OK || st == RP_NOT_FOUND;
    return f->loaded ? RP_OK : st;
}

rp_status front_decisions_store(rp_jit *f, rp_error *err) {
    cache_key *key = NULL;
    cache_store *store = NULL;
    base_buf b;
    rp_status st = RP_OK;
    if (!f->differed) return RP_OK;
    base_buf_init(&b, 0);
    put_record(f, &b);
    RP_TRY_OUT(base_buf_status(&b, err));
    RP_TRY_OUT(key_of(f, &key, err));
    RP_TRY_OUT(open_store(f, &store, err));
    RP_TRY_OUT(cache_put(store, CACHE_TUNING, cache_key_hash(key), b.data, b.len, err));
    RP_TRY_OUT(cache_put_factors(store, CACHE_TUNING, key, err));
    f->differed = false;
out:
    cache_key_free(key);
    if (store) cache_store_close(store);
    base_buf_done(&b);
    return st;
}
