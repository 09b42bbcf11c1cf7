/* A model, wherever it comes from: hyperparameters, tensors by name, tokenizer, chat template.
 * The rest of the program need not know whether there is a file. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "model/chat.h"
#include "model/synthetic.h"
#include "model/tokenizer.h"

/* Thread-safe. Everything borrowed from it lives as long as it. */
typedef struct model_source model_source;

/* Opens and checks a GGUF file of a supported architecture. */
rp_status model_source_open_gguf(const char *path, model_source **out, rp_error *err) RP_MUST_USE;
/* The same over bytes in memory, borrowed; name is for messages. */
rp_status model_source_open_bytes(const void *data, size_t size, const char *name,
                                  model_source **out, rp_error *err) RP_MUST_USE;
/* "synthetic:..." */
rp_status model_source_open_synthetic(const char *spec, model_source **out,
                                      rp_error *err) RP_MUST_USE;
void model_source_free(model_source *s); /* NULL is fine */

/* Path of the file or complete spec of the synthetic model. */
const char *model_source_name(const model_source *s);
/* What the file calls the model ("Smollm2 135M"), else the preset; may be empty. */
base_str model_source_title(const model_source *s);
const model_hparams *model_source_hparams(const model_source *s);
model_tokenizer *model_source_tokenizer(const model_source *s);
/* Jinja text, empty when the model has none. */
base_str model_source_chat_template(const model_source *s);

size_t model_source_n_tensors(const model_source *s);
/* idx < n_tensors. data is NULL for synthetic tensors: model_source_data makes them. */
model_tensor model_source_tensor_at(const model_source *s, size_t idx);
/* RP_NOT_FOUND names the tensor. */
rp_status model_source_tensor(const model_source *s, const char *name, model_tensor *out,
                              rp_error *err) RP_MUST_USE;
/* Sum of the sizes of all tensors. */
size_t model_source_size(const model_source *s);

/* How tensors are generated. Before the first is asked for. */
typedef struct model_making {
    uint32_t threads; /* 0: one */
    bool (*wanted)(
        void *
            user); /* (optional) asked meanwhile, by any of the threads; false ends it: RP_CANCELLED */
    void *user;
} model_making;
void model_source_make_with(model_source *s, const model_making *how);
/* All bytes of a tensor: the map of the file, or generated at the first call and kept until the
 * release. Aligned as the file is (8 at least, nearly always 32), generated ones to 64 bytes. */
rp_status model_source_data(model_source *s, size_t idx, const uint8_t **out,
                            rp_error *err) RP_MUST_USE;
/* The bytes are not needed soon: generated ones are freed (pointers from model_source_data die),
 * mapped ones may leave memory and come back when touched. */
void model_source_release(model_source *s, size_t idx);
/* Copies rows [first, first + n) without keeping anything: for packing in a stream.
 * RP_INVALID when there are no such rows. dst holds n * size / n_rows bytes. */
rp_status model_source_rows(model_source *s, size_t idx, uint64_t first, uint64_t n, void *dst,
                            rp_error *err) RP_MUST_USE;
/* RP_IO when the model's file was cut short or written to since it was opened, which the bytes read meanwhile do not tell:
 * asked after reading. One system call; none for a synthetic model. */
rp_status model_source_check_whole(const model_source *s, rp_error *err) RP_MUST_USE;
/* Identifies the bytes of a tensor; for a file computed over them at the first call. */
base_hash128 model_source_tensor_hash(model_source *s, size_t idx);
/* For a memo of tensor hashes, which saves reading the whole file at every start: keep them under
 * the stamp, hand them back to a later process's source while the stamp is equal. The stamp is
 * false where there is nothing to save; it belongs to this machine, so never into a key. */
bool model_source_stamp(const model_source *s, base_hash128 *out);
void model_source_hash_set(model_source *s, size_t idx, base_hash128 hash);
/* Identifies everything but the bytes of the tensors. */
base_hash128 model_source_meta_hash(const model_source *s);

#endif
