/* Model files. Thread-safe. */
#ifndef REPRISE_MODEL_H
#define REPRISE_MODEL_H

#include <stdint.h>

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a synthetic model as a GGUF file, which then gives the ids and the weights of the model of that name. spec:
 * "synthetic:NAME[,layers=N][,dtype=f32|bf16|q4_1][,seed=N]", with or without "synthetic:". path: a regular file
 * appears whole or not at all; a device or a pipe is written to, "-" is standard output. *out_bytes (may be NULL) is the
 * size of the tensors. RP_CONFIG names what is wrong with spec, RP_IO the file. */
RP_API rp_status rp_model_synthesize(const char *spec, const char *path, uint64_t *out_bytes,
                                     rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
