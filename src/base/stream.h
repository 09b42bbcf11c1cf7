/* Loops that only load memory, as fast as one thread can: the limit of whatever reads each byte once.
 *
 * Four streams side by side, as a product over four rows reads them; AHEAD bytes of each are asked for, 0: none. Static, since
 * bench/micro/read_limit.c is a program of its own. */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <stddef.h>

typedef long long base_v64 __attribute__((vector_size(64), aligned(64)));
typedef long long base_v32 __attribute__((vector_size(32), aligned(32)));

/* n bytes from p on, which is aligned to 64; the last n % 256 are left out. Gives a number that depends on all of them. */
typedef long long (*base_stream_fn)(const char *p, size_t n);

#define BASE_STREAM(name, type, isa, AHEAD)                       \
    isa static long long name(const char *p, size_t n) {          \
        size_t quarter = n / 4 / 64 * 64;                         \
        type sum = {0};                                           \
        for (size_t i = 0; i + 64 <= quarter; i += 64)            \
            for (size_t stream = 0; stream < 4; stream++) {       \
                const char *at = p + stream * quarter + i;        \
                if (AHEAD) __builtin_prefetch(at + AHEAD);        \
                for (size_t k = 0; k < 64; k += sizeof(type))     \
                    sum |= *(const type *)(const void *)(at + k); \
            }                                                     \
        return sum[0] | sum[1] | sum[2] | sum[3];                 \
    }
#if defined(__x86_64__)
BASE_STREAM(base_stream_avx512, base_v64, __attribute__((target("avx512f"))), 0)
BASE_STREAM(base_stream_avx512_ahead, base_v64, __attribute__((target("avx512f"))), 4096)
BASE_STREAM(base_stream_avx2, base_v32, __attribute__((target("avx2"))), 0)
BASE_STREAM(base_stream_avx2_ahead, base_v32, __attribute__((target("avx2"))), 4096)
#endif
BASE_STREAM(base_stream_plain, base_v32, , 0)
BASE_STREAM(base_stream_plain_ahead, base_v32, , 4096)

enum { BASE_STREAM_WAYS = 2 };

/* Without and with asking ahead, in the widest vectors that this processor has. */
static inline const base_stream_fn *base_stream_ways(void) {
    static const base_stream_fn plain[] = {base_stream_plain, base_stream_plain_ahead};
#if defined(__x86_64__)
    static const base_stream_fn avx512[] = {base_stream_avx512, base_stream_avx512_ahead},
                                avx2[] = {base_stream_avx2, base_stream_avx2_ahead};
    if (__builtin_cpu_supports("avx512f")) return avx512;
    if (__builtin_cpu_supports("avx2")) return avx2;
#endif
    return plain;
}

#endif
