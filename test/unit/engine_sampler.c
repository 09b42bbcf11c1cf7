/* The sampler against brute force, and the generator against its published vectors. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "engine/logits.h"
#include "engine/sampler.h"

enum { V = 203 };

static engine_sampler *make(uint32_t n) {
    engine_sampler *s = NULL;
    rp_error err = {0};
    CHECK_OK(engine_sampler_new(n, &s, &err), &err);
    return s;
}

/* Few distinct values, so that ties happen. */
static void random_logits(float *x, uint32_t n, uint64_t seed) {
    for (uint32_t i = 0; i < n; i++)
        x[i] = floorf((float)(base_philox_bits(seed, i) >> 11) * 0x1p-47f) / 8.0f;
}

static int32_t pick(engine_sampler *s, const engine_sampling *p, const float *x, uint64_t step) {
    int32_t token = -1;
    rp_error err = {0};
    CHECK_OK(engine_sampler_pick(s, p, x, step, &token, &err), &err);
    return token;
}

static void philox_matches_random123(void **state) {
    (void)state;
    static const struct {
        uint32_t key[2], counter[4], want[4];
    } kat[] = {{{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
               {{0xffffffff, 0xffffffff},
                {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
               {{0xa4093822, 0x299f31d0},
                {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        uint32_t out[4];
        base_philox(kat[i].key, kat[i].counter, out);
        assert_memory_equal(out, kat[i].want, sizeof out);
    }
}

/* The order of a sum of weights is its definition, which kernels have, too: blocks of 256, each by eight lanes, then what is left. */
static void sums_have_an_order(void **state) {
    static const uint32_t sizes[] = {0, 1, 8, 255, 256, 257, 511, 512, 513, 768, 1023, 1024};
    float w[1024];
    (void)state;
    for (uint32_t i = 0; i < 1024; i++)
        w[i] = (float)(base_philox_bits(7, i) >> 40) * (i % 5 ? 1e-9f : 1.0f);
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        const uint32_t n = sizes[c], whole = n / 256 * 256;
        double sum = 0, rest = 0;
        for (uint32_t block = 0; block < whole; block += 256) {
            double of_block = 0;
            for (uint32_t lane = 0; lane < 8; lane++) {
                double of_lane = 0;
                for (uint32_t i = lane; i < 256; i += 8) of_lane += (double)w[block + i];
                of_block += of_lane;
            }
            sum += of_block;
        }
        for (uint32_t i = whole; i < n; i++) rest += (double)w[i];
        const double want = sum + rest, is = engine_logits_sum(w, n);
        assert_memory_equal(&is, &want, sizeof is);
    }
}

static void greedy_takes_the_first_of_equals(void **state) {
    (void)state;
    engine_sampling p = ENGINE_SAMPLING_GREEDY;
    for (uint32_t n = 1; n < 70; n++) {
        engine_sampler *s = make(n);
        float x[70];
        for (uint64_t seed = 0; seed < 20; seed++) {
            uint32_t best = 0;
            random_logits(x, n, seed * 100 + n);
            if (seed % 3 == 0) x[n / 2] = -INFINITY;
            if (n == 1) x[0] = -3;
            for (uint32_t i = 1; i < n; i++)
                if (x[i] > x[best]) best = i;
            assert_int_equal(pick(s, &p, x, 0), best);
        }
        engine_sampler_free(s);
    }
}

/* The vectorised passes against plain loops, around the sizes of their blocks. */
static void passes_equal_plain_loops(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 7, 255, 256, 257, 511, 512, 1000};
    static float x[1000], w[1000];
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++) {
        uint32_t n = sizes[c], at, want = 0;
        double sum = 0, cum = 0;
        float top;
        random_logits(x, n, c);
        for (uint32_t i = 0; i < n; i++) x[i] = (x[i] - 4) * (i % 3 ? 1.0f : -9.7f);
        if (n > 300) x[1] = -0.0f, x[300] = -INFINITY;
        for (uint32_t i = 1; i < n; i++)
            if (x[i] > x[want]) want = i;
        assert_true(engine_logits_best(x, n, &top, &at));
        assert_int_equal(at, want);
        assert_true(top == x[want]);
        engine_logits_weights(x, n, top, 0.7, w);
        for (uint32_t i = 0; i < n; i++) {
            double e = ((double)x[i] - (double)top) / 0.7, exact = exp(e);
            if (e < -79)
                assert_true((double)w[i] < 1e-34);
            else
                assert_true(fabs((double)w[i] - exact) <= exact * (3e-7 + 2e-7 * -e));
            sum += (double)w[i];
        }
        assert_true(w[want] == 1);
        assert_true(fabs(engine_logits_sum(w, n) - sum) < 1e-12 * sum);
        for (uint32_t i = 0; i < n; i++) {
            if (w[i] > 1e-6f * (float)sum)
                assert_int_equal(engine_logits_draw(w, n, (cum + 0.5 * (double)w[i]) / sum), i);
            cum += (double)w[i];
        }
        assert_true(w[engine_logits_draw(w, n, 1 - 0x1p-53)] > 0);
        for (uint32_t i = 0; i < n; i += 1 + n / 9) {
            float keep = x[i];
            x[i] = NAN;
            assert_false(engine_logits_best(x, n, &top, &at));
            x[i] = -x[i]; /* sign bit set */
            assert_false(engine_logits_best(x, n, &top, &at));
            x[i] = INFINITY;
            assert_false(engine_logits_best(x, n, &top, &at));
            x[i] = keep;
        }
        for (uint32_t i = 0; i < n; i++) x[i] = i % 2 ? 0.0f : -0.0f; /* equal: the first */
        assert_true(engine_logits_best(x, n, &top, &at));
        assert_int_equal(at, 0);
    }
}

/* Whole blocks go through the widest registers there are, less than one never does: the bits are the same. */
static void wide_registers_change_no_bit(void **state) {
    enum { N = 2048, STEP = 255 };
    static float x[N], whole[N], parts[N];
    float top;
    uint32_t at;
    (void)state;
    for (size_t seed = 0; seed < 20; seed++) {
        random_logits(x, N, seed);
        for (uint32_t i = 0; i < N; i++) x[i] = (x[i] - 4) * (i % 3 ? 1.0f : -9.7f);
        assert_true(engine_logits_best(x, N, &top, &at));
        engine_logits_weights(x, N, top, 0.3 + (double)seed, whole);
        for (uint32_t i = 0; i < N; i += STEP)
            engine_logits_weights(x + i, N - i < STEP ? N - i : STEP, top, 0.3 + (double)seed,
                                  parts + i);
        assert_memory_equal(whole, parts, sizeof whole);
    }
}

static void garbage_logits_are_named(void **state) {
    (void)state;
    engine_sampling p = ENGINE_SAMPLING_GREEDY;
    engine_sampler *s = make(V);
    float x[V];
    int32_t token = -7;
    for (int sampled = 0; sampled < 2; sampled++) {
        static const float bad[] = {NAN, INFINITY};
        p.temperature = sampled;
        for (int b = 0; b < 2; b++)
            for (uint32_t at = 0; at < V; at += 17) {
                rp_error err = {0};
                char want[32];
                random_logits(x, V, at);
                x[at] = bad[b];
                assert_int_equal(engine_sampler_pick(s, &p, x, 0, &token, &err), RP_INTERNAL);
                (void)snprintf(want, sizeof want, "token %u is", at);
                assert_non_null(strstr(err.text, want));
            }
        for (uint32_t i = 0; i < V; i++) x[i] = -INFINITY;
        assert_int_equal(engine_sampler_pick(s, &p, x, 0, &token, NULL), RP_INTERNAL);
    }
    assert_int_equal(token, -7);
    engine_sampler_free(s);
}

/* The set that may be drawn from, by sorting everything; p[] gets its probabilities. */
static void reference(const float *x, uint32_t n, const engine_sampling *sp, double *p) {
    uint32_t order[V], k = n;
    double sum = 0, cum = 0;
    float top = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = i;
        for (; j > 0 && x[order[j - 1]] < x[i]; j--) order[j] = order[j - 1];
        order[j] = i;
        if (x[i] > top) top = x[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        p[i] = exp(((double)x[i] - (double)top) / sp->temperature);
        if (p[i] < sp->min_p) p[i] = 0;
    }
    if (sp->top_k > 0 && (uint32_t)sp->top_k < n) k = (uint32_t)sp->top_k;
    for (uint32_t i = k; i < n; i++) p[order[i]] = 0;
    for (uint32_t i = 0; i < n; i++) sum += p[i];
    for (uint32_t i = 0; i < n; i++) {
        if (cum >= sp->top_p * sum && i > 0) p[order[i]] = 0;
        cum += p[order[i]];
    }
    sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += p[i];
    for (uint32_t i = 0; i < n; i++) p[i] /= sum;
}

static void draws_follow_the_distribution(void **state) {
    (void)state;
    static const engine_sampling cases[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.5, .top_p = 1},
        {.temperature = 3, .top_p = 1},
        {.temperature = 1, .top_p = 1, .top_k = 5},
        {.temperature = 2, .top_p = 1, .top_k = 1},
        {.temperature = 2, .top_p = 1, .top_k = 1000},
        {.temperature = 2, .top_p = 0.7, .top_k = -1},
        {.temperature = 2, .top_p = 0.01},
        {.temperature = 2, .top_p = 0.8, .top_k = 40},
        {.temperature = 2, .top_p = 1, .min_p = 0.3},
        {.temperature = 2, .top_p = 0.9, .min_p = 0.2, .top_k = 30},
        {.temperature = 2, .top_p = 0.9, .min_p = 0.2},
        {.temperature = 1, .top_p = 1, .min_p = 0.5, .top_k = 30}, /* which leaves fewer */
        {.temperature = 1, .top_p = 0.5, .min_p = 0.5, .top_k = 30},
        {.temperature = 2, .top_p = 1, .min_p = 1},
        {.temperature = 1e-4, .top_p = 1},
        {.temperature = 1e-300, .top_p = 0.5, .top_k = 1},
        {.temperature = 1e6, .top_p = 1},
    };
    enum { DRAWS = 20000 };
    engine_sampler *s = make(V);
    float x[V];
    double p[V];
    random_logits(x, V, 11);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t hits[V] = {0};
        double chi = 0;
        int cells = 0;
        reference(x, V, &cases[c], p);
        for (uint64_t i = 0; i < DRAWS; i++) hits[pick(s, &cases[c], x, i)]++;
        for (uint32_t i = 0; i < V; i++) {
            double want = p[i] * DRAWS;
            if (p[i] == 0) assert_int_equal(hits[i], 0);
            if (want < 5) continue;
            chi += ((double)hits[i] - want) * ((double)hits[i] - want) / want;
            cells++;
        }
        /* 5 standard deviations of chi square. */
        if (chi > cells + 5 * sqrt(2.0 * cells) + 5)
            fail_msg("case %zu: chi square %g for %d cells", c, chi, cells);
    }
    engine_sampler_free(s);
}

static void ties_at_the_cut_keep_lower_ids(void **state) {
    (void)state;
    engine_sampler *s = make(6);
    const float x[6] = {0, 2, 2, 2, 2, 0};
    engine_sampling p = {.temperature = 1, .top_p = 1, .top_k = 2};
    for (uint64_t i = 0; i < 500; i++) assert_in_range(pick(s, &p, x, i), 1, 2);
    engine_sampler_free(s);
}

static void draw_depends_on_seed_and_step_alone(void **state) {
    (void)state;
    engine_sampler *a = make(V), *b = make(V);
    float x[V], y[V];
    engine_sampling p = {.temperature = 1.5, .top_p = 0.95, .seed = 42};
    int32_t first[50];
    int same_other_seed = 0;
    random_logits(x, V, 5);
    random_logits(y, V, 6);
    for (uint64_t i = 0; i < 50; i++) first[i] = pick(a, &p, x, i);
    for (uint64_t i = 50; i-- > 0;) {
        (void)pick(b, &p, y, i + 1000); /* other work in between */
        assert_int_equal(pick(b, &p, x, i), first[i]);
    }
    p.seed = (uint64_t)42 << 32;
    for (uint64_t i = 0; i < 50; i++) same_other_seed += pick(a, &p, x, i) == first[i];
    assert_true(same_other_seed < 25);
    engine_sampler_free(a);
    engine_sampler_free(b);
}

static void logprobs_and_top_are_of_raw_logits(void **state) {
    (void)state;
    engine_sampler *s = make(V);
    float x[V], top[10];
    int32_t ids[10], all[V];
    double sum = 0, lp[V];
    random_logits(x, V, 9);
    x[3] = -INFINITY;
    for (int i = 0; i < V; i++) sum += exp((double)x[i]);
    for (int i = 0; i < V; i++) all[i] = V - 1 - i;
    engine_sampler_logprobs(s, x, all, V, lp);
    for (int i = 0; i < V; i++) {
        int32_t t = all[i];
        assert_true(t == 3 ? isinf(lp[i]) : fabs(lp[i] - ((double)x[t] - log(sum))) < 1e-12);
        assert_true(lp[i] == engine_sampler_logprob(s, x, t));
    }
    assert_int_equal(engine_sampler_top(s, x, 10, ids, top), 10);
    for (int i = 0; i < 10; i++) {
        uint32_t ahead = 0;
        assert_true(top[i] == x[ids[i]]);
        for (int j = 0; j < V; j++) ahead += x[j] > x[ids[i]] || (x[j] == x[ids[i]] && j < ids[i]);
        assert_int_equal(ahead, i);
    }
    engine_sampler_free(s);
    s = make(4);
    assert_int_equal(engine_sampler_top(s, x, 10, ids, top), 4);
    engine_sampler_free(s);
}

static void values_out_of_range_are_named(void **state) {
    (void)state;
    static const struct {
        engine_sampling s;
        const char *name;
    } bad[] = {{{.temperature = -1, .top_p = 1}, "temperature"},
               {{.temperature = NAN, .top_p = 1}, "temperature"},
               {{.top_p = 0}, "top_p"},
               {{.top_p = 1.5}, "top_p"},
               {{.top_p = 1, .min_p = 2}, "min_p"},
               {{.top_p = 1, .top_k = -2}, "top_k"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rp_error err = {0};
        assert_int_equal(engine_sampling_check(&bad[i].s, &err), RP_CONFIG);
        assert_non_null(strstr(err.text, bad[i].name));
    }
}

static void sampling_does_not_allocate(void **state) {
    (void)state;
    engine_sampler *s = make(V);
    engine_sampling p = {.temperature = 1, .top_p = 0.9, .top_k = 50, .min_p = 0.01};
    float x[V];
    random_logits(x, V, 3);
    uint64_t before = base_alloc_count();
    for (uint64_t i = 0; i < 100; i++) (void)pick(s, &p, x, i);
    assert_int_equal(base_alloc_count(), before);
    engine_sampler_free(s);
    rp_status st = RP_NOMEM;
    FOR_EACH_ALLOC_FAILURE (n) {
        s = NULL;
        st = engine_sampler_new(V, &s, NULL);
        assert_true(st == RP_OK || (st == RP_NOMEM && !s));
        engine_sampler_free(s);
        assert_int_equal(base_live(), 0);
    }
    assert_int_equal(st, RP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_matches_random123),
        cmocka_unit_test(greedy_takes_the_first_of_equals),
        cmocka_unit_test(passes_equal_plain_loops),
        cmocka_unit_test(sums_have_an_order),
        cmocka_unit_test(wide_registers_change_no_bit),
        cmocka_unit_test(garbage_logits_are_named),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(ties_at_the_cut_keep_lower_ids),
        cmocka_unit_test(draw_depends_on_seed_and_step_alone),
        cmocka_unit_test(logprobs_and_top_are_of_raw_logits),
        cmocka_unit_test(values_out_of_range_are_named),
        cmocka_unit_test(sampling_does_not_allocate),
    };
    return cmocka_run_group_tests_name("engine_sampler", tests, NULL, NULL);
}
