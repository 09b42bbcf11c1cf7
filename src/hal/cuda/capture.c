/* Captures by the driver: what this thread sends to the queue's stream becomes a graph, whoever sends it, launches of plans, kernels of
 * the user, libraries.
 *
 * The mode is the thread's own: calls that a graph cannot contain are refused to this thread alone, and the others go on. Of what the
 * driver would contain and a replay could not repeat rightly, the graph is searched when it is done: copies to the host,
 * which the function reads too early, copies from host memory that will have moved on, and memory in stream order. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "hal/cuda/device.h"
#include "hal/cuda/guard.h"
#include "hal/cuda/queues.h"

/* Of the graph under way: its nodes so far, owned by the caller. */
static rp_status nodes_of(const cuda_device *d, void *graph, void ***out, size_t *out_n,
                          rp_error *err) {
    size_t n = 0;
    RP_TRY(cuda_check(&d->cu, d->cu.graph_nodes(graph, NULL, &n), "nodes of a capture", err));
    void **node = base_alloc_array(n + 1, sizeof(void *));
    if (!node) return rp_fail(err, RP_NOMEM, "a capture of %zu nodes", n);
    rp_status st =
        n ? cuda_check(&d->cu, d->cu.graph_nodes(graph, node, &n), "nodes of a capture", err)
          : RP_OK;
    if (st != RP_OK) {
        base_free(node);
        return st;
    }
    *out = node;
    *out_n = n;
    return RP_OK;
}

/* The kernel that the capture ended behind, as far as the driver still tells. */
static void tell_last(const cuda_device *d, char *out, size_t size) {
    rp_error none = {0};
    void **node = NULL;
    size_t n = 0;
    int type = -1;
    cuda_kernel_node k = {0};
    const char *name = NULL;
    out[0] = 0;
    if (!d->captured.graph || nodes_of(d, d->captured.graph, &node, &n, &none) != RP_OK) return;
    if (n && d->cu.node_type(node[n - 1], &type) == 0 && type == CUDA_NODE_KERNEL &&
        d->cu.node_kernel(node[n - 1], &k) == 0 && k.function &&
        d->cu.function_name(&name, k.function) == 0 && name)
        (void)snprintf(out, size, " behind kernel %s, node %zu", name, n);
    else if (n)
        (void)snprintf(out, size, " behind node %zu", n);
    base_free(node);
}

rp_status cuda_capture_check(const cuda_device *d, int code, const char *what, rp_error *err) {
    char last[64];
    if (code < CUDA_CAPTURE_FIRST || code > CUDA_CAPTURE_LAST)
        return cuda_check(&d->cu, code, what, err);
    const char *name = NULL;
    (void)d->cu.error_name(code, &name);
    tell_last(d, last, sizeof last);
    return rp_fail(
        err, RP_UNSUPPORTED,
        "a call that no capture permits (it waits, allocates, reads back or forks) ended "
        "the capture%s: %s; rp_call_check says which one it was",
        last, name ? name : "CUDA");
}

static void forget(cuda_device *d) {
    if (d->captured.graph) (void)d->cu.graph_free(d->captured.graph);
    base_free(d->captured.body);
    base_free(d->captured.copy);
    base_free(d->moves.v);
    d->captured = (cuda_captured){0};
    d->moves = (cuda_moves){0};
}

static rp_status begin(cuda_device *d, rp_error *err) {
    RP_TRY(cuda_check(&d->cu, d->cu.graph_new(&d->captured.graph, 0), "a new graph", err));
    return cuda_check(
        &d->cu, d->cu.capture_to(d->stream, d->captured.graph, NULL, NULL, 0, CUDA_CAPTURE_THREAD),
        "beginning a capture", err);
}

rp_status cuda_capture_begin(hal_device *base, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    rp_error none = {0};
    RP_TRY(cuda_device_enter(d, err));
    RP_TRY(hal_note_open(base, false, err));
    cuda_guard_enter();
    rp_status st = cuda_queues_capture_begin(d, err);
    if (st == RP_OK) st = begin(d, err);
    if (st == RP_OK) return RP_OK;
    cuda_queues_capture_end(d);
    forget(d);
    cuda_guard_leave();
    (void)hal_note_close(base, &none);
    return st;
}

void *cuda_capture_at(const cuda_device *d, void *const **last, size_t *n_last) {
    int status = 0;
    uint64_t id = 0;
    void *graph = NULL;
    const cuda_edge *edges = NULL;
    int code = d->cu.capture_info(d->stream, &status, &id, &graph, last, &edges, n_last);
    return code == 0 && status == CUDA_CAPTURE_ACTIVE ? graph : NULL;
}

static cuda_move *new_move(cuda_moves *m) {
    if (m->n == m->cap) {
        uint32_t cap = m->cap ? m->cap * 2 : 8;
        cuda_move *v = base_realloc_array(m->v, cap, sizeof *v);
        if (!v) return NULL;
        m->v = v;
        m->cap = cap;
    }
    m->v[m->n] = (cuda_move){0};
    return &m->v[m->n++];
}

static rp_status add_move(cuda_device *d, cuda_move *m, uint64_t to, uint64_t from, size_t size,
                          rp_error *err) {
    void *const *last = NULL;
    size_t n_last = 0;
    RP_TRY(cuda_capture_check(d, d->cu.copy(to, from, size, d->stream), "a copy", err));
    if (!cuda_capture_at(d, &last, &n_last) || n_last != 1)
        return rp_fail(err, RP_DEVICE, "a captured copy is not what the stream ends with");
    m->node = last[0];
    RP_TRY(cuda_check(&d->cu, d->cu.node_copy(m->node, &m->copy), "a captured copy", err));
    if (m->copy.to.device == to && m->copy.from.device == from) return RP_OK;
    return rp_fail(err, RP_DEVICE, "a captured copy has other ends than it was given");
}

rp_status cuda_capture_move(hal_device *base, void *to, const void *from, size_t size,
                            rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    rp_error why = {0};
    cuda_move *m = new_move(&d->moves);
    rp_status st = m ? RP_OK : rp_fail(&why, RP_NOMEM, "copies of a graph");
    if (m && size)
        st = add_move(d, m, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, size, &why);
    return st == RP_OK ? RP_OK : hal_note_failed(base, st, &why, err);
}

/* Launches in bodies are noted with the others, so that with a branch nobody knows. */
bool cuda_capture_foreign(const hal_device *base) {
    const cuda_device *d = (const cuda_device *)base;
    size_t n = 0;
    return d->captured.n_bodies || d->cu.graph_nodes(d->captured.graph, NULL, &n) != 0 ||
           n > (size_t)hal_note_count(base) + d->moves.n;
}

/* Any word of an argument may be an address, and one that is none by chance costs a look when memory is freed. */
static rp_status scan_kernel(cuda_device *d, void *node, rp_error *err) {
    cuda_kernel_node k = {0};
    size_t offset, size;
    RP_TRY(cuda_check(&d->cu, d->cu.node_kernel(node, &k), "a kernel in a capture", err));
    if (!k.parameters || !k.function) return RP_OK;
    for (size_t i = 0; d->cu.function_parameter(k.function, i, &offset, &size) == 0; i++)
        for (size_t at = 0; at + sizeof(void *) <= size; at += sizeof(void *)) {
            void *word;
            memcpy(&word, (const char *)k.parameters[i] + at, sizeof word);
            RP_TRY(hal_note_address(&d->base, word, err));
        }
    return RP_OK;
}

/* Calls look with the nodes of the graph and its bodies. *out_n (may be NULL): how many there are. */
static rp_status each_node(cuda_device *d, rp_status (*look)(cuda_device *, void *, rp_error *),
                           uint32_t *out_n, rp_error *err) {
    size_t sum = 0;
    rp_status st = RP_OK;
    for (uint32_t k = 0; k <= d->captured.n_bodies && st == RP_OK; k++) {
        void **node = NULL;
        size_t n = 0;
        st = nodes_of(d, k ? d->captured.body[k - 1] : d->captured.graph, &node, &n, err);
        for (size_t i = 0; i < n && st == RP_OK; i++) st = look(d, node[i], err);
        base_free(node);
        sum += n;
    }
    if (out_n) *out_n = (uint32_t)sum;
    return st;
}

static rp_status scan_node(cuda_device *d, void *node, rp_error *err) {
    int type = -1;
    RP_TRY(cuda_check(&d->cu, d->cu.node_type(node, &type), "a node of a capture", err));
    return type == CUDA_NODE_KERNEL ? scan_kernel(d, node, err) : RP_OK;
}

rp_status cuda_capture_scan(hal_device *base, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    void *const *last = NULL;
    size_t n_last = 0;
    return cuda_capture_at(d, &last, &n_last) ? each_node(d, scan_node, NULL, err) : RP_OK;
}

static bool is_ours(const cuda_device *d, const cuda_copy_block *side) {
    unsigned kind = 0;
    const void *at = side->kind == CUDA_MEMORY_HOST ? side->host : (void *)(uintptr_t)side->device;
    return d->cu.pointer_get(&kind, CUDA_POINTER_MEMORY, (uint64_t)(uintptr_t)at) == 0;
}

static bool is_host(const cuda_device *d, const cuda_copy_block *side) {
    unsigned kind = CUDA_MEMORY_HOST;
    if (side->kind != CUDA_MEMORY_UNIFIED) return side->kind == CUDA_MEMORY_HOST;
    return d->cu.pointer_get(&kind, CUDA_POINTER_MEMORY, side->device) != 0 ||
           kind == CUDA_MEMORY_HOST;
}

rp_status cuda_capture_keep_copy(cuda_device *d, rp_error *err) {
    cuda_captured *c = &d->captured;
    void *const *last = NULL;
    size_t n_last = 0;
    if (c->n_copies == c->cap_copies) {
        uint32_t cap = c->cap_copies ? c->cap_copies * 2 : 16;
        void **copy = base_realloc_array(c->copy, cap, sizeof(void *));
        if (!copy) return rp_fail(err, RP_NOMEM, "copies of a graph");
        c->copy = copy;
        c->cap_copies = cap;
    }
    if (!cuda_capture_at(d, &last, &n_last) || n_last != 1)
        return rp_fail(err, RP_DEVICE, "a captured copy is not what the stream ends with");
    c->copy[c->n_copies++] = last[0];
    return RP_OK;
}

/* By a compiled graph, for a result in memory of the host that the GPU reaches; not by the function. */
static bool is_of_lists(const cuda_captured *c, const void *node) {
    for (uint32_t i = 0; i < c->n_copies; i++)
        if (c->copy[i] == node) return true;
    return false;
}

static rp_status check_copy(const cuda_device *d, void *node, rp_error *err) {
    cuda_copy_3d c = {0};
    RP_TRY(cuda_check(&d->cu, d->cu.node_copy(node, &c), "a copy in a capture", err));
    if (is_host(d, &c.to) && !is_of_lists(&d->captured, node))
        return rp_fail(err, RP_UNSUPPORTED,
                       "the function reads back: a copy of %zu bytes to the host, which is there "
                       "after the replay alone",
                       c.width);
    if (is_host(d, &c.from) && !is_ours(d, &c.from))
        return rp_fail(err, RP_UNSUPPORTED,
                       "the function copies %zu bytes from memory of the host that is not pinned, "
                       "which each replay would read again",
                       c.width);
    return RP_OK;
}

static rp_status check_node(cuda_device *d, void *node, rp_error *err) {
    int type = 0;
    RP_TRY(cuda_check(&d->cu, d->cu.node_type(node, &type), "a node of a capture", err));
    if (type == CUDA_NODE_COPY) return check_copy(d, node, err);
    if (type == CUDA_NODE_ALLOC || type == CUDA_NODE_FREE)
        return rp_fail(err, RP_UNSUPPORTED,
                       "the function %s memory in stream order; take memory by rp_call_temp",
                       type == CUDA_NODE_ALLOC ? "allocates" : "frees");
    return RP_OK;
}

/* --- what was recorded ------------------------------------------------------------------------ */

static void tell_kernel(const cuda_device *d, void *node, base_buf *b) {
    cuda_kernel_node k = {0};
    const char *name = NULL;
    if (d->cu.node_kernel(node, &k) != 0) return;
    if (k.function) (void)d->cu.function_name(&name, k.function);
    base_buf_printf(b, " %s blocks %ux%ux%u threads %ux%ux%u", name ? name : "of a library",
                    k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1], k.block[2]);
}

static void tell_copy(const cuda_device *d, void *node, base_buf *b) {
    cuda_copy_3d c = {0};
    if (d->cu.node_copy(node, &c) != 0) return;
    const size_t rows = (c.height ? c.height : 1) * (c.depth ? c.depth : 1);
    base_buf_printf(b, " %zu bytes%s%s", c.width * rows,
                    is_host(d, &c.from) ? " from the host" : "",
                    is_host(d, &c.to) ? " to the host" : "");
}

static void tell_node(const cuda_device *d, void *node, size_t i, base_buf *b) {
    static const char *const names[] = {
        [CUDA_NODE_KERNEL] = "LAUNCH", [CUDA_NODE_COPY] = "COPY  ",
        [CUDA_NODE_FILL] = "FILL",     [CUDA_NODE_HOST] = "CALL",
        [CUDA_NODE_EMPTY] = "NOTHING", [CUDA_NODE_BRANCH] = "BRANCH"};
    int type = -1;
    const bool known = d->cu.node_type(node, &type) == 0 && type >= 0 &&
                       (size_t)type < sizeof names / sizeof *names && names[type];
    if (known)
        base_buf_printf(b, "%4zu %s", i, names[type]);
    else
        base_buf_printf(b, "%4zu NODE   of type %d", i, type);
    if (type == CUDA_NODE_KERNEL) tell_kernel(d, node, b);
    if (type == CUDA_NODE_COPY) tell_copy(d, node, b);
    base_buf_putc(b, '\n');
}

/* As hal_log_replay tells a list. Bodies follow the graph that has them. */
static void tell_nodes(const cuda_device *d, const char *label) {
    base_buf b;
    rp_error none = {0};
    if (!base_log_on(RP_LOG_CH_BYTECODE, false)) return;
    base_buf_init(&b, 0);
    for (uint32_t k = 0; k <= d->captured.n_bodies; k++) {
        void **node = NULL, *graph = k ? d->captured.body[k - 1] : d->captured.graph;
        size_t n = 0;
        if (nodes_of(d, graph, &node, &n, &none) != RP_OK) continue;
        if (k == 0)
            base_buf_printf(&b, "REPLAY LIST %s: %zu nodes of the driver\n", label ? label : "", n);
        else
            base_buf_printf(&b, "BODY %u: %zu nodes\n", k, n);
        for (size_t i = 0; i < n; i++) tell_node(d, node[i], i, &b);
        base_free(node);
    }
    if (!b.failed && b.data) base_log_ch(RP_LOG_CH_BYTECODE, false, "%s", b.data);
    base_buf_done(&b);
}

rp_status cuda_capture_end(hal_device *base, const char *label, hal_graph **out, uint32_t *out_n,
                           rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    rp_error none = {0};
    void *same = NULL;
    uint32_t n = 0;
    if (!hal_capturing(base))
        return rp_fail(err, RP_INVALID, "no capture is under way on this queue");
    (void)d->cu.context_set(d->gpu.context);
    int code = d->cu.capture_end(d->stream, &same);
    cuda_queues_capture_end(d);
    rp_status st = hal_note_close(base, out ? err : &none);
    if (out && st == RP_OK) st = cuda_capture_check(d, code, "ending a capture", err);
    if (out && st == RP_OK) st = each_node(d, check_node, &n, err);
    if (out && st == RP_OK) {
        tell_nodes(d, label);
        void *graph = d->captured.graph;
        d->captured.graph = NULL;
        st = cuda_graph_adopt(d, graph, n, label, out, err);
    }
    forget(d);
    cuda_guard_leave();
    if (!out) return RP_OK;
    if (st == RP_OK) *out_n = n;
    return st;
}

void *cuda_device_handle(hal_device *base) {
    const cuda_device *d = (const cuda_device *)base;
    (void)d->cu.context_set(d->gpu.context);
    return d->stream;
}
