/* One pass that a compiler vectorises, over blocks of a constant size; then a look into the block that has it. */
#include "gen/best.h"

#include <math.h>
#include <string.h>

#include "gen/isa.h"

enum { BLOCK = 256 };

#define INLINE static inline __attribute__((always_inline))

/* Order of floats as order of integers; NaN is outside [-inf, inf] on one side or the other. */
INLINE int32_t key_of(float v) {
    int32_t b;
    memcpy(&b, &v, sizeof b);
    return b ^ ((b >> 31) & INT32_MAX);
}

static float value_of(int32_t key) {
    int32_t b = key ^ ((key >> 31) & INT32_MAX);
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

INLINE void bounds(const float *x, int64_t n, int32_t *lo, int32_t *hi) {
    int32_t mn = INT32_MAX, mx = INT32_MIN;
    for (int64_t i = 0; i < n; i++) {
        int32_t k = key_of(x[i]);
        mn = k < mn ? k : mn;
        mx = k > mx ? k : mx;
    }
    *lo = mn;
    *hi = mx;
}

/* In wider registers where the processor has them. */
typedef void (*bounds_fn)(const float *x, int32_t *lo, int32_t *hi);

static void bounds_plain(const float *x, int32_t *lo, int32_t *hi) {
    bounds(x, BLOCK, lo, hi);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void bounds_avx2(const float *x, int32_t *lo, int32_t *hi) {
    bounds(x, BLOCK, lo, hi);
}
#else
#define bounds_avx2 bounds_plain
#endif

static int64_t first_nan(const float *x, int64_t from) {
    while (!isnan(x[from])) from++;
    return from;
}

int64_t gen_best(const float *x, int64_t n) {
    const int32_t least = key_of(-INFINITY), most = key_of(INFINITY);
    bounds_fn whole = gen_isa_granted() & GEN_ISA_BIT(GEN_ISA_AVX2) ? bounds_avx2 : bounds_plain;
    int64_t start = 0;
    float best = -INFINITY;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int32_t lo, hi;
        if (n - i >= BLOCK)
            whole(x + i, &lo, &hi);
        else
            bounds(x + i, n - i, &lo, &hi);
        if (lo < least || hi > most) return first_nan(x, i);
        if (value_of(hi) > best) {
            best = value_of(hi);
            start = i;
        }
    }
    while (x[start] != best) start++;
    return start;
}
