/* Libraries that run ONNX models, as backends: what they share, and what each has of its own. */
#ifndef BACKEND_SESSION_H
#define BACKEND_SESSION_H

#include "backend/onnx.h"
#include "reprise/backend.h"

/* A library. Its functions are not called before `ready` has given RP_OK. */
typedef struct backend_library {
    const char *name; /* of the backend */
    /* Opened, once for the process. Any thread. */
    rp_status (*ready)(rp_error *err);
    /* A model that is loaded, for calls on so many threads. RP_UNSUPPORTED where the library does not take it. */
    rp_status (*load)(const backend_model *m, uint32_t threads, void **out, rp_error *err);
    /* Inputs and outputs by their order in the model. One call at a time. */
    rp_status (*run)(void *loaded, const rp_buffer *in, uint32_t n_in, rp_buffer *out,
                     uint32_t n_out, rp_error *err);
    void (*unload)(void *loaded);
    bool narrow; /* it computes f64 as f32, i64 as i32 */
} backend_library;

extern const backend_library backend_openvino, backend_onnxrt;

/* rp_backend_desc with a backend_library as user. */
rp_status backend_session_ready(void *library, rp_error *err) RP_MUST_USE;
rp_status backend_session_compile(void *library, const rp_graph *g,
                                  const rp_backend_options *options, rp_callable *out,
                                  rp_error *err) RP_MUST_USE;
rp_status backend_session_supports(void *library, const rp_graph *g, uint32_t i,
                                   rp_error *err) RP_MUST_USE;

/* --- for libraries --- */
/* Opens the file that the user names, or one of names (NULL behind the last); *which is the one that is open. */
rp_status backend_library_open(const char *chosen, const char *const *names, void **out,
                               rp_error *err) RP_MUST_USE;
/* "in3", "out0" */
void backend_port_name(const char *kind, uint32_t i, char out[16]);
size_t backend_bytes(const rp_buffer *b);

#endif
