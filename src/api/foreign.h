/* A compiled graph that somebody else computes: a backend by its name (backend.h). */
#ifndef API_FOREIGN_H
#define API_FOREIGN_H

#include "api/compiled.h"
#include "backend/registry.h"

/* Gives g to d, or pieces of it, and makes c's interface. RP_OK with c->foreign NULL: d does not take it. c->reason says why not, or which pieces not. */
rp_status api_foreign_compile(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                              rp_compilation_config *config, rp_error *err) RP_MUST_USE;
/* All of g, in which nothing is dead; it is taken over, also on failure. *refused: d does not take it, for the reason in err. */
rp_status api_foreign_whole(rp_compiled *c, const rp_backend_desc *d, rp_graph *g, uint32_t threads,
                            const char *cache_dir, bool *refused, rp_error *err) RP_MUST_USE;
/* Of pieces; data is borrowed. */
rp_status api_foreign_bind(rp_compiled *c, bool param, uint32_t idx, void *data,
                           rp_error *err) RP_MUST_USE;
/* Buffers were counted. */
rp_status api_foreign_run(rp_compiled *c, const rp_buffer *inputs, rp_buffer *outputs,
                          rp_error *err) RP_MUST_USE;
void api_foreign_free(api_foreign *f);

#endif
