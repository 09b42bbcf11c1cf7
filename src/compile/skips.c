/* A switch that was never set leaves its pass on; resolving turns it off below level 2. */
#include "compile/skips.h"

#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "compile/compile.h"
#include "config/table.h"

/* UINT32_MAX: no pass of that name is registered. */
static uint32_t registered(const char *name) {
    const rewrite_pass *p;
    for (uint32_t i = 0; (p = rewrite_at(i)) != NULL; i++)
        if (strcmp(p->name, name) == 0) return i;
    return UINT32_MAX;
}

typedef struct switches {
    bool off[REWRITE_MOST];
} switches;

static rp_status take_switch(void *user, const char *name, bool on, rp_error *err) {
    switches *s = user;
    uint32_t n, at = registered(name);
    if (at != UINT32_MAX) {
        s->off[at] = !on;
        return RP_OK;
    }
    const char *const *names = rewrite_names(&n);
    const char *near = base_str_nearest(name, names, n);
    return rp_fail(err, RP_CONFIG, "inductor_passes: no pass %.60s is registered%s%s", name,
                   near ? "; nearest: " : "; rp_pass_register does that", near ? near : "");
}

static void add_extra(const switches *s, compile_skips *out) {
    const rewrite_pass *p;
    for (uint32_t i = 0; (p = rewrite_at(i)) != NULL; i++)
        if (!s->off[i]) out->extra[out->n_extra++] = (pass_extra){p->name, p->uuid, p, rewrite_run};
}

/* Typed rules hold; without any what a pass puts there is what it wants. */
static bool keeps_op(const void *user, const rp_op_desc *d) {
    const rp_compilation_config *cfg = user;
    const bool eager = strcmp(cfg->backend, "inductor") != 0;
    const bool own = strncmp(cfg->device, "cuda", 4) == 0 ? ir_custom_on_gpu(d)
                                                          : d->cpu || (d->c_source && !eager);
    return own && (!cfg->custom_ops.n || config_custom_op_on(cfg, d->name));
}

static rp_status lower_ops(const void *self, const ir_graph *in, ir_graph **out, uint32_t *n,
                           rp_error *err) {
    return rewrite_lower_ops(in, keeps_op, self, out, n, err);
}

/* Its uuid are the names of ops that it may lower; how one is lowered the uuids of the passes stand for that put it there. */
static rp_status add_lowering(const rp_compilation_config *cfg, compile_skips *out, rp_error *err) {
    const rp_op_desc *d;
    base_buf names;
    base_buf_init(&names, 0);
    for (uint32_t i = 0; out->n_extra && (d = ir_custom_at(i)) != NULL; i++)
        if (d->lower && !keeps_op(cfg, d)) base_buf_printf(&names, "%s ", d->name);
    rp_status st = base_buf_status(&names, err);
    if (st == RP_OK && names.len) {
        base_hash_hex(base_hash(names.data, names.len), out->lowered);
        out->extra[out->n_extra++] =
            (pass_extra){COMPILE_LOWERED_OPS, out->lowered, cfg, lower_ops};
    }
    base_buf_done(&names);
    return st;
}

/* Names of registered passes among them switch those off. */
static rp_status take_skipped(const rp_compilation_config *cfg, size_t most, switches *s,
                              compile_skips *out, rp_error *err) {
    if (cfg->skip_passes.n > most)
        return rp_fail(err, RP_CONFIG, "skip_passes names %zu passes; at most %zu",
                       (size_t)cfg->skip_passes.n, most);
    for (size_t i = 0; i < cfg->skip_passes.n; i++) {
        uint32_t at = registered(cfg->skip_passes.v[i]);
        if (at != UINT32_MAX)
            s->off[at] = true;
        else
            out->name[out->n++] = cfg->skip_passes.v[i];
    }
    return RP_OK;
}

static size_t count_fusions(void) {
    size_t n = 0;
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) n += config_fusion_name(id) != NULL;
    return n;
}

/* Each is left out where it is off; that of attention is not part of anything unless it is asked for, on the host. */
static void add_fusions(const rp_compilation_config *cfg, bool gpu, compile_skips *out) {
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const char *name = config_fusion_name(id);
        const config_obool *on = name ? config_slot_const(cfg, id) : NULL;
        if (!on || !on->set) continue;
        if (id == CONFIG_ID_pass_fuse_attn_quant) {
            if (on->v && !gpu) out->name[out->n++] = "+fuse_attn_quant";
        } else if (!on->v) {
            out->name[out->n++] = name;
        }
    }
}

rp_status compile_skips_of(const rp_compilation_config *cfg, compile_skips *out, rp_error *err) {
    const bool gpu = cfg->device && strncmp(cfg->device, "cuda", 4) == 0;
    switches s = {{false}};
    *out = (compile_skips){.n = 0};
    RP_TRY(config_each_switch("inductor_passes", cfg->inductor_passes, take_switch, &s, err));
    RP_TRY(take_skipped(cfg, COMPILE_MAX_SKIPS - count_fusions() - 1, &s, out, err));
    add_fusions(cfg, gpu, out);
    /* Blocks of rows one behind the other would each fill a part of a GPU. */
    if (gpu) out->name[out->n++] = "attention";
    add_extra(&s, out);
    RP_TRY(add_lowering(cfg, out, err));
    uint32_t n;
    const char *const *names = rewrite_names(&n);
    return pass_check_skips(out->name, out->n, names, n, err);
}

rp_status compile_skips_key(const pass_extra *extra, uint32_t n, cache_key *k, rp_error *err) {
    rp_status st = RP_OK;
    for (uint32_t i = 0; i < n && st == RP_OK; i++) {
        base_buf name;
        base_buf_init(&name, 0);
        base_buf_printf(&name, "pass.%s", extra[i].name);
        st = base_buf_status(&name, err);
        if (st == RP_OK) st = cache_key_add(k, name.data, extra[i].uuid, err);
        base_buf_done(&name);
    }
    return st;
}
