/* Arguments that stay where they were when calls of their form were captured, as vLLM has them: a graph reads them there. */
#include "front/front.h"

#include "base/alloc.h"

/* As graphs of a manager, of which those that were not used for longest go, too; the memory of a form that is forgotten may be another. */
enum { MOST_FORMS = 1024 };

typedef struct form {
    struct form *next;
    rp_buffer in[]; /* n; data NULL: it was nowhere, but in memory of one's own */
} form;

struct front_places {
    pthread_mutex_t lock;
    form *forms; /* the last used first */
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

static void free_forms(form *f) {
    for (form *next; f; f = next) {
        next = f->next;
        base_free(f);
    }
}

void front_places_free(front_places *p) {
    if (!p) return;
    free_forms(p->forms);
    (void)pthread_mutex_destroy(&p->lock);
    base_free(p);
}

static bool same_sizes(const rp_buffer *a, const rp_buffer *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].rank != b[i].rank || memcmp(a[i].dim, b[i].dim, a[i].rank * sizeof *a[i].dim) != 0)
            return false;
    return true;
}

/* The form of these sizes, which is then the first; NULL: there is none. */
static form *find(front_places *p, const rp_buffer *in) {
    form **at = &p->forms, *f;
    while ((f = *at) && !same_sizes(f->in, in, p->n)) at = &f->next;
    if (!f) return NULL;
    *at = f->next;
    f->next = p->forms;
    return p->forms = f;
}

/* What lies in memory of one's own, or did when the form was kept, may be elsewhere. */
static bool has_moved(const rp_buffer *was, const rp_buffer *is, const front_dense *own) {
    return was->data && was->data != is->data && !front_dense_has(own, is->data);
}

rp_status front_places_check(front_places *p, const char *name, const rp_buffer *in,
                             const front_dense *own, rp_error *err) {
    rp_status st = RP_OK;
    if (!p) return RP_OK;
    (void)pthread_mutex_lock(&p->lock);
    const form *f = find(p, in);
    for (uint32_t i = 0; f && i < p->n && st == RP_OK; i++)
        if (has_moved(&f->in[i], &in[i], own))
            st = rp_fail(err, RP_INVALID,
                         "input %u of %s is at %p, its graph was captured with %p: keep inputs in "
                         "place or set cudagraph_copy_inputs",
                         i, name, in[i].data, f->in[i].data);
    (void)pthread_mutex_unlock(&p->lock);
    return st;
}

static void forget_unused(front_places *p) {
    form *f = p->forms;
    for (uint32_t i = 1; f && i < MOST_FORMS; i++) f = f->next;
    if (!f) return;
    free_forms(f->next);
    f->next = NULL;
}

/* Nothing is read there. */
static bool is_empty(const rp_buffer *b) {
    uint32_t d = 0;
    while (d < b->rank && b->dim[d] != 0) d++;
    return d < b->rank;
}

static form *add(front_places *p, const rp_buffer *in) {
    form *f = base_alloc(sizeof *f + p->n * sizeof *in);
    if (!f) return NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        f->in[i] = in[i];
        f->in[i].data = NULL;
    }
    f->next = p->forms;
    p->forms = f;
    forget_unused(p);
    return f;
}

static rp_status keep(front_places *p, const rp_buffer *in, const front_dense *own, rp_error *err) {
    form *f = find(p, in);
    if (!f && !(f = add(p, in))) return rp_fail(err, RP_NOMEM, "places of arguments");
    for (uint32_t i = 0; i < p->n; i++)
        if (!f->in[i].data && !is_empty(&in[i]) && !front_dense_has(own, in[i].data))
            f->in[i].data = in[i].data;
    return RP_OK;
}

rp_status front_places_keep(front_places *p, const rp_buffer *in, const front_dense *own,
                            rp_error *err) {
    if (!p) return RP_OK;
    (void)pthread_mutex_lock(&p->lock);
    rp_status st = keep(p, in, own, err);
    (void)pthread_mutex_unlock(&p->lock);
    return st;
}
