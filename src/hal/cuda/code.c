#include "hal/cuda/code.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { MAX_OPTIONS = 16 };

static rp_status check(int code, const char *what, rp_error *err) {
    if (code == 0) return RP_OK;
    return rp_fail(err, RP_DEVICE, "NVRTC: %s failed with code %d", what, code);
}

/* Where the log says error, with or without a number: names of ops hold the word, too. */
static const char *find_error(const char *log) {
    const char *plain = strstr(log, " error: "), *numbered = strstr(log, " error #");
    return !plain || (numbered && numbered < plain) ? numbered : plain;
}

/* The number behind the name of the source that the line of a log begins with; 0: it has none. */
static uint32_t line_of(const char *log, const char *name) {
    size_t n = strlen(name);
    uint32_t line = 0;
    if (strncmp(log, name, n) != 0 || (log[n] != '(' && log[n] != ':')) return 0;
    for (const char *p = log + n + 1; *p >= '0' && *p <= '9' && line < 1u << 24; p++)
        line = line * 10 + (uint32_t)(*p - '0');
    return line;
}

static bool in_name(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Behind __global__: attributes with arguments, whose names begin with __ or RK_, come before the name. */
static const char *name_behind(const char *p, size_t *n) {
    for (; *p; p += *n ? *n : 1) {
        *n = 0;
        while (in_name(p[*n])) ++*n;
        if (*n == 0 || p[*n] != '(') continue;
        if (strncmp(p, "__", 2) != 0 && strncmp(p, "RK_", 3) != 0) return p;
        *n += strcspn(p + *n, ")");
    }
    *n = 0;
    return p;
}

/* The kernel that has this line of the text, or, behind its end, the next one: functions that a kernel calls stand in front of it. NULL:
 * none has. */
static const char *kernel_at(const char *text, uint32_t line, size_t *n) {
    static const char mark[] = "__global__";
    const char *begin = text, *at = NULL, *next = strstr(text, mark);
    for (uint32_t i = 1; i < line && *begin; i++) {
        begin += strcspn(begin, "\n");
        begin += *begin == '\n';
    }
    const char *behind = begin + strcspn(begin, "\n");
    for (; next && next < behind; next = strstr(next + 1, mark)) at = next;
    const char *end = at ? strstr(at, "\n}") : NULL;
    if (next && (!at || (end && end + 1 < begin))) at = next;
    if (!at || line == 0) return NULL;
    at = name_behind(at + sizeof mark - 1, n);
    return *n ? at : NULL;
}

/* The first line of the log that says error, else its first line. */
static rp_status refuse(const cuda_nvrtc *rtc, void *program, const cuda_source *source, int code,
                        rp_error *err) {
    size_t size = 0;
    char *log = NULL;
    if (rtc->log_size(program, &size) == 0) log = base_alloc(size + 1);
    if (log && rtc->log(program, log) != 0) log[0] = 0;
    const char *at = log ? find_error(log) : NULL;
    while (at && at > log && at[-1] != '\n') at--;
    if (!at) at = log ? log : "";
    size_t n = 0;
    const char *kernel = kernel_at(source->text, line_of(at, source->name), &n);
    rp_status st = rp_fail(err, RP_INVALID, "NVRTC does not compile %s%.*s (code %d): %.*s",
                           kernel ? "kernel " : source->name, (int)n, kernel ? kernel : "", code,
                           (int)strcspn(at, "\n"), at);
    base_free(log);
    return st;
}

static rp_status take_cubin(const cuda_nvrtc *rtc, void *program, char **cubin, size_t *size,
                            rp_error *err) {
    size_t n = 0;
    RP_TRY(check(rtc->cubin_size(program, &n), "size of the code", err));
    char *p = base_alloc(n);
    if (!p) return rp_fail(err, RP_NOMEM, "no memory for %zu bytes of code", n);
    rp_status st = check(rtc->cubin(program, p), "taking the code", err);
    if (st != RP_OK) {
        base_free(p);
        return st;
    }
    *cubin = p;
    *size = n;
    return RP_OK;
}

rp_status cuda_compile(const cuda_nvrtc *rtc, const cuda_source *source, const char *const *options,
                       char **cubin, size_t *size, rp_error *err) {
    char target[32];
    const char *all[MAX_OPTIONS] = {target, "-default-device"};
    int n = 2;
    void *program = NULL;
    (void)snprintf(target, sizeof target, "-arch=%s", source->arch);
    while (options && *options && n < MAX_OPTIONS) all[n++] = *options++;
    if (options && *options)
        return rp_fail(err, RP_INVALID, "%s: more than %d options", source->name, MAX_OPTIONS - 2);
    RP_TRY(check(rtc->program_new(&program, source->text, source->name, 0, NULL, NULL),
                 "a new program", err));
    int code = rtc->compile(program, n, all);
    rp_status st = code ? refuse(rtc, program, source, code, err)
                        : take_cubin(rtc, program, cubin, size, err);
    (void)rtc->program_free(&program);
    return st;
}

rp_status cuda_code_load(const cuda_driver *cu, const char *cubin, void **module, rp_error *err) {
    void *m = NULL;
    RP_TRY(cuda_check(cu, cu->module_load(&m, cubin), "loading code into the GPU", err));
    *module = m;
    return RP_OK;
}

rp_status cuda_code_kernel(const cuda_driver *cu, void *module, const char *name, size_t shared,
                           void **function, rp_error *err) {
    void *f = NULL;
    RP_TRY(cuda_check(cu, cu->module_function(&f, module, name), name, err));
    RP_TRY(cuda_check(cu, cu->function_set(f, CUDA_FUNCTION_MAX_SHARED, (int)shared), name, err));
    RP_TRY(cuda_check(cu, cu->function_set(f, CUDA_FUNCTION_LARGE_CLUSTER, 1), name, err));
    RP_TRY(cuda_check(cu, cu->function_set(f, CUDA_FUNCTION_CARVEOUT, 100), name, err));
    *function = f;
    return RP_OK;
}
