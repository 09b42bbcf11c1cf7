/* Passes over a row of logits. gen/embed/draw.cu has the same arithmetic for devices.
 *
 * Invariants: blocks and lanes have constant sizes, so that the order of every float operation is
 * the same at each optimisation level and vector width. libm is not used: its exp is a call an
 * element and differs between versions. */
#include "engine/logits.h"

#include <math.h>
#include <string.h>

#include "gen/best.h"
#include "gen/isa.h"

enum { BLOCK = 256, LANES = 8 };

#define INLINE static inline __attribute__((always_inline))

/* 2^t by rounding t to an integer and a polynomial for the rest in [-0.5, 0.5]. */
INLINE float exp2_of(float t) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float whole = t + magic, f = t - (whole - magic), p;
    int32_t e, bits;

    memcpy(&e, &whole, sizeof e);
    memcpy(&bits, &magic, sizeof bits);
    p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    bits = (e - bits + 127) << 23;
    memcpy(&whole, &bits, sizeof whole);
    return p * whole;
}

INLINE void weights(const float *x, uint32_t n, float top, float scale, float *w) {
    const float floor_t = -115.0f; /* e^-80 */

    for (uint32_t i = 0; i < n; i++) {
        float t = (x[i] - top) * scale, c = t > floor_t ? t : floor_t;
        float v = exp2_of(c);

        w[i] = t > floor_t ? v : 0.0f;
    }
}

/* Whole blocks, whose constant count is what lets a compiler vectorise without a tail, in wider registers where the processor has
 * them: the same operations an element, so the same bits. */
typedef void (*weights_fn)(const float *x, float top, float scale, float *w);

static void weights_plain(const float *x, float top, float scale, float *w) {
    weights(x, BLOCK, top, scale, w);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void weights_avx2(const float *x, float top, float scale,
                                                         float *w) {
    weights(x, BLOCK, top, scale, w);
}
#else
#define weights_avx2 weights_plain
#endif

bool engine_logits_sound(float best) {
    return best > -INFINITY && best < INFINITY;
}

bool engine_logits_best(const float *x, uint32_t n, float *out, uint32_t *out_at) {
    int64_t at = gen_best(x, n);
    if (!engine_logits_sound(x[at])) return false;
    *out = x[at];
    *out_at = (uint32_t)at;
    return true;
}

float engine_logits_scale(double temperature) {
    return (float)(1.4426950408889634 / temperature);
}

void engine_logits_weights(const float *x, uint32_t n, float top, double temperature, float *w) {
    float scale = engine_logits_scale(temperature);
    bool wide = gen_isa_granted() & GEN_ISA_BIT(GEN_ISA_AVX2);
    weights_fn whole = wide ? weights_avx2 : weights_plain;
    uint32_t i = 0;

    for (; n - i >= BLOCK; i += BLOCK) whole(x + i, top, scale, w + i);
    weights(x + i, n - i, top, scale, w + i);
}

static double block_sum(const float *w) {
    double lane[LANES] = {0}, sum = 0;

    for (uint32_t i = 0; i < BLOCK; i += LANES)
        for (uint32_t l = 0; l < LANES; l++) lane[l] += (double)w[i + l];
    for (uint32_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

static double tail_sum(const float *w, uint32_t n) {
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) sum += (double)w[i];
    return sum;
}

double engine_logits_sum(const float *w, uint32_t n) {
    double sum = 0;
    uint32_t i = 0;

    for (; n - i >= BLOCK; i += BLOCK) sum += block_sum(w + i);
    return sum + tail_sum(w + i, n - i);
}

uint32_t engine_logits_draw(const float *w, uint32_t n, double u) {
    double want = u * engine_logits_sum(w, n), cum = 0;
    uint32_t i = 0, last;

    for (; n - i >= BLOCK; i += BLOCK) {
        double sum = block_sum(w + i);

        if (cum + sum > want) break;
        cum += sum;
    }
    for (; i < n; i++) {
        cum += (double)w[i];
        if (cum > want && w[i] > 0) return i;
    }
    /* Rounding let the sum fall short by less than one weight. */
    for (last = n - 1; last > 0 && !(w[last] > 0);) last--;
    return last;
}
