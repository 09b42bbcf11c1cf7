/* Weights of synthetic models: splitmix64 over a counter, keyed by seed and tensor name.
 *
 * A tensor is a sequence of units (4 elements, or one block); unit u of tensor k uses the words
 * k + u * words_per_unit onwards, so any row, thread or device can make its own part. A change
 * of what is generated must change GENERATOR, which is part of every hash. */
#include <math.h>
#include <string.h>

#include "model/synthetic.h"

#define GENERATOR "synth-1"

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t word(uint64_t key, uint64_t i) {
    return mix(key + (i + 1) * 0x9e3779b97f4a7c15u);
}

static uint64_t tensor_key(const model_synth *s, const model_slot *slot) {
    return mix(s->seed + 0x9e3779b97f4a7c15u) ^ base_hash64(slot->name, strlen(slot->name));
}

static uint32_t f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Round to nearest even; values are finite. */
static uint16_t to_bf16(float f) {
    uint32_t u = f32_bits(f);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* Round to nearest even, for the normal range of f16 only; less is 0. */
static uint16_t to_f16(float f) {
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;
    if (rest < 0x38800000u) return (uint16_t)sign; /* below 2^-14 */
    rest += 0xfffu + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest >> 13) - (112u << 10)));
}

/* Standard deviation of a matrix: keeps the variance of what goes through it. */
static float sigma_of(const model_slot *slot) {
    float in = (float)slot->dims[0];
    bool logits = slot->role == MODEL_TOKEN_EMBD || slot->role == MODEL_OUTPUT;
    /* wider logits have clearer winners; a gated product is smaller than its factors */
    float gain = logits ? 4.0f : slot->role == MODEL_FFN_DOWN ? 2.0f : 1.0f;
    return gain / sqrtf(in);
}

/* The lane-th of four values of a word, in [-width, width]. */
static float uniform(uint64_t w, unsigned lane, float width) {
    int16_t v = (int16_t)(uint16_t)(w >> (16 * lane));
    return ((float)v + 0.5f) * (width / 32768.0f);
}

/* 0.75 to 1.25: scales differ from block to block, as they do in real files. */
static float jitter(uint64_t w) {
    return 0.75f + (float)(w & 0xffff) * (0.5f / 65536.0f);
}

static void fill_f32(uint64_t key, uint64_t unit, uint64_t n, float width, float *dst) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t w = word(key, unit + i);
        for (unsigned k = 0; k < 4; k++) dst[4 * i + k] = uniform(w, k, width);
    }
}

static void fill_bf16(uint64_t key, uint64_t unit, uint64_t n, float width, uint16_t *dst) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t w = word(key, unit + i);
        for (unsigned k = 0; k < 4; k++) dst[4 * i + k] = to_bf16(uniform(w, k, width));
    }
}

/* Block: scale, minimum, 32 nibbles. Uniform 0..15 deviates by 4.61. */
static void fill_q4_1(uint64_t key, uint64_t unit, uint64_t n, float sigma, uint8_t *dst) {
    for (uint64_t i = 0; i < n; i++, dst += 20) {
        uint64_t at = (unit + i) * 3;
        float d = sigma / 4.61f * jitter(word(key, at));
        uint16_t head[2] = {to_f16(d), to_f16(-7.5f * d)};
        uint64_t q[2] = {word(key, at + 1), word(key, at + 2)};
        memcpy(dst, head, sizeof head);
        memcpy(dst + 4, q, sizeof q);
    }
}

/* Block: scale, 32 signed bytes. Uniform -127..127 deviates by 73.3. */
static void fill_q8_0(uint64_t key, uint64_t unit, uint64_t n, float sigma, uint8_t *dst) {
    for (uint64_t i = 0; i < n; i++, dst += 34) {
        uint64_t at = (unit + i) * 5;
        uint16_t d = to_f16(sigma / 73.3f * jitter(word(key, at)));
        uint64_t q[4];
        for (unsigned k = 0; k < 4; k++) q[k] = word(key, at + 1 + k);
        memcpy(dst, &d, sizeof d);
        memcpy(dst + 2, q, sizeof q);
        for (unsigned k = 2; k < 34; k++)
            if (dst[k] == 0x80) dst[k] = 0; /* quantisers never write -128 */
    }
}

/* Llama 3's stretching of low frequencies: original context 8192, factors 1 and 4. */
static void fill_rope_factors(const model_hparams *hp, float *dst) {
    const double context = 8192.0, low = 1.0, high = 4.0;
    double factor = hp->head_dim == 64 ? 32.0 : 8.0; /* of 3.2 1B and 3.1 8B */
    for (uint32_t i = 0; i < hp->rope_dim / 2; i++) {
        double freq = pow(hp->rope_base, -2.0 * i / hp->rope_dim);
        double turns = context * freq / 6.283185307179586;
        double smooth = (turns - low) / (high - low);
        dst[i] = 1.0f;
        if (turns < low)
            dst[i] = (float)factor;
        else if (turns <= high)
            dst[i] = (float)(1.0 / ((1.0 - smooth) / factor + smooth));
    }
}

static void fill_norm(uint64_t key, uint64_t n, float *dst) {
    for (uint64_t i = 0; i < n; i++) dst[i] = 1.0f + uniform(word(key, i / 4), i % 4, 0.1f);
}

void model_synth_rows(const model_synth *s, size_t idx, uint64_t first, uint64_t n, void *dst) {
    model_slot slot;
    model_tensor t = model_synth_tensor(s, idx, &slot);
    uint64_t key = tensor_key(s, &slot), row = t.dims[0];
    float sigma = sigma_of(&slot), width = sigma * 1.7320508f;
    if (slot.role == MODEL_ROPE_FACTORS) {
        if (n > 0) fill_rope_factors(&s->hp, dst);
    } else if (model_role_is_vector(slot.role)) {
        if (n > 0) fill_norm(key, row, dst);
    } else if (t.type == RP_DTYPE_F32) {
        fill_f32(key, first * row / 4, n * row / 4, width, dst);
    } else if (t.type == RP_DTYPE_BF16) {
        fill_bf16(key, first * row / 4, n * row / 4, width, dst);
    } else if (t.type == RP_DTYPE_Q4_1) {
        fill_q4_1(key, first * row / 32, n * row / 32, sigma, dst);
    } else {
        fill_q8_0(key, first * row / 32, n * row / 32, sigma, dst);
    }
}

base_hash128 model_synth_hash(const model_synth *s, size_t idx) {
    model_slot slot;
    model_tensor t = model_synth_tensor(s, idx, &slot);
    struct {
        char generator[8], name[40];
        uint64_t seed, dims[MODEL_MAX_DIMS], type, head_dim;
    } id = {.generator = GENERATOR, .seed = s->seed, .type = (uint64_t)t.type};
    memcpy(id.name, slot.name, sizeof id.name);
    memcpy(id.dims, t.dims, sizeof id.dims);
    id.head_dim = slot.role == MODEL_ROPE_FACTORS ? s->hp.head_dim : 0;
    return base_hash(&id, sizeof id);
}
