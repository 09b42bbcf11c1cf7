/* A record is text: what it is, the kernel's label, the searches that came to their end, the choice ("rules" for the rules' own), a
 * line for each that was measured. */
#include "compile/tune_record.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "compile/compile.h"
#include "compile/units.h"

#define FORMAT "autotune 2"
#define RULES "rules"

/* By the bits of compile_record.searched. */
static const char *const searches[] = {"nothing", "list", "descent", "list descent"};
enum { N_SEARCHES = sizeof searches / sizeof *searches };

static rp_status add_sizes(cache_key *k, const ir_dims *dims, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < ir_dims_symbol_count(dims); i++) {
        const ir_symbol *s = ir_dims_symbol(dims, i);
        base_buf_printf(&b, "%s%s=%" PRId64, i ? " " : "", s->name,
                        ir_dim_nominal_of(s->min, s->max));
    }
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = cache_key_add(k, "sizes", b.data ? b.data : "", err);
    base_buf_done(&b);
    return st;
}

rp_status compile_record_device(cache_key *k, hal_device *d, rp_error *err) {
    hal_device_info info;
    d->ops->info(d, &info);
    char *processor = *info.arch ? NULL : base_processor();
    rp_status st = cache_key_addf(k, err, "device", "%s%s%s", info.name, processor ? ": " : "",
                                  processor ? processor : "");
    base_free(processor);
    return st == RP_OK ? cache_key_addf(k, err, "threads", "%u", info.n_threads) : st;
}

static bool is_of(const lower_kernel *k, const lower_kernel *other) {
    return k->n_tiles ? other->group == k->group : strcmp(other->name, k->name) == 0;
}

rp_status compile_record_text(const lower_piece *p, const lower_kernel *k, base_hash128 *out,
                              rp_error *err) {
    rp_status st = RP_OK;
    base_hash128 one;
    char hex[33];
    uint32_t n = 0;
    base_buf all;
    base_buf_init(&all, 0);
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        if (!is_of(k, &p->kernels[i])) continue;
        RP_TRY_OUT(compile_kernel_hash(p, &p->kernels[i], &one, err));
        base_hash_hex(one, hex);
        base_buf_puts(&all, hex);
        n++;
    }
    RP_TRY_OUT(base_buf_status(&all, err));
    if (n == 0)
        st = rp_fail(err, RP_INTERNAL, "a choice of kernel %s has no text", k->name);
    else
        *out = n == 1 ? one : base_hash(all.data, all.len);
out:
    base_buf_done(&all);
    return st;
}

rp_status compile_record_key(const rp_compiler *by, const compile_host *h, hal_device *d,
                             const lower_piece *p, const lower_kernel *k, cache_key **out,
                             rp_error *err) {
    rp_status st = RP_OK;
    base_hash128 hash;
    char hex[33];
    cache_key *key = cache_key_new();
    if (!key) return rp_fail(err, RP_NOMEM, "key of a tuning record");
    RP_TRY_OUT(compile_record_text(p, k, &hash, err));
    base_hash_hex(hash, hex);
    RP_TRY_OUT(cache_key_add(key, "tuned", FORMAT, err));
    RP_TRY_OUT(cache_key_add(key, "function", k->label ? k->label : k->name, err));
    RP_TRY_OUT(cache_key_add(key, "kernel", hex, err));
    RP_TRY_OUT(add_sizes(key, p->dims, err));
    RP_TRY_OUT(compile_record_device(key, d, err));
    RP_TRY_OUT(by->compute_hash(h, key, err));
    *out = key;
    key = NULL;
out:
    cache_key_free(key);
    return st;
}

/* What follows `name` on its line, as a text of its own; rest: where the next line begins. NULL: there is no such line. */
static char *take_line(char **rest, const char *name) {
    char *at = strstr(*rest, name), *end = at ? strchr(at, '\n') : NULL;
    if (!end || (at > *rest && at[-1] != '\n')) return NULL;
    *end = 0;
    *rest = end + 1;
    return at + strlen(name);
}

/* NULL, or what is wrong with it. */
static const char *parse(char *text, const lower_kernel *k, gen_isa isa, compile_record *out) {
    if (strncmp(text, FORMAT "\n", strlen(FORMAT "\n")) != 0) return "it has another format";
    const char *searched = take_line(&text, "searched "), *best = take_line(&text, "best ");
    *out = (compile_record){0};
    if (!searched || !best) return "it names no choice";
    while (out->searched < N_SEARCHES && strcmp(searched, searches[out->searched]) != 0)
        out->searched++;
    if (out->searched == N_SEARCHES) return "it names no search";
    if (strcmp(best, RULES) == 0) return NULL;
    return *best && lower_choice_parse(k, isa, best, &out->best)
               ? NULL
               : "its choice is not one of this kernel";
}

rp_status compile_record_get(cache_store *s, const cache_key *key, const lower_kernel *k,
                             gen_isa isa, compile_record *out, rp_error *err) {
    const base_hash128 hash = cache_key_hash(key);
    char *text = NULL, hex[33];
    size_t size = 0;
    compile_record r;
    RP_TRY(cache_get(s, CACHE_TUNING, hash, &text, &size, err));
    base_hash_hex(hash, hex);
    const char *bad = strlen(text) == size ? parse(text, k, isa, &r) : "it is no text";
    base_free(text);
    base_log_ch(RP_LOG_CH_AUTOTUNING, !bad,
                bad ? "%s: tuning record %s is ignored: %s" : "%s: by tuning record %s%s",
                k->label ? k->label : k->name, hex, bad ? bad : "");
    if (bad) return RP_NOT_FOUND;
    *out = r;
    return RP_OK;
}

static void put_choice(const lower_choice *c, base_buf *b) {
    const size_t before = b->len;
    lower_choice_print(c, false, b);
    if (b->len == before) base_buf_puts(b, RULES);
    base_buf_putc(b, '\n');
}

rp_status compile_record_put(cache_store *s, const cache_key *key, const lower_kernel *k,
                             const compile_record *r, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, FORMAT "\n%s\nsearched %s\nbest ", k->label ? k->label : k->name,
                    searches[r->searched]);
    put_choice(&r->best, &b);
    for (uint32_t i = 0; i < r->n; i++) {
        base_buf_printf(&b, "%" PRId64 " ns ", r->all[i].ns);
        put_choice(&r->all[i].choice, &b);
    }
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = cache_put(s, CACHE_TUNING, cache_key_hash(key), b.data, b.len, err);
    if (st == RP_OK) st = cache_put_factors(s, CACHE_TUNING, key, err);
    base_buf_done(&b);
    return st;
}
