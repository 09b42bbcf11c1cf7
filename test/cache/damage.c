/* Every byte of every small cache file flipped, and every length cut off; a sample of the large ones: what is read is a miss
 * or the same, the tokens stay the same, and what was damaged is put right. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/stored_cc.h"
#include "support/trees.h"

enum { N_OUT = 5, LARGE_SAMPLES = 24, DEEP = 6 };
static const char *const how[] = {"level=3",
                                  "max_num_seqs=2",
                                  "max_num_batched_tokens=8",
                                  "max_model_len=32",
                                  "threads=1",
                                  "cudagraph_mode=FULL",
                                  NULL};
static const int32_t prompt[] = {10, 20, 30, 40, 50};
static int32_t expected[N_OUT];
static char full[512], work[512];

/* ---- one object, looked up as the engine does ---------------------------------------------------------------- */

typedef struct object {
    const char *path; /* below the folder */
    cache_kind kind;
    const char *text; /* name of a text beside a plan; NULL: an object */
    base_hash128 key;
    uint32_t isa; /* code */
    uint8_t *data;
    size_t size;
} object;

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static void find_isa(object *o) {
    char sum[600];
    size_t n, stem = strlen(o->path) - strlen(strrchr(o->path, '.'));
    (void)snprintf(sum, sizeof sum, "%.*s.sum", (int)stem, o->path);
    uint8_t *head = tree_read(full, sum, &n);
    assert_true(n >= 28);
    memcpy(&o->isa, head + 24, sizeof o->isa);
    free(head);
}

static object object_of(const char *path) {
    enum { TEXTS = 4 };
    static const char *const folders[] = {"objects/plan/", "objects/code/", "objects/weights/",
                                          "objects/tuning/", "plans/"};
    static const cache_kind kinds[] = {CACHE_PLAN, CACHE_CODE, CACHE_WEIGHTS, CACHE_TUNING,
                                       CACHE_PLAN};
    object o = {.path = path};
    unsigned long long hi = 0, lo = 0;
    int i = 0;
    while (i <= TEXTS && strncmp(path, folders[i], strlen(folders[i])) != 0) i++;
    if (i > TEXTS || sscanf(path + strlen(folders[i]), "%16llx%16llx", &hi, &lo) != 2)
        fail_msg("what is %s in a cache folder?", path);
    o.kind = kinds[i];
    o.key = (base_hash128){.lo = lo, .hi = hi};
    if (i == TEXTS) o.text = strrchr(path, '/') + 1;
    if (o.kind == CACHE_CODE) find_isa(&o);
    o.data = tree_read(full, path, &o.size);
    return o;
}

static rp_status look_up_text(cache_store *s, const object *o, rp_error *err) {
    char name[64];
    char *out = NULL;
    size_t n = strlen(o->text) - (ends_with(o->text, ".xxh128") ? 7 : 0);
    (void)snprintf(name, sizeof name, "%.*s", (int)n, o->text);
    rp_status st = cache_get_text(s, o->key, name, &out, err);
    base_free(out);
    return st;
}

static rp_status look_up(cache_store *s, const object *o) {
    rp_error err = {0};
    char *out = NULL;
    size_t size = 0;
    base_mapping map = {0};
    const uint8_t *payload;
    rp_status st;
    if (o->text) return look_up_text(s, o, &err);
    switch (o->kind) {
    case CACHE_CODE: st = cache_get_code(s, o->key, o->isa, &out, &err); break;
    case CACHE_PLAN:
    case CACHE_TUNING: st = cache_get(s, o->kind, o->key, &out, &size, &err); break;
    default: st = cache_map(s, o->kind, o->key, true, &map, &payload, &size, &err); break;
    }
    base_free(out);
    base_file_unmap(&map);
    return st;
}

/* ---- damage ------------------------------------------------------------------------------------------------ */

/* Quarantine moves the damaged file, and for code its companion too: all files of the object come back. */
static void restore(const tree_list *l) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/quarantine", work);
    tree_remove(path);
    tree_write(work, "quarantine/x", "", 0);
    for (size_t i = 0; i < l->n; i++) {
        size_t n;
        uint8_t *data = tree_read(full, l->path[i], &n);
        tree_write(work, l->path[i], data, n);
        free(data);
    }
}

static void restore_one(const object *o) {
    char sum[600];
    size_t n;
    tree_write(work, o->path, o->data, o->size);
    if (o->kind != CACHE_CODE && !o->text) return;
    if (o->text)
        (void)snprintf(sum, sizeof sum, "%.*s%s",
                       (int)strlen(o->path) - (ends_with(o->path, ".xxh128") ? 7 : 0), o->path,
                       ends_with(o->path, ".xxh128") ? "" : ".xxh128");
    else
        (void)snprintf(sum, sizeof sum, "%.*s%s", (int)(strrchr(o->path, '.') - o->path), o->path,
                       ends_with(o->path, ".so") ? ".sum" : ".so");
    uint8_t *data = tree_read(full, sum, &n);
    tree_write(work, sum, data, n);
    free(data);
}

static void check_miss(cache_store *s, const object *o, const uint8_t *bytes, size_t size,
                       const char *what, size_t at) {
    tree_write(work, o->path, bytes, size);
    rp_status st = look_up(s, o);
    if (st != RP_NOT_FOUND)
        fail_msg("%s %s at %d: %s, not a miss", o->path, what, (int)at, rp_status_name(st));
    restore_one(o);
}

static void damage_object(const object *o, size_t step) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(cache_store_open(work, &s, &err), &err);
    assert_int_equal(look_up(s, o), RP_OK);
    for (size_t i = 0; i < o->size; i += step) {
        uint8_t keep = o->data[i];
        o->data[i] = (uint8_t)(keep ^ (1u << (i % 8)));
        uint8_t *bad = malloc(o->size);
        assert_non_null(bad);
        memcpy(bad, o->data, o->size);
        o->data[i] = keep;
        check_miss(s, o, bad, o->size, "flipped", i);
        check_miss(s, o, o->data, i, "cut", i);
        free(bad);
    }
    assert_int_equal(look_up(s, o), RP_OK);
    cache_store_close(s);
}

static bool is_large(const object *o) {
    return !o->text && (o->kind == CACHE_WEIGHTS || ends_with(o->path, ".so"));
}

static void every_byte_is_guarded(void **state) {
    tree_list l = tree_files(full);
    size_t small = 0;
    (void)state;
    for (size_t i = 0; i < l.n; i++) {
        object o = object_of(l.path[i]);
        restore(&l);
        damage_object(&o, is_large(&o) ? o.size / LARGE_SAMPLES | 1 : 1);
        small += is_large(&o) ? 0 : o.size;
        free(o.data);
    }
    printf("%zu files, %zu bytes in small ones\n", l.n, small);
    assert_true(l.n >= 1 + 2 * 3 + 1 + 4);
    tree_list_free(&l);
}

/* ---- a whole engine over a damaged folder -------------------------------------------------------------------- */

static void check_engine(const object *o, const char *what, size_t at) {
    int32_t out[N_OUT];
    rp_error err = {0};
    size_t live = base_live();
    rp_engine *e = engine_with("synthetic:tiny,layers=1", how, &err);
    if (!e) fail_msg("%s %s at %d: %s", o->path, what, (int)at, err.text);
    assert_int_equal(engine_greedy(e, prompt, 5, N_OUT, out), N_OUT);
    if (memcmp(out, expected, sizeof out) != 0)
        fail_msg("%s %s at %d: other tokens", o->path, what, (int)at);
    rp_engine_close(e);
    assert_int_equal(base_live(), live);
    if (o->text) return; /* nothing reads it back */
    size_t n;
    uint8_t *now = tree_read(work, o->path, &n);
    if (n != o->size || memcmp(now, o->data, n) != 0)
        fail_msg("%s %s at %d: not put right", o->path, what, (int)at);
    free(now);
}

static void engines_get_over_damage(void **state) {
    tree_list l = tree_files(full);
    (void)state;
    for (size_t i = 0; i < l.n; i++) {
        object o = object_of(l.path[i]);
        size_t step = o.size / DEEP + 1;
        for (size_t at = 0; at < o.size; at += step) {
            restore(&l);
            uint8_t keep = o.data[at];
            o.data[at] = (uint8_t)~keep;
            tree_write(work, o.path, o.data, o.size);
            o.data[at] = keep;
            check_engine(&o, "flipped", at);
            restore(&l);
            tree_write(work, o.path, o.data, at);
            check_engine(&o, "cut", at);
        }
        free(o.data);
    }
    tree_list_free(&l);
}

/* One file after the other is missing. */
static void engines_get_over_loss(void **state) {
    tree_list l = tree_files(full);
    (void)state;
    for (size_t i = 0; i < l.n; i++) {
        char path[1100];
        object o = object_of(l.path[i]);
        restore(&l);
        (void)snprintf(path, sizeof path, "%s/%s", work, o.path);
        tree_remove(path);
        check_engine(&o, "lost", 0);
        free(o.data);
    }
    tree_list_free(&l);
}

static int set_up(void **state) {
    (void)state;
    (void)snprintf(full, sizeof full, "%s", tree_new("full"));
    (void)snprintf(work, sizeof work, "%s", tree_new("cache"));
    stored_cc_install();
    if (setenv("REPRISE_CACHE_DIR", work, 1) != 0) return -1;
    rp_engine *e = engine_must("synthetic:tiny,layers=1", how);
    uint32_t n = engine_greedy(e, prompt, 5, N_OUT, expected);
    rp_engine_close(e);
    tree_copy(work, full);
    return n == N_OUT ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_guarded),
        cmocka_unit_test(engines_get_over_damage),
        cmocka_unit_test(engines_get_over_loss),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
