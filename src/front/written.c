/* Arguments that are written and are no states, in functions with graph breaks: the host sees what was written so far, and other arguments stay
 * what they were even where they share the memory. */
#include "front/recording.h"

#include "autograph/memory.h"
#include "base/alloc.h"

/* The tensor of the arguments that leaf is; n_inputs: none. */
static uint32_t argument_of(const front_recording *rec, ir_ref leaf) {
    uint32_t i = 0;
    while (i < rec->n_inputs && rec->input[i] != leaf) i++;
    return i;
}

bool front_copies_old(const front_session *s, ir_ref r) {
    const uint32_t k = argument_of(s->rec, ir_node_at(s->rec->g->ir, r)->memory);
    return k < s->rec->n_inputs && !s->a->tensor[k]->state;
}

/* Tensor k keeps the value that it has now. */
static rp_status keep_value(front_session *s, uint32_t k, rp_error *err) {
    rp_buffer b = *front_held_of(s, s->rec->input[k]);
    const void *from = b.data;
    size_t bytes = 0;
    if (from != s->a->tensor[k]->tensor.data) return RP_OK; /* a copy already */
    if (!autograph_bytes(&b, &bytes)) return rp_fail(err, RP_NOMEM, "a copy of an argument");
    RP_TRY(front_own(s, bytes, &b.data, err));
    RP_TRY(front_copy(s->f, b.data, from, bytes, err));
    return front_hold(s, s->rec->input[k], &b, err);
}

/* Tensor i is written for the first time. */
static rp_status begin_writing(front_session *s, uint32_t i, rp_error *err) {
    const front_args *a = s->a;
    RP_TRY(front_check_written(a->tensor[i], i, err));
    RP_TRY(front_into_written(s->f, a, i, s->to, err));
    for (uint32_t k = 0; k < a->n_tensors; k++) {
        if (k == i || front_meeting(a->tensor[i], a->tensor[k]) == BASE_APART) continue;
        if (a->tensor[k]->state || s->written[k]) return front_refuse_shared(a, i, k, err);
        RP_TRY(keep_value(s, k, err));
    }
    s->written[i] = true;
    return RP_OK;
}

rp_status front_before_effects(front_session *s, const ir_ref *effect, uint32_t n, rp_error *err) {
    const ir_graph *g = s->rec->g->ir;
    for (uint32_t e = 0; e < n; e++) {
        const ir_node *x = ir_node_at(g, effect[e]);
        uint64_t writes = ir_node_writes(x);
        for (uint32_t i = 0; i < x->n_in && i < 64; i++) {
            if (!(writes >> i & 1)) continue;
            uint32_t k = argument_of(s->rec, ir_node_at(g, x->in[i])->memory);
            if (k == s->rec->n_inputs) continue;
            RP_TRY(front_support_write(s->f, s->a, k, g, effect[e], err));
            if (!s->a->tensor[k]->state && !s->written[k]) RP_TRY(begin_writing(s, k, err));
        }
    }
    return RP_OK;
}

/* Of views, which are held as dense copies. */
rp_status front_after_effects(front_session *s, rp_error *err) {
    for (uint32_t k = 0; k < s->rec->n_inputs; k++) {
        const rp_value *v = s->a->tensor[k];
        void *memory = s->rec->held[s->rec->input[k]].memory;
        if (!s->written[k] || memory == v->tensor.data) continue;
        front_note_back(s->to, v);
        RP_TRY(front_copy_value(s->f, v, memory, false, err));
    }
    return RP_OK;
}
