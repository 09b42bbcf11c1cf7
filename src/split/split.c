/* Builds the canonical graph of every piece and finds the distinct ones. */
#include "split/split.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ir/site.h"
#include "ir/told.h"
#include "split/partition.h"
#include "split/sides.h"

typedef struct builder {
    const ir_graph *g;
    uint32_t *piece;  /* of each node */
    bool *is_output;  /* crosses a border or is returned */
    ir_ref *next;     /* of each node: the next one of its piece */
    ir_ref *map;      /* ref in g -> ref in the piece being built */
    ir_ref *mapped;   /* those that are not IR_NONE in map */
    uint32_t *writer; /* of each leaf: the last piece that writes its memory so far */
    uint32_t n_nodes, n_mapped;
    bool alone; /* pieces know no sizes but those of their inputs */
    bool sides; /* splitting pieces are of another compiler, which is given inputs alone */
    /* What the leaves of the piece so far, by ir_leaf, and its outputs are in g. */
    ir_ref *leaves[3], *outputs;
    uint32_t counts[3], n_outputs;
} builder;

/* The state or input that value o is a version of, else o: such memory is a leaf of every piece that it is used in. */
static ir_ref place_of(const builder *b, ir_ref o) {
    ir_ref m = ir_node_at(b->g, o)->memory;
    return m != IR_NONE && ir_node_at(b->g, m)->op != IR_empty ? m : o;
}

/* Marks what piece p needs from elsewhere through operand o. */
static void mark_operand(builder *b, ir_ref o, uint32_t p) {
    const ir_node *n = ir_node_at(b->g, o);
    if (b->piece[o] != SPLIT_NO_PIECE) {
        if (b->piece[o] != p && place_of(b, o) == o) b->is_output[o] = true;
    } else if (split_repeats(n)) {
        for (uint32_t i = 0; i < n->n_in; i++) mark_operand(b, n->in[i], p);
    }
}

/* The non-splitting piece that returns what no piece computes: views and leaves among the outputs. */
static uint32_t last_plain(const bool *splitting, uint32_t n) {
    for (uint32_t i = n; i > 0; i--)
        if (!splitting[i - 1]) return i - 1;
    return SPLIT_NO_PIECE;
}

static void mark_outputs(builder *b, uint32_t last) {
    for (ir_ref r = 0; r < b->n_nodes; r++)
        for (uint32_t i = 0; b->piece[r] != SPLIT_NO_PIECE && i < ir_node_at(b->g, r)->n_in; i++)
            mark_operand(b, ir_node_at(b->g, r)->in[i], b->piece[r]);
    for (uint32_t i = 0; i < ir_output_count(b->g); i++) {
        ir_ref o = ir_output_at(b->g, i);
        if (b->piece[o] == SPLIT_NO_PIECE) mark_operand(b, o, last);
        if (place_of(b, o) == o) b->is_output[o] = true;
    }
}

static void put(builder *b, ir_ref r, ir_ref in_piece) {
    b->map[r] = in_piece;
    b->mapped[b->n_mapped++] = r;
}

static rp_status add_leaf(builder *b, split_piece *p, ir_leaf kind, ir_ref r, rp_error *err) {
    static const char *const prefix[] = {"in", "p", "s"};
    const ir_node *n = ir_node_at(b->g, r);
    ir_shape shape = n->shape;
    for (uint32_t i = 0; i < shape.rank; i++) {
        shape.dim[i] = ir_dim_import(ir_graph_dims(p->graph), ir_graph_dims(b->g), shape.dim[i]);
        if (shape.dim[i] == IR_DIM_BAD) return rp_fail(err, RP_NOMEM, "piece dims");
    }
    uint32_t i = b->counts[kind]++;
    const char *name = base_arena_printf(ir_graph_arena(p->graph), "%s%u", prefix[kind], i);
    if (!name) return rp_fail(err, RP_NOMEM, "piece leaf");
    ir_ref leaf;
    RP_TRY(ir_add_leaf(p->graph, kind, name, n->dtype, shape, &leaf, err));
    b->leaves[kind][i] = r;
    put(b, r, leaf);
    if (!ir_sites_join(p->graph, leaf, b->g, r)) return rp_fail(err, RP_NOMEM, "piece leaf");
    bool writes = n->memory != IR_NONE && b->writer[n->memory] == p->submod;
    if (kind == IR_LEAF_INPUT && writes) ir_input_mutates(p->graph, leaf);
    return RP_OK;
}

/* The version of memory `m` that the piece begins with. */
static rp_status resolve_memory(builder *b, split_piece *p, ir_ref m, ir_ref o, rp_error *err) {
    ir_leaf kind = ir_node_at(b->g, m)->op == IR_state ? IR_LEAF_STATE : IR_LEAF_INPUT;
    if (b->map[m] == IR_NONE) RP_TRY(add_leaf(b, p, kind, m, err));
    if (o != m) put(b, o, b->map[m]);
    return RP_OK;
}

/* Makes operand o available in piece id: as a leaf, a repeated node, or what was copied before. */
static rp_status resolve(builder *b, split_piece *p, uint32_t id, ir_ref o, rp_error *err) {
    const ir_node *n = ir_node_at(b->g, o);
    if (b->map[o] != IR_NONE) return RP_OK;
    bool outside = b->piece[o] != SPLIT_NO_PIECE && b->piece[o] != id;
    const ir_leaf param = b->sides && p->splitting ? IR_LEAF_INPUT : IR_LEAF_PARAM;
    if (n->op == IR_param) return add_leaf(b, p, param, o, err);
    if (n->op == IR_state || n->op == IR_input) return resolve_memory(b, p, o, o, err);
    if (outside && place_of(b, o) != o) return resolve_memory(b, p, place_of(b, o), o, err);
    if (outside) return add_leaf(b, p, IR_LEAF_INPUT, o, err);
    for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(resolve(b, p, id, n->in[i], err));
    ir_ref copy;
    RP_TRY(ir_copy_node(p->graph, b->g, o, b->map, &copy, err));
    put(b, o, copy);
    return RP_OK;
}

/* Notes whose memory piece id writes. */
static void mark_writes(builder *b, ir_ref first, uint32_t id) {
    for (ir_ref r = first; r != IR_NONE; r = b->next[r]) {
        const ir_node *n = ir_node_at(b->g, r);
        uint64_t writes = ir_node_writes(n);
        for (uint32_t i = 0; writes && i < n->n_in && i < 64; i++)
            if (writes >> i & 1) b->writer[ir_node_at(b->g, n->in[i])->memory] = id;
    }
}

/* A size that no input of the piece tells is that of an input of the whole graph. */
static rp_status add_sizes(builder *b, split_piece *p, rp_error *err) {
    uint32_t symbol;
    if (!b->alone) return RP_OK;
    RP_TRY(ir_find_untold(p->graph, &symbol, err));
    while (symbol != UINT32_MAX) {
        ir_ref r = ir_find_telling(b->g, p->graph, symbol);
        if (r == IR_NONE) break;
        RP_TRY(add_leaf(b, p, IR_LEAF_INPUT, r, err));
        RP_TRY(ir_find_untold(p->graph, &symbol, err));
    }
    return RP_OK;
}

static rp_status keep(ir_ref **list, const ir_ref *refs, uint32_t n, rp_error *err) {
    *list = base_alloc_array(n + 1u, sizeof **list);
    if (!*list) return rp_fail(err, RP_NOMEM, "piece with %u leaves", n);
    memcpy(*list, refs, n * sizeof *refs);
    return RP_OK;
}

/* The piece that begins with node `first`; IR_NONE: it has none of its own. */
static rp_status build_piece(builder *b, split_piece *p, ir_ref first, bool last, rp_error *err) {
    p->graph = ir_graph_new("piece");
    if (!p->graph) return rp_fail(err, RP_NOMEM, "piece");
    memset(b->counts, 0, sizeof b->counts);
    while (b->n_mapped) b->map[b->mapped[--b->n_mapped]] = IR_NONE;
    mark_writes(b, first, p->submod);
    b->n_outputs = 0;
    for (ir_ref r = first; r != IR_NONE; r = b->next[r]) {
        RP_TRY(resolve(b, p, p->submod, r, err));
        if (b->is_output[r]) b->outputs[b->n_outputs++] = r;
    }
    for (uint32_t i = 0; last && i < ir_output_count(b->g); i++) {
        ir_ref o = ir_output_at(b->g, i);
        if (b->piece[o] != SPLIT_NO_PIECE) continue;
        RP_TRY(resolve(b, p, p->submod, o, err));
        b->outputs[b->n_outputs++] = o;
    }
    RP_TRY(add_sizes(b, p, err));
    RP_TRY(keep(&p->inputs, b->leaves[IR_LEAF_INPUT], b->counts[IR_LEAF_INPUT], err));
    RP_TRY(keep(&p->params, b->leaves[IR_LEAF_PARAM], b->counts[IR_LEAF_PARAM], err));
    RP_TRY(keep(&p->states, b->leaves[IR_LEAF_STATE], b->counts[IR_LEAF_STATE], err));
    RP_TRY(keep(&p->outputs, b->outputs, b->n_outputs, err));
    for (uint32_t i = 0; i < b->n_outputs; i++) b->outputs[i] = b->map[p->outputs[i]];
    return ir_graph_finish(p->graph, b->outputs, b->n_outputs, err);
}

static rp_status find_distinct(split_result *r, rp_error *err) {
    rp_status st = RP_OK;
    base_map *seen = base_map_new();
    char *text = NULL;
    if (!seen) return rp_fail(err, RP_NOMEM, "distinct pieces");
    for (uint32_t i = 0; i < r->n_pieces; i++) {
        split_piece *p = &r->pieces[i];
        RP_TRY_OUT(ir_print_string(p->graph, &text, err));
        p->hash = base_hash(text, strlen(text));
        base_free(text);
        text = NULL;
        uint64_t first = i;
        if (!base_map_get(seen, &p->hash, sizeof p->hash, &first)) {
            RP_TRY_OUT(base_map_put(seen, &p->hash, sizeof p->hash, i, err));
            if (!p->splitting) r->n_distinct++;
        }
        p->distinct = (uint32_t)first;
    }
out:
    base_free(text);
    base_map_free(seen);
    return st;
}

/* The last piece whose values r is made of, at least p. */
static uint32_t not_before(const builder *b, ir_ref r, uint32_t p) {
    const ir_node *n = ir_node_at(b->g, r);
    if (b->piece[r] != SPLIT_NO_PIECE) return b->piece[r] > p ? b->piece[r] : p;
    for (uint32_t i = 0; split_repeats(n) && i < n->n_in; i++) p = not_before(b, n->in[i], p);
    return p;
}

/* Outputs that no piece computes (views, constants, leaves) are of the last piece that does not split, so there must be
 * one, and what they are made of not later: else an empty one is added behind the others. */
static bool lacks_plain_piece(const builder *b, const bool *splitting, uint32_t n_pieces) {
    uint32_t last = last_plain(splitting, n_pieces);
    for (uint32_t i = 0; i < ir_output_count(b->g); i++) {
        ir_ref o = ir_output_at(b->g, i);
        if (b->piece[o] != SPLIT_NO_PIECE) continue;
        if (last == SPLIT_NO_PIECE || not_before(b, o, last) > last) return true;
    }
    return false;
}

static rp_status build_all(builder *b, const bool *splitting, split_result *r, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t last = last_plain(splitting, r->n_pieces);
    ir_ref *first = base_alloc_array(r->n_pieces + 1u, sizeof *first);
    if (!first) return rp_fail(err, RP_NOMEM, "split into %u pieces", r->n_pieces);
    for (uint32_t i = 0; i < r->n_pieces; i++) first[i] = IR_NONE;
    for (ir_ref n = b->n_nodes; n > 0; n--) {
        uint32_t piece = b->piece[n - 1];
        b->map[n - 1] = IR_NONE;
        if (piece == SPLIT_NO_PIECE) continue;
        b->next[n - 1] = first[piece];
        first[piece] = n - 1;
    }
    mark_outputs(b, last);
    for (uint32_t i = 0; i < r->n_pieces; i++) {
        split_piece *p = &r->pieces[i];
        p->submod = i;
        p->splitting = splitting[i];
        p->graph_index = splitting[i] ? UINT32_MAX : r->n_compiled++;
        RP_TRY_OUT(build_piece(b, p, first[i], i == last, err));
    }
    st = find_distinct(r, err);
out:
    base_free(first);
    return st;
}

static bool alloc_lists(builder *b, base_arena *work) {
    ir_ref **lists[] = {&b->piece,  &b->next,      &b->map,       &b->mapped,
                        &b->writer, &b->leaves[0], &b->leaves[1], &b->leaves[2]};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!(*lists[i] = base_arena_array(work, b->n_nodes + 1u, sizeof(ir_ref)))) return false;
    size_t n_outputs = (size_t)b->n_nodes + ir_output_count(b->g);
    b->outputs = base_arena_array(work, n_outputs + 1, sizeof *b->outputs);
    b->is_output = base_arena_array(work, b->n_nodes + 1u, sizeof *b->is_output);
    return b->outputs && b->is_output;
}

/* Nodes are given to pieces by sides, or by ops where that is NULL. */
static rp_status split(const ir_graph *g, const char *const *ops, uint32_t n_ops, bool alone,
                       const split_sides *sides, split_result *out, rp_error *err) {
    rp_status st = RP_OK;
    split_result r = {0};
    uint32_t n = ir_graph_count(g);
    builder b = {.g = g, .n_nodes = n, .alone = alone, .sides = sides != NULL};
    base_arena *work = base_arena_new();
    bool *splitting = work ? base_arena_array(work, n + 1u, sizeof *splitting) : NULL;
    if (!splitting || !alloc_lists(&b, work)) {
        st = rp_fail(err, RP_NOMEM, "split of %u nodes", n);
        goto out;
    }
    memset(b.writer, 0xff, (n + 1) * sizeof *b.writer);
    if (sides) {
        memcpy(b.piece, sides->piece, n * sizeof *b.piece);
        memcpy(splitting, sides->taken, sides->n * sizeof *splitting);
        r.n_pieces = sides->n;
    } else {
        r.n_pieces = split_partition(g, ops, n_ops, b.piece, splitting);
    }
    if (lacks_plain_piece(&b, splitting, r.n_pieces)) splitting[r.n_pieces++] = false;
    r.pieces = base_alloc_array(r.n_pieces + 1, sizeof *r.pieces);
    if (!r.pieces) {
        st = rp_fail(err, RP_NOMEM, "split into %u pieces", r.n_pieces);
        goto out;
    }
    RP_TRY_OUT(build_all(&b, splitting, &r, err));
    *out = r;
    r = (split_result){0};
out:
    split_done(&r);
    base_arena_free(work);
    return st;
}

rp_status split_graph(const ir_graph *g, const char *const *ops, uint32_t n_ops, split_result *out,
                      rp_error *err) {
    return split(g, ops, n_ops, false, NULL, out, err);
}

rp_status split_apart(const ir_graph *g, const char *const *ops, uint32_t n_ops, split_result *out,
                      rp_error *err) {
    return split(g, ops, n_ops, true, NULL, out, err);
}

rp_status split_by_sides(const ir_graph *g, const split_sides *s, split_result *out,
                         rp_error *err) {
    return split(g, NULL, 0, true, s, out, err);
}

void split_done(split_result *r) {
    for (uint32_t i = 0; i < r->n_pieces && r->pieces; i++) {
        split_piece *p = &r->pieces[i];
        ir_graph_free(p->graph);
        base_free(p->inputs);
        base_free(p->params);
        base_free(p->states);
        base_free(p->outputs);
    }
    base_free(r->pieces);
    *r = (split_result){0};
}
