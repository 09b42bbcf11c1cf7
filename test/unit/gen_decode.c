/* The CUDA template of a decode step: tiles that fit, launches as the template expects them, packing, and that it compiles
 * for sm_90a where NVRTC is found. What it computes is checked on a GPU by bench/gpu/step. */
#include "support/check.h"

#include "base/alloc.h"
#include "gen/decode.h"
#include "hal/cuda/code.h"

enum { N_SM = 132, MAX_SHARED = 227 << 10 };

static const gen_decode shapes[] = {
    {.s = {30, 576, 9, 3, 64, 1536, 49152, .max_blocks = 68, .eps = 1e-5f}},
    {.s = {16, 2048, 32, 8, 64, 8192, 128256, .max_blocks = 68, .eps = 1e-5f}},
    {.s = {32, 4096, 32, 8, 128, 14336, 128256, .max_blocks = 68, .eps = 1e-5f}},
    {.s = {1, 64, 2, 1, 32, 96, 100, .max_blocks = 4, .eps = 1e-5f, .rope_neighbours = true}}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static gen_decode fitted(size_t shape, uint32_t batch) {
    gen_decode d = shapes[shape];
    rp_error err = {0};
    d.batch = batch;
    CHECK_OK(gen_decode_fit(&d, N_SM, MAX_SHARED, &err), &err);
    return d;
}

static void every_shape_fits(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (uint32_t batch = 1; batch <= GEN_DECODE_MAX_BATCH; batch++) {
            gen_decode d = fitted(s, batch);
            for (unsigned k = 0; k < GEN_STEP_KERNELS_; k++) {
                gen_step_launch l = gen_decode_launch_of(&d, k);
                assert_true(l.shared <= MAX_SHARED && l.threads <= 512 && l.threads % 32 == 0);
                assert_true(k >= GEN_STEP_MATRICES_ || l.grid[0] <= N_SM);
            }
        }
}

/* The tiles that were measured to be the fastest. */
static void tiles_of_1b_are_the_measured_ones(void **state) {
    gen_decode d = fitted(1, 1);
    (void)state;
    assert_int_equal(d.tile[GEN_STEP_QKV].rows, 8);
    assert_int_equal(d.tile[GEN_STEP_QKV].blocks, 128);
    assert_int_equal(d.tile[GEN_STEP_O].blocks, 128);
    assert_int_equal(d.tile[GEN_STEP_UP].blocks, N_SM);
    assert_int_equal(d.tile[GEN_STEP_DOWN].blocks, 128);
    assert_int_equal(d.tile[GEN_STEP_HEAD].blocks, N_SM);
    assert_int_equal(d.attention.splits, 16);
    assert_int_equal(d.attention.warps, 4);
    assert_int_equal(d.tile[GEN_STEP_QKV].slots, 3); /* all of them */
    assert_int_equal(d.tile[GEN_STEP_O].slots, 2);
    assert_int_equal(d.tile[GEN_STEP_UP].slots, 3);
    assert_int_equal(d.tile[GEN_STEP_UP].cap, 1);
    d = fitted(1, 8);
    assert_int_equal(d.tile[GEN_STEP_QKV].cap, 1);
    assert_int_equal(d.tile[GEN_STEP_DOWN].cap, 1);
    assert_int_equal(d.tile[GEN_STEP_UP].slots, 4);
    assert_int_equal(d.tile[GEN_STEP_UP].group, 1);
    assert_int_equal(d.attention.splits, 2);
    assert_int_equal(d.attention.warps, 9);
}

static void what_does_not_fit_is_refused(void **state) {
    rp_error err = {0};
    gen_decode d = shapes[0];
    (void)state;
    d.batch = 9;
    assert_int_equal(gen_decode_fit(&d, N_SM, MAX_SHARED, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "decode step: 9 sequences; 1 to 8 are possible");
    d = shapes[0];
    d.batch = 1;
    d.s.hidden = 577;
    err = (rp_error){0};
    assert_int_equal(gen_decode_fit(&d, N_SM, MAX_SHARED, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "step: hidden size 577 is no multiple of 32");
    d = fitted(1, 1);
    d.tile[GEN_STEP_UP].slots = 100;
    err = (rp_error){0};
    assert_int_equal(gen_decode_check(&d, MAX_SHARED, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "decode step, up: "));
}

/* Every row of the model is packed once. */
static void packed_rows_are_a_permutation(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        gen_decode d = fitted(s, 1);
        for (int i = 0; i < GEN_STEP_MATRICES_; i++) {
            gen_step_matrix m = (gen_step_matrix)i;
            uint32_t n = gen_decode_rows(&d, m), n_real = 0;
            unsigned char *seen = base_alloc(n);
            for (uint32_t p = 0; p < n; p++) {
                uint32_t row = gen_decode_row(&d, m, p);
                if (row == UINT32_MAX) continue;
                assert_true(row < n && !seen[row]);
                seen[row] = 1;
                n_real++;
            }
            assert_int_equal(n_real, m == GEN_STEP_HEAD ? d.s.vocab : n);
            base_free(seen);
        }
    }
}

/* Where the template looks for row r, element k: see "Matrices" at its head. */
static uint16_t packed_at(const uint16_t *p, uint32_t rows, uint32_t k_all, uint32_t r,
                          uint32_t k) {
    uint32_t unit = r / rows, half = r % rows / 8, lane = r % 8 * 4 + k % 32 / 8;
    size_t at = (size_t)unit * (k_all / 32) + k / 32;
    return p[((at * (rows / 8) + half) * 32 + lane) * 8 + k % 8];
}

static void packing_is_what_the_template_reads(void **state) {
    gen_decode d = fitted(3, 1);
    (void)state;
    for (int i = 0; i < GEN_STEP_MATRICES_; i++) {
        gen_step_matrix m = (gen_step_matrix)i;
        uint32_t k = gen_step_k(&d.s, m), n = gen_decode_rows(&d, m);
        uint16_t *w = base_alloc_array((size_t)n * k, 2), *p = base_alloc(gen_decode_bytes(&d, m));
        for (uint32_t e = 0; e < n * k; e++) w[e] = (uint16_t)(e * 40503u + 7);
        memset(p, 0xff, gen_decode_bytes(&d, m)); /* rows that are not there become zeros */
        gen_decode_pack(&d, m, w, p);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t e = 0; e < k; e++) {
                uint32_t from = gen_decode_row(&d, m, r);
                uint16_t want = from == UINT32_MAX ? 0 : w[from * k + e];
                assert_int_equal(packed_at(p, d.tile[m].rows, k, r, e), want);
            }
        base_free(w);
        base_free(p);
    }
}

/* Rows that an epilogue takes together are half a unit apart. */
static void pairs_meet_in_a_unit(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        gen_decode d = fitted(s, 1);
        uint32_t half = d.tile[GEN_STEP_UP].rows / 2;
        assert_int_equal(gen_decode_row(&d, GEN_STEP_UP, 2 * half + 1), half + 1);
        assert_int_equal(gen_decode_row(&d, GEN_STEP_UP, 3 * half + 1), d.s.ffn + half + 1);
        half = d.tile[GEN_STEP_QKV].rows / 2;
        assert_int_equal(gen_decode_row(&d, GEN_STEP_QKV, 1), d.s.rope_neighbours ? 2 : 1);
        assert_int_equal(gen_decode_row(&d, GEN_STEP_QKV, half + 1),
                         d.s.rope_neighbours ? 3 : 1 + d.s.head_dim / 2);
    }
}

static void it_compiles_for_sm_90a(void **state) {
    static const struct {
        size_t shape;
        uint32_t batch;
    } cases[] = {{3, 1}, {3, 8}};
    cuda_nvrtc rtc;
    (void)state;
    if (cuda_nvrtc_open(&rtc, NULL, NULL) != RP_OK) SKIP_TEST("no libnvrtc on this machine");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gen_decode d = fitted(cases[i].shape, cases[i].batch);
        char *cubin = NULL;
        size_t n = 0;
        rp_error err = {0};
        base_buf text;
        base_buf_init(&text, 0);
        gen_decode_text(&d, &text);
        CHECK_OK(base_buf_status(&text, &err), &err);
        CHECK_OK(cuda_compile(&rtc, &(cuda_source){text.data, "decode.cu", "sm_90a"}, NULL, &cubin,
                              &n, &err),
                 &err);
        for (unsigned k = 0; k < GEN_STEP_KERNELS_; k++) {
            const char *name = gen_decode_launch_of(&d, k).name;
            assert_non_null(memmem(cubin, n, name, strlen(name)));
        }
        base_free(cubin);
        base_buf_done(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_fits),
        cmocka_unit_test(tiles_of_1b_are_the_measured_ones),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(packed_rows_are_a_permutation),
        cmocka_unit_test(packing_is_what_the_template_reads),
        cmocka_unit_test(pairs_meet_in_a_unit),
        cmocka_unit_test(it_compiles_for_sm_90a),
    };
    return cmocka_run_group_tests_name("gen_decode", tests, NULL, NULL);
}
