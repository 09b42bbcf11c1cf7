#include "engine/exchange.h"

#include "base/alloc.h"
#include "gen/exchange.h"

static rp_status compile_once(const compile_nvrtc *nvrtc, cache_store *store, base_hash128 *key,
                              rp_error *err) {
    rp_status st = RP_OK;
    rp_error miss = {0};
    char *path = NULL;
    base_buf text;
    base_buf_init(&text, 0);
    base_buf_printf(&text, "/* %s, %s */\n", nvrtc->arch, nvrtc->version);
    gen_exchange_text(&text);
    RP_TRY_OUT(base_buf_status(&text, err));
    *key = base_hash(text.data, text.len);
    if (cache_get_code(store, *key, compile_nvrtc_bits(nvrtc->arch), &path, &miss) != RP_OK)
        st = compile_nvrtc_run(nvrtc, text.data, *key, store, err);
out:
    base_free(path);
    base_buf_done(&text);
    return st;
}

rp_status engine_exchange_compile(const compile_nvrtc *nvrtc, cache_store *store, plan *p,
                                  rp_error *err) {
    static const char *const names[] = {GEN_EXCHANGE_FETCH, GEN_EXCHANGE_DELIVER};
    plan_module m = {.isa_bits = compile_nvrtc_bits(nvrtc->arch)};
    RP_TRY(compile_once(nvrtc, store, &m.key, err));
    return plan_add_code(p, &m, names, sizeof names / sizeof *names, err);
}

rp_status engine_exchange_open(engine_exchange *x, hal_device *device, const plan_exec *code,
                               rp_error *err) {
    hal_device_info info;
    void *state = NULL;
    device->ops->info(device, &info);
    *x = (engine_exchange){.device = device, .needed = !info.unified};
    if (!x->needed) return RP_OK;
    RP_TRY(plan_exec_function(code, GEN_EXCHANGE_FETCH, &x->fetch, err));
    RP_TRY(plan_exec_function(code, GEN_EXCHANGE_DELIVER, &x->deliver, err));
    RP_TRY(device->ops->alloc(device, HAL_DEVICE_MEMORY, GEN_EXCHANGE_STATE * sizeof(int32_t),
                              &state, err));
    x->state = state;
    return RP_OK;
}

void engine_exchange_close(engine_exchange *x) {
    if (x->state)
        x->device->ops->release(x->device, x->state, GEN_EXCHANGE_STATE * sizeof(int32_t));
    *x = (engine_exchange){0};
}

hal_launch engine_exchange_launch(hal_launch l) {
    l.kind = HAL_KERNEL;
    l.items = l.grain = l.per_block = 1;
    l.threads = GEN_EXCHANGE_THREADS;
    return l;
}

void engine_exchange_reset(engine_exchange *x) {
    hal_device *d = x->device;
    rp_error ignored = {0};
    if (!x->needed || d->ops->synchronize(d, &ignored) != RP_OK) return;
    if (d->ops->copy(d, x->state, &x->sent, sizeof x->sent, &ignored) == RP_OK)
        (void)d->ops->synchronize(d, &ignored);
}
