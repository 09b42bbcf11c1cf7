/* Hyperparameters of the architecture `llama` and the table of tensors that they imply. */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include "model/gguf.h"

typedef enum model_rope_scaling {
    MODEL_ROPE_PLAIN,
    MODEL_ROPE_LINEAR, /* positions are divided by rope_factor */
    MODEL_ROPE_FREQS   /* tensor rope_freqs.weight [rope_dim/2] divides the frequencies (llama3) */
} model_rope_scaling;

/* A value. GGUF stores q and k so that rope turns neighbours (2i, 2i+1), not halves. */
typedef struct model_hparams {
    char arch[16];
    uint32_t n_layer, n_embd, n_ff, n_vocab;
    uint32_t n_head, n_head_kv, head_dim;
    uint32_t n_ctx; /* positions the model was trained for */
    float rms_eps;
    float rope_base;
    uint32_t rope_dim; /* leading elements of a head that are turned; even */
    model_rope_scaling rope_scaling;
    float rope_factor; /* of MODEL_ROPE_LINEAR, else 1 */
    bool tied;         /* the head is token_embd.weight */
} model_hparams;

typedef enum model_role {
    MODEL_TOKEN_EMBD,  /* [n_embd, n_vocab] */
    MODEL_ATTN_NORM,   /* [n_embd] */
    MODEL_ATTN_Q,      /* [n_embd, n_head * head_dim] */
    MODEL_ATTN_K,      /* [n_embd, n_head_kv * head_dim] */
    MODEL_ATTN_V,      /* [n_embd, n_head_kv * head_dim] */
    MODEL_ATTN_OUTPUT, /* [n_head * head_dim, n_embd] */
    MODEL_FFN_NORM,    /* [n_embd] */
    MODEL_FFN_GATE,    /* [n_embd, n_ff] */
    MODEL_FFN_UP,      /* [n_embd, n_ff] */
    MODEL_FFN_DOWN,    /* [n_ff, n_embd] */
    MODEL_OUTPUT_NORM, /* [n_embd] */
    MODEL_OUTPUT,      /* [n_embd, n_vocab]; absent when tied */
    MODEL_ROPE_FACTORS /* [rope_dim / 2]; only for MODEL_ROPE_FREQS */
} model_role;

/* One tensor that the architecture has: GGUF name and dims, dims[0] fastest. */
typedef struct model_slot {
    char name[40];
    model_role role;
    uint32_t layer;
    uint32_t n_dims;
    uint64_t dims[MODEL_MAX_DIMS];
} model_slot;

/* How many tensors these hyperparameters imply; the idx-th of them, in file order. */
size_t model_n_slots(const model_hparams *hp);
model_slot model_slot_at(const model_hparams *hp, size_t idx);
/* The place of a name in that order; false when the architecture has no such tensor. */
bool model_slot_find(const model_hparams *hp, base_str name, size_t *out);

/* True for the vectors (norms, rope factors), which are stored in F32. */
bool model_role_is_vector(model_role role);

/* Ranges and divisibility. RP_CORRUPT names the value. where is for messages. */
rp_status model_hparams_check(const model_hparams *hp, const char *where,
                              rp_error *err) RP_MUST_USE;
/* Reads and checks them and every tensor's presence and shape. RP_UNSUPPORTED names another
 * architecture, scaling or tensor that `llama` does not have; RP_NOT_FOUND a missing key or
 * tensor; RP_CORRUPT what does not fit together. */
rp_status model_hparams_read(const model_gguf *g, model_hparams *out, rp_error *err) RP_MUST_USE;

#endif
