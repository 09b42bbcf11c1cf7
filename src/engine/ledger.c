#include "engine/ledger.h"

static uint64_t own_bytes(hal_device *d) {
    return d->ops->own_bytes ? d->ops->own_bytes(d) : 0;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

engine_mark engine_mark_now(hal_device *d, const engine_weights *w) {
    return (engine_mark){d->ops->available ? d->ops->available(d) : 0,
                         own_bytes(d) + (w ? engine_weights_set_bytes(w) : 0)};
}

void engine_ledger_open(engine_ledger *l, hal_device *d) {
    hal_device_info info;
    d->ops->info(d, &info);
    *l = (engine_ledger){.total = info.memory,
                         .context = less(info.memory, engine_mark_now(d, NULL).left)};
}

uint64_t engine_mark_unasked(hal_device *d, const engine_weights *w, engine_mark since) {
    const engine_mark now = engine_mark_now(d, w);
    return less(less(since.left, now.left), less(now.asked, since.asked));
}

json_t *engine_ledger_json(const engine_ledger *l, hal_device *d, const engine_weights *w,
                           const engine_runner *r) {
    engine_memory m;
    if (!l->total) return json_null();
    engine_runner_memory(r, &m);
    const uint64_t own = engine_weights_own_bytes(w), weights = own + engine_weights_set_bytes(w);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "total", (json_int_t)l->total, "free",
                     (json_int_t)engine_mark_now(d, NULL).left, "context", (json_int_t)l->context,
                     "weights", (json_int_t)weights, "kv", (json_int_t)m.kv, "steps",
                     (json_int_t)less(own_bytes(d), m.kv + own), "code", (json_int_t)l->code,
                     "graphs", (json_int_t)l->graphs);
}
