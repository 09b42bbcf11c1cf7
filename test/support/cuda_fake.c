#include "support/cuda_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cuda_fake_state cuda_fake;
static char handle[4096]; /* every handle points into it */
static uint32_t n_handles;

void cuda_fake_reset(void) {
    cuda_fake = (cuda_fake_state){
        .version = 13000, .n_devices = 1, .capability = 90, .compiles = true, .fail_code = 999};
}

static void note(const char *name) {
    size_t at = strlen(cuda_fake.log);
    (void)snprintf(cuda_fake.log + at, sizeof cuda_fake.log - at, "%s ", name);
}

/* The code that this call gives. */
static int code_of(const char *name) {
    note(name);
    cuda_fake.n_calls++;
    if (cuda_fake.fail_one && strcmp(cuda_fake.fail_one, name) == 0) return cuda_fake.fail_code;
    return cuda_fake.n_calls == cuda_fake.fail_nth ? cuda_fake.fail_code : 0;
}

static int make(const char *name, void **out) {
    int code = code_of(name);
    if (code) return code;
    *out = handle + n_handles++ % sizeof handle;
    cuda_fake.live++;
    return 0;
}

static int drop(const char *name) {
    note(name);
    cuda_fake.live--;
    return 0;
}

static int put(const char *name, int *out, int value) {
    int code = code_of(name);
    if (code == 0) *out = value;
    return code;
}

static int do_init(unsigned flags) {
    (void)flags;
    return code_of("init");
}
static int do_version(int *out) {
    return put("version", out, cuda_fake.version);
}
static int do_error_name(int code, const char **out) {
    (void)code;
    *out = "CUDA_ERROR_FAKE";
    return 0;
}
static int do_error_string(int code, const char **out) {
    (void)code;
    *out = "told to fail";
    return 0;
}
static int do_device_count(int *out) {
    return put("device_count", out, cuda_fake.n_devices);
}
static int do_device_get(int *out, int ordinal) {
    return put("device_get", out, ordinal);
}
static int do_device_name(char *out, int size, int device) {
    (void)device;
    (void)snprintf(out, (size_t)size, "Fake GPU");
    return code_of("device_name");
}
static int do_device_attribute(int *out, int attribute, int device) {
    (void)device;
    return put("device_attribute", out,
               attribute == CUDA_ATTRIBUTE_MAJOR   ? cuda_fake.capability / 10
               : attribute == CUDA_ATTRIBUTE_MINOR ? cuda_fake.capability % 10
               : attribute == CUDA_ATTRIBUTE_N_SM  ? 132
                                                   : 227 << 10);
}
static int do_device_memory(size_t *out, int device) {
    (void)device;
    *out = (size_t)1 << 30;
    return code_of("device_memory");
}
/* The primary context, which is one for a GPU. */
static int do_context_retain(void **out, int device) {
    static char contexts[8];
    int code = make("context_retain", out);
    if (code == 0) *out = &contexts[device % (int)sizeof contexts];
    return code;
}
static int do_context_release(int device) {
    (void)device;
    return drop("context_release");
}
static int do_context_set(void *context) {
    (void)context;
    return code_of("context_set");
}
static int do_synchronize(void) {
    return code_of("synchronize");
}
static int do_memory_info(size_t *available, size_t *total) {
    *total = (size_t)1 << 30;
    *available = *total - cuda_fake.n_looks++ % 2 * cuda_fake.taken_beside;
    return code_of("memory_info");
}
static int do_memory_alloc(uint64_t *out, size_t size) {
    void *p = NULL;
    int code = size ? make("memory_alloc", &p) : 1;
    if (code == 0) *out = (uint64_t)(uintptr_t)p;
    return code;
}
static int do_memory_free(uint64_t at) {
    (void)at;
    return drop("memory_free");
}
static int do_granularity(size_t *out, const cuda_memory_kind *kind, int recommended) {
    (void)kind, (void)recommended;
    *out = 2 << 20;
    return code_of("granularity");
}
static int do_address_reserve(uint64_t *out, size_t size, size_t alignment, uint64_t at,
                              unsigned long long flags) {
    void *p = NULL;
    (void)alignment, (void)at, (void)flags;
    int code = size % (2 << 20) == 0 ? make("address_reserve", &p) : 1;
    if (code == 0) *out = (uint64_t)(uintptr_t)p;
    return code;
}
static int do_address_free(uint64_t at, size_t size) {
    (void)at, (void)size;
    return drop("address_free");
}
static int do_memory_make(uint64_t *out, size_t size, const cuda_memory_kind *kind,
                          unsigned long long flags) {
    void *p = NULL;
    (void)kind, (void)flags;
    int code = size && size % (2 << 20) == 0 ? make("memory_make", &p) : 1;
    if (code == 0) *out = (uint64_t)(uintptr_t)p;
    return code;
}
static int do_memory_release(uint64_t memory) {
    (void)memory;
    return drop("memory_release");
}
static int do_memory_map(uint64_t at, size_t size, size_t offset, uint64_t memory,
                         unsigned long long flags) {
    (void)at, (void)size, (void)offset, (void)memory, (void)flags;
    int code = code_of("memory_map");
    if (code == 0) cuda_fake.live++;
    return code;
}
static int do_memory_unmap(uint64_t at, size_t size) {
    (void)at, (void)size;
    return drop("memory_unmap");
}
static int do_memory_access(uint64_t at, size_t size, const cuda_access *access, size_t n) {
    (void)at, (void)size, (void)access, (void)n;
    return code_of("memory_access");
}
static int do_host_alloc(void **out, size_t size, unsigned flags) {
    (void)flags;
    int code = code_of("host_alloc");
    if (code) return code;
    *out = calloc(1, size);
    if (!*out) return CUDA_OUT_OF_MEMORY;
    cuda_fake.live++;
    return 0;
}
static int do_host_free(void *at) {
    free(at);
    return drop("host_free");
}
static int do_pointer_get(void *out, int attribute, uint64_t at) {
    uint64_t first = (uint64_t)(uintptr_t)handle;
    bool own = at >= first && at < first + sizeof handle;
    if (attribute == CUDA_POINTER_MEMORY) {
        *(unsigned *)out = own ? 2 : CUDA_MEMORY_HOST;
        return 0;
    }
    if (attribute != CUDA_POINTER_DEVICE || !own || at == cuda_fake.elsewhere) return 1;
    *(uint64_t *)out = at;
    return 0;
}
static int do_copy(uint64_t to, uint64_t from, size_t size, void *stream) {
    (void)to, (void)from, (void)size, (void)stream;
    return code_of("copy");
}
static int do_copy_2d(const cuda_copy_2d *copy, void *stream) {
    (void)copy, (void)stream;
    return code_of("copy_2d");
}
static int do_memory_set(uint64_t at, unsigned char value, size_t size, void *stream) {
    (void)at, (void)value, (void)size, (void)stream;
    return code_of("memory_set");
}
static int do_copy_in(uint64_t to, const void *from, size_t size, void *stream) {
    (void)to, (void)from, (void)size, (void)stream;
    return code_of("copy_in");
}
static int do_copy_out(void *to, uint64_t from, size_t size, void *stream) {
    (void)to, (void)from, (void)size, (void)stream;
    return code_of("copy_out");
}
static int do_stream_new(void **out, unsigned flags) {
    (void)flags;
    return make("stream_new", out);
}
static int do_stream_free(void *stream) {
    (void)stream;
    return drop("stream_free");
}
static int do_stream_synchronize(void *stream) {
    (void)stream;
    return code_of("stream_synchronize");
}
static int do_stream_wait(void *stream, void *event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    return code_of("stream_wait");
}
static int do_event_new(void **out, unsigned flags) {
    (void)flags;
    return make("event_new", out);
}
static int do_event_free(void *event) {
    (void)event;
    return drop("event_free");
}
/* One is recorded a millisecond after the other. */
static int recorded[sizeof handle], ticks;
static int do_event_record(void *event, void *stream) {
    (void)stream;
    recorded[(const char *)event - handle] = ++ticks;
    return code_of("event_record");
}
static int do_event_synchronize(void *event) {
    (void)event;
    return code_of("event_synchronize");
}
static int do_event_elapsed(float *ms, void *from, void *to) {
    *ms = (float)(recorded[(const char *)to - handle] - recorded[(const char *)from - handle]);
    return code_of("event_elapsed");
}
static int do_module_load(void **out, const void *image) {
    (void)image;
    return make("module_load", out);
}
static int do_module_free(void *module) {
    (void)module;
    return drop("module_free");
}
static int do_module_function(void **out, void *module, const char *name) {
    (void)module, (void)name;
    *out = handle;
    return code_of("module_function");
}
static int do_function_set(void *function, int attribute, int value) {
    (void)function, (void)attribute, (void)value;
    return code_of("function_set");
}
static int do_function_get(int *out, int attribute, void *function) {
    (void)attribute, (void)function;
    return put("function_get", out, 0);
}
static int do_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                     unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters,
                     void **extra) {
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
    (void)stream, (void)parameters, (void)extra;
    return code_of("launch");
}
static int do_launch_with(const cuda_launch_config *config, void *function, void **parameters,
                          void **extra) {
    int code = code_of("launch_with");
    (void)function, (void)parameters, (void)extra;
    for (unsigned i = 0; code == 0 && i < config->n_attributes; i++)
        cuda_fake.n_programmatic += config->attributes[i].id == CUDA_LAUNCH_PROGRAMMATIC;
    return code;
}
static int do_graph_new(void **out, unsigned flags) {
    (void)flags;
    return make("graph_new", out);
}
static int do_graph_free(void *graph) {
    (void)graph;
    return drop("graph_free");
}
static int do_graph_add(void **out, void *graph, void *const *from, const cuda_edge *edges,
                        size_t n, cuda_node *node) {
    static void *body = handle;
    int code = code_of("graph_add");
    (void)graph, (void)from;
    if (node->kind == CUDA_NODE_BRANCH) ((cuda_branch_node *)(void *)node)->bodies = &body;
    if (code) return code;
    *out = handle + n_handles++ % sizeof handle;
    cuda_fake.n_nodes++;
    cuda_fake.n_programmatic += n == 1 && edges && edges->type == CUDA_EDGE_PROGRAMMATIC;
    return 0;
}
static int do_graph_instantiate(void **out, void *graph, unsigned long long flags) {
    (void)graph, (void)flags;
    return make("graph_instantiate", out);
}
static int do_graph_upload(void *exec, void *stream) {
    (void)exec, (void)stream;
    return code_of("graph_upload");
}
static int do_graph_launch(void *exec, void *stream) {
    (void)exec, (void)stream;
    return code_of("graph_launch");
}
static int do_exec_free(void *exec) {
    (void)exec;
    return drop("exec_free");
}

static int do_graph_nodes(void *graph, void **nodes, size_t *n) {
    (void)graph, (void)nodes;
    *n = 0;
    return code_of("graph_nodes");
}
static int do_graph_edges(void *graph, void **from, void **to, cuda_edge *edges, size_t *n) {
    int code = code_of("graph_edges");
    (void)graph;
    *n = cuda_fake.n_programmatic;
    for (size_t i = 0; from && i < *n; i++) {
        from[i] = to[i] = handle;
        edges[i] = (cuda_edge){.type = CUDA_EDGE_PROGRAMMATIC};
    }
    return code;
}
static int do_node_type(void *node, int *out) {
    (void)node;
    return put("node_type", out, 0);
}
static int do_node_kernel(void *node, cuda_kernel_node *out) {
    (void)node, (void)out;
    return code_of("node_kernel");
}
static int do_function_name(const char **out, void *function) {
    (void)function;
    *out = "k";
    return code_of("function_name");
}
static int do_function_parameter(void *function, size_t idx, size_t *offset, size_t *size) {
    (void)function, (void)idx, (void)offset, (void)size;
    return 1;
}
static int do_node_copy(void *node, cuda_copy_3d *out) {
    (void)node, (void)out;
    return code_of("node_copy");
}
static int do_exec_copy(void *exec, void *node, const cuda_copy_3d *copy, void *context) {
    (void)exec, (void)node, (void)copy, (void)context;
    return code_of("exec_copy");
}
static int do_exec_enable(void *exec, void *node, unsigned on) {
    (void)exec, (void)node, (void)on;
    return code_of("exec_enable");
}
static int do_conditional_new(uint64_t *out, void *graph, void *context, unsigned value,
                              unsigned flags) {
    (void)graph, (void)context, (void)value, (void)flags;
    *out = 1;
    return code_of("conditional_new");
}
static int do_capture_to(void *stream, void *graph, void *const *from, const cuda_edge *edges,
                         size_t n, int mode) {
    (void)stream, (void)graph, (void)from, (void)edges, (void)n;
    return mode == CUDA_CAPTURE_THREAD ? code_of("capture_to") : 1;
}
static int do_capture_end(void *stream, void **graph) {
    (void)stream;
    *graph = handle;
    return code_of("capture_end");
}
static int do_capture_info(void *stream, int *status, uint64_t *id, void **graph,
                           void *const **last, const cuda_edge **edges, size_t *n_last) {
    (void)stream, (void)id, (void)last, (void)edges, (void)n_last;
    *graph = handle;
    return put("capture_info", status, 1);
}
static int do_capture_mode(int *mode) {
    static int now; /* one thread */
    int before = now;
    note("capture_mode");
    now = *mode;
    *mode = before;
    return 0;
}

#define DRIVER(name, symbol, parameters) .name = do_##name,
const cuda_driver cuda_fake_driver = {
#include "hal/cuda/api.def"
};

/* ---- NVRTC ----------------------------------------------------------------------------------------- */

static const char *log_text(void) {
    return cuda_fake.colons ? "note\ncases.cu:3: error: no such thing\nmore\n"
                            : "note\ncases.cu(3): error: no such thing\nmore\n";
}

static int rtc_version(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return code_of("rtc_version");
}
static int rtc_program_new(void **out, const char *text, const char *name, int n_headers,
                           const char *const *headers, const char *const *include_names) {
    (void)text, (void)name, (void)n_headers, (void)headers, (void)include_names;
    return make("rtc_program_new", out);
}
static int rtc_program_free(void **program) {
    *program = NULL;
    return drop("rtc_program_free");
}
static int rtc_compile(void *program, int n, const char *const *options) {
    int code = code_of("rtc_compile");
    (void)program, (void)n, (void)options;
    return cuda_fake.compiles ? code : 6;
}
static int rtc_log_size(void *program, size_t *out) {
    (void)program;
    *out = strlen(log_text()) + 1;
    return code_of("rtc_log_size");
}
static int rtc_log(void *program, char *out) {
    (void)program;
    memcpy(out, log_text(), strlen(log_text()) + 1);
    return code_of("rtc_log");
}
static int rtc_cubin_size(void *program, size_t *out) {
    (void)program;
    *out = 5;
    return code_of("rtc_cubin_size");
}
static int rtc_cubin(void *program, char *out) {
    (void)program;
    memcpy(out, "cubin", 5);
    return code_of("rtc_cubin");
}

#define NVRTC(name, symbol, parameters) .name = rtc_##name,
const cuda_nvrtc cuda_fake_nvrtc = {
#include "hal/cuda/api.def"
};
