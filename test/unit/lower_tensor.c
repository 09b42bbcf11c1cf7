/* Products on tensor cores: every column of every matrix is of one job, and no job has none. */
#include "support/check.h"

#include "gen/pack.h"
#include "lower/tensor_group.h"

/* Columns of a part dealt to jobs one after the other, as a block takes them. */
static int64_t jobs_of(int64_t columns, int64_t each) {
    int64_t jobs = 0;
    for (int64_t at = 0; at < columns; at += each) jobs++;
    return jobs;
}

static void check(const int64_t blocks[3], const uint32_t mats[3], int64_t of, int64_t tiles) {
    pass_segment s[3];
    lower_tensor_part parts[3];
    lower_tensor_parts g = {.parts = parts, .columns = of};
    int64_t want = 0, most = 1;
    for (uint32_t i = 0; i < 3 && blocks[i]; i++) {
        /* A job holds so many tiles of weights, or one unit where that is more. */
        int64_t per_unit = mats[i] * (LOWER_COLUMNS / GEN_TILE_ROWS),
                units = per_unit > tiles ? 1 : tiles / per_unit;
        s[i] = (pass_segment){.n_mats = mats[i]};
        parts[i] = (lower_tensor_part){.s = &s[i], .units = blocks[i] * LOWER_COLUMNS / of};
        want += jobs_of(blocks[i] * LOWER_COLUMNS, units * LOWER_COLUMNS);
        if (units > most) most = units;
        assert_int_equal(lower_job_units(&parts[i], tiles), units);
        g.n_parts++;
    }
    assert_int_equal(lower_count_jobs(&g, tiles), want);
    assert_int_equal(lower_most_job(&g, tiles), most);
}

static void jobs_hold_every_column(void **state) {
    (void)state;
    for (int64_t of = GEN_TILE_ROWS; of <= LOWER_COLUMNS; of *= 2)
        for (int64_t a = 1; a <= 33; a++)
            for (uint32_t m = 1; m <= 3; m++) {
                const int64_t tiles = a % 2 ? LOWER_JOB_TILES : LOWER_JOB_TILES / 2;
                check((const int64_t[]){a, 0, 0}, (const uint32_t[]){m, 0, 0}, of, tiles);
                check((const int64_t[]){a, 35 - a, 7}, (const uint32_t[]){m, 1, 2}, of, tiles);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_hold_every_column)};
    return cmocka_run_group_tests_name("unit/lower_tensor", tests, NULL, NULL);
}
