/* Copies of views of the host to dense memory and back: matrices that are turned, pictures whose channels are last, rows with gaps. The least of rounds, in
 * GB/s of elements, each of which is read once and written once. Usage: views [rounds] */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/view.h"

typedef struct form {
    const char *what;
    size_t element;
    uint32_t rank;
    int64_t dim[3], stride[3]; /* of elements */
} form;

static const form forms[] = {
    {"64 x 64 turned", 4, 2, {64, 64}, {1, 64}},
    {"1024 x 1024 turned", 4, 2, {1024, 1024}, {1, 1024}},
    {"4096 x 4096 turned", 4, 2, {4096, 4096}, {1, 4096}},
    {"4095 x 4097 turned", 4, 2, {4095, 4097}, {1, 4095}},
    {"1024 x 1024 turned", 2, 2, {1024, 1024}, {1, 1024}},
    {"4096 x 4096 turned", 2, 2, {4096, 4096}, {1, 4096}},
    {"3 x 1080 x 1920, channels last", 4, 3, {3, 1080, 1920}, {1, 5760, 3}},
    {"3 x 1080 x 1920, channels last", 2, 3, {3, 1080, 1920}, {1, 5760, 3}},
    {"64 x 512 x 64, heads in front", 4, 3, {512, 64, 64}, {64, 32768, 1}},
    {"4096 x 1000 of 1024", 4, 2, {4096, 1000}, {1024, 1}},
};

int main(int argc, char **argv) {
    enum { MOST_BYTES = 80 << 20, BYTES_A_ROUND = 32 << 20 };
    int rounds = argc > 1 ? atoi(argv[1]) : 7;
    char *a = base_alloc_aligned(MOST_BYTES, 4096), *b = base_alloc_aligned(MOST_BYTES, 4096);
    if (!a || !b) return 1;
    for (size_t i = 0; i < MOST_BYTES; i++) a[i] = (char)i;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        const form *f = &forms[k];
        base_view v = {.at = a, .element = f->element, .rank = f->rank};
        size_t bytes = 0;
        for (uint32_t d = 0; d < f->rank; d++) {
            v.dim[d] = f->dim[d];
            v.stride[d] = f->stride[d] * (int64_t)f->element;
        }
        if (!base_view_bytes(&v, &bytes)) return 1;
        int calls = bytes < BYTES_A_ROUND ? (int)(BYTES_A_ROUND / bytes) : 1;
        int64_t least[2] = {INT64_MAX, INT64_MAX};
        for (int r = 0; r < 2 * rounds; r++) {
            int64_t start = base_now_ns();
            for (int i = 0; i < calls; i++) {
                if (r % 2)
                    base_view_scatter(&v, b);
                else
                    base_view_gather(&v, b);
            }
            int64_t ns = base_now_ns() - start;
            if (ns < least[r % 2]) least[r % 2] = ns;
        }
        printf("%-32s %zu bytes: in %6.2f GB/s, back %6.2f GB/s\n", f->what, f->element,
               (double)bytes * calls / (double)least[0], (double)bytes * calls / (double)least[1]);
    }
    base_free(a);
    base_free(b);
    return 0;
}
