/* Modes of functions: which names there are, what they set, and how calls are captured by each cudagraph_mode. */
#include "support/jits.h"

#include "support/heard.h"

#include "front/front.h"

enum { N = 4 };

static rp_status halved(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static rp_value out[2];
    const int *breaks = user;
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    for (int i = 0; breaks && i < *breaks; i++) {
        x = rp_add_scalar(x, 1);
        rp_jit_break(call, "builtin: print");
    }
    out[0] = rp_jit_value(call, rp_mul_scalar(x, 0.5));
    out[1] = rp_jit_value(call, rp_neg(x));
    *result = rp_value_list(out, 2);
    return RP_OK;
}

static void fill(float *x, float from) {
    for (int k = 0; k < N; k++) x[k] = from + (float)k;
}

static rp_output *call(rp_jit *f, float *x, int64_t n) {
    rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
    return jit_ok(f, &args);
}

static bool is_halved(const rp_output *o, const float *x, float more) {
    const rp_value *is = jit_result(o);
    const float *half = is->item[0].tensor.data, *neg = is->item[1].tensor.data;
    bool same = is->kind == RP_VALUE_LIST && is->n == 2;
    for (int k = 0; k < N && same; k++)
        same = half[k] == (x[k] + more) * 0.5f && neg[k] == -(x[k] + more);
    return same;
}

static rp_status make(const char *mode, const char *settings, rp_jit **f, rp_error *err) {
    rp_jit_options o = jit_options(halved);
    o.mode = mode;
    return jit_of(o, settings, f, err);
}

static void names_are_those_of_torch(void **state) {
    static const struct {
        const char *mode, *settings, *error;
    } bad[] = {
        {"fastest", "level=2", "mode=fastest is none; there are default, reduce-overhead,"},
        {"reduce-overhead", "backend=eager", "is of backend=inductor, not of eager"},
        {"reduce-overhead", "level=1", "needs level 2 or 3"},
        {"reduce-overhead", "cudagraph_mode=NONE", "contradicts cudagraph_mode=NONE"},
        {"reduce-overhead", "use_cudagraph=false", "contradicts use_cudagraph=false"},
        {NULL, "level=2 cudagraph_mode=FULL_DECODE_ONLY", "give rp_jit_options.uniform"},
        {NULL, "backend=cudagraphs cudagraph_mode=NONE",
         "backend=cudagraphs contradicts cudagraph_mode=NONE"},
        {NULL, "backend=cudagraphs use_cudagraph=false",
         "backend=cudagraphs contradicts use_cudagraph=false"},
        {NULL, "level=0 cudagraph_mode=FULL require_graph=true",
         "require_graph: cudagraph_mode=FULL: level 0 of a function captures nothing"},
        {"max-autotune", "inductor_compile_config={\"max_autotune\":false}",
         "mode=max-autotune contradicts inductor_compile_config.max_autotune=false"},
        {"max-autotune", "inductor_compile_config.coordinate_descent_tuning=false",
         "contradicts inductor_compile_config.coordinate_descent_tuning=false"},
        {"max-autotune-no-cudagraphs", "inductor_compile_config.max_autotune=2",
         "inductor_compile_config.max_autotune=2: expected true or false"},
    };
    rp_error err = {0};
    rp_jit *f = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(make(bad[i].mode, bad[i].settings, &f, &err), RP_CONFIG);
        if (!strstr(err.text, bad[i].error)) fail_msg("%s: %s", bad[i].settings, err.text);
    }
    CHECK_OK(make("default", "threads=1", &f, &err), &err);
    rp_jit_free(f);
    base_buf said;
    heard_start(&said, "");
    CHECK_OK(make(NULL, "level=0 cudagraph_mode=FULL", &f, &err), &err);
    rp_jit_free(f);
    CHECK_OK(make(NULL, "level=0 cudagraph_mode=NONE", &f, &err), &err);
    rp_jit_free(f);
    assert_string_equal(said.data, "cudagraph_mode=FULL: level 0 of a function captures nothing\n");
    heard_done(&said);
}

/* They are beside other options, which are refused as without a mode. */
static void modes_hold_the_options_that_are_given(void **state) {
    static const char refused[] = "inductor_compile_config={\"epilogue_fusion\":true}";
    rp_error err = {0};
    rp_jit *f = NULL;
    (void)state;
    assert_int_equal(make("max-autotune", refused, &f, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "inductor_compile_config.epilogue_fusion=true is not"));
    CHECK_OK(make("max-autotune", "inductor_compile_config={\"max_autotune\":true,\"triton\":{}}",
                  &f, &err),
             &err);
    rp_jit_free(f);
}

/* A budget that is none is an error of who measures, and of nobody else. */
static void max_autotune_measures(void **state) {
    static const struct {
        const char *mode;
        bool measures;
    } is[] = {{"default", false},
              {"reduce-overhead", false},
              {"max-autotune", true},
              {"max-autotune-no-cudagraphs", true}};
    static const char budget[] = "REPRISE_AUTOTUNE_BUDGET";
    (void)state;
    char *before = getenv(budget) ? base_strdup(getenv(budget)) : NULL;
    (void)setenv(budget, "soon", 1);
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        rp_error err = {0};
        rp_jit *f = NULL;
        rp_output *o = NULL;
        float x[N] = {1, 2, 3, 4};
        rp_value v = f32_of(x, 1, N, 0), args = rp_value_tuple(&v, 1);
        CHECK_OK(make(is[i].mode, "threads=1", &f, &err), &err);
        rp_status st = rp_jit_run(f, &args, &o, &err);
        if ((st == RP_OK) == is[i].measures) fail_msg("mode=%s: %s", is[i].mode, err.text);
        if (is[i].measures) assert_non_null(strstr(err.text, "REPRISE_AUTOTUNE_BUDGET=soon"));
        rp_output_free(o);
        rp_jit_free(f);
    }
    (void)(before ? setenv(budget, before, 1) : unsetenv(budget));
    base_free(before);
}

/* Results lie in memory of the graph: an output is right until the next call, and never another value after it. */
static void reduce_overhead_lends_its_results(void **state) {
    static const int breaks = 2;
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        rp_error err = {0};
        rp_output *last = NULL;
        rp_jit *f = NULL;
        float x[N], more = broken ? 2 : 0;
        const void *at[6];
        rp_jit_options o = jit_options(halved);
        o.mode = "reduce-overhead";
        o.user = broken ? (void *)(uintptr_t)&breaks : NULL;
        CHECK_OK(jit_of(o, "threads=1", &f, &err), &err);
        for (int i = 0; i < 6; i++) {
            const rp_value *none = NULL;
            fill(x, (float)i);
            rp_output *out = call(f, x, N);
            assert_true(is_halved(out, x, more));
            assert_int_equal(rp_output_ran(out), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            at[i] = jit_result(out)->item[0].tensor.data;
            if (last) {
                assert_int_equal(rp_output_value(last, &none, &err), RP_INVALID);
                assert_non_null(strstr(err.text, "overwritten by a later call"));
                rp_output_free(last);
            }
            last = out;
        }
        if (!runs_elsewhere()) assert_ptr_equal(at[5], at[4]);
        rp_output_free(last);
        rp_jit_free(f);
    }
}

/* An output is an argument of the next call, and of the function itself. */
/* Code of symbols is measured, as that of numbers is, at the sizes of the call that it is made for; also between breaks. */
static void symbols_are_measured_at_their_call(void **state) {
    static float x[6 * 512];
    (void)state;
    for (int breaks = 0; breaks < 2; breaks++) {
        base_buf said;
        rp_error err = {0};
        rp_jit *f = NULL;
        rp_jit_options o = jit_options(halved);
        o.mode = "max-autotune-no-cudagraphs";
        o.user = &breaks;
        CHECK_OK(jit_of(o, "threads=1", &f, &err), &err);
        heard_start(&said, "autotuning");
        for (int64_t n = 4; n < 7; n += 2) {
            rp_value v = f32_of(x, 2, n, 512), args = rp_value_tuple(&v, 1);
            rp_output_free(jit_ok(f, &args));
        }
        CHECK_HEARD(&said, " at s0=6\n");
        assert_null(strstr(said.data, "keeps the rules' choices"));
        heard_done(&said);
        rp_jit_free(f);
    }
}

/* Whatever mode the level has by itself: calls are captured, so nothing says that none are. */
static void what_is_captured_is_not_told_otherwise(void **state) {
    static const char *const settings[] = {"level=2", "level=3"};
    static const char *const modes[] = {"reduce-overhead", "max-autotune"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        float x[N];
        int breaks = 2;
        base_buf said;
        rp_error err = {0};
        rp_jit *f = NULL;
        rp_jit_options o = jit_options(halved);
        o.mode = modes[i / 2];
        o.user = &breaks;
        heard_start(&said, "");
        CHECK_OK(jit_of(o, settings[i % 2], &f, &err), &err);
        fill(x, 1);
        rp_output_free(call(f, x, N));
        assert_null(said.len ? strstr(said.data, "captures no graphs") : NULL);
        heard_done(&said);
        rp_jit_free(f);
    }
}

static void results_are_fed_back(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    float x[N] = {64, 128, 256, 512};
    rp_output *out = NULL;
    (void)state;
    CHECK_OK(make("reduce-overhead", "threads=1", &f, &err), &err);
    for (int i = 0; i < 5; i++) {
        rp_value v = out ? jit_result(out)->item[0] : f32_of(x, 1, N, 0);
        rp_value args = rp_value_tuple(&v, 1);
        rp_output *next = jit_ok(f, &args);
        rp_output_free(out);
        out = next;
    }
    for (int k = 0; k < N; k++)
        assert_true(((float *)jit_result(out)->item[0].tensor.data)[k] == x[k] / 32);
    rp_output_free(out);
    rp_jit_free(f);
}

/* Memory of the caller is written by a copy, and stays. */
static void run_into_copies(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    float x[N], got[4][2][N];
    (void)state;
    CHECK_OK(make("reduce-overhead", "threads=1", &f, &err), &err);
    for (int i = 0; i < 4; i++) {
        fill(x, (float)i);
        rp_value v = f32_of(x, 1, N, 0), args = rp_value_tuple(&v, 1);
        rp_buffer to[] = {f32_of(got[i][0], 1, N, 0).tensor, f32_of(got[i][1], 1, N, 0).tensor};
        CHECK_OK(rp_jit_run_into(f, &args, to, 2, &err), &err);
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < N; k++) {
            assert_true(got[i][0][k] == (float)(i + k) * 0.5f);
            assert_true(got[i][1][k] == -(float)(i + k));
        }
    rp_jit_free(f);
}

/* --- cudagraph_mode ------------------------------------------------------------------------------ */

static bool by_flag(void *user, const rp_value *args) {
    (void)user;
    return args->item[0].tensor.dim[0] == N;
}

/* Replays that a function's calls of N and of N + 1 elements made. */
static void count_replays(const char *settings, uint64_t *uniform, uint64_t *mixed) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_autograph *a = NULL;
    rp_jit *f = NULL;
    float x[N + 1] = {1, 2, 3, 4, 5};
    rp_jit_options o = jit_options(halved);
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(rp_autograph_default(d, &a, &err), &err);
    o.device = d;
    o.uniform = by_flag;
    CHECK_OK(jit_of(o, settings, &f, &err), &err);
    for (int n = N; n <= N + 1; n++) {
        rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
        uint64_t before;
        CHECK_OK(rp_autograph_get_info(a, &info, &err), &err);
        before = info.replays;
        for (int i = 0; i < 5; i++) {
            rp_output *out = call(f, x, n);
            assert_true(is_halved(out, x, 0));
            rp_output_free(out);
        }
        CHECK_OK(rp_autograph_get_info(a, &info, &err), &err);
        *(n == N ? uniform : mixed) = info.replays - before;
    }
    rp_jit_free(f);
    rp_autograph_destroy(a);
    rp_device_close(d);
}

static void each_cudagraph_mode_captures_what_it_says(void **state) {
    static const struct {
        const char *settings;
        bool uniform, mixed;
    } is[] = {{"level=2", false, false},
              {"level=2 cudagraph_mode=NONE", false, false},
              {"level=2 cudagraph_mode=FULL", true, true},
              {"level=2 cudagraph_mode=FULL_DECODE_ONLY", true, false},
              {"level=3 cudagraph_mode=PIECEWISE", true, true},
              {"level=3 cudagraph_mode=FULL_AND_PIECEWISE", true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        uint64_t uniform = 99, mixed = 99;
        count_replays(is[i].settings, &uniform, &mixed);
        if (uniform != (is[i].uniform ? 4 : 0) || mixed != (is[i].mixed ? 4 : 0))
            fail_msg("%s: %d and %d replays", is[i].settings, (int)uniform, (int)mixed);
    }
}

/* A state is written and returned in pieces between sums, which are not captured, and read behind one as it was. */
static rp_status split(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    static rp_value out[5];
    rp_tensor s = rp_jit_tensor(call, &args->item[0]), x = rp_jit_tensor(call, &args->item[1]);
    rp_tensor before = s;
    (void)user, (void)err;
    s = rp_update(s, rp_add(s, x));
    rp_tensor y = rp_add_scalar(rp_cumsum(rp_mul_scalar(x, 2), 0), 1);
    rp_tensor z = rp_cumsum(rp_add(y, s), 0);
    out[0] = rp_jit_value(call, rp_neg(z));
    out[1] = rp_jit_value(call, s);
    out[2] = rp_jit_value(call, x);
    out[3] = rp_jit_value(call, rp_mul(y, before));
    out[4] = rp_jit_value(call, before);
    *result = rp_value_tuple(out, 5);
    return RP_OK;
}

static void pieces_are_captured_between_splitting_ops(void **state) {
    static const char *const modes[] = {"PIECEWISE", "FULL_AND_PIECEWISE", "FULL"};
    (void)state;
    for (int m = 0; m < 3; m++) {
        rp_error err = {0};
        rp_device *d = NULL;
        rp_autograph *a = NULL;
        rp_jit *f = NULL;
        char settings[128];
        float total[8] = {0}, x[8], sum[8] = {0};
        rp_jit_options o = jit_options(split);
        CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
        CHECK_OK(rp_autograph_default(d, &a, &err), &err);
        o.device = d;
        o.uniform = by_flag;
        (void)snprintf(settings, sizeof settings,
                       "level=3 splitting_ops=reprise::cumsum cudagraph_copy_inputs=true "
                       "cudagraph_mode=%s",
                       modes[m]);
        CHECK_OK(jit_of(o, settings, &f, &err), &err);
        for (int i = 0; i < 6; i++) {
            int n = i < 3 ? N : 8; /* uniform, and not */
            float y = 0, z = 0;
            rp_value v[] = {f32_of(total, 1, n, 0), f32_of(x, 1, n, 0)};
            for (int k = 0; k < n; k++) x[k] = (float)(k + i);
            v[0].state = true;
            rp_value args = rp_value_tuple(v, 2);
            rp_output *out = jit_ok(f, &args);
            const rp_value *is = jit_result(out);
            for (int k = 0; k < n; k++) {
                float before = sum[k];
                sum[k] += x[k];
                y += 2 * x[k];
                z += y + 1 + sum[k];
                assert_true(((float *)is->item[0].tensor.data)[k] == -z);
                assert_true(((float *)is->item[1].tensor.data)[k] == sum[k]);
                assert_true(((float *)is->item[2].tensor.data)[k] == x[k]);
                assert_true(((float *)is->item[3].tensor.data)[k] == (y + 1) * before);
                assert_true(((float *)is->item[4].tensor.data)[k] == before);
                assert_true(total[k] == sum[k]);
            }
            rp_output_free(out);
        }
        rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
        CHECK_OK(rp_autograph_get_info(a, &info, &err), &err);
        /* In front of the first cumsum, between the two, and behind. */
        uint32_t pieces = 3, want = m == 0 ? 2 * pieces : m == 1 ? 1 + pieces : 2;
        assert_int_equal(info.graph_count, want);
        assert_int_equal(info.eager, 0);
        rp_jit_free(f);
        rp_autograph_destroy(a);
        rp_device_close(d);
    }
}

/* As in vLLM: without cudagraph_copy_inputs arguments stay where they were. */
static void an_input_that_moved_is_an_error(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    float x[N] = {1, 2, 3, 4}, y[N] = {5, 6, 7, 8};
    (void)state;
    NOT_ELSEWHERE("arguments that stay lie in memory of the device");
    static const char *const settings[] = {
        "level=2 cudagraph_mode=FULL", "level=3 cudagraph_mode=PIECEWISE",
        "level=2 cudagraph_mode=FULL cudagraph_copy_inputs=true",
        "level=3 cudagraph_mode=PIECEWISE cudagraph_copy_inputs=true"};
    for (int m = 0; m < 4; m++) {
        bool copied = m >= 2;
        rp_value v = f32_of(y, 1, N, 0), args = rp_value_tuple(&v, 1);
        rp_output *o = NULL;
        base_buf said;
        heard_start(&said, "");
        CHECK_OK(make(NULL, settings[m], &f, &err), &err);
        for (int i = 0; i < 3; i++) {
            fill(x, (float)i);
            rp_output *out = call(f, x, N);
            assert_true(is_halved(out, x, 0));
            rp_output_free(out);
        }
        rp_status st = rp_jit_run(f, &args, &o, &err);
        assert_int_equal(st, copied ? RP_OK : RP_INVALID);
        if (copied)
            assert_true(is_halved(o, y, 0));
        else
            assert_non_null(strstr(err.text, "or set cudagraph_copy_inputs"));
        if (said.len) fail_msg("%s: %s", settings[m], said.data);
        heard_done(&said);
        rp_output_free(o);
        rp_jit_free(f);
    }
}

/* A call that fails says nothing of where arguments will be. */
static void a_call_that_failed_keeps_no_places(void **state) {
    static const char *const settings[] = {"level=2 cudagraph_mode=FULL threads=1",
                                           "level=3 cudagraph_mode=PIECEWISE threads=1"};
    static float x[1 << 12], y[1 << 12];
    (void)state;
    NOT_ELSEWHERE("arguments that stay lie in memory of the device");
    for (int m = 0; m < 2; m++) {
        rp_error err = {0};
        rp_jit *f = NULL;
        rp_jit_options o = jit_options(halved);
        o.dynamic = RP_DYNAMIC_ALL;
        CHECK_OK(jit_of(o, settings[m], &f, &err), &err);
        rp_output_free(call(f, x, 2));
        int64_t size = 3, failures = 0;
        for (bool failed = true; failed; size++) {
            rp_output *out = NULL;
            rp_value v = f32_of(x, 1, size, 0), args = rp_value_tuple(&v, 1);
            (void)base_alloc_fail_nth((uint64_t)size - 2);
            rp_status st = rp_jit_run(f, &args, &out, &err);
            failed = base_alloc_fail_nth(0);
            rp_output_free(out);
            failures += st != RP_OK;
            if (st != RP_OK) rp_output_free(call(f, y, size));
        }
        assert_true(failures > 0);
        rp_jit_free(f);
    }
}

/* Of one form, which is its sizes, each input stays where it was, unless nothing is read there. */
static void places_are_of_a_form_and_of_memory(void **state) {
    static float x[8], y[8];
    const rp_buffer kept[] = {f32_of(x, 1, 8, 0).tensor, f32_of(x, 2, 0, 4).tensor};
    const struct {
        rp_buffer in[2];
        const char *says;
    } is[] = {
        {{kept[0], kept[1]}, ""},
        {{f32_of(y, 1, 8, 0).tensor, kept[1]}, "input 0 of f is at "},
        {{kept[0], f32_of(y, 2, 0, 4).tensor}, ""}, /* empty */
        {{f32_of(y, 2, 8, 1).tensor, kept[1]}, ""}, /* other forms */
        {{f32_of(y, 1, 7, 0).tensor, kept[1]}, ""},
        {{f32_of(y, 1, 8, 0).tensor, f32_of(x, 2, 0, 3).tensor}, ""},
        {{f32_of(y + 4, 1, 8, 0).tensor, kept[1]}, "input 0 of f is at "},
    };
    rp_error err = {0};
    front_places *p = NULL;
    (void)state;
    CHECK_OK(front_places_new(2, &p, &err), &err);
    CHECK_OK(front_places_check(p, "f", kept, NULL, &err), &err);
    CHECK_OK(front_places_keep(p, kept, NULL, &err), &err);
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        rp_error why = {0};
        const rp_status st = front_places_check(p, "f", is[i].in, NULL, &why);
        assert_int_equal(st, *is[i].says ? RP_INVALID : RP_OK);
        if (strncmp(why.text, is[i].says, strlen(is[i].says)) != 0) fail_msg("%s", why.text);
    }
    front_places_free(p);
}

/* As many forms as a manager has graphs: those used last. */
static void places_are_a_bounded_number(void **state) {
    enum { FORMS = 3000 };
    size_t live = base_live();
    rp_error err = {0};
    front_places *p = NULL;
    float x[2];
    (void)state;
    CHECK_OK(front_places_new(1, &p, &err), &err);
    for (int64_t i = 0; i < FORMS; i++) {
        rp_buffer first = f32_of(x, 1, FORMS, 0).tensor, in = f32_of(x, 1, i, 0).tensor;
        CHECK_OK(front_places_check(p, "f", &in, NULL, &err), &err);
        CHECK_OK(front_places_keep(p, &in, NULL, &err), &err);
        CHECK_OK(front_places_keep(p, &first, NULL, &err), &err);
    }
    assert_true(base_live() - live <= 1024 + 1);
    for (int64_t i = FORMS; i >= FORMS - 1000; i--) {
        rp_buffer in = f32_of(x + 1, 1, i, 0).tensor;
        assert_int_equal(front_places_check(p, "f", &in, NULL, &err), RP_INVALID);
    }
    front_places_free(p);
    assert_int_equal(base_live(), live);
}

/* Each is a hint once; arguments from number 31 on share one. */
static void copies_are_told_by_number(void **state) {
    static const struct {
        uint32_t number;
        bool in, told;
    } all[] = {{40, true, true}, {31, true, false}, {0, true, true},  {0, true, false},
               {30, true, true}, {99, true, false}, {0, false, true}, {31, false, true}};
    float x[4] = {0};
    rp_error err = {0};
    rp_jit *f = NULL;
    const base_view v = {.at = (char *)x, .element = 4, .rank = 1, .dim = {2}, .stride = {8}};
    (void)state;
    CHECK_OK(make(NULL, "level=0", &f, &err), &err);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        base_buf heard;
        const front_copied c = {"it", RP_DTYPE_F32, all[i].in, all[i].number};
        heard_start(&heard, "perf_hints");
        front_tell_copy(f, &c, &v);
        if ((heard.len > 0) != all[i].told) fail_msg("%d: %s", (int)i, heard.data);
        if (heard.len)
            CHECK_HEARD(&heard, all[i].in ? ": 8 bytes are copied to dense memory"
                                          : ": 8 bytes are copied from dense memory");
        heard_done(&heard);
    }
    rp_jit_free(f);
}

/* A tensor's copies of about one size share a place: a quarter of a power of two further there is another. */
static void dense_copies_have_places_by_size(void **state) {
    static const size_t alike[][2] = {{1, 256},     {257, 512},   {1030, 1280},   {1281, 1536},
                                      {2049, 2560}, {4000, 4096}, {10241, 12288}, {0, 7}};
    const size_t live = base_live();
    rp_error err = {0};
    rp_device *d = NULL;
    front_dense own = {0};
    const void *before = NULL;
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    assert_false(front_dense_has(&own, NULL));
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        void *at[2], *other, *more;
        for (int k = 0; k < 2; k++) {
            CHECK_OK(front_dense_take(&own, d, 1, alike[i][k], &at[k], &err), &err);
            memset(at[k], 7, alike[i][k]);
            assert_true(front_dense_has(&own, at[k]));
        }
        assert_ptr_equal(at[0], at[1]);
        CHECK_OK(front_dense_take(&own, d, 2, alike[i][1], &other, &err), &err);
        assert_ptr_not_equal(at[0], other);
        CHECK_OK(front_dense_take(&own, d, 1, (alike[i][1] + 255) / 256 * 256 + 1, &more, &err),
                 &err);
        assert_ptr_not_equal(at[0], more);
        if (i + 1 < sizeof alike / sizeof *alike) assert_ptr_not_equal(at[0], before);
        before = at[0];
        assert_false(front_dense_has(&own, (char *)at[0] + 1));
    }
    void *none = NULL;
    assert_int_equal(front_dense_take(&own, d, 1, SIZE_MAX - 3, &none, &err), RP_NOMEM);
    assert_null(none);
    front_dense_done(&own);
    rp_device_close(d);
    assert_int_equal(base_live(), live);
}

/* What crosses lies side by side, without room for a result between. */
static int64_t gap;

static rp_status look(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)n_args, (void)err;
    gap = (const char *)args[1].data - (const char *)args[0].data;
    memcpy(args[2].data, args[0].data, N * sizeof(float));
    return RP_OK;
}

static rp_status looked_at(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    static rp_value out[2];
    rp_tensor x = rp_exp(rp_jit_tensor(call, &args->item[0])), y = rp_neg(x);
    rp_tensor both[] = {x, rp_tanh(x)};
    (void)user, (void)err;
    out[0] = rp_jit_value(call, y);
    x = rp_custom(rp_jit_graph(call), "modes::look", both, 2, RP_DTYPE_F32, rp_tensor_shape(y));
    out[1] = rp_jit_value(call, rp_mul_scalar(x, 2));
    *result = rp_value_tuple(out, 2);
    return RP_OK;
}

static void results_take_no_room_of_pieces(void **state) {
    const rp_op_desc d = {.size = sizeof d, .name = "modes::look", .n_results = 1, .cpu = look};
    rp_error err = {0};
    float x[N] = {0};
    (void)state;
    if (runs_elsewhere()) SKIP_TEST("the op is one of the host");
    CHECK_OK(rp_op_register(&d, &err), &err);
    rp_jit *f = jit_by(jit_options(looked_at),
                       "level=3 splitting_ops=modes::look cudagraph_copy_inputs=true "
                       "cudagraph_mode=PIECEWISE threads=1");
    for (int i = 0; i < 2; i++) rp_output_free(call(f, x, N));
    assert_int_equal(gap, 64);
    rp_jit_free(f);
}

static rp_status one_split_life(rp_error *err) {
    static const char *const settings[] = {"level=3", "splitting_ops=reprise::cumsum",
                                           "cudagraph_copy_inputs=true", "cudagraph_mode=PIECEWISE",
                                           "threads=1"};
    rp_jit *f = NULL;
    float total[N] = {0}, x[N] = {1, 2, 3, 4};
    rp_value v[] = {f32_of(total, 1, N, 0), f32_of(x, 1, N, 0)}, args = rp_value_tuple(v, 2);
    rp_jit_options o = jit_options(split);
    rp_compilation_config *c = rp_config_new();
    rp_status st = c ? RP_OK : RP_NOMEM;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && st == RP_OK; i++)
        st = rp_config_set(c, settings[i], err);
    o.config = c;
    v[0].state = true;
    if (st == RP_OK) st = rp_jit_new(&o, &f, err);
    for (int i = 0; i < 2 && st == RP_OK; i++) {
        rp_output *out = NULL;
        st = rp_jit_run(f, &args, &out, err);
        rp_output_free(out);
    }
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

/* A piece that cannot be made is freed with those in front of it. */
static void every_allocation_of_pieces_may_fail(void **state) {
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < 2; i++) CHECK_OK(one_split_life(&err), &err);
    jit_fail_each_allocation(one_split_life, 64);
}

/* --- names --------------------------------------------------------------------------------------- */

/* Fifty pieces are fifty functions of the manager, each of which has one form. */
static void pieces_are_no_forms_of_one_function(void **state) {
    static const int breaks = 50;
    rp_error err = {0};
    rp_jit *f = NULL;
    float x[N];
    base_buf told;
    rp_jit_options o = jit_options(halved);
    (void)state;
    o.mode = "reduce-overhead";
    o.user = (void *)(uintptr_t)&breaks;
    CHECK_OK(jit_of(o, "threads=1", &f, &err), &err);
    heard_start(&told, "");
    for (int i = 0; i < 3; i++) {
        fill(x, (float)i);
        rp_output *out = call(f, x, N);
        assert_true(is_halved(out, x, 50));
        rp_output_free(out);
    }
    if (told.data && strstr(told.data, "not captured")) fail_msg("%s", told.data);
    heard_done(&told);
    rp_jit_free(f);
}

/* A function's graph has its list on the channel as one of a model has. */
static void captured_lists_are_told(void **state) {
    float x[N];
    base_buf b;
    rp_error err = {0};
    rp_jit *f = NULL;
    (void)state;
    if (runs_elsewhere()) return; /* a GPU's driver captures what the queue is given */
    fill(x, 1);
    CHECK_OK(make("reduce-overhead", "level=2 threads=1", &f, &err), &err);
    heard_start(&b, "bytecode");
    for (int k = 0; k < 3; k++) rp_output_free(call(f, x, N));
    CHECK_HEARD(&b, "[bytecode] REPLAY LIST forward");
    CHECK_HEARD(&b, "[bytecode]    0 LAUNCH ");
    heard_done(&b);
    rp_jit_free(f);
}

/* Once, of what the user gave alone, however many graphs there are. */
static void absent_splitting_ops_are_told(void **state) {
    static const char told[] =
        "forward: splitting_ops: nosuch::op: no op of the graph has this name";
    float x[N];
    base_buf b;
    rp_error err = {0};
    rp_jit *f = NULL;
    (void)state;
    fill(x, 1);
    CHECK_OK(make(NULL, "level=3 threads=1 splitting_ops=nosuch::op,reprise::neg", &f, &err), &err);
    heard_start(&b, "");
    rp_output_free(call(f, x, N));
    rp_output_free(call(f, x, N - 1));
    CHECK_HEARD(&b, told);
    const char *first = strstr(b.data, told);
    assert_null(strstr(first + 1, told));
    assert_null(strstr(b.data, "reprise::neg: no op"));
    rp_jit_free(f);
    base_buf_clear(&b);
    CHECK_OK(make(NULL, "level=3 threads=1", &f, &err), &err);
    rp_output_free(call(f, x, N));
    assert_true(!b.data || !strstr(b.data, "splitting_ops"));
    heard_done(&b);
    rp_jit_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_lists_are_told),
        cmocka_unit_test(absent_splitting_ops_are_told),
        cmocka_unit_test(names_are_those_of_torch),
        cmocka_unit_test(modes_hold_the_options_that_are_given),
        cmocka_unit_test(max_autotune_measures),
        cmocka_unit_test(reduce_overhead_lends_its_results),
        cmocka_unit_test(symbols_are_measured_at_their_call),
        cmocka_unit_test(what_is_captured_is_not_told_otherwise),
        cmocka_unit_test(results_are_fed_back),
        cmocka_unit_test(run_into_copies),
        cmocka_unit_test(each_cudagraph_mode_captures_what_it_says),
        cmocka_unit_test(pieces_are_captured_between_splitting_ops),
        cmocka_unit_test(an_input_that_moved_is_an_error),
        cmocka_unit_test(a_call_that_failed_keeps_no_places),
        cmocka_unit_test(places_are_of_a_form_and_of_memory),
        cmocka_unit_test(places_are_a_bounded_number),
        cmocka_unit_test(copies_are_told_by_number),
        cmocka_unit_test(dense_copies_have_places_by_size),
        cmocka_unit_test(results_take_no_room_of_pieces),
        cmocka_unit_test(every_allocation_of_pieces_may_fail),
        cmocka_unit_test(pieces_are_no_forms_of_one_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
