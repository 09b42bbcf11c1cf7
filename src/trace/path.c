/* What the runs of a recorded function ask for, in order: a call that asks for what the run before asked for at its place has the node at
 * once, without attributes made canonical, a hash and a search. */
#include <string.h>

#include "base/alloc.h"
#include "trace/record.h"

/* Of attributes that are told by their bits. */
static bool is_scalar(const ir_attr *a) {
    switch (ir_attr_key_type(a->key)) {
    case IR_ATTR_TYPE_INT:
    case IR_ATTR_TYPE_FLOAT:
    case IR_ATTR_TYPE_BOOL:
    case IR_ATTR_TYPE_DTYPE: return true;
    default: return false;
    }
}

static uint64_t bits_of(const ir_attr *a) {
    uint64_t bits;
    memcpy(&bits, &a->u, sizeof bits);
    return bits;
}

bool trace_path_same_attrs(const trace_asking *was, const ir_attr *attrs) {
    for (uint32_t i = 0; i < was->n_attrs; i++)
        if (was->key[i] != attrs[i].key || was->bits[i] != bits_of(&attrs[i])) return false;
    return true;
}

static bool reserve(trace_path *p) {
    if (p->next < p->cap) return true;
    uint32_t cap = p->cap ? p->cap * 2 : 32;
    trace_asking *v = base_realloc_array(p->v, cap, sizeof *v);
    if (!v) return false;
    p->v = v;
    p->cap = cap;
    return true;
}

void trace_path_note(rp_graph *g, ir_ref node, const ir_attr *attrs, uint32_t n_attrs) {
    trace_path *p = &g->asked->path;
    bool known = n_attrs <= TRACE_PATH_ATTRS && ir_node_merges(ir_node_at(g->ir, node));
    if (p->next >= p->n || p->v[p->next].node != node) p->changes++;
    if (!reserve(p)) return; /* what is not noted is searched for */
    trace_asking *is = &p->v[p->next++];
    if (p->next > p->n) p->n = p->next;
    for (uint32_t i = 0; i < n_attrs && known; i++) {
        known = is_scalar(&attrs[i]);
        is->key[i] = attrs[i].key;
        is->bits[i] = bits_of(&attrs[i]);
    }
    is->n_attrs = n_attrs;
    is->node = node;
    is->is = known ? ir_node_at(g->ir, node) : NULL;
}
