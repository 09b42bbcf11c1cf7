/* The CUDA template of a step of many rows: tiles that fit, packing, and that it compiles for sm_90a where NVRTC is found. What it
 * computes is checked on a GPU by bench/gpu/step. */
#include "support/check.h"

#include "base/alloc.h"
#include "gen/batch.h"
#include "hal/cuda/code.h"
#include "support/golden.h"
#include "support/hasty.h"

enum { N_SM = 132, MAX_SHARED = 227 << 10 };

static const gen_step shapes[] = {
    {30, 576, 9, 3, 64, 1536, 49152, .max_blocks = 68, .eps = 1e-5f},
    {16, 2048, 32, 8, 64, 8192, 128256, .max_blocks = 68, .eps = 1e-5f},
    {32, 4096, 32, 8, 128, 14336, 128256, .max_blocks = 68, .eps = 1e-5f},
    {1, 64, 2, 1, 32, 128, 100, .max_blocks = 4, .eps = 1e-5f, .rope_neighbours = true}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static gen_batch fitted(size_t shape, uint32_t rows, bool one_sequence) {
    gen_batch b = {.s = shapes[shape], .rows = rows, .one_sequence = one_sequence};
    rp_error err = {0};
    CHECK_OK(gen_batch_fit(&b, N_SM, MAX_SHARED, &err), &err);
    return b;
}

static void check_launches(const gen_batch *b) {
    for (unsigned k = 0; k < GEN_STEP_KERNELS_; k++) {
        gen_step_launch l = gen_batch_launch_of(b, k);
        assert_true(l.shared <= MAX_SHARED && l.threads && l.threads <= 512 && l.threads % 32 == 0);
        assert_true(l.grid[0] && l.grid[1] && l.grid[2]);
        assert_true(k >= GEN_STEP_MATRICES_ || b->tile[k].splits == 1 || l.grid[0] <= N_SM);
    }
}

static void every_shape_fits(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (uint32_t rows = 1; rows <= GEN_BATCH_MAX_SEQUENCES; rows++) {
            gen_batch b = fitted(s, rows, false);
            assert_true(b.room >= rows && b.tile[GEN_STEP_UP].columns == b.room);
            check_launches(&b);
        }
        for (uint32_t rows = 1; rows <= 2049; rows += 128) {
            gen_batch b = fitted(s, rows, true);
            assert_true(b.room >= rows && gen_batch_x_rows(&b) >= b.room);
            check_launches(&b);
        }
    }
}

/* A tile may take all the shared memory of a block, and not a byte more. */
static void tiles_fill_a_block_to_the_byte(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        gen_batch b = fitted(s, 64, false);
        rp_error err = {0};
        uint32_t most = 0;
        for (unsigned k = 0; k < GEN_STEP_MATRICES_; k++) {
            gen_step_launch l = gen_batch_launch_of(&b, k);
            if (l.shared > most) most = l.shared;
        }
        CHECK_OK(gen_batch_check(&b, most, &err), &err);
        assert_int_equal(gen_batch_check(&b, most - 1, &err), RP_UNSUPPORTED);
        char want[80];
        (void)snprintf(want, sizeof want, "%u bytes of shared memory; a block may have %u", most,
                       most - 1);
        assert_non_null(strstr(err.text, want));
    }
}

/* Tiles that were measured to be the fastest. */
static void tiles_are_the_measured_ones(void **state) {
    gen_batch b = fitted(1, 64, false);
    (void)state;
    assert_int_equal(b.tile[GEN_STEP_QKV].splits, 4);
    assert_int_equal(b.tile[GEN_STEP_O].splits, 4);
    assert_int_equal(b.tile[GEN_STEP_UP].splits, 1);
    assert_int_equal(b.tile[GEN_STEP_UP].blocks, 128);
    assert_int_equal(b.tile[GEN_STEP_HEAD].blocks, N_SM);
    assert_true(b.stream);
    b = fitted(2, 32, false);
    assert_int_equal(b.tile[GEN_STEP_DOWN].splits, 2);
    assert_int_equal(b.tile[GEN_STEP_DOWN].stages, 7);
    assert_false(fitted(0, 16, false).stream); /* too few blocks for all multiprocessors */
    b = fitted(1, 2048, true);
    assert_int_equal(b.tile[GEN_STEP_QKV].columns, 192);
    assert_int_equal(b.tile[GEN_STEP_QKV].blocks, N_SM);
    assert_int_equal(b.room, 2112);
    b = fitted(1, 512, true);
    assert_int_equal(b.tile[GEN_STEP_UP].columns, 256);
    assert_int_equal(b.tile[GEN_STEP_O].columns, 64);
    assert_int_equal(b.tile[GEN_STEP_HEAD].columns, 8);
}

static void put_matrix(const gen_batch *b, gen_step_matrix m, base_buf *out) {
    const gen_batch_tile *t = &b->tile[m];
    base_buf_printf(out, "%u columns, %u splits, %u stages, %u blocks, %zu bytes, %u sums",
                    t->columns, t->splits, t->stages, t->blocks, gen_batch_launch_of(b, m).shared,
                    gen_batch_partials(b, m));
}

/* What has other sizes than a matrix's: the memory of rows is told apart from them, since it grows with the rows. */
static void put_others(const gen_batch *b, base_buf *out) {
    const gen_step_launch l = gen_batch_launch_of(b, GEN_STEP_ATTENTION);
    base_buf_printf(out, "%s %u of %zu bytes, %u splits, %u warps, %u ahead%s", l.name, l.threads,
                    l.shared, b->attention.splits, b->attention.warps, b->attention.ahead,
                    b->stream ? ", stream" : "");
}

/* Of each number of rows up to `most`, in runs of equal choices. */
static void put_sizes(size_t shape, bool one_sequence, uint32_t most, uint32_t n_sm, size_t shared,
                      base_buf *out) {
    for (unsigned k = 0; k <= GEN_STEP_MATRICES_; k++) {
        golden_runs runs;
        golden_runs_begin(&runs, out);
        base_buf_printf(
            out, "hidden %u, %s, %u multiprocessors, %zu KB, %s\n", shapes[shape].hidden,
            one_sequence ? "tokens" : "sequences", n_sm, shared >> 10,
            k < GEN_STEP_MATRICES_ ? gen_step_matrix_name((gen_step_matrix)k) : "attention");
        for (uint32_t rows = 1; rows <= most; rows++) {
            gen_batch b = {.s = shapes[shape], .rows = rows, .one_sequence = one_sequence};
            rp_error err = {0};
            base_buf text;
            base_buf_init(&text, 0);
            if (gen_batch_fit(&b, n_sm, shared, &err) != RP_OK)
                base_buf_puts(&text, err.text);
            else if (k < GEN_STEP_MATRICES_)
                put_matrix(&b, (gen_step_matrix)k, &text);
            else
                put_others(&b, &text);
            golden_runs_add(&runs, rows, &text);
        }
        golden_runs_end(&runs);
    }
}

/* All that is chosen for each number of rows, as test/gen/batch.txt has it: for the GPU that sizes were measured on, and for one that is smaller
 * in all. */
static void choices_are_those_of_the_file(void **state) {
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    for (size_t s = 0; s < N_SHAPES; s++) {
        put_sizes(s, false, GEN_BATCH_MAX_SEQUENCES + 1, N_SM, MAX_SHARED, &b);
        put_sizes(s, true, 1100, N_SM, MAX_SHARED, &b);
    }
    put_sizes(1, false, GEN_BATCH_MAX_SEQUENCES, 78, 164 << 10, &b);
    put_sizes(1, true, 600, 78, 164 << 10, &b);
    check_golden("test/gen/batch.txt", &b);
}

/* Memory that rows need: whole tiles of each matrix but of the head's, which has one row. */
static void rows_have_room_for_whole_tiles(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (uint32_t rows = 1; rows <= 700; rows++) {
            const gen_batch b = fitted(s, rows, true);
            uint32_t want = (rows + 7) / 8 * 8;
            for (unsigned k = 0; k < GEN_STEP_HEAD; k++) {
                const uint32_t of = b.tile[k].columns, whole = (rows + of - 1) / of * of;
                if (whole > want) want = whole;
            }
            assert_int_equal(b.room, want);
            assert_int_equal(gen_batch_x_rows(&b), (want + 255) / 256 * 256 + 256);
        }
}

static void what_does_not_fit_is_refused(void **state) {
    gen_batch b = {.s = shapes[0], .rows = 65};
    rp_error err = {0};
    (void)state;
    assert_int_equal(gen_batch_fit(&b, N_SM, MAX_SHARED, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "step of many rows: 65 sequences; 1 to 64 are possible");
    b = fitted(1, 64, false);
    b.tile[GEN_STEP_UP].stages = 100;
    err = (rp_error){0};
    assert_int_equal(gen_batch_check(&b, MAX_SHARED, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "step of many rows, up: "));
    b = fitted(1, 64, false);
    b.tile[GEN_STEP_UP].stages = 1; /* what is read is not what is waited for */
    assert_int_equal(gen_batch_check(&b, MAX_SHARED, NULL), RP_UNSUPPORTED);
    b = fitted(1, 64, false);
    b.tile[GEN_STEP_O].splits = 3;
    assert_int_equal(gen_batch_check(&b, MAX_SHARED, NULL), RP_UNSUPPORTED);
    b = fitted(1, 512, true);
    b.tile[GEN_STEP_UP].blocks = 131;
    assert_int_equal(gen_batch_check(&b, MAX_SHARED, NULL), RP_UNSUPPORTED);
}

/* Where the template looks for row r, element k: see "Matrices" at its head. */
static uint16_t packed_at(const uint16_t *p, uint32_t k_all, uint32_t r, uint32_t k) {
    uint32_t rows = GEN_BATCH_TILE_ROWS;
    return p[(((size_t)(r / rows) * (k_all / 8) + k / 8) * rows + r % rows) * 8 + k % 8];
}

static void packing_is_what_the_template_reads(void **state) {
    gen_batch b = fitted(3, 16, false);
    (void)state;
    for (int i = 0; i < GEN_STEP_MATRICES_; i++) {
        gen_step_matrix m = (gen_step_matrix)i;
        uint32_t k = gen_step_k(&b.s, m), n = gen_batch_rows(&b, m);
        uint16_t *w = base_alloc_array((size_t)n * k, 2), *p = base_alloc(gen_batch_bytes(&b, m));
        for (uint32_t e = 0; e < n * k; e++) w[e] = (uint16_t)(e * 40503u + 7);
        memset(p, 0xff, gen_batch_bytes(&b, m)); /* what was there before */
        gen_batch_pack(&b, m, w, p);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t e = 0; e < k; e++) {
                uint32_t from = gen_batch_row(&b, m, r);
                assert_int_equal(packed_at(p, k, r, e), from == UINT32_MAX ? 0 : w[from * k + e]);
            }
        base_free(w);
        base_free(p);
    }
}

static void it_compiles_for_sm_90a(void **state) {
    static const struct {
        size_t shape;
        uint32_t rows;
        bool one_sequence;
    } cases[] = {{3, 16, false}, {3, 300, true}};
    cuda_nvrtc rtc;
    (void)state;
    if (cuda_nvrtc_open(&rtc, NULL, NULL) != RP_OK) SKIP_TEST("no libnvrtc on this machine");
    hasty_nvrtc(&rtc);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gen_batch b = fitted(cases[i].shape, cases[i].rows, cases[i].one_sequence);
        char *cubin = NULL;
        size_t n = 0;
        rp_error err = {0};
        base_buf text;
        base_buf_init(&text, 0);
        gen_batch_text(&b, &text);
        CHECK_OK(base_buf_status(&text, &err), &err);
        CHECK_OK(cuda_compile(&rtc, &(cuda_source){text.data, "batch.cu", "sm_90a"}, NULL, &cubin,
                              &n, &err),
                 &err);
        for (unsigned k = 0; k < GEN_STEP_KERNELS_; k++) {
            const char *name = gen_batch_launch_of(&b, k).name;
            assert_non_null(memmem(cubin, n, name, strlen(name)));
        }
        base_free(cubin);
        base_buf_done(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_fits),
        cmocka_unit_test(tiles_fill_a_block_to_the_byte),
        cmocka_unit_test(tiles_are_the_measured_ones),
        cmocka_unit_test(choices_are_those_of_the_file),
        cmocka_unit_test(rows_have_room_for_whole_tiles),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(packing_is_what_the_template_reads),
        cmocka_unit_test(it_compiles_for_sm_90a),
    };
    return cmocka_run_group_tests_name("gen_batch", tests, NULL, NULL);
}
