/* Names of generated kernels: kind, origin ops, index, as Inductor spells them
 * (red_fused_mean_mul_rsqrt_3). Origins are sorted and each stands once; a long list is cut at a
 * whole name, the index keeps names apart. */
#include "gen/gen.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 96

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *prefix(gen_kernel_kind kind) {
    static const char *const names[] = {"poi_fused", "red_fused", "per_fused", "mm_fused",
                                        "attn_fused"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "fused";
}

static void put_origin(base_buf *out, const char *name) {
    base_buf_putc(out, '_');
    for (; *name; name++) base_buf_putc(out, isalnum((unsigned char)*name) ? *name : '_');
}

rp_status gen_kernel_name(gen_kernel_kind kind, const char *const *origins, uint32_t n,
                          uint32_t index, base_buf *out, rp_error *err) {
    const char **sorted = base_alloc_array(n ? n : 1, sizeof *sorted);
    size_t start = out->len;

    if (!sorted) return rp_fail(err, RP_NOMEM, "kernel name");
    for (uint32_t i = 0; i < n; i++) sorted[i] = origins[i];
    qsort(sorted, n, sizeof *sorted, by_text);
    base_buf_puts(out, prefix(kind));
    for (uint32_t i = 0; i < n; i++) {
        if (i && strcmp(sorted[i], sorted[i - 1]) == 0) continue;
        if (out->len - start + strlen(sorted[i]) > MAX_NAME) break;
        put_origin(out, sorted[i]);
    }
    base_buf_printf(out, "_%u", index);
    base_free(sorted);
    return base_buf_status(out, err);
}
