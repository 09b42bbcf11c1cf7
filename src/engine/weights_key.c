/* The key of packed weights: the content of the model, the layout, and the code that packs. */
#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "base/log.h"
#include "engine/weights.h"

static rp_status hash_content(const engine_weights_options *o, char hex[33], rp_error *err) {
    base_hasher *h = base_hasher_new();
    if (!h) return rp_fail(err, RP_NOMEM, "weights key");
    base_hash128 meta = model_source_meta_hash(o->source);
    base_hasher_add(h, &meta, sizeof meta);
    for (size_t i = 0; i < model_source_n_tensors(o->source); i++) {
        base_hash128 t = model_source_tensor_hash(o->source, i);
        base_hasher_add(h, &t, sizeof t);
    }
    base_hash_hex(base_hasher_digest(h), hex);
    base_hasher_free(h);
    return model_source_check_whole(o->source, err);
}

/* Hashing a file at every start is spared by a record under its stamp (who it is and when it changed). */
static rp_status content_hash(const engine_weights_options *o, char hex[33], rp_error *err) {
    base_hash128 key;
    char *known = NULL;
    rp_error ignored = {0};
    if (!model_source_stamp(o->source, &key)) return hash_content(o, hex, err);
    if (cache_get_text(o->store, key, "content_hash", &known, &ignored) == RP_OK &&
        strlen(known) == 32) {
        memcpy(hex, known, 33);
        base_free(known);
        return RP_OK;
    }
    base_free(known);
    RP_TRY(hash_content(o, hex, err));
    if (cache_put_text(o->store, key, "content_hash", hex, &ignored) != RP_OK)
        base_log(RP_LOG_DEBUG, "content hash not kept: %s", ignored.text);
    return RP_OK;
}

static void add_layout(const plan *p, base_buf *b) {
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        base_buf_printf(b, "%s %lld%s at %lld", rp_dtype_name(k->dtype), (long long)k->k,
                        k->swizzled ? " swizzled" : "", (long long)k->offset);
        for (uint32_t s = 0; s < k->n_sections; s++) {
            base_buf_printf(b, " %lld/%u:", (long long)k->sections[s].rows, k->sections[s].by_k);
            for (uint32_t j = 0; j < k->sections[s].n_params; j++)
                base_buf_printf(b, "%s,", p->params[k->sections[s].params[j]].name);
        }
        base_buf_putc(b, '\n');
    }
}

static rp_status layout_text(const engine_weights_options *o, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "model\n");
    add_layout(o->model, &b);
    base_buf_puts(&b, "head\n");
    add_layout(o->head, &b);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

bool engine_weights_alike(const plan *a, const plan *b, rp_error *err) {
    base_buf x, y;
    base_buf_init(&x, 0);
    base_buf_init(&y, 0);
    add_layout(a, &x);
    add_layout(b, &y);
    rp_status st = base_buf_status(&x, err);
    if (st == RP_OK) st = base_buf_status(&y, err);
    const bool alike = st == RP_OK && x.len == y.len && (!x.len || !memcmp(x.data, y.data, x.len));
    base_buf_done(&x);
    base_buf_done(&y);
    return alike;
}

rp_status engine_weights_key(const engine_weights_options *o, cache_key **out, rp_error *err) {
    rp_status st = RP_OK;
    char hex[33], *layout = NULL;
    cache_key *k = cache_key_new();
    if (!k) return rp_fail(err, RP_NOMEM, "weights key");
    RP_TRY_OUT(content_hash(o, hex, err));
    RP_TRY_OUT(layout_text(o, &layout, err));
    RP_TRY_OUT(cache_key_add(k, "content", hex, err));
    RP_TRY_OUT(cache_key_add(k, "layout", layout, err));
    RP_TRY_OUT(cache_key_add(k, "packing", RP_PACK_HASH, err));
    *out = k;
    k = NULL;
out:
    base_free(layout);
    cache_key_free(k);
    return st;
}
