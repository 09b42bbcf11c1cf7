/* What every device has to pass: memory, ranges, audit, modules, launches, graphs, counters, log.
 * A device that runs nothing skips the tests of results. Add a device to devices[]. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/trees.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "hal/cuda/code.h"
#include "hal/device.h"
#include "hal/hal.h"

typedef struct fixture {
    const char *name;
    uint32_t n_threads;
    bool runs; /* executes what it is given */
    hal_device *d;
} fixture;

static fixture devices[] = {{"cpu", 1, true, NULL},
                            {"cpu", 2, true, NULL},
                            {"cpu", 5, true, NULL},
                            {"null", 0, false, NULL},
                            {"cuda:0", 0, true, NULL}};
static const char *no_gpu; /* why cuda:0 cannot be tested */

enum { N = 1000 };

static int open_device(void **state) {
    fixture *f = *state;
    rp_error err = {0};
    if (f == &devices[4] && no_gpu) return 0;
    return hal_open(f->name, f->n_threads, &f->d, &err) == RP_OK ? 0 : -1;
}

static int close_device(void **state) {
    fixture *f = *state;
    hal_close(f->d);
    f->d = NULL;
    return 0;
}

#define NEEDS_DEVICE(f) \
    if (!(f)->d) SKIP_TEST("%s", no_gpu)

static void *get_memory(hal_device *d, size_t size) {
    void *p = NULL;
    rp_error err = {0};
    assert_int_equal(d->ops->alloc(d, HAL_MAPPED_MEMORY, size, &p, &err), RP_OK);
    return p;
}

/* out[i] = in[i] + dim[0] */
static void add_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    const int64_t *in = arg[0];
    int64_t *out = arg[1];
    (void)scratch;
    for (long long i = begin; i < end; i++) out[i] = in[i] + dim[0];
}

/* out[i] = in[N-1-i]: needs what other threads wrote before. */
static void reverse_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                           void *scratch) {
    const int64_t *in = arg[0];
    int64_t *out = arg[1];
    (void)dim, (void)scratch;
    for (long long i = begin; i < end; i++) out[i] = in[N - 1 - i];
}

/* Fills scratch and fails loudly if it is too small or misaligned. */
static void scratch_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                           void *scratch) {
    int64_t *out = arg[0];
    memset(scratch, 0x5a, (size_t)dim[0]);
    for (long long i = begin; i < end; i++) out[i] = ((uintptr_t)scratch & 63) == 0;
}

static rp_status count_call(void *user, void *const *arg, const long long *dim, rp_error *err) {
    (void)arg, (void)dim, (void)err;
    ++*(int *)user;
    return RP_OK;
}

static rp_status failing_call(void *user, void *const *arg, const long long *dim, rp_error *err) {
    (void)user, (void)arg, (void)dim;
    if (err) {
        err->code = RP_CANCELLED;
        (void)snprintf(err->text, sizeof err->text, "op said no");
    }
    return RP_CANCELLED;
}

static hal_launch kernel(hal_host_fn fn, void *const *arg, uint32_t n_arg, const long long *dim,
                         long long items, long long grain) {
    return (hal_launch){.kind = HAL_KERNEL,
                        .name = "k",
                        .fn = {.host = fn},
                        .arg = arg,
                        .dim = dim,
                        .items = items,
                        .grain = grain,
                        .n_arg = n_arg,
                        .n_dim = 1};
}

static void memory_is_zeroed_aligned_and_counted(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    hal_device_info info;
    d->ops->info(d, &info);
    assert_true(info.name[0] != 0);
    unsigned char *p = get_memory(d, 5000), *q = get_memory(d, 0);
    assert_int_equal((uintptr_t)p % info.alignment, 0);
    for (int i = 0; i < 5000; i++) assert_int_equal(p[i], 0);
    assert_int_equal(hal_device_counters(d)->live_bytes, 5000);
    assert_int_equal(hal_device_counters(d)->allocs, 2);
    assert_int_equal(hal_range_size(d, p), 5000);
    assert_int_equal(hal_range_size(d, p + 1), 0); /* within, but not where it begins */
    assert_int_equal(hal_range_size(d, q), 1);
    d->ops->release(d, p, 5000);
    d->ops->release(d, q, 0);
    d->ops->release(d, NULL, 0);
    assert_int_equal(hal_device_counters(d)->live_bytes, 0);
    assert_int_equal(hal_device_counters(d)->frees, 2);
    p = get_memory(d, 10);
    for (int i = 0; i < 10; i++) assert_int_equal(p[i], 0);
    d->ops->release(d, p, 10);
    assert_int_equal(hal_device_counters(d)->peak_bytes, 5000);
}

/* What the host writes arrives in memory of the device, moves there, and comes back, in the order of the calls. */
static void copies_go_both_ways(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    enum { SIZE = 3000 };
    unsigned char from[SIZE], to[SIZE];
    void *a = NULL, *b = NULL;
    rp_error err = {0};
    for (int i = 0; i < SIZE; i++) from[i] = (unsigned char)(i * 7);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, SIZE, &a, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, SIZE, &b, &err), &err);
    CHECK_OK(d->ops->copy(d, to, a, SIZE, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
    for (int i = 0; i < SIZE; i++) assert_int_equal(to[i], 0); /* as new memory is */
    CHECK_OK(d->ops->copy(d, a, from, SIZE, &err), &err);
    memset(from, 0, 10); /* free for other use */
    CHECK_OK(d->ops->copy(d, b, a, SIZE, &err), &err);
    CHECK_OK(d->ops->fill(d, (char *)a + 100, 0x5a, 50, &err), &err);
    CHECK_OK(d->ops->copy(d, a, (char *)b + 1000, 20, &err), &err);
    CHECK_OK(d->ops->copy(d, a, NULL, 0, &err), &err);
    CHECK_OK(d->ops->copy(d, to, a, SIZE, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
    for (int i = 0; i < SIZE; i++) {
        int want = i < 20 ? (i + 1000) * 7 : i * 7;
        assert_int_equal(to[i], i >= 100 && i < 150 ? 0x5a : (unsigned char)want);
    }
    d->ops->release(d, a, SIZE);
    d->ops->release(d, b, SIZE);
}

/* --- copies of runs --- */

enum { ROOM = 1 << 18 };

static uint64_t drawn = 9;

static int64_t draw(int64_t below) {
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((drawn >> 33) % (uint64_t)below);
}

/* In a memory: axes in any order, the nearest first, with gaps. first: where the first run is; false: there is no room. */
static bool draw_steps(const base_runs *r, int64_t *step, bool read, int64_t *first) {
    uint32_t order[BASE_RUNS_AXES];
    int64_t next = (int64_t)r->run + (draw(3) ? 0 : draw(9)), low = 0, high = (int64_t)r->run;
    for (uint32_t i = 0; i < r->n; i++) order[i] = i;
    for (uint32_t i = r->n; i-- > 1;) {
        uint32_t k = (uint32_t)draw(i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t a = order[i];
        step[a] = draw(4) ? next : -next;
        if (read && !draw(6)) step[a] = draw(7) - 3;
        *(step[a] < 0 ? &low : &high) += step[a] * (r->dim[a] - 1);
        next = next * r->dim[a] + (draw(3) ? 0 : draw(17));
    }
    *first = -low + draw(33);
    return *first + high <= ROOM;
}

/* Few axes of many runs, many of few, or rows that are long. */
static base_runs draw_runs(int64_t first[2]) {
    static const size_t sizes[] = {1, 2, 3, 4, 4, 8, 12, 16, 32, 600};
    base_runs r;
    do {
        r = (base_runs){.run = sizes[draw(10)], .n = (uint32_t)draw(BASE_RUNS_AXES + 1)};
        if (!draw(5)) r = (base_runs){.run = 500 + (size_t)draw(300), .n = 1};
        int64_t most = r.n < 3 ? 300 : 6;
        for (uint32_t i = 0; i < r.n; i++) r.dim[i] = 1 + draw(most);
        if (r.n && !draw(16)) r.dim[0] = 0;
    } while (!draw_steps(&r, r.to, false, &first[0]) || !draw_steps(&r, r.from, true, &first[1]));
    return r;
}

static void copy_each(const base_runs *r, char *to, const char *from, uint32_t axis) {
    if (axis == r->n) memcpy(to, from, r->run);
    for (int64_t i = 0; axis < r->n && i < r->dim[axis]; i++)
        copy_each(r, to + i * r->to[axis], from + i * r->from[axis], axis + 1);
}

/* As it is, and by a graph. */
static void copies_of_runs_bring_each_byte(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    const fixture *f = *state;
    hal_device *d = f->d;
    static char from[ROOM], to[ROOM], want[ROOM];
    void *a = NULL, *b = NULL;
    rp_error err = {0};
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, ROOM, &a, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, ROOM, &b, &err), &err);
    for (int i = 0; i < ROOM; i++) from[i] = (char)draw(256);
    CHECK_OK(d->ops->copy(d, a, from, ROOM, &err), &err);
    for (int n = 0; n < 200; n++) {
        int64_t first[2];
        const base_runs r = draw_runs(first);
        const bool captured = f->runs && n % 2;
        const uint64_t copied = hal_device_counters(d)->copied_bytes;
        hal_graph *g = NULL;
        uint32_t nodes = 0;
        memset(want, 0x11, ROOM);
        copy_each(&r, want + first[0], from + first[1], 0);
        CHECK_OK(d->ops->fill(d, b, 0x11, ROOM, &err), &err);
        if (captured) CHECK_OK(hal_capture_begin(d, &err), &err);
        CHECK_OK(d->ops->copy_runs(d, (char *)b + first[0], (char *)a + first[1], &r, &err), &err);
        if (captured) {
            assert_int_equal(hal_capture_touched(d, b, ROOM), base_runs_bytes(&r) > 0);
            CHECK_OK(hal_capture_end(d, "runs", &g, &nodes, &err), &err);
            assert_true(nodes <= 1);
            CHECK_OK(d->ops->graph_launch(g, &err), &err);
        } else {
            assert_int_equal(hal_device_counters(d)->copied_bytes - copied, base_runs_bytes(&r));
        }
        CHECK_OK(d->ops->copy(d, to, b, ROOM, &err), &err);
        CHECK_OK(d->ops->synchronize(d, &err), &err);
        if (g) d->ops->graph_free(g);
        if (memcmp(to, want, ROOM) != 0) fail_msg("draw %d", n);
    }
    d->ops->release(d, a, ROOM);
    d->ops->release(d, b, ROOM);
}

static bool is_filled(hal_device *d, const void *at, int byte, size_t n) {
    unsigned char *host = base_alloc(n);
    rp_error err = {0};
    bool same = true;
    assert_non_null(host);
    CHECK_OK(d->ops->copy(d, host, at, n, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
    for (size_t i = 0; i < n; i++) same = same && host[i] == byte;
    base_free(host);
    return same;
}

/* What there was stays where and as it is, what comes is zero; a device may take more than it is asked for. */
static void ranges_grow_in_place(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    enum { PIECE = 300000, PIECES = 5, SIZE = 3 << 20 };
    hal_reserved *r = NULL;
    rp_error err = {0};
    CHECK_OK(d->ops->reserve(d, SIZE, &r, &err), &err);
    char *at = r->at;
    assert_true(r->size >= SIZE && r->committed == 0);
    for (int i = 0; i < PIECES; i++) {
        size_t size = (size_t)(i + 1) * PIECE, before = r->committed;
        CHECK_OK(d->ops->commit(r, size, &err), &err);
        assert_true(r->at == at && r->committed >= size && r->committed <= r->size);
        assert_int_equal(hal_device_counters(d)->live_bytes, r->committed);
        assert_true(hal_device_counters(d)->peak_bytes >= r->committed);
        assert_int_equal(hal_range_size(d, at), r->committed);
        if (size > before) assert_true(is_filled(d, at + before, 0, r->committed - before));
        for (int k = 0; k < i; k++) assert_true(is_filled(d, at + k * PIECE, k + 1, PIECE));
        CHECK_OK(d->ops->fill(d, at + i * PIECE, i + 1, PIECE, &err), &err);
    }
    size_t most = r->committed;
    CHECK_OK(d->ops->commit(r, 1, &err), &err); /* is never less */
    assert_int_equal(r->committed, most);
    assert_int_equal(d->ops->commit(r, r->size + 1, &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "of a reserved range that has"));
    assert_int_equal(r->committed, most);
    d->ops->unreserve(r);
    d->ops->unreserve(NULL);
    assert_int_equal(hal_device_counters(d)->live_bytes, 0);
    assert_int_equal(hal_range_size(d, at), 0);
}

/* What fill has written where, and how often each byte was asked for. */
typedef struct bytes {
    atomic_uint times[HAL_PART * 5 / 2 / 1000 + 1]; /* of a thousand bytes */
} bytes;

static unsigned char byte_at(size_t i) {
    return (unsigned char)(i * 7 + i / 251);
}

static void fill_bytes(void *user, void *at, size_t offset, size_t n) {
    bytes *b = user;
    for (size_t i = 0; i < n; i++) {
        ((unsigned char *)at)[i] = byte_at(offset + i);
        if ((offset + i) % 1000 == 0) atomic_fetch_add(&b->times[(offset + i) / 1000], 1);
    }
}

/* Two parts and a half, one part, less than one and none; several threads. */
static void uploads_arrive_whole(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    static const size_t sizes[] = {HAL_PART * 5 / 2, HAL_PART, 12345, 0};
    for (uint32_t k = 0; k < 4 * 2; k++) {
        const size_t size = sizes[k / 2];
        bytes b = {0};
        const hal_source from = {fill_bytes, &b, size, k % 2 ? 3 : 1};
        void *to = NULL;
        unsigned char *back = base_alloc(size + 1);
        rp_error err = {0};
        assert_non_null(back);
        CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, size, &to, &err), &err);
        CHECK_OK(d->ops->upload(d, to, &from, &err), &err);
        CHECK_OK(d->ops->copy(d, back, to, size, &err), &err);
        CHECK_OK(d->ops->synchronize(d, &err), &err);
        for (size_t i = 0; i < size; i++)
            if (back[i] != byte_at(i)) fail_msg("byte %zu of %zu", i, size);
        for (size_t i = 0; i < size; i += 1000)
            assert_int_equal(atomic_load(&b.times[i / 1000]), 1);
        base_free(back);
        d->ops->release(d, to, size);
    }
}

/* What calls a device may be asked for that no graph can do again. */
typedef enum { WAITS, REPLAYS, RECORDS, WAITS_FOR_EVENT, UPLOADS, TIMES, N_REFUSED } refused_call;

static rp_status call_refused(hal_device *d, refused_call call, hal_graph *g, hal_event *e,
                              void *at, rp_error *err) {
    bytes b = {0};
    const hal_source from = {fill_bytes, &b, 100, 1};
    const hal_launch none = {.name = "none"};
    int64_t ns = 0;
    switch (call) {
    case WAITS: return d->ops->synchronize(d, err);
    case REPLAYS: return d->ops->graph_launch(g, err);
    case RECORDS: return d->ops->event_record(d, e, err);
    case WAITS_FOR_EVENT: return d->ops->event_wait(d, e, err);
    case UPLOADS: return d->ops->upload(d, at, &from, err);
    default: return hal_time(d, &none, 1, 0, &ns, err);
    }
}

/* Each of them fails while calls are captured, does nothing, and is why the capture fails; behind it all of them work. */
static void what_no_graph_can_do_is_refused(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    static const char *const said[N_REFUSED] = {
        "waiting for the device", "a replay",  "recording an event",
        "waiting for an event",   "an upload", ""};
    hal_device *d = ((fixture *)*state)->d;
    hal_graph *g = NULL, *made = NULL;
    hal_event *e = NULL;
    uint32_t n = 0;
    rp_error err = {0};
    char *at = get_memory(d, 100);
    CHECK_OK(d->ops->graph_build(d, NULL, 0, 0, "empty", &g, &err), &err);
    CHECK_OK(d->ops->event_new(d, &e, &err), &err);
    for (int call = 0; call < N_REFUSED; call++) {
        rp_error why = {0}, end = {0};
        const uint64_t replays = hal_device_counters(d)->graph_launches;
        CHECK_OK(hal_capture_begin(d, &err), &err);
        if (call_refused(d, (refused_call)call, g, e, at, &why) != RP_INVALID)
            fail_msg("call %d: %s", call, why.text);
        if (strncmp(why.text, said[call], strlen(said[call])) != 0 ||
            !strstr(why.text, " while calls are captured, which cannot be replayed"))
            fail_msg("call %d: %s", call, why.text);
        assert_int_equal(hal_capture_end(d, "refused", &made, &n, &end), RP_INVALID);
        assert_string_equal(end.text, why.text);
        assert_null(made);
        assert_int_equal(hal_device_counters(d)->graph_launches, replays);
        CHECK_OK(d->ops->synchronize(d, &err), &err);
        assert_true(is_filled(d, at, 0, 100));
    }
    for (int call = 0; call < N_REFUSED; call++)
        CHECK_OK(call_refused(d, (refused_call)call, g, e, at, &err), &err);
    CHECK_OK(d->ops->event_synchronize(e, &err), &err);
    d->ops->event_free(e);
    d->ops->graph_free(g);
    d->ops->release(d, at, 100);
}

static void audit_names_launch_and_argument(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    rp_error err = {0};
    char *p = get_memory(d, 64);
    static char mapped[128], foreign[8];
    void *good[] = {p, p + 63}, *bad[] = {p, mapped + 5};
    hal_launch l[] = {kernel(add_kernel, good, 2, NULL, 1, 1),
                      kernel(add_kernel, bad, 2, NULL, 1, 1)};
    l[1].name = "second";
    assert_int_equal(hal_audit(d, l, 1, &err), RP_OK);
    assert_int_equal(hal_audit(d, l, 2, &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "launch 1 (second): argument 1"));
    assert_int_equal(hal_range_add(d, mapped, sizeof mapped, "weights", NULL), RP_OK);
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_OK);
    /* with sizes all of the bytes count, and two ranges side by side are not one */
    const size_t whole[] = {64, sizeof mapped - 5}, more[] = {64, sizeof mapped - 4},
                 none[] = {0, 0};
    l[1].arg_size = whole;
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_OK);
    l[1].arg_size = more;
    err = (rp_error){0};
    assert_int_equal(hal_audit(d, l, 2, &err), RP_INTERNAL);
    assert_non_null(
        strstr(err.text, "has 124 bytes, 1 beyond the end of the registered range weights"));
    l[1].arg_size = none;
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_OK);
    bad[1] = mapped + sizeof mapped; /* one beyond the end */
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_INTERNAL);
    bad[1] = foreign;
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_INTERNAL);
    bad[1] = NULL;
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_INTERNAL);
    bad[1] = foreign + 4; /* an empty range has its address */
    assert_int_equal(hal_range_add(d, foreign + 4, 0, "empty", NULL), RP_OK);
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_OK);
    hal_range_remove(d, foreign + 4);
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_INTERNAL);
    bad[1] = mapped;
    hal_range_remove(d, mapped);
    assert_int_equal(hal_audit(d, l, 2, NULL), RP_INTERNAL);
    d->ops->release(d, p, 64);
    assert_int_equal(hal_audit(d, l, 1, NULL), RP_INTERNAL);
}

static void overlapping_ranges_are_refused(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    static char m[300];
    rp_error err = {0};
    assert_int_equal(hal_range_add(d, m + 100, 100, "mid", &err), RP_OK);
    assert_int_equal(hal_range_add(d, m, 100, "low", &err), RP_OK);
    assert_int_equal(hal_range_add(d, m + 200, 100, "high", &err), RP_OK);
    assert_int_equal(hal_range_add(d, m + 150, 10, "inner", &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "overlaps the registered range mid"));
    hal_range_remove(d, m + 100);
    assert_int_equal(hal_range_add(d, m + 99, 2, "edge", NULL), RP_INTERNAL);
    assert_int_equal(hal_range_add(d, m + 199, 2, "edge", NULL), RP_INTERNAL);
    assert_int_equal(hal_range_add(d, m + 100, 100, "mid", NULL), RP_OK);
}

static void launches_run_in_order_whatever_the_shares(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    if (!f->runs) SKIP_TEST("device %s runs nothing", f->name);
    static const long long counts[] = {1, 2, 3, 7, 16, 17, 999, N}, grains[] = {1, 2, 5, 64, 5000};
    int64_t *a = get_memory(d, N * 8), *b = get_memory(d, N * 8);
    void *ab[] = {a, b}, *ba[] = {b, a};
    long long one = 1;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            memset(a, 0, N * 8);
            memset(b, 0, N * 8);
            hal_launch l[40];
            for (int i = 0; i < 40; i += 2) {
                l[i] = kernel(add_kernel, ab, 2, &one, counts[c], grains[g]);
                l[i + 1] = kernel(add_kernel, ba, 2, &one, counts[c], grains[g]);
            }
            assert_int_equal(d->ops->launch(d, l, 40, 0, NULL), RP_OK);
            for (int i = 0; i < N; i++) assert_int_equal(a[i], i < counts[c] ? 40 : 0);
        }
    d->ops->release(d, a, N * 8);
    d->ops->release(d, b, N * 8);
}

/* Mixes of solo and shared launches, host calls and no_barrier against a one-by-one run. */
static void barriers_hold_in_random_lists(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    if (!f->runs) SKIP_TEST("device %s runs nothing", f->name);
    enum { BUFS = 4, LEN = 12 };
    int64_t *buf[BUFS], want[BUFS][N];
    void *pair[BUFS][BUFS][2];
    for (int i = 0; i < BUFS; i++) buf[i] = get_memory(d, N * 8);
    for (int i = 0; i < BUFS; i++)
        for (int j = 0; j < BUFS; j++) pair[i][j][0] = buf[i], pair[i][j][1] = buf[j];
    uint32_t seed = 12345;
    long long three = 3;
    int calls = 0, want_calls = 0;
    for (int round = 0; round < 300; round++) {
        hal_launch l[LEN];
        for (int i = 0; i < BUFS; i++)
            for (int k = 0; k < N; k++) buf[i][k] = want[i][k] = i * 100000 + k;
        for (int i = 0; i < LEN; i++) {
            seed = seed * 1664525 + 1013904223;
            uint32_t r = seed >> 8, src = r % BUFS, dst = (src + 1 + r / 4 % (BUFS - 1)) % BUFS;
            hal_host_fn fn = r & 64 ? add_kernel : reverse_kernel;
            l[i] = kernel(fn, pair[src][dst], 2, &three, N, r & 128 ? N : 1 + r / 256 % 90);
            if (r / 1024 % 8 == 0)
                l[i] = (hal_launch){.kind = HAL_HOST_CALL, .call = count_call, .user = &calls};
            /* Independent: the one before touches none of these two buffers. */
            if (i && !(i > 1 && l[i - 2].no_barrier) && l[i].arg && l[i - 1].arg &&
                l[i - 1].arg[0] != l[i].arg[1] && l[i - 1].arg[1] != l[i].arg[0] &&
                l[i - 1].arg[1] != l[i].arg[1])
                l[i - 1].no_barrier = 1;
            if (l[i].kind == HAL_HOST_CALL)
                want_calls++;
            else
                fn((void *const[]){want[src], want[dst]}, &three, 0, N, NULL);
        }
        assert_int_equal(d->ops->launch(d, l, LEN, 0, NULL), RP_OK);
        for (int i = 0; i < BUFS; i++) assert_memory_equal(buf[i], want[i], N * 8);
    }
    assert_int_equal(calls, want_calls);
    for (int i = 0; i < BUFS; i++) d->ops->release(d, buf[i], N * 8);
}

static void graph_launches_what_was_built(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    int64_t *a = get_memory(d, N * 8), *b = get_memory(d, N * 8);
    void *ab[] = {a, b}, *rev[] = {b, a};
    long long five = 5;
    char label[] = "decode_b1";
    hal_launch l[] = {kernel(add_kernel, ab, 2, &five, N, 10),
                      kernel(reverse_kernel, rev, 2, &five, N, 10)};
    hal_graph *g = NULL;
    assert_int_equal(d->ops->graph_build(d, l, 2, 0, label, &g, NULL), RP_OK);
    /* The graph keeps its own copies. */
    memset(l, 0xee, sizeof l);
    memset(label, 'x', sizeof label - 1);
    ab[0] = rev[1] = NULL;
    five = -1;
    assert_true(d->ops->graph_bytes(g) >= 2 * sizeof(hal_launch) + 4 * sizeof(void *));
    a[0] = 7;
    hal_log_record(d, true);
    uint64_t before = base_alloc_count();
    for (int i = 0; i < 10; i++) assert_int_equal(d->ops->graph_launch(g, NULL), RP_OK);
    assert_int_equal(base_alloc_count(), before);
    assert_int_equal(d->ops->synchronize(d, NULL), RP_OK);
    const hal_counters *c = hal_device_counters(d);
    assert_int_equal(c->graph_builds, 1);
    assert_int_equal(c->graph_launches, 10);
    assert_int_equal(c->graph_nodes, 20);
    assert_int_equal(c->launches, 0);
    assert_int_equal(hal_log_count(d), 10);
    assert_string_equal(hal_log_at(d, 9), "graph_launch decode_b1");
    assert_null(hal_log_at(d, 10));
    if (f->runs) {
        assert_int_equal(a[0], 57); /* even number of reversals, 5 added each time */
        assert_int_equal(a[N - 1], 50);
    } else {
        assert_int_equal(a[0], 7);
    }
    d->ops->graph_free(g);
    d->ops->graph_free(NULL);
    d->ops->release(d, a, N * 8);
    d->ops->release(d, b, N * 8);
}

/* What a graph takes is told, of a graph of nothing, too: what it is, its launches with all that they have, its name. */
static void a_graph_takes_what_it_keeps(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    enum { LAUNCHES = 40, NAME = 4000 };
    hal_device *d = ((fixture *)*state)->d;
    static char name[NAME + 1];
    hal_graph *empty = NULL, *named = NULL, *full = NULL;
    rp_error err = {0};
    void *ab[2] = {get_memory(d, N * 8), get_memory(d, N * 8)};
    long long one = 1;
    hal_launch l[LAUNCHES];
    memset(name, 'x', NAME);
    for (int i = 0; i < LAUNCHES; i++) l[i] = kernel(add_kernel, ab, 2, &one, 0, 1);
    CHECK_OK(d->ops->graph_build(d, NULL, 0, 0, "", &empty, &err), &err);
    CHECK_OK(d->ops->graph_build(d, NULL, 0, 0, name, &named, &err), &err);
    CHECK_OK(d->ops->graph_build(d, l, LAUNCHES, 0, "", &full, &err), &err);
    const size_t least = d->ops->graph_bytes(empty);
    assert_true(least >= sizeof(void *));
    assert_int_equal(d->ops->graph_bytes(named) - least, NAME);
    assert_true(d->ops->graph_bytes(full) - least >=
                LAUNCHES * (sizeof *l + sizeof ab + sizeof one));
    d->ops->graph_free(empty);
    d->ops->graph_free(named);
    d->ops->graph_free(full);
    for (int i = 0; i < 2; i++) d->ops->release(d, ab[i], N * 8);
}

static void empty_lists_are_fine(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    hal_device *d = ((fixture *)*state)->d;
    hal_graph *g = NULL;
    assert_int_equal(d->ops->launch(d, NULL, 0, 0, NULL), RP_OK);
    assert_int_equal(d->ops->graph_build(d, NULL, 0, 0, NULL, &g, NULL), RP_OK);
    assert_int_equal(d->ops->graph_launch(g, NULL), RP_OK);
    d->ops->graph_free(g);
    hal_launch none = kernel(add_kernel, NULL, 0, NULL, 0, 1); /* no items: fn is not called */
    assert_int_equal(d->ops->launch(d, &none, 1, 0, NULL), RP_OK);
}

static void scratch_is_private_and_large_enough(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    int64_t *out = get_memory(d, N * 8);
    void *arg[] = {out};
    for (long long size = 64; size <= 300000; size = size * 3 + 1) {
        hal_launch l = kernel(scratch_kernel, arg, 1, &size, N, 1);
        memset(out, 0, N * 8);
        assert_int_equal(d->ops->launch(d, &l, 1, (size_t)size, NULL), RP_OK);
        uint64_t before = base_alloc_count();
        assert_int_equal(d->ops->launch(d, &l, 1, (size_t)size, NULL), RP_OK);
        assert_int_equal(base_alloc_count(), before);
        for (int i = 0; f->runs && i < N; i++) assert_int_equal(out[i], 1);
    }
    d->ops->release(d, out, N * 8);
}

/* A launch that finds no memory for its scratch leaves the queue to the next one. */
static void a_launch_without_memory_ends(void **state) {
    hal_device *d = NULL;
    rp_error err = {0};
    int64_t out[N] = {0};
    void *arg[] = {out};
    long long size = 1 << 20;
    (void)state;
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    hal_launch l = kernel(scratch_kernel, arg, 1, &size, N, 1);
    base_alloc_fail_nth(1);
    assert_int_equal(d->ops->launch(d, &l, 1, (size_t)size, &err), RP_NOMEM);
    assert_true(base_alloc_fail_nth(0));
    assert_int_equal(out[0], 0);
    err = (rp_error){0};
    CHECK_OK(d->ops->launch(d, &l, 1, (size_t)size, &err), &err);
    assert_int_equal(out[N - 1], 1);
    hal_close(d);
}

/* Nor is there a graph that would run without. */
static void a_graph_without_memory_is_not_made(void **state) {
    hal_device *d = NULL;
    hal_graph *g = NULL;
    rp_error err = {0};
    int64_t out[N] = {0};
    void *arg[] = {out};
    long long size = 1 << 20;
    (void)state;
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    hal_launch l = kernel(scratch_kernel, arg, 1, &size, N, 1);
    base_alloc_fail_nth(1);
    assert_int_equal(d->ops->graph_build(d, &l, 1, (size_t)size, "g", &g, &err), RP_NOMEM);
    assert_true(base_alloc_fail_nth(0));
    assert_null(g);
    hal_close(d);
}

/* A list whose lists are these in turn, so often each. */
typedef struct turns {
    const hal_launch *list[3];
    uint32_t n[3], times, fails_at; /* fails_at: the turn; 0: none */
} turns;

static rp_status next_turn(void *user, hal_device *d, void *const *arg, const long long *dim,
                           uint64_t turn, hal_list *out, rp_error *err) {
    const turns *t = user;
    (void)d, (void)arg, (void)dim;
    if (t->fails_at && turn == t->fails_at) return rp_fail(err, RP_CANCELLED, "no next list");
    *out = (hal_list){turn < 3u * t->times ? t->list[turn % 3] : NULL, t->n[turn % 3]};
    return RP_OK;
}

static hal_launch lists(turns *t) {
    return (hal_launch){
        .kind = HAL_LISTS, .name = "lists", .next = next_turn, .user = t, .items = 1};
}

/* Everything within everything: shared launches, small ones, calls, lists of small ones alone, lists that end at once. */
static void lists_within_lists_run_in_order(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    if (!f->runs) SKIP_TEST("device %s runs nothing", f->name);
    int64_t *a = get_memory(d, N * 8), *b = get_memory(d, N * 8);
    void *ab[] = {a, b}, *ba[] = {b, a};
    long long one = 1;
    int calls = 0;
    hal_launch count = {.kind = HAL_HOST_CALL, .name = "count", .call = count_call, .user = &calls};
    hal_launch wide = kernel(add_kernel, ab, 2, &one, N, 1),
               back = kernel(reverse_kernel, ba, 2, &one, N, 1);
    hal_launch small = kernel(add_kernel, ab, 2, &one, N, N),
               small_back = kernel(reverse_kernel, ba, 2, &one, N, N);
    hal_launch shared[] = {wide, back}, solo[] = {small, small_back, count};
    turns never = {.times = 0}, often = {{shared, solo, shared}, {2, 3, 2}, 2, 0};
    turns alone = {{solo, solo, solo}, {3, 3, 3}, 3, 0};
    hal_launch mixed[] = {lists(&never), lists(&often), small, small_back, lists(&alone)};
    turns outer = {{mixed, shared, mixed}, {5, 2, 5}, 3, 0};
    hal_launch l[] = {wide, back, lists(&outer), lists(&alone), wide, back};
    /* mixed: 6 of often, 1, 9 of alone; outer: 3 times 16, 1, 16; before and behind: 1, 9, 1. */
    int64_t steps = 3 * (16 + 1 + 16) + 1 + 9 + 1, solos = 3 * 2 * (2 + 9) + 9;
    for (int round = 0; round < 100; round++) {
        calls = 0;
        for (int i = 0; i < N; i++) a[i] = i;
        assert_int_equal(d->ops->launch(d, l, 6, 0, NULL), RP_OK);
        assert_int_equal(calls, solos);
        for (int i = 0; i < N; i++) assert_int_equal(a[i], (steps % 2 ? N - 1 - i : i) + steps);
    }
    /* An error of any turn stops all of it. */
    for (uint32_t turn = 1; turn < 6; turn++) {
        rp_error err = {0};
        often.fails_at = turn;
        assert_int_equal(d->ops->launch(d, l, 6, 0, &err), RP_CANCELLED);
        assert_string_equal(err.text, "no next list");
    }
    solo[2] = (hal_launch){.kind = HAL_HOST_CALL, .name = "fail", .call = failing_call};
    often.fails_at = 0;
    assert_int_equal(d->ops->launch(d, l, 6, 0, NULL), RP_CANCELLED);
    d->ops->release(d, a, N * 8);
    d->ops->release(d, b, N * 8);
}

static void host_call_error_stops_the_list(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    if (!f->runs) SKIP_TEST("device %s runs nothing", f->name);
    int64_t *a = get_memory(d, N * 8), *b = get_memory(d, N * 8);
    void *ab[] = {a, b};
    long long one = 1;
    int calls = 0;
    hal_launch count = {.kind = HAL_HOST_CALL, .name = "count", .call = count_call, .user = &calls};
    hal_launch fail = {.kind = HAL_HOST_CALL, .name = "fail", .call = failing_call};
    hal_launch wide = kernel(add_kernel, ab, 2, &one, N, 1);
    hal_launch l[] = {wide, count, fail, count, wide, wide, count};
    for (int round = 0; round < 200; round++) {
        /* The failing call at every place, with and without shared launches before it. */
        hal_launch m[7];
        memcpy(m, l, sizeof l);
        int at = round % 7;
        m[2] = count;
        m[at] = fail;
        calls = 0;
        rp_error err = {0};
        assert_int_equal(d->ops->launch(d, m, 7, 0, &err), RP_CANCELLED);
        assert_string_equal(err.text, "op said no");
        int want = 0;
        for (int i = 0; i < at; i++) want += m[i].kind == HAL_HOST_CALL;
        assert_int_equal(calls, want);
        /* The device goes on working. */
        memset(b, 0, N * 8);
        assert_int_equal(d->ops->launch(d, &wide, 1, 0, NULL), RP_OK);
        assert_int_equal(b[0], 1);
        assert_int_equal(b[N - 1], 1);
    }
    d->ops->release(d, a, N * 8);
    d->ops->release(d, b, N * 8);
}

/* A full log keeps the latest lines, the oldest of them first. */
static void a_full_log_keeps_the_latest(void **state) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    enum { KEPT = 8192, LOGGED = 3 * KEPT + 1234 };
    hal_device *d = ((fixture *)*state)->d;
    int64_t *a = get_memory(d, N * 8);
    void *aa[] = {a, a};
    long long one = 1;
    hal_launch l = kernel(add_kernel, aa, 2, &one, 1, 1);
    char want[16];
    hal_log_record(d, true);
    for (size_t i = 0; i < LOGGED; i++) {
        l.name = names[i % 7];
        assert_int_equal(d->ops->launch(d, &l, 1, 0, NULL), RP_OK);
        assert_int_equal(hal_log_count(d), i + 1 < KEPT ? i + 1 : KEPT);
    }
    for (size_t i = 0; i < KEPT; i++) {
        (void)snprintf(want, sizeof want, "launch %s", names[(LOGGED - KEPT + i) % 7]);
        assert_string_equal(hal_log_at(d, i), want);
    }
    assert_null(hal_log_at(d, KEPT));
    hal_log_record(d, true); /* goes on */
    assert_int_equal(hal_log_count(d), KEPT);
    hal_log_record(d, false);
    hal_log_record(d, true); /* begins anew */
    assert_int_equal(hal_log_count(d), 0);
    hal_log_record(d, false);
    d->ops->release(d, a, N * 8);
}

static atomic_int late_calls;

/* Only the first share is there in time. */
static void late_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                        void *scratch) {
    (void)arg, (void)dim, (void)end, (void)scratch;
    atomic_fetch_add(&late_calls, 1);
    if (begin > 0) (void)usleep(20000);
}

/* Lists that lose most of their time waiting for a thread are followed by some on one thread; then all share again. */
static void a_few_lists_run_alone_where_threads_are_late(void **state) {
    hal_device *d = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(hal_open("cpu", 2, &d, &err), &err);
    hal_launch l = kernel(late_kernel, NULL, 0, NULL, N, 1);
    const hal_counters *c = hal_device_counters(d);
    /* a thread that is late itself loses nothing: then once more */
    for (int tries = 0; c->crowded_lists == 0; tries++) {
        assert_true(tries < 200);
        CHECK_OK(d->ops->launch(d, &l, 1, 0, &err), &err);
    }
    uint64_t alone = c->crowded_lists;
    assert_true(c->shared_lists >= alone + 1);
    for (bool shared = false; !shared; alone += !shared) {
        assert_true(alone <= 8);
        atomic_store(&late_calls, 0);
        CHECK_OK(d->ops->launch(d, &l, 1, 0, &err), &err);
        shared = c->crowded_lists == alone;
        assert_int_equal(atomic_load(&late_calls), shared ? 2 : 1);
    }
    assert_int_equal(alone, 8);
    hal_close(d);
}

static void quick_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                         void *scratch) {
    (void)arg, (void)dim, (void)begin, (void)end, (void)scratch;
}

/* A shared list that waited for nobody is seen by the next one, which is shared, too: after it the next bad moment costs no
 * more lists than the first did. */
static void a_bad_moment_long_ago_is_forgotten(void **state) {
    hal_device *d = NULL;
    rp_error err = {0};
    int periods = 0;
    (void)state;
    CHECK_OK(hal_open("cpu", 2, &d, &err), &err);
    hal_launch quick = kernel(quick_kernel, NULL, 0, NULL, N, 1),
               late = kernel(late_kernel, NULL, 0, NULL, N, 1);
    const hal_counters *c = hal_device_counters(d);
    for (int tries = 0; periods < 2; tries++) {
        assert_true(tries < 20000); /* more where others use the processors */
        uint64_t alone = c->crowded_lists, period;
        CHECK_OK(d->ops->launch(d, &quick, 1, 0, &err), &err);
        CHECK_OK(d->ops->launch(d, &late, 1, 0, &err), &err);
        if (c->crowded_lists != alone)
            continue; /* still within a period, or the quick one waited */
        do {
            period = c->crowded_lists - alone;
            CHECK_OK(d->ops->launch(d, &quick, 1, 0, &err), &err);
        } while (c->crowded_lists - alone > period);
        if (period == 0) continue; /* the caller was late itself */
        assert_int_equal(period, 8);
        periods++;
    }
    hal_close(d);
}

static void launches_are_counted_and_logged(void **state) {
    hal_device *d = ((fixture *)*state)->d;
    int64_t *a = get_memory(d, N * 8);
    void *aa[] = {a, a};
    long long one = 1;
    hal_launch l[] = {kernel(add_kernel, aa, 2, &one, N, 1), kernel(add_kernel, aa, 2, &one, 1, 1)};
    l[0].name = "red_fused_mean_3";
    l[1].name = "attn";
    l[1].attention = 1;
    assert_int_equal(d->ops->launch(d, l, 2, 0, NULL), RP_OK);
    assert_int_equal(hal_log_count(d), 0); /* off */
    hal_log_record(d, true);
    assert_int_equal(d->ops->launch(d, l, 2, 0, NULL), RP_OK);
    assert_int_equal(hal_log_count(d), 2);
    assert_string_equal(hal_log_at(d, 0), "launch red_fused_mean_3");
    assert_string_equal(hal_log_at(d, 1), "launch attn");
    for (int i = 0; i < 5000; i++) assert_int_equal(d->ops->launch(d, l, 2, 0, NULL), RP_OK);
    assert_int_equal(hal_log_count(d), 8192); /* the oldest are gone */
    assert_string_equal(hal_log_at(d, 8191), "launch attn");
    hal_log_record(d, false);
    assert_int_equal(hal_device_counters(d)->launches, 2 * 5002);
    assert_int_equal(hal_device_counters(d)->attention_calls, 5002);
    assert_int_equal(hal_device_counters(d)->graph_launches, 0);
    d->ops->release(d, a, N * 8);
}

static void modules_load_and_give_symbols(void **state) {
    fixture *f = *state;
    hal_device *d = f->d;
    static const char source[] =
        "void twice(void *const *arg, const long long *dim, long long begin, long long end,"
        " void *scratch) { long long *p = arg[0]; (void)dim; (void)scratch;"
        " for (long long i = begin; i < end; i++) p[i] *= 2; }\n";
    char dir[64], src[96], so[96];
    rp_error err = {0};
    char *cc = base_find_program("cc");
    base_free(cc);
    if (!cc) SKIP_TEST("no cc on this machine, so there is no code object to load");
    assert_int_equal(tree_make(dir, sizeof dir), 0);
    (void)snprintf(src, sizeof src, "%s/k.c", dir);
    (void)snprintf(so, sizeof so, "%s/k.so", dir);
    assert_int_equal(base_file_write_atomic(src, source, sizeof source - 1, &err), RP_OK);
    int code = -1;
    const char *argv[] = {"cc", "-shared", "-fPIC", "-o", so, src, NULL};
    assert_int_equal(base_spawn(argv, NULL, &code, &err), RP_OK);
    assert_int_equal(code, 0);
    hal_module *m = NULL;
    hal_function fn = {0};
    hal_log_record(d, true);
    assert_int_equal(d->ops->module_load(d, so, &m, &err), RP_OK);
    const char *told = hal_log_at(d, 0); /* by name: folders are the user's */
    if (f->runs) assert_true(told && strstr(told, "module_load k") && !strchr(told, '/'));
    hal_log_record(d, false);
    assert_int_equal(d->ops->module_symbol(m, "twice", &fn, &err), RP_OK);
    int64_t *a = get_memory(d, N * 8);
    void *arg[] = {a};
    for (int i = 0; i < N; i++) a[i] = i;
    hal_launch l = {.name = "twice", .fn = fn, .arg = arg, .items = N, .grain = 1, .n_arg = 1};
    /* also when its file is cut short meanwhile */
    assert_int_equal(truncate(so, 0), 0);
    assert_int_equal(d->ops->launch(d, &l, 1, 0, &err), RP_OK);
    for (int i = 0; f->runs && i < N; i++) assert_int_equal(a[i], 2 * i);
    if (f->runs) {
        assert_int_equal(d->ops->module_symbol(m, "thrice", &fn, &err), RP_DEVICE);
        assert_non_null(strstr(err.text, "thrice"));
        hal_module *none = NULL;
        assert_int_equal(d->ops->module_load(d, src, &none, NULL), RP_DEVICE); /* no object */
        assert_int_equal(d->ops->module_load(d, "nowhere.so", &none, NULL), RP_DEVICE);
        assert_null(none);
    }
    assert_int_equal(hal_device_counters(d)->module_loads, 1);
    d->ops->module_free(m);
    d->ops->module_free(NULL);
    d->ops->release(d, a, N * 8);
    assert_int_equal(base_path_remove(dir, NULL), RP_OK);
}

static const char gpu_text[] =
    "extern \"C\" __global__ void add(char *to, char *from, long long by, long long items)\n"
    "{\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "    if (i < items) ((long long *)to)[i] = ((long long *)from)[items - 1 - i] + by;\n"
    "}\n";

/* A code object of gpu_text in a file of dir. */
static char *gpu_code(const char *dir, const char *arch) {
    static const char *const options[] = {NULL};
    static char path[4096];
    const cuda_source text = {gpu_text, "add.cu", arch};
    cuda_nvrtc rtc;
    char *cubin = NULL;
    size_t size = 0;
    rp_error err = {0};
    CHECK_OK(cuda_nvrtc_open(&rtc, NULL, &err), &err);
    CHECK_OK(cuda_compile(&rtc, &text, options, &cubin, &size, &err), &err);
    (void)snprintf(path, sizeof path, "%s/add.cubin", dir);
    CHECK_OK(base_file_write_atomic(path, cubin, size, &err), &err);
    base_free(cubin);
    return path;
}

static void check_sequence(hal_device *d, const void *at, int64_t first) {
    int64_t got[N];
    rp_error err = {0};
    CHECK_OK(d->ops->copy(d, got, at, sizeof got, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
    for (int i = 0; i < N; i++) assert_int_equal(got[i], first + i);
}

/* Each launch has a time, and none is longer than all of it took. */
static void times_are_within_the_call(void **state) {
    hal_device *d = ((fixture *)*state)->d;
    enum { LAUNCHES = 3 };
    int64_t *a = get_memory(d, N * 8), ns[LAUNCHES] = {0}, sum = 0;
    long long one = 1;
    void *aa[] = {a, a};
    rp_error err = {0};
    hal_launch l[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++) l[i] = kernel(add_kernel, aa, 2, &one, N, 10);
    const int64_t start = base_now_ns();
    for (int times = 0; times < 2; times++) CHECK_OK(hal_time(d, l, LAUNCHES, 0, ns, &err), &err);
    const int64_t elapsed = base_now_ns() - start;
    for (int i = 0; i < LAUNCHES; i++) {
        assert_true(ns[i] >= 0);
        sum += ns[i];
    }
    assert_true(sum <= elapsed);
    d->ops->release(d, a, N * 8);
}

/* Each launch of the list turns an array around and adds to it, so that order and sizes show. */
static void gpu_kernels_run_in_order_and_replay(void **state) {
    hal_device *d = ((fixture *)*state)->d;
    NEEDS_DEVICE((fixture *)*state);
    hal_device_info info;
    hal_module *m = NULL;
    hal_function fn = {0};
    hal_graph *g = NULL;
    int64_t start[N];
    void *at[2];
    long long by[] = {5, -2};
    rp_error err = {0};
    d->ops->info(d, &info);
    char *code = gpu_code(tree_new("gpu"), info.arch);
    CHECK_OK(d->ops->module_load(d, code, &m, &err), &err);
    CHECK_OK(d->ops->module_symbol(m, "add", &fn, &err), &err);
    assert_int_equal(d->ops->module_symbol(m, "sub", &fn, &err), RP_DEVICE);
    assert_string_equal(err.text, "code object has no kernel named sub");
    err = (rp_error){0};
    for (int i = 0; i < N; i++) start[i] = i;
    for (int i = 0; i < 2; i++)
        CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, sizeof start, &at[i], &err), &err);
    void *there[] = {at[1], at[0]}, *back[] = {at[0], at[1]};
    hal_launch l[] = {kernel(NULL, there, 2, &by[0], N, 1), kernel(NULL, back, 2, &by[1], N, 1)};
    for (int i = 0; i < 2; i++) {
        l[i].fn = fn;
        l[i].threads = l[i].per_block = 128;
    }
    CHECK_OK(d->ops->copy(d, at[0], start, sizeof start, &err), &err);
    CHECK_OK(d->ops->launch(d, l, 2, 0, &err), &err);
    check_sequence(d, at[0], 3);
    CHECK_OK(d->ops->graph_build(d, l, 2, 0, "twice", &g, &err), &err);
    by[0] = by[1] = 1000; /* a graph has copies */
    for (int i = 0; i < 3; i++) CHECK_OK(d->ops->graph_launch(g, &err), &err);
    check_sequence(d, at[0], 12);
    assert_true(d->ops->graph_bytes(g) > 0);
    err = (rp_error){0};
    l[1].threads = 0;
    assert_int_equal(d->ops->launch(d, l + 1, 1, 0, &err), RP_INTERNAL);
    l[1] = (hal_launch){.kind = HAL_HOST_CALL, .name = "own"};
    err = (rp_error){0};
    assert_int_equal(d->ops->launch(d, l + 1, 1, 0, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "own is a custom op of the host"));
    d->ops->graph_free(g);
    d->ops->module_free(m);
    for (int i = 0; i < 2; i++) d->ops->release(d, at[i], sizeof start);
}

/* What a device may be asked for first by a thread that never used it. */
typedef struct strangers {
    hal_device *d, *queue;
    const char *code;
    hal_module *m;
    hal_function fn;
    void *at[2];
    hal_launch l[2];
    hal_graph *g[2];
    hal_event *e;
    hal_reserved *r;
    int64_t start[N], ns;
    int step;
    rp_status st;
    rp_error err;
} strangers;

enum { N_STRANGE = 20 };

static rp_status strange(strangers *s, rp_error *err) {
    hal_device *d = s->d;
    bytes b = {0};
    const hal_source from = {fill_bytes, &b, 100, 1};
    switch (s->step) {
    case 0: return d->ops->available(d) ? RP_OK : RP_INTERNAL;
    case 1:
    case 2: return d->ops->alloc(d, HAL_DEVICE_MEMORY, sizeof s->start, &s->at[s->step - 1], err);
    case 3: return d->ops->module_load(d, s->code, &s->m, err);
    case 4: return d->ops->module_symbol(s->m, "add", &s->fn, err);
    case 5: return d->ops->copy(d, s->at[0], s->start, sizeof s->start, err);
    case 6: return d->ops->fill(d, s->at[1], 0, sizeof s->start, err);
    case 7: s->l[0].fn = s->l[1].fn = s->fn; return d->ops->launch(d, s->l, 2, 0, err);
    case 8: return d->ops->graph_build(d, s->l, 2, 0, "built", &s->g[0], err);
    case 9: return d->ops->graph_begin(d, s->l, 2, 0, "begun", &s->g[1], err);
    case 10: return d->ops->graph_finish(s->g[1], err);
    case 11:
    case 12: return d->ops->graph_launch(s->g[s->step - 11], err);
    case 13: return d->ops->event_new(d, &s->e, err);
    case 14: return d->ops->event_record(d, s->e, err);
    case 15: return d->ops->event_synchronize(s->e, err);
    case 16: return d->ops->queue(d, &s->queue, err);
    case 17: return d->ops->reserve(d, 100, &s->r, err);
    case 18: return d->ops->commit(s->r, 100, err);
    default: RP_TRY(d->ops->upload(d, s->r->at, &from, err)); return d->ops->synchronize(d, err);
    }
}

static void *run_strange(void *arg) {
    strangers *s = arg;
    s->st = strange(s, &s->err);
    return NULL;
}

static void any_thread_may_call(void **state) {
    NEEDS_DEVICE((fixture *)*state);
    static strangers s;
    long long by[] = {5, -2};
    hal_device_info info;
    s = (strangers){.d = ((fixture *)*state)->d};
    s.d->ops->info(s.d, &info);
    s.code = gpu_code(tree_new("strangers"), info.arch);
    for (int i = 0; i < N; i++) s.start[i] = i;
    void *arg[2][2];
    for (; s.step < N_STRANGE; s.step++) {
        pthread_t thread;
        for (int i = 0; i < 2; i++) {
            arg[i][0] = s.at[1 - i];
            arg[i][1] = s.at[i];
            s.l[i] = kernel(NULL, arg[i], 2, &by[i], N, 1);
            s.l[i].fn = s.fn;
            s.l[i].threads = s.l[i].per_block = 128;
        }
        assert_int_equal(pthread_create(&thread, NULL, run_strange, &s), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (s.st != RP_OK) fail_msg("step %d: %s", s.step, s.err.text);
    }
    check_sequence(s.d, s.at[0], 9);
    assert_true(s.d->ops->graph_bytes(s.g[1]) > 0);
    s.d->ops->unreserve(s.r);
    hal_close(s.queue);
    s.d->ops->event_free(s.e);
    for (int i = 0; i < 2; i++) s.d->ops->graph_free(s.g[i]);
    s.d->ops->module_free(s.m);
    for (int i = 0; i < 2; i++) s.d->ops->release(s.d, s.at[i], sizeof s.start);
}

/* Opens, uses and closes a device while the n-th allocation or thread start fails. */
static rp_status use_device(const fixture *f, rp_error *err) {
    hal_device *d = NULL;
    hal_graph *g = NULL;
    hal_module *m = NULL;
    void *p = NULL;
    long long one = 1;
    rp_status st = hal_open(f->name, f->n_threads, &d, err);
    if (st != RP_OK) return st;
    st = d->ops->alloc(d, HAL_MAPPED_MEMORY, 4096, &p, err);
    void *arg[] = {p, p};
    hal_launch l = kernel(add_kernel, arg, 2, &one, 100, 1);
    if (st == RP_OK) st = d->ops->launch(d, &l, 1, 100, err);
    if (st == RP_OK) st = d->ops->graph_build(d, &l, 1, 1000, "g", &g, err);
    if (st == RP_OK) st = d->ops->graph_launch(g, err);
    if (st == RP_OK && !f->runs) st = d->ops->module_load(d, "any", &m, err);
    d->ops->module_free(m);
    d->ops->graph_free(g);
    d->ops->release(d, p, 4096);
    hal_close(d);
    return st;
}

static void every_failure_is_clean(void **state) {
    fixture *f = *state;
    size_t live = base_live();
    for (int kind = 0; kind < 2; kind++) {
        bool (*fail_nth)(uint64_t) = kind ? base_sys_fail_nth : base_alloc_fail_nth;
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            rp_error err = {0};
            (void)fail_nth(n);
            rp_status st = use_device(f, &err);
            fired = fail_nth(0);
            if (st != RP_OK) assert_true(err.text[0] != 0);
            if (!fired) assert_int_equal(st, RP_OK);
            assert_int_equal(base_live(), live);
            assert_true(n < 100);
        }
    }
}

/* A list in one piece of memory of so many bytes, which has nothing of the list that it was. */
static void copied_lists_stand_alone(void **state) {
    void *args[] = {&args, state, args + 1};
    const size_t sizes[] = {1, 2, 3};
    const long long dims[] = {5, 7};
    const hal_launch list[] = {
        {.name = "a", .arg = args, .arg_size = sizes, .n_arg = 3, .dim = dims, .n_dim = 2},
        {.name = "b"},
        {.name = "c", .arg = args + 1, .arg_size = sizes, .n_arg = 2},
        {.name = "d", .dim = dims + 1, .n_dim = 1}};
    size_t size = 0;
    assert_true(hal_list_bytes(list, 4, &size));
    char *memory = base_alloc(size);
    assert_non_null(memory);
    const hal_launch *copy = hal_list_copy(memory, list, 4);
    const char *end = (const char *)(copy + 4);
    for (int i = 0; i < 4; i++) {
        const size_t n_arg = list[i].n_arg * sizeof *args, n_dim = list[i].n_dim * sizeof *dims;
        assert_null(copy[i].arg_size);
        assert_string_equal(copy[i].name, list[i].name);
        assert_int_equal(copy[i].n_arg, list[i].n_arg);
        assert_int_equal(copy[i].n_dim, list[i].n_dim);
        if (n_arg) assert_ptr_equal(copy[i].arg, end);
        if (n_arg) assert_memory_equal(copy[i].arg, list[i].arg, n_arg);
        if (n_dim) assert_ptr_equal(copy[i].dim, end + n_arg);
        if (n_dim) assert_memory_equal(copy[i].dim, list[i].dim, n_dim);
        end += n_arg + n_dim;
    }
    assert_ptr_equal(end, memory + size);
    base_free(memory);
}

static void names_are_resolved(void **state) {
    (void)state;
    hal_device *d = NULL;
    rp_error err = {0};
    /* no driver, or no such GPU */
    assert_int_equal(hal_open("cuda:4000", 0, &d, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "CUDA driver") ? err.text : strstr(err.text, "cuda:4000"));
    err = (rp_error){0};
    assert_int_equal(hal_open("cuda:x", 0, &d, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "'cuda:x'"));
    err = (rp_error){0};
    assert_int_equal(hal_open("tpu", 0, &d, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "'tpu'"));
    static const char *const none[] = {"cuda:",           "cuda:-1", "cuda:1x",  "cuda:4294967296",
                                       "cuda:2147483648", "cuda0",   "cuda:0:0", "CPU",
                                       "cpu:0",           " cpu",    "nullx"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char quoted[40];
        err = (rp_error){0};
        (void)snprintf(quoted, sizeof quoted, "unknown device '%s'", none[i]);
        assert_int_equal(hal_open(none[i], 0, &d, &err), RP_CONFIG);
        if (!strstr(err.text, quoted)) fail_msg("%s: %s", none[i], err.text);
    }
    assert_int_equal(hal_open("cpu", 100000, &d, NULL), RP_CONFIG);
    assert_null(d);
    hal_close(NULL);
    assert_int_equal(hal_open("cpu", 0, &d, NULL), RP_OK);
    hal_device_info info;
    d->ops->info(d, &info);
    assert_in_range(info.n_threads, 1, 256);
    hal_close(d);
}

#define EACH(fn)                                                                 \
    {#fn " (cpu, 1 thread)", fn, open_device, close_device, &devices[0]},        \
        {#fn " (cpu, 2 threads)", fn, open_device, close_device, &devices[1]},   \
        {#fn " (cpu, 5 threads)", fn, open_device, close_device, &devices[2]}, { \
#fn " (null)", fn, open_device, close_device, &devices[3]                \
    }
#define ON_GPU(fn) \
    { #fn " (cuda:0)", fn, open_device, close_device, &devices[4] }
#define EACH_CLOSED(fn)                                       \
    {#fn " (cpu, 5 threads)", fn, NULL, NULL, &devices[2]}, { \
#fn " (null)", fn, NULL, NULL, &devices[3]            \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH(memory_is_zeroed_aligned_and_counted),
        ON_GPU(memory_is_zeroed_aligned_and_counted),
        EACH(copies_go_both_ways),
        EACH(copies_of_runs_bring_each_byte),
        ON_GPU(copies_of_runs_bring_each_byte),
        EACH(ranges_grow_in_place),
        ON_GPU(ranges_grow_in_place),
        EACH(uploads_arrive_whole),
        ON_GPU(copies_go_both_ways),
        ON_GPU(uploads_arrive_whole),
        EACH(what_no_graph_can_do_is_refused),
        ON_GPU(what_no_graph_can_do_is_refused),
        EACH(audit_names_launch_and_argument),
        ON_GPU(audit_names_launch_and_argument),
        EACH(overlapping_ranges_are_refused),
        ON_GPU(overlapping_ranges_are_refused),
        EACH(launches_run_in_order_whatever_the_shares),
        EACH(barriers_hold_in_random_lists),
        EACH(graph_launches_what_was_built),
        EACH(a_graph_takes_what_it_keeps),
        EACH(empty_lists_are_fine),
        ON_GPU(empty_lists_are_fine),
        EACH(scratch_is_private_and_large_enough),
        EACH(host_call_error_stops_the_list),
        EACH(lists_within_lists_run_in_order),
        EACH(times_are_within_the_call),
        EACH(a_full_log_keeps_the_latest),
        EACH(launches_are_counted_and_logged),
        EACH(modules_load_and_give_symbols),
        cmocka_unit_test(a_launch_without_memory_ends),
        cmocka_unit_test(a_graph_without_memory_is_not_made),
        cmocka_unit_test(a_few_lists_run_alone_where_threads_are_late),
        cmocka_unit_test(a_bad_moment_long_ago_is_forgotten),
        EACH_CLOSED(every_failure_is_clean),
        ON_GPU(gpu_kernels_run_in_order_and_replay),
        ON_GPU(any_thread_may_call),
        cmocka_unit_test(copied_lists_stand_alone),
        cmocka_unit_test(names_are_resolved),
    };
    hal_device *real = NULL;
    if (hal_open("cuda:0", 0, &real, NULL) != RP_OK && gpu_emulate(&no_gpu)) no_gpu = NULL;
    hal_close(real);
    return cmocka_run_group_tests_name("hal_device", tests, NULL, NULL);
}
