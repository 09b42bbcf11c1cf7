/* The CUDA template of a decode step: tiles that fit, launches as the template expects them, and that it compiles where NVRTC is found. What it computes is
 * checked on the emulated GPU by engine_decode.c, and on a GPU by test/gpu/model.c. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/embed.h"
#include "gen/decode.h"
#include "hal/cuda/code.h"
#include "support/golden.h"
#include "support/hasty.h"

enum { N_SM = 132, MAX_SHARED = 227 << 10 };

static const gen_step shapes[] = {
    {.hidden = 576, .heads = 9, .kv_heads = 3, .head_dim = 64, .ffn = 1536, .vocab = 49152},
    {.hidden = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64, .ffn = 8192, .vocab = 128256},
    {.hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocab = 128256},
    {.hidden = 64, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 96, .vocab = 100}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
static const uint32_t classes[] = {1, 2, 4, GEN_DECODE_FEW, GEN_DECODE_SOME, GEN_DECODE_MOST};
enum { N_CLASSES = sizeof classes / sizeof *classes };

static gen_decode decode_of(size_t shape, uint32_t most) {
    gen_decode d = {.s = shapes[shape], .most = most};
    d.s.eps = 1e-5f;
    d.s.rope_neighbours = true;
    return d;
}

static gen_decode fitted(size_t shape, uint32_t most) {
    gen_decode d = decode_of(shape, most);
    rp_error err = {0};
    CHECK_OK(gen_decode_fit(&d, N_SM, MAX_SHARED, &err), &err);
    return d;
}

static void check_tile(const gen_decode *d, unsigned k) {
    const gen_decode_tile *t = &d->tile[k];
    assert_true(t->cap >= 1 && t->cap <= t->slots && t->group >= 1 && t->blocks <= t->units &&
                t->units <= t->blocks * 61);
}

/* Every unit is somebody's job, and the blocks of a cluster have as many slices each. */
static void check_job(const gen_decode *d, unsigned k) {
    const gen_decode_job *j = &d->job[k];
    const uint32_t per = j->tiles / (k == GEN_DECODE_UP ? 4 : 2), jobs = (j->units + per - 1) / per;
    assert_true(j->stages >= 4 && j->slices % j->splits == 0 && per >= 1);
    assert_true(j->splits > 1 ? j->blocks == jobs * j->splits
                              : j->blocks == (jobs < N_SM ? jobs : N_SM));
}

/* Every tile is somebody's, copies are whole, what a block may have is enough. */
static void every_shape_fits(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t c = 0; c < N_CLASSES; c++) {
            gen_decode d = fitted(s, classes[c]);
            const bool many = classes[c] > GEN_DECODE_FEW;
            assert_int_equal(gen_decode_has(&d, GEN_DECODE_O),
                             classes[c] == 1 || classes[c] >= GEN_DECODE_FEW);
            assert_true(gen_decode_has(&d, GEN_DECODE_LAST));
            assert_int_equal(gen_decode_has(&d, GEN_DECODE_EMBED), many);
            assert_int_equal(gen_decode_has(&d, GEN_DECODE_GATHER), many);
            assert_int_equal(gen_decode_has(&d, GEN_DECODE_LARGEST), many);
            for (unsigned k = 0; k < GEN_DECODE_KERNELS_; k++) {
                if (!gen_decode_has(&d, (gen_decode_kernel)k)) continue;
                gen_decode_launch l = gen_decode_launch_of(&d, (gen_decode_kernel)k);
                assert_true(l.blocks && l.threads % 32 == 0 && l.threads <= 512 &&
                            l.shared <= MAX_SHARED);
                assert_true(l.blocks <= N_SM ||
                            (many && (k == GEN_DECODE_ATTENTION || k == GEN_DECODE_LAST) &&
                             l.blocks == 2 * N_SM));
                if (k < GEN_DECODE_MATRICES_) (many ? check_job : check_tile)(&d, k);
            }
        }
}

/* Blocks that share sums would leave no largest logits. */
static void no_blocks_share_logits(void **state) {
    static const uint32_t vocabs[] = {100, 2100, 3000, 4096, 8192};
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++) {
            gen_decode d = decode_of(s, GEN_DECODE_MOST);
            rp_error err = {0};
            d.s.vocab = vocabs[i];
            CHECK_OK(gen_decode_fit(&d, N_SM, MAX_SHARED, &err), &err);
            assert_int_equal(d.job[GEN_DECODE_LOGITS].splits, 1);
            check_job(&d, GEN_DECODE_LOGITS);
        }
}

static uint32_t columns_of(const gen_decode *d, gen_decode_kernel k) {
    return d->tile[k].units * d->tile[k].tiles * 16;
}

static void jobs_are_all_columns(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        gen_decode d = fitted(s, GEN_DECODE_MOST);
        const uint32_t heads = (d.s.heads + 2 * d.s.kv_heads) * d.s.head_dim;
        assert_int_equal(d.job[GEN_DECODE_QKV].units * 32, heads);
        assert_int_equal(d.job[GEN_DECODE_BEGIN].units * 32, heads);
        assert_int_equal(d.job[GEN_DECODE_O].units * 32, d.s.hidden);
        assert_int_equal(d.job[GEN_DECODE_FIRST].units * 32, d.s.hidden);
        assert_int_equal(d.job[GEN_DECODE_UP].units * 32, d.s.ffn);
        assert_int_equal(d.job[GEN_DECODE_DOWN].units * 32, d.s.hidden);
        assert_int_equal(d.job[GEN_DECODE_LOGITS].units, (d.s.vocab + 31) / 32);
    }
}

static void units_are_all_columns(void **state) {
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        gen_decode d = fitted(s, 1);
        const uint32_t heads = (d.s.heads + 2 * d.s.kv_heads) * d.s.head_dim;
        assert_int_equal(columns_of(&d, GEN_DECODE_QKV), heads);
        assert_int_equal(columns_of(&d, GEN_DECODE_BEGIN), heads);
        assert_int_equal(columns_of(&d, GEN_DECODE_O), d.s.hidden);
        assert_int_equal(columns_of(&d, GEN_DECODE_FIRST), d.s.hidden);
        assert_int_equal(columns_of(&d, GEN_DECODE_DOWN), d.s.hidden);
        assert_int_equal(columns_of(&d, GEN_DECODE_UP), 2 * d.s.ffn);
        assert_int_equal(columns_of(&d, GEN_DECODE_LOGITS), (d.s.vocab + 15) / 16 * 16);
    }
}

/* The tiles that were measured to be the fastest. */
static void tiles_of_1b_are_the_measured_ones(void **state) {
    gen_decode d = fitted(1, 1);
    (void)state;
    assert_int_equal(d.tile[GEN_DECODE_QKV].blocks, 96);
    assert_int_equal(d.tile[GEN_DECODE_O].blocks, 128);
    assert_int_equal(d.tile[GEN_DECODE_O].slots, 2); /* all of it */
    assert_int_equal(d.tile[GEN_DECODE_UP].blocks, N_SM);
    assert_int_equal(d.tile[GEN_DECODE_UP].slots, 3);
    assert_int_equal(d.tile[GEN_DECODE_UP].cap, 1);
    assert_int_equal(d.tile[GEN_DECODE_DOWN].blocks, 128);
    assert_int_equal(d.tile[GEN_DECODE_LOGITS].blocks, N_SM);
    assert_int_equal(d.attention.splits, 16);
    assert_int_equal(d.attention.warps, 4);
    d = fitted(1, 8);
    assert_int_equal(d.tile[GEN_DECODE_QKV].cap, 1);
    assert_int_equal(d.tile[GEN_DECODE_DOWN].cap, 1);
    assert_int_equal(d.tile[GEN_DECODE_UP].slots, 4);
    assert_int_equal(d.tile[GEN_DECODE_UP].group, 1);
    assert_int_equal(d.attention.splits, 2);
    assert_int_equal(d.attention.warps, 8);
    d = fitted(1, 64);
    assert_int_equal(d.job[GEN_DECODE_QKV].blocks, 96);
    assert_int_equal(d.job[GEN_DECODE_O].blocks, 88);
    assert_int_equal(d.job[GEN_DECODE_UP].blocks, 128);
    assert_int_equal(d.job[GEN_DECODE_DOWN].blocks, 88);
    assert_int_equal(d.attention.warps, 8);
    assert_int_equal(d.cells, 3);
    d = fitted(2, 64);
    assert_int_equal(d.job[GEN_DECODE_QKV].blocks, 128);
    assert_int_equal(d.job[GEN_DECODE_UP].parts, N_SM);
    assert_int_equal(d.attention.warps, 4);
    assert_int_equal(d.cells, 3);
}

static void put_fit(size_t shape, uint32_t most, uint32_t n_sm, size_t shared, base_buf *b) {
    gen_decode d = decode_of(shape, most);
    rp_error err = {0};
    base_buf_printf(b, "hidden %u, %u rows, %u multiprocessors, %zu KB\n", d.s.hidden, most, n_sm,
                    shared >> 10);
    if (gen_decode_fit(&d, n_sm, shared, &err) != RP_OK) {
        base_buf_printf(b, "  %s\n", err.text);
        return;
    }
    for (unsigned k = 0; k < GEN_DECODE_KERNELS_; k++) {
        char name[GEN_DECODE_NAME];
        const gen_decode_tile *t = &d.tile[k % GEN_DECODE_MATRICES_];
        const gen_decode_job *j = &d.job[k % GEN_DECODE_MATRICES_];
        if (!gen_decode_has(&d, (gen_decode_kernel)k)) continue;
        const gen_decode_launch l = gen_decode_launch_of(&d, (gen_decode_kernel)k);
        gen_decode_name(&d, (gen_decode_kernel)k, name);
        base_buf_printf(b, "  %s: %u blocks of %u threads, %zu bytes", name, l.blocks, l.threads,
                        l.shared);
        if (k < GEN_DECODE_MATRICES_ && most <= GEN_DECODE_FEW)
            base_buf_printf(b, "; units %u tiles %u warps %u chunk %u slots %u group %u cap %u",
                            t->units, t->tiles, t->warps, t->chunk, t->slots, t->group, t->cap);
        else if (k < GEN_DECODE_MATRICES_)
            base_buf_printf(b, "; units %u tiles %u stages %u slices %u splits %u parts %u",
                            j->units, j->tiles, j->stages, j->slices, j->splits, j->parts);
        base_buf_putc(b, '\n');
    }
    base_buf_printf(b, "  attention: splits %u warps %u ahead %d cells %u blocks %u\n",
                    d.attention.splits, d.attention.warps, d.attention.ahead, d.cells,
                    d.attention_blocks);
}

/* All that is chosen, as test/gen/decode.txt has it: for the GPU that sizes were measured on, for a smaller one and for one with little
 * shared memory. BLESS=1 rewrites it. */
static void choices_are_those_of_the_file(void **state) {
    static const struct {
        uint32_t n_sm;
        size_t shared;
    } gpus[] = {{N_SM, MAX_SHARED}, {78, MAX_SHARED}, {N_SM, 99 << 10}};
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++)
        for (size_t s = 0; s < N_SHAPES; s++)
            for (size_t c = 0; c < N_CLASSES; c++)
                put_fit(s, classes[c], gpus[g].n_sm, gpus[g].shared, &b);
    check_golden("test/gen/decode.txt", &b);
}

BASE_EMBED(decode_attention_cu);
BASE_EMBED(decode_many_cu);

static const char *end_of(const char *text, const char *part, size_t n) {
    const char *at = memmem(text, strlen(text), part, n);
    return at ? at + n : text;
}

/* What is printed behind the templates: kernels, of which templates they are, and their arguments. */
static void kernels_are_those_of_the_file(void **state) {
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    for (size_t c = 0; c < N_CLASSES; c++) {
        gen_decode d = fitted(1, classes[c]);
        rp_error err = {0};
        base_buf text;
        base_buf_init(&text, 0);
        CHECK_OK(gen_decode_text(&d, &text, &err), &err);
        const char *own =
            end_of(text.data, rp_embed_decode_attention_cu, rp_embed_decode_attention_cu_size);
        own = end_of(own, rp_embed_decode_many_cu, rp_embed_decode_many_cu_size);
        base_buf_printf(&b, "/* %u rows */\n%s\n", classes[c], own);
        base_buf_done(&text);
    }
    check_golden("test/gen/decode_kernels.txt", &b);
}

static void what_does_not_fit_is_refused(void **state) {
    const struct {
        uint32_t most, hidden, head_dim, ffn;
        size_t shared;
        const char *why;
    } cases[] = {
        {3, 64, 32, 96, MAX_SHARED, "decode step: no kernels for up to 3 sequences"},
        {1, 65, 32, 96, MAX_SHARED, "step: hidden size 65 is no multiple of 32"},
        {1, 64, 16, 96, MAX_SHARED, "step: head size 16 is no multiple of 32"},
        {1, 64, 32, 90, MAX_SHARED, "step: feed-forward size 90 is no multiple of 32"},
        {8, 8192, 32, 96, MAX_SHARED,
         "decode step: of 8 rows of 8192 elements a block has no registers for its share"},
        {1, 64, 32, 8224, MAX_SHARED,
         "decode step: of 1 rows of 8224 elements a block has no registers for its share"},
        {64, 64, 32, 96, 1024,
         "decode step of 64 sequences: a block may have 1024 bytes of shared memory, which "
         "are too few"},
        {1, 64, 32, 96, 1024,
         "decode step, qkv: 2208 bytes of shared memory; a block may have 1024"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gen_decode d = decode_of(3, cases[i].most);
        rp_error err = {0};
        d.s.hidden = cases[i].hidden;
        d.s.head_dim = cases[i].head_dim;
        d.s.ffn = cases[i].ffn;
        assert_int_equal(gen_decode_fit(&d, N_SM, cases[i].shared, &err), RP_UNSUPPORTED);
        assert_string_equal(err.text, cases[i].why);
    }
}

static void heads_that_share_too_much_are_refused(void **state) {
    gen_decode d = decode_of(3, GEN_DECODE_MOST);
    rp_error err = {0};
    (void)state;
    d.s.heads = 9;
    assert_int_equal(gen_decode_fit(&d, N_SM, MAX_SHARED, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text,
                        "decode step of 64 sequences: 9 heads share a kv head; 8 are possible");
}

static void it_compiles(void **state) {
    cuda_nvrtc rtc;
    (void)state;
    if (cuda_nvrtc_open(&rtc, NULL, NULL) != RP_OK) SKIP_TEST("no libnvrtc on this machine");
    hasty_nvrtc(&rtc);
    for (size_t i = 0; i < N_CLASSES; i++) {
        gen_decode d = fitted(3, classes[i]);
        char *cubin = NULL, name[GEN_DECODE_NAME];
        size_t n = 0;
        rp_error err = {0};
        base_buf text;
        base_buf_init(&text, 0);
        CHECK_OK(gen_decode_text(&d, &text, &err), &err);
        CHECK_OK(cuda_compile(&rtc, &(cuda_source){text.data, "decode.cu", "sm_90a"}, NULL, &cubin,
                              &n, &err),
                 &err);
        for (unsigned k = 0; k < GEN_DECODE_KERNELS_; k++) {
            gen_decode_name(&d, (gen_decode_kernel)k, name);
            assert_int_equal(memmem(cubin, n, name, strlen(name)) != NULL,
                             gen_decode_has(&d, (gen_decode_kernel)k));
        }
        base_free(cubin);
        base_buf_done(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_fits),
        cmocka_unit_test(units_are_all_columns),
        cmocka_unit_test(jobs_are_all_columns),
        cmocka_unit_test(no_blocks_share_logits),
        cmocka_unit_test(tiles_of_1b_are_the_measured_ones),
        cmocka_unit_test(choices_are_those_of_the_file),
        cmocka_unit_test(kernels_are_those_of_the_file),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(heads_that_share_too_much_are_refused),
        cmocka_unit_test(it_compiles),
    };
    return cmocka_run_group_tests_name("gen_decode", tests, NULL, NULL);
}
