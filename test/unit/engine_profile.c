/* Measuring a decode step: what is counted, what is refused, and that answers stay what they were. */
#include "support/check.h"

#include <jansson.h>
#include <math.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "model/llama.h"
#include "support/engines.h"

static const int32_t prompt[] = {7, 8, 9};

static json_t *profile_with(rp_engine *e, const rp_profile_options *o) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_engine_profile(e, o, &text, &err), &err);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    rp_engine_text_free(text);
    return j;
}

static json_t *profile(rp_engine *e, uint32_t steps, uint32_t context) {
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    o.steps = steps;
    o.context = context;
    return profile_with(e, &o);
}

static long long count(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static void everything_is_in_it_once(void **state) {
    size_t i, k;
    json_t *piece, *launch;
    long long launches = 0, pieces = 0, splitting = 0;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny,layers=5", (const char *[]){"level=3", NULL});
    json_t *o = profile(e, 2, 16);
    assert_int_equal(count(o, "steps"), 2);
    assert_int_equal(count(o, "context"), 16);
    json_array_foreach(json_object_get(o, "pieces"), i, piece) {
        pieces += count(piece, "count");
        if (json_is_true(json_object_get(piece, "splitting"))) splitting += count(piece, "count");
        json_array_foreach(json_object_get(piece, "launches"), k, launch)
            launches += count(launch, "count");
    }
    assert_int_equal(pieces, engine_count(e, "pieces.total") + 1); /* and the head */
    assert_int_equal(splitting, 5);
    assert_int_equal(launches, count(o, "launches"));
    json_decref(o);
    rp_engine_close(e);
}

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

/* A row's share is of all launches, and its rate is its bytes over its time. */
static void check_row(const json_t *row, double whole_ms) {
    const json_t *bytes = json_object_get(row, "bytes"), *rate = json_object_get(row, "gb_s");
    assert_true(near(number(row, "share"), number(row, "ms") / whole_ms));
    assert_int_equal(json_is_null(bytes), json_is_null(rate));
    if (json_is_number(rate)) /* bytes are told without their fraction */
        assert_true(fabs(number(row, "gb_s") * number(row, "ms") * 1e6 - number(row, "bytes")) <
                    1.5);
}

/* Times and bytes of launches make those of their piece, times of pieces those of the step. */
static void parts_add_up(void **state) {
    size_t i, k;
    json_t *piece, *launch;
    double whole = 0;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny,layers=5", (const char *[]){"level=3", NULL});
    const uint64_t start = base_now_ns();
    json_t *o = profile(e, 3, 16);
    const double elapsed = (double)(base_now_ns() - start) / 1e6;
    json_array_foreach(json_object_get(o, "pieces"), i, piece) {
        double ms = 0, bytes = 0;
        json_array_foreach(json_object_get(piece, "launches"), k, launch) {
            check_row(launch, number(o, "launches_ms"));
            ms += number(launch, "ms");
            bytes += number(launch, "bytes");
        }
        check_row(piece, number(o, "launches_ms"));
        assert_true(near(ms, number(piece, "ms")));
        assert_true(fabs(bytes - number(piece, "bytes")) <= (double)k + 1);
        whole += ms;
    }
    assert_true(near(whole, number(o, "launches_ms")));
    assert_true(number(o, "step_ms") > 0);
    /* Two of the three steps take the median or longer. */
    assert_true(number(o, "step_ms") * 2 <= elapsed);
    assert_true(number(o, "launches_ms") * 3 <= elapsed);
    json_decref(o);
    rp_engine_close(e);
}

/* Of packed weights, and of params that lie along an axis: what a step reads once. A table is read by rows that are not counted. */
static double weights_of(const plan *p) {
    const int64_t one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    double n = 0;
    for (uint32_t i = 0; i < p->n_packs; i++) n += (double)p->packs[i].size;
    for (uint32_t i = 0; i < p->n_params; i++)
        if (p->params[i].rank == 1) n += (double)plan_size_eval(&p->params[i].bytes, one);
    return n;
}

static double bytes_of(const json_t *o, bool splitting) {
    size_t i;
    json_t *piece;
    double n = 0;
    json_array_foreach(json_object_get(o, "pieces"), i, piece) {
        if (json_is_true(json_object_get(piece, "splitting")) == splitting)
            n += number(piece, "bytes");
    }
    return n;
}

/* Of more positions the same weights are read, and more of the cache: a key and a value a layer, KV head and position. */
static void only_attention_reads_more_of_a_longer_context(void **state) {
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny,layers=5", (const char *[]){"level=3", NULL});
    json_t *near_by = profile(e, 2, 10), *far = profile(e, 2, 50);
    const model_hparams *hp = model_source_hparams(e->source);
    double position = 2.0 * hp->n_layer * hp->n_head_kv * hp->head_dim *
                      (double)rp_dtype_block_bytes(model_kv_dtype(e->source, RP_NUMERICS_DEFAULT));
    assert_true(fabs(bytes_of(near_by, false) - weights_of(e->plans.model) -
                     weights_of(e->plans.head)) <= 20);
    assert_true(bytes_of(near_by, false) == bytes_of(far, false));
    /* after 10 positions: two steps of warming up, two as served, two by launches */
    assert_true(fabs(bytes_of(near_by, true) - (10 + 2 + 1.5 * 2) * position) <= 5);
    assert_true(fabs(bytes_of(far, true) - bytes_of(near_by, true) - 40 * position) <= 10);
    json_decref(near_by);
    json_decref(far);
    rp_engine_close(e);
}

/* What is read is set against what can be read, where that was asked for. */
static void check_limits(rp_engine *e, bool limited) {
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    size_t i, k, rows = 0;
    json_t *piece, *launch;
    o.steps = 2;
    o.read_limit = limited;
    json_t *j = profile_with(e, &o);
    const double limit = number(j, "read_limit_gb_s");
    assert_true(limited ? limit > 0 : json_is_null(json_object_get(j, "read_limit_gb_s")));
    json_array_foreach(json_object_get(j, "pieces"), i, piece) {
        json_array_foreach(json_object_get(piece, "launches"), k, launch) {
            const bool wanted = limited && !json_is_null(json_object_get(launch, "bytes"));
            assert_int_equal(json_is_real(json_object_get(launch, "of_limit")), wanted);
            if (wanted)
                assert_true(near(number(launch, "of_limit") * limit, number(launch, "gb_s")));
            rows += wanted;
        }
    }
    assert_int_equal(rows > 0, limited);
    json_decref(j);
}

static void rates_are_told_as_shares_of_the_read_limit(void **state) {
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny,layers=5", (const char *[]){"level=3", NULL});
    check_limits(e, true);
    check_limits(e, false);
    rp_engine_close(e);
}

/* The timeline has each launch once, in the order of the step, with the times that the pieces have. */
static void a_timeline_is_the_step_in_its_order(void **state) {
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    double ms = 0;
    size_t i, n;
    json_t *l;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny,layers=5", (const char *[]){"level=3", NULL});
    const plan *model = e->plans.model, *head = e->plans.head;
    o.steps = 2;
    o.timeline = true;
    json_t *j = profile_with(e, &o);
    json_array_foreach(json_object_get(j, "timeline"), i, l) {
        const plan_launch *want = i < model->n_launches ? &model->launches[i]
                                                        : &head->launches[i - model->n_launches];
        assert_string_equal(json_string_value(json_object_get(l, "name")), want->name);
        const plan *p = i < model->n_launches ? model : head;
        const uint32_t at = (uint32_t)(want - p->launches);
        const plan_piece *q = p->pieces;
        char piece[64];
        while (at >= q->first + q->n) q++;
        (void)snprintf(piece, sizeof piece, "%s.submod_%u", p->name, q->submod);
        assert_string_equal(json_string_value(json_object_get(l, "piece")), piece);
        ms += number(l, "ms");
    }
    n = json_array_size(json_object_get(j, "timeline"));
    assert_int_equal(n, count(j, "launches"));
    assert_true(near(ms, number(j, "launches_ms")));
    l = json_array_get(json_object_get(j, "timeline"), 0);
    assert_string_equal(json_string_value(json_object_get(l, "piece")), "model.submod_0");
    l = json_array_get(json_object_get(j, "timeline"), n - 1);
    assert_string_equal(json_string_value(json_object_get(l, "piece")), "head.submod_0");
    json_decref(j);
    j = profile(e, 2, 0);
    assert_null(json_object_get(j, "timeline"));
    json_decref(j);
    rp_engine_close(e);
}

static void answers_stay_what_they_were(void **state) {
    int32_t want[8], got[8];
    (void)state;
    for (int level = 0; level < 2; level++) {
        rp_engine *e = engine_must("synthetic:tiny", (const char *[]){level ? "level=3" : "level=0",
                                                                      "sealed=fatal", NULL});
        assert_int_equal(engine_greedy(e, prompt, 3, 8, want), 8);
        json_decref(profile(e, 3, 0));
        assert_int_equal(engine_greedy(e, prompt, 3, 8, got), 8);
        assert_memory_equal(got, want, sizeof got);
        rp_engine_close(e);
    }
}

static void refused(rp_engine *e, const rp_profile_options *o, rp_status code, const char *part) {
    rp_error err = {0};
    char *text = NULL;
    assert_int_equal(rp_engine_profile(e, o, &text, &err), code);
    assert_null(text);
    if (!strstr(err.text, part)) fail_msg("'%s' does not contain '%s'", err.text, part);
}

static void refuses_what_cannot_be_measured(void **state) {
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    rp_error err = {0};
    uint64_t id = 0;
    (void)state;
    rp_engine *e =
        engine_must("synthetic:tiny", (const char *[]){"level=0", "max_model_len=64", NULL});
    refused(NULL, &o, RP_INVALID, "engine or out is NULL");
    refused(e, NULL, RP_INVALID, "rp_profile_options");
    o.context = 128;
    refused(e, &o, RP_CONFIG, "want 195 positions; max_model_len 64 has room for 0");
    o.context = 0;
    o.steps = 31; /* 65 positions without any before */
    refused(e, &o, RP_CONFIG,
            "31 steps, each as served and launch by launch, after 1 positions and 2 "
            "steps to warm up want 66 positions; max_model_len 64 has room for 30");
    o.steps = 30; /* which have room behind one position, and behind no more */
    o.context = 2;
    refused(e, &o, RP_CONFIG, "want 65 positions");
    o.context = 0;
    json_t *j = profile(e, 30, 0);
    assert_int_equal(count(j, "context"), 1);
    json_decref(j);
    o.steps = RP_PROFILE_MAX_STEPS + 1;
    refused(e, &o, RP_CONFIG, "4097 steps to measure; at most 4096");
    r.prompt_ids = prompt;
    r.n_prompt_ids = 3;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    o.steps = 1;
    o.context = 8;
    refused(e, &o, RP_INVALID, "no requests under way");
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_in_it_once),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(only_attention_reads_more_of_a_longer_context),
        cmocka_unit_test(rates_are_told_as_shares_of_the_read_limit),
        cmocka_unit_test(a_timeline_is_the_step_in_its_order),
        cmocka_unit_test(answers_stay_what_they_were),
        cmocka_unit_test(refuses_what_cannot_be_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
