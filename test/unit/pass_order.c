/* The order of groups against brute force: reads are added one by one, at random, and after each every group stands behind what it
 * reads from; what would close a cycle is told before. */
#include "support/check.h"

#include "base/alloc.h"
#include "pass/fuser.h"

enum { MOST = 40, MAX_SEARCH = 64 };

static uint64_t rng;

static uint32_t pick(uint32_t n) {
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 33) % n;
}

/* A fuser of n groups that read nothing, in their order. */
static fuser fuser_of(pass_fusion *f, uint32_t n, rp_error *err) {
    *f = (pass_fusion){.arena = base_arena_new()};
    assert_non_null(f->arena);
    fuser u = {.f = f, .cap = n, .err = err};
    uint32_t **arrays[] = {&u.position,    &u.mark,     &u.forward.at,
                           &u.backward.at, &u.group_at, &u.moved};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        assert_non_null(*arrays[i] = base_arena_array(f->arena, n, sizeof **arrays[i]));
    assert_non_null(u.reads = base_arena_array(f->arena, n, sizeof *u.reads));
    assert_non_null(u.readers = base_arena_array(f->arena, n, sizeof *u.readers));
    for (uint32_t i = 0; i < n; i++) u.position[i] = i;
    return u;
}

/* What is read through others. */
static void note(bool reads[MOST][MOST], uint32_t n, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            if ((i == a || reads[i][a]) && (k == b || reads[b][k])) reads[i][k] = true;
}

static void check_positions(const fuser *u, bool reads[MOST][MOST], uint32_t n) {
    bool taken[MOST] = {false};
    for (uint32_t i = 0; i < n; i++) {
        assert_true(u->position[i] < n && !taken[u->position[i]]);
        taken[u->position[i]] = true;
        for (uint32_t k = 0; k < n; k++)
            if (reads[i][k] && u->position[k] > u->position[i])
                fail_msg("group %u reads %u, which stands behind it", i, k);
    }
}

static void every_group_is_behind_what_it_reads(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 400; seed++) {
        rng = seed;
        const uint32_t n = 2 + pick(MOST - 1), edges = pick(3 * n);
        bool reads[MOST][MOST] = {{false}};
        uint32_t cycles = 0;
        pass_fusion f;
        rp_error err = {0};
        fuser u = fuser_of(&f, n, &err);
        for (uint32_t e = 0; e < edges; e++) {
            const uint32_t a = pick(n), b = pick(n);
            const bool closes = reads[b][a] || a == b;
            if (a != b)
                assert_int_equal(pass_order_check(&u, a, b), closes ? PASS_CYCLE : PASS_FREE);
            cycles += closes;
            if (closes && a != b) continue;
            CHECK_OK(pass_order_add(&u, a, b), &err);
            if (a == b) continue;
            note(reads, n, a, b);
            check_positions(&u, reads, n);
        }
        /* Also of what nothing moved. */
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                if (a != b && (pass_order_check(&u, a, b) == PASS_CYCLE) != reads[b][a])
                    fail_msg("seed %d: group %u and %u", (int)seed, a, b);
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++) {
                if (!reads[b][a] || u.position[b] < u.position[a]) continue;
                assert_int_equal(pass_order_add(&u, a, b), RP_INTERNAL);
                assert_string_equal(err.text, "fusion made a cycle");
                err = (rp_error){0};
            }
        base_arena_free(f.arena);
    }
}

/* n groups, each of which reads the one in front, and a last one behind them: whether the first could read that is looked for
 * among MAX_SEARCH of them; noting it takes what it takes. */
static void searches_have_an_end(void **state) {
    (void)state;
    for (uint32_t n = MAX_SEARCH - 1; n < MAX_SEARCH + 3; n++) {
        pass_fusion f;
        rp_error err = {0};
        fuser u = fuser_of(&f, n + 1, &err);
        for (uint32_t i = 1; i < n; i++) CHECK_OK(pass_order_add(&u, i, i - 1), &err);
        assert_int_equal(pass_order_check(&u, 0, n), n <= MAX_SEARCH ? PASS_FREE : PASS_FAR);
        assert_int_equal(pass_order_check(&u, n, 0), PASS_FREE); /* nothing stands between */
        CHECK_OK(pass_order_add(&u, 0, n), &err);
        assert_int_equal(u.position[n], 0);
        for (uint32_t i = 0; i < n; i++) assert_int_equal(u.position[i], i + 1);
        base_arena_free(f.arena);
        /* The other way round: what the last one hangs on. */
        u = fuser_of(&f, n + 1, &err);
        for (uint32_t i = 2; i <= n; i++) CHECK_OK(pass_order_add(&u, i, i - 1), &err);
        assert_int_equal(pass_order_check(&u, 0, n), n <= MAX_SEARCH ? PASS_FREE : PASS_FAR);
        CHECK_OK(pass_order_add(&u, 0, n), &err);
        assert_int_equal(u.position[0], n);
        base_arena_free(f.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_group_is_behind_what_it_reads),
        cmocka_unit_test(searches_have_an_end),
    };
    return cmocka_run_group_tests_name("pass_order", tests, NULL, NULL);
}
