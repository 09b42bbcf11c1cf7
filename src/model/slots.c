/* The tensors of the architecture `llama`: one table of roles, from which names and dims of a
 * whole model follow. The reader checks files against it, the synthetic models are made from it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/hparams.h"

static const char *const role_names[] = {
    [MODEL_TOKEN_EMBD] = "token_embd.weight",   [MODEL_ATTN_NORM] = "attn_norm.weight",
    [MODEL_ATTN_Q] = "attn_q.weight",           [MODEL_ATTN_K] = "attn_k.weight",
    [MODEL_ATTN_V] = "attn_v.weight",           [MODEL_ATTN_OUTPUT] = "attn_output.weight",
    [MODEL_FFN_NORM] = "ffn_norm.weight",       [MODEL_FFN_GATE] = "ffn_gate.weight",
    [MODEL_FFN_UP] = "ffn_up.weight",           [MODEL_FFN_DOWN] = "ffn_down.weight",
    [MODEL_OUTPUT_NORM] = "output_norm.weight", [MODEL_OUTPUT] = "output.weight",
    [MODEL_ROPE_FACTORS] = "rope_freqs.weight",
};

enum { ROLES_PER_LAYER = MODEL_FFN_DOWN - MODEL_ATTN_NORM + 1 };

bool model_role_is_vector(model_role role) {
    return role == MODEL_ATTN_NORM || role == MODEL_FFN_NORM || role == MODEL_OUTPUT_NORM ||
           role == MODEL_ROPE_FACTORS;
}

size_t model_n_slots(const model_hparams *hp) {
    return 1 + (size_t)hp->n_layer * ROLES_PER_LAYER + 1 + (hp->tied ? 0 : 1) +
           (hp->rope_scaling == MODEL_ROPE_FREQS ? 1 : 0);
}

static void slot_dims(const model_hparams *hp, model_slot *s) {
    uint64_t embd = hp->n_embd, q = (uint64_t)hp->n_head * hp->head_dim;
    uint64_t kv = (uint64_t)hp->n_head_kv * hp->head_dim, ff = hp->n_ff;
    uint64_t in = embd, rows = 1;
    switch (s->role) {
    case MODEL_TOKEN_EMBD:
    case MODEL_OUTPUT: rows = hp->n_vocab; break;
    case MODEL_ATTN_Q: rows = q; break;
    case MODEL_ATTN_K:
    case MODEL_ATTN_V: rows = kv; break;
    case MODEL_ATTN_OUTPUT: in = q, rows = embd; break;
    case MODEL_FFN_GATE:
    case MODEL_FFN_UP: rows = ff; break;
    case MODEL_FFN_DOWN: in = ff, rows = embd; break;
    case MODEL_ROPE_FACTORS: in = hp->rope_dim / 2; break;
    case MODEL_ATTN_NORM:
    case MODEL_FFN_NORM:
    case MODEL_OUTPUT_NORM: break;
    }
    s->n_dims = model_role_is_vector(s->role) ? 1 : 2;
    s->dims[0] = in;
    s->dims[1] = rows;
    s->dims[2] = s->dims[3] = 1;
}

model_slot model_slot_at(const model_hparams *hp, size_t idx) {
    model_slot s = {0};
    size_t n_block = (size_t)hp->n_layer * ROLES_PER_LAYER;
    assert(idx < model_n_slots(hp));
    if (idx == 0) {
        s.role = MODEL_TOKEN_EMBD;
    } else if (idx <= n_block) {
        s.layer = (uint32_t)((idx - 1) / ROLES_PER_LAYER);
        s.role = (model_role)(MODEL_ATTN_NORM + (idx - 1) % ROLES_PER_LAYER);
    } else if (idx == n_block + 1) {
        s.role = MODEL_OUTPUT_NORM;
    } else {
        s.role = idx == n_block + 2 && !hp->tied ? MODEL_OUTPUT : MODEL_ROPE_FACTORS;
    }
    if (idx >= 1 && idx <= n_block)
        (void)snprintf(s.name, sizeof s.name, "blk.%u.%s", s.layer, role_names[s.role]);
    else
        (void)snprintf(s.name, sizeof s.name, "%s", role_names[s.role]);
    slot_dims(hp, &s);
    return s;
}

static uint64_t layer_of_name(base_str name) {
    uint64_t layer = 0;
    for (size_t i = 4; i < name.len && i < 14 && name.ptr[i] >= '0' && name.ptr[i] <= '9'; i++)
        layer = layer * 10 + (uint64_t)(name.ptr[i] - '0');
    return layer;
}

bool model_slot_find(const model_hparams *hp, base_str name, size_t *out) {
    size_t n_slots = model_n_slots(hp), n_block = (size_t)hp->n_layer * ROLES_PER_LAYER;
    size_t from = n_block + 1, to = n_slots;
    if (base_str_prefix(name, "blk.")) {
        uint64_t layer = layer_of_name(name);
        if (layer >= hp->n_layer) return false;
        from = 1 + (size_t)layer * ROLES_PER_LAYER;
        to = from + ROLES_PER_LAYER;
    } else if (base_str_eq(name, role_names[MODEL_TOKEN_EMBD])) {
        *out = 0;
        return true;
    }
    for (size_t i = from; i < to; i++) {
        if (!base_str_eq(name, model_slot_at(hp, i).name)) continue;
        *out = i;
        return true;
    }
    return false;
}
