/* Where graphs live. A tensor or a size names its graph by address, and a program may keep one longer than the graph, from one call of a function to the
 * next: so the places of graphs are never given back to the system, are used again in turn, the longest unused first, and each graph has an id that
 * what is of it carries. There are as many places as graphs were ever alive at once, rounded up. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/reserve.h"
#include "trace/record.h"

/* Places from the start, and how many come at once where those do not suffice. */
enum { OWN = 512, MORE = 256 };

typedef struct place {
    rp_graph g; /* first: a graph is its place */
    struct place *next;
} place;

static place own[OWN];
static uint32_t n_used;     /* of own */
static place *first, *last; /* unused ones, the longest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint last_id;

static uint32_t next_id(void) {
    uint32_t id = atomic_fetch_add(&last_id, 1) + 1;
    return id ? id : atomic_fetch_add(&last_id, 1) + 1;
}

static void append(place *p) {
    p->next = NULL;
    *(first ? &last->next : &first) = p;
    last = p;
}

static void add_places(void) {
    void *p = NULL;
    if (base_reserve(MORE * sizeof(place), &p, NULL) != RP_OK) return;
    for (uint32_t i = 0; i < MORE; i++) append((place *)p + i);
}

static place *take_place(void) {
    if (n_used < OWN) return &own[n_used++];
    if (!first) add_places();
    place *p = first;
    if (p) first = p->next;
    return p;
}

rp_graph *trace_graph_take(void) {
    (void)pthread_mutex_lock(&lock);
    place *p = take_place();
    (void)pthread_mutex_unlock(&lock);
    if (!p) return NULL;
    p->g = (rp_graph){.id = next_id()};
    return &p->g;
}

void trace_graph_renew(rp_graph *g) {
    g->id = next_id();
}

void trace_graph_give(rp_graph *g) {
    *g = (rp_graph){.finished = true};
    (void)rp_fail(&g->err, RP_INVALID, "the graph was freed");
    (void)pthread_mutex_lock(&lock);
    append((place *)g);
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

const char *trace_kept(rp_tensor x) {
    return x.graph && x.ref != IR_NONE && !trace_is_live(x) ? ": " KEPT : "";
}

/* Not the graph that lies at its place now, which may be another thread's. */
void trace_fail_kept(const char *op) {
    if (current)
        (void)rp_fail(&current->err, RP_INVALID, "%s: a tensor is not of this call: " KEPT, op);
}

bool trace_check_live(const char *op, rp_tensor x) {
    if (x.ref == IR_NONE || !x.graph || trace_is_live(x)) return true;
    trace_fail_kept(op);
    return false;
}
