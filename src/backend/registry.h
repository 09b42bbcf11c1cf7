/* Who compiles graphs beside the library's own compilers. */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "reprise/backend.h"

/* NULL when not registered. Borrowed for the life of the process. */
const rp_backend_desc *backend_find(const char *name);
/* Names of those that backend_find knows, and of compilers of the library that need no level of their own; NULL behind the last. The array
 * stays valid; it may grow behind *n. Thread-safe. */
const char *const *backend_names(uint32_t *n);
/* What d->ready says. */
rp_status backend_ready(const rp_backend_desc *d, rp_error *err) RP_MUST_USE;
/* Whether d takes node i, as one without `supports` does; if not, err has the reason. */
rp_status backend_supports(const rp_backend_desc *d, const rp_graph *g, uint32_t i, bool *out,
                           rp_error *err) RP_MUST_USE;
/* What d->ready says, and what d->compile gives. A failure has a text. *refused: it does not take g, for the reason in err alone. */
rp_status backend_compile(const rp_backend_desc *d, const rp_graph *g,
                          const rp_backend_options *options, rp_callable *out, bool *refused,
                          rp_error *err) RP_MUST_USE;
/* Of one that has a hash: what d->load gives, and what d->save writes. */
rp_status backend_load(const rp_backend_desc *d, const rp_graph *g,
                       const rp_backend_options *options, const void *handle, size_t size,
                       rp_callable *out, rp_error *err) RP_MUST_USE;
rp_status backend_save(const rp_backend_desc *d, const rp_callable *c, rp_backend_write write,
                       void *to, rp_error *err) RP_MUST_USE;
rp_status backend_run(const rp_backend_desc *d, const rp_callable *c, const rp_buffer *inputs,
                      uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                      rp_error *err) RP_MUST_USE;

#endif
