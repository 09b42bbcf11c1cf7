/* The compiler for GPUs: fusion, kernel IR and generators of this project in CUDA C, and NVRTC.
 *
 * As inductor, code is an object in the store under the unit's key, and that key as text is the handle. */
#include <string.h>

#include "base/alloc.h"
#include "compile/compile.h"
#include "target/target.h"

static rp_status initialize_cache(const compile_host *h, rp_error *err) {
    if (h->store && h->nvrtc) return RP_OK;
    return rp_fail(err, RP_INVALID, "the compiler for GPUs needs a store for its code and NVRTC");
}

static rp_status compute_hash(const compile_host *h, cache_key *k, rp_error *err) {
    RP_TRY(cache_key_add(k, "machine", h->nvrtc->arch, err));
    RP_TRY(cache_key_add(k, "toolchain", h->nvrtc->version, err));
    return cache_key_add(k, "sources", compile_source_hash(), err);
}

static rp_status lower(const ir_graph *g, const lower_options *opt, lower_piece *out,
                       rp_error *err) {
    lower_options cuda = *opt;
    cuda.target = GEN_CUDA;
    return target_lower(g, &cuda, out, err);
}

static rp_status compile(const compile_host *h, const compile_unit *u, compile_code *out,
                         char **handle, rp_error *err) {
    char hex[33];
    if (u->n_functions == 0) return RP_OK;
    base_hash_hex(u->key, hex);
    if (u->ptx)
        RP_TRY(
            compile_nvrtc_keep(h->nvrtc, u->source, strlen(u->source) + 1, u->key, h->store, err));
    else
        RP_TRY(compile_nvrtc_run(h->nvrtc, u->source, u->key, h->store, err));
    *out = (compile_code){true, u->key, compile_nvrtc_bits(h->nvrtc->arch), !u->ptx};
    *handle = base_strdup(hex);
    return *handle ? RP_OK : rp_fail(err, RP_NOMEM, "handle");
}

static rp_status load(const compile_host *h, const compile_unit *u, const char *handle,
                      compile_code *out, rp_error *err) {
    char hex[33], *path = NULL;
    const uint32_t bits = compile_nvrtc_bits(h->nvrtc->arch);
    rp_error miss = {0};
    base_hash_hex(u->key, hex);
    if (strcmp(hex, handle) != 0) return RP_NOT_FOUND;
    rp_status st = cache_get_code(h->store, u->key, bits, &path, &miss);
    base_free(path);
    if (st == RP_OK) *out = (compile_code){true, u->key, bits, false};
    return st == RP_OK || st == RP_NOT_FOUND ? st : rp_fail(err, st, "%s", miss.text);
}

const rp_compiler compile_cuda = {.name = "cuda",
                                  .alone = true,
                                  .initialize_cache = initialize_cache,
                                  .compute_hash = compute_hash,
                                  .lower = lower,
                                  .compile = compile,
                                  .load = load};
