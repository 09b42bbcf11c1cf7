/* Contradictions and missing machinery: what is refused before anything is resolved.
 *
 * Refusals look only at what the user typed. What holds in any case gets a note. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "config/resolve.h"
#include "config/table.h"

static rp_status check_machinery(rp_compilation_config *cfg, int id, rp_error *err) {
    const config_field *f = &config_table[id];
    const void *slot = config_slot(cfg, id);
    rp_status st = RP_OK;
    bool asks = false;
    char shown[CONFIG_SHOWN];
    if (!cfg->typed[id] || (f->status != CONFIG_UNSUP && f->status != CONFIG_HOLDS)) return RP_OK;
    RP_TRY(config_value_asks(f, slot, &asks, err));
    if (!asks) return RP_OK;
    char *text = config_value_text(f, slot);
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", f->name);
    if (f->status == CONFIG_UNSUP)
        st = rp_fail(err, RP_UNSUPPORTED, "%s=%s is not supported: %s; leave it at %s", f->name,
                     config_shown(text, shown), f->status_reason, f->deflt);
    else
        st = config_note_add(cfg, f->status_reason, err, "%s=%s", f->name,
                             config_shown(text, shown));
    base_free(text);
    return st;
}

/* Of steps of a model, of the memory that they take and of the sizes that are captured for them, which compile_sizes of a function
 * may name, too. What was told is taken back: it is held against no limit of steps. */
static const int of_models[] = {CONFIG_ID_max_num_seqs,
                                CONFIG_ID_max_num_batched_tokens,
                                CONFIG_ID_long_prefill_token_threshold,
                                CONFIG_ID_async_scheduling,
                                CONFIG_ID_max_model_len,
                                CONFIG_ID_gpu_memory_utilization,
                                CONFIG_ID_decode_kernels,
                                CONFIG_ID_sealed,
                                CONFIG_ID_performance_mode,
                                CONFIG_ID_cudagraph_capture_sizes,
                                CONFIG_ID_cuda_graph_sizes,
                                CONFIG_ID_max_cudagraph_capture_size,
                                CONFIG_ID_cudagraph_num_of_warmups};

rp_status config_note_models(rp_compilation_config *cfg, rp_error *err) {
    for (size_t i = 0; !cfg->resolved && i < sizeof of_models / sizeof *of_models; i++) {
        const int id = of_models[i];
        const config_field *f = &config_table[id];
        bool asks = false;
        char shown[CONFIG_SHOWN];
        if (!cfg->typed[id]) continue;
        if (id == CONFIG_ID_cudagraph_capture_sizes && cfg->compile_sizes.word) continue;
        RP_TRY(config_value_asks(f, config_slot(cfg, id), &asks, err));
        if (!asks) continue;
        char *text = config_value_text(f, config_slot(cfg, id));
        if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", f->name);
        rp_status st = config_overrule(cfg, true, "only models read it", err, "%s=%s", f->name,
                                       config_shown(text, shown));
        base_free(text);
        RP_TRY(st);
        RP_TRY(config_value_reset(f, config_slot(cfg, id), err));
        cfg->typed[id] = NULL;
    }
    return RP_OK;
}

rp_status config_refuse_ranges(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg->compile_ranges_endpoints.n) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "compile_ranges_endpoints is not supported for a graph or a function, whose "
                   "symbols have ranges of their own (rp_symbol, rp_jit_mark_dynamic); models "
                   "make code for ranges");
}

static rp_status check_pairs(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg->use_cudagraph && cfg->typed[CONFIG_ID_cudagraph_mode] &&
        cfg->cudagraph_mode.v != RP_CUDAGRAPH_NONE)
        return rp_fail(err, RP_CONFIG,
                       "use_cudagraph=false contradicts cudagraph_mode=%s; give one of the two",
                       rp_cudagraph_mode_name((rp_cudagraph_mode)cfg->cudagraph_mode.v));
    if (!cfg->use_inductor && base_same_word(cfg->backend, "inductor"))
        return rp_fail(err, RP_CONFIG,
                       "use_inductor=false contradicts backend=inductor; give one of the two");
    return RP_OK;
}

static rp_status check_device(const rp_compilation_config *cfg, rp_error *err) {
    const char *d = cfg->device;
    char shown[CONFIG_SHOWN];
    int64_t n;
    for (char *c = cfg->device; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    if (!strcmp(d, "cpu") || !strcmp(d, "null") || !strcmp(d, "cuda")) return RP_OK;
    if (!strncmp(d, "cuda:", 5) && base_parse_i64(d + 5, &n) && n >= 0 && n < 1024) return RP_OK;
    return rp_fail(err, RP_CONFIG, "device=%s: expected cpu, null, cuda or cuda:N",
                   config_shown(d, shown));
}

/* --- options of inductor ------------------------------------------------------------ */

static rp_status read_option(const char *name, const json_t *value, config_autotune *out,
                             rp_error *err) {
    const config_field *f = &config_table[CONFIG_ID_inductor_compile_config];
    char shown[CONFIG_SHOWN];
    bool *on = strcmp(name, "max_autotune") == 0                ? &out->list
               : strcmp(name, "coordinate_descent_tuning") == 0 ? &out->descend
                                                                : NULL;
    if (config_json_is_off(value)) {
        out->list_off = out->list_off || on == &out->list;
        out->descend_off = out->descend_off || on == &out->descend;
        return RP_OK;
    }
    if (on && json_is_true(value)) {
        *on = true;
        return RP_OK;
    }
    char *text = config_json_text(value);
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", f->name);
    rp_status st =
        on ? rp_fail(err, RP_CONFIG, "%s.%s=%s: expected true or false", f->name, name,
                     config_shown(text, shown))
           : rp_fail(err, RP_UNSUPPORTED,
                     "%s.%.64s=%s is not supported: only max_autotune and "
                     "coordinate_descent_tuning have anything to choose here; leave it out",
                     f->name, name, config_shown(text, shown));
    base_free(text);
    return st;
}

rp_status config_autotune_of(const rp_compilation_config *cfg, config_autotune *out,
                             rp_error *err) {
    rp_status st = RP_OK;
    const char *name;
    json_t *value, *all = json_loads(cfg->inductor_compile_config, 0, NULL);
    *out = (config_autotune){0};
    if (!all) return rp_fail(err, RP_NOMEM, "no memory for inductor_compile_config");
    json_object_foreach(all, name, value) if (st == RP_OK) st = read_option(name, value, out, err);
    json_decref(all);
    return st;
}

rp_status config_autotune_all(rp_compilation_config *cfg, rp_error *err) {
    config_autotune given;
    char *text = NULL;
    RP_TRY(config_autotune_of(cfg, &given, err));
    json_t *all = json_loads(cfg->inductor_compile_config, 0, NULL);
    if (all && !given.list_off) (void)json_object_set_new(all, "max_autotune", json_true());
    if (all && !given.descend_off)
        (void)json_object_set_new(all, "coordinate_descent_tuning", json_true());
    if (all) text = config_json_text(all);
    json_decref(all);
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for inductor_compile_config");
    base_free(cfg->inductor_compile_config);
    cfg->inductor_compile_config = text;
    return RP_OK;
}

static rp_status check_autotune(const rp_compilation_config *cfg, rp_error *err) {
    config_autotune on;
    RP_TRY(config_autotune_of(cfg, &on, err));
    if (!(on.list || on.descend) || strcmp(cfg->device, "null") != 0) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "inductor_compile_config=%s is not supported: a device that runs nothing cannot "
                   "be measured; leave it at {} for device=null",
                   cfg->inductor_compile_config);
}

static rp_status check_rounding(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg->pass_fuse_attn_quant.v || strncmp(cfg->device, "cuda", 4) != 0) return RP_OK;
    return rp_fail(
        err, RP_UNSUPPORTED,
        "pass_config.fuse_attn_quant=true is not supported on %s: blocks there share the "
        "heads of a row out among them, and leave float32; leave it at null",
        cfg->device);
}

rp_status config_check(rp_compilation_config *cfg, rp_error *err) {
    RP_TRY(check_pairs(cfg, err));
    RP_TRY(check_device(cfg, err));
    RP_TRY(check_rounding(cfg, err));
    RP_TRY(check_autotune(cfg, err));
    RP_TRY(config_check_custom_ops(cfg, err));
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) RP_TRY(check_machinery(cfg, i, err));
    return RP_OK;
}
