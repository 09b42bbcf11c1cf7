#include "autograph/memory.h"
#include "base/alloc.h"

rp_status autograph_table_open(autograph_table *t, rp_device *d, uint32_t n, rp_error *err) {
    if (t->memory || n == 0) return RP_OK;
    const void **written = base_alloc_array(n, sizeof(void *));
    if (!written) return rp_fail(err, RP_NOMEM, "a table of %u addresses", n);
    rp_status st = autograph_memory_new(d, n * sizeof(void *), false, &t->memory, err);
    if (st != RP_OK) {
        base_free(written);
        return st;
    }
    t->written = written;
    t->n = n;
    return RP_OK;
}

void autograph_table_done(autograph_table *t) {
    autograph_memory_unref(t->memory);
    base_free(t->written);
    *t = (autograph_table){0};
}

void *autograph_table_at(const autograph_table *t, uint32_t i) {
    return (void **)t->memory->data + i;
}

rp_status autograph_check_reached(const rp_device *d, const void *p, const char *what,
                                  rp_error *err) {
    if (!p || device_reaches(d, p)) return RP_OK;
    return rp_fail(err, RP_INVALID,
                   "%s lies in memory of the host, which no kernel on %s reaches; give memory from "
                   "rp_device_alloc",
                   what, device_name(d));
}

/* What was sent before was reached then. */
rp_status autograph_table_put(autograph_table *t, const rp_device *d, const void *p,
                              rp_error *err) {
    if (t->written[t->next] != p) {
        RP_TRY(autograph_check_reached(d, p, "an indirect tensor", err));
        t->written[t->next] = p;
        t->changed = true;
    }
    t->next++;
    return RP_OK;
}

rp_status autograph_table_send(autograph_table *t, hal_device *queue, rp_error *err) {
    if (!t->changed) return RP_OK;
    RP_TRY(queue->ops->copy(queue, t->memory->data, t->written, t->n * sizeof(void *), err));
    t->changed = false;
    return RP_OK;
}
