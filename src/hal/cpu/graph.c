/* A cpu graph: a launch list with its arguments in one block, replayed by one wake-up of the pool.
 * Building takes all memory that replays need; a replay allocates nothing and looks nothing up. */
#include <string.h>

#include "base/alloc.h"
#include "hal/cpu/cpu.h"

struct hal_graph {
    cpu_device *d;
    hal_launch *list;
    uint32_t n;
    size_t bytes;
    char *label;
};

rp_status cpu_graph_build(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                          const char *label, hal_graph **out, rp_error *err) {
    size_t list_size, label_size = strlen(label ? label : "") + 1, size;
    if (!hal_list_bytes(list, n, &list_size) ||
        !base_add_size(list_size, sizeof(hal_graph) + label_size, &size))
        return rp_fail(err, RP_NOMEM, "graph of %u launches is too large", n);
    cpu_device *cpu = (cpu_device *)d;
    RP_TRY(cpu_queue_enter(cpu, err));
    rp_status st = cpu_scratch_reserve(cpu, scratch_size, err);
    cpu_queue_leave(cpu);
    RP_TRY(st);
    hal_graph *g = base_alloc(size);
    if (!g) return rp_fail(err, RP_NOMEM, "no memory for a graph of %u launches", n);
    g->d = cpu;
    g->list = hal_list_copy(g + 1, list, n);
    g->n = n;
    g->bytes = size;
    g->label = (char *)(g + 1) + list_size;
    memcpy(g->label, label ? label : "", label_size);
    hal_note_build(d, g->label);
    *out = g;
    return RP_OK;
}

rp_status cpu_graph_launch(hal_graph *g, rp_error *err) {
    if (hal_capturing(&g->d->base)) return hal_refuse_captured(&g->d->base, "a replay", err);
    RP_TRY(cpu_queue_enter(g->d, err));
    rp_status st = cpu_list_run(g->d, g->list, g->n, err);
    if (st == RP_OK) hal_note_replay(&g->d->base, g->label, g->n);
    cpu_queue_leave(g->d);
    return st;
}

size_t cpu_graph_bytes(const hal_graph *g) {
    return g->bytes;
}

void cpu_graph_free(hal_graph *g) {
    base_free(g);
}
