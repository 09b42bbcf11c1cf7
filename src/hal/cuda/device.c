/* A GPU as a device: memory of its own, mapped memory, one stream as the queue.
 *
 * Addresses are unified: an address of mapped memory is the same on both sides, and a copy finds out by itself which
 * way it goes. Every call makes the context current first, since any thread may hold the queue. */
#include "hal/cuda/device.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/cpu/pool.h"
#include "hal/cuda/guard.h"
#include "hal/cuda/loss.h"
#include "hal/cuda/queues.h"

rp_status cuda_device_enter(const cuda_device *d, rp_error *err) {
    if (cuda_loss_told(&d->caller, err)) return RP_DEVICE;
    return cuda_check(&d->cu, d->cu.context_set(d->gpu.context), "context of the GPU", err);
}

void cuda_device_last(cuda_device *d, const char *kind, const char *name) {
    const size_t n = strnlen(name, sizeof d->caller.last - 1);
    memcpy(d->caller.last, name, n);
    d->caller.last[n] = 0;
    d->caller.kind = kind;
}

static bool device_lost(const hal_device *d, rp_error *err) {
    return cuda_loss_told(&((const cuda_device *)d)->caller, err);
}

static uint64_t address_of(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

/* --- life ------------------------------------------------------------------------- */

static void device_free(hal_device *base) {
    cuda_device *d = (cuda_device *)base;
    if (!d) return;
    cuda_queues_leave(d);
    cuda_staging_close(d);
    cuda_branches_close(d);
    cuda_runs_close(d);
    if (d->stream) (void)d->cu.stream_free(d->stream);
    cuda_gpu_close(&d->gpu);
    if (d->cu.caller) cuda_loss_leave(&d->caller);
    hal_device_done(&d->base);
    base_free(d);
}

static void device_info(hal_device *base, hal_device_info *out) {
    const cuda_device *d = (const cuda_device *)base;
    *out = (hal_device_info){.n_threads = d->n_threads ? d->n_threads : cpu_cores_granted(),
                             .alignment = CUDA_ALIGN,
                             .memory = d->gpu.memory};
    (void)snprintf(out->name, sizeof out->name, "%s", d->gpu.name);
    (void)snprintf(out->arch, sizeof out->arch, "sm_%d", d->gpu.capability);
}

/* --- memory ----------------------------------------------------------------------- */

static bool is_host(const cuda_device *d, const void *p) {
    unsigned kind = 0;
    return d->cu.pointer_get(&kind, CUDA_POINTER_MEMORY, address_of(p)) == 0 &&
           kind == CUDA_MEMORY_HOST;
}

/* Pinned memory of the host, too, whose address is one for both; memory of another GPU only where its peer was opened to this one. */
bool cuda_device_reaches(const hal_device *base, const void *p) {
    const cuda_device *d = (const cuda_device *)base;
    uint64_t at = 0;
    return cuda_device_enter(d, &(rp_error){0}) == RP_OK &&
           d->cu.pointer_get(&at, CUDA_POINTER_DEVICE, address_of(p)) == 0 && at == address_of(p);
}

static uint64_t device_available(hal_device *base) {
    const cuda_device *d = (const cuda_device *)base;
    size_t available = 0, total = 0;
    return cuda_device_enter(d, &(rp_error){0}) == RP_OK &&
                   d->cu.memory_info(&available, &total) == 0
               ? available
               : UINT64_MAX;
}

static void give_back(const cuda_device *d, void *p) {
    cuda_guard_free(&d->gpu, is_host(d, p) ? CUDA_FREED_HOST : CUDA_FREED_MEMORY, p);
}

static rp_status get_mapped(const cuda_device *d, size_t size, void **out, rp_error *err) {
    void *p = NULL;
    RP_TRY(cuda_check(&d->cu,
                      d->cu.host_alloc(&p, size ? size : 1, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED),
                      "mapped memory", err));
    memset(p, 0, size ? size : 1);
    *out = p;
    return RP_OK;
}

/* Cleared when it returns, since the next to write there may be another queue; not by d's stream, which may be capturing. */
static rp_status get_own(const cuda_device *d, size_t size, void **out, rp_error *err) {
    uint64_t at = 0;
    RP_TRY(cuda_gpu_alloc(&d->gpu, size, "memory of the GPU", &at, err));
    rp_status st = cuda_check(&d->cu, d->cu.memory_set(at, 0, size ? size : 1, NULL),
                              "clearing memory of the GPU", err);
    if (st == RP_OK)
        st = cuda_check(&d->cu, d->cu.stream_synchronize(NULL), "clearing memory of the GPU", err);
    if (st == RP_OK)
        *out = (void *)(uintptr_t)at;
    else
        cuda_gpu_free(&d->gpu, at);
    return st;
}

static rp_status device_alloc(hal_device *base, hal_memory kind, size_t size, void **out,
                              rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    bool mapped = kind == HAL_MAPPED_MEMORY;
    void *p = NULL;
    RP_TRY(cuda_device_enter(d, err));
    int mode = cuda_guard_relax(&d->cu);
    rp_status st = mapped ? get_mapped(d, size, &p, err) : get_own(d, size, &p, err);
    cuda_guard_restore(&d->cu, mode);
    RP_TRY(st);
    st = hal_memory_enter(base, p, size, mapped ? "mapped memory" : "device memory", err);
    if (st == RP_OK && mapped) (void)atomic_fetch_add(&d->mapped, size);
    if (st == RP_OK)
        *out = p;
    else
        give_back(d, p);
    return st;
}

static uint64_t device_own_bytes(hal_device *base) {
    return hal_live_bytes(base) - atomic_load(&((cuda_device *)base)->mapped);
}

static void device_release(hal_device *base, void *p, size_t size) {
    cuda_device *d = (cuda_device *)base;
    if (!p) return;
    (void)d->cu.context_set(d->gpu.context);
    cuda_queues_wait(d);
    hal_memory_leave(base, p, size);
    if (is_host(d, p)) (void)atomic_fetch_sub(&d->mapped, size);
    give_back(d, p);
}

/* While it captures, a call is noted first and then goes to the stream as always. One that the driver refuses has left no node. */
static rp_status check_sent(cuda_device *d, int code, const char *what, rp_error *err) {
    rp_error why = {0};
    rp_status st = cuda_capture_check(d, code, what, &why);
    return st == RP_OK ? RP_OK : hal_note_failed(&d->base, st, &why, err);
}

static rp_status device_copy(hal_device *base, void *to, const void *from, size_t size,
                             rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    if (size == 0) return RP_OK;
    RP_TRY(cuda_device_enter(d, err));
    if (hal_capturing(base)) RP_TRY(hal_note_copy(base, to, from, size, err));
    RP_TRY(check_sent(d, d->cu.copy(address_of(to), address_of(from), size, d->stream), "a copy",
                      err));
    if (d->captured.in_lists) return cuda_capture_keep_copy(d, err);
    if (hal_capturing(base)) return RP_OK;
    hal_trace_copy(base, to, from, size);
    hal_count_copy(base, size);
    return RP_OK;
}

static rp_status device_fill(hal_device *base, void *to, int byte, size_t size, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    if (size == 0) return RP_OK;
    RP_TRY(cuda_device_enter(d, err));
    if (hal_capturing(base))
        RP_TRY(hal_note_fill(base, to, byte, size, err));
    else
        hal_trace_fill(base, to, byte, size);
    return check_sent(d, d->cu.memory_set(address_of(to), (unsigned char)byte, size, d->stream),
                      "filling memory", err);
}

/* --- launches --------------------------------------------------------------------- */

rp_status cuda_launch_of(const cuda_device *d, const hal_launch *l, void *room[CUDA_MAX_PARAMETERS],
                         cuda_launch *out, bool *any, rp_error *err) {
    uint32_t n = 0;
    if (l->kind == HAL_HOST_CALL)
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s is a custom op of the host, which cannot run on a GPU; use --device cpu",
                       l->name);
    *any = l->items > 0;
    if (!*any) return RP_OK;
    if (l->n_arg + l->n_dim + 1 > CUDA_MAX_PARAMETERS || !l->threads || !l->per_block)
        return rp_fail(err, RP_INTERNAL,
                       "kernel %s: %u arguments, %u sizes, %u threads, %u items a block", l->name,
                       l->n_arg, l->n_dim, l->threads, l->per_block);
    for (uint32_t i = 0; i < l->n_arg; i++) room[n++] = (void *)(uintptr_t)&l->arg[i];
    for (uint32_t i = 0; i < l->n_dim; i++) room[n++] = (void *)(uintptr_t)&l->dim[i];
    room[n] = (void *)(uintptr_t)&l->items;
    long long blocks = l->items / l->per_block + (l->items % l->per_block != 0);
    if (blocks > INT32_MAX) blocks = INT32_MAX; /* any grid is right: blocks take more in turn */
    if (l->per_sm && blocks > (long long)l->per_sm * d->gpu.n_sm)
        blocks = (long long)l->per_sm * d->gpu.n_sm;
    *out = (cuda_launch){.function = l->fn.handle,
                         .grid = {(uint32_t)blocks, 1, 1},
                         .threads = l->threads,
                         .shared = l->shared,
                         .parameters = room};
    return RP_OK;
}

/* Kernels of one list obey the order of chains (chain.h), so each may start before the one in front of it ends, captured or not.
 * The first waits for whatever the stream had before: kernels of others, copies, lists whose results this one's
 * weights may be. Bodies of branches have full edges. */
static int send(const cuda_device *d, const cuda_launch *k, bool behind) {
    cuda_launch_attribute early = {.id = CUDA_LAUNCH_PROGRAMMATIC, .value = 1};
    const cuda_launch_config config = {.grid = {k->grid[0], 1, 1},
                                       .block = {k->threads, 1, 1},
                                       .shared = (unsigned)k->shared,
                                       .stream = d->stream,
                                       .attributes = &early,
                                       .n_attributes = 1};
    if (behind && !d->captured.depth && d->gpu.capability >= CUDA_MIN_PROGRAMMATIC)
        return d->cu.launch_with(&config, k->function, k->parameters, NULL);
    return d->cu.launch(k->function, k->grid[0], 1, 1, k->threads, 1, 1, (unsigned)k->shared,
                        d->stream, k->parameters, NULL);
}

/* *behind: a kernel of the same list is in front, for the next one. */
static rp_status launch_one(cuda_device *d, const hal_launch *l, bool *behind, rp_error *err) {
    void *room[CUDA_MAX_PARAMETERS];
    rp_error why = {0};
    cuda_launch k;
    bool any;
    rp_status st = cuda_launch_of(d, l, room, &k, &any, &why);
    if (st != RP_OK) return hal_note_failed(&d->base, st, &why, err);
    if (!any) return RP_OK;
    int code = send(d, &k, *behind);
    *behind = true;
    return check_sent(d, code, l->name, err);
}

rp_status cuda_launch_alone(cuda_device *d, const hal_launch *l, rp_error *err) {
    bool behind = false;
    if (hal_capturing(&d->base)) RP_TRY(hal_note_capture(&d->base, l, 1, 0, err));
    return launch_one(d, l, &behind, err);
}

static rp_status device_launch(hal_device *base, const hal_launch *list, uint32_t n,
                               size_t scratch_size, rp_error *err);

static rp_status note_lists(hal_device *base, const hal_launch *l, rp_error *err) {
    cuda_captured *c = &((cuda_device *)base)->captured;
    bool outer = c->in_lists;
    rp_error why = {0};
    c->in_lists = true;
    rp_status st = l->note ? l->note(l->user, base, l->arg, l->dim, &why)
                           : rp_fail(&why, RP_UNSUPPORTED, "%s has no form in a graph", l->name);
    c->in_lists = outer;
    return st == RP_OK ? RP_OK : hal_note_failed(base, st, &why, err);
}

static rp_status run_lists(hal_device *base, const hal_launch *l, rp_error *err) {
    hal_list list = {0};
    for (uint64_t turn = 0;; turn++) {
        RP_TRY(l->next(l->user, base, l->arg, l->dim, turn, &list, err));
        if (!list.v) return RP_OK;
        RP_TRY(device_launch(base, list.v, list.n, 0, err));
    }
}

static rp_status launch_lists(hal_device *base, const hal_launch *l, rp_error *err) {
    return hal_capturing(base) ? note_lists(base, l, err) : run_lists(base, l, err);
}

static rp_status device_launch(hal_device *base, const hal_launch *list, uint32_t n,
                               size_t scratch_size, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    RP_TRY(cuda_device_enter(d, err));
    if (hal_capturing(base)) RP_TRY(hal_note_capture(base, list, n, scratch_size, err));
    bool behind = false;
    for (uint32_t i = 0; i < n; i++) {
        bool lists = list[i].kind == HAL_LISTS;
        RP_TRY(lists ? launch_lists(base, &list[i], err) : launch_one(d, &list[i], &behind, err));
        behind = behind && !lists;
    }
    if (hal_capturing(base) || n == 0) return RP_OK;
    cuda_device_last(d, "kernel", list[n - 1].name);
    hal_note_launch(base, list, n);
    return RP_OK;
}

static rp_status device_synchronize(hal_device *base, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    if (hal_capturing(base)) return hal_refuse_captured(base, "waiting for the device", err);
    RP_TRY(cuda_device_enter(d, err));
    int mode = cuda_guard_relax(&d->cu);
    int code = d->cu.stream_synchronize(d->stream);
    cuda_guard_restore(&d->cu, mode);
    return cuda_check(&d->cu, code, "waiting for the GPU", err);
}

/* A stream of its own in the same context, which the driver counts. */
static rp_status device_queue(hal_device *base, hal_device **out, rp_error *err) {
    const cuda_device *d = (const cuda_device *)base;
    RP_TRY(cuda_device_open(&d->cu, d->ordinal, out, err));
    ((cuda_device *)*out)->n_threads = d->n_threads;
    return RP_OK;
}

/* --- opening ---------------------------------------------------------------------- */

static const hal_device_ops cuda_ops = {
    .name = "cuda",
    .free = device_free,
    .info = device_info,
    .available = device_available,
    .own_bytes = device_own_bytes,
    .alloc = device_alloc,
    .release = device_release,
    .reserve = cuda_reserve,
    .commit = cuda_commit,
    .unreserve = cuda_unreserve,
    .copy = device_copy,
    .copy_runs = cuda_copy_runs,
    .fill = device_fill,
    .upload = cuda_device_upload,
    .module_load = cuda_module_load,
    .module_symbol = cuda_module_symbol,
    .function_caches = cuda_function_caches,
    .module_free = cuda_module_free,
    .launch = device_launch,
    .time = cuda_device_time,
    .graph_build = cuda_graph_build,
    .graph_begin = cuda_graph_begin,
    .graph_finish = cuda_graph_finish,
    .graph_launch = cuda_graph_launch,
    .graph_bytes = cuda_graph_bytes,
    .graph_programmatic = cuda_graph_programmatic,
    .graph_free = cuda_graph_free,
    .queue = device_queue,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .capture_foreign = cuda_capture_foreign,
    .capture_branch = cuda_capture_branch,
    .capture_join = cuda_capture_join,
    .capture_scan = cuda_capture_scan,
    .capture_move = cuda_capture_move,
    .graph_move = cuda_graph_move,
    .handle = cuda_device_handle,
    .reaches = cuda_device_reaches,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_synchronize = cuda_event_synchronize,
    .synchronize = device_synchronize,
    .lost = device_lost,
};

rp_status cuda_device_open(const cuda_driver *cu, uint32_t ordinal, hal_device **out,
                           rp_error *err) {
    rp_status st = RP_OK;
    cuda_device *d = base_alloc(sizeof *d);
    if (!d) return rp_fail(err, RP_NOMEM, "no memory for device cuda:%u", ordinal);
    d->cu = *cu;
    d->ordinal = ordinal;
    d->caller.device = (int)ordinal;
    d->cu.caller = &d->caller;
    RP_TRY_OUT(cuda_loss_join(&d->caller, err));
    RP_TRY_OUT(hal_device_init(&d->base, &cuda_ops, err));
    RP_TRY_OUT(cuda_gpu_open(&d->cu, (int)ordinal, CUDA_MIN_CAPABILITY, &d->gpu, err));
    RP_TRY_OUT(cuda_check(&d->cu, d->cu.stream_new(&d->stream, CUDA_STREAM_NON_BLOCKING),
                          "a stream of the GPU", err));
    cuda_loss_over(&d->caller);
    cuda_queues_enter(d);
    *out = &d->base;
    d = NULL;
out:
    if (d) device_free(&d->base);
    return st;
}

rp_status hal_cuda_open(uint32_t ordinal, uint32_t n_threads, hal_device **out, rp_error *err) {
    cuda_driver cu;
    RP_TRY(cuda_driver_open(&cu, err));
    RP_TRY(cuda_device_open(&cu, ordinal, out, err));
    ((cuda_device *)*out)->n_threads = n_threads;
    return RP_OK;
}
