#include "autograph/pack.h"

#include "autograph/manager.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

enum { ALIGN = 64 };

void autograph_pack_done(autograph_pack *p) {
    autograph_memory_unref(p->memory);
    base_free(p->bytes);
    base_free(p->item);
    *p = (autograph_pack){0};
}

size_t autograph_pack_bytes(const autograph_pack *p) {
    return p->memory ? p->memory->size : 0;
}

void autograph_pack_clear(autograph_pack *p) {
    p->n = 0;
    p->used = 0;
}

static rp_status make_room(autograph_pack *p, rp_error *err) {
    if (!p->bytes) p->bytes = base_alloc_aligned(AUTOGRAPH_PACK_MOST, ALIGN);
    if (!p->item) p->item = base_alloc_array(AUTOGRAPH_PACK_ITEMS, sizeof *p->item);
    return p->bytes && p->item ? RP_OK : rp_fail(err, RP_NOMEM, "small arguments of a call");
}

static bool fits(const autograph_pack *p, size_t size) {
    return size > 0 && size <= AUTOGRAPH_PACK_ONE && size <= AUTOGRAPH_PACK_MOST - p->used &&
           p->n < AUTOGRAPH_PACK_ITEMS;
}

rp_status autograph_pack_add(autograph_pack *p, const autograph_rows *rows, const rp_value *v,
                             uint32_t move, void *slot, bool *taken, rp_error *err) {
    const rp_buffer form = autograph_rows_form(rows, v);
    size_t size = 0;
    *taken = autograph_bytes(&form, &size) && fits(p, size);
    if (!*taken) return RP_OK;
    RP_TRY(make_room(p, err));
    char *at = p->bytes + p->used;
    RP_TRY(autograph_copy_in(NULL, at, v, err));
    RP_TRY(autograph_rows_clear(rows, NULL, at, v, err));
    p->item[p->n++] = (autograph_packed){move, slot, p->used, size};
    p->used += (size + ALIGN - 1) / ALIGN * ALIGN;
    return RP_OK;
}

/* False where there is none to be had, which is told once. Room comes back when graphs are evicted. */
static bool has_memory(autograph_pack *p, rp_device *d, uint64_t room) {
    rp_error why = {0};
    if (p->memory || p->refused) return p->memory != NULL;
    bool full = room < AUTOGRAPH_PACK_MOST;
    rp_status st = full ? rp_fail(&why, RP_NOMEM, "max_bytes leaves no room for them")
                        : autograph_memory_new(d, AUTOGRAPH_PACK_MOST, false, &p->memory, &why);
    if (st == RP_OK) return true;
    p->refused = !full;
    if (!p->told)
        base_log_ch(RP_LOG_CH_CUDAGRAPHS, false, "autograph: a copy for each small argument: %s",
                    why.text);
    p->told = true;
    return false;
}

/* To its slot at once, and not by the graph. */
static rp_status send_one(const autograph_pack *p, const autograph_packed *k,
                          const device_graph *graph, rp_error *err) {
    bool done;
    RP_TRY(device_graph_move(graph, k->move, k->slot, NULL, &done, err));
    return graph->queue->ops->copy(graph->queue, k->slot, p->bytes + k->at, k->size, err);
}

static rp_status move_on(const autograph_pack *p, const autograph_packed *k,
                         const device_graph *graph, rp_error *err) {
    bool done = false;
    char *from = (char *)p->memory->data + k->at;
    RP_TRY(device_graph_move(graph, k->move, k->slot, from, &done, err));
    return done ? RP_OK
                : rp_fail(err, RP_INTERNAL, "a graph does not copy argument %u from its device",
                          k->move);
}

rp_status autograph_pack_send(autograph_pack *p, const device_graph *graph, rp_device *d,
                              uint64_t room, rp_error *err) {
    bool together = p->n > 1 && has_memory(p, d, room);
    if (together)
        RP_TRY(graph->queue->ops->copy(graph->queue, p->memory->data, p->bytes, p->used, err));
    for (uint32_t i = 0; i < p->n; i++)
        RP_TRY(together ? move_on(p, &p->item[i], graph, err)
                        : send_one(p, &p->item[i], graph, err));
    return RP_OK;
}
