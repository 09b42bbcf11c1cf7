/* Contradictions and missing machinery: what is refused before anything is resolved.
 *
 * Refusals look only at what the user typed. What holds in any case gets a note. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
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

static rp_status check_pairs(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg->use_cudagraph && cfg->typed[CONFIG_ID_cudagraph_mode] &&
        cfg->cudagraph_mode.v != RP_CUDAGRAPH_NONE)
        return rp_fail(err, RP_CONFIG,
                       "use_cudagraph=false contradicts cudagraph_mode=%s; give one of the two",
                       rp_cudagraph_mode_name((rp_cudagraph_mode)cfg->cudagraph_mode.v));
    if (!cfg->use_inductor && strcasecmp(cfg->backend, "inductor") == 0)
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

rp_status config_check(rp_compilation_config *cfg, rp_error *err) {
    RP_TRY(check_pairs(cfg, err));
    RP_TRY(check_device(cfg, err));
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) RP_TRY(check_machinery(cfg, i, err));
    return RP_OK;
}
