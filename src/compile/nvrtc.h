/* NVRTC as the compiler of generated CUDA C: found where something has to be compiled, never at a warm start. Thread-safe. */
#ifndef COMPILE_NVRTC_H
#define COMPILE_NVRTC_H

#include "cache/store.h"
#include "hal/cuda/api.h"

typedef struct compile_nvrtc {
    cuda_nvrtc api;
    char arch[16];    /* such as sm_90 */
    char version[32]; /* "NVRTC 13.0" */
    char *scratch;    /* private folder for code on its way into the store */
} compile_nvrtc;

/* RP_UNSUPPORTED where there is none. compile_nvrtc_done removes the scratch. */
rp_status compile_nvrtc_find(const char *arch, compile_nvrtc *out, rp_error *err) RP_MUST_USE;
void compile_nvrtc_done(compile_nvrtc *n); /* zeroed is fine */
/* Compiles source to a cubin and stores it under key. RP_INTERNAL with the compiler's first complaint. */
rp_status compile_nvrtc_run(const compile_nvrtc *n, const char *source, base_hash128 key,
                            cache_store *store, rp_error *err) RP_MUST_USE;
/* Stores code for its architecture, a cubin or a module in PTX with its NUL, under key. */
rp_status compile_nvrtc_keep(const compile_nvrtc *n, const char *code, size_t size,
                             base_hash128 key, cache_store *store, rp_error *err) RP_MUST_USE;
/* What code for arch is stored with, in the place of a host's instruction sets. */
uint32_t compile_nvrtc_bits(const char *arch);
/* Bytes of shared memory that a block may have there (CUDA C++ Programming Guide, technical specifications per compute capability). */
uint32_t compile_nvrtc_shared(const char *arch);

#endif
