/* model_source over a GGUF map or over generated tensors.
 *
 * Invariant: hyperparameters, tensor table and tokenizer fit together once a source is open, so
 * what follows needs no checks of its own. Does not convert or pack anything. */
#include "model/weights.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parts.h"

/* A generated tensor. The slot holds its name, to which model_tensor points. */
typedef struct made_tensor {
    model_slot slot;
    uint8_t *data;
} made_tensor;

struct model_source {
    model_gguf *gguf; /* NULL: synthetic */
    model_synth synth;
    char *name;
    model_hparams hp;
    model_tokenizer *tokenizer;
    size_t n_tensors;
    made_tensor *made; /* of synthetic tensors, n_tensors */
    model_making how;
    pthread_mutex_t lock; /* of made[].data */
};

static model_source *source_alloc(const char *name) {
    model_source *s = base_alloc(sizeof *s);
    if (!s) return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->name = base_strdup(name);
    if (s->name) return s;
    model_source_free(s);
    return NULL;
}

void model_source_free(model_source *s) {
    if (!s) return;
    for (size_t i = 0; s->made && i < s->n_tensors; i++) base_free(s->made[i].data);
    base_free(s->made);
    model_tokenizer_free(s->tokenizer);
    model_gguf_close(s->gguf);
    base_free(s->name);
    pthread_mutex_destroy(&s->lock);
    base_free(s);
}

static rp_status gguf_fill(model_source *s, rp_error *err) {
    RP_TRY(model_hparams_read(s->gguf, &s->hp, err));
    RP_TRY(model_tokenizer_new(s->gguf, &s->tokenizer, err));
    s->n_tensors = model_gguf_n_tensors(s->gguf);
    if (model_tokenizer_n_vocab(s->tokenizer) != s->hp.n_vocab)
        return rp_fail(err, RP_CORRUPT, "%s: %u tokens, but token_embd.weight has %u rows", s->name,
                       model_tokenizer_n_vocab(s->tokenizer), s->hp.n_vocab);
    return RP_OK;
}

/* Takes g. */
static rp_status source_of_gguf(model_gguf *g, model_source **out, rp_error *err) {
    rp_status st;
    model_source *s = source_alloc(model_gguf_path(g));
    if (!s) {
        model_gguf_close(g);
        return rp_fail(err, RP_NOMEM, "no memory to open a model");
    }
    s->gguf = g;
    RP_TRY_OUT(gguf_fill(s, err));
    *out = s;
    s = NULL;
out:
    model_source_free(s);
    return st;
}

rp_status model_source_open_gguf(const char *path, model_source **out, rp_error *err) {
    model_gguf *g = NULL;
    RP_TRY(model_gguf_open(path, &g, err));
    return source_of_gguf(g, out, err);
}

rp_status model_source_open_bytes(const void *data, size_t size, const char *name,
                                  model_source **out, rp_error *err) {
    model_gguf *g = NULL;
    RP_TRY(model_gguf_open_bytes(data, size, name, &g, err));
    return source_of_gguf(g, out, err);
}

static rp_status synth_fill(model_source *s, const model_synth *synth, rp_error *err) {
    s->synth = *synth;
    s->hp = synth->hp;
    RP_TRY(model_hparams_check(&s->hp, s->name, err));
    RP_TRY(model_tokenizer_bytes_new(s->hp.n_vocab, &s->tokenizer, err));
    s->made = base_alloc_array(model_n_slots(&s->hp), sizeof *s->made);
    if (!s->made) return rp_fail(err, RP_NOMEM, "no memory for a table of tensors");
    s->n_tensors = model_n_slots(&s->hp);
    for (size_t i = 0; i < s->n_tensors; i++) s->made[i].slot = model_slot_at(&s->hp, i);
    return RP_OK;
}

rp_status model_source_open_synthetic(const char *spec, model_source **out, rp_error *err) {
    rp_status st;
    model_synth synth;
    model_source *s = NULL;
    base_buf name;
    base_buf_init(&name, 0);
    RP_TRY_OUT(model_synth_parse(spec, &synth, err));
    model_synth_print(&synth, &name);
    RP_TRY_OUT(base_buf_status(&name, err));
    s = source_alloc(name.data);
    if (!s) {
        st = rp_fail(err, RP_NOMEM, "no memory to open a model");
        goto out;
    }
    RP_TRY_OUT(synth_fill(s, &synth, err));
    *out = s;
    s = NULL;
out:
    model_source_free(s);
    base_buf_done(&name);
    return st;
}

const char *model_source_name(const model_source *s) {
    return s->name;
}

static base_str optional_str(const model_source *s, const char *key) {
    base_str text = {"", 0};
    if (!s->gguf || model_gguf_str(s->gguf, key, &text, NULL) != RP_OK) text = base_str_of("");
    return text;
}

base_str model_source_title(const model_source *s) {
    return s->gguf ? optional_str(s, "general.name") : base_str_of(s->synth.preset);
}

const model_hparams *model_source_hparams(const model_source *s) {
    return &s->hp;
}

model_tokenizer *model_source_tokenizer(const model_source *s) {
    return s->tokenizer;
}

base_str model_source_chat_template(const model_source *s) {
    return optional_str(s, "tokenizer.chat_template");
}

size_t model_source_n_tensors(const model_source *s) {
    return s->n_tensors;
}

model_tensor model_source_tensor_at(const model_source *s, size_t idx) {
    assert(idx < s->n_tensors);
    if (s->gguf) return model_gguf_tensor_at(s->gguf, idx);
    model_slot slot;
    model_tensor t = model_synth_tensor(&s->synth, idx, &slot);
    t.name = base_str_of(s->made[idx].slot.name); /* outlives slot */
    return t;
}

rp_status model_source_tensor(const model_source *s, const char *name, model_tensor *out,
                              rp_error *err) {
    size_t idx;
    if (s->gguf && model_gguf_tensor(s->gguf, name, out)) return RP_OK;
    if (!s->gguf && model_slot_find(&s->hp, base_str_of(name), &idx)) {
        *out = model_source_tensor_at(s, idx);
        return RP_OK;
    }
    return rp_fail(err, RP_NOT_FOUND, "%s: there is no tensor '%s'", s->name, name);
}

size_t model_source_size(const model_source *s) {
    size_t size = 0;
    for (size_t i = 0; i < s->n_tensors; i++) size += model_source_tensor_at(s, i).size;
    return size;
}

void model_source_make_with(model_source *s, const model_making *how) {
    s->how = *how;
}

/* About as many bytes as a thread makes in a millisecond or two. */
enum { MADE_PART = 1 << 20 };

typedef struct making {
    const model_source *s;
    size_t idx;
    uint64_t rows, row_size, part_rows;
    uint8_t *data;
    atomic_bool cancelled;
} making;

static void make_part(void *user, uint32_t thread, uint64_t part) {
    making *m = user;
    const model_making *how = &m->s->how;
    uint64_t first = part * m->part_rows, left = m->rows - first;
    (void)thread;
    if (how->wanted && !atomic_load(&m->cancelled) && !how->wanted(how->user))
        atomic_store(&m->cancelled, true);
    if (!atomic_load(&m->cancelled))
        model_synth_rows(&m->s->synth, m->idx, first, left < m->part_rows ? left : m->part_rows,
                         m->data + first * m->row_size);
}

static rp_status make_rows(const model_source *s, size_t idx, const model_tensor *t, uint8_t *data,
                           rp_error *err) {
    making m = {
        .s = s, .idx = idx, .rows = t->dims[1], .row_size = t->size / t->dims[1], .data = data};
    m.part_rows = MADE_PART / m.row_size + 1;
    base_parts((m.rows + m.part_rows - 1) / m.part_rows, s->how.threads, make_part, &m);
    return atomic_load(&m.cancelled) ? rp_fail(err, RP_CANCELLED, "making tensors was cancelled")
                                     : RP_OK;
}

static rp_status made_data(model_source *s, size_t idx, const uint8_t **out, rp_error *err) {
    made_tensor *m = &s->made[idx];
    if (!m->data) {
        model_slot slot;
        model_tensor t = model_synth_tensor(&s->synth, idx, &slot);
        uint8_t *data = base_alloc_aligned(t.size, 64);
        if (!data)
            return rp_fail(err, RP_NOMEM, "no memory for tensor '%s' of %zu bytes", m->slot.name,
                           t.size);
        rp_status st = make_rows(s, idx, &t, data, err);
        if (st != RP_OK) {
            base_free(data);
            return st;
        }
        m->data = data;
    }
    *out = m->data;
    return RP_OK;
}

rp_status model_source_data(model_source *s, size_t idx, const uint8_t **out, rp_error *err) {
    if (s->gguf) {
        *out = model_gguf_tensor_at(s->gguf, idx).data;
        return RP_OK;
    }
    pthread_mutex_lock(&s->lock);
    rp_status st = made_data(s, idx, out, err);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void model_source_release(model_source *s, size_t idx) {
    if (s->gguf) {
        model_gguf_tensor_drop(s->gguf, idx);
        return;
    }
    pthread_mutex_lock(&s->lock);
    base_free(s->made[idx].data);
    s->made[idx].data = NULL;
    pthread_mutex_unlock(&s->lock);
}

rp_status model_source_rows(model_source *s, size_t idx, uint64_t first, uint64_t n, void *dst,
                            rp_error *err) {
    model_tensor t = model_source_tensor_at(s, idx);
    uint64_t n_rows = t.dims[1] * t.dims[2] * t.dims[3];
    if (first > n_rows || n > n_rows - first)
        return rp_fail(err, RP_INVALID, "rows %llu to %llu of tensor '%s', which has %llu",
                       (unsigned long long)first, (unsigned long long)(first + n),
                       model_label_of(t.name).text, (unsigned long long)n_rows);
    if (s->gguf) {
        size_t row = t.size / (size_t)n_rows;
        memcpy(dst, t.data + (size_t)first * row, (size_t)n * row);
    } else {
        model_synth_rows(&s->synth, idx, first, n, dst);
    }
    return RP_OK;
}

rp_status model_source_check_whole(const model_source *s, rp_error *err) {
    return s->gguf ? model_gguf_check_whole(s->gguf, err) : RP_OK;
}

base_hash128 model_source_tensor_hash(model_source *s, size_t idx) {
    return s->gguf ? model_gguf_tensor_hash(s->gguf, idx) : model_synth_hash(&s->synth, idx);
}

bool model_source_stamp(const model_source *s, base_hash128 *out) {
    return s->gguf && model_gguf_stamp(s->gguf, out);
}

void model_source_hash_set(model_source *s, size_t idx, base_hash128 hash) {
    if (s->gguf) model_gguf_hash_set(s->gguf, idx, hash);
}

base_hash128 model_source_meta_hash(const model_source *s) {
    return s->gguf ? model_gguf_meta_hash(s->gguf) : base_hash(s->name, strlen(s->name));
}
