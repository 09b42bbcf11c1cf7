/* A cuda graph: the launch list as a chain of kernel nodes, each with its arguments copied in, or what the driver captured; launched
 * as one. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/cuda/device.h"

struct hal_graph {
    cuda_device *d;
    cuda_chain chain;
    uint32_t n, n_programmatic;
    bool unfinished;
    size_t bytes;
    cuda_moves moves;
    char label[];
};

static rp_status add_all(cuda_chain *c, const cuda_device *d, const hal_launch *list, uint32_t n,
                         rp_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        void *room[CUDA_MAX_PARAMETERS];
        cuda_launch k;
        bool any;
        RP_TRY(cuda_launch_of(d, &list[i], room, &k, &any, err));
        if (any) RP_TRY(cuda_chain_add(c, &k, err));
    }
    return RP_OK;
}

static size_t free_memory(const cuda_device *d) {
    size_t available = 0, total = 0;
    return d->cu.memory_info(&available, &total) == 0 ? available : 0;
}

/* kept: bytes of the host. */
static void begin(hal_graph *g, size_t kept) {
    cuda_device *d = g->d;
    g->bytes = kept;
    g->unfinished = true;
    if (atomic_fetch_add(&d->unfinished, 1) == 0) atomic_store(&d->free_memory, free_memory(d));
}

/* What the driver takes of the GPU for a graph comes in large pieces, so most graphs seem to take none there: what
 * the host keeps is added. Of graphs that are finished beside one another, whoever looks first has what both took. More than a
 * piece and nodes of the largest kind is not the graph's: another process has the same GPU. */
static size_t taken(const hal_graph *g, size_t before, size_t after) {
    enum { PIECE = 2 << 20, NODE = 64 << 10 };
    const size_t most = PIECE + (size_t)g->n * NODE, bytes = before > after ? before - after : 0;
    return bytes < most ? bytes : most;
}

rp_status cuda_graph_finish(hal_graph *g, rp_error *err) {
    cuda_device *d = g->d;
    if (!g->unfinished) return RP_OK;
    RP_TRY(cuda_device_enter(d, err));
    RP_TRY(cuda_chain_finish(&g->chain, d->stream, err));
    const size_t after = free_memory(d), before = atomic_exchange(&d->free_memory, after);
    g->bytes += taken(g, before, after);
    g->unfinished = false;
    (void)atomic_fetch_sub(&d->unfinished, 1);
    return RP_OK;
}

static rp_status fill_graph(hal_graph *g, const hal_launch *list, rp_error *err) {
    size_t kept = 0;
    if (!hal_list_bytes(list, g->n, &kept))
        return rp_fail(err, RP_NOMEM, "graph of %u launches is too large", g->n);
    RP_TRY(
        cuda_chain_init(&g->chain, &g->d->cu, g->d->gpu.capability >= CUDA_MIN_PROGRAMMATIC, err));
    RP_TRY(add_all(&g->chain, g->d, list, g->n, err));
    if (g->chain.programmatic && g->chain.n) g->n_programmatic = g->chain.n - 1;
    begin(g, kept);
    return RP_OK;
}

static hal_graph *new_graph(cuda_device *d, const char *label, uint32_t n) {
    size_t label_size = strlen(label ? label : "") + 1;
    hal_graph *g = base_alloc(sizeof *g + label_size);
    if (!g) return NULL;
    g->d = d;
    g->n = n;
    memcpy(g->label, label ? label : "", label_size);
    return g;
}

static bool has_lists(const hal_launch *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (list[i].kind == HAL_LISTS) return true;
    return false;
}

/* Branches of the driver are made in captures. */
static rp_status build_captured(hal_device *base, const hal_launch *list, uint32_t n,
                                const char *label, hal_graph **out, rp_error *err) {
    uint32_t n_nodes = 0;
    rp_error none = {0};
    RP_TRY(base->ops->capture_begin(base, err));
    rp_status st = base->ops->launch(base, list, n, 0, err);
    if (st == RP_OK) return base->ops->capture_end(base, label, out, &n_nodes, err);
    (void)base->ops->capture_end(base, label, NULL, NULL, &none);
    return st;
}

rp_status cuda_graph_begin(hal_device *base, const hal_launch *list, uint32_t n,
                           size_t scratch_size, const char *label, hal_graph **out, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    (void)scratch_size;
    if (has_lists(list, n)) return build_captured(base, list, n, label, out, err);
    RP_TRY(cuda_device_enter(d, err));
    hal_graph *g = new_graph(d, label, n);
    if (!g) return rp_fail(err, RP_NOMEM, "no memory for a graph of %u launches", n);
    rp_status st = fill_graph(g, list, err);
    if (st != RP_OK) {
        cuda_graph_free(g);
        return st;
    }
    hal_note_build(base, g->label);
    *out = g;
    return RP_OK;
}

rp_status cuda_graph_build(hal_device *base, const hal_launch *list, uint32_t n,
                           size_t scratch_size, const char *label, hal_graph **out, rp_error *err) {
    hal_graph *g = NULL;
    RP_TRY(cuda_graph_begin(base, list, n, scratch_size, label, &g, err));
    rp_status st = cuda_graph_finish(g, err);
    if (st == RP_OK)
        *out = g;
    else
        cuda_graph_free(g);
    return st;
}

/* As the driver has made them of what it captured. */
static rp_status count_programmatic(hal_graph *g, rp_error *err) {
    const cuda_driver *cu = &g->d->cu;
    size_t n = 0;
    RP_TRY(cuda_check(cu, cu->graph_edges(g->chain.graph, NULL, NULL, NULL, &n), "edges of a graph",
                      err));
    if (n == 0) return RP_OK;
    void **ends = base_alloc_array(n, 2 * sizeof *ends);
    cuda_edge *edge = base_alloc_array(n, sizeof *edge);
    rp_status st = ends && edge
                       ? cuda_check(cu, cu->graph_edges(g->chain.graph, ends, ends + n, edge, &n),
                                    "edges of a graph", err)
                       : rp_fail(err, RP_NOMEM, "%zu edges of a graph", n);
    for (size_t i = 0; st == RP_OK && i < n; i++)
        g->n_programmatic += edge[i].type == CUDA_EDGE_PROGRAMMATIC;
    base_free(ends);
    base_free(edge);
    return st;
}

/* The driver's copy of a node is not to be seen: as much as a launch with ten arguments. */
rp_status cuda_graph_adopt(cuda_device *d, void *graph, uint32_t n, const char *label,
                           hal_graph **out, rp_error *err) {
    enum { NODE_BYTES = sizeof(hal_launch) + 10 * sizeof(void *) };
    hal_graph *g = new_graph(d, label, n);
    if (!g) {
        base_free(d->moves.v);
        d->moves = (cuda_moves){0};
        (void)d->cu.graph_free(graph);
        return rp_fail(err, RP_NOMEM, "no memory for a graph of %u nodes", n);
    }
    g->chain = (cuda_chain){.cu = &d->cu, .graph = graph, .n = n};
    g->moves = d->moves;
    d->moves = (cuda_moves){0};
    begin(g, sizeof *g + (size_t)n * NODE_BYTES);
    rp_status st = count_programmatic(g, err);
    if (st == RP_OK) st = cuda_graph_finish(g, err);
    if (st != RP_OK) {
        cuda_graph_free(g);
        return st;
    }
    hal_note_build(&d->base, g->label);
    *out = g;
    return RP_OK;
}

static rp_status enable(const hal_graph *g, cuda_move *m, bool on, rp_error *err) {
    if (m->off == !on) return RP_OK;
    RP_TRY(cuda_check(&g->d->cu, g->d->cu.exec_enable(g->chain.exec, m->node, on),
                      "a copy of a graph", err));
    m->off = !on;
    return RP_OK;
}

/* What stays where it was in the last replay costs nothing. */
rp_status cuda_graph_move(hal_graph *g, uint32_t i, void *to, const void *from, bool *done,
                          rp_error *err) {
    const cuda_driver *cu = &g->d->cu;
    cuda_move *m = &g->moves.v[i];
    uint64_t target = (uint64_t)(uintptr_t)to, source = (uint64_t)(uintptr_t)from;
    unsigned kind = CUDA_MEMORY_HOST;
    *done = from != NULL;
    if (!m->node) return RP_OK;
    if (!from) return enable(g, m, false, err);
    if (!m->off && m->copy.to.device == target && m->copy.from.device == source) return RP_OK;
    RP_TRY(cuda_device_enter(g->d, err));
    *done = cu->pointer_get(&kind, CUDA_POINTER_MEMORY, source) == 0 && kind != CUDA_MEMORY_HOST &&
            cuda_device_reaches(&g->d->base, from);
    if (!*done) return RP_OK;
    m->copy.to.device = target;
    m->copy.from.device = source;
    RP_TRY(cuda_check(cu, cu->exec_copy(g->chain.exec, m->node, &m->copy, g->d->gpu.context),
                      "a copy of a graph", err));
    return enable(g, m, true, err);
}

rp_status cuda_graph_launch(hal_graph *g, rp_error *err) {
    if (hal_capturing(&g->d->base)) return hal_refuse_captured(&g->d->base, "a replay", err);
    RP_TRY(cuda_device_enter(g->d, err));
    cuda_device_last(g->d, "graph", g->label);
    RP_TRY(cuda_chain_launch(&g->chain, g->d->stream, err));
    hal_note_replay(&g->d->base, g->label, g->n);
    return RP_OK;
}

size_t cuda_graph_bytes(const hal_graph *g) {
    return g->bytes;
}

uint32_t cuda_graph_programmatic(const hal_graph *g) {
    return g->n_programmatic;
}

void cuda_graph_free(hal_graph *g) {
    if (!g) return;
    (void)g->d->cu.context_set(g->d->gpu.context);
    if (g->unfinished) (void)atomic_fetch_sub(&g->d->unfinished, 1);
    if (g->chain.cu) {
        if (!hal_capturing(&g->d->base)) (void)g->d->cu.stream_synchronize(g->d->stream);
        cuda_chain_done(&g->chain);
    }
    base_free(g->moves.v);
    base_free(g);
}
