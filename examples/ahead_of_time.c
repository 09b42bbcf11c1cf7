/* Compiles in one process and loads in others: each step below is a process of its own, and tells how often a compiler ran in it, how often the model
 * was traced, and a sum of what it computed. The cache folder is copied as it is, and carried as one file, to places where nothing compiles
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <reprise/reprise.h>

enum { ROWS = 24, DIM = 32 };

/* args: (x[n, DIM], w[DIM, DIM]) */
static rp_status layer(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), w = rp_jit_tensor(call, &args->item[1]);
    *result = rp_jit_value(call, rp_softmax(rp_silu(rp_linear(x, w)), -1));
    (void)user, (void)err;
    return RP_OK;
}

static unsigned compiler_runs;

/* "... done compiling FORWARDS graph of layer (2 kernels, 1 compiler runs, ...)" */
static void count(void *user, rp_log_level level, const char *text) {
    const char *at = strstr(text, " compiler runs");
    (void)user, (void)level;
    while (at && at > text && at[-1] >= '0' && at[-1] <= '9') at--;
    if (at) compiler_runs += (unsigned)strtoul(at, NULL, 10);
}

/* The function for two sizes, of which the second makes the first a symbol. */
static rp_status run_function(const char *folder, rp_error *err) {
    static float x[ROWS * DIM], w[DIM * DIM];
    static const int64_t rows[] = {8, 16, ROWS};
    double sum = 0;
    rp_jit *f = NULL;
    rp_jit_info info = RP_JIT_INFO_INIT;
    rp_jit_options o = RP_JIT_OPTIONS(layer);
    rp_compilation_config *config = rp_config_new();
    o.config = config;
    for (int i = 0; i < ROWS * DIM; i++) x[i] = (float)(i % 11) / 8;
    for (int i = 0; i < DIM * DIM; i++) w[i] = (float)(i % 13) / 64;
    rp_log_set_callback(count, NULL);
    rp_status st = config ? rp_config_set_key(config, "cache_dir", folder, err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set(config, "level=2", err);
    if (st == RP_OK) st = rp_log_set_channels("inductor", err);
    if (st == RP_OK) st = rp_jit_new(&o, &f, err);
    for (size_t i = 0; st == RP_OK && i < sizeof rows / sizeof *rows; i++) {
        float y[ROWS * DIM];
        rp_buffer a = {RP_DTYPE_F32, 2, {rows[i], DIM}, x}, b = {RP_DTYPE_F32, 2, {DIM, DIM}, w};
        rp_value item[] = {rp_value_tensor(a), rp_value_tensor(b)}, args = rp_value_tuple(item, 2);
        rp_buffer out = {RP_DTYPE_F32, 2, {rows[i], DIM}, y};
        st = rp_jit_run_into(f, &args, &out, 1, err);
        for (int64_t k = 0; st == RP_OK && k < rows[i] * DIM; k++) sum += (double)y[k] * (double)k;
    }
    if (st == RP_OK) st = rp_jit_get_info(f, &info, err);
    if (st == RP_OK)
        printf("function: %u compiler runs, %u entries, sum %a\n", compiler_runs, info.entries,
               sum);
    rp_jit_free(f);
    rp_config_free(config);
    return st;
}

/* A model, as `reprise compile synthetic:tiny` does. */
static rp_status run_model(const char *folder, rp_error *err) {
    static const char *const want[] = {"\"traces\":", "\"compiles\":"};
    char *summary = NULL;
    int got[2] = {-1, -1};
    rp_engine *e = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = "synthetic:tiny";
    o.no_capture = true;
    o.config = rp_config_new();
    rp_log_set_callback(NULL, NULL);
    rp_status st = o.config ? rp_config_set_key(o.config, "cache_dir", folder, err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set_olevel(o.config, 2, err);
    if (st != RP_OK) {
        rp_config_free(o.config);
        return st;
    }
    st = rp_engine_open(&o, &e, err);
    if (st == RP_OK) st = rp_engine_summary(e, &summary, err);
    for (int i = 0; st == RP_OK && i < 2; i++) {
        const char *at = strstr(summary, want[i]);
        if (at) got[i] = (int)strtol(at + strlen(want[i]), NULL, 10);
    }
    if (st == RP_OK) printf("model: %d traces, %d compiles\n", got[0], got[1]);
    rp_engine_text_free(summary);
    rp_engine_close(e);
    return st;
}

static int in_another_process(const char *title, const char *folder) {
    int status = 0;
    printf("%s\n", title);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        rp_error err = {0};
        rp_status st = run_function(folder, &err);
        if (st == RP_OK) st = run_model(folder, &err);
        if (st != RP_OK) fprintf(stderr, "ahead_of_time: %s\n", err.text);
        (void)fflush(stdout);
        _exit(rp_status_exit_code(st));
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* What `reprise cache export FILE` and `import FILE` do. */
static rp_status carry(const char *from, const char *to, const char *file, rp_error *err) {
    uint64_t files = 0, bytes = 0;
    rp_cache *a = NULL, *b = NULL;
    rp_status st = rp_cache_open(from, &a, err);
    if (st == RP_OK) st = rp_cache_export(a, file, &files, &bytes, err);
    if (st == RP_OK) st = rp_cache_open(to, &b, err);
    if (st == RP_OK) st = rp_cache_import(b, file, &files, &bytes, err);
    rp_cache_close(a);
    rp_cache_close(b);
    return st;
}

int main(void) {
    char folder[256], clean[300];
    const char *base = getenv("TMPDIR");
    rp_error err = {0};
    (void)snprintf(folder, sizeof folder, "%s/ahead_of_time.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    int rc = in_another_process("first process", "cache");
    if (rc == 0) rc = in_another_process("second process", "cache");
    if (rc == 0) rc = system("cp -r cache copied") != 0;
    if (rc == 0) rc = in_another_process("the folder copied to another place", "copied");
    if (rc == 0) rc = rp_status_exit_code(carry("cache", "carried", "bundle", &err));
    if (*err.text) fprintf(stderr, "ahead_of_time: %s\n", err.text);
    if (rc == 0) rc = in_another_process("the folder as one file, imported elsewhere", "carried");
    (void)snprintf(clean, sizeof clean, "rm -rf '%s'", folder);
    return system(clean) == 0 ? rc : 1;
}
