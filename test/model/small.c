/* Memory: the real model with 2048 tokens in the KV cache, cold (packing, compiling) and warm, each in a process of its own
 * (this program starts itself): the high-water mark is at most the file's size and 150 MB. */
#include "support/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/engines.h"
#include "support/trees.h"

enum { N_TOKENS = 2048, N_OUT = 8, ALLOWED = 150 * 1000 * 1000 };
static char self[512];

static long long high_water(void) {
    char line[256];
    long long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0) kb = strtoll(line + 6, NULL, 10);
    if (f) (void)fclose(f);
    return kb * 1024;
}

/* Prints: bytes, compiles, tokens computed. */
static int child(const char *model) {
    static int32_t prompt[N_TOKENS - N_OUT], out[N_OUT];
    rp_error err = {0};
    rp_engine *e = engine_with(
        model, (const char *[]){"max_model_len=2048", "threads=2", "sealed=fatal", NULL}, &err);
    if (!e) {
        printf("error %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < N_TOKENS - N_OUT; i++) prompt[i] = 1000 + i * 7919 % 40000;
    uint32_t n = engine_greedy(e, prompt, N_TOKENS - N_OUT, N_OUT, out);
    printf("%lld %lld %lld\n", high_water(), engine_count(e, "compiles"),
           engine_count(e, "tokens"));
    rp_engine_close(e);
    return n == N_OUT ? 0 : 1;
}

typedef struct report {
    long long bytes, compiles, tokens;
} report;

static report run_child(const char *model) {
    char dir[600], out[640], *text, *at;
    size_t size;
    int status = 0;
    report r;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("out"));
    (void)snprintf(out, sizeof out, "%s/said", dir);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(out, O_WRONLY | O_CREAT, 0600);
        if (fd < 0 || dup2(fd, 1) < 0) _exit(126);
        (void)execl(self, self, "child", model, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    text = (char *)tree_read(dir, "said", &size);
    text[size] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("status %x: %s", (unsigned)status, text);
    r.bytes = strtoll(text, &at, 10);
    r.compiles = strtoll(at, &at, 10);
    r.tokens = strtoll(at, &at, 10);
    free(text);
    return r;
}

static void check(const char *what, const report *r, const char *model) {
    struct stat st;
    assert_int_equal(stat(model, &st), 0);
    printf("%s: %lld MB, file %lld MB, over it %lld MB\n", what, r->bytes / 1000000,
           (long long)st.st_size / 1000000, (r->bytes - (long long)st.st_size) / 1000000);
    assert_true(r->tokens >= N_TOKENS - 1);
    assert_true(r->bytes > 0);
    if (r->bytes > (long long)st.st_size + ALLOWED)
        fail_msg("%s: %lld bytes, %lld more than the file", what, r->bytes,
                 r->bytes - (long long)st.st_size);
}

static void stays_small(void **state) {
    const char *model = getenv("REPRISE_TEST_MODEL");
    (void)state;
    if (!model) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP_TEST("a sanitizer's own memory is in the high-water mark");
#endif
    /* Files in memory would count as the process's own once mapped, as any page cache does. */
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) fail();
    report cold = run_child(model);
    assert_true(cold.compiles > 0);
    check("cold", &cold, model);
    report warm = run_child(model);
    assert_int_equal(warm.compiles, 0);
    check("warm", &warm, model);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "child") == 0) return child(argv[2]);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(stays_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
