/* Contradictions and missing machinery: what is refused before anything is resolved.
 *
 * Refusals look only at what the user typed. A setting that may be ignored gets a note. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "config/resolve.h"
#include "config/table.h"

/* UNSUP away from its default is RP_UNSUPPORTED, HARMLESS a note. */
static rp_status check_machinery(rp_compilation_config *cfg, int id, rp_error *err) {
    const config_field *f = &config_table[id];
    const void *slot = config_slot(cfg, id);
    rp_status st = RP_OK;
    char shown[CONFIG_SHOWN];
    if (!cfg->typed[id] || (f->status != CONFIG_UNSUP && f->status != CONFIG_HARMLESS))
        return RP_OK;
    if (config_value_is_default(f, slot) || config_value_is_off(f, slot)) return RP_OK;
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

static rp_status check_pairs(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg->use_cudagraph && cfg->typed[CONFIG_ID_cudagraph_mode] &&
        cfg->cudagraph_mode.v != RP_CUDAGRAPH_NONE)
        return rp_fail(err, RP_CONFIG,
                       "use_cudagraph=false contradicts cudagraph_mode=%s; give one of the two",
                       rp_cudagraph_mode_name((rp_cudagraph_mode)cfg->cudagraph_mode.v));
    if (!cfg->use_inductor && strcasecmp(cfg->backend, "inductor") == 0)
        return rp_fail(err, RP_CONFIG,
                       "use_inductor=false contradicts backend=inductor; give one of the two");
    if (cfg->shapes_evaluate_guards && cfg->shapes_type == CONFIG_SHAPES_UNBACKED)
        return rp_fail(err, RP_CONFIG,
                       "dynamic_shapes_config.evaluate_guards=true needs guards, and type=unbacked "
                       "makes none; use type=backed or drop evaluate_guards");
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

static bool is_base_word(const char *rule) {
    return strcmp(rule, "all") == 0 || strcmp(rule, "none") == 0;
}

/* At most one of all and none; +op or -op; no op both ways. */
static rp_status check_custom_ops(const rp_compilation_config *cfg, rp_error *err) {
    const config_strs *rules = &cfg->custom_ops;
    const char *base = NULL;
    for (size_t i = 0; i < rules->n; i++) {
        const char *rule = rules->v[i];
        char shown[CONFIG_SHOWN];
        if (is_base_word(rule)) {
            if (base && strcmp(base, rule) != 0)
                return rp_fail(err, RP_CONFIG, "custom_ops has both %s and %s; give one of them",
                               base, rule);
            base = rule;
            continue;
        }
        if ((rule[0] != '+' && rule[0] != '-') || !rule[1])
            return rp_fail(err, RP_CONFIG,
                           "custom_ops: %s is none of all, none, +op and -op; write +op or -op",
                           config_shown(rule, shown));
        for (size_t k = 0; k < i; k++)
            if (!is_base_word(rules->v[k]) && !strcmp(rules->v[k] + 1, rule + 1) &&
                rules->v[k][0] != rule[0])
                return rp_fail(err, RP_CONFIG, "custom_ops has both + and - of %s; give one",
                               config_shown(rule + 1, shown));
    }
    return RP_OK;
}

rp_status config_check(rp_compilation_config *cfg, rp_error *err) {
    RP_TRY(check_pairs(cfg, err));
    RP_TRY(check_device(cfg, err));
    RP_TRY(check_custom_ops(cfg, err));
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) RP_TRY(check_machinery(cfg, i, err));
    return RP_OK;
}
