/* What is chosen for graphs of every size: launches of both targets and the forms of their kernels, in runs of equal choices. A border
 * that moves changes a line of test/gen/borders.txt or tensor.txt, also where results stay. BLESS=1 rewrites them. */
#include "support/check.h"

#include <ctype.h>

#include "base/alloc.h"
#include "gen/pack.h"
#include "pass/pipeline.h"
#include "support/golden.h"
#include "target/cuda/tensor_group.h"
#include "target/target.h"

/* --- graphs --------------------------------------------------------------------------------- */

/* Of a template a number that is the size, which every size would have another of, as $. */
static void without_size(char *word, long long size) {
    char number[24], *at;
    const size_t n = (size_t)snprintf(number, sizeof number, " %lld,", size);
    at = size > 16 ? strstr(word, number) : NULL;
    if (!at) return;
    memmove(at + 3, at + n, strlen(at + n) + 1);
    memcpy(at, " $,", 3);
}

/* Whether the variable in front of text[end] is an iteration, i and its number: then its step is how many share the loop, which is told elsewhere. */
static bool is_of_a_team(const char *text, size_t end) {
    while (end > 0 && isdigit((unsigned char)text[end - 1])) end--;
    return end > 0 && text[end - 1] == 'i';
}

/* Templates with their numbers, loops with their steps, and what a compiler is asked for: the form of a kernel without its text. */
static void put_form(const char *text, size_t n, long long size, base_buf *out) {
    char said[2048] = " ";
    for (size_t i = 0; i + 3 < n; i++) {
        char word[64];
        size_t len = 0;
        if (strncmp(text + i, " rk_", 4) == 0) {
            size_t k = i + 1;
            while (isalnum((unsigned char)text[k]) || text[k] == '_') k++;
            if (text[k] == '<') len = strcspn(text + k, ">") + k - i + 1;
        } else if (strncmp(text + i, "#pragma", 7) == 0) {
            len = strcspn(text + i, "\n");
        } else if (strncmp(text + i, " += ", 4) == 0) {
            len = strcspn(text + i, ";)\n");
            if (text[i + len] != ')' || !isdigit((unsigned char)text[i + len - 1]) ||
                is_of_a_team(text, i))
                len = 0;
        }
        if (!len || len + 3 > sizeof word) continue;
        (void)snprintf(word, sizeof word, " %.*s ", (int)len - (text[i] == ' '),
                       text + i + (text[i] == ' '));
        i += len - 1;
        without_size(word, size);
        if (strstr(said, word) || strlen(said) + sizeof word > sizeof said) continue;
        (void)strcat(said, word + 1);
    }
    base_buf_printf(out, " %.*s", (int)strlen(said) - 2, said + 1);
}

/* Of each class of rows what its kernel has, and how many blocks; `cut`: the number of items, too. Grains are tested by sched_rules. */
static void put_launch(const lower_piece *p, const lower_launch *l, bool cut, base_buf *out) {
    base_buf_puts(out, " [");
    if (cut) ir_dim_print(p->dims, l->items, out);
    if (l->threads) base_buf_printf(out, " %u by %u threads", l->per_block, l->threads);
    for (uint32_t i = 0; i < l->n_alts; i++) {
        const lower_alt *a = &l->alts[i];
        const char *end = a->symbol ? strrchr(a->symbol, '_') : NULL;
        base_buf_puts(out, i ? ";" : "");
        if (a->max < INT64_MAX) base_buf_printf(out, " <= %lld", (long long)a->max);
        base_buf_printf(out, " %s", !a->symbol ? "nothing" : end ? end : a->symbol);
        if (a->threads) base_buf_printf(out, " %u threads", a->threads);
        if (a->threads && a->scratch) base_buf_printf(out, " %lld bytes", (long long)a->scratch);
        if (a->per_sm) base_buf_printf(out, " %u per_sm", a->per_sm);
        if (a->per_block) base_buf_printf(out, " %u per_block", a->per_block);
        if (a->blocks) base_buf_printf(out, " %u blocks", a->blocks);
    }
    base_buf_putc(out, ']');
}

/* The text with every $ replaced by the size, with $N by N times as much. */
static void fill(const char *text, long long size, base_buf *out) {
    base_buf_init(out, 0);
    for (; *text; text++) {
        long long times = 0;
        if (*text != '$') {
            base_buf_putc(out, *text);
            continue;
        }
        while (isdigit((unsigned char)text[1])) times = times * 10 + *++text - '0';
        base_buf_printf(out, "%lld", times ? size * times : size);
    }
}

static void put_lowered(gen_target target, const char *text, bool cut, long long size,
                        base_buf *out) {
    const lower_options o = {.target = target};
    ir_graph *parsed = NULL, *g = NULL;
    lower_piece p;
    rp_error err = {0};
    base_buf filled;
    fill(text, size, &filled);
    base_buf_init(out, 0);
    CHECK_OK(ir_parse(filled.data, filled.len, &parsed, &err), &err);
    CHECK_OK(pass_run_all(parsed, NULL, &g, &err), &err);
    if (target_lower(g, &o, &p, &err) != RP_OK) {
        base_buf_puts(out, err.text);
    } else {
        for (uint32_t i = 0; i < p.n_launches; i++) put_launch(&p, &p.launches[i], cut, out);
        for (uint32_t i = 0; i < p.n_kernels; i++)
            put_form(p.source + p.kernels[i].begin, p.kernels[i].end - p.kernels[i].begin, size,
                     out);
        lower_done(&p);
    }
    ir_graph_free(g);
    ir_graph_free(parsed);
    base_buf_done(&filled);
}

/* Ascending: all small ones, then those about multiples, which grow. */
static long long next_size(long long n) {
    static const struct {
        long long until, of;
    } steps[] = {{140, 1}, {1100, 32}, {4200, 128}, {17000, 1024}, {INT64_MAX, 16384}};
    int i = 0;
    while (n >= steps[i].until) i++;
    const long long of = steps[i].of, at = n % of;
    if (of == 1 || at == 0 || at == of - 1) return n + 1;
    return n + of - 1 - at;
}

static void graphs_of_every_size(void **state) {
    static const struct {
        const char *text;
        long long most;
        bool cut;       /* into tiles that hang on the size */
        long long unit; /* of sizes */
    } cases[] = {
        {"graph @sum(%x: f32[T,$]) where T in [1,512] {\n  %a = sum %x {axis=1}\n  ret %a\n}\n",
         40000, false, 1},
        {"graph @few(%x: f32[$,4096]) {\n  %a = sum %x {axis=1}\n  ret %a\n}\n", 140, false, 1},
        {"graph @ends(%x: f32[$,96]) {\n  %a = amax %x {axis=1}\n  ret %a\n}\n", 1100, false, 1},
        {"graph @down(%x: f32[T,$,24]) where T in [1,512] {\n  %a = sum %x {axis=1}\n  ret %a\n}\n",
         1100, true, 1},
        {"graph @across(%x: f32[T,40,$]) where T in [1,512] {\n  %a = sum %x {axis=1}\n  ret "
         "%a\n}\n",
         1100, true, 1},
        {"graph @soft(%x: f32[T,$]) where T in [1,512] {\n  %m = amax %x {axis=1, keep=true}\n"
         "  %d = sub %x, %m\n  %e = exp %d\n  %s = sum %e {axis=1, keep=true}\n  %y = div %e, %s\n"
         "  ret %y\n}\n",
         17000, false, 1},
        {"graph @wide(%x: f64[T,$]) where T in [1,512] {\n  %e = exp %x\n"
         "  %s = sum %e {axis=1, keep=true}\n  %p = div %e, %s\n  %q = tanh %p\n"
         "  %t = sum %q {axis=1, keep=true}\n  %y = mul %q, %t\n  %z = add %y, %p\n  ret %z\n}\n",
         17000, true, 1},
        {"graph @point(%x: f32[T,$], %y: f32[T,$]) where T in [1,512] {\n  %a = add %x, %y\n"
         "  ret %a\n}\n",
         9000, false, 1},
        {"graph @flat(%x: bf16[$]) {\n  %a = cast %x {dtype=f32}\n  %b = tanh %a\n  ret %b\n}\n",
         9000, true, 1},
        {"graph @turned(%x: f32[$,200]) {\n  %a = permute %x {axes=[1,0]}\n  %b = neg %a\n"
         "  ret %b\n}\n",
         1100, true, 1},
        {"graph @product(%x: f32[T,48], %w: f32[48,$]) where T in [1,512] {\n  %a = matmul %x, %w\n"
         "  ret %a\n}\n",
         1100, false, 1},
        {"graph @weights(%x: f32[T,64]) where T in [1,512] {\n  %w = param @w : f32[$,64]\n"
         "  %a = matmul %x, %w {trans_b=true}\n  ret %a\n}\n",
         1100, false, 1},
        {"graph @columns(%x: f32[T,128]) where T in [1,512] {\n  %w = param @w : q8_0[$,128]\n"
         "  %q = quantize %x {dtype=i16b32}\n  %y = dequant %q\n  %d = dequant %w\n"
         "  %a = matmul %y, %d {trans_b=true}\n  ret %a\n}\n",
         5000, false, 1},
        {"graph @tensor(%x: bf16[T,256]) where T in [1,4096] {\n  %w = param @w : bf16[$,256]\n"
         "  %a = matmul %x, %w {trans_b=true}\n  ret %a\n}\n",
         17600, false, 16},
        {"graph @blocks(%x: f32[T,$]) where T in [1,512] {\n  %w = param @w : q4_0[96,$]\n"
         "  %q = quantize %x {dtype=i16b32}\n  %y = dequant %q\n  %d = dequant %w\n"
         "  %a = matmul %y, %d {trans_b=true}\n  ret %a\n}\n",
         9000, false, 32},
        {"graph @long(%x: bf16[T,$]) where T in [1,4096] {\n  %w = param @w : bf16[2048,$]\n"
         "  %a = matmul %x, %w {trans_b=true}\n  ret %a\n}\n",
         9000, false, 16},
        {"graph @dims(%q: f32[T,$8], %s: i32[T], %p: i32[T], %t: i32[R,9]) where R in [1,64], T in "
         "[1,4096] {\n  %k = state @k : bf16[64,2,16,$]\n  %v = state @v : bf16[64,2,16,$]\n"
         "  %e = empty {dtype=f32, shape=[T,$8]}\n  %a = attention %q, %k, %v, %s, %p, %t, %e "
         "{head_dim=$, heads=8, kv_heads=2, scale=0x1p-2}\n  ret %a\n}\n",
         544, false, 8},
        {"graph @exact(%q: f32[T,$8], %s: i32[T], %p: i32[T], %t: i32[R,9]) where R in [1,64], T "
         "in "
         "[1,4096] {\n  %k = state @k : f16[64,2,16,$]\n  %v = state @v : f16[64,2,16,$]\n"
         "  %e = empty {dtype=f32, shape=[T,$8]}\n  %a = attention %q, %k, %v, %s, %p, %t, %e "
         "{head_dim=$, heads=8, kv_heads=2, scale=0x1p-2}\n  ret %a\n}\n",
         600, false, 8},
        {"graph @heads(%q: f32[T,$64], %s: i32[T], %p: i32[T], %t: i32[R,9]) where R in [1,64], T "
         "in "
         "[1,4096] {\n  %k = state @k : bf16[64,$,16,64]\n  %v = state @v : bf16[64,$,16,64]\n"
         "  %e = empty {dtype=f32, shape=[T,$64]}\n  %a = attention %q, %k, %v, %s, %p, %t, %e "
         "{head_dim=64, heads=$, kv_heads=$, scale=0x1p-2}\n  ret %a\n}\n",
         72, false, 1},
        {"graph @large(%q: f32[T,$128], %s: i32[T], %p: i32[T], %t: i32[R,9]) where R in [1,64], T "
         "in "
         "[1,4096] {\n  %k = state @k : bf16[64,$,16,128]\n  %v = state @v : bf16[64,$,16,128]\n"
         "  %e = empty {dtype=f32, shape=[T,$128]}\n  %a = attention %q, %k, %v, %s, %p, %t, %e "
         "{head_dim=128, heads=$, kv_heads=$, scale=0x1p-2}\n  ret %a\n}\n",
         40, false, 1},
        {"graph @queries(%q: f32[T,$64], %s: i32[T], %p: i32[T], %t: i32[R,9]) where R in [1,64], "
         "T in "
         "[1,4096] {\n  %k = state @k : bf16[64,1,16,64]\n  %v = state @v : bf16[64,1,16,64]\n"
         "  %e = empty {dtype=f32, shape=[T,$64]}\n  %a = attention %q, %k, %v, %s, %p, %t, %e "
         "{head_dim=64, heads=$, kv_heads=1, scale=0x1p-2}\n  ret %a\n}\n",
         20, false, 1},
        {"graph @many(%q: f32[T,$256], %s: i32[T], %p: i32[T], %t: i32[R,9]) where R in [1,64], T "
         "in "
         "[1,4096] {\n  %k = state @k : bf16[64,2,16,128]\n  %v = state @v : bf16[64,2,16,128]\n"
         "  %e = empty {dtype=f32, shape=[T,$256]}\n  %a = attention %q, %k, %v, %s, %p, %t, %e "
         "{head_dim=128, heads=$2, kv_heads=2, scale=0x1p-2}\n  ret %a\n}\n",
         20, false, 1},
    };
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < 2; t++) {
            golden_runs runs;
            const long long unit = cases[i].unit;
            golden_runs_begin(&runs, &b);
            base_buf_printf(&b, "%.*s of %s\n", (int)strcspn(cases[i].text, "\n"), cases[i].text,
                            t ? "a GPU" : "the host");
            for (long long at = 1; at * unit <= cases[i].most; at = next_size(at)) {
                const long long n = at * unit;
                base_buf text;
                put_lowered(t ? GEN_CUDA : GEN_HOST, cases[i].text, cases[i].cut, n, &text);
                golden_runs_add(&runs, n, &text);
            }
            golden_runs_end(&runs);
        }
    check_golden("test/gen/borders.txt", &b);
}

/* --- tensor cores ---------------------------------------------------------------------------- */

typedef struct products {
    uint32_t n_parts, n_mats[3];
    int64_t k;
    bool direct, given;
} products;

/* A group of products of so many columns each. */
static void group_of(const products *of, int64_t columns, pass_segment *s, target_tensor_part *part,
                     target_tensor_parts *g) {
    *g = (target_tensor_parts){.parts = part,
                               .n_parts = of->n_parts,
                               .k = of->k,
                               .columns = LOWER_COLUMNS,
                               .direct = of->direct,
                               .given = of->given};
    for (uint32_t i = 0; i < of->n_parts; i++) {
        s[i] = (pass_segment){.n_mats = of->n_mats[i]};
        part[i] = (target_tensor_part){
            .s = &s[i], .columns = columns, .units = (columns + LOWER_COLUMNS - 1) / LOWER_COLUMNS};
        g->units += part[i].units;
    }
}

static void put_many(const target_tensor_parts *g, const target_many *m, base_buf *out) {
    uint16_t heights[LOWER_MAX_TILES];
    const uint32_t n = target_many_heights(g, m, heights);
    if (m->most < INT64_MAX) base_buf_printf(out, " <= %lld", (long long)m->most);
    base_buf_printf(out, " %s%lld of %lld tiles, %lld k %lld times", m->pingpong ? "turns " : "",
                    (long long)m->columns, (long long)m->tiles, (long long)m->chunk,
                    (long long)m->stages);
    if (m->slices > 1)
        base_buf_printf(out, ", %lld slices by %lld", (long long)m->slices, (long long)m->splits);
    base_buf_printf(out, " (%lld bytes", (long long)target_many_bytes(m));
    for (uint32_t i = 0; i < n; i++) base_buf_printf(out, "%s%u", i ? " " : ", or ", heights[i]);
    base_buf_puts(out, ");");
}

static void put_products(const products *of, base_buf *out) {
    golden_runs runs;
    base_buf_printf(out, "k %lld%s%s, matrices", (long long)of->k, of->direct ? ", direct" : "",
                    of->given ? ", given" : "");
    for (uint32_t i = 0; i < of->n_parts; i++) base_buf_printf(out, " %u", of->n_mats[i]);
    base_buf_putc(out, '\n');
    golden_runs_begin(&runs, out);
    for (int64_t columns = 32; columns <= 36000; columns += columns < 9000 ? 32 : 256) {
        pass_segment s[3];
        target_tensor_part part[3];
        target_tensor_parts g;
        target_many list[TARGET_N_MANYS];
        uint32_t n = 0;
        base_buf text;
        base_buf_init(&text, 0);
        group_of(of, columns, s, part, &g);
        target_fit_many(&g, list, &n, TARGET_FEW_ROWS, 1 << 20);
        for (uint32_t i = 0; i < n; i++) put_many(&g, &list[i], &text);
        golden_runs_add(&runs, columns, &text);
    }
    golden_runs_end(&runs);
}

static void put_few(int64_t units, int64_t tiles, int64_t rows, base_buf *out) {
    golden_runs runs;
    base_buf_printf(out, "%lld units of %lld tiles, %lld rows\n", (long long)units,
                    (long long)tiles, (long long)rows);
    golden_runs_begin(&runs, out);
    for (int64_t k = 16; k <= 16400; k += 16) {
        const target_tensor_parts g = {.k = k, .units = units, .tiles = tiles};
        target_few f;
        base_buf text;
        base_buf_init(&text, 0);
        target_fit_few(&f, &g, rows);
        base_buf_printf(&text, "%lld chunks of %lld, %lld slots, cap %lld", (long long)f.chunks,
                        (long long)f.chunk, (long long)f.slots, (long long)f.cap);
        golden_runs_add(&runs, k, &text);
    }
    golden_runs_end(&runs);
}

/* What one product, several, pairs and elements of more matrices get, of each number of columns; and copies of few rows, of each k. */
static void products_of_every_size(void **state) {
    static const products all[] = {
        {1, {1}, 576, true, false},        {1, {1}, 2048, true, false},
        {1, {1}, 2048, false, false},      {1, {1}, 2048, true, true},
        {1, {1}, 8192, true, false},       {1, {1}, 8176, true, false},
        {1, {2}, 2048, true, false},       {1, {2}, 8192, true, false},
        {1, {3}, 2048, true, false},       {1, {4}, 1024, false, false},
        {3, {1, 1, 1}, 2048, true, false}, {2, {1, 2}, 8192, true, false},
    };
    static const int64_t rows[] = {1, 8}, units[] = {8, 1100};
    golden_runs runs;
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) put_products(&all[i], &b);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (int64_t tiles = 1; tiles <= 2; tiles++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                put_few(units[u], tiles, rows[r], &b);
    base_buf_puts(&b, "rows that are few, by k\n");
    golden_runs_begin(&runs, &b);
    for (int64_t k = 16; k <= 200000; k += 16) {
        base_buf text;
        base_buf_init(&text, 0);
        base_buf_printf(&text, "%lld", (long long)target_few_rows(k));
        golden_runs_add(&runs, k, &text);
    }
    golden_runs_end(&runs);
    check_golden("test/gen/tensor.txt", &b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs_of_every_size),
                                       cmocka_unit_test(products_of_every_size)};
    return cmocka_run_group_tests_name("lower_borders", tests, NULL, NULL);
}
