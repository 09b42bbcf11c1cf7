/* What a queue was told, step by step: what is of which call, whose memory it is, what is left out. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "hal/hal.h"

static int dropped;

static bool same(const void *who, unsigned generation) {
    (void)who, (void)generation;
    return true;
}

static void drop(void *who) {
    (void)who;
    dropped++;
}

static void own(hal_device *d, int *who) {
    const hal_owner o = {who, 0, same, drop};
    hal_trace_owner(d, &o);
}

/* An owner has the memory that its call names behind it, and none of another call, of whatever kind that is. */
static void an_owner_is_of_its_call(void **state) {
    rp_error err = {0};
    hal_device *d = NULL;
    hal_trace t = {0};
    static int who[2];
    static char m[8];
    (void)state;
    CHECK_OK(hal_open("null", 1, &d, &err), &err);
    assert_null(hal_trace_to(d, &t));
    dropped = 0;
    hal_trace_call(d, "first");
    hal_trace_memory(d, "given", m, 1);
    own(d, &who[0]);
    hal_trace_memory(d, "bound", m, 2);
    hal_trace_value(d, "number", 7);
    hal_trace_call(d, "second");
    hal_trace_memory(d, "given", m, 3);
    own(d, &who[1]);
    hal_trace_memory(d, "bound", m, 4);
    hal_trace_memory(d, "nothing", m, 0);
    hal_trace_copy(d, m, m + 4, 4);
    own(d, &who[0]);
    hal_trace_fill(d, m, 0xff, 8);
    const struct {
        hal_step_kind kind;
        const char *name;
        size_t size;
        long long value;
        uint32_t owner;
    } want[] = {{HAL_STEP_CALL, "first", 0, 0, 0},      {HAL_STEP_MEMORY, "given", 1, 0, 0},
                {HAL_STEP_MEMORY, "bound", 2, 0, 1},    {HAL_STEP_VALUE, "number", 0, 7, 0},
                {HAL_STEP_CALL, "second", 0, 0, 0},     {HAL_STEP_MEMORY, "given", 3, 0, 0},
                {HAL_STEP_MEMORY, "bound", 4, 0, 2},    {HAL_STEP_CALL, "copy", 0, 0, 0},
                {HAL_STEP_MEMORY, "where to", 4, 0, 0}, {HAL_STEP_MEMORY, "where from", 4, 0, 0},
                {HAL_STEP_CALL, "fill", 0, 0, 0},       {HAL_STEP_MEMORY, "where to", 8, 0, 0},
                {HAL_STEP_VALUE, "its byte", 0, 255, 0}};
    assert_int_equal(t.n, sizeof want / sizeof *want);
    for (uint32_t i = 0; i < t.n; i++) {
        const hal_step *s = &t.v[i];
        assert_string_equal(s->name, want[i].name);
        assert_int_equal(s->kind, want[i].kind);
        assert_int_equal(s->size, want[i].size);
        assert_int_equal(s->value, want[i].value);
        if (s->owner != want[i].owner) fail_msg("step %u: owner %u", i, s->owner);
    }
    assert_ptr_equal(t.v[9].at, m + 4);
    assert_ptr_equal(hal_trace_to(d, NULL), &t);
    hal_trace_call(d, "nobody asks");
    assert_int_equal(t.n, sizeof want / sizeof *want);
    assert_int_equal(dropped, 0);
    hal_trace_done(&t);
    assert_int_equal(dropped, 3);
    hal_close(d);
}

/* Of a long name the beginning is kept, and all of it counts. */
static void names_are_told_apart_behind_what_is_kept(void **state) {
    static const char *const names[] = {"a call whose name is longer than what is kept of it: one",
                                        "a call whose name is longer than what is kept of it: two"};
    rp_error err = {0};
    hal_device *d = NULL;
    hal_trace t = {0};
    (void)state;
    CHECK_OK(hal_open("null", 1, &d, &err), &err);
    (void)hal_trace_to(d, &t);
    for (int i = 0; i < 40; i++) hal_trace_call(d, names[i % 2]);
    assert_int_equal(t.n, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(strncmp(t.v[i].name, names[0], sizeof t.v[i].name - 1), 0);
        assert_int_equal(t.v[i].hash == t.v[0].hash, i % 2 == 0);
    }
    hal_trace_done(&t);
    hal_close(d);
}

/* A step that is lost is told, and so is an owner, whose reference goes at once. */
static void what_is_lost_is_told(void **state) {
    rp_error err = {0};
    hal_device *d = NULL;
    int who = 0;
    (void)state;
    CHECK_OK(hal_open("null", 1, &d, &err), &err);
    for (uint64_t n = 1; n <= 2; n++) {
        hal_trace t = {0};
        (void)hal_trace_to(d, &t);
        dropped = 0;
        (void)base_alloc_fail_nth(n);
        hal_trace_call(d, "call");
        own(d, &who);
        (void)base_alloc_fail_nth(0);
        assert_true(t.failed);
        assert_int_equal(t.n, n == 2);
        assert_int_equal(dropped, n == 2);
        hal_trace_done(&t);
        assert_int_equal(dropped, 1);
    }
    hal_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_is_of_its_call),
        cmocka_unit_test(names_are_told_apart_behind_what_is_kept),
        cmocka_unit_test(what_is_lost_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
