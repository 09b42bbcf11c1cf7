/* See batched.h. */
#include "support/batched.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "target/target.h"

enum { MOST_KERNELS = 8192 };

static struct {
    bool collecting;
    uint64_t graph;
    uint32_t pieces; /* of graph */
    base_buf source; /* of all that were noted */
    lower_kernel kernels[MOST_KERNELS];
    uint32_t n_kernels;
    base_hash128 key;
} batch;

void batched_begin(void) {
    base_buf_done(&batch.source);
    base_buf_init(&batch.source, 0);
    batch.n_kernels = 0;
    batch.collecting = true;
}

void batched_graph(uint64_t name) {
    batch.graph = name;
    batch.pieces = 0;
}

/* Text of a kernel with another name, which that of its helpers begins with. */
static void put_renamed(base_str text, const char *from, const char *to, base_buf *out) {
    const size_t n = strlen(from);
    for (size_t at = 0; at < text.len;) {
        bool named = n <= text.len - at && memcmp(text.ptr + at, from, n) == 0;
        if (named)
            base_buf_puts(out, to);
        else
            base_buf_putc(out, text.ptr[at]);
        at += named ? n : 1;
    }
}

static rp_status note(const lower_kernel *k, base_str text, rp_error *err) {
    if (batch.n_kernels == MOST_KERNELS)
        return rp_fail(err, RP_UNSUPPORTED, "a batch of %d kernels", MOST_KERNELS);
    lower_kernel *own = &batch.kernels[batch.n_kernels++];
    *own = *k;
    own->name = NULL; /* in the text */
    own->begin = batch.source.len;
    base_buf_add(&batch.source, text.ptr, text.len);
    own->end = batch.source.len;
    return base_buf_status(&batch.source, err);
}

static void rename_launches(lower_piece *p, const char *from, const char *to) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_alts; a++) {
            const char **symbol = &p->launches[i].alts[a].symbol;
            if (*symbol && strcmp(*symbol, from) == 0) *symbol = to;
        }
}

static rp_status rename_all(lower_piece *p, rp_error *err) {
    rp_status st = RP_OK;
    const uint32_t piece = batch.pieces++;
    base_buf all;
    base_buf_init(&all, 0);
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        lower_kernel *k = &p->kernels[i];
        char name[160];
        base_str text = {p->source + k->begin, k->end - k->begin};
        (void)snprintf(name, sizeof name, "g%" PRIu64 "_%u_%s", batch.graph, piece, k->name);
        const char *own = base_arena_str(p->arena, name);
        if (!own) RP_TRY_OUT(rp_fail(err, RP_NOMEM, "name of a kernel"));
        k->begin = all.len;
        put_renamed(text, k->name, own, &all);
        k->end = all.len;
        RP_TRY_OUT(base_buf_status(&all, err));
        rename_launches(p, k->name, own);
        k->name = own;
        if (batch.collecting)
            RP_TRY_OUT(note(k, (base_str){all.data + k->begin, k->end - k->begin}, err));
    }
    p->source = base_arena_strn(p->arena, all.data ? all.data : "", all.len);
    if (!p->source) st = rp_fail(err, RP_NOMEM, "source of %zu bytes", all.len);
out:
    base_buf_done(&all);
    return st;
}

static rp_status lower(const ir_graph *g, const lower_options *opt, lower_piece *out,
                       rp_error *err) {
    RP_TRY(target_lower(g, opt, out, err));
    rp_status st = rename_all(out, err);
    if (st != RP_OK) lower_done(out);
    return st;
}

rp_status batched_build(gen_isa isa, const compile_toolchain *t, cache_store *store,
                        rp_error *err) {
    static bool wanted[MOST_KERNELS];
    const lower_piece all = {.kernels = batch.kernels,
                             .n_kernels = batch.n_kernels,
                             .target = GEN_HOST,
                             .source = batch.source.data};
    base_buf unit;
    batch.collecting = false;
    if (batch.n_kernels == 0) return RP_OK;
    memset(wanted, 1, sizeof wanted);
    base_buf_init(&unit, 0);
    rp_status st = lower_unit(&all, isa, wanted, &unit, err);
    if (st == RP_OK) {
        batch.key = base_hash(unit.data, unit.len);
        st = compile_toolchain_run(t, unit.data, isa, batch.key, store, err);
    }
    base_buf_done(&unit);
    return st;
}

static rp_status initialize(const compile_host *h, rp_error *err) {
    return compile_inductor.initialize_cache(h, err);
}

static rp_status add_factors(const compile_host *h, cache_key *k, rp_error *err) {
    return compile_inductor.compute_hash(h, k, err);
}

static rp_status compile(const compile_host *h, const compile_unit *u, compile_code *out,
                         char **handle, rp_error *err) {
    (void)err;
    *handle = NULL;
    if (u->n_functions) *out = (compile_code){true, batch.key, GEN_ISA_BIT(h->isa), true};
    return RP_OK;
}

static rp_status load(const compile_host *h, const compile_unit *u, const char *handle,
                      compile_code *out, rp_error *err) {
    (void)h, (void)u, (void)handle, (void)out, (void)err;
    return RP_NOT_FOUND;
}

const rp_compiler compile_batched = {.name = "batched",
                                     .initialize_cache = initialize,
                                     .compute_hash = add_factors,
                                     .lower = lower,
                                     .compile = compile,
                                     .load = load};
