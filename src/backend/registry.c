/* Registry of backends. Entries never change and are never removed, so a reader that sees the count (acquire) sees them, without a lock. */
#include "backend/registry.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/session.h"
#include "base/options.h"
#include "base/status.h"
#include "config/config.h"

enum { MOST = 64, MOST_NAME = 64 };

static struct {
    rp_backend_desc desc;
    char name[MOST_NAME];
} table[MOST];
static atomic_uint n_table;
static atomic_flag table_lock = ATOMIC_FLAG_INIT;

/* Programs of others that the library knows how to call. */
static const rp_backend_desc known[] = {
    {.size = sizeof(rp_backend_desc),
     .name = "openvino",
     .ready = backend_session_ready,
     .compile = backend_session_compile,
     .supports = backend_session_supports,
     .user = (void *)(uintptr_t)&backend_openvino},
    {.size = sizeof(rp_backend_desc),
     .name = "onnxrt",
     .ready = backend_session_ready,
     .compile = backend_session_compile,
     .supports = backend_session_supports,
     .user = (void *)(uintptr_t)&backend_onnxrt},
};

/* Names that the setting takes: those of the library, then the table's. */
#define OWN "inductor", "eager", "aot_eager", "cudagraphs", "openvino", "onnxrt"
enum { N_OWN = 6 };
static const char *names[N_OWN + MOST + 1] = {OWN};

const rp_backend_desc *backend_find(const char *name) {
    unsigned n = atomic_load_explicit(&n_table, memory_order_acquire);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return &known[i];
    for (unsigned i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i].desc;
    return NULL;
}

const char *const *backend_names(uint32_t *n) {
    *n = N_OWN + atomic_load_explicit(&n_table, memory_order_acquire);
    return names;
}

const char *rp_backend_name(uint32_t i) {
    uint32_t n;
    const char *const *all = backend_names(&n);
    return i < n ? all[i] : NULL;
}

static bool is_name(const char *z) {
    static const char taken[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n = strlen(z);
    return n > 0 && n < MOST_NAME && strspn(z, taken) == n;
}

static rp_status check(const rp_backend_desc *d, rp_error *err) {
    if (!d->name || !d->compile)
        return rp_fail(err, RP_INVALID, "rp_backend_register: name or compile is NULL");
    if (!d->hash != !d->save || !d->save != !d->load)
        return rp_fail(err, RP_INVALID,
                       "rp_backend_register: backend %.80s has some of hash, save and load; give "
                       "all three or none",
                       d->name);
    if (!is_name(d->name))
        return rp_fail(err, RP_INVALID,
                       "backend name '%.80s' is not of letters, digits, _ and -, up to %d", d->name,
                       MOST_NAME - 1);
    const char *absent = config_absent_backend(d->name);
    if (absent) return rp_fail(err, RP_INVALID, "backend name '%s' is taken: %s", d->name, absent);
    return RP_OK;
}

static rp_status add_locked(const rp_backend_desc *d, rp_error *err) {
    uint32_t n_names;
    const char *const *all = backend_names(&n_names);
    unsigned n = n_names - N_OWN;
    for (uint32_t i = 0; i < n_names; i++)
        if (strcmp(all[i], d->name) == 0)
            return rp_fail(err, RP_INVALID, "backend '%s' is there already; choose another name",
                           d->name);
    if (n == MOST) return rp_fail(err, RP_UNSUPPORTED, "more than %d backends", MOST);
    table[n].desc = *d;
    memcpy(table[n].name, d->name, strlen(d->name) + 1);
    table[n].desc.name = table[n].name;
    names[N_OWN + n] = table[n].name;
    atomic_store_explicit(&n_table, n + 1, memory_order_release);
    return RP_OK;
}

rp_status rp_backend_register(const rp_backend_desc *desc, rp_error *err) {
    base_error_clear(err);
    rp_backend_desc own = {0};
    RP_TRY(base_options_take(&own, sizeof own, desc, "rp_backend_desc", err));
    RP_TRY(check(&own, err));
    while (atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire)) {
    }
    rp_status st = add_locked(&own, err);
    atomic_flag_clear_explicit(&table_lock, memory_order_release);
    return st;
}

/* --- calls of their code ------------------------------------------------------------------------ */

/* why: theirs to fill, also where the caller wants none. */
static rp_status failed(const rp_backend_desc *d, const char *what, rp_status st,
                        const rp_error *why, rp_error *err) {
    if (why->text[0]) return rp_fail(err, st, "backend %s: %s", d->name, why->text);
    return rp_fail(err, st, "backend %s: %s failed (%s) and gave no reason", d->name, what,
                   rp_status_name(st));
}

rp_status backend_ready(const rp_backend_desc *d, rp_error *err) {
    rp_error why = {0};
    rp_status st = d->ready ? d->ready(d->user, &why) : RP_OK;
    return st == RP_OK ? RP_OK : failed(d, "opening it", st, &why, err);
}

rp_status backend_supports(const rp_backend_desc *d, const rp_graph *g, uint32_t i, bool *out,
                           rp_error *err) {
    rp_error why = {0};
    rp_status st = d->supports ? d->supports(d->user, g, i, &why) : RP_OK;
    *out = st == RP_OK;
    if (st == RP_OK) return RP_OK;
    if (st != RP_UNSUPPORTED) return failed(d, "looking at a node", st, &why, err);
    (void)rp_fail(err, st, "%s", why.text[0] ? why.text : "it gave no reason");
    return RP_OK;
}

rp_status backend_compile(const rp_backend_desc *d, const rp_graph *g,
                          const rp_backend_options *options, rp_callable *out, bool *refused,
                          rp_error *err) {
    rp_error why = {0};
    rp_callable made = {0};
    *refused = false;
    RP_TRY(backend_ready(d, err));
    rp_status st = d->compile(d->user, g, options, &made, &why);
    *refused = st == RP_UNSUPPORTED;
    if (*refused) return rp_fail(err, st, "%s", why.text[0] ? why.text : "it gave no reason");
    if (st != RP_OK) return failed(d, "compiling", st, &why, err);
    if (!made.run)
        return rp_fail(err, RP_INVALID, "backend %s gave a callable without `run`", d->name);
    *out = made;
    return RP_OK;
}

rp_status backend_load(const rp_backend_desc *d, const rp_graph *g,
                       const rp_backend_options *options, const void *handle, size_t size,
                       rp_callable *out, rp_error *err) {
    rp_error why = {0};
    rp_callable made = {0};
    RP_TRY(backend_ready(d, err));
    rp_status st = d->load(d->user, g, options, handle, size, &made, &why);
    if (st != RP_OK) return failed(d, "loading a handle", st, &why, err);
    if (!made.run)
        return rp_fail(err, RP_INVALID, "backend %s gave a callable without `run`", d->name);
    *out = made;
    return RP_OK;
}

rp_status backend_save(const rp_backend_desc *d, const rp_callable *c, rp_backend_write write,
                       void *to, rp_error *err) {
    rp_error why = {0};
    rp_status st = d->save(d->user, c, write, to, &why);
    return st == RP_OK ? RP_OK : failed(d, "saving a handle", st, &why, err);
}

rp_status backend_run(const rp_backend_desc *d, const rp_callable *c, const rp_buffer *inputs,
                      uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    rp_error why = {0};
    rp_status st = c->run(c->self, inputs, n_inputs, outputs, n_outputs, &why);
    return st == RP_OK ? RP_OK : failed(d, "a call", st, &why, err);
}
