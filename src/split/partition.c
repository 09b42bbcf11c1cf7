/* The running piece id of each node, as vLLM assigns it. Builds nothing. */
#include "split/partition.h"

#include "ir/custom.h"

bool split_repeats(const ir_node *n) {
    return n->op == IR_const || n->op == IR_iota || n->op == IR_size || n->op == IR_dequant ||
           (ir_op_table(n->op)->kind == IR_KIND_VIEW && n->op != IR_written && n->op != IR_result);
}

/* What an op left or gave beside its value. */
static bool is_of_maker(const ir_node *n) {
    return n->op == IR_written || n->op == IR_result;
}

bool split_is_argument(const ir_node *n) {
    return n->op == IR_input || n->op == IR_param || n->op == IR_state;
}

ir_ref split_root_of(const ir_graph *g, ir_ref r) {
    while (split_repeats(ir_node_at(g, r)) && ir_node_at(g, r)->n_in) r = ir_node_at(g, r)->in[0];
    return r;
}

/* Moves pieces of a single `empty` into the non-splitting piece before them, and closes the gaps. */
static uint32_t merge_empty(const ir_graph *g, uint32_t n_ids, uint32_t *piece, bool *splitting) {
    uint32_t last_plain = SPLIT_NO_PIECE, next = 0;
    uint32_t n_nodes = ir_graph_count(g), r = 0;
    for (uint32_t id = 0; id < n_ids; id++) {
        uint32_t n = 0;
        bool only_empty = true;
        for (uint32_t i = r; i < n_nodes && (piece[i] == id || piece[i] == SPLIT_NO_PIECE); i++) {
            if (piece[i] != id) continue;
            n++;
            only_empty = only_empty && ir_node_at(g, i)->op == IR_empty;
        }
        bool merge = !splitting[id] && n == 1 && only_empty && last_plain != SPLIT_NO_PIECE;
        uint32_t to = merge ? last_plain : next;
        for (; r < n_nodes && (piece[r] == id || piece[r] == SPLIT_NO_PIECE); r++)
            if (piece[r] == id) piece[r] = to;
        if (merge) continue;
        splitting[next] = splitting[id];
        if (!splitting[next]) last_plain = next;
        next++;
    }
    return next;
}

/* Versions and results belong to the piece of the op that made them. */
static void place_made(const ir_graph *g, uint32_t *piece) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        if (is_of_maker(n)) piece[r] = piece[n->op == IR_result ? n->in[0] : ir_maker_of(g, r)];
    }
}

uint32_t split_partition(const ir_graph *g, const char *const *ops, uint32_t n_ops, uint32_t *piece,
                         bool *splitting) {
    uint32_t n_ids = 0;
    for (uint32_t r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        piece[r] = SPLIT_NO_PIECE;
        if (split_is_argument(n) || split_repeats(n) || is_of_maker(n)) continue;
        bool split = ir_is_splitting(n, ops, n_ops);
        if (n_ids == 0 || splitting[n_ids - 1] != split) splitting[n_ids++] = split;
        piece[r] = n_ids - 1;
    }
    n_ids = merge_empty(g, n_ids, piece, splitting);
    place_made(g, piece);
    return n_ids;
}
