/* Arguments that stay where they were when calls of their form were captured, as vLLM has them: a graph reads them there. */
#include "front/front.h"

#include "base/alloc.h"
#include "base/hash.h"

typedef struct form {
    struct form *next;
    uint64_t hash; /* of the sizes */
    void *at[];    /* n */
} form;

struct front_places {
    pthread_mutex_t lock;
    form *forms;
    uint32_t n;
};

rp_status front_places_new(uint32_t n, front_places **out, rp_error *err) {
    front_places *p = base_alloc(sizeof *p);
    if (!p) return rp_fail(err, RP_NOMEM, "places of arguments");
    p->n = n;
    (void)pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return RP_OK;
}

void front_places_free(front_places *p) {
    if (!p) return;
    for (form *f = p->forms, *next; f; f = next) {
        next = f->next;
        base_free(f);
    }
    (void)pthread_mutex_destroy(&p->lock);
    base_free(p);
}

static uint64_t hash_sizes(const rp_buffer *in, uint32_t n) {
    uint64_t h = 0;
    for (uint32_t i = 0; i < n; i++)
        h = h * 31 + base_hash64(in[i].dim, in[i].rank * sizeof *in[i].dim);
    return h;
}

static rp_status check(front_places *p, const char *name, const rp_buffer *in, rp_error *err) {
    uint64_t hash = hash_sizes(in, p->n);
    form *f = p->forms;
    while (f && f->hash != hash) f = f->next;
    for (uint32_t i = 0; f && i < p->n; i++)
        if (f->at[i] != in[i].data)
            return rp_fail(
                err, RP_INVALID,
                "input %u of %s is at %p, its graph was captured with %p: keep inputs in "
                "place or set cudagraph_copy_inputs",
                i, name, in[i].data, f->at[i]);
    if (f) return RP_OK;
    f = base_alloc(sizeof *f + p->n * sizeof(void *));
    if (!f) return rp_fail(err, RP_NOMEM, "places of arguments");
    f->hash = hash;
    for (uint32_t i = 0; i < p->n; i++) f->at[i] = in[i].data;
    f->next = p->forms;
    p->forms = f;
    return RP_OK;
}

rp_status front_places_check(front_places *p, const char *name, const rp_buffer *in,
                             rp_error *err) {
    if (!p) return RP_OK;
    (void)pthread_mutex_lock(&p->lock);
    rp_status st = check(p, name, in, err);
    (void)pthread_mutex_unlock(&p->lock);
    return st;
}
