#define ELSEWHERE_ITSELF
#include "support/elsewhere.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/compiled.h"
#include "support/gpu.h"

/* A state of a test, and its memory on the device. */
typedef struct twin {
    struct twin *next;
    void *host, *there;
    size_t bytes;
} twin;

/* A state of a compiled graph, and where the test has it. */
typedef struct bound {
    struct bound *next;
    const rp_compiled *c;
    const char *leaf; /* of its plan */
    twin *t;
} bound;

/* A result of a test, and its memory on the host. */
typedef struct copy {
    struct copy *next;
    const rp_output *of;
    rp_value *value; /* with all that it names; NULL: nobody has asked yet */
    void *block[64];
    uint32_t n;
} copy;

typedef struct running {
    struct running *outer;
    rp_value *args;
    void *block[256];
    uint32_t n;
    twin *state[32];
    uint32_t n_states;
} running;

static const char *name = "cpu";
static rp_device *device; /* NULL: where the library runs anyway */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static twin *twins;
static copy *copies;
static bound *bounds;
/* Functions that run there. */
static struct {
    rp_jit **f;
    uint32_t n, cap;
} mine;
static _Thread_local running *now;

const char *elsewhere_name(void) {
    return name;
}

/* In the order in which they are undone. */
static void leave(void) {
    while (copies) {
        copy *c = copies;
        copies = c->next;
        for (uint32_t i = 0; i < c->n; i++) free(c->block[i]);
        free(c);
    }
    while (bounds) {
        bound *b = bounds;
        bounds = b->next;
        free(b);
    }
    while (twins) {
        twin *t = twins;
        twins = t->next;
        rp_device_free(device, t->there);
        free(t);
    }
    free(mine.f);
    rp_device_close(device);
    device = NULL;
}

/* After what left.c begins with, so that it looks when all is given back. */
__attribute__((constructor(200))) static void go(void) {
    const char *want = getenv("REPRISE_TEST_DEVICE"), *why = NULL;
    rp_error err = {0};
    if (!want || !*want || strcmp(want, "cpu") == 0) return;
    if (!gpu_emulate(&why) || rp_device_open(want, 1, &device, &err) != RP_OK) {
        printf("SKIP %s: %s\n", want, why ? why : err.text);
        exit(0);
    }
    name = want;
    (void)atexit(leave);
}

/* --- memory ------------------------------------------------------------------------- */

static size_t bytes_of(const rp_buffer *b) {
    size_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++) n *= (size_t)b->dim[i];
    return n / rp_dtype_block(b->dtype) * rp_dtype_block_bytes(b->dtype);
}

/* Once more where a test fails an allocation, which is not meant for this one. */
static rp_status move(void *to, const void *from, size_t bytes, rp_error *err) {
    rp_stream *s = NULL;
    rp_status st = bytes == 0 ? RP_OK : rp_stream_open(device, &s, err);
    if (st == RP_NOMEM) st = rp_stream_open(device, &s, err);
    if (st != RP_OK || bytes == 0) return st;
    st = rp_stream_copy(s, to, from, bytes, err);
    if (st == RP_OK) st = rp_stream_synchronize(s, err);
    rp_stream_close(s);
    return st;
}

static twin *twin_of(void *host, size_t bytes, rp_error *err) {
    twin *t;
    (void)pthread_mutex_lock(&lock);
    for (t = twins; t && (t->host != host || t->bytes != bytes); t = t->next)
        ;
    if (!t && (t = calloc(1, sizeof *t)) != NULL) {
        t->host = host;
        t->bytes = bytes;
        if (rp_device_alloc(device, bytes, &t->there, err) == RP_OK) {
            t->next = twins;
            twins = t;
        } else {
            free(t);
            t = NULL;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return t;
}

static void *kept(void **block, uint32_t *n, uint32_t most, size_t bytes) {
    void *p = *n < most ? malloc(bytes + 1) : NULL;
    if (p) block[(*n)++] = p;
    return p;
}

/* The items of a list, to be changed; NULL: no room. */
static rp_value *own_items(rp_value *v, void **block, uint32_t *n, uint32_t most) {
    rp_value *item = kept(block, n, most, v->n * sizeof *item);
    if (!item) return NULL;
    memcpy(item, v->item, v->n * sizeof *item);
    v->item = item;
    return item;
}

/* --- calls ----------------------------------------------------------------------------- */

/* v with states in memory of the device. */
static rp_status place(running *r, rp_value *v, rp_error *err) {
    if (v->kind == RP_VALUE_TENSOR && v->state && v->tensor.data && !v->strided) {
        twin *t = twin_of(v->tensor.data, bytes_of(&v->tensor), err);
        if (!t) return RP_NOMEM;
        if (r->n_states == 32) return RP_NOMEM;
        r->state[r->n_states++] = t;
        v->tensor.data = t->there;
        return move(t->there, t->host, t->bytes, err);
    }
    if (v->kind < RP_VALUE_LIST || !v->item || v->n > 65536) return RP_OK;
    rp_value *item = own_items(v, r->block, &r->n, 256);
    if (!item) return RP_NOMEM;
    for (uint32_t i = 0; i < v->n; i++) {
        rp_status st = place(r, &item[i], err);
        if (st != RP_OK) return st;
    }
    return RP_OK;
}

/* What lies in a state of the test lies in it there, too, of what place has made v. */
static void follow(const running *r, rp_value *v) {
    if (v->kind == RP_VALUE_TENSOR && !v->state && v->tensor.data) {
        const char *at = v->tensor.data;
        for (uint32_t i = 0; i < r->n_states; i++) {
            const size_t offset = (uintptr_t)at - (uintptr_t)r->state[i]->host;
            if (offset < r->state[i]->bytes) v->tensor.data = (char *)r->state[i]->there + offset;
        }
    }
    if (v->kind < RP_VALUE_LIST || !v->item || v->n > 65536) return;
    for (uint32_t i = 0; i < v->n; i++) follow(r, (rp_value *)&v->item[i]);
}

static bool has_states(const rp_value *v, uint32_t depth) {
    if (v->kind == RP_VALUE_TENSOR) return v->state && v->tensor.data && !v->strided;
    if (v->kind < RP_VALUE_LIST || !v->item || depth > RP_MAX_VALUE_DEPTH) return false;
    for (uint32_t i = 0; i < v->n; i++)
        if (has_states(&v->item[i], depth + 1)) return true;
    return false;
}

static rp_status back(const running *r, rp_error *err) {
    for (uint32_t i = 0; i < r->n_states; i++) {
        rp_status st = move(r->state[i]->host, r->state[i]->there, r->state[i]->bytes, err);
        if (st != RP_OK) return st;
    }
    return RP_OK;
}

static bool is_mine(const rp_jit *f) {
    bool is = false;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < mine.n && !is; i++) is = mine.f[i] == f;
    (void)pthread_mutex_unlock(&lock);
    return is;
}

/* args as they are where the call has no states. */
static rp_status begin(const rp_jit *f, running *r, const rp_value **args, rp_value *top,
                       rp_error *err) {
    memset(r, 0, sizeof *r);
    r->outer = now;
    now = r;
    if (!device || !*args || !has_states(*args, 0) || !is_mine(f)) return RP_OK;
    *top = **args;
    *args = top;
    rp_status st = place(r, top, err);
    if (st == RP_OK) follow(r, top);
    return st;
}

static rp_status end(running *r, rp_status st) {
    rp_error err = {0};
    if (back(r, &err) != RP_OK && st == RP_OK) st = RP_DEVICE;
    for (uint32_t i = 0; i < r->n; i++) free(r->block[i]);
    now = r->outer;
    return st;
}

rp_status elsewhere_jit_new(const rp_jit_options *options, rp_jit **out, rp_error *err) {
    if (!device || !options || options->device || options->size != sizeof *options)
        return rp_jit_new(options, out, err);
    rp_jit_options o = *options;
    o.device = device;
    rp_status st = rp_jit_new(&o, out, err);
    if (st != RP_OK) return st;
    (void)pthread_mutex_lock(&lock);
    if (mine.n == mine.cap) {
        mine.cap = 2 * mine.cap + 8;
        if (!(mine.f = realloc(mine.f, mine.cap * sizeof *mine.f))) abort();
    }
    mine.f[mine.n++] = *out;
    (void)pthread_mutex_unlock(&lock);
    return RP_OK;
}

void elsewhere_jit_free(rp_jit *f) {
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < mine.n; i++)
        if (mine.f[i] == f) mine.f[i] = mine.f[--mine.n];
    (void)pthread_mutex_unlock(&lock);
    rp_jit_free(f);
}

rp_status elsewhere_jit_run(rp_jit *f, const rp_value *args, rp_output **out, rp_error *err) {
    running r;
    rp_value top;
    rp_status st = begin(f, &r, &args, &top, err);
    return end(&r, st == RP_OK ? rp_jit_run(f, args, out, err) : st);
}

rp_status elsewhere_jit_run_into(rp_jit *f, const rp_value *args, const rp_buffer *outputs,
                                 uint32_t n_outputs, rp_error *err) {
    running r;
    rp_value top;
    rp_status st = begin(f, &r, &args, &top, err);
    return end(&r, st == RP_OK ? rp_jit_run_into(f, args, outputs, n_outputs, err) : st);
}

rp_status elsewhere_jit_run_views(rp_jit *f, const rp_value *args, const rp_view *outputs,
                                  uint32_t n_outputs, const rp_run_options *options,
                                  rp_error *err) {
    running r;
    rp_value top;
    rp_status st = begin(f, &r, &args, &top, err);
    return end(&r, st == RP_OK ? rp_jit_run_views(f, args, outputs, n_outputs, options, err) : st);
}

void elsewhere_jit_break_at(rp_jit_call *call, const char *reason, const char *file, int line) {
    rp_error err = {0};
    rp_jit_break_at(call, reason, file, line);
    if (now) (void)back(now, &err);
}

double elsewhere_item_at(rp_tensor x, const char *file, int line) {
    rp_error err = {0};
    double is = rp_item_at(x, file, line);
    if (now) (void)back(now, &err);
    return is;
}

rp_buffer elsewhere_jit_read_at(rp_jit_call *call, rp_tensor x, const char *file, int line) {
    rp_error err = {0};
    rp_buffer is = rp_jit_read_at(call, x, file, line);
    if (now) (void)back(now, &err);
    return is;
}

/* On a device of its own where the test asks for as many threads: one that is given has what it was opened with. */
rp_status elsewhere_compile(const rp_graph *g, rp_compilation_config *config, rp_compiled **out,
                            rp_error *err) {
    rp_device *own = NULL;
    int64_t threads = 0;
    if (device && config && rp_config_get_int(config, "threads", &threads, err) == RP_OK &&
        threads) {
        rp_status st = rp_device_open(name, (uint32_t)threads, &own, err);
        if (st != RP_OK) return st;
    }
    rp_status st = rp_compile_on(own ? own : device, g, config, out, err);
    rp_device_close(own);
    return st;
}

static bound *bound_of(const rp_compiled *c, const char *leaf) {
    bound *b = bounds;
    while (b && (b->c != c || strcmp(b->leaf, leaf) != 0)) b = b->next;
    return b;
}

/* States of numbers as sizes have memory there; all else is bound as it is. */
rp_status elsewhere_bind(rp_compiled *c, const char *leaf, void *data, rp_error *err) {
    const plan_leaf *l = NULL;
    int64_t bytes = 0;
    for (uint32_t i = 0; device && c && leaf && data && i < c->p->n_states; i++)
        if (strcmp(c->p->states[i].name, leaf) == 0) l = &c->p->states[i];
    if (!l || !ir_dim_code_is_const(&l->bytes, &bytes)) return rp_compiled_bind(c, leaf, data, err);
    twin *t = twin_of(data, (size_t)bytes, err);
    if (!t) return RP_NOMEM;
    rp_status st = rp_compiled_bind(c, leaf, t->there, err);
    if (st != RP_OK) return st;
    (void)pthread_mutex_lock(&lock);
    bound *b = bound_of(c, leaf);
    if (!b && (b = calloc(1, sizeof *b)) != NULL) {
        *b = (bound){bounds, c, l->name, NULL};
        bounds = b;
    }
    if (!b) abort();
    b->t = t;
    (void)pthread_mutex_unlock(&lock);
    return RP_OK;
}

rp_status elsewhere_run(rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                        rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    rp_status st = RP_OK;
    for (const bound *b = bounds; b && st == RP_OK; b = b->next)
        if (b->c == c) st = move(b->t->there, b->t->host, b->t->bytes, err);
    if (st == RP_OK) st = rp_compiled_run(c, inputs, n_inputs, outputs, n_outputs, err);
    for (const bound *b = bounds; b && st == RP_OK; b = b->next)
        if (b->c == c) st = move(b->t->host, b->t->there, b->t->bytes, err);
    return st;
}

void elsewhere_compiled_free(rp_compiled *c) {
    (void)pthread_mutex_lock(&lock);
    for (bound **at = &bounds; *at;) {
        bound *b = *at;
        if (b->c != c) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        free(b);
    }
    (void)pthread_mutex_unlock(&lock);
    rp_compiled_free(c);
}

/* --- results --------------------------------------------------------------------------- */

/* *v with its tensors in memory of the host. */
static rp_status fetch(copy *c, rp_value *v, rp_error *err) {
    if (v->kind == RP_VALUE_TENSOR && v->tensor.data) {
        const size_t bytes = bytes_of(&v->tensor);
        void *data = kept(c->block, &c->n, 64, bytes);
        if (!data) return RP_NOMEM;
        rp_status st = move(data, v->tensor.data, bytes, err);
        v->tensor.data = data;
        return st;
    }
    if (v->kind < RP_VALUE_LIST) return RP_OK;
    rp_value *item = own_items(v, c->block, &c->n, 64);
    if (!item) return RP_NOMEM;
    for (uint32_t i = 0; i < v->n; i++) {
        rp_status st = fetch(c, &item[i], err);
        if (st != RP_OK) return st;
    }
    return RP_OK;
}

static void forget(const rp_output *o) {
    (void)pthread_mutex_lock(&lock);
    for (copy **at = &copies; *at;) {
        copy *c = *at;
        if (c->of != o) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        for (uint32_t i = 0; i < c->n; i++) free(c->block[i]);
        free(c);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* A new copy each time: a replay may have written another value. What was given before stays until the output is freed. */
rp_status elsewhere_output_value(const rp_output *o, const rp_value **out, rp_error *err) {
    const rp_value *there = NULL;
    rp_status st = rp_output_value(o, &there, err);
    if (!device || st != RP_OK) {
        if (st == RP_OK) *out = there;
        return st;
    }
    copy *c = calloc(1, sizeof *c);
    rp_value *v = c ? kept(c->block, &c->n, 64, sizeof *v) : NULL;
    if (!v) abort();
    *v = *there;
    c->of = o;
    st = fetch(c, v, err);
    (void)pthread_mutex_lock(&lock);
    c->next = copies;
    copies = c;
    (void)pthread_mutex_unlock(&lock);
    if (st == RP_OK) *out = v;
    return st;
}

void elsewhere_output_free(rp_output *o) {
    if (device) forget(o);
    rp_output_free(o);
}
