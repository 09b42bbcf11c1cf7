/* The block manager under random use: no block lost, none owned twice, the null block never given. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/budget.h"
#include "engine/kv_blocks.h"
#include "model/llama.h"

static uint64_t rng_state = 7;

static uint32_t rnd(uint32_t n) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

static engine_kv *make(uint32_t blocks, uint32_t seqs, uint32_t per_seq) {
    engine_kv_options o = {.n_blocks = blocks, .max_seqs = seqs, .max_blocks = per_seq};
    engine_kv *kv = NULL;
    rp_error err = {0};
    CHECK_OK(engine_kv_new(&o, &kv, &err), &err);
    return kv;
}

static void random_use_loses_no_block(void **state) {
    (void)state;
    enum { SEQS = 9, BLOCKS = 40 };
    engine_kv *kv = make(BLOCKS, SEQS, 12);
    uint32_t len[SEQS] = {0}, held = 0;
    bool open[SEQS] = {false};
    rp_error err = {0};
    for (int step = 0; step < 10000; step++) {
        uint32_t s = rnd(SEQS), got;
        if (!open[s] && engine_kv_open(kv, &got)) {
            assert_false(open[got]);
            open[got] = true;
            len[got] = 0;
        } else if (open[s] && rnd(4) == 0) {
            held -= engine_kv_blocks_for(kv, len[s]);
            engine_kv_close(kv, s);
            open[s] = false;
        } else if (open[s]) {
            uint32_t want = len[s] + rnd(40), missing = engine_kv_missing(kv, s, want);
            uint32_t before = engine_kv_n_free(kv);
            bool fits = missing <= before && engine_kv_blocks_for(kv, want) <= 12;
            assert_int_equal(engine_kv_reserve(kv, s, want), fits);
            assert_int_equal(engine_kv_n_free(kv), before - (fits ? missing : 0));
            if (fits) {
                held += missing;
                len[s] = want;
            }
        }
        assert_int_equal(held + engine_kv_n_free(kv), BLOCKS - 1);
        CHECK_OK(engine_kv_check(kv, &err), &err);
    }
    engine_kv_free(kv);
    assert_int_equal(base_live(), 0);
}

/* A block that two sequences name is free once neither does, whichever goes first. */
static void forks_share_blocks(void **state) {
    (void)state;
    for (int first = 0; first < 3; first++) {
        engine_kv *kv = make(12, 3, 6);
        uint32_t s[3], n;
        rp_error err = {0};
        assert_true(engine_kv_open(kv, &s[0]));
        assert_true(engine_kv_reserve(kv, s[0], 50)); /* 4 blocks */
        assert_true(engine_kv_fork(kv, s[0], 3, &s[1]));
        assert_true(engine_kv_fork(kv, s[1], 2, &s[2]));
        assert_false(engine_kv_fork(kv, s[0], 1, &n)); /* no sequence is left */
        /* The table of a fork is another one. */
        assert_true(engine_kv_stamp(kv, s[1]) > engine_kv_stamp(kv, s[0]));
        assert_true(engine_kv_stamp(kv, s[2]) > engine_kv_stamp(kv, s[1]));
        assert_true(engine_kv_reserve(kv, s[1], 64));
        assert_true(engine_kv_reserve(kv, s[2], 48));
        CHECK_OK(engine_kv_check(kv, &err), &err);
        assert_int_equal(engine_kv_n_free(kv), 11 - 4 - 1 - 1);
        for (uint32_t p = 0; p < 64; p++) {
            int32_t a = engine_kv_slot(kv, s[0], p), b = engine_kv_slot(kv, s[1], p);
            assert_int_equal(a == b, p < 48);
            if (p < 48) assert_int_equal(b == engine_kv_slot(kv, s[2], p), p < 32);
        }
        for (int i = 0; i < 3; i++) {
            engine_kv_close(kv, s[(first + i) % 3]);
            CHECK_OK(engine_kv_check(kv, &err), &err);
        }
        assert_int_equal(engine_kv_n_free(kv), 11);
        engine_kv_free(kv);
    }
}

static void slots_are_distinct_and_never_in_the_null_block(void **state) {
    (void)state;
    engine_kv *kv = make(10, 3, 5);
    bool seen[160] = {false};
    uint32_t s;
    for (int i = 0; i < 3; i++) {
        assert_true(engine_kv_open(kv, &s));
        assert_true(engine_kv_reserve(kv, s, 40));
        for (uint32_t p = 0; p < 48; p++) {
            int32_t slot = engine_kv_slot(kv, s, p);
            assert_in_range(slot, 16, 159);
            assert_int_equal(slot % 16, p % 16);
            assert_false(seen[slot]);
            seen[slot] = true;
        }
        assert_int_equal(engine_kv_slot(kv, s, 48), -1);
    }
    assert_int_equal(engine_kv_n_free(kv), 0);
    assert_false(engine_kv_open(kv, &s));
    assert_false(engine_kv_reserve(kv, 0, 49));
    assert_true(engine_kv_reserve(kv, 0, 48)); /* there already */
    engine_kv_free(kv);
}

static void one_sequence_is_bounded_by_its_table_and_the_cache(void **state) {
    (void)state;
    engine_kv *kv = make(10, 1, 5);
    uint32_t s, n;
    assert_int_equal(engine_kv_max_tokens(kv), 80);
    assert_true(engine_kv_open(kv, &s));
    (void)engine_kv_table(kv, s, &n);
    assert_int_equal(n, 0);
    assert_true(engine_kv_reserve(kv, s, 80));
    assert_false(engine_kv_reserve(kv, s, 81));
    (void)engine_kv_table(kv, s, &n);
    assert_int_equal(n, 5);
    engine_kv_free(kv);
    kv = make(4, 1, 50);
    assert_int_equal(engine_kv_max_tokens(kv), 48);
    engine_kv_free(kv);
}

/* What a cache that grows has at most, and how often it did. */
typedef struct growing {
    uint32_t most, times, asked;
} growing;

static uint32_t grow_to(void *user, uint32_t n) {
    growing *g = user;
    g->times++;
    g->asked = n;
    return n + 2 < g->most ? n + 2 : g->most;
}

/* Blocks that are not there yet are free, and come when they are missed; when no more come, there are as many as there are. */
static void blocks_come_when_they_are_missed(void **state) {
    growing g = {.most = 100};
    engine_kv_options o = {
        .n_blocks = 11, .max_seqs = 3, .max_blocks = 12, .n_ready = 3, .grow = grow_to, .user = &g};
    engine_kv *kv = NULL;
    uint32_t a, b, n;
    rp_error err = {0};
    (void)state;
    CHECK_OK(engine_kv_new(&o, &kv, &err), &err);
    assert_int_equal(engine_kv_n_free(kv), 10);
    assert_true(engine_kv_open(kv, &a) && engine_kv_open(kv, &b));
    assert_true(engine_kv_reserve(kv, a, 2 * 16));
    assert_int_equal(g.times, 0);
    assert_true(engine_kv_reserve(kv, a, 3 * 16));
    assert_int_equal(g.asked, 4);
    assert_int_equal(engine_kv_n_free(kv), 7);
    CHECK_OK(engine_kv_check(kv, &err), &err);
    assert_int_equal(engine_kv_table(kv, a, &n)[2], 3);
    assert_false(engine_kv_reserve(kv, b, 8 * 16)); /* more than there may be: nobody is asked */
    assert_int_equal(g.times, 1);
    g.most = 9;
    assert_false(engine_kv_reserve(kv, b, 7 * 16));
    assert_int_equal(g.asked, 11);
    assert_int_equal(engine_kv_n_usable(kv), 8);
    assert_int_equal(engine_kv_n_free(kv), 5);
    assert_true(engine_kv_reserve(kv, b, 5 * 16));
    assert_false(engine_kv_reserve(kv, a, 4 * 16));
    assert_int_equal(g.times, 2);
    CHECK_OK(engine_kv_check(kv, &err), &err);
    engine_kv_close(kv, a);
    engine_kv_close(kv, b);
    assert_int_equal(engine_kv_n_free(kv), 8);
    CHECK_OK(engine_kv_check(kv, &err), &err);
    engine_kv_free(kv);
}

/* All of them may be there from the beginning, or the least number. */
static void any_number_may_be_there_at_first(void **state) {
    (void)state;
    for (uint32_t ready = 2; ready <= 4; ready++) {
        growing g = {.most = 4};
        engine_kv_options o = {.n_blocks = 4,
                               .max_seqs = 1,
                               .max_blocks = 3,
                               .n_ready = ready,
                               .grow = grow_to,
                               .user = &g};
        engine_kv *kv = NULL;
        uint32_t a;
        rp_error err = {0};
        CHECK_OK(engine_kv_new(&o, &kv, &err), &err);
        assert_int_equal(engine_kv_n_free(kv), 3);
        assert_true(engine_kv_open(kv, &a) && engine_kv_reserve(kv, a, 3 * 16));
        assert_int_equal(g.times, ready < 4);
        engine_kv_free(kv);
    }
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    static const engine_kv_options bad[] = {
        {.n_blocks = 0, .max_seqs = 1, .max_blocks = 1},
        {.n_blocks = 2, .max_seqs = 0, .max_blocks = 1},
        {.n_blocks = 2, .max_seqs = 1, .max_blocks = 0},
        {.n_blocks = 1u << 28, .max_seqs = 1, .max_blocks = 1},
        {.n_blocks = 4, .max_seqs = 1, .max_blocks = 1, .grow = grow_to, .n_ready = 5},
        {.n_blocks = 4, .max_seqs = 1, .max_blocks = 1, .grow = grow_to, .n_ready = 1},
        {.n_blocks = 1, .max_seqs = 1, .max_blocks = 1}};
    engine_kv *kv;
    rp_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (rp_error){0};
        assert_int_equal(engine_kv_new(&bad[i], &kv, &err), RP_INVALID);
    }
    assert_string_equal(
        err.text, "KV cache of 1 blocks (one is reserved), 1 sequences of 1 blocks cannot work");
    assert_int_equal(base_live(), 0);
}

static void new_survives_each_failure(void **state) {
    (void)state;
    rp_status st = RP_NOMEM;
    FOR_EACH_ALLOC_FAILURE (n) {
        engine_kv_options o = {.n_blocks = 8, .max_seqs = 2, .max_blocks = 4};
        engine_kv *kv = NULL;
        st = engine_kv_new(&o, &kv, NULL);
        assert_true(st == RP_OK || (st == RP_NOMEM && !kv));
        engine_kv_free(kv);
        assert_int_equal(base_live(), 0);
    }
    assert_int_equal(st, RP_OK);
}

/* Blocks beside the null block: of one sequence of any length; of all of them, each with a last block that is not full, where they
 * are short. What a device begins with holds one, what it may take all. */
static void there_are_blocks_for_all(void **state) {
    (void)state;
    for (uint64_t seqs = 1; seqs < 70; seqs += 3)
        for (uint64_t len = 1; len < 40000; len += len < 100 ? 1 : 997) {
            const engine_lengths l = {seqs, len};
            const uint64_t each = (len + MODEL_KV_BLOCK - 1) / MODEL_KV_BLOCK;
            const bool are_short = seqs * len <= 16384;
            assert_true(engine_budget_blocks(l) - 1 >= (are_short ? seqs : 1) * each);
            assert_true(engine_budget_blocks(l) - 1 <= seqs * (each + 1));
            assert_true(engine_budget_first(l) - 1 >= each);
            const uint64_t most = engine_budget_most(l, UINT64_MAX, 1);
            assert_true(most - 1 >= seqs * each && most - 1 <= seqs * (each + 1));
            assert_int_equal(engine_budget_most(l, 1000, 100), most < 10 ? most : 10);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use_loses_no_block),
        cmocka_unit_test(forks_share_blocks),
        cmocka_unit_test(slots_are_distinct_and_never_in_the_null_block),
        cmocka_unit_test(one_sequence_is_bounded_by_its_table_and_the_cache),
        cmocka_unit_test(blocks_come_when_they_are_missed),
        cmocka_unit_test(any_number_may_be_there_at_first),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(new_survives_each_failure),
        cmocka_unit_test(there_are_blocks_for_all),
    };
    return cmocka_run_group_tests_name("engine_kv", tests, NULL, NULL);
}
