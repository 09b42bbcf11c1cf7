/* Where graphs live. A tensor or a size names its graph by address, and a program may keep one longer than the graph, from one call of a function to the
 * next: so the places of graphs are never given back to the system, are used again in turn, the longest unused first, and each graph has an id that
 * what is of it carries. What is more than there are places for is on the heap. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "trace/record.h"

enum { PLACES = 512 };

static rp_graph place[PLACES];
static uint16_t unused[PLACES]; /* a ring: those given back, from `first` on */
static uint32_t n_used, first, n_unused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint last_id;

static uint32_t next_id(void) {
    uint32_t id = atomic_fetch_add(&last_id, 1) + 1;
    return id ? id : atomic_fetch_add(&last_id, 1) + 1;
}

static rp_graph *take_place(void) {
    rp_graph *g = NULL;
    (void)pthread_mutex_lock(&lock);
    if (n_used < PLACES) {
        g = &place[n_used++];
    } else if (n_unused > 0) {
        g = &place[unused[first]];
        first = (first + 1) % PLACES;
        n_unused--;
    }
    (void)pthread_mutex_unlock(&lock);
    return g;
}

rp_graph *trace_graph_take(void) {
    rp_graph *g = take_place();
    if (!g) g = base_alloc(sizeof *g);
    if (g) *g = (rp_graph){.id = next_id()};
    return g;
}

void trace_graph_renew(rp_graph *g) {
    g->id = next_id();
}

void trace_graph_give(rp_graph *g) {
    if (g < place || g >= place + PLACES) {
        base_free(g);
        return;
    }
    *g = (rp_graph){.finished = true};
    (void)rp_fail(&g->err, RP_INVALID, "the graph was freed");
    (void)pthread_mutex_lock(&lock);
    unused[(first + n_unused++) % PLACES] = (uint16_t)(g - place);
    (void)pthread_mutex_unlock(&lock);
}

/* --- what is kept ----------------------------------------------------------------------------- */

#define KEPT "it was kept from an earlier call; give it back as a result and take it as an argument"

static _Thread_local rp_graph *current;

rp_graph *trace_enter(rp_graph *g) {
    rp_graph *before = current;
    current = g;
    return before;
}

rp_graph *trace_current(void) {
    return current;
}

static bool is_live(rp_tensor x) {
    const rp_graph *g = x.graph;
    return g && g->ir && (!x.id || x.id == g->id);
}

bool trace_is_live(rp_tensor x) {
    return is_live(x);
}

const char *trace_kept(rp_tensor x) {
    return x.graph && x.ref != IR_NONE && !is_live(x) ? ": " KEPT : "";
}

/* Not the graph that lies at its place now, which may be another thread's. */
void trace_fail_kept(const char *op) {
    if (current)
        (void)rp_fail(&current->err, RP_INVALID, "%s: a tensor is not of this call: " KEPT, op);
}

bool trace_check_live(const char *op, rp_tensor x) {
    if (x.ref == IR_NONE || !x.graph || is_live(x)) return true;
    trace_fail_kept(op);
    return false;
}
