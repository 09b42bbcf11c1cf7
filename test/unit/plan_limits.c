/* What a plan may say, to the last value: each bound that plan_verify knows, on both sides. */
#include "support/check.h"
#include "support/plans.h"

#include "base/alloc.h"
#include "plan/exec.h"
#include "plan/pack.h"

static plan *p; /* of the running case */

static void may_be(bool good, const char *what) {
    rp_error err = {0};
    rp_status st = plan_verify(p, &err);
    if (st != (good ? RP_OK : RP_CORRUPT))
        fail_msg("%s: %s %s", what, rp_status_name(st), err.text);
}

/* The field takes good and refuses bad; then it is as it was. */
#define LIMIT(field, good, bad)         \
    do {                                \
        may_be(true, #field);           \
        const int64_t was_ = (field);   \
        (field) = (good);               \
        may_be(true, #field "=" #good); \
        (field) = (bad);                \
        may_be(false, #field "=" #bad); \
        (field) = (was_);               \
    } while (0)
#define NEVER(field, bad) LIMIT(field, field, bad)

static int open_llama(void **state) {
    (void)state;
    p = plan_of_llama(2);
    return 0;
}

static int open_deep(void **state) {
    (void)state;
    p = plan_of_llama(4);
    return 0;
}

static int close_plan(void **state) {
    (void)state;
    plan_free(p);
    return 0;
}

/* The first launch that runs a function. */
static plan_launch *plain(void) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        if (plan_launch_is_plain(&p->launches[i])) return &p->launches[i];
    fail();
    return NULL;
}

static void blocks_of_launches(void **state) {
    plan_launch *l = plain();
    plan_alt *a = l->alts;
    (void)state;
    NEVER(l->threads, 1);   /* of no items */
    NEVER(l->per_block, 1); /* of no threads */
    LIMIT(a->scratch, (int64_t)UINT32_MAX + 1, -1);
    l->threads = l->per_block = 1;
    LIMIT(l->threads, 1024, 1025);
    LIMIT(a->threads, 1024, 1025);
    LIMIT(a->scratch, UINT32_MAX, (int64_t)UINT32_MAX + 1);
}

static void variants_of_launches(void **state) {
    plan_launch *l = plain();
    (void)state;
    LIMIT(l->alts[0].function, p->n_functions - 1, p->n_functions);
    LIMIT(l->alts[0].function, PLAN_NO_FUNCTION, PLAN_NO_FUNCTION - 1);
    NEVER(l->n_alts, 0);
    for (uint32_t i = 0; i < PLAN_MAX_ALTS; i++) {
        l->alts[i] = l->alts[0];
        l->alts[i].max = 8 + i;
    }
    LIMIT(l->n_alts, PLAN_MAX_ALTS, PLAN_MAX_ALTS + 1);
    l->n_alts = 2;
    LIMIT(l->alts[1].max, 9, 8);
    LIMIT(l->alts[0].max, INT64_MIN, 9);
    LIMIT(l->grain, 1, 0);
    LIMIT(l->dim_map, p->n_dim_maps - 1, p->n_dim_maps);
    const char *name = l->name;
    l->name = NULL;
    may_be(false, "name");
    l->name = name;
}

static void arguments_of_launches(void **state) {
    uint32_t met[PLAN_SEG_COUNT_] = {0};
    const uint32_t n[PLAN_SEG_COUNT_] = {
        [PLAN_INPUT] = p->n_inputs, [PLAN_OUTPUT] = p->n_outputs, [PLAN_PARAM] = p->n_params,
        [PLAN_STATE] = p->n_states, [PLAN_PACK] = p->n_packs,     [PLAN_CONST] = p->n_consts,
        [PLAN_ARENA] = p->n_values};
    (void)state;
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t k = 0; k < p->launches[i].n_args; k++) {
            plan_arg *a = &p->launches[i].args[k];
            met[a->seg]++;
            LIMIT(a->idx, a->seg == PLAN_ARENA ? a->idx : n[a->seg] - 1, n[a->seg]);
        }
    for (int s = 0; s < PLAN_SEG_COUNT_; s++) assert_true(met[s] > 0);
}

static void packed_weights(void **state) {
    plan_pack *k = &p->packs[p->n_packs - 1];
    plan_section *s = &k->sections[k->n_sections - 1];
    (void)state;
    NEVER(k->n_sections, 0);
    NEVER(k->dtype, (rp_dtype)RP_DTYPE_COUNT_);
    NEVER(k->k, k->k + 32);
    NEVER(k->offset, k->offset + 64);
    NEVER(k->size, k->size - 64);
    NEVER(p->weights_size, p->weights_size + 1);
    NEVER(s->n_params, 0);
    NEVER(s->rows, s->rows + 1);
    NEVER(s->params[0], p->n_params);
    NEVER(s->by_k, 1U << s->n_params); /* of a matrix that is not there */
    NEVER(s->by_k, 1);                 /* blocks lie along k */
    plan_leaf *l = &p->params[s->params[0]];
    const plan_size rows = l->dim[0];
    l->dim[0] = l->dim[1];
    l->dim[1] = rows;
    s->by_k = 1;
    may_be(false, "blocks along columns");
    s->by_k = 0;
    l->dim[1] = l->dim[0];
    l->dim[0] = rows;
}

/* Four matrices make a section at most. */
static void matrices_of_a_section(void **state) {
    plan_pack *k = &p->packs[p->n_packs - 1];
    plan_section *s = &k->sections[k->n_sections - 1];
    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        if (n <= 4) s->params[n - 1] = s->params[0];
        s->n_params = n;
        k->size = plan_pack_bytes(k);
        p->weights_size = k->offset + (k->size + 63) / 64 * 64;
        may_be(n <= 4, "matrices of a section");
    }
}

static void tables_and_pieces(void **state) {
    (void)state;
    assert_true(p->n_modules > 0 && p->n_pieces > 2);
    plan_function *f = &p->functions[0];
    LIMIT(f->module, p->n_modules - 1, p->n_modules);
    LIMIT(f->module, PLAN_BUILTIN, PLAN_BUILTIN - 1);
    const char *symbol = f->symbol;
    f->symbol = "";
    may_be(false, "symbol");
    f->symbol = NULL;
    may_be(false, "symbol");
    f->symbol = symbol;
    for (uint32_t i = 0; i < p->n_dim_maps; i++)
        if (p->dim_maps[i].n) LIMIT(p->dim_maps[i].map[0], p->n_symbols - 1, p->n_symbols);
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        plan_piece *q = &p->pieces[i];
        NEVER(q->submod, i + 1);
        NEVER(q->distinct, i + 1);
        NEVER(q->splitting, !q->splitting);
        NEVER(q->graph_index, q->graph_index + 1);
        NEVER(q->first, q->first + 1);
        NEVER(q->n, q->n + 1);
    }
    NEVER(p->n_compiled, p->n_compiled + 1);
    NEVER(p->n_distinct, p->n_distinct - 1);
    NEVER(p->arena_size, p->arena_size + 64);
    NEVER(p->arena_size, p->arena_size - 64);
}

/* The first of equal pieces stands for all of them. */
static void equal_pieces_name_the_first(void **state) {
    uint32_t met = 0;
    (void)state;
    for (uint32_t i = 0; i < p->n_pieces; i++)
        for (uint32_t k = 0; k < i; k++) {
            const uint32_t first = p->pieces[k].distinct;
            if (first == k || first != p->pieces[i].distinct) continue;
            NEVER(p->pieces[i].distinct, k);
            met++;
        }
    assert_true(met > 0);
}

static int open_loop(void **state) {
    static const char text[] =
        "graph @g(%n: i32[], %x: f32[2], %s: f32[T,2], %z: f32[T]) where T in [2,8] {\n"
        "  %h = scan %x, %s, %z {carried=1, sliced=1,\n"
        "    body=graph @step(%h: f32[2], %r: f32[2], %z: f32[T]) where T in [2,8] {\n"
        "      %m = amax %z {axis=0, keep=true} %b = add %h, %r %a = add %b, %m ret %a, %a }}\n"
        "  ret %h\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    p = plan_of(g);
    ir_graph_free(g);
    return 0;
}

static void what_a_loop_runs(void **state) {
    plan_control *c = NULL;
    (void)state;
    for (uint32_t i = 0; i < p->n_launches; i++)
        if (p->launches[i].control) c = p->launches[i].control;
    assert_non_null(c);
    assert_int_equal(p->n_inner, 1);
    NEVER(c->kind, PLAN_CONTROL_COUNT_);
    NEVER(c->kind, PLAN_CALL); /* carries nothing */
    NEVER(c->inner[0], p->n_inner);
    NEVER(c->n_operands, c->n_operands + 1);
    NEVER(c->n_results, c->n_results + 1);
    NEVER(c->carried, c->n_results + 1);
    NEVER(c->sliced, c->n_operands - c->carried + 1);
    plan *in = p->inner[0];
    NEVER(in->n_inputs, in->n_inputs - 1);
    NEVER(in->n_outputs, in->n_outputs - 1);
    /* Whatever size it is given it must take. */
    assert_int_equal(in->n_symbols, 1);
    assert_false(plan_has_grown(p));
    assert_true(in->n_values > 0);
    const int64_t offset = in->values[0].offset;
    in->values[0].offset = PLAN_GROWS;
    assert_true(plan_has_grown(p));
    in->values[0].offset = offset;
    LIMIT(in->symbols[0].min, 1, 3);
    LIMIT(in->symbols[0].max, 9, 7);
}

int main(void) {
#define OF(fn, open) cmocka_unit_test_setup_teardown(fn, open, close_plan)
    const struct CMUnitTest tests[] = {
        OF(blocks_of_launches, open_llama),         OF(variants_of_launches, open_llama),
        OF(arguments_of_launches, open_llama),      OF(packed_weights, open_llama),
        OF(matrices_of_a_section, open_llama),      OF(tables_and_pieces, open_llama),
        OF(equal_pieces_name_the_first, open_deep), OF(what_a_loop_runs, open_loop),
    };
    return cmocka_run_group_tests_name("plan_limits", tests, NULL, NULL);
}
