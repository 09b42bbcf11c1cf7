/* Streams and graphs of the emulated GPU: what a stream is given becomes a node where the stream captures, and else runs as late as it may: when
 * somebody waits for it, or frees what it could use. Whoever does not wait finds what was there before. Of memory of the host that the driver
 * does not know, a copy takes the bytes when it is asked for, and one to there waits. Captures are
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

static void run(const emu_node *k);

static void run_all(const emu_graph *g) {
    for (const emu_node *k = g->first; k && !emu_lost(); k = k->next) run(k);
}

static void run_branch(const emu_node *k) {
    bool again = condition[k->handle];
    while (again && !emu_lost()) {
        run_all(k->body);
        again = k->loop && condition[k->handle];
    }
    condition[k->handle] = 0;
}

static void run(const emu_node *k) {
    if (k->off) return;
    switch (k->kind) {
    case KERNEL:
        if (!emu_loses()) emu_run(k->f, k->grid, k->threads, k->shared, k->arg, k->chained);
        break;
    case COPY: emu_move(k->to, k->from, k->size); break;
    case COPY_2D:
        for (size_t i = 0; i < k->rows.height; i++)
            emu_move(k->rows.to.device + i * k->rows.to.pitch,
                     k->rows.from.device + i * k->rows.from.pitch, k->rows.width);
        break;
    case SET: emu_set(k->to, k->value, k->size); break;
    case BRANCH: run_branch(k); break;
    case ALLOC: /* there since it was captured, until the graph goes */
    case FREE: break;
    }
}

/* What a launch refuses. */
static bool fits(const emu_node *k) {
    return k->kind != KERNEL || emu_fits(k->grid, k->threads, k->shared);
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
    if (!emu_entered()) return NO_CONTEXT;
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
    emu_finish();
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
    static const int types[] = {
        [KERNEL] = 0,           [COPY] = CUDA_NODE_COPY,     [COPY_2D] = CUDA_NODE_COPY,
        [SET] = CUDA_NODE_FILL, [BRANCH] = CUDA_NODE_BRANCH, [ALLOC] = CUDA_NODE_ALLOC,
        [FREE] = CUDA_NODE_FREE};
    *out = types[((const emu_node *)node)->kind];
    return 0;
}

CU(emu_node_kernel, "cuGraphKernelNodeGetParams_v2", void *node, cuda_kernel_node *out) {
    emu_node *k = node;
    if (k->kind != KERNEL) return INVALID;
    *out = (cuda_kernel_node){.function = (void *)(uintptr_t)k->f,
                              .grid = {(unsigned)k->grid, 1, 1},
                              .block = {(unsigned)k->threads, 1, 1},
                              .parameters = k->parameters};
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
    if (!emu_entered()) return NO_CONTEXT;
    emu_graph *to = calloc(1, sizeof *to);
    (void)flags;
    for (const emu_node *k = ((emu_graph *)graph)->first; k; k = k->next) {
        if (!to || append(to, k, NULL) != 0) return OUT_OF_MEMORY;
        to->last->of = k;
    }
    *out = to;
    emu_take(EMU_EXEC_BYTES);
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
    emu_finish();
    free_nodes(exec);
    emu_take(-EMU_EXEC_BYTES);
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

/* --- what a stream has still to do --- */

typedef struct emu_task {
    struct emu_task *next;
    emu_graph *graph; /* as it was when it was launched; NULL: none, */
    emu_work *on;     /* a wait for work of another stream, up to */
    unsigned long until;
    emu_node node; /* or, with neither, this */
    void *bytes;   /* that it copies, where they are its own */
} emu_task;

/* Guards what is to do, also while it is done. */
static pthread_mutex_t order = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void run_until(emu_work *w, unsigned long until);

static void free_task(emu_task *t) {
    while (t->graph && t->graph->first) {
        emu_node *k = t->graph->first;
        t->graph->first = k->next;
        free(k);
    }
    free(t->graph);
    free(t->bytes);
    free(t);
}

static void run_task(emu_work *w, emu_task *t) {
    emu_work *outer = emu_now;
    if (t->on) run_until(t->on, t->until);
    emu_now = w;
    if (emu_lost()) {
        ; /* nothing runs any more */
    } else if (t->graph) {
        emu_hold(true);
        run_all(t->graph);
        emu_hold(false);
    } else if (!t->on) {
        run(&t->node);
    }
    emu_now = outer;
    free_task(t);
}

static void run_until(emu_work *w, unsigned long until) {
    (void)pthread_mutex_lock(&order);
    while (w->first && w->ran < until) {
        emu_task *t = w->first;
        w->first = t->next;
        w->ran++;
        run_task(w, t);
    }
    (void)pthread_mutex_unlock(&order);
}

/* Somebody waits. */
static void wait_until(emu_work *w, unsigned long until) {
    (void)pthread_mutex_lock(&order);
    run_until(w, until);
    if (atomic_load(&w->done) < until) atomic_store(&w->done, until);
    (void)pthread_mutex_unlock(&order);
}

static void wait_for(const emu_stream *s) {
    wait_until(s->work, atomic_load(&s->work->given));
}

void emu_finish(void) {
    (void)pthread_mutex_lock(&order);
    for (emu_work *w = works; w; w = w->next) run_until(w, atomic_load(&w->given));
    (void)pthread_mutex_unlock(&order);
}

static int queue(const emu_stream *s, const emu_task *task) {
    emu_work *w = s->work;
    emu_task *t = malloc(sizeof *t);
    if (!t) return OUT_OF_MEMORY;
    *t = *task;
    t->next = NULL;
    (void)pthread_mutex_lock(&order);
    if (w->first)
        w->last->next = t;
    else
        w->first = t;
    w->last = t;
    (void)atomic_fetch_add(&w->given, 1);
    (void)pthread_mutex_unlock(&order);
    return 0;
}

/* Behind all of its stream that is in front of it; NULL: of the first stream, which waits for no other. */
static int run_now(const emu_stream *s, const emu_node *k) {
    (void)pthread_mutex_lock(&order);
    if (s) wait_for(s);
    if (!emu_lost()) run(k);
    (void)pthread_mutex_unlock(&order);
    return emu_lost();
}

/* Adds it to what the stream does, or to what it captures. */
static int give(void *stream, const emu_node *k) {
    const emu_stream *s = stream;
    if (!fits(k)) return INVALID;
    if (!s) return run_now(s, k);
    if (!s->graph) return queue(s, &(emu_task){.node = *k});
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
    if (!emu_entered()) return NO_CONTEXT;
    emu_stream *s = calloc(1, sizeof *s);
    (void)flags;
    if (s) s->work = calloc(1, sizeof *s->work);
    if (!s || !s->work) {
        free(s);
        return OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&order);
    s->work->next = works;
    works = s->work;
    (void)pthread_mutex_unlock(&order);
    (void)pthread_mutex_lock(&lock);
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

CU(emu_synchronize, "cuCtxSynchronize", void) {
    int code = refuse(NULL);
    (void)pthread_mutex_lock(&order);
    for (emu_work *w = works; w && code == 0; w = w->next) wait_until(w, atomic_load(&w->given));
    (void)pthread_mutex_unlock(&order);
    return code ? code : emu_lost();
}

CU(emu_stream_synchronize, "cuStreamSynchronize", void *stream) {
    int code = refuse(stream);
    if (code == 0 && stream) wait_for(stream);
    return code ? code : emu_lost();
}

CU(emu_launch, "cuLaunchKernel", void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
   unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    if (!emu_entered()) return NO_CONTEXT;
    emu_node k = {.f = function, .grid = gx, .threads = bx, .shared = shared};
    (void)extra;
    if (gy * gz * by * bz != 1) return INVALID;
    take_arguments(function, parameters, k.arg);
    return give(stream, &k);
}

/* An edge to what is no kernel is a full one. */
CU(emu_launch_with, "cuLaunchKernelEx", const cuda_launch_config *c, void *function,
   void **parameters, void **extra) {
    if (!emu_entered()) return NO_CONTEXT;
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

static int copy_staged(const emu_stream *s, const emu_node *k) {
    emu_task t = {.node = *k, .bytes = malloc(k->size + 1)};
    if (!t.bytes) return OUT_OF_MEMORY;
    memcpy(t.bytes, (const void *)(uintptr_t)k->from, k->size);
    t.node.from = (uint64_t)(uintptr_t)t.bytes;
    return queue(s, &t);
}

CU(emu_copy, "cuMemcpyAsync", uint64_t to, uint64_t from, size_t size, void *stream) {
    if (!emu_entered()) return NO_CONTEXT;
    const emu_stream *s = stream;
    const emu_node k = {.kind = COPY, .to = to, .from = from, .size = size};
    if (s && s->graph) return give(stream, &k);
    (void)atomic_fetch_add(&n_copies, 1);
    if (!emu_knows(to)) return run_now(s, &k);
    return s && !emu_knows(from) ? copy_staged(s, &k) : give(stream, &k);
}

CU(emu_copy_now, "cuMemcpy", uint64_t to, uint64_t from, size_t size) {
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    return emu_copy(to, from, size, NULL);
}

CU(emu_copy_2d, "cuMemcpy2DAsync_v2", const cuda_copy_2d *c, void *stream) {
    if (c->from.kind != CUDA_MEMORY_UNIFIED || c->to.kind != CUDA_MEMORY_UNIFIED || c->from.x ||
        c->from.y || c->to.x || c->to.y || c->from.pitch < c->width || c->to.pitch < c->width)
        return INVALID;
    const emu_stream *s = stream;
    const emu_node k = {.kind = COPY_2D, .rows = *c};
    const bool known = emu_knows(c->from.device) && emu_knows(c->to.device);
    return known || !s || s->graph ? give(stream, &k) : run_now(s, &k);
}

CU(emu_copy_in, "cuMemcpyHtoDAsync_v2", uint64_t to, const void *from, size_t size, void *stream) {
    return emu_copy(to, (uint64_t)(uintptr_t)from, size, stream);
}

CU(emu_copy_out, "cuMemcpyDtoHAsync_v2", void *to, uint64_t from, size_t size, void *stream) {
    return emu_copy((uint64_t)(uintptr_t)to, from, size, stream);
}

CU(emu_memory_set, "cuMemsetD8Async", uint64_t at, unsigned char value, size_t size, void *stream) {
    if (!emu_entered()) return NO_CONTEXT;
    return give(stream, &(emu_node){.kind = SET, .to = at, .value = value, .size = size});
}

CU(emu_graph_upload, "cuGraphUpload", void *exec, void *stream) {
    (void)exec;
    return ((emu_stream *)stream)->graph ? refuse(stream) : 0;
}

CU(emu_graph_launch, "cuGraphLaunch", void *exec, void *stream) {
    if (!emu_entered()) return NO_CONTEXT;
    if (((emu_stream *)stream)->graph) return refuse(stream);
    emu_task t = {.graph = calloc(1, sizeof *t.graph)};
    int code = t.graph ? 0 : OUT_OF_MEMORY;
    for (const emu_node *k = ((emu_graph *)exec)->first; k && code == 0; k = k->next)
        code = fits(k) ? append(t.graph, k, NULL) : INVALID;
    return code ? code : queue(stream, &t);
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

/* --- events ------------------------------------------------------------------------------ */

typedef struct emu_event {
    emu_work *of; /* NULL: it has happened */
    unsigned long turn;
} emu_event;

CU(emu_event_new, "cuEventCreate", void **out, unsigned flags) {
    if (!emu_entered()) return NO_CONTEXT;
    (void)flags;
    *out = calloc(1, sizeof(emu_event));
    return emu_count(EMU_EVENT, 1, *out ? 0 : OUT_OF_MEMORY);
}
CU(emu_event_free, "cuEventDestroy_v2", void *at) {
    free(at);
    return emu_count(EMU_EVENT, -1, 0);
}
CU(emu_stream_wait, "cuStreamWaitEvent", void *stream, void *at, unsigned flags) {
    const emu_stream *s = stream;
    const emu_event *e = at;
    (void)flags;
    if (!s || s->graph || !e->of) return 0;
    return queue(s, &(emu_task){.on = e->of, .until = e->turn});
}
CU(emu_event_record, "cuEventRecord", void *at, void *stream) {
    const emu_stream *s = stream;
    *(emu_event *)at = s && !s->graph ? (emu_event){s->work, atomic_load(&s->work->given)}
                                      : (emu_event){0};
    return 0;
}
CU(emu_event_synchronize, "cuEventSynchronize", void *at) {
    const emu_event *e = at;
    int code = refuse(NULL);
    if (code == 0 && e->of) wait_until(e->of, e->turn);
    return code ? code : emu_lost();
}
CU(emu_event_elapsed, "cuEventElapsedTime", float *ms, void *from, void *to) {
    const emu_event *e[] = {from, to};
    for (int i = 0; i < 2; i++)
        if (e[i]->of && atomic_load(&e[i]->of->done) < e[i]->turn) return NOT_READY;
    *ms = 1;
    return 0;
}
