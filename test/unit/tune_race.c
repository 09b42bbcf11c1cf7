/* Who wins a race by readings that are given, on a clock that is. */
#include "support/check.h"

#include "compile/tune_race.h"

/* Racer i takes base[i], and more in rounds that disturb it. */
static struct {
    int64_t now, base[4];
    uint32_t n_run[4], n;
    uint32_t disturbed; /* every so many readings of racer 1 take ten times as long; 0: none */
    uint32_t fails_at;  /* this reading fails; 0: none */
    uint32_t first[COMPILE_RACE_ROUNDS]; /* who begins each round of four */
} track;

static rp_status run(void *user, uint32_t i, int64_t *ns, rp_error *err) {
    (void)user;
    *ns = track.base[i];
    if (track.n % 4 == 0 && track.n / 4 < COMPILE_RACE_ROUNDS) track.first[track.n / 4] = i;
    track.n_run[i]++;
    track.n++;
    if (track.fails_at == track.n) return rp_fail(err, RP_DEVICE, "it fell");
    if (i == 1 && track.disturbed && track.n_run[1] % track.disturbed == 0) *ns *= 10;
    track.now += *ns;
    return RP_OK;
}

static int64_t now(void *user) {
    (void)user;
    return track.now;
}

static uint32_t race(uint32_t n, int64_t deadline, compile_racer out[4]) {
    const compile_race r = {run, now, NULL, deadline};
    rp_error err = {0};
    uint32_t best = UINT32_MAX;
    CHECK_OK(compile_race_run(&r, n, out, &best, &err), &err);
    return best;
}

static void set(int64_t a, int64_t b, int64_t c, int64_t d) {
    memset(&track, 0, sizeof track);
    track.base[0] = a;
    track.base[1] = b;
    track.base[2] = c;
    track.base[3] = d;
}

static void the_fastest_wins(void **state) {
    compile_racer out[4];
    (void)state;
    set(1000, 900, 800, 950);
    assert_int_equal(race(4, INT64_MAX, out), 2);
    assert_int_equal(out[0].median, 1000);
    assert_int_equal(out[2].median, 800);
    set(1000, 1100, 1200, 1300);
    assert_int_equal(race(4, INT64_MAX, out), 0);
    set(1000, 0, 0, 0);
    assert_int_equal(race(1, INT64_MAX, out), 0);
}

/* Each begins a round in turn: what warms up, or cools down, is nobody's. */
static void they_take_turns(void **state) {
    compile_racer out[4];
    (void)state;
    set(1000, 1000, 1000, 1000);
    assert_int_equal(race(4, INT64_MAX, out), 0);
    for (uint32_t round = 0; round < COMPILE_RACE_ROUNDS; round++)
        assert_int_equal(track.first[round], round % 4);
}

/* An eighth above the leader is too much, and what takes no time has run all the same. */
static void borders_of_a_race(void **state) {
    compile_racer out[4];
    (void)state;
    set(1000, 800, 899, 901);
    assert_int_equal(race(4, INT64_MAX, out), 1);
    assert_int_equal(out[2].rounds, COMPILE_RACE_ROUNDS);
    assert_int_equal(out[3].rounds, COMPILE_RACE_LEAST);
    assert_int_equal(out[0].rounds, COMPILE_RACE_ROUNDS); /* who is there already runs on */
    set(1000, 0, 0, 0);
    assert_int_equal(race(2, INT64_MAX, out), 1);
    assert_int_equal(out[1].median, 1);
    assert_int_equal(out[1].rounds, COMPILE_RACE_ROUNDS);
}

static void a_hair_is_not_enough(void **state) {
    compile_racer out[4];
    (void)state;
    set(1000, 985, 0, 0);
    assert_int_equal(race(2, INT64_MAX, out), 0);
    set(1000, 975, 0, 0);
    assert_int_equal(race(2, INT64_MAX, out), 1);
}

/* A median does not mind some readings; a racer that loses half of its rounds has not shown anything. */
static void disturbances_are_borne(void **state) {
    compile_racer out[4];
    (void)state;
    set(1000, 800, 0, 0);
    track.disturbed = 5;
    assert_int_equal(race(2, INT64_MAX, out), 1);
    assert_int_equal(out[1].median, 800);
    set(1000, 800, 0, 0);
    track.disturbed = 3;
    assert_int_equal(race(2, INT64_MAX, out), 0);
}

static void who_is_behind_runs_no_more(void **state) {
    compile_racer out[4];
    (void)state;
    set(1000, 950, 5000, 990);
    assert_int_equal(race(4, INT64_MAX, out), 1);
    assert_int_equal(out[2].rounds, COMPILE_RACE_LEAST);
    assert_int_equal(out[1].rounds, COMPILE_RACE_ROUNDS);
    /* Nobody is left to race against. */
    set(1000, 5000, 6000, 7000);
    assert_int_equal(race(4, INT64_MAX, out), 0);
    assert_int_equal(track.n, 4 * COMPILE_RACE_LEAST);
}

static void nothing_begins_after_the_deadline(void **state) {
    compile_racer out[4];
    (void)state;
    for (int64_t deadline = 0; deadline < 30000; deadline += 700) {
        set(1000, 900, 1000, 1000);
        (void)race(4, deadline, out);
        assert_true(track.now < deadline + 1000);
    }
    /* Too few rounds to tell. */
    set(1000, 500, 0, 0);
    assert_int_equal(race(2, 1500 * (COMPILE_RACE_LEAST - 1), out), 0);
    set(1000, 500, 0, 0);
    assert_int_equal(race(2, 1500 * COMPILE_RACE_LEAST, out), 1);
}

static void a_failure_is_the_races(void **state) {
    const compile_race r = {run, now, NULL, INT64_MAX};
    compile_racer out[4];
    rp_error err = {0};
    uint32_t best = 7;
    (void)state;
    set(1000, 900, 0, 0);
    track.fails_at = 3;
    assert_int_equal(compile_race_run(&r, 2, out, &best, &err), RP_DEVICE);
    assert_string_equal(err.text, "it fell");
    assert_int_equal(best, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_wins),
        cmocka_unit_test(they_take_turns),
        cmocka_unit_test(borders_of_a_race),
        cmocka_unit_test(a_hair_is_not_enough),
        cmocka_unit_test(disturbances_are_borne),
        cmocka_unit_test(who_is_behind_runs_no_more),
        cmocka_unit_test(nothing_begins_after_the_deadline),
        cmocka_unit_test(a_failure_is_the_races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
