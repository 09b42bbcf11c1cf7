/* Registry of passes. Entries never change and are never removed, so a reader that sees the count (acquire) sees them, without a lock. */
#include "rewrite/registry.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/options.h"
#include "base/str.h"
#include "pass/pipeline.h"
#include "rewrite/pattern.h"
#include "rewrite/type.h"

static rewrite_pass table[REWRITE_MOST];
static const char *names[REWRITE_MOST + 1];
static atomic_uint n_table;
static atomic_flag table_lock = ATOMIC_FLAG_INIT;

const rewrite_pass *rewrite_at(uint32_t i) {
    return i < atomic_load_explicit(&n_table, memory_order_acquire) ? &table[i] : NULL;
}

const char *const *rewrite_names(uint32_t *n) {
    *n = atomic_load_explicit(&n_table, memory_order_acquire);
    return names;
}

const char *rp_pass_name(uint32_t i) {
    const rewrite_pass *p = rewrite_at(i);
    return p ? p->name : NULL;
}

static bool is_name(const char *z) {
    static const char taken[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = strlen(z);
    return n > 0 && n < REWRITE_MOST_NAME && strspn(z, taken) == n;
}

static rp_status check_name(const char *name, rp_error *err) {
    uint32_t n;
    const pass_info *own = pass_table(&n);
    if (!name) return rp_fail(err, RP_INVALID, "rp_pass_register: name is NULL");
    if (!is_name(name))
        return rp_fail(err, RP_INVALID,
                       "pass name '%.80s' is not of letters, digits and _, up to %d", name,
                       REWRITE_MOST_NAME - 1);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(own[i].name, name) == 0 || (own[i].config && strcmp(own[i].config, name) == 0))
            return rp_fail(err, RP_INVALID,
                           "pass '%s' is one of the library's; choose another name", name);
    return RP_OK;
}

static rp_status check_kind(const rp_pass_desc *d, rp_error *err) {
    bool pattern = d->pattern || d->replacement || d->n_types || d->check;
    if (d->run ? pattern : !d->pattern || !d->replacement || !d->types || !d->n_types)
        return rp_fail(
            err, RP_INVALID,
            "pass %s: give `run`, or `pattern`, `replacement` and the types of their inputs",
            d->name);
    if (d->n_types > RP_MAX_PATTERN_INPUTS)
        return rp_fail(err, RP_INVALID, "pass %s: %u inputs; at most %d", d->name, d->n_types,
                       RP_MAX_PATTERN_INPUTS);
    if ((d->run || d->check) && !(d->uuid && *d->uuid))
        return rp_fail(
            err, RP_INVALID,
            "pass %s: uuid is missing; what is code has one, to be changed with the code", d->name);
    return RP_OK;
}

static rp_status copy_types(rewrite_pass *p, rp_error *err) {
    for (uint32_t i = 0; i < p->desc.n_types; i++) {
        const char *text = p->desc.types[i];
        RP_TRY(rewrite_type_check(text, err));
        memcpy(p->type[i], text, strlen(text) + 1);
        p->types[i] = p->type[i];
    }
    return RP_OK;
}

/* What was given, and what a pattern and its replacement are traced to. */
static rp_status make_uuid(rewrite_pass *p, rp_error *err) {
    const rp_pass_desc *d = &p->desc;
    rewrite_forms forms = {.n = 0};
    base_buf text;
    rp_error why = {0};
    base_buf_init(&text, 0);
    base_buf_printf(&text, "%s\n", d->uuid ? d->uuid : "");
    for (uint32_t i = 0; i < d->n_types; i++) base_buf_printf(&text, "%s\n", d->types[i]);
    rp_status st = d->pattern ? rewrite_forms_make(d, &forms, &text, &why) : RP_OK;
    if (st == RP_OK) st = base_buf_status(&text, &why);
    if (st == RP_OK) base_hash_hex(base_hash(text.data, text.len), p->uuid);
    rewrite_forms_done(&forms);
    base_buf_done(&text);
    return st == RP_OK ? RP_OK : rp_fail(err, st, "pass %s: %s", d->name, why.text);
}

static rp_status add_locked(const rewrite_pass *p, rp_error *err) {
    unsigned n = atomic_load(&n_table);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(table[i].name, p->name) == 0)
            return rp_fail(err, RP_INVALID, "pass '%s' is registered already", p->name);
    if (n == REWRITE_MOST) return rp_fail(err, RP_UNSUPPORTED, "more than %d passes", REWRITE_MOST);
    rewrite_pass *e = &table[n];
    *e = *p;
    e->desc.name = e->name;
    e->desc.uuid = e->uuid;
    for (uint32_t i = 0; i < e->desc.n_types; i++) e->types[i] = e->type[i];
    e->desc.types = e->types;
    names[n] = e->name;
    atomic_store_explicit(&n_table, n + 1, memory_order_release);
    return RP_OK;
}

rp_status rp_pass_register(const rp_pass_desc *desc, rp_error *err) {
    base_error_clear(err);
    rewrite_pass p = {.desc = {0}};
    RP_TRY(base_options_take(&p.desc, sizeof p.desc, desc, "rp_pass_desc", err));
    RP_TRY(check_name(p.desc.name, err));
    RP_TRY(check_kind(&p.desc, err));
    memcpy(p.name, p.desc.name, strlen(p.desc.name) + 1);
    RP_TRY(copy_types(&p, err));
    RP_TRY(make_uuid(&p, err));
    while (atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire)) {
    }
    rp_status st = add_locked(&p, err);
    atomic_flag_clear_explicit(&table_lock, memory_order_release);
    return st;
}
