/* Parts of automatic graphs, each by hand: tables of addresses, packs of small arguments, rows that are rounded up, and what memory was. */
#include "support/check.h"
#include "support/heard.h"

#include "autograph/before.h"
#include "autograph/manager.h"
#include "autograph/pack.h"
#include "autograph/stand.h"
#include "base/alloc.h"
#include "device/device.h"

static struct {
    rp_device *d;
    hal_device *queue;
    hal_device_ops ops; /* counts copies */
    const hal_device_ops *own;
    uint32_t copies;
} on;

static rp_status counted_copy(hal_device *d, void *to, const void *from, size_t size,
                              rp_error *err) {
    on.copies++;
    return on.own->copy(d, to, from, size, err);
}

static int open_device(void **state) {
    rp_error err = {0};
    (void)state;
    if (rp_device_open("cpu", 1, &on.d, &err) != RP_OK) return 1;
    if (device_queue(on.d, &on.queue, &err) != RP_OK) return 1;
    on.own = on.queue->ops;
    on.ops = *on.own;
    on.ops.copy = counted_copy;
    on.queue->ops = &on.ops;
    on.copies = 0;
    return 0;
}

static int close_device(void **state) {
    (void)state;
    on.queue->ops = on.own;
    hal_close(on.queue);
    rp_device_close(on.d);
    return 0;
}

static rp_value f32_at(void *at, int64_t rows, int64_t columns) {
    return rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {rows, columns}, at});
}

/* Sent where one of them is another than before, in their order. */
static void a_table_is_sent_when_it_changed(void **state) {
    enum { N = 3 };
    static float x[4];
    static const struct {
        int at[N];
        uint32_t copies;
    } calls[] = {{{0, 1, 2}, 1}, {{0, 1, 2}, 1},  {{0, 3, 2}, 2},
                 {{0, 3, 2}, 2}, {{-1, 3, 2}, 3}, {{-1, 3, 2}, 3}}; /* -1: nowhere */
    rp_error err = {0};
    autograph_table t = {0};
    (void)state;
    CHECK_OK(autograph_table_open(&t, on.d, N, &err), &err);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        t.next = 0;
        for (int k = 0; k < N; k++) {
            void *p = calls[i].at[k] < 0 ? NULL : &x[calls[i].at[k]];
            CHECK_OK(autograph_table_put(&t, on.d, p, &err), &err);
        }
        CHECK_OK(autograph_table_send(&t, on.queue, &err), &err);
        assert_int_equal(on.copies, calls[i].copies);
        for (uint32_t k = 0; k < N; k++) {
            const void *want = calls[i].at[k] < 0 ? NULL : &x[calls[i].at[k]];
            assert_ptr_equal(*(void **)autograph_table_at(&t, k), want);
        }
    }
    autograph_table_done(&t);
}

/* Up to 16 KB each, 64 KB of all, 256 of them; each lies at a multiple of 64. */
static void a_pack_takes_what_is_small(void **state) {
    static const struct {
        int64_t floats;
        uint32_t fit;
    } all[] = {{0, 0},       {1, 256},           {16, 256}, {17, 256},
               {1 << 12, 4}, {(1 << 12) + 1, 0}, {3000, 5}, {200, 78}};
    const autograph_rows rows = {0};
    static float x[1 << 13];
    (void)state;
    for (int i = 0; i < 1 << 13; i++) x[i] = (float)i;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        autograph_pack p = {0};
        uint32_t n = 0;
        for (int again = 0; again < 2; again++) {
            bool taken = true;
            autograph_pack_clear(&p);
            for (n = 0; taken && n < 300; n += taken) {
                const rp_value v = f32_at(x + n, 1, all[i].floats);
                CHECK_OK(autograph_pack_add(&p, &rows, &v, n, x, &taken, &err), &err);
            }
            if (n != all[i].fit || p.n != n) fail_msg("%d floats: %u fit", (int)all[i].floats, n);
            if (p.used > AUTOGRAPH_PACK_MOST) fail_msg("%d: too much", (int)all[i].floats);
        }
        for (uint32_t k = 0; k < n; k++) {
            const autograph_packed *one = &p.item[k];
            assert_int_equal(one->move, k);
            assert_int_equal(one->size, (size_t)all[i].floats * sizeof *x);
            assert_int_equal(one->at % 64, 0);
            assert_memory_equal(p.bytes + one->at, x + k, one->size);
        }
        autograph_pack_done(&p);
    }
}

static struct {
    const void *from[4];
    uint32_t n;
} moved;

static rp_status noted_move(hal_graph *g, uint32_t i, void *to, const void *from, bool *done,
                            rp_error *err) {
    (void)g, (void)i, (void)to, (void)err;
    assert_true(moved.n < 4);
    moved.from[moved.n++] = from;
    *done = true;
    return RP_OK;
}

/* Two or more go in one copy where the device has room for that, and are moved on by the graph; else each goes by itself, which is told
 * once, and only as long as it is so. */
static void packs_go_at_once_where_there_is_room(void **state) {
    static const struct {
        uint32_t n;
        uint64_t room;
        uint32_t copies;
        bool together;
    } sends[] = {{2, 0, 2, false},          {3, AUTOGRAPH_PACK_MOST - 1, 3, false},
                 {1, UINT64_MAX, 1, false}, {2, AUTOGRAPH_PACK_MOST, 1, true},
                 {1, UINT64_MAX, 1, false}, {3, 0, 1, true}};
    static float x[3] = {1, 2, 3}, slot[3];
    const autograph_rows rows = {0};
    const device_graph g = {.queue = on.queue};
    autograph_pack p = {0};
    base_buf heard;
    (void)state;
    on.ops.graph_move = noted_move;
    heard_start(&heard, "cudagraphs");
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        rp_error err = {0};
        autograph_pack_clear(&p);
        on.copies = moved.n = 0;
        for (uint32_t k = 0; k < sends[i].n; k++) {
            bool taken = false;
            const rp_value v = f32_at(&x[k], 1, 1);
            slot[k] = 0;
            CHECK_OK(autograph_pack_add(&p, &rows, &v, k, &slot[k], &taken, &err), &err);
            assert_true(taken);
        }
        CHECK_OK(autograph_pack_send(&p, &g, on.d, sends[i].room, &err), &err);
        assert_int_equal(on.copies, sends[i].copies);
        assert_int_equal(moved.n, sends[i].n);
        for (uint32_t k = 0; k < sends[i].n; k++) {
            assert_int_equal(moved.from[k] != NULL, sends[i].together);
            const float is = sends[i].together ? *(const float *)moved.from[k] : slot[k];
            assert_true(is == x[k]);
        }
        assert_int_equal(autograph_pack_bytes(&p), i < 3 ? 0 : AUTOGRAPH_PACK_MOST);
    }
    CHECK_HEARD(&heard, "a copy for each small argument: max_bytes leaves no room for them");
    const char *first = strstr(heard.data, "a copy for each");
    assert_null(strstr(first + 1, "a copy for each"));
    heard_done(&heard);
    autograph_pack_done(&p);
}

/* Zeros to the last row of the graph, and no further. */
static void rows_that_are_not_given_are_zeros(void **state) {
    (void)state;
    for (int on_queue = 0; on_queue < 2; on_queue++)
        for (int64_t n = 1; n < 10; n++) {
            rp_error err = {0};
            autograph_rows r = {.rounded = true};
            unsigned char memory[16 * 12 + 1], given[16 * 12];
            rp_value v = f32_at(given, n, 3);
            v.rows = true;
            CHECK_OK(autograph_rows_meet(&r, &v, &err), &err);
            assert_int_equal(r.padded, autograph_rows_up(n));
            assert_true(r.padded >= n && r.padded <= 16);
            memset(memory, 7, sizeof memory);
            CHECK_OK(autograph_rows_clear(&r, on_queue ? on.queue : NULL, memory, &v, &err), &err);
            for (size_t i = 0; i < sizeof memory; i++) {
                const bool zero = i >= (size_t)n * 12 && i < (size_t)r.padded * 12;
                if (memory[i] != (zero ? 0 : 7)) fail_msg("%d rows: byte %d", (int)n, (int)i);
            }
            assert_int_equal(autograph_rows_form(&r, &v).dim[0], r.padded);
            rp_value result = f32_at(given, r.padded, 3);
            result.rows = true;
            CHECK_OK(autograph_rows_cut(&r, &result, &err), &err);
            assert_int_equal(result.tensor.dim[0], n);
        }
}

static void rows_are_the_sizes_that_are_captured(void **state) {
    static const int64_t up[][2] = {{-1, -1},   {0, 0},     {1, 1},     {2, 2},      {3, 4},
                                    {4, 4},     {5, 8},     {8, 8},     {9, 16},     {250, 256},
                                    {256, 256}, {257, 272}, {272, 272}, {273, 288},  {500, 512},
                                    {512, 512}, {513, 544}, {545, 576}, {1025, 1088}};
    (void)state;
    for (size_t i = 0; i < sizeof up / sizeof *up; i++)
        if (autograph_rows_up(up[i][0]) != up[i][1])
            fail_msg("%d: %d", (int)up[i][0], (int)autograph_rows_up(up[i][0]));
    assert_int_equal(autograph_rows_up(INT64_MAX), INT64_MAX);
}

/* What was written anywhere in it is seen, and put back; nothing else is written. */
static void what_was_written_is_put_back(void **state) {
    enum { SIZE = (600 << 10) + 37, BEHIND = 64 };
    static const size_t places[] = {
        0, 1, 63, 64, 65, 131071, (256 << 10) - 1, 256 << 10, (400 << 10) + 5, SIZE - 1};
    rp_error err = {0};
    autograph_before b = {0};
    char *memory = base_alloc(SIZE + BEHIND), *was = base_alloc(SIZE);
    bool same = false;
    (void)state;
    assert_non_null(memory);
    assert_non_null(was);
    for (size_t i = 0; i < SIZE; i++) memory[i] = was[i] = (char)(i * 7 + (i >> 9));
    memset(memory + SIZE, 5, BEHIND);
    autograph_before_open(&b, on.d, on.queue);
    autograph_before_keep(&b, memory, SIZE, 3, false);
    assert_int_equal(b.n, 1);
    CHECK_OK(autograph_was_same(&b, &b.v[0], &same, &err), &err);
    assert_true(same);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memory[places[i]] ^= 1;
        CHECK_OK(autograph_was_same(&b, &b.v[0], &same, &err), &err);
        if (same) fail_msg("byte %zu", places[i]);
        on.copies = 0;
        CHECK_OK(autograph_was_put_back(&b, &b.v[0], &err), &err);
        assert_int_equal(on.copies, 1); /* of a line */
        assert_memory_equal(memory, was, SIZE);
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) memory[places[i]] ^= 1;
    CHECK_OK(autograph_was_put_back(&b, &b.v[0], &err), &err);
    assert_memory_equal(memory, was, SIZE);
    for (int i = 0; i < BEHIND; i++) assert_int_equal(memory[SIZE + i], 5);
    autograph_before_done(&b);
    base_free(memory);
    base_free(was);
}

/* 64 MB of all that stands for something have the pattern; what is behind are zeros, and watched as well. */
static void so_much_is_filled_of_stand_ins(void **state) {
    enum { SIZE = 24 << 20 };
    static char real[3][64];
    static const size_t filled[] = {SIZE, SIZE, (64 << 20) - 2 * SIZE};
    rp_error err = {0};
    uint32_t n = 0;
    (void)state;
    CHECK_OK(hal_capture_begin(on.queue, &err), &err);
    autograph_stands s = {.device = on.d, .queue = on.queue};
    for (uint32_t i = 0; i < 3; i++) {
        const autograph_stand one = {
            .size = SIZE, .dtype = RP_DTYPE_F32, .what = "state", .number = i, .state = true};
        void *at = NULL;
        CHECK_OK(autograph_stand_for(&s, real[i], &one, &at, &err), &err);
        assert_int_equal(s.v[i].filled, filled[i]);
        assert_int_equal((uintptr_t)at % 64, (uintptr_t)real[i] % 64);
    }
    CHECK_OK(autograph_stands_check(&s, &err), &err);
    s.v[2].at[SIZE - 1] = 1;
    assert_int_equal(autograph_stands_check(&s, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "state 2 is written by plain C"));
    err = (rp_error){0};
    if (hal_capture_end(on.queue, "none", NULL, &n, &err) != RP_OK) print_message("%s\n", err.text);
    autograph_stands_done(&s);
}

/* What an output says of its run is what was set last, in memory of its own. */
static void an_output_says_how_it_ran(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    const rp_value none = rp_value_none();
    char why[] = "a limit";
    const size_t before = base_live();
    (void)state;
    CHECK_OK(autograph_output_new(&none, NULL, 0, RP_RAN_EAGER, why, &o, &err), &err);
    why[0] = 'x';
    assert_string_equal(rp_output_reason(o), "a limit");
    autograph_output_set_ran(o, RP_RAN_CAPTURE, why);
    why[0] = 'y';
    assert_string_equal(rp_output_reason(o), "x limit");
    assert_int_equal(rp_output_ran(o), RP_RAN_CAPTURE);
    autograph_output_set_ran(o, RP_RAN_REPLAY, NULL);
    assert_string_equal(rp_output_reason(o), "");
    assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
    rp_output_free(o);
    assert_int_equal(base_live(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_table_is_sent_when_it_changed, open_device, close_device),
        cmocka_unit_test(a_pack_takes_what_is_small),
        cmocka_unit_test(an_output_says_how_it_ran),
        cmocka_unit_test_setup_teardown(packs_go_at_once_where_there_is_room, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(rows_that_are_not_given_are_zeros, open_device,
                                        close_device),
        cmocka_unit_test(rows_are_the_sizes_that_are_captured),
        cmocka_unit_test_setup_teardown(so_much_is_filled_of_stand_ins, open_device, close_device),
        cmocka_unit_test_setup_teardown(what_was_written_is_put_back, open_device, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
