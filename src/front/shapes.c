/* Settings of a function's sizes: how a question about one is answered, and which sizes get code of their own. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "config/config.h"
#include "device/device.h"
#include "front/front.h"

#include <string.h>

/* The list, with what its word stands for. */
static rp_status take_sizes(rp_jit *f, rp_error *err) {
    const config_sizes *own = &f->config->compile_sizes,
                       *ladder = &f->config->cudagraph_capture_sizes;
    if (own->word && (!ladder->set || ladder->word))
        return rp_fail(err, RP_CONFIG,
                       "compile_sizes: \"cudagraph_capture_sizes\" of a function stands for the "
                       "numbers that are given there; give some");
    size_t n = own->n + (own->word ? ladder->n : 0);
    f->own_size = base_alloc_array(n + 1, sizeof *f->own_size);
    if (!f->own_size) return rp_fail(err, RP_NOMEM, "sizes of %s", f->name);
    for (size_t i = 0; i < own->n; i++) f->own_size[f->n_own_sizes++] = own->v[i];
    for (size_t i = 0; own->word && i < ladder->n; i++)
        f->own_size[f->n_own_sizes++] = ladder->v[i];
    return RP_OK;
}

rp_status front_shapes_take(rp_jit *f, rp_error *err) {
    f->shapes = (config_shapes)f->config->shapes_type;
    RP_TRY(take_sizes(f, err));
    f->limit += f->n_own_sizes;
    /* What was taken over is not for rp_compile, and its sizes are of no step. */
    if (f->config->compile_sizes.word)
        RP_TRY(rp_config_set(f->config, "cudagraph_capture_sizes=null", err));
    if (f->config->typed[CONFIG_ID_shapes_type])
        RP_TRY(rp_config_set(f->config, "dynamic_shapes_config.type=backed", err));
    return f->n_own_sizes || f->config->compile_sizes.word
               ? rp_config_set(f->config, "compile_sizes=[]", err)
               : RP_OK;
}

/* What generates code can be measured. */
static bool can_tune(const rp_jit *f, const rp_compilation_config *resolved) {
    return f->n_own_sizes && rp_config_level(resolved) >= RP_LEVEL_DYNAMO_ONCE &&
           strcmp(resolved->backend, "inductor") == 0 &&
           strcmp(device_name(f->device), "null") != 0;
}

rp_status front_shapes_tune(rp_jit *f, const rp_compilation_config *resolved, rp_error *err) {
    if (!can_tune(f, resolved)) return RP_OK;
    RP_TRY(rp_config_clone(f->config, &f->tuned, err));
    return config_autotune_all(f->tuned, err);
}

/* A mark of the user makes a symbol of any size. */
static bool is_listed(rp_jit *f, const char *source, const rp_value *v, uint32_t d) {
    const front_mark *m = front_mark_of(f, source, d, v->tensor.rank);
    if (!front_has_own_code(f, v->tensor.dim[d])) return false;
    return m && m->kind != FRONT_MARK_STATIC ? m->yields
                                             : f->n_entries == 0 || front_wobbled(f, source, d);
}

rp_status front_has_own_size(rp_jit *f, const front_args *a, bool *out, rp_error *err) {
    rp_status st = RP_OK;
    base_buf source;
    *out = false;
    base_buf_init(&source, 0);
    for (uint32_t i = 0; f->n_own_sizes && i < a->n_tensors && !*out && st == RP_OK; i++) {
        const rp_value *v = a->tensor[i];
        base_buf_clear(&source);
        (void)front_describe(a->word, a->at[i], &source);
        st = base_buf_status(&source, err);
        for (uint32_t d = 0; st == RP_OK && !v->state && d < v->tensor.rank; d++)
            *out = *out || is_listed(f, source.data, v, d);
    }
    base_buf_done(&source);
    return st;
}

bool front_has_own_code(const rp_jit *f, int64_t size) {
    uint32_t i = 0;
    while (i < f->n_own_sizes && f->own_size[i] != size) i++;
    return i < f->n_own_sizes;
}

/* Entries with symbols leave those sizes to entries of their own. */
void front_leave_sizes(const rp_jit *f, front_solver *s) {
    for (uint32_t i = 0; i < s->n_symbols; i++)
        for (uint32_t k = 0; k < f->n_own_sizes && s->symbol[i].yields; k++)
            (void)front_solver_ask(s, front_solver_size(s, i), RP_DIM_NE,
                                   ir_dim_const(s->t, f->own_size[k]), "compile_sizes", 0);
}
