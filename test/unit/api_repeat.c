/* Calls that are made again, and ordinary calls of the same graph between, before and behind them: each reads and writes its own buffers. */
#include "support/check.h"

#include "api/compiled.h"
#include "base/alloc.h"
#include "device/repeat.h"
#include "reprise/reprise.h"

enum { MOST = 8 };

/* y = 2 x + 1, of up to MOST elements. */
static rp_compiled *compile(const char *level) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("again");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 0, MOST)));
    rp_tensor y = rp_add_scalar(rp_mul_scalar(x, 2), 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, level, &err), &err);
    CHECK_OK(rp_config_set(cfg, "threads=1", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

typedef struct pair {
    float x[MOST], y[MOST];
} pair;

static void set(pair *p, float from) {
    for (int i = 0; i < MOST; i++) {
        p->x[i] = from + (float)i;
        p->y[i] = -1;
    }
}

static void check(const pair *p, int n, const char *what) {
    for (int i = 0; i < MOST; i++)
        if (p->y[i] != (i < n ? 2 * p->x[i] + 1 : -1)) fail_msg("%s: element %d of %d", what, i, n);
}

static rp_buffer of(float *data, int n) {
    return (rp_buffer){RP_DTYPE_F32, 1, {n}, data};
}

static void call(rp_compiled *c, pair *p, int n, const char *what) {
    rp_error err = {0};
    rp_buffer x = of(p->x, n), y = of(p->y, n);
    CHECK_OK(rp_compiled_run(c, &x, 1, &y, 1, &err), &err);
    check(p, n, what);
}

static void again(device_repeat *r, pair *p, int n, const char *what) {
    rp_error err = {0};
    CHECK_OK(device_repeat_run(r, device_thread_this(), &err), &err);
    check(p, n, what);
}

static void calls_have_their_own_buffers(void **state) {
    static const char *const levels[] = {"level=0", "level=2"};
    static pair own, theirs, moved;
    (void)state;
    for (size_t l = 0; l < 2; l++) {
        rp_error err = {0};
        rp_compiled *c = compile(levels[l]);
        for (int n = 1; n <= MOST; n++) {
            device_repeat *r = NULL;
            set(&own, (float)n);
            call(c, &own, 5, "before");
            CHECK_OK(device_repeat_new(c, &r, &err), &err);
            assert_non_null(r);
            set(&theirs, 100);
            rp_buffer x = of(theirs.x, n), y = of(theirs.y, n);
            CHECK_OK(r->bind(r, &x, &y, &err), &err);
            again(r, &theirs, n, "again");
            set(&own, 200);
            call(c, &own, 5, "between");
            set(&moved, 300);
            r->at[0] = moved.x;
            r->at[1] = moved.y;
            CHECK_OK(r->move(r, &err), &err);
            again(r, &moved, n, "moved");
            set(&theirs, 400);
            x = of(theirs.x, MOST - n);
            y = of(theirs.y, MOST - n);
            CHECK_OK(r->bind(r, &x, &y, &err), &err);
            again(r, &theirs, MOST - n, "bound anew");
            device_repeat_free(r);
            for (int i = 0; i < 3; i++) { /* whichever frame is taken */
                set(&own, (float)(500 + i));
                call(c, &own, 5, "behind");
            }
        }
        rp_compiled_free(c);
    }
}

/* Buffers that were refused are refused again, and others are bound anew, whoever has the frame. */
static void what_was_refused_is_not_bound(void **state) {
    static pair own, bad;
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        rp_error err = {0};
        rp_compiled *c = compile(level ? "level=2" : "level=0");
        device_repeat *r = NULL;
        set(&own, 1);
        set(&bad, 2);
        call(c, &own, 5, "before");
        CHECK_OK(device_repeat_new(c, &r, &err), &err);
        rp_buffer x = of(bad.x, 5), y = of(bad.y, 4);
        assert_int_equal(r->bind(r, &x, &y, &err), RP_INVALID);
        device_repeat_free(r);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rp_compiled_run(c, &x, 1, &y, 1, NULL), RP_INVALID);
        check(&bad, 0, "refused");
        set(&own, 3);
        call(c, &own, 5, "behind");
        rp_compiled_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_have_their_own_buffers),
        cmocka_unit_test(what_was_refused_is_not_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
