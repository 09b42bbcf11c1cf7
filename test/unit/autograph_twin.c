/* Two runs beside each other, told by hand: memory is the same where it is the same byte of the same tensor, or no tensor's in both. */
#include "support/check.h"

#include "autograph/twin.h"

enum { BYTES = 16, TENSORS = 2 };

/* Memory of two runs: a tensor at 0 and one behind it, and what is behind both. */
static char memory[2][4 * BYTES];

/* Whether a function that names `first` in the one run and `second` in the other does the same there. */
static bool alike(const void *first, const void *second, size_t size, const size_t at[2]) {
    static const rp_call none = {0};
    const void *named[2] = {first, second};
    rp_value tensor[2][TENSORS], args[2];
    hal_step step[2][2] = {{{0}}};
    hal_trace trace[2];
    autograph_run run[2];
    rp_error err = {0};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < TENSORS; k++) {
            rp_buffer b = {RP_DTYPE_F32, 1, {BYTES / 4}, memory[i] + (k ? at[i] : 0)};
            tensor[i][k] = rp_value_tensor(b);
        }
        args[i] = rp_value_tuple(tensor[i], TENSORS);
        step[i][0] = (hal_step){.kind = HAL_STEP_CALL, .name = "call"};
        step[i][1] = (hal_step){.kind = HAL_STEP_MEMORY, .name = "x", .at = named[i], .size = size};
        trace[i] = (hal_trace){.v = step[i], .n = 2};
        run[i] = (autograph_run){&args[i], &none, &trace[i]};
    }
    rp_status st = autograph_runs_alike(run, &err);
    if (st != RP_OK) assert_int_equal(st, RP_UNSUPPORTED);
    return st == RP_OK;
}

static void each_byte_of_a_tensor_is_its_own(void **state) {
    static const size_t apart[2] = {2 * BYTES, BYTES}; /* in the second run they touch */
    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        for (size_t k = 0; k < BYTES; k++)
            for (int one = 0; one < TENSORS; one++)
                for (int other = 0; other < TENSORS; other++)
                    assert_int_equal(alike(memory[0] + (one ? apart[0] : 0) + i,
                                           memory[1] + (other ? apart[1] : 0) + k, 1, apart),
                                     one == other && i == k);
}

static void what_is_behind_a_tensor_is_not_of_it(void **state) {
    static const size_t apart[2] = {2 * BYTES, BYTES};
    const char *behind = memory[1] + 2 * BYTES;
    (void)state;
    assert_true(alike(behind, behind, 1, apart));
    assert_false(alike(behind, behind + 1, 1, apart));
    assert_false(alike(memory[0] + 3 * BYTES, behind, 1, apart));
    /* One address that is a tensor's in the second run alone. */
    assert_false(alike(memory[1] + 1, memory[1] + 1, 1, apart));
}

/* Each part of a step: what is called, with which bits, on how much memory; and how many there are. */
static void steps_differ_by_each_part(void **state) {
    static const hal_step step = {.kind = HAL_STEP_MEMORY, .name = "x", .at = memory[0], .size = 8};
    static const rp_call none = {0};
    enum { SAME, SIZE, HASH, VALUE, KIND, FEWER, MORE, CASES };
    (void)state;
    for (int what = 0; what < CASES; what++) {
        hal_step v[2][2] = {{step, step}, {step, step}};
        hal_trace trace[2] = {{.v = v[0], .n = 2}, {.v = v[1], .n = 2}};
        rp_value tensor = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 1, {BYTES / 4}, memory[0]});
        rp_value args = rp_value_tuple(&tensor, 1);
        const autograph_run run[2] = {{&args, &none, &trace[0]}, {&args, &none, &trace[1]}};
        rp_error err = {0};
        v[0][0].kind = v[1][0].kind = HAL_STEP_CALL;
        switch (what) {
        case SIZE: v[1][1].size = 4; break;
        case HASH: v[1][1].hash = 1; break;
        case VALUE: v[1][0].value = 1; break;
        case KIND: v[1][1].kind = HAL_STEP_CALL; break;
        case FEWER: trace[1].n = 1; break;
        case MORE: trace[0].n = 1; break;
        default: break;
        }
        const rp_status st = autograph_runs_alike(run, &err);
        if (st != (what == SAME ? RP_OK : RP_UNSUPPORTED)) fail_msg("case %d: %s", what, err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_of_a_tensor_is_its_own),
        cmocka_unit_test(what_is_behind_a_tensor_is_not_of_it),
        cmocka_unit_test(steps_differ_by_each_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
