/* Presets of synthetic models and the text that chooses one. The weights themselves are made in
 * synth_fill.c. */
#include "model/synthetic.h"

#include <string.h>

static const struct preset {
    const char *name;
    rp_dtype dtype;
    model_hparams hp;
} presets[] = {
    {"tiny",
     RP_DTYPE_Q4_1,
     {"llama", 2, 64, 160, 288, 4, 2, 16, 4096, 1e-5f, 10000.0f, 16, MODEL_ROPE_PLAIN, 1.0f,
      false}},
    {"tiny-32",
     RP_DTYPE_BF16,
     {"llama", 2, 128, 320, 288, 4, 2, 32, 4096, 1e-5f, 10000.0f, 32, MODEL_ROPE_PLAIN, 1.0f,
      false}},
    {"tiny-64",
     RP_DTYPE_BF16,
     {"llama", 2, 128, 320, 288, 2, 1, 64, 4096, 1e-5f, 10000.0f, 64, MODEL_ROPE_PLAIN, 1.0f,
      false}},
    {"smollm2-135m",
     RP_DTYPE_Q4_1,
     {"llama", 30, 576, 1536, 49152, 9, 3, 64, 8192, 1e-5f, 100000.0f, 64, MODEL_ROPE_PLAIN, 1.0f,
      true}},
    {"llama-1b",
     RP_DTYPE_BF16,
     {"llama", 16, 2048, 8192, 128256, 32, 8, 64, 131072, 1e-5f, 500000.0f, 64, MODEL_ROPE_FREQS,
      1.0f, true}},
    {"llama-8b",
     RP_DTYPE_BF16,
     {"llama", 32, 4096, 14336, 128256, 32, 8, 128, 131072, 1e-5f, 500000.0f, 128, MODEL_ROPE_FREQS,
      1.0f, false}},
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

/* Copies the field [p, end) into z. */
static bool field_copy(const char *p, const char *end, char *z, size_t cap) {
    size_t n = (size_t)(end - p);
    if (n >= cap) return false;
    memcpy(z, p, n);
    z[n] = 0;
    return true;
}

static const char *field_end(const char *p) {
    const char *comma = strchr(p, ',');
    return comma ? comma : p + strlen(p);
}

static rp_status name_parse(const char *spec, const char *name, model_synth *s, rp_error *err) {
    const char *names[N_PRESETS];
    for (size_t i = 0; i < N_PRESETS; i++) {
        names[i] = presets[i].name;
        if (strcmp(name, presets[i].name) != 0) continue;
        *s = (model_synth){presets[i].name, presets[i].hp, presets[i].dtype, 0};
        return RP_OK;
    }
    const char *near = base_str_nearest(name, names, N_PRESETS);
    return rp_fail(err, RP_CONFIG, "%s: no synthetic model '%s'%s%s%s: " MODEL_FORMS, spec, name,
                   near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
}

/* A key that is not known, or a known one alone. */
static rp_status option_refuse(const char *spec, const char *key, bool has_value, rp_error *err) {
    static const char *const keys[] = {"layers", "dtype", "seed"};
    static const char *const values[] = {"N", "f32|bf16|q4_1", "N"};
    enum { N_KEYS = sizeof keys / sizeof keys[0] };
    for (size_t i = 0; i < N_KEYS && !has_value; i++)
        if (strcmp(key, keys[i]) == 0)
            return rp_fail(err, RP_CONFIG, "%s: '%s' has no value: write %s=%s", spec, key, key,
                           values[i]);
    const char *near = base_str_nearest(key, keys, N_KEYS);
    return rp_fail(err, RP_CONFIG,
                   "%s: '%s' is no option%s%s%s: known are layers=N, dtype=f32|bf16|q4_1, seed=N",
                   spec, key, near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
}

static rp_status option_parse(const char *spec, char *key, model_synth *s, rp_error *err) {
    int64_t v = 0;
    char *value = strchr(key, '=');
    if (value) *value++ = 0;
    if (value && strcmp(key, "layers") == 0) {
        if (!base_parse_i64(value, &v) || v < 1 || v > 4096)
            return rp_fail(err, RP_CONFIG, "%s: layers=%s: expected 1 to 4096", spec, value);
        s->hp.n_layer = (uint32_t)v;
    } else if (value && strcmp(key, "seed") == 0) {
        if (!base_parse_i64(value, &v) || v < 0)
            return rp_fail(err, RP_CONFIG, "%s: seed=%s: expected a whole number from 0", spec,
                           value);
        s->seed = (uint64_t)v;
    } else if (value && strcmp(key, "dtype") == 0) {
        if (strcmp(value, "f32") == 0)
            s->dtype = RP_DTYPE_F32;
        else if (strcmp(value, "bf16") == 0)
            s->dtype = RP_DTYPE_BF16;
        else if (strcmp(value, "q4_1") == 0)
            s->dtype = RP_DTYPE_Q4_1;
        else
            return rp_fail(err, RP_CONFIG, "%s: dtype=%s: expected f32, bf16 or q4_1", spec, value);
    } else {
        return option_refuse(spec, key, value != NULL, err);
    }
    return RP_OK;
}

rp_status model_synth_parse(const char *spec, model_synth *out, rp_error *err) {
    model_synth s = {0};
    char field[64];
    const size_t prefix = sizeof MODEL_SYNTH_PREFIX - 1;
    if (strncmp(spec, MODEL_SYNTH_PREFIX, prefix) != 0)
        return rp_fail(err, RP_CONFIG, "%s: a synthetic model starts with '%s'", spec,
                       MODEL_SYNTH_PREFIX);
    const char *p = spec + prefix, *end = field_end(p);
    for (bool first = true;; first = false) {
        if (!field_copy(p, end, field, sizeof field))
            return rp_fail(err, RP_CONFIG, "%.80s...: a part of more than 63 characters", spec);
        RP_TRY(first ? name_parse(spec, field, &s, err) : option_parse(spec, field, &s, err));
        if (!*end) break;
        p = end + 1;
        end = field_end(p);
    }
    *out = s;
    return RP_OK;
}

static const char *dtype_text(rp_dtype t) {
    return t == RP_DTYPE_F32 ? "f32" : t == RP_DTYPE_BF16 ? "bf16" : "q4_1";
}

void model_synth_print(const model_synth *s, base_buf *out) {
    base_buf_printf(out, MODEL_SYNTH_PREFIX "%s,layers=%u,dtype=%s,seed=%llu", s->preset,
                    s->hp.n_layer, dtype_text(s->dtype), (unsigned long long)s->seed);
}

model_tensor model_synth_tensor(const model_synth *s, size_t idx, model_slot *slot) {
    *slot = model_slot_at(&s->hp, idx);
    model_tensor t = {.n_dims = slot->n_dims, .idx = idx, .type = s->dtype};
    t.name = base_str_of(slot->name);
    memcpy(t.dims, slot->dims, sizeof t.dims);
    if (model_role_is_vector(slot->role)) t.type = RP_DTYPE_F32;
    /* as quantisers do: a tied head is worth more bits */
    else if (slot->role == MODEL_TOKEN_EMBD && s->hp.tied && s->dtype == RP_DTYPE_Q4_1)
        t.type = RP_DTYPE_Q8_0;
    (void)model_dims_size(t.type, t.dims, t.n_dims, &t.size);
    return t;
}
