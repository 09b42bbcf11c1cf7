/* A compiler turns an optimised piece into launches, and units of such pieces into code; `backend` names one.
 *
 * eager runs each node with the portable kernels inside the library; inductor fuses, generates and runs the host
 * compiler; cuda does the same for a GPU with NVRTC. The manager (manager.h) is the only caller. Internal: a piece,
 * its launches and the store are types of this library that no public header has. */
#ifndef COMPILE_COMPILER_H
#define COMPILE_COMPILER_H

#include "cache/key.h"
#include "compile/nvrtc.h"
#include "compile/toolchain.h"
#include "lower/lower.h"
#include "split/split.h"

/* What all pieces share. */
typedef struct compile_host {
    gen_isa isa;
    const char *machine; /* architecture of the processor (base/host.h) */
    const compile_toolchain *toolchain;
    cache_store *store;         /* NULL: nothing is kept */
    const compile_nvrtc *nvrtc; /* (optional) for the cuda compiler */
} compile_host;

/* Kernels that are compiled at once (units.h), or a piece that has none. */
typedef struct compile_unit {
    const split_piece *piece; /* whose kernels these are */
    const char *source;       /* C text, or */
    bool ptx;                 /* a module in PTX, which the driver compiles when it is loaded */
    uint32_t n_functions;     /* generated ones; 0: launches of library code only */
    base_hash128
        key; /* of the compiler's factors and the source; without functions, of those, (range, piece, backend)
                                 and the settings that reach a piece */
} compile_unit;

/* Where the functions of a unit are. */
typedef struct compile_code {
    bool has_code; /* false: built-in kernels only */
    base_hash128 key;
    uint32_t isa_bits;
    bool ran; /* the host compiler, for this */
} compile_code;

typedef struct rp_compiler {
    const char *name;
    bool alone; /* its launches are all of its own code: none of functions of the library */
    /* Once, before anything else. Refuses a host that it cannot work on at all. */
    rp_status (*initialize_cache)(const compile_host *h, rp_error *err);
    /* Hashes everything outside of the source that decides what compile makes into k, factor by factor. */
    rp_status (*compute_hash)(const compile_host *h, cache_key *k, rp_error *err);
    /* The launches, made in every process that has no plan; g has been through the passes. One piece at a time. */
    rp_status (*lower)(const ir_graph *g, const lower_options *opt, lower_piece *out,
                       rp_error *err);
    /* Makes the code. *handle (base_free) is what load finds it by in another process; NULL: cannot be cached, which is no
     * error. Called for several units at a time. */
    rp_status (*compile)(const compile_host *h, const compile_unit *u, compile_code *out,
                         char **handle, rp_error *err);
    /* Finds what compile gave that handle for; RP_NOT_FOUND: it is gone, compile again. */
    rp_status (*load)(const compile_host *h, const compile_unit *u, const char *handle,
                      compile_code *out, rp_error *err);
} rp_compiler;

extern const rp_compiler compile_eager;
extern const rp_compiler compile_inductor;
extern const rp_compiler compile_cuda;

#endif
