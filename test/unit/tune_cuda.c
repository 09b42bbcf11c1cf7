/* The autotuner on a GPU: blocks of another size and tiles of other rows by a clock that is set, kept for the next process, and the same bits. */
#include "support/both_gpu.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "base/file.h"
#include "compile/tune.h"
#include "split/split.h"

static const char *fastest;
static uint32_t n_read;
static uint32_t tiles_read[257]; /* readings of tiles of so many rows */
static uint32_t most_launches;   /* of one reading, told by their functions */

static rp_status by_choice(void *user, const compile_trial *t, int64_t *ns, rp_error *err) {
    base_buf b;
    (void)user;
    (void)err;
    base_buf_init(&b, 0);
    lower_choice_print(t->choice, false, &b);
    tiles_read[t->choice->rows]++;
    if (t->n > 1 && strncmp(t->label, "mm(", 3) == 0 &&
        memcmp(&t->launches[0].fn, &t->launches[1].fn, sizeof t->launches[0].fn) != 0)
        most_launches = 2;
    *ns = (b.len && strcmp(b.data, fastest) == 0 ? 1000 : 2000) * (int64_t)t->n;
    assert_true(t->launches->threads > 0);
    base_buf_done(&b);
    n_read++;
    return RP_OK;
}

static plan_run ran(const ir_graph *g, const random_leaves *v, hal_device *d, compile_tuner *t) {
    plan_run_options o = both_on_gpu(true, false);
    rp_error err = {0};
    plan_run r = {0};
    o.open = d;
    o.tuner = t;
    CHECK_OK(plan_run_graph(g, v, &o, &r, &err), &err);
    compile_tuner_done(t);
    return r;
}

static void forget_records(void) {
    char path[400];
    (void)snprintf(path, sizeof path, "%s/objects/tuning", cache_store_dir(host.store));
    tree_list files = tree_files(path);
    for (size_t k = 0; k < files.n; k++) {
        char one[800];
        (void)snprintf(one, sizeof one, "%s/%s", path, files.path[k]);
        assert_int_equal(base_path_remove(one, NULL), RP_OK);
    }
    tree_list_free(&files);
}

static void blocks_of_any_size_give_the_same_bits(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[5,700]) -> f32[5,700] {\n  %0 = exp %x\n"
        "  %1 = sum %0 {axis=1, keep=true}\n  %2 = div %0, %1\n  ret %2\n}\n",
        "graph @g(%x: f32[T,90]) -> f32[T,90] where T in [1,64] {\n  %0 = tanh %x\n  ret %0\n}\n"};
    static const char *const choices[] = {"threads=32", "threads=128", "threads=1024"};
    hal_device *d = NULL;
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        random_leaves v = {0};
        ir_graph *g = NULL;
        CHECK_OK(ir_parse(texts[i], strlen(texts[i]), &g, &err), &err);
        CHECK_OK(random_leaves_new(g, 3, &v, &err), &err);
        plan_run want = ran(g, &v, d, NULL);
        for (size_t c = 0; c < sizeof choices / sizeof *choices; c++) {
            forget_records();
            fastest = choices[c];
            n_read = 0;
            compile_tuner t = {
                .device = d, .list = true, .budget = INT64_MAX / 2, .time = by_choice};
            plan_run got = ran(g, &v, d, &t);
            assert_true(n_read > 0);
            const char *differs = plan_run_differs(g, &want, &got);
            if (differs) fail_msg("%s: %s in\n%s", choices[c], differs, texts[i]);
            plan_run_done(&got);
            n_read = 0;
            got = ran(g, &v, d, &t);
            assert_int_equal(n_read, 0);
            plan_run_done(&got);
        }
        plan_run_done(&want);
        random_leaves_done(&v);
        ir_graph_free(g);
    }
    hal_close(d);
}

/* --- tiles ---------------------------------------------------------------------- */

static hal_device *opened(void) {
    hal_device *d = NULL;
    rp_error err = {0};
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    return d;
}

/* Tiles of so many rows, or none of them, in every product of g. */
static plan_run ran_in_tiles(const ir_graph *g, const random_leaves *v, hal_device *d,
                             uint16_t rows) {
    enum { GROUPS = 64 };
    compile_tuner t = {.device = d};
    split_result split;
    rp_error err = {0};
    lower_choice *of = base_alloc_array(GROUPS, sizeof *of);
    assert_non_null(of);
    for (int i = 0; i < GROUPS; i++) of[i].rows = rows;
    CHECK_OK(split_graph(g, NULL, 0, &split, &err), &err);
    CHECK_OK(compile_tuner_keep(&t, split.pieces[0].hash, of, GROUPS, &err), &err);
    split_done(&split);
    return ran(g, v, d, &t);
}

/* Of `from` rows or a few more; seeds give sizes that are little more than the least of a range. */
static void check_tiles(hal_device *d, const char *text, int64_t from, const uint16_t *tiles,
                        uint32_t n) {
    random_leaves v = {0};
    ir_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    uint64_t seed = 0;
    do {
        random_leaves_done(&v);
        CHECK_OK(random_leaves_new(g, ++seed, &v, &err), &err);
    } while (v.symbols[0] < from);
    plan_run want = ran(g, &v, d, NULL);
    for (uint32_t i = 0; i < n; i++) {
        plan_run got = ran_in_tiles(g, &v, d, tiles[i]);
        const char *differs = plan_run_differs(g, &want, &got);
        if (differs) fail_msg("tiles of %d rows: %s in\n%s", (int)tiles[i], differs, text);
        plan_run_done(&got);
    }
    plan_run_done(&want);
    random_leaves_done(&v);
    ir_graph_free(g);
}

static const uint16_t all_tiles[] = {64, 128, 176, 192, 256};
enum { N_TILES = sizeof all_tiles / sizeof *all_tiles };

/* Rows that are read as they are; a norm of which the product's launch makes them; gates, which leave them in tiles for the product behind; and results that are read
 * again, whose sums are taken by rows. */
static void tiles_of_any_height_give_the_same_bits(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: bf16[130,48], %r: f32[130,40]) -> f32[130,40] {\n"
        "  %w = param @w : bf16[40,48]\n  %0 = matmul %x, %w {trans_b=true}\n"
        "  %1 = add %r, %0\n  ret %1\n}\n",
        "graph @g(%x: f32[T,64]) where T in [185,400] {\n  %n = param @n : f32[64]\n"
        "  %w = param @w : bf16[40,64]\n  %c = const 0x1p-6\n  %e = const 0x1p-17\n"
        "  %0 = mul %x, %x\n  %1 = sum %0 {axis=1,keep=true}\n  %2 = mul %1, %c\n"
        "  %3 = add %2, %e\n  %4 = rsqrt %3\n  %5 = mul %x, %4\n  %6 = mul %5, %n\n"
        "  %7 = cast %6 {dtype=bf16}\n  %8 = matmul %7, %w {trans_b=true}\n  ret %8\n}\n",
        "graph @g(%x: bf16[T,32]) where T in [185,400] {\n  %g = param @g : bf16[48,32]\n"
        "  %u = param @u : bf16[48,32]\n  %d = param @d : bf16[24,48]\n"
        "  %0 = matmul %x, %g {trans_b=true}\n  %1 = matmul %x, %u {trans_b=true}\n"
        "  %s = sigmoid %0\n  %2 = mul %0, %s\n  %3 = mul %2, %1\n"
        "  %h = cast %3 {dtype=bf16}\n  %r = matmul %h, %d {trans_b=true}\n  ret %r\n}\n",
        "graph @g(%x: bf16[T,48], %r: f32[T,1]) where T in [185,400] {\n"
        "  %g = param @g : bf16[40,48]\n  %u = param @u : bf16[40,48]\n"
        "  %0 = matmul %x, %g {trans_b=true}\n  %1 = mul %0, %r\n"
        "  %2 = matmul %x, %u {trans_b=true}\n  %3 = sigmoid %1\n  %4 = mul %1, %3\n"
        "  %5 = mul %4, %2\n  ret %0, %1, %5\n}\n"};
    (void)state;
    NEEDS_GPU();
    hal_device *d = opened();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_tiles(d, texts[i], 0, all_tiles, N_TILES);
    hal_close(d);
}

/* 129 to 256 rows are a class of 66 jobs: the classes in front of it and behind it keep the tiles of the rules, which these may equal. Parts of one matrix and of two have
 * none in turns. */
static void classes_beside_keep_their_tiles(void **state) {
    static const char plain[] = "graph @g(%%x: bf16[T,16]) where T in [%d,300] {\n"
                                "  %%w = param @w : bf16[8448,16]\n"
                                "  %%0 = matmul %%x, %%w {trans_b=true}\n  ret %%0 }\n";
    static const char uneven[] =
        "graph @g(%%x: bf16[T,16]) where T in [%d,300] {\n"
        "  %%g = param @g : bf16[4096,16]\n  %%u = param @u : bf16[4096,16]\n"
        "  %%w = param @w : bf16[256,16]\n"
        "  %%0 = matmul %%x, %%g {trans_b=true}\n  %%1 = matmul %%x, %%u {trans_b=true}\n"
        "  %%s = sigmoid %%0\n  %%2 = mul %%s, %%1\n  %%h = cast %%2 {dtype=bf16}\n"
        "  %%3 = matmul %%x, %%w {trans_b=true}\n  ret %%h, %%3 }\n";
    static const uint16_t tiles[] = {192, 256};
    static const int from[] = {114, 129, 257};
    char text[sizeof uneven + 20];
    (void)state;
    NEEDS_GPU();
    hal_device *d = opened();
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        (void)snprintf(text, sizeof text, uneven, from[i] < 250 ? from[i] : 250);
        check_tiles(d, text, from[i], &tiles[1], 1);
    }
    (void)snprintf(text, sizeof text, plain, 250);
    check_tiles(d, text, 257, tiles, 2);
    hal_close(d);
}

/* Rows are arranged for the tiles, so that both launches are read together. */
static void a_tile_is_chosen_and_kept(void **state) {
    static const char text[] =
        "graph @g(%x: bf16[200,32]) -> f32[200,40] {\n  %w = param @w : bf16[40,32]\n"
        "  %0 = matmul %x, %w {trans_b=true}\n  ret %0\n}\n";
    hal_device *d;
    random_leaves v = {0};
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    d = opened();
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(random_leaves_new(g, 3, &v, &err), &err);
    plan_run want = ran(g, &v, d, NULL);
    forget_records();
    memset(tiles_read, 0, sizeof tiles_read);
    fastest = "rows=192";
    n_read = most_launches = 0;
    compile_tuner t = {.device = d, .list = true, .budget = INT64_MAX / 2, .time = by_choice};
    plan_run got = ran(g, &v, d, &t);
    assert_null(plan_run_differs(g, &want, &got));
    for (int i = 1; i < N_TILES; i++) assert_true(tiles_read[all_tiles[i]] > 0);
    assert_true(tiles_read[0] > 0);
    assert_int_equal(tiles_read[64], 0); /* the rules' own */
    assert_int_equal(most_launches, 2);
    assert_int_equal(t.undecided, 0);
    plan_run_done(&got);
    n_read = 0;
    got = ran(g, &v, d, &t);
    assert_int_equal(n_read, 0);
    assert_null(plan_run_differs(g, &want, &got));
    plan_run_done(&got);
    plan_run_done(&want);
    random_leaves_done(&v);
    ir_graph_free(g);
    hal_close(d);
}

/* By the events of the device. */
static void readings_come_from_the_device(void **state) {
    static const char text[] =
        "graph @g(%x: f32[3,40]) -> f32[3,40] {\n  %0 = exp %x\n  ret %0\n}\n";
    hal_device *d = NULL;
    random_leaves v = {0};
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(random_leaves_new(g, 3, &v, &err), &err);
    compile_tuner t = {.device = d, .list = true, .budget = INT64_MAX / 2};
    const uint64_t before = compile_tune_readings();
    plan_run r = ran(g, &v, d, &t);
    assert_true(compile_tune_readings() > before);
    plan_run_done(&r);
    random_leaves_done(&v);
    ir_graph_free(g);
    hal_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_any_size_give_the_same_bits),
        cmocka_unit_test(tiles_of_any_height_give_the_same_bits),
        cmocka_unit_test(classes_beside_keep_their_tiles),
        cmocka_unit_test(a_tile_is_chosen_and_kept),
        cmocka_unit_test(readings_come_from_the_device),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
