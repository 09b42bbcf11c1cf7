#include "engine/alone.h"

rp_status engine_alone_open(engine_alone *a, rp_engine *e, const engine_alone_options *o,
                            rp_error *err) {
    const rp_compilation_config *c = e->config;
    const engine_sched_options so = {
        .max_num_seqs = (uint32_t)c->max_num_seqs.v,
        .max_num_batched_tokens = (uint32_t)c->max_num_batched_tokens.v,
        .max_model_len = e->max_model_len,
        .prefill_chunk = o->chunk,
        .vocab_size = model_source_hparams(e->source)->n_vocab};
    const engine_request_options ro = {.id = UINT64_MAX,
                                       .prompt = o->ids,
                                       .n_prompt = o->n,
                                       .max_tokens = o->max_tokens,
                                       .all_logits = o->all_logits,
                                       .sampling = ENGINE_SAMPLING_GREEDY};
    *a = (engine_alone){0};
    if (!engine_sched_idle(e->sched))
        return rp_fail(err, RP_INVALID, "%s an engine with no requests under way", o->what);
    RP_TRY(engine_sched_new(&so, e->kv, &a->sched, err));
    RP_TRY(engine_request_new(&ro, &a->req, err));
    return engine_sched_add(a->sched, a->req, err);
}

rp_status engine_alone_next(engine_alone *a, const engine_batch **out, rp_error *err) {
    int32_t token = 0;
    *out = NULL;
    if (a->under_way) engine_sched_commit(a->sched, &token);
    a->under_way = false;
    if (engine_sched_take_finished(a->sched)) return RP_OK;
    RP_TRY(engine_sched_next(a->sched, out, err));
    a->under_way = *out != NULL;
    return RP_OK;
}

void engine_alone_close(engine_alone *a) {
    engine_sched_free(a->sched);
    engine_request_free(a->req);
    *a = (engine_alone){0};
}
