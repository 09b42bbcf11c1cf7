/* Synthetic models: what may be typed, shapes of known models, and weights that are the same
 * however they are asked for. */
#include "support/check.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "model/weights.h"

static model_source *open_spec(const char *spec) {
    rp_error err = {0};
    model_source *s = NULL;
    CHECK_OK(model_source_open_synthetic(spec, &s, &err), &err);
    return s;
}

static void refused(const char *spec, const char *part) {
    rp_error err = {0};
    model_source *s = NULL;
    assert_int_equal(model_source_open_synthetic(spec, &s, &err), RP_CONFIG);
    if (!strstr(err.text, part)) fail_msg("'%s' does not contain '%s'", err.text, part);
}

static void specs(void **state) {
    (void)state;
    static const struct {
        const char *spec, *name;
    } good[] = {
        {"synthetic:tiny", "synthetic:tiny,layers=2,dtype=q4_1,seed=0"},
        {"synthetic:tiny,seed=7,layers=5,dtype=f32", "synthetic:tiny,layers=5,dtype=f32,seed=7"},
        {"synthetic:llama-1b", "synthetic:llama-1b,layers=16,dtype=bf16,seed=0"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        model_source *s = open_spec(good[i].spec);
        assert_string_equal(model_source_name(s), good[i].name);
        model_source_free(s);
    }
    refused("synthetic:tinny", "did you mean 'tiny'");
    refused("synthetic:", "no synthetic model ''");
    refused("synthetic:tiny,", "'' is no option");
    refused("synthetic:tiny,layer=3", "did you mean 'layers'");
    refused("synthetic:tiny,layers", "'layers' has no value: write layers=N");
    refused("synthetic:tiny,dtype", "'dtype' has no value: write dtype=f32|bf16|q4_1");
    refused("synthetic:tiny,layer", "'layer' is no option, did you mean 'layers'");
    refused("synthetic:tiny,layers=0", "layers=0: expected 1 to 4096");
    refused("synthetic:tiny,layers=2x", "layers=2x");
    refused("synthetic:tiny,seed=-1", "seed=-1");
    refused("synthetic:tiny,dtype=f16", "dtype=f16: expected f32, bf16 or q4_1");
    refused(
        "synthetic:tiny,dtype=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "more than 63 characters");
    char part[80] = "synthetic:";
    const size_t from = strlen(part);
    memset(part + from, 'a', 63);
    refused(part, "no synthetic model 'aaa");
    part[from + 63] = 'a';
    refused(part, "more than 63 characters");
    refused("tiny", "starts with 'synthetic:'");
}

/* The published parameter counts of the models that the presets copy. */
static void parameter_counts(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint64_t n;
    } cases[] = {
        {"synthetic:smollm2-135m,dtype=f32", 134515008},
        {"synthetic:llama-1b", 1235814400 + 32},
        {"synthetic:llama-8b", 8030261248 + 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model_source *s = open_spec(cases[i].spec);
        uint64_t n = 0;
        for (size_t k = 0; k < model_source_n_tensors(s); k++) {
            model_tensor t = model_source_tensor_at(s, k);
            n += t.dims[0] * t.dims[1];
        }
        assert_int_equal(n, cases[i].n);
        model_source_free(s);
    }
}

static void rows_are_independent(void **state) {
    (void)state;
    static const char *const specs_of[] = {
        "synthetic:tiny", "synthetic:tiny,dtype=bf16", "synthetic:tiny,dtype=f32",
        "synthetic:smollm2-135m,layers=1", "synthetic:llama-1b,layers=1"};
    for (size_t i = 0; i < sizeof specs_of / sizeof specs_of[0]; i++) {
        rp_error err = {0};
        model_source *s = open_spec(specs_of[i]);
        for (size_t k = 0; k < model_source_n_tensors(s); k++) {
            const uint8_t *all = NULL;
            uint8_t row[65536];
            model_tensor t = model_source_tensor_at(s, k);
            size_t row_size = t.size / (size_t)t.dims[1];
            if (t.size > (64u << 20)) continue; /* an embedding of 500 MB proves no more */
            assert_true(row_size <= sizeof row);
            CHECK_OK(model_source_data(s, k, &all, &err), &err);
            for (uint64_t r = 0; r < t.dims[1]; r += t.dims[1] / 3 + 1) {
                CHECK_OK(model_source_rows(s, k, r, 1, row, &err), &err);
                assert_memory_equal(row, all + r * row_size, row_size);
            }
            assert_int_equal(model_source_rows(s, k, t.dims[1], 1, row, NULL), RP_INVALID);
            assert_int_equal(model_source_rows(s, k, t.dims[1] + 2, 1, row, NULL), RP_INVALID);
            model_source_release(s, k);
        }
        model_source_free(s);
    }
}

typedef struct asked {
    atomic_int times;
    int until; /* then it is not wanted any more */
} asked;

static bool still_wanted(void *user) {
    asked *a = user;
    return atomic_fetch_add(&a->times, 1) < a->until;
}

/* The same bytes by any number of threads; ended at each moment, nothing is kept and the next call makes it. */
static void tensors_are_made_by_threads_and_can_be_cancelled(void **state) {
    static const char spec[] = "synthetic:smollm2-135m,layers=1,dtype=q4_1";
    rp_error err = {0};
    asked all = {.until = INT_MAX};
    model_source *one = open_spec(spec);
    const uint8_t *want = NULL, *have = NULL;
    model_tensor t;
    (void)state;
    CHECK_OK(model_source_tensor(one, "token_embd.weight", &t, &err), &err);
    model_source_make_with(one, &(model_making){1, still_wanted, &all});
    CHECK_OK(model_source_data(one, t.idx, &want, &err), &err);
    const int parts = atomic_load(&all.times);
    assert_in_range(parts, 8, 64);
    for (int n = 0; n <= parts; n += 4) {
        asked a = {.until = n};
        model_source *s = open_spec(spec);
        model_source_make_with(s, &(model_making){1 + (uint32_t)n / 4 % 4, still_wanted, &a});
        err = (rp_error){0};
        rp_status st = model_source_data(s, t.idx, &have, &err);
        assert_int_equal(st, n < parts ? RP_CANCELLED : RP_OK);
        assert_in_range(atomic_load(&a.times), n < parts ? n + 1 : n, n + 4);
        a.until = INT_MAX;
        err = (rp_error){0};
        CHECK_OK(model_source_data(s, t.idx, &have, &err), &err);
        assert_memory_equal(have, want, t.size);
        model_source_free(s);
    }
    model_source_free(one);
}

static double f16(uint16_t h) {
    int exponent = h >> 10 & 31;
    double v = ldexp(exponent ? 1024 + (h & 1023) : h & 1023, (exponent ? exponent : 1) - 25);
    return h & 0x8000 ? -v : v;
}

/* Mean and deviation of a tensor; by hand, since what a block means is not this room's. */
static void moments(const model_tensor *t, const uint8_t *p, double *mean, double *deviation) {
    double sum = 0, squares = 0, n = 0;
    for (size_t at = 0; at < t->size;) {
        double v[32];
        int k = 0;
        if (t->type == RP_DTYPE_Q4_1) {
            uint16_t d, m;
            memcpy(&d, p + at, 2);
            memcpy(&m, p + at + 2, 2);
            for (int i = 0; i < 16; i++) v[k++] = f16(d) * (p[at + 4 + i] & 15) + f16(m);
            for (int i = 0; i < 16; i++) v[k++] = f16(d) * (p[at + 4 + i] >> 4) + f16(m);
            at += 20;
        } else if (t->type == RP_DTYPE_Q8_0) {
            uint16_t d;
            memcpy(&d, p + at, 2);
            for (int i = 0; i < 32; i++) v[k++] = f16(d) * (int8_t)p[at + 2 + i];
            at += 34;
        } else {
            uint32_t bits = 0;
            float f;
            memcpy((char *)&bits + (t->type == RP_DTYPE_BF16 ? 2 : 0), p + at,
                   t->type == RP_DTYPE_BF16 ? 2 : 4);
            memcpy(&f, &bits, 4);
            v[k++] = (double)f;
            at += t->type == RP_DTYPE_BF16 ? 2 : 4;
        }
        for (int i = 0; i < k; i++) sum += v[i], squares += v[i] * v[i], n++;
    }
    *mean = sum / n;
    *deviation = sqrt(squares / n - *mean * *mean);
}

static void weights_have_the_right_size(void **state) {
    (void)state;
    static const char *const specs_of[] = {"synthetic:smollm2-135m,layers=1",
                                           "synthetic:smollm2-135m,layers=1,dtype=bf16",
                                           "synthetic:smollm2-135m,layers=1,dtype=f32"};
    for (size_t i = 0; i < 3; i++) {
        rp_error err = {0};
        model_source *s = open_spec(specs_of[i]);
        static const struct {
            const char *name;
            double deviation;
        } want[] = {{"blk.0.attn_q.weight", 1.0 / 24}, {"token_embd.weight", 4.0 / 24}};
        for (size_t k = 0; k < 2; k++) {
            model_tensor t;
            const uint8_t *data = NULL;
            double mean, deviation;
            CHECK_OK(model_source_tensor(s, want[k].name, &t, &err), &err);
            CHECK_OK(model_source_data(s, t.idx, &data, &err), &err);
            moments(&t, data, &mean, &deviation);
            assert_true(fabs(mean) < 0.01 * want[k].deviation);
            assert_true(fabs(deviation - want[k].deviation) < 0.03 * want[k].deviation);
            model_source_release(s, t.idx);
        }
        model_source_free(s);
    }
}

static void seeds_and_hashes(void **state) {
    (void)state;
    rp_error err = {0};
    model_source *a = open_spec("synthetic:tiny"), *b = open_spec("synthetic:tiny,seed=1");
    model_source *c = open_spec("synthetic:tiny,layers=3");
    model_tensor t;
    const uint8_t *pa = NULL, *pb = NULL, *pc = NULL;
    CHECK_OK(model_source_tensor(a, "blk.1.ffn_up.weight", &t, &err), &err);
    CHECK_OK(model_source_data(a, t.idx, &pa, &err), &err);
    CHECK_OK(model_source_data(b, t.idx, &pb, &err), &err);
    CHECK_OK(model_source_data(c, t.idx, &pc, &err), &err);
    assert_memory_not_equal(pa, pb, t.size);
    assert_memory_equal(pa, pc, t.size);
    base_hash128 ha = model_source_tensor_hash(a, t.idx), hb = model_source_tensor_hash(b, t.idx);
    base_hash128 hc = model_source_tensor_hash(c, t.idx);
    assert_true(ha.lo != hb.lo && ha.lo == hc.lo && ha.hi == hc.hi);
    assert_true(model_source_meta_hash(a).lo != model_source_meta_hash(c).lo);
    /* no two tensors of a model are alike */
    for (size_t i = 0; i < model_source_n_tensors(a); i++)
        for (size_t k = 0; k < i; k++)
            assert_true(model_source_tensor_hash(a, i).lo != model_source_tensor_hash(a, k).lo);
    assert_int_equal(model_source_tensor(a, "blk.2.ffn_up.weight", &t, &err), RP_NOT_FOUND);
    assert_non_null(strstr(err.text, "there is no tensor 'blk.2.ffn_up.weight'"));
    /* pinned: a change of the generator must change its name, or caches keep stale weights */
    assert_int_equal(base_hash(pa, 64 * 160 / 32 * 20).lo, 0x4528420e5403ad63);
    model_source_free(a);
    model_source_free(b);
    model_source_free(c);
}

static void slots_are_found_by_name(void **state) {
    (void)state;
    model_source *s = open_spec("synthetic:llama-8b");
    const model_hparams *hp = model_source_hparams(s);
    size_t idx = 0;
    for (size_t i = 0; i < model_n_slots(hp); i++) {
        assert_true(model_slot_find(hp, base_str_of(model_slot_at(hp, i).name), &idx));
        assert_int_equal(idx, i);
    }
    static const char *const none[] = {"",
                                       "blk.",
                                       "blk.32.attn_q.weight",
                                       "blk.00.attn_q.weight",
                                       "blk.4294967296.attn_q.weight",
                                       "blk.0.attn_q.bias",
                                       "token_embd"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(model_slot_find(hp, base_str_of(none[i]), &idx));
    /* Layers of one to four digits. */
    static const uint32_t layers[] = {1, 9, 10, 11, 99, 100, 101, 126, 1001, 4096};
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        model_hparams more = *hp;
        more.n_layer = layers[k];
        for (size_t i = 0; i < model_n_slots(&more); i++) {
            const model_slot slot = model_slot_at(&more, i);
            if (!model_slot_find(&more, base_str_of(slot.name), &idx) || idx != i)
                fail_msg("%s of %u layers", slot.name, layers[k]);
        }
    }
    model_source_free(s);
}

static void llama3_rope_factors(void **state) {
    (void)state;
    rp_error err = {0};
    model_source *s = open_spec("synthetic:llama-1b,layers=1");
    model_tensor t;
    const float *f = NULL;
    const uint8_t *data = NULL;
    CHECK_OK(model_source_tensor(s, "rope_freqs.weight", &t, &err), &err);
    CHECK_OK(model_source_data(s, t.idx, &data, &err), &err);
    f = (const float *)(const void *)data;
    /* As the 1B of Llama 3.2 has them: three are between what stays and what is stretched. */
    static const float between[] = {1.65132925f, 3.29226210f, 9.66672898f};
    for (int i = 0; i < 32; i++) {
        float want = i < 15 ? 1.0f : i < 18 ? between[i - 15] : 32.0f;
        if (fabsf(f[i] - want) > want * 1e-6f)
            fail_msg("%d: %.9g, not %.9g", i, (double)f[i], (double)want);
    }
    model_source_free(s);
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    size_t before = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        model_source *s = NULL;
        const uint8_t *data = NULL;
        rp_status st = model_source_open_synthetic("synthetic:tiny", &s, NULL);
        if (st == RP_OK) st = model_source_data(s, 3, &data, NULL);
        assert_true(st == RP_OK || st == RP_NOMEM);
        model_source_free(s);
        assert_int_equal(base_live(), before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs),
        cmocka_unit_test(tensors_are_made_by_threads_and_can_be_cancelled),
        cmocka_unit_test(parameter_counts),
        cmocka_unit_test(rows_are_independent),
        cmocka_unit_test(weights_have_the_right_size),
        cmocka_unit_test(seeds_and_hashes),
        cmocka_unit_test(slots_are_found_by_name),
        cmocka_unit_test(llama3_rope_factors),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
