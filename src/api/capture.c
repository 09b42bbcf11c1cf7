/* A compiled graph inside of a capture: its launches become part of a graph that is replayed later, when frames serve other
 * calls. So what they work in is a part of that graph: an executor of its own, shared by all graphs of the stream that call
 * the same compiled graph, since they run one at a time. */
#include "api/compiled.h"
#include "base/alloc.h"
#include "base/status.h"
#include "plan/size.h"

typedef struct compiled_part {
    device_part base;
    rp_compiled *c; /* a reference */
    unsigned generation;
    plan_exec *exec;
    plan_bound *list;
    int64_t *symbols;
} compiled_part;

static bool part_valid(const device_part *base) {
    const compiled_part *p = (const compiled_part *)base;
    return atomic_load(&p->c->generation) == p->generation;
}

static void part_free(device_part *base) {
    compiled_part *p = (compiled_part *)base;
    plan_bound_free(p->list);
    plan_exec_free(p->exec);
    base_free(p->symbols);
    api_compiled_unref(p->c);
    base_free(p);
}

static rp_status part_new(rp_compiled *c, rp_stream *s, compiled_part **out, rp_error *err) {
    rp_status st = RP_OK;
    compiled_part *p = base_alloc(sizeof *p);
    if (!p) return rp_fail(err, RP_NOMEM, "captured graph @%s", c->p->name);
    p->base.valid = part_valid;
    p->base.free = part_free;
    /* What a bind may move serves one call. */
    p->base.owner = plan_has_grown(c->p) ? NULL : c;
    p->c = c;
    (void)atomic_fetch_add(&c->refs, 1);
    p->generation = atomic_load(&c->generation);
    p->symbols = base_alloc_array(c->p->n_symbols + 1u, sizeof *p->symbols);
    if (!p->symbols) {
        st = rp_fail(err, RP_NOMEM, "captured graph @%s", c->p->name);
        goto out;
    }
    RP_TRY_OUT(plan_exec_again(api_frames_exec(c->frames), device_stream_queue(s), &p->exec, err));
    RP_TRY_OUT(plan_bound_new(p->exec, 0, c->p->n_pieces, &p->list, err));
    p->base.bytes = plan_exec_arena_bytes(p->exec);
    *out = p;
    p = NULL;
out:
    if (p) part_free(&p->base);
    return st;
}

static rp_status allow_leaf(const compiled_part *p, hal_device *queue, plan_seg seg, uint32_t idx,
                            const plan_leaf *l, rp_error *err) {
    int64_t bytes = plan_size_eval(&l->bytes, p->symbols);
    const void *at = plan_exec_get(p->exec, seg, idx);
    bool given = seg == PLAN_INPUT || seg == PLAN_OUTPUT; /* memory that the capture knows */
    if (given && bytes > 0) return RP_OK;
    return hal_capture_allow(queue, at, bytes > 0 ? (size_t)bytes : 1, l->name, err);
}

/* What the launches may point to beside inputs, outputs and the part's own memory, which is of the queue. */
static rp_status allow_all(const compiled_part *p, hal_device *queue, rp_error *err) {
    const plan *pl = p->c->p;
    if (pl->weights_size > 0)
        RP_TRY(hal_capture_allow(queue, p->c->packed, (size_t)pl->weights_size, "packed weights",
                                 err));
    RP_TRY(hal_capture_allow(queue, plan_exec_consts(p->exec), plan_exec_const_bytes(p->exec),
                             "records", err));
    const struct {
        plan_seg seg;
        const plan_leaf *leaf;
        uint32_t n;
    } all[] = {{PLAN_INPUT, pl->inputs, pl->n_inputs},
               {PLAN_OUTPUT, pl->outputs, pl->n_outputs},
               {PLAN_PARAM, pl->params, pl->n_params},
               {PLAN_STATE, pl->states, pl->n_states}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (uint32_t i = 0; i < all[k].n; i++)
            RP_TRY(allow_leaf(p, queue, all[k].seg, i, &all[k].leaf[i], err));
    return RP_OK;
}

/* A graph copies nothing to the device and back. */
static rp_status check_reached(const compiled_part *p, const hal_device *queue, plan_seg seg,
                               const plan_leaf *l, uint32_t n, rp_error *err) {
    for (uint32_t i = 0; i < n; i++)
        if (plan_size_eval(&l[i].bytes, p->symbols) > 0 &&
            !api_stage_reached(queue, plan_exec_get(p->exec, seg, i)))
            return rp_fail(err, RP_INVALID,
                           "%s of graph @%s is memory that the device does not reach; a call that "
                           "is captured wants memory of the device, by rp_device_alloc",
                           l[i].name, p->c->p->name);
    return RP_OK;
}

static rp_status note_run(compiled_part *p, hal_device *queue, const rp_buffer *inputs,
                          rp_buffer *outputs, const api_told *told, rp_error *err) {
    const plan *pl = p->c->p;
    RP_TRY(api_set_buffers(pl, p->exec, p->symbols, inputs, outputs, err));
    RP_TRY(check_reached(p, queue, PLAN_INPUT, pl->inputs, pl->n_inputs, err));
    RP_TRY(check_reached(p, queue, PLAN_OUTPUT, pl->outputs, pl->n_outputs, err));
    RP_TRY(plan_exec_bind(p->exec, p->list, p->symbols, err));
    RP_TRY(allow_all(p, queue, err));
    hal_trace *trace = api_trace_run(p->c, queue, p->exec, p->symbols, told);
    rp_status st = queue->ops->launch(queue, p->list->launches, p->list->n, p->list->scratch, err);
    (void)hal_trace_to(queue, trace);
    RP_TRY(st);
    for (uint32_t i = 0; i < pl->n_inputs; i++)
        if (p->c->mutates[i])
            RP_TRY(hal_capture_wrote(queue, inputs[i].data,
                                     (size_t)plan_size_eval(&pl->inputs[i].bytes, p->symbols),
                                     err));
    for (uint32_t i = 0; i < pl->n_outputs; i++)
        RP_TRY(hal_capture_wrote(queue, outputs[i].data,
                                 (size_t)plan_size_eval(&pl->outputs[i].bytes, p->symbols), err));
    return RP_OK;
}

rp_status api_capture_run(rp_compiled *c, rp_stream *s, const rp_buffer *inputs, rp_buffer *outputs,
                          const api_told *told, rp_error *err) {
    hal_device *queue = device_stream_queue(s);
    rp_error why = {0};
    compiled_part *p = (compiled_part *)device_stream_part(s, c);
    rp_status st = p ? RP_OK : part_new(c, s, &p, &why);
    if (st == RP_OK) st = device_stream_keep(s, &p->base, &why);
    if (st == RP_OK) st = note_run(p, queue, inputs, outputs, told, &why);
    if (st == RP_OK) return RP_OK;
    /* Launches may be missing: the capture must not succeed, even if the function goes on. */
    hal_capture_spoil(queue, &why);
    return rp_fail(err, st, "%s", why.text);
}
