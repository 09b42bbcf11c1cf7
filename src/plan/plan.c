/* The plan object: made empty, filled by whoever assembles it, sealed. Layout, checks and bytes are files of their own. */
#include "plan/plan.h"

#include <string.h>

#include "plan/layout.h"

plan *plan_new(const char *name) {
    base_arena *a = base_arena_new();
    plan *p = a ? base_arena_alloc(a, sizeof *p) : NULL;
    if (!p || !(p->name = base_arena_str(a, name))) {
        base_arena_free(a);
        return NULL;
    }
    p->arena = a;
    return p;
}

void plan_free(plan *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->n_inner; i++) plan_free(p->inner[i]);
    base_arena_free(p->arena);
}

uint32_t plan_control_count(const plan_control *c) {
    return c->kind == PLAN_COND || c->kind == PLAN_WHILE ? 2 : 1;
}

void plan_mark_read(plan *p) {
    for (uint32_t i = 0; i < p->n_inner; i++) plan_mark_read(p->inner[i]);
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_args; a++)
            if (p->launches[i].args[a].seg == PLAN_PARAM)
                p->params[p->launches[i].args[a].idx].read = true;
}

uint32_t plan_control_work(const plan_control *c) {
    return c->carried + (c->kind == PLAN_WHILE) + 1;
}

rp_status plan_seal(plan *p, rp_error *err) {
    RP_TRY(plan_layout_arena(p, err));
    RP_TRY(plan_layout_packs(p, err));
    RP_TRY(plan_verify(p, err));
    plan_mark_read(p);
    return plan_find_barriers(p, err);
}

rp_status plan_add_code(plan *p, const plan_module *m, const char *const *symbols, uint32_t n,
                        rp_error *err) {
    plan_module *modules = base_arena_array(p->arena, p->n_modules + 1u, sizeof *modules);
    plan_function *functions = base_arena_array(p->arena, p->n_functions + n, sizeof *functions);
    if (!modules || !functions) return rp_fail(err, RP_NOMEM, "code of plan %s", p->name);
    if (p->n_modules) memcpy(modules, p->modules, p->n_modules * sizeof *modules);
    if (p->n_functions) memcpy(functions, p->functions, p->n_functions * sizeof *functions);
    modules[p->n_modules] = *m;
    for (uint32_t i = 0; i < n; i++) {
        char *symbol = base_arena_str(p->arena, symbols[i]);
        if (!symbol) return rp_fail(err, RP_NOMEM, "code of plan %s", p->name);
        functions[p->n_functions + i] = (plan_function){p->n_modules, symbol};
    }
    p->modules = modules;
    p->functions = functions;
    p->n_modules++;
    p->n_functions += n;
    return RP_OK;
}
