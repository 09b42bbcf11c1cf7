/* The inductor compiler: fusion, kernel IR and generators of this project, and the host compiler.
 *
 * Code is an object in the store under the unit's key, and that key as text is the handle. */
#include <string.h>

#include "base/alloc.h"
#include "compile/compile.h"
#include "target/target.h"

static rp_status initialize_cache(const compile_host *h, rp_error *err) {
    if (h->store && h->toolchain) return RP_OK;
    return rp_fail(err, RP_INVALID, "inductor needs a store for its code and a toolchain");
}

static rp_status compute_hash(const compile_host *h, cache_key *k, rp_error *err) {
    const char *version = h->toolchain->version;
    RP_TRY(cache_key_add(k, "machine", h->machine, err));
    RP_TRY(cache_key_add(k, "isa", gen_isa_name(h->isa), err));
    RP_TRY(cache_key_add(k, "toolchain", version ? version : "none", err));
    return cache_key_add(k, "sources", compile_source_hash(), err);
}

static rp_status compile(const compile_host *h, const compile_unit *u, compile_code *out,
                         char **handle, rp_error *err) {
    char hex[33];
    if (u->n_functions == 0) return RP_OK; /* say attention */
    base_hash_hex(u->key, hex);
    RP_TRY(compile_toolchain_run(h->toolchain, u->source, h->isa, u->key, h->store, err));
    *out = (compile_code){true, u->key, GEN_ISA_BIT(h->isa), true};
    *handle = base_strdup(hex);
    return *handle ? RP_OK : rp_fail(err, RP_NOMEM, "handle");
}

static rp_status load(const compile_host *h, const compile_unit *u, const char *handle,
                      compile_code *out, rp_error *err) {
    char hex[33], *path = NULL;
    rp_error miss = {0};
    base_hash_hex(u->key, hex);
    if (strcmp(hex, handle) != 0) return RP_NOT_FOUND;
    rp_status st = cache_get_code(h->store, u->key, GEN_ISA_BIT(h->isa), &path, &miss);
    base_free(path);
    if (st == RP_OK) *out = (compile_code){true, u->key, GEN_ISA_BIT(h->isa), false};
    return st == RP_OK || st == RP_NOT_FOUND ? st : rp_fail(err, st, "%s", miss.text);
}

const rp_compiler compile_inductor = {.name = "inductor",
                                      .initialize_cache = initialize_cache,
                                      .compute_hash = compute_hash,
                                      .lower = target_lower,
                                      .compile = compile,
                                      .load = load};
