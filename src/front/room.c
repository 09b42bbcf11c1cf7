/* Memory of a run of a recording, which goes when the run is over: small values lie in a block that the recording keeps from run to run,
 * others in blocks of their own. */
#include "front/recording.h"

#include "base/alloc.h"

rp_status front_own_block(const front_session *s, size_t bytes, void **out, rp_error *err) {
    front_room *m = &s->rec->room;
    if (m->n_owned == m->cap_owned) {
        uint32_t cap = m->cap_owned ? m->cap_owned * 2 : 8;
        void **p = base_realloc_array(m->owned, cap, sizeof *p);
        if (!p) return rp_fail(err, RP_NOMEM, "values of %s", s->f->name);
        m->owned = p;
        m->cap_owned = cap;
    }
    RP_TRY(device_alloc(s->f->device, bytes ? bytes : 1, out, err));
    m->owned[m->n_owned++] = *out;
    return RP_OK;
}

/* A block for as much as this run took, where that is little. Without one the next run takes blocks as this one did. */
static void widen(front_room *m, rp_device *d) {
    rp_error none = {0};
    size_t size = m->wanted < FRONT_MOST_KEPT ? m->wanted : FRONT_MOST_KEPT;
    if (size <= m->size) return;
    if (m->data) device_free(m->device, m->data);
    m->data = NULL;
    m->size = 0;
    if (!m->device) m->device = rp_device_ref(d);
    if (device_alloc(d, size, &m->data, &none) == RP_OK) m->size = size;
}

void front_room_clear(front_room *m, rp_device *d, bool again) {
    while (m->n_owned > 0) device_free(d, m->owned[--m->n_owned]);
    if (again && m->wanted > m->size) widen(m, d);
    m->used = m->wanted = 0;
}

void front_room_done(front_room *m) {
    if (m->data) device_free(m->device, m->data);
    rp_device_close(m->device);
    base_free(m->owned);
    *m = (front_room){0};
}
