/* Admission: who runs next, and whose blocks of the KV cache it shares. */
#include "engine/admission.h"

#include <string.h>

void engine_sched_catch_up(engine_request *r) {
    if (!r->leader || engine_sched_committed(r->leader) < r->n_shared) return;
    r->n_computed = r->n_shared;
    r->leader = NULL;
}

/* The oldest that runs with the prompt of r; NULL: none, or its logits of every position are asked for. */
static engine_request *find_leader(const engine_sched *s, const engine_request *r) {
    for (uint32_t i = 0; i < s->n_running && !r->all_logits; i++) {
        engine_request *q = s->running[i];

        if (q->n_prompt == r->n_prompt && !q->aborting &&
            memcmp(q->prompt, r->prompt, r->n_prompt * sizeof *r->prompt) == 0)
            return q;
    }
    return NULL;
}

/* Full blocks of the prompt that r can take from another: its last token is computed in any case. */
static uint32_t blocks_to_share(const engine_sched *s, const engine_request *r) {
    uint32_t last = engine_request_len(r) - 1;

    return (r->n_prompt < last ? r->n_prompt : last) / engine_kv_block_size(s->kv);
}

/* Opens the sequence of r with room for what it has, n blocks of it those of leader. False: there is none. */
static bool open_sequence(engine_sched *s, engine_request *r, engine_request *leader, uint32_t n) {
    if (!(n > 0 ? engine_kv_fork(s->kv, leader->seq, n, &r->seq) : engine_kv_open(s->kv, &r->seq)))
        return false;
    if (!engine_kv_reserve(s->kv, r->seq, engine_request_len(r))) {
        engine_kv_close(s->kv, r->seq);
        return false;
    }
    r->n_shared = n * engine_kv_block_size(s->kv);
    r->leader = n > 0 ? leader : NULL;
    engine_sched_catch_up(r);
    return true;
}

/* A block a running request is held back, or the newcomer would be preempted within a few steps. */
void engine_sched_admit(engine_sched *s) {
    while (s->waiting.head && s->n_running < s->o.max_num_seqs &&
           engine_sched_newest(s)->num_tokens < s->o.max_num_batched_tokens) {
        engine_request *r = s->waiting.head;
        engine_request *leader = find_leader(s, r);
        uint32_t shared = leader ? blocks_to_share(s, r) : 0;
        uint32_t need = engine_kv_blocks_for(s->kv, engine_request_len(r) + (r->max_output > 0));

        if (need - shared + s->n_running > engine_kv_n_free(s->kv) && s->n_running > 0) break;
        if (!open_sequence(s, r, leader, shared)) break;
        (void)engine_list_pop_front(&s->waiting);
        r->state = ENGINE_RUNNING;
        s->running[s->n_running++] = r;
    }
}
