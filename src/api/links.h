/* A compiled graph that is computed piece by piece, by a backend and by inductor in turn. What crosses from one to a later one lies in memory
 * that calls use one after the other. */
#ifndef API_LINKS_H
#define API_LINKS_H

#include "api/compiled.h"
#include "api/offer.h"
#include "split/sides.h"

typedef struct api_links api_links;

/* What links are made for. */
typedef struct api_linking {
    rp_compiled *c; /* gets counts of what is compiled; borrowed */
    const rp_backend_desc *by;
    const rp_graph *g; /* with reads before the writes that follow */
    const api_offer *offer;
    const split_sides *sides;
    rp_compilation_config *config; /* resolved, and noted in */
} api_linking;

/* *reason (base_free): which pieces inductor compiles, and why. *out is NULL where that is all of them. */
rp_status api_links_new(const api_linking *of, api_links **out, char **reason,
                        rp_error *err) RP_MUST_USE;
void api_links_free(api_links *l);
/* Params and states by their place among the graph's. Data is borrowed. */
rp_status api_links_bind(api_links *l, bool param, uint32_t idx, void *data,
                         rp_error *err) RP_MUST_USE;
/* Buffers were checked, and gave the symbols. One call at a time. */
rp_status api_links_run(api_links *l, const int64_t *symbols, const rp_buffer *inputs,
                        rp_buffer *outputs, rp_error *err) RP_MUST_USE;

#endif
