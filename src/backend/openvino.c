/* OpenVINO by its C API (openvino/c/openvino.h), whose library is opened when it is first wanted. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/session.h"
#include "base/alloc.h"
#include "base/env.h"

typedef struct ov_shape {
    int64_t rank;
    int64_t *dims;
} ov_shape;

/* The functions that are called: status 0 is success. Handles are theirs. */
#define OPENVINO_LIST(X)                                                                    \
    X(int, core_create, (void **out))                                                       \
    X(void, core_free, (void *core))                                                        \
    X(int, core_read_model_from_memory_buffer,                                              \
      (const void *core, const char *text, size_t n, const void *weights, void **out))      \
    X(int, core_compile_model,                                                              \
      (const void *core, const void *model, const char *device, size_t n, void **out, ...)) \
    X(void, model_free, (void *model))                                                      \
    X(void, compiled_model_free, (void *compiled))                                          \
    X(int, compiled_model_create_infer_request, (const void *compiled, void **out))         \
    X(void, infer_request_free, (void *request))                                            \
    X(int, infer_request_set_tensor, (void *request, const char *name, const void *tensor)) \
    X(int, infer_request_get_tensor, (const void *request, const char *name, void **out))   \
    X(int, infer_request_infer, (void *request))                                            \
    X(int, tensor_create_from_host_ptr, (int type, ov_shape shape, void *data, void **out)) \
    X(int, tensor_get_byte_size, (const void *tensor, size_t *out))                         \
    X(int, tensor_data, (const void *tensor, void **out))                                   \
    X(void, tensor_free, (void *tensor))                                                    \
    X(const char *, get_error_info, (int status))                                           \
    X(const char *, get_last_err_msg, (void))                                               \
    X(void, free, (const char *text))

static struct {
#define OPENVINO_MEMBER(type, name, parameters) type(*name) parameters;
    OPENVINO_LIST(OPENVINO_MEMBER)
#undef OPENVINO_MEMBER
} ov;

static void *core;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static rp_error opened; /* why it is not open */

/* ov_element_type_e */
static int type_of(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_BOOL: return 1;
    case RP_DTYPE_BF16: return 2;
    case RP_DTYPE_F16: return 3;
    case RP_DTYPE_F32: return 4;
    case RP_DTYPE_F64: return 5;
    case RP_DTYPE_I8: return 7;
    case RP_DTYPE_I16: return 8;
    case RP_DTYPE_I32: return 9;
    case RP_DTYPE_I64: return 10;
    case RP_DTYPE_U8: return 16;
    default: return 0;
    }
}

/* RP_OK for status 0; else st with the library's words, on one line. */
static rp_status check(int status, rp_status st, const char *what, rp_error *err) {
    char text[160] = "";
    if (status == 0) return RP_OK;
    const char *said = ov.get_last_err_msg();
    if (said) (void)snprintf(text, sizeof text, "%s", said);
    if (said) ov.free(said);
    for (char *z = text; *z; z++)
        if (*z == '\n') *z = ' ';
    return rp_fail(err, st, "OpenVINO: %s: %s%s%s", what, ov.get_error_info(status),
                   *text ? ": " : "", text);
}

/* --- opening ------------------------------------------------------------------------------------ */

static rp_status open_library(rp_error *err) {
    static const char *const names[] = {"libopenvino_c.so", NULL};
    static const struct {
        const char *symbol;
        void *at;
    } table[] = {
#define OPENVINO_ENTRY(type, name, parameters) {"ov_" #name, &ov.name},
        OPENVINO_LIST(OPENVINO_ENTRY)
#undef OPENVINO_ENTRY
    };
    void *lib;
    RP_TRY(backend_library_open(base_env_get(BASE_ENV_OPENVINO), names, &lib, err));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *p = dlsym(lib, table[i].symbol);
        if (!p)
            return rp_fail(err, RP_UNSUPPORTED, "this OpenVINO has no %s; install another one",
                           table[i].symbol);
        memcpy(table[i].at, &p, sizeof p);
    }
    return check(ov.core_create(&core), RP_UNSUPPORTED, "starting", err);
}

static void open_once(void) {
    rp_error why = {0};
    if (open_library(&why) != RP_OK)
        (void)rp_fail(&opened, RP_UNSUPPORTED,
                      "%s; install OpenVINO and name its libopenvino_c.so in REPRISE_OPENVINO",
                      why.text);
}

static rp_status ready(rp_error *err) {
    (void)pthread_once(&once, open_once);
    return opened.code == RP_OK ? RP_OK : rp_fail(err, opened.code, "%s", opened.text);
}

/* --- models ---------------------------------------------------------------------------------------- */

typedef struct loaded {
    void *compiled, *request;
} loaded;

static void unload(void *self) {
    loaded *l = self;
    if (l->request) ov.infer_request_free(l->request);
    if (l->compiled) ov.compiled_model_free(l->compiled);
    base_free(l);
}

/* Its default on some processors is another precision than the graph's. */
static rp_status load(const backend_model *m, uint32_t threads, void **out, rp_error *err) {
    rp_status st = RP_OK;
    char n[16];
    void *model = NULL;
    loaded *l = base_alloc(sizeof *l);
    if (!l) return rp_fail(err, RP_NOMEM, "a loaded model");
    *l = (loaded){NULL, NULL};
    (void)snprintf(n, sizeof n, "%u", threads);
    RP_TRY_OUT(check(ov.core_read_model_from_memory_buffer(core, m->data, m->n, NULL, &model),
                     RP_UNSUPPORTED, "reading the model", err));
    RP_TRY_OUT(
        check(ov.core_compile_model(core, model, "CPU", 4, &l->compiled, "INFERENCE_NUM_THREADS", n,
                                    "INFERENCE_PRECISION_HINT", "f32"),
              RP_UNSUPPORTED, "compiling the model", err));
    RP_TRY_OUT(check(ov.compiled_model_create_infer_request(l->compiled, &l->request),
                     RP_UNSUPPORTED, "making a request", err));
    *out = l;
    l = NULL;
out:
    if (model) ov.model_free(model);
    if (l) unload(l);
    return st;
}

static rp_status give(void *request, const char *name, const rp_buffer *b, rp_error *err) {
    static char nothing[64]; /* where an empty tensor is */
    int64_t dim[RP_MAX_RANK + 1];
    void *tensor = NULL;
    for (uint32_t d = 0; d < b->rank; d++) dim[d] = b->dim[d];
    ov_shape shape = {b->rank, dim};
    RP_TRY(check(ov.tensor_create_from_host_ptr(type_of(b->dtype), shape,
                                                b->data ? b->data : nothing, &tensor),
                 RP_DEVICE, name, err));
    rp_status st = check(ov.infer_request_set_tensor(request, name, tensor), RP_DEVICE, name, err);
    ov.tensor_free(tensor);
    return st;
}

static rp_status take(void *request, const char *name, rp_buffer *b, rp_error *err) {
    rp_status st = RP_OK;
    void *tensor = NULL, *data = NULL;
    size_t n = 0, want = backend_bytes(b);
    RP_TRY(check(ov.infer_request_get_tensor(request, name, &tensor), RP_DEVICE, name, err));
    RP_TRY_OUT(check(ov.tensor_get_byte_size(tensor, &n), RP_DEVICE, name, err));
    if (n != want) {
        st = rp_fail(err, RP_DEVICE, "OpenVINO gave %zu bytes for %s; it has %zu", n, name, want);
        goto out;
    }
    if (n) RP_TRY_OUT(check(ov.tensor_data(tensor, &data), RP_DEVICE, name, err));
    if (n) memcpy(b->data, data, n);
out:
    ov.tensor_free(tensor);
    return st;
}

static rp_status run(void *self, const rp_buffer *in, uint32_t n_in, rp_buffer *out, uint32_t n_out,
                     rp_error *err) {
    const loaded *l = self;
    char name[16];
    for (uint32_t i = 0; i < n_in; i++) {
        backend_port_name("in", i, name);
        RP_TRY(give(l->request, name, &in[i], err));
    }
    RP_TRY(check(ov.infer_request_infer(l->request), RP_DEVICE, "a call", err));
    for (uint32_t i = 0; i < n_out; i++) {
        backend_port_name("out", i, name);
        RP_TRY(take(l->request, name, &out[i], err));
    }
    return RP_OK;
}

const backend_library backend_openvino = {"openvino", ready, load, run, unload, true};
