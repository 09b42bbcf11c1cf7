/* From what was typed to what will run: levels, modes, backend, splitting, attention.
 *
 * Each rule either leaves a setting alone, fills it in, or overrules it with a note that says why.
 * Nothing is overruled silently, and nothing here depends on the machine but its environment. */
#include "config/resolve.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/number.h"
#include "base/options.h"
#include "base/status.h"
#include "base/str.h"
#include "config/table.h"

#define TYPED(cfg, id) ((cfg)->typed[CONFIG_ID_##id] != NULL)

rp_status config_overrule(rp_compilation_config *cfg, bool typed, const char *reason, rp_error *err,
                          const char *what, ...) {
    char text[256];
    va_list ap;
    va_start(ap, what);
    (void)base_vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    if (!cfg->told) base_log(typed ? RP_LOG_WARNING : RP_LOG_INFO, "%s: %s", text, reason);
    return config_note_add(cfg, reason, err, "%s", text);
}

static const char *mode_name(const rp_compilation_config *cfg) {
    return rp_cudagraph_mode_name((rp_cudagraph_mode)cfg->cudagraph_mode.v);
}

/* A device graph mode lower than asked for. */
static rp_status downgrade(rp_compilation_config *cfg, rp_cudagraph_mode to, const char *reason,
                           rp_error *err) {
    const char *from = mode_name(cfg);
    cfg->cudagraph_mode = (config_oenum){true, (int)to};
    return config_overrule(cfg, TYPED(cfg, cudagraph_mode), reason, err,
                           "cudagraph_mode=%s becomes %s", from, rp_cudagraph_mode_name(to));
}

/* The user's own settings that enforce_eager takes away, named one by one. */
static rp_status apply_eager(rp_compilation_config *cfg, rp_error *err) {
    static const config_id overridden[] = {
        CONFIG_ID_level,
        CONFIG_ID_optimization_level,
        CONFIG_ID_cudagraph_mode,
        CONFIG_ID_use_cudagraph,
        CONFIG_ID_cudagraph_capture_sizes,
        CONFIG_ID_cuda_graph_sizes,
        CONFIG_ID_max_cudagraph_capture_size,
        CONFIG_ID_compile_sizes,
        CONFIG_ID_compile_ranges_endpoints,
    };
    if (!cfg->enforce_eager) return RP_OK;
    for (size_t i = 0; i < sizeof overridden / sizeof overridden[0]; i++) {
        config_id id = overridden[i];
        const config_field *f = &config_table[id];
        const void *slot = config_slot(cfg, (int)id);
        bool same = config_value_is_default(f, slot) && id != CONFIG_ID_use_cudagraph;
        bool none = id == CONFIG_ID_cudagraph_mode && cfg->cudagraph_mode.v == RP_CUDAGRAPH_NONE;
        bool off = id == CONFIG_ID_optimization_level || id == CONFIG_ID_use_cudagraph
                       ? config_value_is_off(f, slot)
                       : false;
        if (!cfg->typed[id] || same || none || off) continue;
        char *text = config_value_text(f, slot), shown[CONFIG_SHOWN];
        if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", f->name);
        rp_status st = config_overrule(cfg, true, "enforce_eager overrides it", err, "%s=%s",
                                       cfg->typed[id], config_shown(text, shown));
        base_free(text);
        RP_TRY(st);
    }
    cfg->level = RP_LEVEL_NO_COMPILATION;
    cfg->optimization_level = (config_oint){0};
    cfg->cudagraph_mode = (config_oenum){true, RP_CUDAGRAPH_NONE};
    return RP_OK;
}

/* -O fills in level and mode; level 3 alone means PIECEWISE. */
static void apply_levels(rp_compilation_config *cfg) {
    static const rp_cudagraph_mode preset[] = {RP_CUDAGRAPH_NONE, RP_CUDAGRAPH_PIECEWISE,
                                               RP_CUDAGRAPH_FULL_AND_PIECEWISE,
                                               RP_CUDAGRAPH_FULL_AND_PIECEWISE};
    config_oint o = cfg->optimization_level;
    if (cfg->enforce_eager) return;
    if (o.set && !TYPED(cfg, level)) cfg->level = o.v == 0 ? 0 : RP_LEVEL_PIECEWISE;
    if (!cfg->use_cudagraph) cfg->cudagraph_mode = (config_oenum){true, RP_CUDAGRAPH_NONE};
    if (cfg->cudagraph_mode.set) return;
    rp_cudagraph_mode mode = RP_CUDAGRAPH_NONE;
    if (cfg->level == RP_LEVEL_PIECEWISE) mode = o.set ? preset[o.v] : RP_CUDAGRAPH_PIECEWISE;
    cfg->cudagraph_mode = (config_oenum){true, (int)mode};
}

static rp_status set_backend(rp_compilation_config *cfg, const char *name, rp_error *err) {
    char *copy = base_strdup(name);
    if (!copy) return rp_fail(err, RP_NOMEM, "no memory for a backend name");
    base_free(cfg->backend);
    cfg->backend = copy;
    return RP_OK;
}

/* Names of torch's list that stand for programs which cannot be called from here. */
const char *config_absent_backend(const char *name) {
    static const struct {
        const char *name, *reason;
    } absent[] = {
        {"ipex", "Intel's extension runs inside of PyTorch's process alone"},
        {"tvm", "TVM compiles by its Python packages, which no C library replaces"},
        {"tensorrt", "TensorRT is a C++ library without a C interface; inductor compiles for GPUs"},
        {"torch_tensorrt",
         "TensorRT is a C++ library without a C interface; inductor compiles for GPUs"},
    };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (base_same_word(absent[i].name, name)) return absent[i].reason;
    return NULL;
}

/* Another name than inductor and eager. */
static rp_status check_backend(const rp_compilation_config *cfg, const rp_model_facts *facts,
                               rp_error *err) {
    char shown[CONFIG_SHOWN];
    const char *name = config_shown(cfg->backend, shown);
    if (facts->n_backends == 0)
        return rp_fail(err, RP_CONFIG,
                       "backend=%s: models take only inductor and eager, at each level; functions "
                       "(rp_jit_new) and graphs (rp_compile) take others",
                       name);
    for (size_t i = 0; i < facts->n_backends; i++)
        if (strcmp(facts->backends[i], cfg->backend) == 0) return RP_OK;
    base_buf b;
    base_buf_init(&b, 0);
    for (size_t i = 0; i < facts->n_backends; i++)
        base_buf_printf(&b, "%s%s", i ? ", " : "", facts->backends[i]);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_CONFIG, "backend=%s is not registered; there are %s", name, b.data);
    base_buf_done(&b);
    return st;
}

static rp_status resolve_backend(rp_compilation_config *cfg, const rp_model_facts *facts,
                                 rp_error *err) {
    bool inductor = base_same_word(cfg->backend, "inductor");
    bool eager = base_same_word(cfg->backend, "eager");
    bool given = cfg->backend[0] != '\0';
    char shown[CONFIG_SHOWN];
    const char *absent = config_absent_backend(cfg->backend);
    if (absent)
        return rp_fail(err, RP_UNSUPPORTED, "backend=%s: %s", config_shown(cfg->backend, shown),
                       absent);
    if (cfg->level > RP_LEVEL_NO_COMPILATION && given && !inductor && !eager)
        return check_backend(cfg, facts, err);
    if (cfg->level == RP_LEVEL_DYNAMO_AS_IS && inductor)
        return rp_fail(err, RP_CONFIG,
                       "backend=inductor needs level 2 or 3: level 1 runs the graph op by op");
    if (cfg->level == RP_LEVEL_NO_COMPILATION) {
        if (given && !eager)
            RP_TRY(config_overrule(cfg, true, "level 0 compiles nothing", err, "backend=%s",
                                   config_shown(cfg->backend, shown)));
        return set_backend(cfg, "eager", err);
    }
    if (!given) inductor = cfg->level >= RP_LEVEL_DYNAMO_ONCE && cfg->use_inductor;
    return set_backend(cfg, inductor ? "inductor" : "eager", err);
}

/* Who generates nothing has nothing to choose. */
static rp_status resolve_autotune(rp_compilation_config *cfg, rp_error *err) {
    config_autotune on;
    char shown[CONFIG_SHOWN];
    RP_TRY(config_autotune_of(cfg, &on, err));
    if (!(on.list || on.descend) || strcmp(cfg->backend, "inductor") == 0) return RP_OK;
    return config_overrule(cfg, true, "only backend=inductor generates code", err,
                           "inductor_compile_config=%s",
                           config_shown(cfg->inductor_compile_config, shown));
}

/* Entries that no node of the graph answers to split nothing: a slip of the pen, or another model's ops. */
static rp_status drop_absent_ops(rp_compilation_config *cfg, const rp_model_facts *facts,
                                 rp_error *err) {
    config_strs *ops = &cfg->splitting_ops;
    size_t kept = 0, i = 0;
    rp_status st = RP_OK;
    for (; st == RP_OK && i < ops->n; i++) {
        bool has = true;
        char shown[CONFIG_SHOWN];
        st = facts->has_op(facts->user, ops->v[i], &has, err);
        if (st == RP_OK && !has)
            st = config_overrule(cfg, true, "no op of the graph has this name", err,
                                 "splitting_ops: %s", config_shown(ops->v[i], shown));
        if (st == RP_OK && !has)
            base_free(ops->v[i]);
        else
            ops->v[kept++] = ops->v[i];
    }
    while (i < ops->n) ops->v[kept++] = ops->v[i++];
    ops->n = kept;
    return st;
}

/* Attention, then what was registered as splitting. */
static rp_status default_splitting(rp_compilation_config *cfg, const rp_model_facts *facts,
                                   rp_error *err) {
    static const char *const attention = "aiter.unified_attention_with_output,aiter.mla_attention";
    const config_field *f = &config_table[CONFIG_ID_splitting_ops];
    bool splits = cfg->level == RP_LEVEL_PIECEWISE;
    json_t *value = NULL;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, splits ? attention : "");
    for (size_t i = 0; splits && i < facts->n_splitting_ops; i++)
        base_buf_printf(&b, ",%s", facts->splitting_ops[i]);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = config_value_parse(f, b.data ? b.data : "", &value, err);
    if (st == RP_OK) st = config_value_set(f, &cfg->splitting_ops, value, err);
    json_decref(value);
    base_buf_done(&b);
    return st;
}

/* Attention is a piece of its own where it splits the graph, and what rounds its result is in the next one. */
static rp_status join_attention(rp_compilation_config *cfg, rp_error *err) {
    if (cfg->level != RP_LEVEL_PIECEWISE || !cfg->pass_fuse_attn_quant.v) return RP_OK;
    if (cfg->splitting_ops.set)
        return cfg->splitting_ops.n == 0
                   ? RP_OK
                   : config_note_add(cfg, "what is between splitting_ops is fused, no more", err,
                                     "pass_config.fuse_attn_quant=true");
    cfg->splitting_ops.set = true;
    return config_note_add(cfg, "fuse_attn_quant wants attention in one piece with what follows",
                           err, "splitting_ops=[]");
}

/* The list only means something where the graph is split. */
static rp_status resolve_splitting(rp_compilation_config *cfg, const rp_model_facts *facts,
                                   rp_error *err) {
    RP_TRY(join_attention(cfg, err));
    if (cfg->level == RP_LEVEL_PIECEWISE && cfg->splitting_ops.set)
        return facts->has_op ? drop_absent_ops(cfg, facts, err) : RP_OK;
    if (cfg->splitting_ops.n)
        RP_TRY(config_overrule(cfg, true, "only level 3 splits the graph", err,
                               "splitting_ops at level %d", cfg->level));
    return default_splitting(cfg, facts, err);
}

/* Modes that need pieces where there are none. */
static rp_status couple_mode(rp_compilation_config *cfg, rp_error *err) {
    rp_cudagraph_mode mode = (rp_cudagraph_mode)cfg->cudagraph_mode.v;
    if (!rp_cudagraph_requires_piecewise_compilation(mode)) return RP_OK;
    if (cfg->level < RP_LEVEL_PIECEWISE)
        return downgrade(cfg,
                         mode == RP_CUDAGRAPH_FULL_AND_PIECEWISE ? RP_CUDAGRAPH_FULL_DECODE_ONLY
                                                                 : RP_CUDAGRAPH_NONE,
                         "PIECEWISE graphs need level 3", err);
    if (cfg->splitting_ops.n) return RP_OK;
    return downgrade(
        cfg, mode == RP_CUDAGRAPH_FULL_AND_PIECEWISE ? RP_CUDAGRAPH_FULL : RP_CUDAGRAPH_NONE,
        "splitting_ops is empty, so attention is inside the one piece", err);
}

/* What is left of a mode whose decode part cannot be FULL. */
static rp_cudagraph_mode without_full(const rp_compilation_config *cfg) {
    return cfg->level == RP_LEVEL_PIECEWISE && cfg->splitting_ops.n ? RP_CUDAGRAPH_PIECEWISE
                                                                    : RP_CUDAGRAPH_NONE;
}

static rp_status couple_attention(rp_compilation_config *cfg, rp_attention_support support,
                                  rp_error *err) {
    rp_cudagraph_mode mode = (rp_cudagraph_mode)cfg->cudagraph_mode.v;
    bool split = cfg->level == RP_LEVEL_PIECEWISE && cfg->splitting_ops.n > 0;
    if (rp_cudagraph_mixed_mode(mode) == RP_CUDAGRAPH_FULL && support != RP_ATTENTION_ALWAYS) {
        if (support == RP_ATTENTION_NEVER)
            return rp_fail(err, RP_UNSUPPORTED,
                           "cudagraph_mode=FULL: this attention cannot be captured; use "
                           "cudagraph_mode=%s",
                           rp_cudagraph_mode_name(without_full(cfg)));
        RP_TRY(downgrade(cfg,
                         split ? RP_CUDAGRAPH_FULL_AND_PIECEWISE : RP_CUDAGRAPH_FULL_DECODE_ONLY,
                         "this attention can be captured for decode only", err));
        mode = (rp_cudagraph_mode)cfg->cudagraph_mode.v;
    }
    if (rp_cudagraph_decode_mode(mode) != RP_CUDAGRAPH_FULL) return RP_OK;
    if (support == RP_ATTENTION_NEVER)
        return downgrade(cfg, without_full(cfg), "this attention cannot be captured", err);
    if (cfg->num_speculative_tokens > 0 && support < RP_ATTENTION_UNIFORM_BATCH)
        return downgrade(cfg, without_full(cfg),
                         "this attention can be captured for one token a request only", err);
    return RP_OK;
}

/* Fusions that were not given are on where code is generated, but for that of attention. */
static void resolve_passes(rp_compilation_config *cfg) {
    const bool on = cfg->level >= RP_LEVEL_DYNAMO_ONCE &&
                    !(cfg->optimization_level.set && cfg->optimization_level.v == 0);
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        config_obool *is = config_fusion_name(id) ? config_slot(cfg, id) : NULL;
        if (is && !is->set) *is = (config_obool){true, on && id != CONFIG_ID_pass_fuse_attn_quant};
    }
}

/* Where the stages of compiling go: $REPRISE_DEBUG_DUMP_PATH, else the field, else with REPRISE_DEBUG=1 a folder of this
 * process. */
static rp_status apply_dump_path(rp_compilation_config *cfg, rp_error *err) {
    const char *path = base_env_get(BASE_ENV_DEBUG_DUMP_PATH);
    const char *debug = base_env_get(BASE_ENV_DEBUG);
    base_buf b;
    if (!path &&
        ((cfg->debug_dump_path && *cfg->debug_dump_path) || !debug || strcmp(debug, "0") == 0))
        return RP_OK;
    base_buf_init(&b, 0);
    if (path)
        base_buf_puts(&b, path);
    else
        base_buf_printf(&b, "reprise_debug/run-%ld", (long)getpid());
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) {
        base_free(cfg->debug_dump_path);
        cfg->debug_dump_path = base_buf_take(&b);
    }
    base_buf_done(&b);
    return st;
}

static rp_status apply_environment(rp_compilation_config *cfg, rp_error *err) {
    const config_field *f = &config_table[CONFIG_ID_compile_cache_save_format];
    const char *format = base_env_get(BASE_ENV_CACHE_FORMAT);
    if (!cfg->compile_cache_save_format.set) {
        json_t *value = NULL;
        rp_error why = {0};
        RP_TRY(config_value_parse(f, format ? format : "binary", &value, err));
        rp_status st = config_value_set(f, &cfg->compile_cache_save_format, value, &why);
        json_decref(value);
        if (st != RP_OK)
            return rp_fail(err, st, "REPRISE_COMPILE_CACHE_SAVE_FORMAT sets %s", why.text);
    }
    return apply_dump_path(cfg, err);
}

/* Under require_graph a lower mode is an error; its note starts with the setting's name. */
static rp_status check_require_graph(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg->require_graph) return RP_OK;
    for (size_t i = 0; i < cfg->n_notes; i++)
        if (strncmp(cfg->notes[i].what, "cudagraph_mode=", 15) == 0)
            return rp_fail(err, RP_CONFIG, "require_graph: %s: %s", cfg->notes[i].what,
                           cfg->notes[i].reason);
    if (cfg->cudagraph_mode.v == RP_CUDAGRAPH_NONE)
        return rp_fail(err, RP_CONFIG, "require_graph: %s; give a cudagraph_mode, as in --level 3",
                       cfg->enforce_eager    ? "enforce_eager switches graphs off"
                       : !cfg->use_cudagraph ? "use_cudagraph=false switches graphs off"
                                             : "cudagraph_mode is NONE");
    return RP_OK;
}

rp_status rp_config_resolve(rp_compilation_config *cfg, const rp_model_facts *given,
                            rp_error *err) {
    base_error_clear(err);
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    if (!cfg) return rp_fail(err, RP_INVALID, "rp_config_resolve: configuration must be given");
    if (given) RP_TRY(base_options_take(&facts, sizeof facts, given, "rp_model_facts", err));
    if (cfg->resolved) return RP_OK;
    RP_TRY(config_check(cfg, err));
    RP_TRY(apply_eager(cfg, err));
    apply_levels(cfg);
    RP_TRY(resolve_backend(cfg, &facts, err));
    RP_TRY(resolve_autotune(cfg, err));
    RP_TRY(resolve_splitting(cfg, &facts, err));
    RP_TRY(couple_mode(cfg, err));
    RP_TRY(couple_attention(cfg, facts.attention, err));
    resolve_passes(cfg);
    RP_TRY(config_resolve_limits(cfg, &facts, err));
    RP_TRY(apply_environment(cfg, err));
    RP_TRY(check_require_graph(cfg, err));
    cfg->resolved = true;
    return RP_OK;
}
