/* ONNX Runtime by its C API (onnxruntime_c_api.h), whose library is opened when it is first wanted. Its functions are a table that only grows behind
 * what a version has: that of version 1, of which every later library gives these places. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backend/session.h"
#include "base/alloc.h"
#include "base/env.h"

typedef void (*other_fn)(void);

/* OrtApi as far as it is called: `otherN` are the places from N on that are not. Functions give NULL, or an OrtStatus. */
typedef struct ort_api {
    other_fn other0[2];
    const char *(*error_message)(const void *status);
    void *(*create_env)(int log_level, const char *name, void **out);
    other_fn other4[4];
    void *(*create_session)(const void *env, const void *model, size_t n, const void *options,
                            void **out);
    void *(*run)(void *session, const void *options, const char *const *in_names,
                 const void *const *in, size_t n_in, const char *const *out_names, size_t n_out,
                 void **out);
    void *(*create_options)(void **out);
    other_fn other11[13];
    void *(*set_threads)(void *options, int n);
    other_fn other25[24];
    void *(*create_tensor)(const void *where, void *data, size_t bytes, const int64_t *dim,
                           size_t rank, int type, void **out);
    other_fn other50[19];
    void *(*create_cpu_memory)(int allocator, int kind, void **out);
    other_fn other70[22];
    void (*release_env)(void *env);
    void (*release_status)(void *status);
    void (*release_memory)(void *where);
    void (*release_session)(void *session);
    void (*release_value)(void *value);
    other_fn other97[3];
    void (*release_options)(void *options);
} ort_api;
_Static_assert(offsetof(ort_api, run) == 9 * sizeof(other_fn) &&
                   offsetof(ort_api, set_threads) == 24 * sizeof(other_fn) &&
                   offsetof(ort_api, create_tensor) == 49 * sizeof(other_fn) &&
                   offsetof(ort_api, create_cpu_memory) == 69 * sizeof(other_fn) &&
                   offsetof(ort_api, release_env) == 92 * sizeof(other_fn) &&
                   offsetof(ort_api, release_options) == 100 * sizeof(other_fn),
               "as OrtApi");

typedef struct ort_base {
    const ort_api *(*api)(uint32_t version);
    const char *(*version)(void);
} ort_base;

enum { API_VERSION = 1, LOG_FATAL = 4, DEVICE_ALLOCATOR = 0, MEMORY_DEFAULT = 0 };

static const ort_api *ort;
static void *environment, *host;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static rp_error opened; /* why it is not open */

/* RP_OK for NULL; else st with the library's words, on one line. */
static rp_status check(void *status, rp_status st, const char *what, rp_error *err) {
    char text[160];
    if (!status) return RP_OK;
    (void)snprintf(text, sizeof text, "%s", ort->error_message(status));
    ort->release_status(status);
    for (char *z = text; *z; z++)
        if (*z == '\n') *z = ' ';
    return rp_fail(err, st, "ONNX Runtime: %s: %s", what, text);
}

/* --- opening ------------------------------------------------------------------------------------ */

static rp_status open_library(rp_error *err) {
    static const char *const names[] = {"libonnxruntime.so", "libonnxruntime.so.1", NULL};
    const ort_base *(*get)(void) = NULL;
    void *lib;
    RP_TRY(backend_library_open(base_env_get(BASE_ENV_ONNXRUNTIME), names, &lib, err));
    void *p = dlsym(lib, "OrtGetApiBase");
    if (!p) return rp_fail(err, RP_UNSUPPORTED, "the library has no OrtGetApiBase");
    memcpy(&get, &p, sizeof p);
    ort = get()->api(API_VERSION);
    if (!ort)
        return rp_fail(err, RP_UNSUPPORTED, "ONNX Runtime %s has no version %d of its functions",
                       get()->version(), API_VERSION);
    RP_TRY(check(ort->create_env(LOG_FATAL, "reprise", &environment), RP_UNSUPPORTED, "starting",
                 err));
    return check(ort->create_cpu_memory(DEVICE_ALLOCATOR, MEMORY_DEFAULT, &host), RP_UNSUPPORTED,
                 "starting", err);
}

static void open_once(void) {
    rp_error why = {0};
    if (open_library(&why) != RP_OK)
        (void)rp_fail(&opened, RP_UNSUPPORTED,
                      "%s; install ONNX Runtime and name its libonnxruntime.so in "
                      "REPRISE_ONNXRUNTIME",
                      why.text);
}

static rp_status ready(rp_error *err) {
    (void)pthread_once(&once, open_once);
    return opened.code == RP_OK ? RP_OK : rp_fail(err, opened.code, "%s", opened.text);
}

/* --- models ---------------------------------------------------------------------------------------- */

static void unload(void *session) {
    ort->release_session(session);
}

static rp_status load(const backend_model *m, uint32_t threads, void **out, rp_error *err) {
    rp_status st = RP_OK;
    void *options = NULL;
    RP_TRY(check(ort->create_options(&options), RP_UNSUPPORTED, "options", err));
    RP_TRY_OUT(check(ort->set_threads(options, (int)threads), RP_UNSUPPORTED, "threads", err));
    RP_TRY_OUT(check(ort->create_session(environment, m->data, m->n, options, out), RP_UNSUPPORTED,
                     "loading the model", err));
out:
    ort->release_options(options);
    return st;
}

/* Tensors of a call, with the names of their places. */
typedef struct ports {
    uint32_t n;
    void **value;
    const char **name;
    char (*text)[16];
} ports;

static void ports_done(ports *p) {
    for (uint32_t i = 0; p->value && i < p->n; i++)
        if (p->value[i]) ort->release_value(p->value[i]);
    base_free(p->value);
    base_free(p->name);
    base_free(p->text);
}

static rp_status ports_make(ports *p, const char *kind, const rp_buffer *b, uint32_t n,
                            rp_error *err) {
    static char nothing[64]; /* where an empty tensor is */
    p->n = n;
    p->value = base_alloc_array(n + 1u, sizeof(void *));
    p->name = base_alloc_array(n + 1u, sizeof(char *));
    p->text = base_alloc_array(n + 1u, sizeof *p->text);
    if (!p->value || !p->name || !p->text) return rp_fail(err, RP_NOMEM, "tensors of a call");
    for (uint32_t i = 0; i < n; i++) {
        backend_port_name(kind, i, p->text[i]);
        p->name[i] = p->text[i];
        RP_TRY(check(ort->create_tensor(host, b[i].data ? b[i].data : nothing, backend_bytes(&b[i]),
                                        b[i].dim, b[i].rank, backend_onnx_type(b[i].dtype),
                                        &p->value[i]),
                     RP_DEVICE, p->text[i], err));
    }
    return RP_OK;
}

static rp_status run(void *session, const rp_buffer *in, uint32_t n_in, rp_buffer *out,
                     uint32_t n_out, rp_error *err) {
    rp_status st = RP_OK;
    ports from = {0}, to = {0};
    RP_TRY_OUT(ports_make(&from, "in", in, n_in, err));
    RP_TRY_OUT(ports_make(&to, "out", out, n_out, err));
    RP_TRY_OUT(check(ort->run(session, NULL, from.name, (const void *const *)from.value, n_in,
                              to.name, n_out, to.value),
                     RP_DEVICE, "a call", err));
out:
    ports_done(&from);
    ports_done(&to);
    return st;
}

const backend_library backend_onnxrt = {"onnxrt", ready, load, run, unload, false};
