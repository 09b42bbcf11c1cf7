/* What the cache says of a plan is what its engine has, and what lies in the folder. */
#include "support/check.h"

#include <sys/stat.h>

#include "engine/engine.h"
#include "reprise/cache.h"
#include "support/engines.h"
#include "support/trees.h"

typedef struct listed {
    uint32_t plans;
    uint64_t code, weights, size;
    char model[200];
} listed;

static bool note(void *user, const rp_cache_entry *e) {
    listed *l = user;
    assert_true(e->ok);
    if (strcmp(e->kind, "plan") != 0) return true;
    l->plans++;
    l->code = e->code_size;
    l->weights = e->weights_size;
    l->size = e->size;
    (void)snprintf(l->model, sizeof l->model, "%s", e->model ? e->model : "");
    return true;
}

/* Bytes of all files below dir/part whose names end so. */
static uint64_t bytes_below(const char *dir, const char *part, const char *end) {
    char path[600];
    struct stat info;
    uint64_t sum = 0;
    tree_list l = tree_files(dir);
    for (size_t i = 0; i < l.n; i++) {
        size_t n = strlen(l.path[i]), k = strlen(end);
        if (strncmp(l.path[i], part, strlen(part)) != 0 || n < k ||
            strcmp(l.path[i] + n - k, end) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, l.path[i]);
        assert_int_equal(stat(path, &info), 0);
        sum += (uint64_t)info.st_size;
    }
    tree_list_free(&l);
    return sum;
}

static void a_plan_is_listed_with_its_parts(void **state) {
    static const char *const models[] = {"synthetic:tiny,layers=1", "synthetic:tiny,dtype=bf16"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char dir[256], setting[300];
        rp_cache *c = NULL;
        rp_error err = {0};
        listed l = {0};
        (void)snprintf(dir, sizeof dir, "%s", tree_new(i ? "floats" : "blocks"));
        (void)snprintf(setting, sizeof setting, "cache_dir=%s", dir);
        rp_engine *e =
            engine_must(models[i], (const char *[]){setting, "level=3", "max_num_seqs=2",
                                                    "max_num_batched_tokens=8", "max_model_len=32",
                                                    "cudagraph_mode=FULL", NULL});
        CHECK_OK(rp_cache_open(dir, &c, &err), &err);
        CHECK_OK(rp_cache_list(c, true, note, &l, &err), &err);
        assert_int_equal(l.plans, 1);
        assert_int_equal(l.weights, e->plans.model->weights_size + e->plans.head->weights_size);
        assert_true(e->plans.head->weights_size > 0);
        assert_int_equal(l.code, bytes_below(dir, "objects/code/", ".so"));
        assert_true(l.code > 0);
        assert_int_equal(l.size, bytes_below(dir, "objects/plan/", ""));
        if (!strstr(l.model, "synthetic:tiny")) fail_msg("the model is '%s'", l.model);
        rp_cache_close(c);
        rp_engine_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_plan_is_listed_with_its_parts)};
    return cmocka_run_group_tests_name("unit/engine_listed", tests, NULL, NULL);
}
