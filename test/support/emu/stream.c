/* Streams and graphs of the emulated GPU: what a stream is given runs at once, or becomes a node where the stream captures. Captures are
 * those of the thread (mode 1) or relaxed (2); a thread with one of the first kind may not allocate, free, wait, load or
 * unload unless it says that it is relaxed. Chains only. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"

/* --- graphs ----------------------------------------------------------------------- */

typedef enum emu_kind { KERNEL, COPY, COPY_2D, SET, BRANCH, ALLOC, FREE } emu_kind;
typedef struct emu_node {
    emu_kind kind;
    const emu_function *f;
    unsigned grid, threads, shared;
    bool chained;
    unsigned char value;
    uint64_t to, from;
    size_t size;
    cuda_copy_2d rows;
    long long arg[MOST_PARAMETERS];
    void *parameters[MOST_PARAMETERS]; /* the arguments' places */
    const struct emu_node *of;         /* an executable's: the graph's */
    bool off;
    bool loop;              /* of a branch */
    uint64_t handle;        /* its condition */
    struct emu_graph *body; /* the graph's own, executables share it */
    void *bodies[1];
    struct emu_node *next;
} emu_node;
typedef struct emu_graph {
    emu_node *first, *last;
} emu_graph;

static void take_arguments(const emu_function *f, void **parameters, long long *arg) {
    for (int i = 0; i < f->n; i++) memcpy(&arg[i], parameters[i], sizeof *arg);
}

static int append(emu_graph *g, const emu_node *node, void **out) {
    emu_node *k = malloc(sizeof *k);
    if (!k) return OUT_OF_MEMORY;
    *k = *node;
    k->next = NULL;
    for (int i = 0; i < MOST_PARAMETERS; i++) k->parameters[i] = &k->arg[i];
    if (g->last)
        g->last->next = k;
    else
        g->first = k;
    g->last = k;
    if (out) *out = k;
    return 0;
}

enum { CONDITIONS = 4096 };
static unsigned char condition[CONDITIONS];
static unsigned n_conditions;
static bool refuses_conditions;

/* For tests: as a driver without conditional nodes. */
void emu_refuse_conditions(bool on) EXPORT("emu_refuse_conditions");
void emu_refuse_conditions(bool on) {
    refuses_conditions = on;
}

static void set_condition(long long handle, const unsigned char *at, long long opposite) {
    condition[handle] = (*at != 0) != (opposite != 0);
}

const emu_function *emu_set_condition(void) {
    static emu_function f = {.n = 3, .name = "set_condition"};
    f.fn = (void *)(uintptr_t)set_condition;
    return &f;
}

CU(emu_conditional_new, "cuGraphConditionalHandleCreate", uint64_t *out, void *graph, void *context,
   unsigned value, unsigned flags) {
    (void)graph, (void)context, (void)value, (void)flags;
    *out = n_conditions++ % CONDITIONS;
    return refuses_conditions ? NOT_SUPPORTED : 0;
}

static int run(const emu_node *k);

static int run_all(const emu_graph *g) {
    int code = 0;
    for (const emu_node *k = g->first; k && code == 0; k = k->next) code = run(k);
    return code;
}

static int run_branch(const emu_node *k) {
    int code = 0;
    bool again = condition[k->handle];
    while (again && code == 0) {
        code = run_all(k->body);
        again = k->loop && condition[k->handle];
    }
    condition[k->handle] = 0;
    return code;
}

static int run(const emu_node *k) {
    if (k->off) return 0;
    switch (k->kind) {
    case KERNEL: return emu_run(k->f, k->grid, k->threads, k->shared, k->arg, k->chained);
    case COPY: emu_move(k->to, k->from, k->size); break;
    case COPY_2D:
        for (size_t i = 0; i < k->rows.height; i++)
            emu_move(k->rows.to.device + i * k->rows.to.pitch,
                     k->rows.from.device + i * k->rows.from.pitch, k->rows.width);
        break;
    case SET: emu_set(k->to, k->value, k->size); break;
    case BRANCH: return run_branch(k);
    case ALLOC: /* there since it was captured, until the graph goes */
    case FREE: break;
    }
    return 0;
}

static void free_captured(uint64_t at);

static void free_nodes(emu_graph *g) {
    while (g->first) {
        emu_node *k = g->first;
        g->first = k->next;
        if (k->body && !k->of) free_nodes(k->body);
        if (k->kind == ALLOC && !k->of) free_captured(k->to);
        free(k);
    }
    free(g);
}

CU(emu_graph_new, "cuGraphCreate", void **out, unsigned flags) {
    (void)flags;
    *out = calloc(1, sizeof(emu_graph));
    return emu_count(EMU_GRAPH, 1, *out ? 0 : OUT_OF_MEMORY);
}

static int add_branch(emu_graph *g, cuda_branch_node *node, void **out) {
    emu_node k = {.kind = BRANCH, .loop = node->loop, .handle = node->handle};
    k.body = calloc(1, sizeof *k.body);
    if (!k.body || node->n_bodies != 1) return INVALID;
    int code = append(g, &k, out);
    if (code) return code;
    g->last->bodies[0] = k.body;
    node->bodies = g->last->bodies;
    return 0;
}

CU(emu_graph_add, "cuGraphAddNode_v2", void **out, void *graph, void *const *from,
   const cuda_edge *edges, size_t n, cuda_node *node) {
    emu_graph *g = graph;
    if (n != (g->last ? 1u : 0u) || (n && *from != g->last)) return INVALID; /* chains only */
    if (node->kind == CUDA_NODE_BRANCH) return add_branch(g, (void *)node, out);
    if (node->kind != 0) return INVALID;
    emu_node k = {.f = node->function,
                  .grid = node->grid[0],
                  .threads = node->block[0],
                  .shared = node->shared,
                  .chained = n && edges && edges->type == CUDA_EDGE_PROGRAMMATIC};
    take_arguments(k.f, node->parameters, k.arg);
    return append(g, &k, out);
}

CU(emu_graph_free, "cuGraphDestroy", void *graph) {
    free_nodes(graph);
    return emu_count(EMU_GRAPH, -1, 0);
}

CU(emu_graph_nodes, "cuGraphGetNodes", void *graph, void **nodes, size_t *n) {
    size_t most = nodes ? *n : 0, count = 0;
    for (emu_node *k = ((emu_graph *)graph)->first; k; k = k->next, count++)
        if (count < most) nodes[count] = k;
    *n = nodes && count > most ? most : count;
    return 0;
}

/* NULL for all: how many there are. */
CU(emu_graph_edges, "cuGraphGetEdges_v2", void *graph, void **from, void **to, cuda_edge *edges,
   size_t *n) {
    size_t most = *n, count = 0;
    for (emu_node *k = ((emu_graph *)graph)->first; k && k->next; k = k->next, count++) {
        if (!from || count >= most) continue;
        if (!edges && k->next->chained) return LOSSY_QUERY;
        from[count] = k;
        to[count] = k->next;
        edges[count] = (cuda_edge){.type = k->next->chained ? CUDA_EDGE_PROGRAMMATIC : 0};
    }
    *n = from && count > most ? most : count;
    return 0;
}

CU(emu_node_type, "cuGraphNodeGetType", void *node, int *out) {
    static const int types[] = {[KERNEL] = 0,
                                [COPY] = CUDA_NODE_COPY,
                                [COPY_2D] = CUDA_NODE_COPY,
                                [SET] = 2,
                                [BRANCH] = CUDA_NODE_BRANCH,
                                [ALLOC] = CUDA_NODE_ALLOC,
                                [FREE] = CUDA_NODE_FREE};
    *out = types[((const emu_node *)node)->kind];
    return 0;
}

CU(emu_node_kernel, "cuGraphKernelNodeGetParams_v2", void *node, cuda_kernel_node *out) {
    emu_node *k = node;
    if (k->kind != KERNEL) return INVALID;
    *out = (cuda_kernel_node){.function = (void *)(uintptr_t)k->f, .parameters = k->parameters};
    return 0;
}

CU(emu_function_name, "cuFuncGetName", const char **out, void *function) {
    *out = ((const emu_function *)function)->name;
    return 0;
}

CU(emu_function_parameter, "cuFuncGetParamInfo", void *function, size_t idx, size_t *offset,
   size_t *size) {
    const emu_function *f = function;
    if (idx >= (size_t)f->n) return INVALID;
    *offset = idx * sizeof(long long);
    *size = sizeof(long long);
    return 0;
}

CU(emu_node_copy, "cuGraphMemcpyNodeGetParams", void *node, cuda_copy_3d *out) {
    const emu_node *k = node;
    if (k->kind != COPY) return INVALID;
    *out = (cuda_copy_3d){.from = {.kind = CUDA_MEMORY_UNIFIED, .device = k->from},
                          .to = {.kind = CUDA_MEMORY_UNIFIED, .device = k->to},
                          .width = k->size,
                          .height = 1,
                          .depth = 1};
    return 0;
}

CU(emu_graph_instantiate, "cuGraphInstantiateWithFlags", void **out, void *graph,
   unsigned long long flags) {
    emu_graph *to = calloc(1, sizeof *to);
    (void)flags;
    for (const emu_node *k = ((emu_graph *)graph)->first; k; k = k->next) {
        if (!to || append(to, k, NULL) != 0) return OUT_OF_MEMORY;
        to->last->of = k;
    }
    *out = to;
    return emu_count(EMU_EXEC, 1, 0);
}

static emu_node *find(void *exec, const void *node) {
    emu_node *k = ((emu_graph *)exec)->first;
    while (k && k->of != node) k = k->next;
    return k;
}

CU(emu_exec_copy, "cuGraphExecMemcpyNodeSetParams", void *exec, void *node,
   const cuda_copy_3d *copy, void *context) {
    emu_node *k = find(exec, node);
    (void)context;
    if (!k || k->kind != COPY || copy->width != k->size) return INVALID;
    k->to = copy->to.device;
    k->from = copy->from.device;
    return 0;
}

CU(emu_exec_enable, "cuGraphNodeSetEnabled", void *exec, void *node, unsigned on) {
    emu_node *k = find(exec, node);
    if (!k) return INVALID;
    k->off = !on;
    return 0;
}

CU(emu_exec_free, "cuGraphExecDestroy", void *exec) {
    free_nodes(exec);
    return emu_count(EMU_EXEC, -1, 0);
}

/* --- streams ------------------------------------------------------------------------- */

typedef struct emu_stream {
    struct emu_stream *next;
    emu_work *work;   /* stays when the stream goes */
    emu_graph *graph; /* of its capture, or NULL */
    pthread_t thread; /* that began it */
    int mode;
    bool failed;
} emu_stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emu_stream *streams;
static emu_work *works; /* of all streams that ever were */
_Thread_local emu_work *emu_now;
static _Thread_local int thread_mode; /* 0: all threads, 1: the thread, 2: relaxed */

bool emu_may(void) {
    bool may = true;
    if (thread_mode == CUDA_CAPTURE_RELAXED) return true;
    (void)pthread_mutex_lock(&lock);
    for (emu_stream *s = streams; s; s = s->next) {
        if (!s->graph || s->mode != CUDA_CAPTURE_THREAD ||
            !pthread_equal(s->thread, pthread_self()))
            continue;
        s->failed = true;
        may = false;
    }
    (void)pthread_mutex_unlock(&lock);
    return may;
}

static int run_on(emu_stream *s, const emu_node *k) {
    if (s) (void)atomic_fetch_add(&s->work->given, 1);
    emu_now = s ? s->work : NULL;
    int code = run(k);
    emu_now = NULL;
    return code;
}

/* Runs it, or adds it to what the stream captures. */
static int give(void *stream, const emu_node *k) {
    emu_stream *s = stream;
    if (!s || !s->graph) return run_on(s, k);
    return s->failed ? CAPTURE_INVALIDATED : append(s->graph, k, NULL);
}

/* What no captured stream can do. */
static int refuse(void *stream) {
    emu_stream *s = stream;
    if (!s || !s->graph) return emu_may() ? 0 : CAPTURE_UNSUPPORTED;
    s->failed = true;
    return CAPTURE_UNSUPPORTED;
}

CU(emu_stream_new, "cuStreamCreate", void **out, unsigned flags) {
    emu_stream *s = calloc(1, sizeof *s);
    (void)flags;
    if (s) s->work = calloc(1, sizeof *s->work);
    if (!s || !s->work) {
        free(s);
        return OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&lock);
    s->work->next = works;
    works = s->work;
    s->next = streams;
    streams = s;
    (void)pthread_mutex_unlock(&lock);
    *out = s;
    return emu_count(EMU_STREAM, 1, 0);
}

CU(emu_stream_free, "cuStreamDestroy_v2", void *stream) {
    (void)pthread_mutex_lock(&lock);
    emu_stream **at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = (*at)->next;
    (void)pthread_mutex_unlock(&lock);
    free(stream);
    return emu_count(EMU_STREAM, -1, 0);
}

CU(emu_capture_to, "cuStreamBeginCaptureToGraph", void *stream, void *graph, void *const *from,
   const cuda_edge *edges, size_t n, int mode) {
    emu_stream *s = stream;
    emu_graph *g = graph;
    (void)edges;
    if (!s || s->graph || n != (g->last ? 1u : 0u) || (n && *from != g->last)) return INVALID;
    (void)pthread_mutex_lock(&lock);
    s->thread = pthread_self();
    s->mode = mode;
    s->failed = false;
    s->graph = g;
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

CU(emu_capture_end, "cuStreamEndCapture", void *stream, void **graph) {
    emu_stream *s = stream;
    if (!s->graph) return INVALID;
    if (!pthread_equal(s->thread, pthread_self())) return CAPTURE_WRONG_THREAD;
    (void)pthread_mutex_lock(&lock);
    emu_graph *g = s->graph;
    s->graph = NULL;
    (void)pthread_mutex_unlock(&lock);
    *graph = s->failed ? NULL : g;
    return s->failed ? CAPTURE_INVALIDATED : 0;
}

CU(emu_capture_info, "cuStreamGetCaptureInfo_v3", void *stream, int *status, uint64_t *id,
   void **graph, void *const **last, const cuda_edge **edges, size_t *n_last) {
    static const cuda_edge full;
    const emu_stream *s = stream;
    *edges = &full;
    *status = !s->graph ? 0 : s->failed ? 2 : 1;
    *id = 1;
    *graph = s->graph;
    *last = s->graph && s->graph->last ? (void *const *)&s->graph->last : NULL;
    *n_last = *last != NULL;
    return 0;
}

CU(emu_capture_mode, "cuThreadExchangeStreamCaptureMode", int *mode) {
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return 0;
}

static void wait_for(emu_stream *s) {
    atomic_store(&s->work->done, atomic_load(&s->work->given));
}

CU(emu_synchronize, "cuCtxSynchronize", void) {
    int code = refuse(NULL);
    (void)pthread_mutex_lock(&lock);
    for (emu_stream *s = streams; s && code == 0; s = s->next) wait_for(s);
    (void)pthread_mutex_unlock(&lock);
    return code;
}

CU(emu_stream_synchronize, "cuStreamSynchronize", void *stream) {
    int code = refuse(stream);
    if (code == 0 && stream) wait_for(stream);
    return code;
}

CU(emu_launch, "cuLaunchKernel", void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
   unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    emu_node k = {.f = function, .grid = gx, .threads = bx, .shared = shared};
    (void)extra;
    if (gy * gz * by * bz != 1) return INVALID;
    take_arguments(function, parameters, k.arg);
    return give(stream, &k);
}

/* An edge to what is no kernel is a full one. */
CU(emu_launch_with, "cuLaunchKernelEx", const cuda_launch_config *c, void *function,
   void **parameters, void **extra) {
    const emu_stream *s = c->stream;
    const emu_node *last = s && s->graph ? s->graph->last : NULL;
    emu_node k = {.f = function, .grid = c->grid[0], .threads = c->block[0], .shared = c->shared};
    (void)extra;
    if (c->grid[1] * c->grid[2] * c->block[1] * c->block[2] != 1) return INVALID;
    for (unsigned i = 0; i < c->n_attributes; i++) {
        if (c->attributes[i].id != CUDA_LAUNCH_PROGRAMMATIC) return INVALID;
        k.chained = c->attributes[i].value && last && last->kind == KERNEL;
    }
    take_arguments(function, parameters, k.arg);
    return give(c->stream, &k);
}

static atomic_uint n_copies;

/* For tests: copies of streams so far, those of graphs not. */
unsigned emu_copies(void) EXPORT("emu_copies");
unsigned emu_copies(void) {
    return atomic_load(&n_copies);
}

CU(emu_copy, "cuMemcpyAsync", uint64_t to, uint64_t from, size_t size, void *stream) {
    const emu_stream *s = stream;
    if (!s || !s->graph) (void)atomic_fetch_add(&n_copies, 1);
    return give(stream, &(emu_node){.kind = COPY, .to = to, .from = from, .size = size});
}

CU(emu_copy_now, "cuMemcpy", uint64_t to, uint64_t from, size_t size) {
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    return emu_copy(to, from, size, NULL);
}

CU(emu_copy_2d, "cuMemcpy2DAsync_v2", const cuda_copy_2d *c, void *stream) {
    if (c->from.kind != CUDA_MEMORY_UNIFIED || c->to.kind != CUDA_MEMORY_UNIFIED || c->from.x ||
        c->from.y || c->to.x || c->to.y || c->from.pitch < c->width || c->to.pitch < c->width)
        return INVALID;
    return give(stream, &(emu_node){.kind = COPY_2D, .rows = *c});
}

CU(emu_copy_in, "cuMemcpyHtoDAsync_v2", uint64_t to, const void *from, size_t size, void *stream) {
    return emu_copy(to, (uint64_t)(uintptr_t)from, size, stream);
}

CU(emu_copy_out, "cuMemcpyDtoHAsync_v2", void *to, uint64_t from, size_t size, void *stream) {
    return emu_copy((uint64_t)(uintptr_t)to, from, size, stream);
}

CU(emu_memory_set, "cuMemsetD8Async", uint64_t at, unsigned char value, size_t size, void *stream) {
    return give(stream, &(emu_node){.kind = SET, .to = at, .value = value, .size = size});
}

CU(emu_graph_upload, "cuGraphUpload", void *exec, void *stream) {
    (void)exec;
    return ((emu_stream *)stream)->graph ? refuse(stream) : 0;
}

CU(emu_graph_launch, "cuGraphLaunch", void *exec, void *stream) {
    if (((emu_stream *)stream)->graph) return refuse(stream);
    emu_stream *s = stream;
    (void)atomic_fetch_add(&s->work->given, 1);
    emu_now = s->work;
    emu_hold(true);
    int code = run_all(exec);
    emu_hold(false);
    emu_now = NULL;
    return code;
}

/* --- memory in the order of a stream ------------------------------------------------------ */

static int relax(void) {
    int before = thread_mode;
    thread_mode = CUDA_CAPTURE_RELAXED;
    return before;
}

static void free_captured(uint64_t at) {
    int before = relax();
    (void)emu_memory_free(at);
    thread_mode = before;
}

CU(emu_alloc_in_order, "cuMemAllocAsync", uint64_t *out, size_t size, void *stream) {
    const emu_stream *s = stream;
    int before = relax(), code = emu_memory_alloc(out, size);
    thread_mode = before;
    if (code || !s->graph) return code;
    return give(stream, &(emu_node){.kind = ALLOC, .to = *out});
}

CU(emu_free_in_order, "cuMemFreeAsync", uint64_t at, void *stream) {
    const emu_stream *s = stream;
    return s->graph ? give(stream, &(emu_node){.kind = FREE}) : emu_memory_free(at);
}

/* --- events: all that was given has run ---------------------------------------------- */

static char event;

CU(emu_event_new, "cuEventCreate", void **out, unsigned flags) {
    (void)flags;
    *out = &event;
    return emu_count(EMU_EVENT, 1, 0);
}
CU(emu_event_free, "cuEventDestroy_v2", void *at) {
    (void)at;
    return emu_count(EMU_EVENT, -1, 0);
}
CU(emu_stream_wait, "cuStreamWaitEvent", void *stream, void *at, unsigned flags) {
    (void)stream, (void)at, (void)flags;
    return 0;
}
CU(emu_event_record, "cuEventRecord", void *at, void *stream) {
    (void)at, (void)stream;
    return 0;
}
CU(emu_event_synchronize, "cuEventSynchronize", void *at) {
    (void)at;
    return refuse(NULL);
}
CU(emu_event_elapsed, "cuEventElapsedTime", float *ms, void *from, void *to) {
    (void)from, (void)to;
    *ms = 1;
    return 0;
}
