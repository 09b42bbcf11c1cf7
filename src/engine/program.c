/* Programs: symbols by name, leaves by address. What is run of them, and when, is parts.c and runner.c. */
#include "engine/program.h"

#include <string.h>

enum { SYM_T, SYM_S, SYM_B, SYM_NB, SYM_P, SYM_R, N_SYMBOLS };
static const char *const symbol_names[N_SYMBOLS] = {"T", "S", "B", "NB", "P", "R"};

static rp_status find_symbols(engine_program *g, rp_error *err) {
    if (g->p->n_symbols > sizeof g->symbol / sizeof *g->symbol)
        return rp_fail(err, RP_INTERNAL, "plan %s has %u symbols", g->p->name, g->p->n_symbols);
    for (uint32_t i = 0; i < g->p->n_symbols; i++) {
        uint32_t k = 0;
        while (k < N_SYMBOLS && strcmp(symbol_names[k], g->p->symbols[i].name) != 0) k++;
        if (k == N_SYMBOLS)
            return rp_fail(err, RP_INTERNAL, "plan %s has an unknown symbol %s", g->p->name,
                           g->p->symbols[i].name);
        g->symbol[i] = k;
    }
    return RP_OK;
}

void engine_program_sizes(const engine_program *g, const engine_sizes *sizes, int64_t symbols[16]) {
    const int64_t v[N_SYMBOLS] = {sizes->tokens,   sizes->seqs,      sizes->blocks,
                                  sizes->n_blocks, sizes->positions, sizes->rows};
    for (uint32_t i = 0; i < g->p->n_symbols; i++) symbols[i] = v[g->symbol[i]];
}

rp_status engine_program_open(engine_program *g, const plan *p, const plan_exec_options *o,
                              rp_error *err) {
    g->p = p;
    RP_TRY(find_symbols(g, err));
    return plan_exec_new(p, o, &g->x, err);
}

rp_status engine_program_input(engine_program *g, const char *name, void *data, rp_error *err) {
    for (uint32_t i = 0; i < g->p->n_inputs; i++)
        if (strcmp(g->p->inputs[i].name, name) == 0) {
            plan_exec_set(g->x, PLAN_INPUT, i, data);
            return RP_OK;
        }
    return rp_fail(err, RP_INTERNAL, "plan %s has no input %s", g->p->name, name);
}

rp_status engine_program_outputs(engine_program *g, void *const *data, uint32_t n, rp_error *err) {
    if (g->p->n_outputs != n)
        return rp_fail(err, RP_INTERNAL, "plan %s has %u outputs, not %u", g->p->name,
                       g->p->n_outputs, n);
    for (uint32_t i = 0; i < n; i++) plan_exec_set(g->x, PLAN_OUTPUT, i, data[i]);
    return RP_OK;
}

rp_status engine_program_params(engine_program *g, const engine_weights *w, model_source *source,
                                hal_device *device, rp_error *err) {
    hal_device_info info;
    device->ops->info(device, &info);
    for (uint32_t i = 0; i < g->p->n_params; i++) {
        const void *data = NULL;
        model_tensor t;
        RP_TRY(engine_weights_param(w, g->p, i, &data, err));
        plan_exec_set(g->x, PLAN_PARAM, i, (void *)(uintptr_t)data);
        if (!data || !info.unified || /* else it is memory of the device, which is registered */
            model_source_tensor(source, g->p->params[i].name, &t, NULL) != RP_OK)
            continue;
        RP_TRY(hal_range_add(device, data, t.size, g->p->params[i].name, err));
    }
    return RP_OK;
}
