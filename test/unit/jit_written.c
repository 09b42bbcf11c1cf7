/* Arguments that a function writes and that are no states: they are written where they lie, at every level, with and without graph breaks. */
#include "support/jits.h"

enum { ROWS = 3, COLUMNS = 4 };

static bool breaks;

/* x += y twice; gives x before, and x after times ten. */
static rp_status adding(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static rp_value out[2];
    const float *memory = user;
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_jit_tensor(call, &args->item[1]);
    rp_tensor before = rp_mul_scalar(x, 1);
    (void)err;
    x = rp_update(x, rp_add(x, y));
    if (breaks) {
        float first = memory[0];
        rp_buffer b = rp_jit_read(call, x);
        if (!b.data) return RP_INVALID;
        if (((float *)b.data)[0] != memory[0] || memory[0] == first) return RP_DEVICE;
        x = rp_update(x, rp_add(x, y));
    } else {
        x = rp_update(x, rp_add(x, y));
    }
    out[0] = rp_jit_value(call, before);
    out[1] = rp_jit_value(call, rp_mul_scalar(x, 10));
    *result = rp_value_tuple(out, 2);
    return RP_OK;
}

static void fill(float *p, int n, float from) {
    for (int i = 0; i < n; i++) p[i] = from + (float)i;
}

static const struct {
    int level;
    const char *mode;
} ways[] = {{0, NULL}, {1, NULL}, {2, NULL}, {2, "reduce-overhead"}};
enum { WAYS = sizeof ways / sizeof *ways };

static rp_jit *make(rp_jit_fn fn, int way, void *user) {
    char settings[32];
    rp_jit_options o = jit_options(fn);
    (void)snprintf(settings, sizeof settings, "level=%d threads=1", ways[way].level);
    o.mode = ways[way].mode;
    o.user = user;
    return jit_by(o, settings);
}

/* Dense, of sizes that differ: numbers first, then symbols. */
static void plain_tensors_are_written_in_place(void **state) {
    (void)state;
    for (int way = 0; way < 2 * WAYS; way++) {
        float x[8], y[8], was[8];
        breaks = way >= WAYS;
        rp_jit *f = make(adding, way % WAYS, x);
        for (int i = 0; i < 6; i++) {
            int n = 4 + i % 3;
            fill(x, n, (float)i);
            fill(y, n, 0.5f);
            memcpy(was, x, sizeof was);
            rp_value v[] = {f32_of(x, 1, n, 0), f32_of(y, 1, n, 0)}, args = rp_value_tuple(v, 2);
            rp_output *o = jit_ok(f, &args);
            const rp_value *is = jit_result(o);
            for (int k = 0; k < n; k++) {
                assert_true(x[k] == was[k] + 2 * y[k]);
                assert_true(((float *)is->item[0].tensor.data)[k] == was[k]);
                assert_true(((float *)is->item[1].tensor.data)[k] == 10 * x[k]);
            }
            rp_output_free(o);
        }
        if (ways[way % WAYS].level) assert_true(jit_info(f).entries <= 2);
        rp_jit_free(f);
    }
}

/* Columns of a matrix: the rest of it stays. */
static void views_are_written_back(void **state) {
    (void)state;
    for (int way = 0; way < 2 * WAYS; way++) {
        float m[ROWS][COLUMNS], was[ROWS][COLUMNS], y[ROWS * 2];
        const int64_t stride[] = {COLUMNS, 1};
        breaks = way >= WAYS;
        rp_jit *f = make(adding, way % WAYS, &m[0][1]);
        for (int i = 0; i < 3; i++) {
            fill(&m[0][0], ROWS * COLUMNS, (float)i);
            fill(y, ROWS * 2, 1);
            memcpy(was, m, sizeof was);
            rp_buffer view = {RP_DTYPE_F32, 2, {ROWS, 2}, &m[0][1]};
            rp_value v[] = {rp_value_strided(view, stride), f32_of(y, 2, ROWS, 2)};
            rp_value args = rp_value_tuple(v, 2);
            rp_output_free(jit_ok(f, &args));
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLUMNS; c++) {
                    float more = c == 1 || c == 2 ? 2 * y[r * 2 + c - 1] : 0;
                    assert_true(m[r][c] == was[r][c] + more);
                }
        }
        rp_jit_free(f);
    }
}

/* Another argument that shares the memory is what it was before the call. */
static void others_keep_their_value(void **state) {
    (void)state;
    for (int way = 0; way < 2 * WAYS; way++) {
        float x[COLUMNS], was[COLUMNS];
        breaks = way >= WAYS;
        rp_jit *f = make(adding, way % WAYS, x);
        for (int i = 0; i < 3; i++) {
            fill(x, COLUMNS, (float)i + 1);
            memcpy(was, x, sizeof was);
            rp_value v[] = {f32_of(x, 1, COLUMNS, 0), f32_of(x, 1, COLUMNS, 0)};
            rp_value args = rp_value_tuple(v, 2);
            rp_output_free(jit_ok(f, &args));
            for (int k = 0; k < COLUMNS; k++) assert_true(x[k] == 3 * was[k]);
        }
        rp_jit_free(f);
    }
}

/* Both are written. */
static rp_status both(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    x = rp_update(x, rp_add_scalar(x, 1));
    if (breaks) rp_jit_break(call, "builtin: print");
    (void)rp_update(y, rp_add_scalar(y, 1));
    *result = rp_jit_value(call, x);
    return RP_OK;
}

static void what_cannot_be_written_is_told(void **state) {
    (void)state;
    NOT_ELSEWHERE("arguments and states that share memory share none there");
    for (int way = 0; way < 2 * WAYS; way++) {
        float x[COLUMNS] = {1, 2, 3, 4};
        const int64_t none[] = {0};
        rp_error err = {0};
        rp_output *o = NULL;
        breaks = way >= WAYS;
        rp_jit *f = make(both, way % WAYS, x);
        rp_value v[] = {f32_of(x, 1, COLUMNS, 0), f32_of(x + 1, 1, COLUMNS - 1, 0)};
        rp_value args = rp_value_tuple(v, 2);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_memory_equal(err.text, "forward: ", 9);
        assert_non_null(
            strstr(err.text, "L[0] and L[1], which are written, or states, share memory; "));
        v[1].state = true;
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_memory_equal(err.text, "forward: ", 9);
        assert_non_null(
            strstr(err.text, "L[0] and L[1], which are written, or states, share memory; "));
        v[1] = rp_value_strided(f32_of(x, 1, COLUMNS, 0).tensor, none);
        v[0] = f32_of((float[COLUMNS]){0}, 1, COLUMNS, 0);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "stride 0 along axis 0"));
        v[1] = f32_of(x, 2, 1, COLUMNS); /* an axis of one element repeats nothing */
        v[1] = rp_value_strided(v[1].tensor, (const int64_t[]){0, 0});
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "stride 0 along axis 1"));
        rp_jit_free(f);
    }
}

/* Columns beside each other, and elements in turn. */
static void views_without_a_common_element_are_written(void **state) {
    (void)state;
    NOT_ELSEWHERE("arguments that lie in one memory do not there");
    for (int way = 0; way < 4 * WAYS; way++) {
        float m[ROWS][COLUMNS], was[ROWS][COLUMNS];
        const bool turns = way >= 2 * WAYS;
        const int64_t columns[] = {COLUMNS, 1}, even[] = {COLUMNS, 2};
        breaks = way / WAYS % 2;
        rp_jit *f = make(both, way % WAYS, m);
        for (int i = 0; i < 3; i++) {
            fill(m[0], ROWS * COLUMNS, (float)i + 1);
            memcpy(was, m, sizeof was);
            rp_buffer x = {RP_DTYPE_F32, 2, {ROWS, 2}, m[0]}, y = x;
            y.data = &m[0][turns ? 1 : 2];
            rp_value v[] = {rp_value_strided(x, turns ? even : columns),
                            rp_value_strided(y, turns ? even : columns)};
            rp_value args = rp_value_tuple(v, 2);
            rp_output_free(jit_ok(f, &args));
            for (int r = 0; r < ROWS; r++)
                for (int k = 0; k < 4; k++) assert_true(m[r][k] == was[r][k] + 1);
        }
        rp_jit_free(f);
    }
}

static rp_status one_life(rp_error *err) {
    float m[ROWS][COLUMNS] = {{1}}, y[ROWS * 2] = {0};
    const int64_t stride[] = {COLUMNS, 1};
    rp_jit *f = NULL;
    rp_output *o = NULL;
    rp_buffer view = {RP_DTYPE_F32, 2, {ROWS, 2}, &m[0][1]};
    rp_value v[] = {rp_value_strided(view, stride), f32_of(y, 2, ROWS, 2)};
    rp_value args = rp_value_tuple(v, 2);
    rp_jit_options options = jit_options(both);
    rp_compilation_config *c = rp_config_new();
    rp_status st = c ? rp_config_set(c, "level=1", err) : RP_NOMEM;
    options.config = c;
    if (st == RP_OK) st = rp_jit_new(&options, &f, err);
    for (int i = 0; i < 2 && st == RP_OK; i++) {
        st = rp_jit_run(f, &args, &o, err);
        rp_output_free(o);
        o = NULL;
    }
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

static void every_allocation_may_fail(void **state) {
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        breaks = i;
        CHECK_OK(one_life(&err), &err);
        jit_fail_each_allocation(one_life, 32);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_tensors_are_written_in_place),
        cmocka_unit_test(views_are_written_back),
        cmocka_unit_test(others_keep_their_value),
        cmocka_unit_test(views_without_a_common_element_are_written),
        cmocka_unit_test(what_cannot_be_written_is_told),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
