/* What the configuration asks of the autotuner, and what one compile has found. */
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "compile/tune.h"
#include "compile/tune_record.h"

typedef struct compile_tuned {
    struct compile_tuned *next;
    base_hash128 piece;
    lower_choice *of; /* by group, n of them */
    uint32_t n;
} compile_tuned;

rp_status compile_tuner_of(const rp_compilation_config *cfg, hal_device *d, compile_tuner *out,
                           bool *on, rp_error *err) {
    config_autotune asks;
    hal_device_info info;
    RP_TRY(config_autotune_of(cfg, &asks, err));
    *on = asks.list || asks.descend;
    if (!*on) return RP_OK;
    d->ops->info(d, &info);
    if (strcmp(info.name, "null") == 0)
        return rp_fail(err, RP_UNSUPPORTED,
                       "inductor_compile_config=%s is not supported: a device that runs nothing "
                       "cannot be measured; leave it at {}",
                       cfg->inductor_compile_config);
    *out = (compile_tuner){.device = d, .list = asks.list, .descend = asks.descend};
    return base_env_seconds(BASE_ENV_AUTOTUNE_BUDGET, &out->budget, err);
}

rp_status compile_tuner_key(const rp_compilation_config *cfg, hal_device *d, cache_key *k,
                            rp_error *err) {
    config_autotune asks;
    RP_TRY(config_autotune_of(cfg, &asks, err));
    return asks.list || asks.descend ? compile_record_device(k, d, err) : RP_OK;
}

rp_status compile_built_in(const rp_compilation_config *cfg, bool *out, rp_error *err) {
    config_autotune asks;
    RP_TRY(config_autotune_of(cfg, &asks, err));
    *out = cfg->built_in_products && !asks.list && !asks.descend;
    return RP_OK;
}

bool compile_tuner_find(const compile_tuner *t, base_hash128 piece, const lower_choice **of,
                        uint32_t *n) {
    for (const compile_tuned *i = t->tuned; i; i = i->next) {
        if (i->piece.lo != piece.lo || i->piece.hi != piece.hi) continue;
        *of = i->of;
        *n = i->n;
        return true;
    }
    return false;
}

rp_status compile_tuner_keep(compile_tuner *t, base_hash128 piece, lower_choice *of, uint32_t n,
                             rp_error *err) {
    compile_tuned *own = base_alloc(sizeof *own);
    if (!own) {
        base_free(of);
        return rp_fail(err, RP_NOMEM, "%u choices", n);
    }
    *own = (compile_tuned){t->tuned, piece, of, n};
    t->tuned = own;
    return RP_OK;
}

void compile_tuner_done(compile_tuner *t) {
    while (t && t->tuned) {
        compile_tuned *own = t->tuned;
        t->tuned = own->next;
        base_free(own->of);
        base_free(own);
    }
}
