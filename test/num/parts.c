/* Concats of few and of many parts: along every axis, of sizes that differ, are unknown or none, computed before, read by ops and
 * reductions behind, rows that are kept and rows too long for that; by the compiler, level 0 and on the emulated GPU. */
#include "support/both_gpu.h"

enum { MOST_RANK = 4, LONG = 9000 };

typedef struct parts_case {
    uint32_t n, rank, axis;
    int64_t most;       /* of a part along the axis */
    const char *behind; /* of %c; $: the axis */
    bool known;         /* no T */
} parts_case;

static const char *const readers[] = {
    "  ret %c\n", "  %y = exp %c\n  ret %y\n",
    "  %m = amax %c {axis=$, keep=true}\n  %d = sub %c, %m\n  %e = exp %d\n"
    "  %s = sum %e {axis=$, keep=true}\n  %y = div %e, %s\n  ret %y\n",
    "  %y = mul %c, %c\n  %s = sum %y {axis=$}\n  ret %s, %c\n",
    "  %s = amin %c {axis=$}\n  ret %s\n"};

static int64_t size_of(const parts_case *p, uint32_t i) {
    return p->most == LONG ? LONG - 3 * (int64_t)i : 1 + (int64_t)(i * 5 % (uint32_t)p->most);
}

/* Part i has up to `most` along the axis, every seventh T, every ninth none but where it is the only sort; every third is computed, every fourth a slice of another. */
static void put_graph(base_buf *b, const parts_case *p) {
    char type[96];
    base_buf_puts(b, "graph @parts(");
    for (uint32_t i = 0; i < p->n; i++) {
        int used = snprintf(type, sizeof type, "[");
        for (uint32_t d = 0; d < p->rank; d++) {
            const int64_t size = d == p->axis ? size_of(p, i) : 2 + d;
            const char *comma = d + 1 < p->rank ? "," : "]";
            if (d == p->axis && i % 7 == 3 && !p->known)
                used += snprintf(type + used, sizeof type - (size_t)used, "T%s", comma);
            else if (d == p->axis && i % 9 == 5)
                used += snprintf(type + used, sizeof type - (size_t)used, "0%s", comma);
            else
                used += snprintf(type + used, sizeof type - (size_t)used, "%lld%s", (long long)size,
                                 comma);
        }
        base_buf_printf(b, "%s%%x%u: f32%s", i ? ", " : "", i, type);
    }
    base_buf_puts(b, ") where T in [1,6] {\n");
    for (uint32_t i = 0; i < p->n; i++)
        if (i % 3 == 1)
            base_buf_printf(b, "  %%p%u = neg %%x%u\n", i, i);
        else
            base_buf_printf(b, "  %%p%u = slice %%x%u {axis=%u, start=0}\n", i, i, p->axis);
    base_buf_puts(b, "  %c = concat ");
    for (uint32_t i = 0; i < p->n; i++) base_buf_printf(b, "%s%%p%u", i ? ", " : "", i);
    base_buf_printf(b, " {axis=%u}\n", p->axis);
    for (const char *z = p->behind; *z; z++)
        if (*z == '$')
            base_buf_printf(b, "%u", p->axis);
        else
            base_buf_putc(b, *z);
    base_buf_puts(b, "}\n");
}

static void check(const parts_case *p, bool on_gpu) {
    rp_error err = {0};
    base_buf text;
    base_buf_init(&text, 0);
    put_graph(&text, p);
    both b = both_of(text.data, p->n * 31 + p->axis);
    both_agree(&b, text.data, 1e-4);
    for (int passes = 0; on_gpu && passes < 2; passes++) {
        const plan_run_options o = both_on_gpu(passes, true);
        plan_run more = {0};
        if (plan_run_graph(b.g, &b.l, &o, &more, &err) != RP_OK)
            fail_msg("%s: %s", text.data, err.text);
        const char *d = plan_run_differs(b.g, &more, &b.code);
        if (d) fail_msg("%s: on the GPU, passes %d: %s", text.data, passes, d);
        plan_run_done(&more);
    }
    both_done(&b);
    base_buf_done(&text);
}

static void each_axis(uint32_t n, const char *behind, bool on_gpu) {
    for (uint32_t rank = 1; rank <= MOST_RANK; rank++)
        for (uint32_t axis = 0; axis < rank; axis++)
            check(&(parts_case){n, rank, axis, 6, behind, false}, on_gpu);
}

static void parts_are_joined_along_every_axis(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
        each_axis(5, readers[k], false);
        each_axis(33, readers[k], false);
    }
    each_axis(2, readers[2], false);
}

/* Too long for the memory of an item, and 2, 4 or 9 of them. */
static void long_rows_are_joined(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++)
        for (uint32_t n = 2; n < 10; n += n == 2 ? 2 : 5)
            check(&(parts_case){n, 2, 1, LONG, readers[k], false}, false);
}

/* One dim, which items share in runs that begin and end anywhere in a part. */
static void one_dim_is_joined_in_runs(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (uint32_t n = 5; n < 12; n += 3)
        for (int k = 0; k < 2; k++)
            for (int64_t most = 6; most <= LONG; most += LONG - 6)
                check(&(parts_case){n, 1, 0, most, readers[k], true}, false);
}

static void a_gpu_joins_them_alike(void **state) {
    (void)state;
    NEEDS_GPU();
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++)
        for (uint32_t rank = 1; rank < MOST_RANK; rank++)
            for (uint32_t axis = 0; axis < rank; axis++)
                check(&(parts_case){k % 2 ? 6 : 11, rank, axis, 6, readers[k], rank == 1}, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_joined_along_every_axis),
        cmocka_unit_test(long_rows_are_joined),
        cmocka_unit_test(one_dim_is_joined_in_runs),
        cmocka_unit_test(a_gpu_joins_them_alike),
    };
    return cmocka_run_group_tests_name("num/parts", tests, both_gpu_set_up, both_gpu_tear_down);
}
