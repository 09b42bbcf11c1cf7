/* Packed weights in use: every byte is checked before the first step and can be checked again, their key holds what decides
 * them, and rope tables are what they were when they were stored. */
#include "support/check.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "base/file.h"
#include "cache/factors.h"
#include "engine/engine.h"
#include "engine/resident.h"
#include "engine/rope.h"
#include "engine/weights.h"
#include "model/llama.h"
#include "support/engines.h"
#include "support/gguf.h"
#include "support/stored_cc.h"
#include "support/trees.h"

/* --- bytes ---------------------------------------------------------------------- */

enum { CHUNKS = 70, SIZE = CHUNKS * CACHE_CHUNK + 17 };
static const base_hash128 key = {.lo = 3, .hi = 4};

static cache_store *open_store(void) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(cache_store_open(tree_new("store"), &s, &err), &err);
    return s;
}

/* An object whose chunks are all different, mapped. */
static base_mapping put_object(cache_store *s, const uint8_t **payload) {
    rp_error err = {0};
    cache_writer *w = NULL;
    base_mapping file = {0};
    uint8_t *data = base_alloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)(i + i / 251 + i / CACHE_CHUNK);
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, SIZE, &w, &err), &err);
    CHECK_OK(cache_writer_add(w, data, SIZE, &err), &err);
    CHECK_OK(cache_writer_commit(w, &file, payload, &err), &err);
    cache_writer_free(w);
    base_free(data);
    return file;
}

static base_mapping map_object(cache_store *s, const uint8_t **payload) {
    rp_error err = {0};
    base_mapping file = {0};
    size_t size = 0;
    CHECK_OK(cache_map(s, CACHE_WEIGHTS, key, false, &file, payload, &size, &err), &err);
    assert_int_equal(size, SIZE);
    return file;
}

static void flip(cache_store *s, size_t at) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/objects/weights/00000000000000040000000000000003",
                   cache_store_dir(s));
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(cache_large_offset(SIZE) + at), SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(c ^ 32, f), c ^ 32);
    assert_int_equal(fclose(f), 0);
}

/* One byte in each chunk, the last and shortest too: found by one thread and by several, and told by its number. */
static void one_flipped_byte_is_found_wherever_it_is(void **state) {
    cache_store *s = open_store();
    const uint8_t *payload;
    char text[80];
    (void)state;
    base_mapping file = put_object(s, &payload);
    base_file_unmap(&file);
    for (size_t i = 0; i <= CHUNKS; i++) {
        size_t at = i * CACHE_CHUNK +
                    (i * 977 + (i == CHUNKS ? 5 : 0)) % (i == CHUNKS ? 17 : CACHE_CHUNK);
        engine_resident r = {0};
        rp_error err = {0};
        flip(s, at);
        file = map_object(s, &payload);
        assert_int_equal(engine_resident_load(&file,
                                              &(engine_resident_source){.payload = payload,
                                                                        .size = SIZE,
                                                                        .stored = true,
                                                                        .threads = 1 + i % 3},
                                              &r, &err),
                         RP_CORRUPT);
        (void)snprintf(text, sizeof text, "chunk %zu of %d", i, CHUNKS + 1);
        assert_non_null(strstr(err.text, text));
        assert_null(r.data);
        assert_null(file.data);
        flip(s, at);
    }
    cache_store_close(s);
}

/* With huge pages and without: the same bytes, and what is written over later is found. */
static void what_is_loaded_can_be_checked_again(void **state) {
    cache_store *s = open_store();
    const uint8_t *payload;
    (void)state;
    base_mapping file = put_object(s, &payload);
    for (int i = 0; i < 4; i++) {
        const bool stored = i & 1, in_place = i & 2;
        engine_resident r = {0};
        rp_error err = {0};
        if (i) file = map_object(s, &payload);
        if (in_place) base_sys_fail_nth(1); /* the first call: for huge pages */
        CHECK_OK(engine_resident_load(
                     &file,
                     &(engine_resident_source){
                         .payload = payload, .size = SIZE, .stored = stored, .threads = 2},
                     &r, &err),
                 &err);
        (void)base_sys_fail_nth(0);
        assert_int_equal(r.data[CACHE_CHUNK * 3],
                         (uint8_t)(CACHE_CHUNK * 3 + CACHE_CHUNK * 3 / 251 + 3));
        CHECK_OK(engine_resident_check(&r, &err), &err);
        if (r.huge.data) {
            ((uint8_t *)r.huge.data)[SIZE - 1] ^= 1;
            assert_int_equal(engine_resident_check(&r, &err), RP_CORRUPT);
            assert_non_null(
                strstr(err.text, "1 of 71 chunks are damaged in memory, the first is 70"));
        } else {
            assert_non_null(r.file.data);
        }
        engine_resident_done(&r);
    }
    cache_store_close(s);
}

/* What goes to a device is checked on its way, and its sums stay. */
static void a_device_gets_checked_bytes(void **state) {
    cache_store *s = open_store();
    const uint8_t *payload;
    hal_device *d = NULL;
    void *room = NULL;
    engine_resident r = {0};
    rp_error err = {0};
    (void)state;
    base_mapping file = put_object(s, &payload);
    CHECK_OK(hal_null_open(&d, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, SIZE, &room, &err), &err);
    engine_resident_source from = {payload, SIZE, true, 3, d, room};
    uint8_t *want = base_alloc(SIZE);
    assert_non_null(want);
    memcpy(want, payload, SIZE);
    CHECK_OK(engine_resident_load(&file, &from, &r, &err), &err);
    assert_memory_equal(room, want, SIZE);
    assert_null(r.data);
    r.data = room;
    CHECK_OK(engine_resident_check(&r, &err), &err);
    engine_resident_done(&r);
    flip(s, SIZE - 1);
    file = map_object(s, &payload);
    from.payload = payload;
    assert_int_equal(engine_resident_load(&file, &from, &r, &err), RP_CORRUPT);
    assert_non_null(strstr(err.text, "chunk 70 of 71"));
    base_free(want);
    d->ops->release(d, room, SIZE);
    hal_close(d);
    cache_store_close(s);
}

/* --- an engine over a damaged object --------------------------------------------- */

enum { N_OUT = 6 };

static rp_engine *open_engine(const char *dir, int32_t out[N_OUT]) {
    static const int32_t prompt[] = {10, 20, 30};
    char where[600];
    (void)snprintf(where, sizeof where, "cache_dir=%s", dir);
    const char *settings[] = {where,
                              "level=3",
                              "threads=2",
                              "max_num_seqs=2",
                              "max_model_len=32",
                              "max_num_batched_tokens=8",
                              NULL};
    /* more chunks than any sample would look at */
    rp_engine *e = engine_must("synthetic:tiny,layers=96", settings);
    assert_int_equal(engine_greedy(e, prompt, 3, N_OUT, out), N_OUT);
    return e;
}

static void fifty_kilobytes_in_the_middle_change_no_token(void **state) {
    char dir[512];
    int32_t want[N_OUT], got[N_OUT];
    rp_error err = {0};
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("engine"));
    rp_engine *e = open_engine(dir, want);
    assert_true(engine_weights_were_packed(e->weights));
    assert_true(engine_weights_bytes(e->weights) > (size_t)32 * CACHE_CHUNK);
    rp_engine_close(e);
    tree_list l = tree_files(dir);
    for (size_t i = 0; i < l.n; i++) {
        size_t size;
        if (!strstr(l.path[i], "objects/weights/")) continue;
        uint8_t *data = tree_read(dir, l.path[i], &size);
        memset(data + size / 2, 0x5a, 50000);
        tree_write(dir, l.path[i], data, size);
        free(data);
    }
    tree_list_free(&l);
    for (int i = 0; i < 2; i++) { /* packed again, then warm */
        e = open_engine(dir, got);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(engine_weights_were_packed(e->weights), i == 0);
        CHECK_OK(engine_weights_check(e->weights, &err), &err);
        rp_engine_close(e);
    }
    l = tree_files(dir);
    bool away = false;
    for (size_t i = 0; i < l.n; i++) away |= strstr(l.path[i], "quarantine/weights-") != NULL;
    assert_true(away);
    tree_list_free(&l);
}

/* A sound object of that key, but of another size: it is none of these weights, which are packed again. */
static void weights_of_another_size_are_packed_again(void **state) {
    char dir[512], name[128] = "", path[4400] = "";
    int32_t want[N_OUT], got[N_OUT];
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("engine"));
    rp_engine_close(open_engine(dir, want));
    tree_list l = tree_files(dir);
    for (size_t i = 0; i < l.n; i++)
        if (strstr(l.path[i], "objects/weights/") && !strchr(strrchr(l.path[i], '/'), '.'))
            (void)snprintf(name, sizeof name, "%s", l.path[i]);
    tree_list_free(&l);
    assert_true(*name);
    unsigned long long hi, lo;
    assert_int_equal(sscanf(strrchr(name, '/') + 1, "%16llx%16llx", &hi, &lo), 2);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
    rp_error err = {0};
    cache_store *s = NULL;
    cache_writer *w = NULL;
    base_mapping file = {0};
    const uint8_t *payload;
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, (base_hash128){lo, hi}, 4096, &w, &err), &err);
    CHECK_OK(cache_writer_add(w, dir, 8, &err), &err);
    CHECK_OK(cache_writer_add(w, path, 4096 - 8, &err), &err);
    CHECK_OK(cache_writer_commit(w, &file, &payload, &err), &err);
    cache_writer_free(w);
    base_file_unmap(&file);
    cache_store_close(s);
    rp_engine *e = open_engine(dir, got);
    assert_memory_equal(got, want, sizeof want);
    assert_true(engine_weights_were_packed(e->weights));
    rp_engine_close(e);
}

/* The first n bytes in use, n whole pages, as memory that can be written: without huge pages they are a view of the file. */
static uint8_t *writable(rp_engine *e, size_t n) {
    uint8_t *at = (uint8_t *)(uintptr_t)engine_weights_model(e->weights);
    void *copy = base_alloc(n);
    memcpy(copy, at, n);
    assert_ptr_equal(
        mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
    memcpy(at, copy, n);
    base_free(copy);
    return at;
}

static void damage_after_loading_names_the_object(void **state) {
    char dir[512], hex[33];
    int32_t out[N_OUT];
    rp_error err = {0};
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("memory"));
    rp_engine *e = open_engine(dir, out);
    uint8_t *at = writable(e, 4096);
    CHECK_OK(engine_weights_check(e->weights, &err), &err);
    at[1000] ^= 1;
    assert_int_equal(engine_weights_check(e->weights, &err), RP_CORRUPT);
    cache_key *k = NULL;
    engine_weights_options o = {
        .source = e->source, .store = e->store, .model = e->plans.model, .head = e->plans.head};
    rp_error ignored = {0};
    CHECK_OK(engine_weights_key(&o, &k, &ignored), &ignored);
    base_hash_hex(cache_key_hash(k), hex);
    cache_key_free(k);
    assert_non_null(strstr(err.text, hex));
    assert_non_null(strstr(err.text, "the stored object is sound"));
    rp_engine_close(e);
}

/* Numbers that cannot be: the request's error names the cache, not the model. */
static void garbage_from_damaged_weights_names_the_cache(void **state) {
    char dir[512];
    int32_t out[N_OUT];
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    uint64_t id;
    bool more = true;
    const int32_t prompt[] = {10, 20, 30};
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("garbage"));
    rp_engine *e = open_engine(dir, out);
    size_t n = (size_t)e->plans.model->weights_size / 4096 * 4096;
    uint8_t *at = writable(e, n);
    memset(at, 0xff, n); /* NaN for every scale */
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.prompt_ids = prompt;
    r.n_prompt_ids = 3;
    r.max_tokens = 2;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    CHECK_OK(rp_engine_result(e, id, &res, &err), &err);
    assert_string_equal(res.finish_reason, "error");
    assert_non_null(strstr(res.error, "packed weights (cache object weights/"));
    rp_engine_release(e, id);
    rp_engine_close(e);
}

/* Each step with such numbers looks at the weights of that moment: they may be damaged by then, or no longer. */
static void each_step_looks_at_the_weights_again(void **state) {
    static const bool damaged[] = {false, true, false, false, true, true, false};
    const int32_t prompt[] = {10, 20, 30};
    char dir[512];
    int32_t out[N_OUT];
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("again"));
    rp_engine *e = open_engine(dir, out);
    uint8_t *at = writable(e, 4096);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        rp_error err = {0};
        rp_result res = RP_RESULT_INIT;
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        bool more = true;
        uint64_t id;
        size_t size;
        r.prompt_ids = prompt;
        r.n_prompt_ids = 3;
        r.max_tokens = 4;
        CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
        CHECK_OK(rp_engine_step(e, &more, &err), &err);
        void *kv = engine_runner_kv(e->runner, &size);
        memset(kv, 0xff,
               size); /* what is no number comes from the past, whatever the weights are */
        at[1000] ^= damaged[i];
        while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
        CHECK_OK(rp_engine_result(e, id, &res, &err), &err);
        assert_string_equal(res.finish_reason, "error");
        if ((strstr(res.error, "packed weights (cache object weights/") != NULL) != damaged[i])
            fail_msg("request %zu: %s", i, res.error);
        at[1000] ^= damaged[i];
        rp_engine_release(e, id);
    }
    rp_engine_close(e);
}

/* --- key ------------------------------------------------------------------------------ */

static base_hash128 key_of(const char *bytes, size_t size, int64_t n_positions, const plan *model,
                           const char *factor, char *out) {
    rp_error err = {0};
    cache_key *k = NULL;
    cache_store *s = open_store();
    model_source *source = NULL;
    CHECK_OK(model_source_open_bytes(bytes, size, "small", &source, &err), &err);
    plan *head = plan_new("head");
    engine_weights_options o = {
        .source = source, .store = s, .model = model, .head = head, .n_positions = n_positions};
    CHECK_OK(engine_weights_key(&o, &k, &err), &err);
    base_hash128 h = cache_key_hash(k);
    if (factor) (void)snprintf(out, 80, "%s", cache_key_value(k, factor));
    cache_key_free(k);
    plan_free(head);
    model_source_free(source);
    cache_store_close(s);
    return h;
}

static bool same(base_hash128 a, base_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

static void the_key_holds_contents_layout_and_packing(void **state) {
    char text[80] = "";
    base_buf file;
    (void)state;
    base_buf_init(&file, 0);
    gguf_llama(&file);
    plan *model = plan_new("model");
    base_hash128 a = key_of(file.data, file.len, 32, model, "packing", text);
    assert_string_equal(text, RP_PACK_HASH);
    assert_string_not_equal(text, RP_SOURCE_HASH);
    assert_true(
        same(a, key_of(file.data, file.len, 64, model, NULL, NULL))); /* positions are no part */
    file.data[file.len - 40] ^= 1;                                    /* in the last tensor */
    assert_false(same(a, key_of(file.data, file.len, 32, model, NULL, NULL)));
    file.data[file.len - 40] ^= 1;
    /* how the same tensors are joined and where they lie */
    plan_leaf params[] = {{.name = "one"}, {.name = "two"}};
    plan_section rows = {.rows = 8, .n_params = 1}, more = rows, turned = rows, other = rows,
                 joined = {.rows = 8, .params = {0, 1}, .n_params = 2};
    more.rows = 16, turned.by_k = 1, other.params[0] = 1;
    const plan_pack plain = {.dtype = RP_DTYPE_Q4_1, .k = 64, .sections = &rows, .n_sections = 1};
    enum { N_PACKS = 9 };
    plan_pack pack[N_PACKS];
    base_hash128 seen[N_PACKS];
    for (int i = 0; i < N_PACKS; i++) pack[i] = plain;
    pack[1].dtype = RP_DTYPE_Q8_0, pack[2].k = 128, pack[3].swizzled = true;
    pack[4].offset = 4096, pack[5].sections = &more, pack[6].sections = &turned;
    pack[7].sections = &other, pack[8].sections = &joined;
    model->params = params;
    model->n_params = 2;
    model->n_packs = 1;
    for (int i = 0; i < N_PACKS; i++) { /* each of them is packed to other bytes */
        model->packs = &pack[i];
        seen[i] = key_of(file.data, file.len, 32, model, NULL, NULL);
        if (same(seen[i], a)) fail_msg("pack %d is in no key", i);
        for (int k = 0; k < i; k++)
            if (same(seen[i], seen[k])) fail_msg("packs %d and %d have one key", k, i);
    }
    model->params = NULL;
    model->n_params = 0;
    model->packs = NULL;
    model->n_packs = 0;
    base_buf_done(&file);
    plan_free(model);
}

/* --- rope --------------------------------------------------------------------------------- */

/* A model, and the first n rows of its rope tables as they should be. */
typedef struct rope_rows {
    model_source *s;
    size_t half; /* numbers of a row */
    float *c, *si;
} rope_rows;

static rope_rows rope_rows_new(int64_t n) {
    rp_error err = {0};
    rope_rows w = {0};
    CHECK_OK(model_source_open_synthetic("synthetic:tiny", &w.s, &err), &err);
    const model_hparams *hp = model_source_hparams(w.s);
    w.half = hp->rope_dim / 2;
    w.c = base_alloc_array((size_t)n * w.half, sizeof *w.c);
    w.si = base_alloc_array((size_t)n * w.half, sizeof *w.si);
    model_rope_rows(hp, NULL, 0, n, w.c, w.si);
    return w;
}

static void rope_rows_free(rope_rows *w) {
    base_free(w->c);
    base_free(w->si);
    model_source_free(w->s);
}

/* The first n rows of r are those of w. */
static void rope_rows_equal(const rope_rows *w, const engine_rope *r, size_t n) {
    assert_memory_equal(engine_rope_cos(r), w->c, n * w->half * sizeof *w->c);
    assert_memory_equal(engine_rope_sin(r), w->si, n * w->half * sizeof *w->si);
}

static void rope_rows_come_with_positions(void **state) {
    enum { N = 300 };
    static const int64_t reach[] = {1, 5, 64, 65, 200, 190, N + 50};
    rp_error err = {0};
    engine_rope *r = NULL;
    (void)state;
    rope_rows want = rope_rows_new(N);
    CHECK_OK(engine_rope_new(want.s, N, &r, &err), &err);
    assert_int_equal(engine_rope_bytes(r), 2 * N * want.half * sizeof(float));
    const float *at = engine_rope_cos(r);
    for (size_t i = 0; i < sizeof reach / sizeof *reach; i++) {
        size_t n = (size_t)(reach[i] < N ? reach[i] : N), live = base_alloc_count();
        CHECK_OK(engine_rope_reach(r, reach[i], &err), &err);
        assert_int_equal(base_alloc_count(), live);
        assert_ptr_equal(engine_rope_cos(r), at);
        rope_rows_equal(&want, r, n);
    }
    hal_device *d = NULL;
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_OK(engine_rope_register(r, d, &err), &err);
        for (int is = 1; is >= 0; is--) {
            const size_t bytes = N * want.half * sizeof(float);
            assert_int_equal(hal_range_covers(d, engine_rope_cos(r), bytes), is);
            assert_int_equal(hal_range_covers(d, engine_rope_sin(r), bytes), is);
            if (is) engine_rope_unregister(r, d);
        }
    }
    hal_close(d);
    engine_rope_free(r);
    rope_rows_free(&want);
}

static hal_device_ops refusing;
static rp_status (*copies)(hal_device *d, void *to, const void *from, size_t size, rp_error *err);
static int refusals;

static rp_status refuse(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    if (refusals && refusals-- == 1) return rp_fail(err, RP_DEVICE, "no copy this time");
    return copies(d, to, from, size, err);
}

/* Each has its copy, made once, however many there are. */
static void any_number_of_uploads(void **state) {
    enum { MOST = 200 };
    static int64_t from[MOST];
    rp_error err = {0};
    engine_uploads *u = NULL;
    hal_device *d = NULL;
    void *at[MOST], *again, *listed;
    size_t size = 0;
    (void)state;
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    CHECK_OK(engine_uploads_new(d, &u, &err), &err);
    for (int i = 0; i < MOST; i++) {
        from[i] = 1000 - i;
        CHECK_OK(engine_uploads_get(u, (uint64_t)i, &from[i], sizeof *from, &at[i], &err), &err);
    }
    for (int i = 0; i < MOST; i++) {
        CHECK_OK(engine_uploads_get(u, (uint64_t)i, &from[i], sizeof *from, &again, &err), &err);
        assert_ptr_equal(again, at[i]);
        assert_true(*(int64_t *)at[i] == 1000 - i);
        assert_true(engine_uploads_at(u, (uint32_t)i, &listed, &size));
        assert_ptr_equal(listed, at[i]);
        assert_int_equal(size, sizeof *from);
    }
    assert_false(engine_uploads_at(u, MOST, &listed, &size));
    assert_int_equal(engine_uploads_bytes(u), MOST * sizeof *from);
    engine_uploads_free(u);
    hal_close(d);
}

/* A step that failed can be tried again: rows that have not come are no rows. */
static void rope_rows_come_again(void **state) {
    enum { N = 200 };
    rp_error err = {0};
    engine_rope *r = NULL;
    engine_uploads *u = NULL;
    hal_device *d = NULL;
    (void)state;
    rope_rows want = rope_rows_new(N);
    CHECK_OK(hal_open("cpu", 1, &d, &err), &err);
    CHECK_OK(engine_uploads_new(d, &u, &err), &err);
    CHECK_OK(engine_rope_new(want.s, N, &r, &err), &err);
    CHECK_OK(engine_rope_place(r, u, &err), &err);
    refusing = *d->ops;
    copies = refusing.copy;
    refusing.copy = refuse;
    d->ops = &refusing;
    for (int which = 1; which <= 2; which++) { /* of cosines and sines */
        const int64_t n = 80 * which;
        refusals = which;
        assert_int_equal(engine_rope_reach(r, n, &err), RP_DEVICE);
        CHECK_OK(engine_rope_reach(r, n, &err), &err);
        rope_rows_equal(&want, r, (size_t)n);
    }
    engine_rope_free(r);
    engine_uploads_free(u);
    hal_close(d);
    rope_rows_free(&want);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}
#define T(name) cmocka_unit_test_teardown(name, nothing_left)

static int set_up(void **state) {
    (void)state;
    stored_cc_install();
    return 0;
}

/* Weights are shared by plans whose packs lie alike, all of them. */
static void packs_that_lie_alike_are_shared(void **state) {
    enum { CASES = 9 };
    plan_leaf names[] = {{.name = "a"}, {.name = "b"}};
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < CASES; i++) {
        plan_section s[2][2] = {{{.n_params = 1, .rows = 32}, {.n_params = 1, .rows = 32}},
                                {{.n_params = 1, .rows = 32}, {.n_params = 1, .rows = 32}}};
        plan_pack k[2][2];
        plan p[2];
        for (int j = 0; j < 2; j++) {
            for (int n = 0; n < 2; n++)
                k[j][n] = (plan_pack){.dtype = RP_DTYPE_Q4_1,
                                      .k = 64,
                                      .sections = &s[j][n],
                                      .n_sections = 1,
                                      .offset = n * 4096};
            p[j] = (plan){.packs = k[j], .n_packs = 2, .params = names, .n_params = 2};
        }
        switch (i) {
        case 1: k[1][1].dtype = RP_DTYPE_Q4_0; break;
        case 2: k[1][1].k = 96; break;
        case 3: k[1][1].swizzled = true; break;
        case 4: k[1][1].offset = 8192; break;
        case 5: s[1][1].rows = 64; break;
        case 6: s[1][1].by_k = 1; break;
        case 7: s[1][1].params[0] = 1; break;
        case 8: p[1].n_packs = 1; break;
        default: break;
        }
        for (int j = 0; j < 2; j++)
            if (engine_weights_alike(&p[j], &p[1 - j], &err) != (i == 0)) fail_msg("case %d", i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(one_flipped_byte_is_found_wherever_it_is),
        T(what_is_loaded_can_be_checked_again),
        T(a_device_gets_checked_bytes),
        T(fifty_kilobytes_in_the_middle_change_no_token),
        T(weights_of_another_size_are_packed_again),
        T(damage_after_loading_names_the_object),
        T(garbage_from_damaged_weights_names_the_cache),
        T(each_step_looks_at_the_weights_again),
        T(the_key_holds_contents_layout_and_packing),
        T(packs_that_lie_alike_are_shared),
        T(rope_rows_come_with_positions),
        T(any_number_of_uploads),
        T(rope_rows_come_again),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
