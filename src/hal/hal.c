/* What every device shares: opening by name, counters, copies of launch lists.
 * Back ends report to the hal_note_ functions, which are the only writers of counters and log.
 * Knows no device besides the names in its table. */
#include "hal/hal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "hal/device.h"

rp_status hal_device_init(hal_device *d, const hal_device_ops *ops, rp_error *err) {
    d->ops = ops;
    d->counters = (hal_counters){0};
    d->ranges = hal_ranges_new();
    d->log = hal_log_new();
    if (d->ranges && d->log) return RP_OK;
    hal_device_done(d);
    return rp_fail(err, RP_NOMEM, "no memory for device %s", ops->name);
}

void hal_device_done(hal_device *d) {
    if (!d) return;
    hal_ranges_free(d->ranges);
    hal_log_free(d->log);
    d->ranges = NULL;
    d->log = NULL;
}

static rp_status open_null(uint32_t n_threads, hal_device **out, rp_error *err) {
    (void)n_threads;
    return hal_null_open(out, err);
}

static const struct {
    const char *name;
    rp_status (*open)(uint32_t n_threads, hal_device **out, rp_error *err);
} known[] = {{"cpu", hal_cpu_open}, {"null", open_null}};

/* "cuda" or "cuda:N". */
static bool is_cuda(const char *name, uint32_t *ordinal) {
    int64_t n = 0;
    if (strcmp(name, "cuda") == 0) return true;
    if (strncmp(name, "cuda:", 5) != 0 || !base_parse_i64(name + 5, &n) || n < 0 || n > INT32_MAX)
        return false;
    *ordinal = (uint32_t)n;
    return true;
}

const char *hal_full_name(const char *name) {
    if (!name || !*name) return "cpu";
    return strcmp(name, "cuda") == 0 ? "cuda:0" : name;
}

rp_status hal_open(const char *name, uint32_t n_threads, hal_device **out, rp_error *err) {
    if (!name || !*name) name = "cpu";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].open(n_threads, out, err);
    uint32_t ordinal = 0;
    if (is_cuda(name, &ordinal)) return hal_cuda_open(ordinal, n_threads, out, err);
    return rp_fail(err, RP_CONFIG, "unknown device '%s'; known are cpu, null and cuda:N", name);
}

rp_status hal_queue(hal_device *d, hal_device **out, rp_error *err) {
    hal_device *root = d->root ? d->root : d, *queue = NULL;
    RP_TRY(root->ops->queue(root, &queue, err));
    queue->root = root;
    *out = queue;
    return RP_OK;
}

void hal_close(hal_device *d) {
    if (!d) return;
    assert(d->counters.live_bytes == 0 && "device memory outlives its device");
    d->ops->free(d);
}

bool hal_lost(const hal_device *d, rp_error *err) {
    return d->ops->lost && d->ops->lost(d, err);
}

const hal_counters *hal_device_counters(const hal_device *d) {
    return &d->counters;
}

void hal_note_replay(hal_device *d, const char *label, uint32_t n_nodes) {
    d->counters.graph_launches++;
    d->counters.graph_nodes += n_nodes;
    hal_log_line(d->log, "graph_launch", label);
}

void hal_count_copy(hal_device *d, size_t size) {
    d->counters.copied_bytes += size;
}

void hal_note_build(hal_device *d, const char *label) {
    d->counters.graph_builds++;
    hal_log_line(d->log, "graph_build", label);
}

void hal_note_module(hal_device *d, const char *path) {
    const char *slash = strrchr(path, '/');
    d->counters.module_loads++;
    hal_log_line(d->log, "module_load", slash ? slash + 1 : path);
}

rp_status hal_may_load(hal_device *d, const char *path, rp_error *err) {
    if (d->seal == HAL_UNSEALED) return RP_OK;
    d->counters.late_module_loads++;
    base_log(RP_LOG_WARNING, "module %s is loaded after sealing", path);
    if (d->seal == HAL_SEALED_WARN) return RP_OK;
    return rp_fail(
        err, RP_UNSUPPORTED,
        "module %s cannot be loaded after sealing: load it at start or set sealed to warn", path);
}

bool hal_list_bytes(const hal_launch *list, uint32_t n, size_t *out) {
    size_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t one = sizeof(hal_launch) + list[i].n_arg * sizeof(void *) +
                     list[i].n_dim * sizeof(long long);
        if (!base_add_size(sum, one, &sum)) return false;
    }
    *out = sum;
    return true;
}

hal_launch *hal_list_copy(void *dst, const hal_launch *list, uint32_t n) {
    hal_launch *copy = dst;
    char *at = (char *)(copy + n); /* arrays of 8-byte things behind the records */
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = list[i];
        copy[i].arg_size = NULL;
        size_t args = list[i].n_arg * sizeof(void *), dims = list[i].n_dim * sizeof(long long);
        if (args) copy[i].arg = memcpy(at, list[i].arg, args);
        at += args;
        if (dims) copy[i].dim = memcpy(at, list[i].dim, dims);
        at += dims;
    }
    return copy;
}
