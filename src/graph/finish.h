/* Finishes graphs of a ladder beside the thread that captures them, where a device lets others do that (graph_finish of
 * hal_device_ops): a driver takes longer to make an executable graph than its launches take to be bound and added.
 *
 * The thread that opened it calls everything here. */
#ifndef GRAPH_FINISH_H
#define GRAPH_FINISH_H

#include "device/graph.h"

typedef struct graph_finisher graph_finisher;

rp_status graph_finisher_open(graph_finisher **out, rp_error *err) RP_MUST_USE;
/* Room for one more, so that graph_finisher_add cannot fail. */
rp_status graph_finisher_reserve(graph_finisher *f, rp_error *err) RP_MUST_USE;
/* g was begun; it is left alone until the close. */
void graph_finisher_add(graph_finisher *f, device_graph *g);
/* Waits for all of them and frees f. The first failure, behind which the others may be left as they are; *out_bytes: of those that are finished. NULL is fine. */
rp_status graph_finisher_close(graph_finisher *f, uint64_t *out_bytes, rp_error *err) RP_MUST_USE;

#endif
