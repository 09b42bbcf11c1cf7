/* The device that runs nothing: memory is real, modules load from any path, every symbol exists,
 * launches and graphs are counted and logged but not executed (host calls neither). For tests of
 * everything above the device border, and the smallest back end to copy: see README.md. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/device.h"

enum { NULL_ALIGN = 64 };

struct hal_module {
    hal_device *d;
};

struct hal_graph {
    hal_device *d;
    uint32_t n;
    size_t bytes;
    char *label;
};

static void null_free(hal_device *d) {
    hal_device_done(d);
    base_free(d);
}

static void null_info(hal_device *d, hal_device_info *out) {
    (void)d;
    *out = (hal_device_info){.n_threads = 1, .alignment = NULL_ALIGN, .unified = true};
    (void)snprintf(out->name, sizeof out->name, "null");
}

static rp_status null_alloc(hal_device *d, hal_memory kind, size_t size, void **out,
                            rp_error *err) {
    (void)kind;
    return hal_memory_alloc(d, size, NULL_ALIGN, "device memory", out, err);
}

static rp_status null_module_load(hal_device *d, const char *path, hal_module **out,
                                  rp_error *err) {
    RP_TRY(hal_may_load(d, path, err));
    hal_module *m = base_alloc(sizeof *m);
    if (!m) return rp_fail(err, RP_NOMEM, "no memory to load %s", path);
    m->d = d;
    hal_note_module(d, path);
    *out = m;
    return RP_OK;
}

static void null_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                        void *scratch) {
    (void)arg, (void)dim, (void)begin, (void)end, (void)scratch;
}

static rp_status null_module_symbol(hal_module *m, const char *name, hal_function *out,
                                    rp_error *err) {
    (void)m, (void)name, (void)err;
    out->host = null_kernel;
    return RP_OK;
}

static void null_module_free(hal_module *m) {
    base_free(m);
}

static rp_status null_launch(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                             rp_error *err) {
    if (hal_capturing(d)) return hal_note_capture(d, list, n, scratch_size, err);
    hal_note_launch(d, list, n);
    return RP_OK;
}

/* Takes what a real graph of the list would, so that ledgers can be tested. */
static rp_status null_graph_build(hal_device *d, const hal_launch *list, uint32_t n,
                                  size_t scratch_size, const char *label, hal_graph **out,
                                  rp_error *err) {
    (void)scratch_size;
    size_t list_size, label_size = strlen(label ? label : "") + 1, size;
    if (!hal_list_bytes(list, n, &list_size) ||
        !base_add_size(list_size, sizeof(hal_graph) + label_size, &size))
        return rp_fail(err, RP_NOMEM, "graph of %u launches is too large", n);
    hal_graph *g = base_alloc(size);
    if (!g) return rp_fail(err, RP_NOMEM, "no memory for a graph of %u launches", n);
    (void)hal_list_copy(g + 1, list, n);
    *g = (hal_graph){.d = d, .n = n, .bytes = size, .label = (char *)(g + 1) + list_size};
    memcpy(g->label, label ? label : "", label_size);
    hal_note_build(d, g->label);
    *out = g;
    return RP_OK;
}

static rp_status null_graph_launch(hal_graph *g, rp_error *err) {
    if (hal_capturing(g->d)) return hal_refuse_captured(g->d, "a replay", err);
    hal_note_replay(g->d, g->label, g->n);
    return RP_OK;
}

static size_t null_graph_bytes(const hal_graph *g) {
    return g->bytes;
}

static void null_graph_free(hal_graph *g) {
    base_free(g);
}

static rp_status null_synchronize(hal_device *d, rp_error *err) {
    return hal_capturing(d) ? hal_refuse_captured(d, "waiting for the device", err) : RP_OK;
}

static rp_status null_queue(hal_device *d, hal_device **out, rp_error *err) {
    (void)d;
    return hal_null_open(out, err);
}

static const hal_device_ops null_ops = {
    .name = "null",
    .free = null_free,
    .info = null_info,
    .alloc = null_alloc,
    HAL_HOST_OPS,
    .module_load = null_module_load,
    .module_symbol = null_module_symbol,
    .module_free = null_module_free,
    .launch = null_launch,
    .graph_build = null_graph_build,
    .graph_launch = null_graph_launch,
    .graph_bytes = null_graph_bytes,
    .graph_free = null_graph_free,
    .queue = null_queue,
    .synchronize = null_synchronize,
};

rp_status hal_null_open(hal_device **out, rp_error *err) {
    hal_device *d = base_alloc(sizeof *d);
    if (!d) return rp_fail(err, RP_NOMEM, "no memory for device null");
    rp_status st = hal_device_init(d, &null_ops, err);
    if (st == RP_OK)
        *out = d;
    else
        base_free(d);
    return st;
}
