/* OpenVINO and ONNX Runtime as small libraries that this test compiles: what they are told, that each of their calls may fail, and that
 * all that they gave is given back. Their models give what they are given. */
#include <dlfcn.h>

#include "base/file.h"
#include "base/spawn.h"
#include "support/jits.h"
#include "support/trees.h"

/* Both: `live` things that were given, the call of number `fails` fails. */
#define COMMON                                                        \
    "#include <stdarg.h>\n#include <stdint.h>\n#include <stdlib.h>\n" \
    "#include <string.h>\n"                                           \
    "int live, calls, fails, threads, type, precise;\n"               \
    "static void *in;\nstatic size_t size;\n"                         \
    "static int fails_now(void) { return ++calls == fails; }\n"       \
    "static void *made(void) { live++; return malloc(1); }\n"         \
    "static void gone(void *p) { live -= p != 0; free(p); }\n"        \
    "static void take(void *data, size_t n) { in = data; size = n; }\n"

static const char openvino[] = COMMON
    "typedef struct { int64_t rank, *dims; } shape;\n"
    "#define GIVES if (fails_now()) return -1; *out = made(); return 0\n"
    "#define GONE(name) void ov_##name##_free(void *p) { gone(p); }\n"
    "GONE(core) GONE(model) GONE(compiled_model) GONE(infer_request) GONE(tensor)\n"
    "int ov_core_create(void **out) { GIVES; }\n"
    "int ov_core_read_model_from_memory_buffer(const void *c, const char *text, size_t n, const "
    "void *w, void **out) { GIVES; }\n"
    "int ov_core_compile_model(const void *c, const void *m, const char *device, size_t n, void "
    "**out, ...) {\n"
    "  va_list ap;\n  va_start(ap, out);\n"
    "  for (; n; n -= 2) {\n"
    "    const char *key = va_arg(ap, const char *), *value = va_arg(ap, const char *);\n"
    "    if (!strcmp(key, \"INFERENCE_NUM_THREADS\")) threads = atoi(value);\n"
    "    if (!strcmp(key, \"INFERENCE_PRECISION_HINT\")) precise = !strcmp(value, \"f32\");\n"
    "  }\n  va_end(ap);\n  GIVES;\n}\n"
    "int ov_compiled_model_create_infer_request(const void *m, void **out) { GIVES; }\n"
    "int ov_tensor_create_from_host_ptr(int t, shape s, void *data, void **out) {\n"
    "  int64_t n = 4;\n  for (int64_t i = 0; i < s.rank; i++) n *= s.dims[i];\n"
    "  type = t;\n  take(data, n);\n  GIVES;\n}\n"
    "int ov_infer_request_set_tensor(void *r, const char *name, const void *t) {\n"
    "  return fails_now() || strcmp(name, \"in0\");\n}\n"
    "int ov_infer_request_get_tensor(const void *r, const char *name, void **out) {\n"
    "  if (strcmp(name, \"out0\")) return -1;\n  GIVES;\n}\n"
    "int ov_infer_request_infer(void *r) { return fails_now(); }\n"
    "int ov_tensor_get_byte_size(const void *t, size_t *n) { *n = size; return fails_now(); }\n"
    "int ov_tensor_data(const void *t, void **out) { *out = in; return fails_now(); }\n"
    "const char *ov_get_error_info(int status) { return \"bad day\"; }\n"
    "const char *ov_get_last_err_msg(void) { live++; return strdup(\"of\\nall\"); }\n"
    "void ov_free(const char *text) { gone((void *)text); }\n";

static const char onnxrt[] = COMMON
    "#define GIVES if (fails_now()) return made(); *out = made(); return 0\n"
    "static const char *message(const void *s) { return \"bad\\nday\"; }\n"
    "static void *env(int level, const char *name, void **out) { GIVES; }\n"
    "static void *session(const void *e, const void *m, size_t n, const void *o, void **out) { "
    "GIVES; }\n"
    "static void *run(void *s, const void *o, const char *const *names, const void *const *x, "
    "size_t n, const char *const *to, size_t n_out, void **out) {\n"
    "  if (fails_now() || n != 1 || n_out != 1 || strcmp(*names, \"in0\") || strcmp(*to, "
    "\"out0\")) return made();\n"
    "  memcpy(in, *(void *const *)x[0], size);\n  return 0;\n}\n"
    "static void *options(void **out) { GIVES; }\n"
    "static void *set_threads(void *o, int n) { threads = n; return fails_now() ? made() : 0; }\n"
    "static void *tensor(const void *w, void *data, size_t n, const int64_t *dim, size_t rank, int "
    "t, void **out) {\n"
    "  if (fails_now()) return made();\n"
    "  type = t;\n  take(data, n);\n  live++;\n  *out = malloc(sizeof data);\n"
    "  memcpy(*out, &data, sizeof data);\n  return 0;\n}\n"
    "static void *memory(int a, int k, void **out) { GIVES; }\n"
    "static void *table[128] = {[2] = message, [3] = env, [8] = session, [9] = run, [10] = "
    "options, [24] = set_threads, [49] = tensor, [69] = memory, [92] = gone, [93] = gone, [94] = "
    "gone, [95] = gone, [96] = gone, [100] = gone};\n"
    "static const void *api(uint32_t version) { return version == 1 ? table : 0; }\n"
    "static const char *version(void) { return \"0\"; }\n"
    "static void *base[2] = {api, version};\n"
    "const void *OrtGetApiBase(void) { return base; }\n";

static const struct {
    const char *name, *variable, *text;
    int f32, opened; /* what it keeps of the process */
    bool precise;
} libraries[] = {{"openvino", "REPRISE_OPENVINO", openvino, 4, 1, true},
                 {"onnxrt", "REPRISE_ONNXRUNTIME", onnxrt, 1, 2, false}};

static int *number(void *lib, const char *name) {
    int *p = dlsym(lib, name);
    if (!p) fail_msg("%s: %s", name, dlerror());
    return p;
}

/* A handle of the library that the backend opens, too; NULL: there is no compiler. */
static void *compiled(size_t i) {
    char c[600], so[600];
    rp_error err = {0};
    int code = 1;
    char *cc = base_find_program("cc");
    base_free(cc);
    if (!cc) return NULL;
    const char *folder = tree_new(libraries[i].name);
    (void)snprintf(c, sizeof c, "%s/fake.c", folder);
    (void)snprintf(so, sizeof so, "%s/fake.so", folder);
    CHECK_OK(base_file_write_atomic(c, libraries[i].text, strlen(libraries[i].text), &err), &err);
    const char *const argv[] = {"cc", "-w", "-shared", "-fPIC", c, "-o", so, NULL};
    CHECK_OK(base_spawn(argv, NULL, &code, &err), &err);
    assert_int_equal(code, 0);
    assert_int_equal(setenv(libraries[i].variable, so, 1), 0);
    void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!lib) fail_msg("%s", dlerror());
    return lib;
}

static rp_status doubled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), 2));
    return RP_OK;
}

/* One call of a function of its own; *theirs: what came is what the library gives. */
static rp_status life(size_t i, bool *theirs, rp_error *err) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    char settings[64];
    rp_output *o = NULL;
    rp_value v = f32_of(x, 2, 2, 3), args = rp_value_tuple(&v, 1);
    (void)snprintf(settings, sizeof settings, "level=2 threads=3 backend=%s", libraries[i].name);
    rp_jit *f = jit_by(jit_options(doubled), settings);
    rp_status st = rp_jit_run(f, &args, &o, err);
    if (st == RP_OK) {
        const float *y = jit_result(o)->tensor.data;
        *theirs = y[5] == 6;
        for (int k = 0; k < 6; k++) assert_true(y[k] == x[k] * (*theirs ? 1 : 2));
    }
    rp_output_free(o);
    rp_jit_free(f);
    return st;
}

static void libraries_are_told_and_get_all_back(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        rp_error err = {0};
        bool theirs = false;
        void *lib = compiled(i);
        if (!lib) {
            print_message("skip: there is no cc\n");
            skip();
        }
        CHECK_OK(life(i, &theirs, &err), &err);
        assert_true(theirs);
        assert_int_equal(*number(lib, "threads"), 3);
        assert_int_equal(*number(lib, "type"), libraries[i].f32);
        assert_int_equal(*number(lib, "precise"), libraries[i].precise);
        assert_int_equal(*number(lib, "live"), libraries[i].opened);
        int *fails = number(lib, "fails"), *calls = number(lib, "calls"), refused = 0, failed = 0;
        for (*fails = 1, *calls = 0; *fails <= 1 || *calls >= *fails - 1; ++*fails) {
            err = (rp_error){0};
            theirs = false;
            *calls = 0;
            const rp_status st = life(i, &theirs, &err);
            assert_int_equal(*number(lib, "live"), libraries[i].opened);
            if (theirs) break;      /* none failed */
            refused += st == RP_OK; /* and the library's own code did it */
            failed += st == RP_DEVICE;
            if (st != RP_OK && !strstr(err.text, "bad day")) fail_msg("%s", err.text);
        }
        assert_true(theirs);
        assert_int_equal(refused, 3);
        assert_true(failed >= 3 && failed + refused == *fails - 1);
        assert_int_equal(dlclose(lib), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(libraries_are_told_and_get_all_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
