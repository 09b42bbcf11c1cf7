/* Keys as lists of named factors. The hash is a chain over (name, value) in order of adding, kept up to
 * date, so that reading it cannot fail. Values are text; what must never be a factor (paths, host
 * names, pointers, times) is the caller's law. */
#include "cache/key.h"

#include <string.h>

#include "base/alloc.h"
#include "cache/factors.h"

cache_key *cache_key_new(void) {
    return base_alloc(sizeof(cache_key));
}

void cache_key_free(cache_key *k) {
    if (!k) return;
    for (size_t i = 0; i < k->n; i++) {
        base_free(k->v[i].name);
        base_free(k->v[i].value);
    }
    base_free(k->v);
    base_free(k);
}

const char *cache_key_value(const cache_key *k, const char *name) {
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->v[i].name, name) == 0) return k->v[i].value;
    return NULL;
}

static base_hash128 chain(base_hash128 before, const char *name, const char *value) {
    base_hash128 all[3] = {before, base_hash(name, strlen(name)), base_hash(value, strlen(value))};
    return base_hash(all, sizeof all);
}

rp_status cache_key_add(cache_key *k, const char *name, const char *value, rp_error *err) {
    if (cache_key_value(k, name))
        return rp_fail(err, RP_INTERNAL, "key factor %s is added twice", name);
    if (k->n == k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 16;
        cache_factor *v = base_realloc_array(k->v, cap, sizeof *v);
        if (!v) return rp_fail(err, RP_NOMEM, "no memory for key factor %s", name);
        k->v = v;
        k->cap = cap;
    }
    cache_factor f = {base_strdup(name), base_strdup(value)};
    if (!f.name || !f.value) {
        base_free(f.name);
        base_free(f.value);
        return rp_fail(err, RP_NOMEM, "no memory for key factor %s", name);
    }
    k->v[k->n++] = f;
    k->hash = chain(k->hash, name, value);
    return RP_OK;
}

rp_status cache_key_addf(cache_key *k, rp_error *err, const char *name, const char *fmt, ...) {
    va_list ap;
    base_buf b;
    base_buf_init(&b, 0);
    va_start(ap, fmt);
    base_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = cache_key_add(k, name, b.data ? b.data : "", err);
    base_buf_done(&b);
    return st;
}

base_hash128 cache_key_hash(const cache_key *k) {
    return k->hash;
}

/* Length of the valid UTF-8 sequence at p; 0 when there is none. */
static size_t utf8_len(const unsigned char *p) {
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;  /* overlong */
    if (p[0] == 0xed && p[1] >= 0xa0) return 0; /* surrogate */
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;  /* overlong */
    if (p[0] == 0xf4 && p[1] >= 0x90) return 0; /* beyond Unicode */
    return n;
}

/* Values may come from model files: bytes that are no UTF-8 are shown as the character of their
 * number, so that the file stays JSON. */
static void put_string(base_buf *b, const char *z) {
    base_buf_putc(b, '"');
    for (const unsigned char *p = (const unsigned char *)z; *p;) {
        size_t n = utf8_len(p);
        if (*p == '"' || *p == '\\')
            base_buf_printf(b, "\\%c", *p);
        else if (*p < 0x20 || n == 0)
            base_buf_printf(b, "\\u%04x", *p);
        else
            base_buf_add(b, p, n);
        p += n ? n : 1;
    }
    base_buf_putc(b, '"');
}

rp_status cache_key_json(const cache_key *k, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "{");
    for (size_t i = 0; i < k->n; i++) {
        base_buf_puts(&b, i ? ",\n  " : "\n  ");
        put_string(&b, k->v[i].name);
        base_buf_puts(&b, ": ");
        put_string(&b, k->v[i].value);
    }
    base_buf_puts(&b, "\n}\n");
    char *json = base_buf_take(&b);
    if (!json) return rp_fail(err, RP_NOMEM, "no memory for the factors of a key");
    *out = json;
    return RP_OK;
}
