/* A plan whose symbols, inputs or outputs are not those of an engine is refused by name, and sizes go to the symbols of their name,
 * in whatever order the plan has them. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/program.h"

static const plan_leaf inputs[] = {{.name = "tokens"}, {.name = "positions"}};

static plan made_of(plan_symbol *symbols, uint32_t n) {
    return (plan){.name = "model",
                  .symbols = symbols,
                  .n_symbols = n,
                  .inputs = (plan_leaf *)(uintptr_t)inputs,
                  .n_inputs = 2,
                  .n_outputs = 1};
}

static void symbols_are_found_by_name(void **state) {
    plan_symbol symbols[] = {{"P", 1, 9}, {"R", 1, 9}, {"T", 1, 9}, {"NB", 1, 9},
                             {"S", 1, 9}, {"B", 1, 9}, {"Q", 1, 9}};
    static const engine_sizes sizes = {
        .tokens = 1, .rows = 2, .seqs = 3, .blocks = 4, .n_blocks = 5, .positions = 6};
    static const int64_t want[] = {6, 2, 1, 5, 3, 4};
    const plan_exec_options o = {0};
    rp_error err = {0};
    engine_program g = {0};
    int64_t v[16] = {0};
    (void)state;
    plan p = made_of(symbols, 7);
    assert_int_equal(engine_program_open(&g, &p, &o, &err), RP_INTERNAL);
    assert_string_equal(err.text, "plan model has an unknown symbol Q");
    p.n_symbols = 17;
    err = (rp_error){0};
    assert_int_equal(engine_program_open(&g, &p, &o, &err), RP_INTERNAL);
    assert_string_equal(err.text, "plan model has 17 symbols");
    assert_null(g.x);
    p.n_symbols = 6; /* those were found before the seventh was not */
    engine_program_sizes(&g, &sizes, v);
    for (int i = 0; i < 6; i++) assert_int_equal(v[i], want[i]);
}

static void what_a_plan_lacks_is_named(void **state) {
    rp_error err = {0};
    plan p = made_of(NULL, 0);
    engine_program g = {.p = &p};
    void *out[2] = {NULL, NULL};
    (void)state;
    assert_int_equal(engine_program_input(&g, "slots", out, &err), RP_INTERNAL);
    assert_string_equal(err.text, "plan model has no input slots");
    err = (rp_error){0};
    assert_int_equal(engine_program_outputs(&g, out, 2, &err), RP_INTERNAL);
    assert_string_equal(err.text, "plan model has 1 outputs, not 2");
    err = (rp_error){0};
    assert_int_equal(engine_program_outputs(&g, out, 0, &err), RP_INTERNAL);
    assert_string_equal(err.text, "plan model has 1 outputs, not 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_found_by_name),
        cmocka_unit_test(what_a_plan_lacks_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
