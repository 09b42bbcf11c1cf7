/* Views of memory against a walk over their elements: whether they meet, what copies bring, and the widest strides. */
#include "support/check.h"

#include "base/view.h"

enum { ROOM = 4096, DRAWS = 20000 };

static uint64_t state = 1;

static int64_t draw(int64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((state >> 33) % (uint64_t)below);
}

static char *place(const base_view *v, int64_t n) {
    char *p = v->at;
    for (uint32_t i = v->rank; i-- > 0; n /= v->dim[i]) p += n % v->dim[i] * v->stride[i];
    return p;
}

static int64_t count(const base_view *v) {
    int64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++) n *= v->dim[i];
    return n;
}

/* Somewhere in the middle of the room, which it does not leave. */
static base_view draw_view(char *room) {
    static const size_t sizes[] = {1, 2, 4, 8};
    base_view v = {.element = sizes[draw(4)], .rank = (uint32_t)draw(4)};
    for (uint32_t i = 0; i < v.rank; i++) {
        v.dim[i] = draw(24) ? 1 + draw(5) : 0;
        v.stride[i] = (draw(33) - 12) * (draw(3) ? (int64_t)v.element : 1);
    }
    v.at = room + ROOM / 2 + draw(64);
    return v;
}

/* How many elements of v each byte of the room is in, counted in `to`. */
static bool mark(const base_view *v, const char *room, uint8_t *to) {
    bool twice = false;
    for (int64_t n = 0; n < count(v); n++) {
        char *p = place(v, n);
        for (size_t k = 0; k < v->element; k++) twice |= to[p - room + (ptrdiff_t)k]++ > 0;
    }
    return twice;
}

static void meeting_is_exact(void **s) {
    static char room[ROOM];
    static uint8_t a_has[ROOM], b_has[ROOM];
    int met = 0, apart = 0, repeats = 0;
    (void)s;
    for (int i = 0; i < DRAWS; i++) {
        base_view a = draw_view(room), b = draw_view(room);
        bool want = false;
        memset(a_has, 0, ROOM);
        memset(b_has, 0, ROOM);
        bool twice = mark(&a, room, a_has);
        (void)mark(&b, room, b_has);
        for (int k = 0; k < ROOM; k++) want |= a_has[k] && b_has[k];
        if (base_view_repeats(&a) != twice) fail_msg("draw %d: repeats is %d", i, !twice);
        if (base_views_meet(&a, &b) != want) fail_msg("draw %d: meet is %d", i, !want);
        met += want;
        apart += !want;
        repeats += twice;
    }
    assert_true(met > DRAWS / 10 && apart > DRAWS / 10 && repeats > DRAWS / 10);
}

static void spans_are_exact(void **s) {
    static char room[ROOM];
    (void)s;
    for (int i = 0; i < DRAWS; i++) {
        base_view v = draw_view(room);
        int64_t begin, end, low = INT64_MAX, high = INT64_MIN;
        assert_true(base_view_span(&v, &begin, &end));
        for (int64_t n = 0; n < count(&v); n++) {
            int64_t at = place(&v, n) - v.at;
            if (at < low) low = at;
            if (at + (int64_t)v.element > high) high = at + (int64_t)v.element;
        }
        assert_int_equal(begin, count(&v) ? low : 0);
        assert_int_equal(end, count(&v) ? high : 0);
    }
}

static void copies_bring_each_element(void **s) {
    static char room[ROOM], before[ROOM], dense[ROOM];
    (void)s;
    for (int i = 0; i < DRAWS; i++) {
        base_view v = draw_view(room);
        size_t bytes = 0;
        for (int k = 0; k < ROOM; k++) room[k] = (char)draw(256);
        memset(dense, 0x55, sizeof dense);
        base_view_gather(&v, dense + 64);
        assert_true(base_view_bytes(&v, &bytes));
        assert_int_equal(bytes, (size_t)count(&v) * v.element);
        for (int64_t n = 0; n < count(&v); n++)
            assert_memory_equal(dense + 64 + (size_t)n * v.element, place(&v, n), v.element);
        for (int k = 0; k < 64; k++) assert_int_equal(dense[k], 0x55);
        assert_int_equal(dense[64 + bytes], 0x55);
        if (base_view_repeats(&v)) continue;
        for (size_t k = 0; k < bytes; k++) dense[64 + k] = (char)~dense[64 + k];
        memcpy(before, room, ROOM);
        base_view_scatter(&v, dense + 64);
        for (int64_t n = 0; n < count(&v); n++) {
            char *p = place(&v, n);
            assert_memory_equal(p, dense + 64 + (size_t)n * v.element, v.element);
            memcpy(before + (p - room), p, v.element);
        }
        assert_memory_equal(room, before, ROOM);
    }
}

/* Squares, whole ones and what is left of them at the sides. */
static void turned_matrices(void **s) {
    enum { MOST = 150 };
    static char room[MOST * (MOST + 1) * 8], dense[MOST * MOST * 8], back[sizeof room];
    (void)s;
    for (int i = 0; i < 400; i++) {
        const size_t element = (size_t)1 << draw(4);
        const int64_t n = 1 + draw(MOST), m = 1 + draw(MOST), row = n + draw(2);
        const base_view v = {.at = room,
                             .element = element,
                             .rank = 2,
                             .dim = {n, m},
                             .stride = {(int64_t)element, row * (int64_t)element}};
        for (size_t k = 0; k < (size_t)(row * m) * element; k++) room[k] = (char)draw(256);
        const size_t bytes = (size_t)(n * m) * element, left = sizeof dense - bytes;
        const size_t behind = left < 4096 ? left : 4096;
        memset(dense + bytes, 0x55, behind);
        base_view_gather(&v, dense);
        for (int64_t k = 0; k < n * m; k++)
            assert_memory_equal(dense + (size_t)k * element, place(&v, k), element);
        for (size_t k = 0; k < behind; k++) assert_int_equal(dense[bytes + k], 0x55);
        memcpy(back, room, sizeof room);
        for (int64_t k = 0; k < n * m; k++) memset(place(&v, k), 0, element);
        base_view_scatter(&v, dense);
        assert_memory_equal(room, back, sizeof room);
    }
}

static void loops_are_joined(void **s) {
    base_runs l;
    (void)s;
    /* Columns 2..5 of [3,2,8]: the rows are equally far apart. */
    base_view v = {.element = 4, .rank = 3, .dim = {3, 2, 4}, .stride = {64, 32, 4}};
    base_view_runs(&v, true, &l);
    assert_int_equal(l.run, 16);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.dim[0], 6);
    assert_int_equal(l.from[0], 32);
    assert_int_equal(l.to[0], 16);
    base_view_runs(&v, false, &l);
    assert_int_equal(l.to[0], 32);
    assert_int_equal(l.from[0], 16);
    assert_false(base_view_is_dense(&v));
    /* An axis of 1 has any stride. */
    base_view d = {.element = 4, .rank = 3, .dim = {3, 1, 4}, .stride = {16, INT64_MIN, 4}};
    assert_true(base_view_is_dense(&d));
    base_view_runs(&d, true, &l);
    assert_int_equal(l.n, 0);
    assert_int_equal(l.run, 48);
    assert_false(base_view_repeats(&d));
}

/* Strides beyond addresses are told, and ones near the limit end in time. */
static void wide_strides(void **s) {
    int64_t begin, end;
    (void)s;
    base_view v = {.element = 8, .rank = 2, .dim = {INT64_C(1) << 40, 2}, .stride = {1 << 24, 8}};
    assert_false(base_view_span(&v, &begin, &end));
    v.stride[0] = -(1 << 24);
    assert_false(base_view_span(&v, &begin, &end));
    v.dim[0] = 2;
    v.stride[0] = INT64_MIN;
    assert_false(base_view_span(&v, &begin, &end));
    v = (base_view){.element = 4,
                    .rank = 6,
                    .dim = {99991, 99989, 99971, 9973, 9967, 9949},
                    .stride = {40000004, 80000012, 120000044, 160000028, 200000052, 240000068}};
    (void)base_view_repeats(&v);
    /* A large transposed matrix, and its mirror. */
    base_view t = {.element = 4, .rank = 2, .dim = {1 << 20, 1 << 20}, .stride = {4, 4 << 20}};
    assert_false(base_view_repeats(&t));
    t.stride[0] = -4;
    assert_false(base_view_repeats(&t));
    t.dim[0]++;
    assert_true(base_view_repeats(&t));
}

/* More elements than there are bytes of memory, which may all be the same one. */
static void counts_that_overflow_are_refused(void **s) {
    base_view v = {NULL, 4, 3, {INT64_C(1) << 40, INT64_C(1) << 40, 1}, {0, 0, 0}};
    size_t bytes = 1;
    (void)s;
    assert_false(base_view_bytes(&v, &bytes));
    v.dim[1] = INT64_C(1) << 20;
    assert_false(base_view_bytes(&v, &bytes));
    v.dim[1] = INT64_C(1) << 18;
    assert_true(base_view_bytes(&v, &bytes));
    assert_true(bytes == (size_t)1 << 60);
    v.dim[1] = INT64_MAX;
    v.dim[2] = 0;
    assert_true(base_view_bytes(&v, &bytes));
    assert_int_equal(bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meeting_is_exact),
        cmocka_unit_test(spans_are_exact),
        cmocka_unit_test(copies_bring_each_element),
        cmocka_unit_test(turned_matrices),
        cmocka_unit_test(loops_are_joined),
        cmocka_unit_test(wide_strides),
        cmocka_unit_test(counts_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
