/* OpenVINO and ONNX Runtime as small libraries that this test compiles: what they are told, that each of their calls may fail, and that
 * all that they gave is given back. Their models give what they are given. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/session.h"
#include "base/file.h"
#include "base/spawn.h"
#include "support/jits.h"
#include "support/trees.h"

/* Both: `live` things that were given, the call of number `fails` fails. */
#define COMMON                                                        \
    "#include <stdarg.h>\n#include <stdint.h>\n#include <stdlib.h>\n" \
    "#include <string.h>\n"                                           \
    "int live, calls, fails, threads, type, precise, more;\n"         \
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
    "  static const int bytes[] = {[1] = 1, 2, 2, 4, 8, [7] = 1, 2, 4, 8, [16] = 1};\n"
    "  int64_t n = bytes[t];\n  for (int64_t i = 0; i < s.rank; i++) n *= s.dims[i];\n"
    "  if (!data) return -1;\n"
    "  type = t;\n  take(data, n);\n  GIVES;\n}\n"
    "int ov_infer_request_set_tensor(void *r, const char *name, const void *t) {\n"
    "  return fails_now() || strcmp(name, \"in0\");\n}\n"
    "int ov_infer_request_get_tensor(const void *r, const char *name, void **out) {\n"
    "  if (strcmp(name, \"out0\")) return -1;\n  GIVES;\n}\n"
    "int ov_infer_request_infer(void *r) { return fails_now(); }\n"
    "int ov_tensor_get_byte_size(const void *t, size_t *n) { *n = size + more; return fails_now(); "
    "}\n"
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
    "  if (fails_now() || !data) return made();\n"
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

/* A library of this text; false: there is no compiler. */
static bool made_of(const char *text, const char *name, char so[600]) {
    char c[600];
    rp_error err = {0};
    int code = 1;
    char *cc = base_find_program("cc");
    base_free(cc);
    if (!cc) return false;
    const char *folder = tree_new(name);
    (void)snprintf(c, sizeof c, "%s/fake.c", folder);
    (void)snprintf(so, 600, "%s/fake.so", folder);
    CHECK_OK(base_file_write_atomic(c, text, strlen(text), &err), &err);
    const char *const argv[] = {"cc", "-w", "-shared", "-fPIC", c, "-o", so, NULL};
    CHECK_OK(base_spawn(argv, NULL, &code, &err), &err);
    assert_int_equal(code, 0);
    return true;
}

/* A handle of the library that the backend opens, too; NULL: there is no compiler. The file is the same at each call, once it is open. */
static void *compiled(size_t i) {
    static char so[2][600];
    if (!*so[i] && !made_of(libraries[i].text, libraries[i].name, so[i])) return NULL;
    assert_int_equal(setenv(libraries[i].variable, so[i], 1), 0);
    void *lib = dlopen(so[i], RTLD_NOW | RTLD_LOCAL);
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
            if (strchr(err.text, '\n')) fail_msg("%s", err.text);
            if (st != RP_OK && i == 0) assert_non_null(strstr(err.text, "bad day: of all"));
        }
        assert_true(theirs);
        assert_int_equal(refused, 3);
        assert_true(failed >= 3 && failed + refused == *fails - 1);
        assert_int_equal(dlclose(lib), 0);
    }
}

/* Each type and any size, by name of its place; what a library gives that is of another size is not taken. */
static void libraries_are_told_types(void **state) {
    static const struct {
        rp_dtype t;
        int openvino, onnx;
    } types[] = {{RP_DTYPE_BOOL, 1, 9}, {RP_DTYPE_BF16, 2, 16}, {RP_DTYPE_F16, 3, 10},
                 {RP_DTYPE_F32, 4, 1},  {RP_DTYPE_F64, 5, 11},  {RP_DTYPE_I8, 7, 3},
                 {RP_DTYPE_I16, 8, 5},  {RP_DTYPE_I32, 9, 6},   {RP_DTYPE_I64, 10, 7},
                 {RP_DTYPE_U8, 16, 2}};
    static const backend_library *const by[] = {&backend_openvino, &backend_onnxrt};
    static char text[] = "a model";
    const backend_model model = {.data = text, .n = sizeof text};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rp_error err = {0};
        void *lib = compiled(i), *loaded = NULL;
        if (!lib) skip();
        *number(lib, "fails") = 0;
        CHECK_OK(by[i]->ready(&err), &err);
        CHECK_OK(by[i]->load(&model, 2, &loaded, &err), &err);
        assert_int_equal(*number(lib, "threads"), 2);
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            for (int64_t n = 0; n < 4; n += 3) {
                char from[64], to[64] = "";
                const size_t bytes = (size_t)n * 2 * rp_dtype_block_bytes(types[k].t);
                memset(from, 'x', sizeof from);
                const rp_buffer in = {types[k].t, 2, {n, 2}, n ? from : NULL};
                rp_buffer out = {types[k].t, 2, {n, 2}, n ? to : NULL};
                CHECK_OK(by[i]->run(loaded, &in, 1, &out, 1, &err), &err);
                assert_int_equal(*number(lib, "type"), i ? types[k].onnx : types[k].openvino);
                assert_memory_equal(to, from, bytes);
                assert_int_equal(to[bytes], 0);
            }
        for (int more = -1; more <= 1 && i == 0; more += 2) {
            float x[2] = {1, 2}, y[2];
            const rp_buffer in = {RP_DTYPE_F32, 1, {2}, x};
            rp_buffer out = {RP_DTYPE_F32, 1, {2}, y};
            *number(lib, "more") = more;
            assert_int_equal(by[i]->run(loaded, &in, 1, &out, 1, &err), RP_DEVICE);
            assert_string_equal(err.text, more < 0 ? "OpenVINO gave 7 bytes for out0; it has 8"
                                                   : "OpenVINO gave 9 bytes for out0; it has 8");
            *number(lib, "more") = 0;
            err = (rp_error){0};
        }
        by[i]->unload(loaded);
        assert_int_equal(*number(lib, "live"), libraries[i].opened);
        assert_int_equal(dlclose(lib), 0);
    }
}

/* What it says when it cannot be opened, in a process of its own: it is opened once. */
static void libraries_that_cannot_be_used_are_told(void **state) {
    static const struct {
        size_t library;
        const char *text; /* NULL: there is no such file */
        const char *want;
    } all[] = {
        {0, NULL, "there-is-none.so cannot be loaded: "},
        {0, "int ov_core_create;\n", "this OpenVINO has no ov_core_free; install another one"},
        {1, NULL, "there-is-none.so cannot be loaded: "},
        {1, "int x;\n", "the library has no OrtGetApiBase"},
        {1,
         "static const void *api(unsigned v) { return 0; }\n"
         "static const char *version(void) { return \"0.9\"; }\n"
         "static void *base[2] = {api, version};\n"
         "const void *OrtGetApiBase(void) { return base; }\n",
         "ONNX Runtime 0.9 has no version 1 of its functions"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char so[600];
        const size_t k = all[i].library;
        if (all[i].text) {
            if (!made_of(all[i].text, "useless", so)) skip();
        } else {
            (void)snprintf(so, sizeof so, "/there-is-none.so");
        }
        const pid_t child = fork();
        if (child == 0) {
            rp_error err = {0};
            const backend_library *by = k ? &backend_onnxrt : &backend_openvino;
            if (setenv(libraries[k].variable, so, 1) != 0) _exit(3);
            const bool refused = by->ready(&err) == RP_UNSUPPORTED;
            const bool told = strstr(err.text, all[i].want) && strstr(err.text, "; install ") &&
                              strstr(err.text, libraries[k].variable);
            if (!refused || !told) (void)fprintf(stderr, "%s\n", err.text);
            _exit(refused && told ? 0 : 4);
        }
        int status = -1;
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        if (status != 0) fail_msg("no '%s'", all[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_that_cannot_be_used_are_told), /* before one is opened here */
        cmocka_unit_test(libraries_are_told_and_get_all_back),
        cmocka_unit_test(libraries_are_told_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
