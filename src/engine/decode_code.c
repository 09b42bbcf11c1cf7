#include "engine/decode_code.h"

#include "base/alloc.h"
#include "base/parts.h"

/* A class of rows, and what becomes of it. */
typedef struct class_code {
    const gen_decode *of;
    const compile_nvrtc *nvrtc;
    cache_store *store;
    base_hash128 key;
    bool is_stored;
    rp_status st;
    rp_error err;
} class_code;

static rp_status make_class(class_code *c) {
    rp_status st = RP_OK;
    rp_error miss = {0};
    char *path = NULL;
    base_buf text;
    base_buf_init(&text, 0);
    base_buf_printf(&text, "/* %s, %s */\n", c->nvrtc->arch, c->nvrtc->version);
    RP_TRY_OUT(gen_decode_text(c->of, &text, &c->err));
    c->key = base_hash(text.data, text.len);
    c->is_stored =
        cache_get_code(c->store, c->key, compile_nvrtc_bits(c->nvrtc->arch), &path, &miss) == RP_OK;
    if (!c->is_stored) st = compile_nvrtc_run(c->nvrtc, text.data, c->key, c->store, &c->err);
out:
    base_free(path);
    base_buf_done(&text);
    return st;
}

static void make_part(void *user, uint32_t thread, uint64_t part) {
    class_code *c = (class_code *)user + part;
    (void)thread;
    c->st = make_class(c);
}

rp_status engine_decode_code(const engine_plans_options *o, const compile_nvrtc *nvrtc,
                             const gen_decode *of, uint32_t n, plan_module *out,
                             compile_stats *stats, rp_error *err) {
    class_code all[ENGINE_DECODE_CLASSES];
    for (uint32_t i = 0; i < n; i++)
        all[i] = (class_code){.of = &of[i], .nvrtc = nvrtc, .store = o->store};
    base_parts(n, o->threads, make_part, all);
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].st != RP_OK) return rp_fail(err, all[i].st, "%s", all[i].err.text);
        out[i] = (plan_module){all[i].key, compile_nvrtc_bits(nvrtc->arch)};
        stats->cache_hits += all[i].is_stored;
        stats->compiles += !all[i].is_stored;
    }
    return RP_OK;
}
