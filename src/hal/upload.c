/* Bytes into memory that the host writes itself. */
#include "base/parts.h"
#include "hal/device.h"

typedef struct upload {
    const hal_source *from;
    char *to;
} upload;

static void fill_part(void *user, uint32_t thread, uint64_t part) {
    const upload *u = user;
    size_t offset = (size_t)part * HAL_PART;
    (void)thread;
    u->from->fill(u->from->user, u->to + offset, offset, hal_part_size(u->from, part));
}

uint64_t hal_part_count(const hal_source *s) {
    return s->size / HAL_PART + (s->size % HAL_PART != 0);
}

size_t hal_part_size(const hal_source *s, uint64_t part) {
    size_t left = s->size - (size_t)part * HAL_PART;
    return left < HAL_PART ? left : HAL_PART;
}

rp_status hal_memory_upload(hal_device *d, void *to, const hal_source *from, rp_error *err) {
    upload u = {from, to};
    if (from->size > 0 && hal_capturing(d)) return hal_refuse_captured(d, "an upload", err);
    base_parts(hal_part_count(from), from->threads, fill_part, &u);
    return RP_OK;
}
