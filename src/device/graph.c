/* Device graphs and their parts. */
#include "device/graph.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

rp_status device_graph_new(hal_device *queue, const hal_launch *list, uint32_t n, size_t scratch,
                           const char *label, device_graph **out, rp_error *err) {
    RP_TRY(hal_audit(queue, list, n, err));
    hal_graph *graph = NULL;
    const int64_t t0 = base_now_ns();
    RP_TRY(queue->ops->graph_build(queue, list, n, scratch, label, &graph, err));
    const int64_t ns = base_now_ns() - t0;
    hal_log_replay(label, list, n);
    return device_graph_adopt(queue, graph, &(device_made){label, n, ns}, out, err);
}

static uint32_t programmatic(const hal_device *queue, const hal_graph *graph) {
    return queue->ops->graph_programmatic ? queue->ops->graph_programmatic(graph) : 0;
}

/* It is whole. */
static void log_capture(const device_graph *g) {
    char edges[48] = "";
    if (g->n_programmatic)
        (void)snprintf(edges, sizeof edges, ", %u programmatic edges", g->n_programmatic);
    base_log_ch(RP_LOG_CH_CUDAGRAPHS, true,
                "captured %s: %u launches%s, %zu bytes, made in %.3f ms", g->label, g->n, edges,
                g->bytes, (double)g->ns / 1e6);
}

static device_graph *new_graph(hal_device *queue, const device_made *how) {
    device_graph *g = base_alloc(sizeof *g);
    if (!g) return NULL;
    g->queue = queue;
    g->n = how->n;
    g->ns = how->ns;
    (void)snprintf(g->label, sizeof g->label, "%s", how->label ? how->label : "");
    return g;
}

rp_status device_graph_begin(hal_device *queue, const hal_launch *list, uint32_t n, size_t scratch,
                             const char *label, device_graph **out, rp_error *err) {
    if (!queue->ops->graph_begin) return device_graph_new(queue, list, n, scratch, label, out, err);
    RP_TRY(hal_audit(queue, list, n, err));
    const int64_t t0 = base_now_ns();
    device_graph *g = new_graph(queue, &(device_made){label, n, 0});
    if (!g) return rp_fail(err, RP_NOMEM, "graph %s", label);
    g->begun = true;
    rp_status st = queue->ops->graph_begin(queue, list, n, scratch, label, &g->graph, err);
    if (st != RP_OK) {
        base_free(g);
        return st;
    }
    g->n_programmatic = programmatic(queue, g->graph);
    g->ns = base_now_ns() - t0;
    hal_log_replay(label, list, n);
    *out = g;
    return RP_OK;
}

rp_status device_graph_finish(device_graph *g, rp_error *err) {
    if (!g->begun) return RP_OK;
    const int64_t t0 = base_now_ns();
    RP_TRY(g->queue->ops->graph_finish(g->graph, err));
    g->ns += base_now_ns() - t0;
    g->begun = false;
    g->bytes = g->queue->ops->graph_bytes(g->graph);
    log_capture(g);
    return RP_OK;
}

rp_status device_graph_adopt(hal_device *queue, hal_graph *graph, const device_made *how,
                             device_graph **out, rp_error *err) {
    device_graph *g = new_graph(queue, how);
    if (!g) {
        queue->ops->graph_free(graph);
        return rp_fail(err, RP_NOMEM, "graph %s", how->label);
    }
    g->graph = graph;
    g->bytes = queue->ops->graph_bytes(graph);
    g->n_programmatic = programmatic(queue, graph);
    log_capture(g);
    *out = g;
    return RP_OK;
}

void device_part_drop(device_part *p) {
    if (--p->refs) return;
    for (device_part **at = p->list; at && *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    p->free(p);
}

void device_graph_free(device_graph *g) {
    if (!g) return;
    if (g->graph) g->queue->ops->graph_free(g->graph);
    hal_bodies_free(g->bodies);
    for (uint32_t i = 0; i < g->n_parts; i++) device_part_drop(g->part[i]);
    base_free(g->part);
    base_free(g->used);
    base_free(g);
}

void device_graph_uses(device_graph *g, rp_device *d, hal_used *used, uint32_t n, uint64_t frees) {
    g->device = d;
    g->used = used;
    g->n_used = n;
    g->frees = frees;
}

/* Asked again only when memory was freed since. Other memory may be there by now. */
static bool is_there(device_graph *g) {
    uint64_t frees = g->device ? device_frees(g->device) : 0;
    if (frees == g->frees) return true;
    for (uint32_t i = 0; i < g->n_used; i++)
        if (hal_range_serial(device_root(g->device), g->used[i].at) != g->used[i].serial)
            return false;
    g->frees = frees;
    return true;
}

bool device_graph_valid(device_graph *g) {
    if (!is_there(g)) return false;
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (!g->part[i]->valid(g->part[i])) return false;
    return true;
}

rp_status device_graph_move(const device_graph *g, uint32_t i, void *to, const void *from,
                            bool *done, rp_error *err) {
    *done = false;
    return g->queue->ops->graph_move ? g->queue->ops->graph_move(g->graph, i, to, from, done, err)
                                     : RP_OK;
}

rp_status device_graph_launch(device_graph *g, rp_error *err) {
    return g->queue->ops->graph_launch(g->graph, err);
}
