/* Settings of a function's sizes: how a question about one is answered, and which sizes get code of their own. */
#include "base/alloc.h"
#include "base/status.h"
#include "config/config.h"
#include "front/front.h"

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
    /* What was taken over is not for rp_compile. */
    if (f->config->typed[CONFIG_ID_shapes_type])
        RP_TRY(rp_config_set(f->config, "dynamic_shapes_config.type=backed", err));
    return f->n_own_sizes ? rp_config_set(f->config, "compile_sizes=[]", err) : RP_OK;
}

bool front_has_own_code(const rp_jit *f, int64_t size) {
    uint32_t i = 0;
    while (i < f->n_own_sizes && f->own_size[i] != size) i++;
    return i < f->n_own_sizes;
}

/* Entries with symbols leave those sizes to entries of their own. */
void front_leave_sizes(const rp_jit *f, front_solver *s) {
    for (uint32_t i = 0; i < s->n_symbols; i++)
        for (uint32_t k = 0; k < f->n_own_sizes && s->symbol[i].policy == FRONT_BACKED; k++)
            (void)front_solver_ask(s, front_solver_size(s, i), RP_DIM_NE,
                                   ir_dim_const(s->t, f->own_size[k]), "compile_sizes", 0);
}
