/* Weights that engines share (support/shared_weights.c), and the sets by themselves: who makes one, who waits, who gets none. */
#include "support/shared_weights.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "engine/matrices.h"
#include "support/at_once.h"
#include "support/check.h"

enum { SIZE = 3 * CACHE_CHUNK, CLIENTS = 6 };

static const engine_matrices_id id = {.key = {.lo = 1, .hi = 2}, .cache_dir = "/somewhere"};

/* How sets are made: the first `failures` of them fail, once `waiting` others have come. */
typedef struct maker {
    atomic_int made, failures, begun, asked;
    size_t early; /* bytes that one who waits is told of */
    uint8_t bytes[SIZE];
} maker;

static rp_status make(void *user, hal_device *d, void *room, engine_resident *out, rp_error *err) {
    maker *k = user;
    assert_true(!d && !room);
    (void)atomic_fetch_add(&k->made, 1);
    while (atomic_load(&k->begun) < CLIENTS) (void)sched_yield();
    if (atomic_fetch_sub(&k->failures, 1) > 0) return rp_fail(err, RP_IO, "told to fail");
    *out = (engine_resident){.data = k->bytes, .size = SIZE};
    return cache_sums_new(SIZE, &out->sums, err);
}

typedef struct client {
    maker *k;
    bool (*wanted)(void *user);
    engine_matrices *m;
    rp_status st;
} client;

static void *want(void *item) {
    client *c = item;
    rp_error err = {0};
    (void)atomic_fetch_add(&c->k->begun, 1);
    c->st = engine_matrices_open(&id, SIZE, &(engine_matrices_maker){make, c->wanted, c->k}, &c->m,
                                 &err);
    return NULL;
}

/* One makes it for all; who fails is the only one that does, and the next tries. */
static void one_makes_it_for_all(void **state) {
    static maker k;
    (void)state;
    for (int failures = 0; failures < 3; failures++) {
        client c[CLIENTS] = {{0}};
        int failed = 0;
        engine_matrices *m = NULL;
        k = (maker){.failures = failures};
        for (int i = 0; i < CLIENTS; i++) c[i].k = &k;
        at_once(want, c, sizeof *c, CLIENTS);
        for (int i = 0; i < CLIENTS; i++) {
            failed += c[i].st == RP_IO;
            if (c[i].st == RP_OK && !m) m = c[i].m;
            if (c[i].st == RP_OK) assert_ptr_equal(c[i].m, m);
        }
        assert_int_equal(failed, failures);
        assert_int_equal(atomic_load(&k.made), failures + 1);
        assert_int_equal(engine_matrices_users(m), CLIENTS - failures);
        assert_int_equal(engine_matrices_there(&id), SIZE);
        assert_ptr_equal(engine_matrices_data(m), k.bytes);
        for (int i = 0; i < CLIENTS; i++) engine_matrices_close(c[i].m);
        assert_false(engine_matrices_any());
        assert_int_equal(engine_matrices_there(&id), 0);
    }
}

static bool never(void *user) {
    maker *k = user;
    (void)atomic_fetch_add(&k->asked, 1);
    k->early = engine_matrices_there(&id);
    return false;
}

/* Made by this thread while another one waits for it, until that is no longer wanted. */
static rp_status make_meanwhile(void *user, hal_device *d, void *room, engine_resident *out,
                                rp_error *err) {
    maker *k = user;
    pthread_t t;
    client c = {.k = k, .wanted = never};
    if (pthread_create(&t, NULL, want, &c) != 0) return RP_INTERNAL;
    (void)pthread_join(t, NULL);
    assert_int_equal(c.st, RP_CANCELLED);
    assert_int_equal(k->early, 0);
    assert_null(c.m);
    return make(user, d, room, out, err);
}

static void who_waits_may_be_cancelled(void **state) {
    static maker k;
    rp_error err = {0};
    engine_matrices *m = NULL;
    (void)state;
    k = (maker){.begun = CLIENTS};
    CHECK_OK(engine_matrices_open(&id, SIZE, &(engine_matrices_maker){make_meanwhile, NULL, &k}, &m,
                                  &err),
             &err);
    assert_int_equal(atomic_load(&k.asked), 1);
    assert_int_equal(atomic_load(&k.made), 1);
    assert_int_equal(engine_matrices_users(m), 1);
    engine_matrices_close(m);
    assert_false(engine_matrices_any());
}

/* Sets that are there are found while another one is made. */
static rp_status make_beside(void *user, hal_device *d, void *room, engine_resident *out,
                             rp_error *err) {
    maker *k = user;
    k->early = engine_matrices_any() ? engine_matrices_there(&id) : 0;
    return make(user, d, room, out, err);
}

static void one_that_is_made_hides_none(void **state) {
    static maker k;
    rp_error err = {0};
    engine_matrices *m = NULL, *other = NULL;
    engine_matrices_id second = id;
    (void)state;
    second.key.hi++;
    k = (maker){.begun = CLIENTS};
    CHECK_OK(engine_matrices_open(&id, SIZE, &(engine_matrices_maker){make, NULL, &k}, &m, &err),
             &err);
    CHECK_OK(engine_matrices_open(&second, SIZE, &(engine_matrices_maker){make_beside, NULL, &k},
                                  &other, &err),
             &err);
    assert_int_equal(k.early, SIZE);
    engine_matrices_close(m);
    assert_true(engine_matrices_any());
    engine_matrices_close(other);
    assert_false(engine_matrices_any());
}

/* Another key, another memory; another store, too, which is to have an object of its own. */
static void others_have_their_own(void **state) {
    static maker k;
    engine_matrices *m[4] = {NULL};
    engine_matrices_id ids[4] = {id, id, id, id};
    (void)state;
    ids[1].key.hi++;
    ids[2].cache_dir = "/elsewhere";
    k = (maker){.begun = CLIENTS};
    for (int i = 0; i < 4; i++) {
        rp_error err = {0};
        CHECK_OK(engine_matrices_open(&ids[i], SIZE, &(engine_matrices_maker){make, NULL, &k},
                                      &m[i], &err),
                 &err);
        assert_int_equal(engine_matrices_users(m[i]), i < 3 ? 1 : 2);
    }
    assert_ptr_equal(m[3], m[0]);
    assert_true(m[0] != m[1] && m[1] != m[2] && m[2] != m[0]);
    ids[3].device = "cuda:0";
    assert_int_equal(engine_matrices_there(&ids[3]), 0);
    assert_int_equal(engine_matrices_there(&ids[2]), SIZE);
    for (int i = 0; i < 4; i++) engine_matrices_close(m[i]);
    assert_false(engine_matrices_any());
}

/* A callback within a load may open the same model: it waits for nobody. */
static rp_status make_inside(void *user, hal_device *d, void *room, engine_resident *out,
                             rp_error *err) {
    engine_matrices *inner = NULL;
    rp_status st =
        engine_matrices_open(&id, SIZE, &(engine_matrices_maker){make, NULL, user}, &inner, err);
    if (st == RP_OK) st = make(user, d, room, out, err);
    engine_matrices_close(inner);
    return st;
}

static void who_makes_it_does_not_wait_for_himself(void **state) {
    static maker k;
    rp_error err = {0};
    engine_matrices *m = NULL;
    (void)state;
    k = (maker){.begun = CLIENTS};
    CHECK_OK(
        engine_matrices_open(&id, SIZE, &(engine_matrices_maker){make_inside, NULL, &k}, &m, &err),
        &err);
    assert_int_equal(atomic_load(&k.made), 2);
    assert_int_equal(engine_matrices_users(m), 1);
    engine_matrices_close(m);
    assert_false(engine_matrices_any());
}

static void each_allocation_may_fail(void **state) {
    static maker k;
    size_t before = base_live();
    rp_status st = RP_NOMEM;
    (void)state;
    for (uint32_t nth = 1; st != RP_OK; nth++) {
        rp_error err = {0};
        engine_matrices *m = NULL;
        k = (maker){.begun = CLIENTS};
        base_alloc_fail_nth(nth);
        st = engine_matrices_open(&id, SIZE, &(engine_matrices_maker){make, NULL, &k}, &m, &err);
        base_alloc_fail_nth(0);
        assert_true(st == RP_OK || st == RP_NOMEM);
        engine_matrices_close(m);
        assert_int_equal(base_live(), before);
        assert_false(engine_matrices_any());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_makes_it_for_all),
        cmocka_unit_test(who_waits_may_be_cancelled),
        cmocka_unit_test(others_have_their_own),
        cmocka_unit_test(one_that_is_made_hides_none),
        cmocka_unit_test(who_makes_it_does_not_wait_for_himself),
        cmocka_unit_test(each_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += shared_weights_run("cpu", "cpu");
    return failed;
}
