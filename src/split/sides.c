/* Pieces of two sides that take turns. The turn of a node is the first one of its side at which what it reads is there; which side begins is
 * tried both ways. */
#include "split/sides.h"

#include <string.h>

#include "base/alloc.h"
#include "split/partition.h"

enum { PRODUCT = 16 }; /* what a product weighs, in other nodes */

typedef enum side { NOBODY, THEIRS, OURS } side; /* NOBODY: who reads it has it, or repeats it */

typedef struct worker {
    const ir_graph *g;
    bool *takes, *wanted; /* wanted: they read it; both by node, as all that follows */
    uint8_t *side;
    uint32_t *turn;  /* of what it is made of, where that is nobody's */
    uint32_t *read;  /* of memory, by its leaf: the last turn that reads it */
    uint32_t *piece; /* by turn, then by node */
    uint32_t n;
} worker;

/* The op that gave or left r beside its value; IR_NONE where r is no such thing. */
static ir_ref maker_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    if (n->op == IR_result) return n->in[0];
    return n->op == IR_written ? ir_maker_of(g, r) : IR_NONE;
}

/* --- whose a node is ------------------------------------------------------------------------- */

/* A view that is returned is computed where what it shows is; of an argument or a constant, by nobody. */
static void place_output(worker *w, ir_ref o) {
    ir_ref root = split_root_of(w->g, o), maker = maker_of(w->g, root);
    const ir_node *n = ir_node_at(w->g, root);
    if (root == o || split_is_argument(n) || split_repeats(n)) return;
    w->side[o] = w->takes[maker == IR_NONE ? root : maker] && w->takes[o] ? THEIRS : OURS;
}

static side side_of(const worker *w, ir_ref r) {
    const ir_node *n = ir_node_at(w->g, r);
    if (split_is_argument(n)) return NOBODY;
    if (w->side[r] != NOBODY) return w->side[r];
    if (!split_repeats(n)) return w->takes[r] ? THEIRS : OURS;
    return w->wanted[r] && !w->takes[r] && n->n_in ? OURS : NOBODY;
}

/* Readers first. What they repeat they want as well. */
static void choose_sides(worker *w) {
    memset(w->side, NOBODY, w->n);
    memset(w->wanted, 0, w->n * sizeof *w->wanted);
    for (uint32_t i = 0; i < ir_output_count(w->g); i++) place_output(w, ir_output_at(w->g, i));
    for (ir_ref r = w->n; r-- > 0;) {
        const ir_node *n = ir_node_at(w->g, r);
        w->side[r] = side_of(w, r);
        bool theirs = w->side[r] == THEIRS || (w->side[r] == NOBODY && w->wanted[r]);
        for (uint32_t i = 0; theirs && i < n->n_in; i++) w->wanted[n->in[i]] = true;
    }
    for (ir_ref r = 0; r < w->n; r++) {
        ir_ref maker = maker_of(w->g, r);
        if (maker != IR_NONE) w->side[r] = w->side[maker];
    }
}

/* --- when it runs ---------------------------------------------------------------------------- */

/* Reads of memory come before the next write, in whatever order they are. */
static uint32_t behind_reads(const worker *w, const ir_node *n, uint32_t turn) {
    uint64_t writes = ir_node_writes(n);
    for (uint32_t i = 0; writes && i < n->n_in && i < 64; i++) {
        ir_ref m = ir_node_at(w->g, n->in[i])->memory;
        if ((writes >> i & 1) && w->read[m] > turn) turn = w->read[m];
    }
    return turn;
}

/* Memory of the graph's own is there when it is first read or written. */
static void note_reads(worker *w, const ir_node *n, uint32_t turn) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref root = split_root_of(w->g, n->in[i]), m = ir_node_at(w->g, root)->memory;
        if (m == IR_NONE) continue;
        if (w->read[m] < turn) w->read[m] = turn;
        if (ir_node_at(w->g, root)->op == IR_empty && w->turn[root] == UINT32_MAX)
            w->turn[root] = turn;
    }
}

static uint32_t behind_operands(const worker *w, const ir_node *n) {
    uint32_t turn = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_ref of[] = {n->in[i], split_root_of(w->g, n->in[i])};
        for (int k = 0; k < 2; k++)
            if (w->turn[of[k]] != UINT32_MAX && w->turn[of[k]] > turn) turn = w->turn[of[k]];
    }
    return turn;
}

/* Turns of `first` are the even ones. Gives their number. */
static uint32_t take_turns(worker *w, side first) {
    uint32_t effect = 0, last = 0;
    memset(w->read, 0, w->n * sizeof *w->read);
    for (ir_ref r = 0; r < w->n; r++) {
        const ir_node *n = ir_node_at(w->g, r);
        ir_ref maker = maker_of(w->g, r);
        bool acts = ir_op_table(n->op)->kind == IR_KIND_EFFECT;
        w->turn[r] = n->op == IR_empty ? UINT32_MAX : behind_operands(w, n);
        if (maker != IR_NONE) w->turn[r] = w->turn[maker];
        if (maker != IR_NONE || n->op == IR_empty || w->side[r] == NOBODY) continue;
        w->turn[r] = behind_reads(w, n, w->turn[r]);
        if (acts && w->turn[r] < effect) w->turn[r] = effect; /* what is seen of it is in order */
        w->turn[r] += (w->turn[r] & 1) != (w->side[r] != first);
        if (acts) effect = w->turn[r];
        if (w->turn[r] > last) last = w->turn[r];
        note_reads(w, n, w->turn[r]);
    }
    const uint32_t ours = first == THEIRS;
    for (ir_ref r = 0; r < w->n; r++)
        if (w->turn[r] == UINT32_MAX) w->turn[r] = ours;
    return (last < ours ? ours : last) + 1;
}

/* Turns at which something runs, in order: pieces. */
static uint32_t number_pieces(worker *w, uint32_t n_turns) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_turns; i++) w->piece[i] = SPLIT_NO_PIECE;
    for (ir_ref r = 0; r < w->n; r++)
        if (w->side[r] != NOBODY) w->piece[w->turn[r]] = 0;
    for (uint32_t i = 0; i < n_turns; i++)
        if (w->piece[i] == 0) w->piece[i] = n++;
    return n;
}

static uint32_t count_pieces(worker *w, side first) {
    return number_pieces(w, take_turns(w, first));
}

static void assign(worker *w, split_sides *out) {
    const uint32_t theirs = count_pieces(w, THEIRS), ours = count_pieces(w, OURS);
    out->n = count_pieces(w, theirs <= ours ? THEIRS : OURS);
    out->n_taken = 0;
    for (ir_ref r = 0; r < w->n; r++) {
        out->piece[r] = w->side[r] == NOBODY ? SPLIT_NO_PIECE : w->piece[w->turn[r]];
        if (w->side[r] != NOBODY) out->taken[out->piece[r]] = w->side[r] == THEIRS;
    }
    for (uint32_t i = 0; i < out->n; i++) out->n_taken += out->taken[i];
}

/* --- what is not worth it ------------------------------------------------------------------------ */

static uint32_t weight_of(const ir_node *n) {
    if (ir_op_table(n->op)->kind == IR_KIND_CONTRACT) return PRODUCT;
    return n->op == IR_result || split_repeats(n) ? 0 : 1;
}

/* What the lightest of the taken pieces weigh that still weigh something. */
static uint32_t least_weight(const split_sides *s, const uint32_t *weight) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->taken[i] && weight[i] && weight[i] < least) least = weight[i];
    return least;
}

/* Gives up the lightest ones until `most` are left, of equal ones the last first; a pass for each weight that there is. */
static uint32_t drop_lightest(const split_sides *s, uint32_t *weight, uint32_t left,
                              uint32_t most) {
    while (left > most) {
        const uint32_t least = least_weight(s, weight);
        for (uint32_t i = s->n; i-- > 0 && left > most;) {
            if (!s->taken[i] || weight[i] != least) continue;
            weight[i] = 0;
            left--;
        }
    }
    return left;
}

/* Those that are given up weigh nothing. Whether there are such. */
static bool weigh(const worker *w, const split_sides *s, uint32_t *weight, uint32_t most) {
    uint32_t left = 0;
    memset(weight, 0, s->n * sizeof *weight);
    for (ir_ref r = 0; r < w->n; r++)
        if (s->piece[r] != SPLIT_NO_PIECE) weight[s->piece[r]] += weight_of(ir_node_at(w->g, r));
    for (uint32_t i = 0; i < s->n; i++) {
        if (weight[i] < 2) weight[i] = 0;
        left += s->taken[i] && weight[i];
    }
    return drop_lightest(s, weight, left, most) < s->n_taken;
}

/* Whether there are such. */
static bool give_up_small(worker *w, const split_sides *s, uint32_t *weight, uint32_t most) {
    if (s->n < 2 || !weigh(w, s, weight, most)) return false;
    for (ir_ref r = 0; r < w->n; r++) {
        uint32_t p = s->piece[r];
        if (p != SPLIT_NO_PIECE && s->taken[p] && !weight[p]) w->takes[r] = false;
    }
    return true;
}

rp_status split_in_sides(const ir_graph *g, const bool *takes, uint32_t most, split_sides *out,
                         rp_error *err) {
    const uint32_t n = ir_graph_count(g);
    rp_status st = RP_OK;
    base_arena *work = base_arena_new();
    split_sides s = {.piece = base_alloc_array(n + 1u, sizeof *s.piece),
                     .taken = base_alloc_array(n + 1u, sizeof *s.taken)};
    worker w = {.g = g, .n = n};
    uint32_t *weight = NULL;
    if (work) {
        w.takes = base_arena_array(work, n + 1u, sizeof *w.takes);
        w.wanted = base_arena_array(work, n + 1u, sizeof *w.wanted);
        w.side = base_arena_array(work, n + 1u, sizeof *w.side);
        w.turn = base_arena_array(work, n + 1u, sizeof *w.turn);
        w.read = base_arena_array(work, n + 1u, sizeof *w.read);
        w.piece = base_arena_array(work, n + 3u, sizeof *w.piece);
        weight = base_arena_array(work, n + 1u, sizeof *weight);
    }
    if (!s.piece || !s.taken || !w.takes || !w.wanted || !w.side || !w.turn || !w.read ||
        !w.piece || !weight) {
        st = rp_fail(err, RP_NOMEM, "pieces of %u nodes", n);
        goto out;
    }
    memcpy(w.takes, takes, n * sizeof *takes);
    do {
        choose_sides(&w);
        assign(&w, &s);
    } while (give_up_small(&w, &s, weight, most));
    *out = s;
    s = (split_sides){0};
out:
    split_sides_done(&s);
    base_arena_free(work);
    return st;
}

void split_sides_done(split_sides *s) {
    base_free(s->piece);
    base_free(s->taken);
    *s = (split_sides){0};
}
