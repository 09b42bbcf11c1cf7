/* The runnable parts of a model: pieces, head, whole step. One thread at a time. */
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "config/config.h"
#include "engine/args.h"
#include "engine/program.h"

/* Code of its own for steps of so many tokens, first to last. Its leaves are those of the model's program. */
typedef struct engine_entry {
    int64_t first, last;
    bool decode; /* and one token a sequence */
    engine_program prog;
    engine_program head; /* (optional) in the place of the head's: x is NULL where there is none */
    uint64_t steps;      /* that it served */
} engine_entry;

/* A runnable: some pieces of a program, or (whole) model and head together. */
typedef struct engine_part {
    struct engine_parts *all;
    engine_program *prog;
    plan_bound *bound, *head; /* head: only the whole step */
    plan_bound **own;         /* of pieces of the model: those of each entry */
    plan_bound **own_head;    /* of the whole step: those of entries that have a head, else NULL */
    const plan_bound *last;   /* bound, or one of own: what was bound last */
    const plan_bound *last_head; /* head, or one of own_head */
    /* several lists in one, behind what takes the step's inputs; NULL: only what is bound */
    hal_launch *joined;
    uint32_t n_joined;      /* launches of the key bound last */
    graph_wrapper *wrapper; /* NULL: attention between pieces */
    engine_args args;       /* step inputs that it reads */
    bool is_head;
} engine_part;

typedef struct engine_parts {
    /* set by the runner; it stays where it is */
    const rp_compilation_config *config;
    hal_device *device;
    graph_state *state;
    engine_sizes max; /* tokens and rows change from step to step */
    engine_program model, head;
    engine_entry *entries; /* (optional) those of engine_plans.sized */
    uint32_t n_entries;
    /* (optional) what a whole step has in front of the model and behind the head, the latter with an item more for each row; both or neither */
    const hal_launch *before, *after;
    /* made here */
    engine_part *pieces;    /* one a piece of the model plan */
    bool one_graph;         /* PIECEWISE: all_pieces, attention among them, not each of pieces */
    engine_part all_pieces; /* takes the inputs of a step itself, as the whole step does */
    engine_part head_part, whole;
    size_t copied_size; /* of the copies that wrappers keep */
} engine_parts;

/* The first entry that serves steps of this key, which is that of the very size or of decode steps where there is one; NULL: the model's program does. */
engine_entry *engine_parts_entry(const engine_parts *ps, const rp_batch_descriptor *key);
/* After all programs are open and every leaf of model and head is set. */
rp_status engine_parts_make(engine_parts *ps, rp_error *err) RP_MUST_USE;
void engine_parts_done(engine_parts *ps);

/* Without a graph. */
rp_status engine_part_launch(engine_part *p, const rp_batch_descriptor *key,
                             rp_error *err) RP_MUST_USE;
/* The whole step without a graph, one launch after the other, each waited for: adds the nanoseconds of launch i to ns[i],
 * those of the model first, then of the head. */
rp_status engine_part_time(engine_part *p, const rp_batch_descriptor *key, int64_t *ns,
                           rp_error *err) RP_MUST_USE;
/* Through the wrapper: a replay, or the list where there is no graph for d. */
rp_status engine_part_call(engine_part *p, const rp_dispatch *d, rp_error *err) RP_MUST_USE;

/* A step of this record would look for a graph that is not there. */
bool engine_parts_lack(const engine_parts *ps, const rp_dispatch *d);
/* Makes the graphs of this record that are missing. The step inputs must be those of a dummy step of it. */
rp_status engine_parts_capture(engine_parts *ps, const rp_dispatch *d, rp_error *err) RP_MUST_USE;

/* Drops all graphs. */
void engine_parts_forget(engine_parts *ps);
/* The step inputs were moved. */
void engine_parts_refresh(engine_parts *ps);

#endif
