/* Hyperparameters of `llama` from GGUF metadata.
 *
 * Invariant: what model_hparams_read accepts describes exactly the tensors of the file; a file
 * with more (biases, experts, adapters) is refused, because leaving a tensor out of the sum
 * would give wrong text without a word. Does not read tensor data. */
#include "model/hparams.h"

#include <string.h>

#include "base/alloc.h"

static rp_status arch_check(const model_gguf *g, model_hparams *hp, rp_error *err) {
    base_str arch;
    RP_TRY(model_gguf_str(g, "general.architecture", &arch, err));
    if (!base_str_eq(arch, "llama"))
        return rp_fail(err, RP_UNSUPPORTED, "%s: architecture '%s' is not supported: 'llama' is",
                       model_gguf_path(g), model_label_of(arch).text);
    memcpy(hp->arch, "llama", 6);
    return RP_OK;
}

/* *out keeps its value when the key is missing. */
static rp_status optional_u32(const model_gguf *g, const char *key, uint32_t *out, rp_error *err) {
    return model_gguf_has(g, key) ? model_gguf_u32(g, key, out, err) : RP_OK;
}

static rp_status optional_f32(const model_gguf *g, const char *key, float *out, rp_error *err) {
    return model_gguf_has(g, key) ? model_gguf_f32(g, key, out, err) : RP_OK;
}

static rp_status scaling_read(const model_gguf *g, model_hparams *hp, rp_error *err) {
    base_str kind = base_str_of("none");
    float factor = 0.0f;
    model_tensor t;
    hp->rope_factor = 1.0f;
    if (model_gguf_has(g, "llama.rope.scaling.type"))
        RP_TRY(model_gguf_str(g, "llama.rope.scaling.type", &kind, err));
    RP_TRY(optional_f32(g, "llama.rope.scale_linear", &factor, err));
    if (factor != 0.0f) kind = base_str_of("linear"); /* the older key */
    RP_TRY(optional_f32(g, "llama.rope.scaling.factor", &factor, err));
    bool freqs = model_gguf_tensor(g, "rope_freqs.weight", &t);
    if (base_str_eq(kind, "linear")) {
        if (!(factor > 0.0f))
            return rp_fail(err, RP_CORRUPT,
                           "%s: rope scaling 'linear' has factor %g, expected one above 0",
                           model_gguf_path(g), (double)factor);
        if (freqs)
            return rp_fail(err, RP_UNSUPPORTED,
                           "%s: rope scaling 'linear' together with rope_freqs.weight is not "
                           "supported",
                           model_gguf_path(g));
        hp->rope_scaling = MODEL_ROPE_LINEAR;
        hp->rope_factor = factor;
    } else if (base_str_eq(kind, "none") || (base_str_eq(kind, "llama3") && freqs)) {
        hp->rope_scaling = freqs ? MODEL_ROPE_FREQS : MODEL_ROPE_PLAIN;
    } else {
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: rope scaling '%s' is not supported: none, linear and the tensor "
                       "rope_freqs.weight are",
                       model_gguf_path(g), model_label_of(kind).text);
    }
    return RP_OK;
}

static rp_status keys_read(const model_gguf *g, model_hparams *hp, rp_error *err) {
    uint32_t n_expert = 0, value_length;
    RP_TRY(model_gguf_u32(g, "llama.block_count", &hp->n_layer, err));
    RP_TRY(model_gguf_u32(g, "llama.embedding_length", &hp->n_embd, err));
    RP_TRY(model_gguf_u32(g, "llama.feed_forward_length", &hp->n_ff, err));
    RP_TRY(model_gguf_u32(g, "llama.attention.head_count", &hp->n_head, err));
    hp->n_head_kv = hp->n_head;
    RP_TRY(optional_u32(g, "llama.attention.head_count_kv", &hp->n_head_kv, err));
    RP_TRY(model_gguf_u32(g, "llama.context_length", &hp->n_ctx, err));
    RP_TRY(model_gguf_f32(g, "llama.attention.layer_norm_rms_epsilon", &hp->rms_eps, err));
    hp->rope_base = 10000.0f;
    RP_TRY(optional_f32(g, "llama.rope.freq_base", &hp->rope_base, err));
    if (hp->n_head == 0)
        return rp_fail(err, RP_CORRUPT, "%s: llama.attention.head_count is 0", model_gguf_path(g));
    hp->head_dim = hp->n_embd / hp->n_head;
    RP_TRY(optional_u32(g, "llama.attention.key_length", &hp->head_dim, err));
    value_length = hp->head_dim;
    RP_TRY(optional_u32(g, "llama.attention.value_length", &value_length, err));
    if (value_length != hp->head_dim)
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: key length %u and value length %u differ, which is not supported",
                       model_gguf_path(g), hp->head_dim, value_length);
    hp->rope_dim = hp->head_dim;
    RP_TRY(optional_u32(g, "llama.rope.dimension_count", &hp->rope_dim, err));
    RP_TRY(optional_u32(g, "llama.expert_count", &n_expert, err));
    if (n_expert != 0)
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: a mixture of %u experts is not supported: dense models are",
                       model_gguf_path(g), n_expert);
    return scaling_read(g, hp, err);
}

static rp_status range_check(const char *where, const char *what, uint32_t v, uint32_t lo,
                             uint32_t hi, rp_error *err) {
    if (v >= lo && v <= hi) return RP_OK;
    return rp_fail(err, RP_CORRUPT, "%s: %s is %u, expected %u to %u", where, what, v, lo, hi);
}

rp_status model_hparams_check(const model_hparams *hp, const char *where, rp_error *err) {
    const uint32_t many = 1u << 24;
    RP_TRY(range_check(where, "the number of layers", hp->n_layer, 1, 4096, err));
    RP_TRY(range_check(where, "the embedding length", hp->n_embd, 1, many, err));
    RP_TRY(range_check(where, "the feed-forward length", hp->n_ff, 1, many, err));
    RP_TRY(range_check(where, "the vocabulary", hp->n_vocab, 1, many, err));
    RP_TRY(range_check(where, "the number of heads", hp->n_head, 1, 65536, err));
    RP_TRY(range_check(where, "the number of KV heads", hp->n_head_kv, 1, hp->n_head, err));
    RP_TRY(range_check(where, "the head length", hp->head_dim, 2, 65536, err));
    RP_TRY(range_check(where, "the rope dimension", hp->rope_dim, 2, hp->head_dim, err));
    RP_TRY(range_check(where, "the context length", hp->n_ctx, 1, 1u << 30, err));
    if (hp->n_head % hp->n_head_kv != 0)
        return rp_fail(err, RP_CORRUPT, "%s: %u heads cannot share %u KV heads evenly", where,
                       hp->n_head, hp->n_head_kv);
    if (hp->rope_dim % 2 != 0)
        return rp_fail(err, RP_CORRUPT, "%s: the rope dimension %u is odd", where, hp->rope_dim);
    if (!(hp->rms_eps > 0.0f && hp->rms_eps < 1.0f))
        return rp_fail(err, RP_CORRUPT, "%s: the norm epsilon is %g, expected above 0 and below 1",
                       where, (double)hp->rms_eps);
    if (!(hp->rope_base > 1.0f))
        return rp_fail(err, RP_CORRUPT, "%s: the rope base is %g, expected above 1", where,
                       (double)hp->rope_base);
    return RP_OK;
}

static rp_status slot_check(const model_gguf *g, const model_slot *slot, rp_error *err) {
    model_tensor t;
    if (!model_gguf_tensor(g, slot->name, &t))
        return rp_fail(err, RP_NOT_FOUND,
                       "%s: tensor '%s' is missing: the file is incomplete, fetch it again",
                       model_gguf_path(g), slot->name);
    if (t.n_dims != slot->n_dims || memcmp(t.dims, slot->dims, sizeof t.dims) != 0)
        return rp_fail(err, RP_CORRUPT,
                       "%s: tensor '%s' has shape [%llu, %llu, %llu, %llu], expected [%llu, %llu]",
                       model_gguf_path(g), slot->name, (unsigned long long)t.dims[0],
                       (unsigned long long)t.dims[1], (unsigned long long)t.dims[2],
                       (unsigned long long)t.dims[3], (unsigned long long)slot->dims[0],
                       (unsigned long long)slot->dims[1]);
    if (model_role_is_vector(slot->role) && t.type != RP_DTYPE_F32)
        return rp_fail(err, RP_UNSUPPORTED, "%s: tensor '%s' is not stored as F32, as vectors must",
                       model_gguf_path(g), slot->name);
    return RP_OK;
}

/* Names the first tensor of the file that no slot stands for. */
static rp_status extra_tensor(const model_gguf *g, const model_hparams *hp, rp_error *err) {
    size_t idx;
    for (size_t i = 0; i < model_gguf_n_tensors(g); i++) {
        model_tensor t = model_gguf_tensor_at(g, i);
        if (!model_slot_find(hp, t.name, &idx))
            return rp_fail(err, RP_UNSUPPORTED,
                           "%s: tensor '%s' is no part of a dense llama (a bias, an expert or an "
                           "adapter): this kind of model is not supported",
                           model_gguf_path(g), model_label_of(t.name).text);
    }
    return rp_fail(err, RP_INTERNAL, "%s: tensor table and slots differ", model_gguf_path(g));
}

rp_status model_hparams_read(const model_gguf *g, model_hparams *out, rp_error *err) {
    model_hparams hp = {0};
    model_tensor t;
    uint32_t n_vocab;
    RP_TRY(arch_check(g, &hp, err));
    RP_TRY(keys_read(g, &hp, err));
    if (!model_gguf_tensor(g, "token_embd.weight", &t))
        return rp_fail(err, RP_NOT_FOUND,
                       "%s: tensor 'token_embd.weight' is missing: the file is incomplete",
                       model_gguf_path(g));
    hp.n_vocab = t.dims[1] > UINT32_MAX ? UINT32_MAX : (uint32_t)t.dims[1];
    n_vocab = hp.n_vocab;
    RP_TRY(optional_u32(g, "llama.vocab_size", &n_vocab, err));
    if (n_vocab != hp.n_vocab)
        return rp_fail(err, RP_CORRUPT,
                       "%s: llama.vocab_size is %u, but token_embd.weight has %u rows",
                       model_gguf_path(g), n_vocab, hp.n_vocab);
    hp.tied = !model_gguf_tensor(g, "output.weight", &t);
    RP_TRY(model_hparams_check(&hp, model_gguf_path(g), err));
    size_t n_slots = model_n_slots(&hp);
    for (size_t i = 0; i < n_slots; i++) {
        model_slot slot = model_slot_at(&hp, i);
        RP_TRY(slot_check(g, &slot, err));
    }
    if (n_slots != model_gguf_n_tensors(g)) return extra_tensor(g, &hp, err);
    *out = hp;
    return RP_OK;
}
