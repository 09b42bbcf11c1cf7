/* Reserved addresses of a GPU: memory is made in pieces of the driver's granularity and mapped one behind the other. */
#include <string.h>

#include "base/alloc.h"
#include "hal/cuda/device.h"
#include "hal/cuda/guard.h"
#include "hal/cuda/queues.h"

typedef struct piece {
    uint64_t memory; /* the driver's handle */
    size_t size;
} piece;

struct cuda_reserved {
    hal_reserved base;
    size_t granularity;
    piece *piece; /* n */
    uint32_t n, cap;
};

static cuda_memory_kind kind_of(const cuda_gpu *g) {
    return (cuda_memory_kind){.type = CUDA_MEMORY_PINNED,
                              .place = {.type = CUDA_PLACE_DEVICE, .id = g->device}};
}

static size_t up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static uint64_t address_of(const hal_reserved *r) {
    return (uint64_t)(uintptr_t)r->at;
}

rp_status cuda_reserve(hal_device *base, size_t size, hal_reserved **out, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    cuda_memory_kind kind = kind_of(&d->gpu);
    uint64_t at = 0;
    RP_TRY(cuda_device_enter(d, err));
    cuda_reserved *r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "no memory for a range of addresses");
    int mode = cuda_guard_relax(&d->cu);
    rp_status st = cuda_check(&d->cu, d->cu.granularity(&r->granularity, &kind, 0),
                              "the granularity of memory of the GPU", err);
    r->base = (hal_reserved){.device = base};
    if (st == RP_OK) {
        r->base.size = up(size ? size : 1, r->granularity);
        st = cuda_check(&d->cu, d->cu.address_reserve(&at, r->base.size, 0, 0, 0),
                        "reserving addresses of the GPU", err);
    }
    r->base.at = (void *)(uintptr_t)at;
    if (st == RP_OK) st = hal_memory_enter(base, r->base.at, 0, "reserved memory", err);
    if (st == RP_OK)
        *out = &r->base;
    else
        cuda_reserved_free(&d->cu, r);
    cuda_guard_restore(&d->cu, mode);
    return st;
}

/* Memory at `at`, which kernels of this GPU may read and write; zero. */
static rp_status map_piece(const cuda_device *d, uint64_t at, const piece *p, rp_error *err) {
    const cuda_access access = {.place = kind_of(&d->gpu).place, .flags = CUDA_ACCESS_READ_WRITE};
    const cuda_driver *cu = &d->cu;
    RP_TRY(cuda_check(cu, cu->memory_map(at, p->size, 0, p->memory, 0), "mapping memory of the GPU",
                      err));
    rp_status st = cuda_check(cu, cu->memory_access(at, p->size, &access, 1),
                              "access to memory of the GPU", err);
    if (st == RP_OK)
        st =
            cuda_check(cu, cu->memory_set(at, 0, p->size, NULL), "clearing memory of the GPU", err);
    if (st == RP_OK)
        st = cuda_check(cu, cu->stream_synchronize(NULL), "clearing memory of the GPU", err);
    if (st != RP_OK) (void)cu->memory_unmap(at, p->size);
    return st;
}

static rp_status add_piece(const cuda_device *d, cuda_reserved *r, size_t size, rp_error *err) {
    const cuda_memory_kind kind = kind_of(&d->gpu);
    const uint64_t at = address_of(&r->base) + r->base.committed;
    piece p = {0, size};
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? r->cap * 2 : 4;
        piece *v = base_realloc_array(r->piece, cap, sizeof *v);
        if (!v) return rp_fail(err, RP_NOMEM, "no memory for a range of addresses");
        r->piece = v;
        r->cap = cap;
    }
    RP_TRY(
        cuda_check(&d->cu, d->cu.memory_make(&p.memory, size, &kind, 0), "memory of the GPU", err));
    rp_status st = map_piece(d, at, &p, err);
    if (st == RP_OK) {
        st = hal_memory_grow(r->base.device, r->base.at, r->base.committed,
                             r->base.committed + size, err);
        if (st != RP_OK) (void)d->cu.memory_unmap(at, size);
    }
    if (st != RP_OK) {
        (void)d->cu.memory_release(p.memory);
        return st;
    }
    r->piece[r->n++] = p;
    r->base.committed += size;
    return RP_OK;
}

rp_status cuda_commit(hal_reserved *base, size_t size, rp_error *err) {
    cuda_reserved *r = (cuda_reserved *)base;
    const cuda_device *d = (const cuda_device *)base->device;
    RP_TRY(hal_reserved_fits(base, size, err));
    if (size <= base->committed) return RP_OK;
    RP_TRY(cuda_device_enter(d, err));
    int mode = cuda_guard_relax(&d->cu);
    rp_status st = add_piece(d, r, up(size, r->granularity) - base->committed, err);
    cuda_guard_restore(&d->cu, mode);
    return st;
}

void cuda_unreserve(hal_reserved *base) {
    if (!base) return;
    const cuda_device *d = (const cuda_device *)base->device;
    (void)d->cu.context_set(d->gpu.context);
    cuda_queues_wait(d);
    hal_memory_leave(base->device, base->at, base->committed);
    cuda_guard_free(&d->gpu, CUDA_FREED_RANGE, base);
}

void cuda_reserved_free(const cuda_driver *cu, cuda_reserved *r) {
    uint64_t at = address_of(&r->base);
    for (uint32_t i = 0; i < r->n; i++) {
        (void)cu->memory_unmap(at, r->piece[i].size);
        (void)cu->memory_release(r->piece[i].memory);
        at += r->piece[i].size;
    }
    if (r->base.at) (void)cu->address_free(address_of(&r->base), r->base.size);
    base_free(r->piece);
    base_free(r);
}
