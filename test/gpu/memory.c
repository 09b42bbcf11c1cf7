/* On a machine with a GPU: the lines of the memory ledger are what nvidia-smi says that this process took of it. Where others use the GPU nobody
 * can tell. */
#include "support/gpu.h"
#include "support/ledgers.h"

/* Bytes, by nvidia-smi; -1: there is none. */
static long long used(void) {
    long long mib = -1;
    FILE *f =
        popen("nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits 2>&1", "r");
    if (f && fscanf(f, "%lld", &mib) != 1) mib = -1;
    if (f) (void)pclose(f);
    return mib < 0 ? -1 : mib << 20;
}

static void lines_are_what_is_gone(void **state) {
    static const char *const models[] = {"synthetic:tiny", "synthetic:smollm2-135m,dtype=bf16",
                                         "synthetic:smollm2-135m"};
    static const char *const settings[] = {"device=cuda:0", "max_model_len=2048", NULL};
    enum { IDLE = 64 << 20 };
    (void)state;
    if (used() < 0) SKIP_TEST("there is no nvidia-smi, which says what is taken of the GPU");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const long long before = used();
        if (before > IDLE) SKIP_TEST("others have %lld MB of the GPU", before >> 20);
        rp_engine *e = engine_must(models[i], settings);
        const ledger l = ledger_of(e);
        const long long after = used();
        printf(
            "%s: context %lld, weights %lld, kv %lld, steps %lld, code %lld, graphs %lld, in all "
            "%lld of %lld gone, %lld by nvidia-smi\n",
            models[i], l.context, l.weights, l.kv, l.steps, l.code, l.graphs, ledger_sum(&l),
            l.total - l.free, after - before);
        ledger_near(models[i], ledger_sum(&l), l.total - l.free);
        ledger_near("nvidia-smi", ledger_sum(&l), after - before);
        rp_engine_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_what_is_gone)};
    return cmocka_run_group_tests_name("gpu/memory", tests, NULL, NULL);
}
