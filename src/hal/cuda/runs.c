/* Copies of runs on a GPU: one copy of rows by the driver where runs are long, else one launch of a kernel that the driver makes of text (runs.cu). */
#include "base/embed.h"
#include "hal/cuda/device.h"
#include "hal/cuda/guard.h"

BASE_EMBED(runs_ptx);

enum {
    THREADS = 256,
    LOG_TILE = 10,  /* units of a tile */
    LONG_ROW = 512, /* bytes from which the driver's copy is as fast as a kernel */
    LOG_SQUARE = 4, /* across of a tile whose axes are next to next in one memory each */
    WIDEST = 16,    /* bytes of a unit */
    OTHERS = 5,
    AXES = BASE_RUNS_AXES + 1,
    DIMS = 4 + 3 * (2 + OTHERS)
};

/* Units between two memories: as runs, but one more axis, within a run. */
typedef struct axis {
    int64_t n, to, from;
} axis;
typedef struct units {
    int64_t size;
    axis axis[AXES]; /* n */
    uint32_t n;
} units;

/* What divides both ends and all distances. */
static int64_t unit_of(const base_runs *r, const void *to, const void *from) {
    uint64_t bits = (uintptr_t)to | (uintptr_t)from | r->run | WIDEST;
    for (uint32_t i = 0; i < r->n; i++) bits |= (uint64_t)r->to[i] | (uint64_t)r->from[i];
    return (int64_t)(bits & -bits);
}

static units units_of(const base_runs *r, const void *to, const void *from) {
    units u = {.size = unit_of(r, to, from)};
    for (uint32_t i = 0; i < r->n; i++) u.axis[u.n++] = (axis){r->dim[i], r->to[i], r->from[i]};
    if ((int64_t)r->run > u.size) u.axis[u.n++] = (axis){(int64_t)r->run / u.size, u.size, u.size};
    return u;
}

static int64_t apart(int64_t step) {
    return step < 0 ? -step : step;
}

/* The axis, but for `but`, whose neighbours are next in one memory; u->n where there is none. */
static uint32_t nearest(const units *u, bool to, uint32_t but) {
    uint32_t best = u->n;
    for (uint32_t i = 0; i < u->n; i++) {
        const axis *a = &u->axis[i], *b = &u->axis[best];
        if (i == but || a->n == 1) continue;
        if (best == u->n || apart(to ? a->to : a->from) < apart(to ? b->to : b->from)) best = i;
    }
    return best;
}

static uint32_t log_up(int64_t n) {
    uint32_t log = 0;
    while (INT64_C(1) << log < n) log++;
    return log;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static int64_t tiles_of(int64_t n, uint32_t log) {
    return (n + (INT64_C(1) << log) - 1) >> log;
}

static void put_axis(long long *dim, uint32_t *n, axis a) {
    dim[(*n)++] = a.n;
    dim[(*n)++] = a.to;
    dim[(*n)++] = a.from;
}

/* The parameters of the kernel between its ends and its last one, the tiles. */
static int64_t put_dims(const units *u, const size_t first[2], long long dim[DIMS]) {
    static const axis one = {1, 0, 0};
    uint32_t across = nearest(u, true, u->n), next = nearest(u, false, u->n), n = 0, others = 0;
    bool same = next == across;
    uint32_t down = same ? nearest(u, false, across) : next;
    const axis a = across < u->n ? u->axis[across] : one, b = down < u->n ? u->axis[down] : one;
    uint32_t log = least(log_up(a.n), same ? log_up(THREADS) : LOG_SQUARE);
    int64_t tiles = tiles_of(a.n, log) * tiles_of(b.n, LOG_TILE - log);
    dim[n++] = (long long)first[0];
    dim[n++] = (long long)first[1];
    dim[n++] = u->size;
    dim[n++] = log;
    put_axis(dim, &n, a);
    put_axis(dim, &n, b);
    for (uint32_t i = u->n; i-- > 0;) {
        if (i == across || i == down) continue;
        put_axis(dim, &n, u->axis[i]);
        tiles *= u->axis[i].n;
        others++;
    }
    for (; others < OTHERS; others++) put_axis(dim, &n, one);
    return tiles;
}

static rp_status load(cuda_device *d, rp_error *err) {
    if (d->runs) return RP_OK;
    int mode = cuda_guard_relax(&d->cu);
    int code = d->runs_module ? 0 : d->cu.module_load(&d->runs_module, rp_embed_runs_ptx);
    if (code == 0) code = d->cu.module_function(&d->runs, d->runs_module, "copy_runs");
    cuda_guard_restore(&d->cu, mode);
    return cuda_check(&d->cu, code, "the kernel that copies views", err);
}

void cuda_runs_close(cuda_device *d) {
    if (d->runs_module) cuda_guard_free(&d->gpu, CUDA_FREED_MODULE, d->runs_module);
}

/* Noted, too, where it is captured. */
static rp_status launch(cuda_device *d, void *to, const void *from, const base_runs *r,
                        rp_error *err) {
    long long dim[DIMS];
    size_t before[2], behind[2];
    base_runs_span(r, r->to, &before[0], &behind[0]);
    base_runs_span(r, r->from, &before[1], &behind[1]);
    void *arg[] = {(char *)to - before[0], (char *)(uintptr_t)from - before[1]};
    size_t sizes[] = {before[0] + behind[0], before[1] + behind[1]};
    const units u = units_of(r, to, from);
    hal_launch l = {.kind = HAL_KERNEL,
                    .name = "copy_runs",
                    .arg = arg,
                    .arg_size = sizes,
                    .n_arg = 2,
                    .dim = dim,
                    .n_dim = DIMS,
                    .items = put_dims(&u, before, dim),
                    .threads = THREADS,
                    .per_block = 1};
    if (l.items > UINT32_MAX)
        return rp_fail(err, RP_UNSUPPORTED, "a copy of a view of %lld tiles", l.items);
    RP_TRY(load(d, err));
    l.fn.handle = d->runs;
    return cuda_launch_alone(d, &l, err);
}

/* Rows in order, whose distances the driver takes. */
static bool are_rows(const base_runs *r) {
    const int64_t run = (int64_t)r->run, most = INT32_MAX;
    return r->n == 1 && r->run >= LONG_ROW && r->to[0] >= run && r->to[0] <= most &&
           r->from[0] >= run && r->from[0] <= most;
}

static rp_status copy_rows(cuda_device *d, void *to, const void *from, const base_runs *r,
                           rp_error *err) {
    const cuda_copy_2d c = {.from = {.kind = CUDA_MEMORY_UNIFIED,
                                     .device = (uint64_t)(uintptr_t)from,
                                     .pitch = (size_t)r->from[0]},
                            .to = {.kind = CUDA_MEMORY_UNIFIED,
                                   .device = (uint64_t)(uintptr_t)to,
                                   .pitch = (size_t)r->to[0]},
                            .width = r->run,
                            .height = (size_t)r->dim[0]};
    return cuda_check(&d->cu, d->cu.copy_2d(&c, d->stream), "a copy of rows", err);
}

rp_status cuda_copy_runs(hal_device *base, void *to, const void *from, const base_runs *r,
                         rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    rp_error why = {0};
    if (base_runs_bytes(r) == 0) return RP_OK;
    if (r->n == 0) return base->ops->copy(base, to, from, r->run, err);
    RP_TRY(cuda_device_enter(d, err));
    bool captured = hal_capturing(base);
    rp_status st = !captured && are_rows(r) ? copy_rows(d, to, from, r, &why)
                                            : launch(d, to, from, r, &why);
    if (st == RP_OK && captured) st = hal_note_wrote_runs(base, to, r, &why);
    if (st != RP_OK) return hal_note_failed(base, st, &why, err);
    if (!captured) hal_count_copy(base, base_runs_bytes(r));
    return RP_OK;
}
