/* A compiled graph that somebody else computes: a backend by its name (backend.h). */
#ifndef API_FOREIGN_H
#define API_FOREIGN_H

#include "api/compiled.h"
#include "backend/registry.h"

/* Gives g to d, and makes c's interface. RP_OK with c->foreign NULL: d does not take it, for the reason in c->reason. */
rp_status api_foreign_compile(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                              const char *cache_dir, rp_error *err) RP_MUST_USE;
/* Buffers were counted. */
rp_status api_foreign_run(rp_compiled *c, const rp_buffer *inputs, rp_buffer *outputs,
                          rp_error *err) RP_MUST_USE;
void api_foreign_free(api_foreign *f);

#endif
