/* What the tensor API records into; opaque to users as rp_graph. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "ir/graph.h"
/* The calls are defined here, and call each other. */
#define RP_NO_SITES
#include "reprise/nn.h"

/* Who knows more of the sizes of a trace than their ranges: the example of the call that it is made for. */
typedef struct trace_oracle {
    void *user;
    /* a r b, sizes of the graph, at a line of the user's source; RP_UNKNOWN leaves it open. */
    rp_answer (*ask)(void *user, ir_dim a, rp_relation r, ir_dim b, const char *file, int line);
    /* The value of d for the example; false where it has none. */
    bool (*example)(void *user, ir_dim d, int64_t *out);
    /* What was assumed (ir_dims_set_assume) since the last call of this was for a call there. */
    void (*told)(void *user, const char *file, uint32_t line);
    const uint32_t *n, *n_told; /* assumptions, and those of which that was said */
} trace_oracle;

/* A node that a run asked for, and the attributes as it gave them. */
enum { TRACE_PATH_ATTRS = 3 };
typedef struct trace_asking {
    ir_ref node;
    const ir_node *is; /* NULL: never merged, or of other attributes than single numbers */
    uint32_t n_attrs;
    ir_attr_key key[TRACE_PATH_ATTRS];
    uint64_t bits[TRACE_PATH_ATTRS];
} trace_asking;

/* Those of the last run, in order, as far as the one under way has not replaced them (path.c). */
typedef struct trace_path {
    trace_asking *v; /* n */
    uint32_t n, cap, next;
    uint64_t changes; /* where a run asked for another node than the one before it, in all */
} trace_path;

/* When nodes were asked for, the first time in the last run that did, where a graph is recorded by several runs. */
typedef struct trace_asked {
    uint64_t *at; /* by ref; 0: never */
    uint32_t cap;
    uint64_t first, now; /* of the run: its beginning */
    uint32_t known;      /* nodes of earlier runs, whose sites are told */
    trace_path path;     /* next is 0 where a run begins */
} trace_asked;

struct rp_graph {
    ir_graph *ir; /* NULL: the graph was freed, and err says so */
    uint32_t id;  /* of all graphs of the process; not 0 */
    rp_numerics numerics;
    rp_error err;  /* first failure of the trace */
    ir_ref *fresh; /* nodes asked for since the last call that told its site */
    uint32_t n_fresh, cap_fresh;
    int64_t began; /* ns */
    bool finished;
    bool blamed;                /* err names the line of the call */
    bool body;                  /* it is one, which is traced or was */
    bool in_body;               /* a body of it is being traced: it gets no effects meanwhile */
    const trace_oracle *oracle; /* (optional) borrowed */
    trace_asked *asked;         /* likewise */
    struct rp_jit_call *call;   /* likewise: the run of a function that records it, for values */
    bool acts;                  /* a body: what it does in order is in that of the graph around */
    rp_tensor order;            /* what assert or print last left (host.c), of the run under way */
    rp_graph *bodies, *next_body; /* of its loops and branches (control.c); of the graph around */
};

/* Room for a graph, all zero but for its id; NULL: out of memory. What was a graph stays readable for ever, as one that was freed until its
 * place is used again, since tensors and sizes of it may have been kept (life.c). Thread-safe. */
rp_graph *trace_graph_take(void);
void trace_graph_give(rp_graph *g);
/* Another run of a function records into g: what earlier ones made is theirs. */
void trace_graph_renew(rp_graph *g);
/* The graph that this thread traces a function into, NULL: none; gives the one before. It fails where something kept is used. */
rp_graph *trace_enter(rp_graph *g);
/* Whether x is of a graph that is there, and of the run that records it now. */
static inline bool trace_is_live(rp_tensor x) {
    const rp_graph *g = x.graph;
    return g && g->ir && (!x.id || x.id == g->id);
}
/* The trace of this thread fails as `op` where x is of a graph that was freed, or of an earlier run; false then. */
bool trace_check_live(const char *op, rp_tensor x);
/* For the end of an error about x, which is not of the graph: what to do where it was kept; "" where it was not. */
const char *trace_kept(rp_tensor x);
/* A form of g as a size: without the graph where it is a number. */
rp_dim trace_dim_out(rp_graph *g, ir_dim d);
/* The traced graph, borrowed until rp_graph_free. */
const ir_graph *trace_graph_ir(const rp_graph *g);
/* Wraps an IR graph; takes ownership on success. */
rp_status trace_graph_wrap(ir_graph *ir, rp_graph **out, rp_error *err) RP_MUST_USE;
/* Calls of the tensor API record into ir, which is not finished and stays its owner's, until the close (NULL is fine); no trace begins or
 * ends. NULL: out of memory. */
rp_graph *trace_graph_open(ir_graph *ir, rp_numerics numerics);
void trace_graph_close(rp_graph *g);
/* Traces since process start (witness of the warm law). */
uint64_t trace_count(void);
/* Traces refused since process start: where torch would break a graph in two, tracing ends with an error here. */
uint64_t trace_breaks(void);
/* Notes when the run under way first asked for node ref of g. False: out of memory. */
bool trace_ask(rp_graph *g, ir_ref ref);
/* The same where there is room. */
static inline void trace_note_asked(trace_asked *a, ir_ref ref) {
    if (a->at[ref] < a->first) a->at[ref] = a->now;
}
/* x, an input that was made before the user's code ran: the next call that tells its site is one that x is of. Other nodes have theirs. */
rp_tensor trace_fetched(rp_tensor x);
/* What a finished trace says on the channels dynamo, graph and guards (log.c). */
void trace_log_done(const rp_graph *g);

#endif
