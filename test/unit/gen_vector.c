/* Loops over elements are vectorised: every elementwise op of floats alone and in front of those that choose between values, by the
 * compiler's own report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "support/render.h"
#include "support/trees.h"

enum { MAX_KERNELS = 1024, MAX_CHAIN = 2 };

typedef struct kernel {
    char name[64];
    uint32_t first, last; /* lines of the unit */
    bool vectorised;
} kernel;

typedef struct unit {
    base_buf text;
    kernel kernels[MAX_KERNELS];
    uint32_t n;
} unit;

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int remove_folder(void **state) {
    (void)state;
    return base_path_remove(folder, NULL) == RP_OK ? 0 : -1;
}

/* --- kernels ------------------------------------------------------------------ */

static uint32_t line_of(const base_buf *b) {
    uint32_t n = 1;
    for (size_t i = 0; i < b->len; i++) n += b->data[i] == '\n';
    return n;
}

/* out = a chain of ops of x, other operands of which are y, z or, behind the first, a constant. */
static void add_kernel(unit *u, const ir_op *chain, uint32_t n) {
    kernel *k = &u->kernels[u->n++];
    uint32_t buf[4];
    rp_error err = {0};
    assert_true(u->n <= MAX_KERNELS);
    (void)snprintf(k->name, sizeof k->name, "k_%s%s%s", ir_op_table(chain[0])->name,
                   n > 1 ? "_" : "", n > 1 ? ir_op_table(chain[1])->name : "");
    kir_func *f = kir_new(k->name, KIR_KERNEL, NULL);
    for (uint32_t i = 0; i < 4; i++)
        buf[i] = kir_add_buf(f, (const char *[]){"out", "x", "y", "z"}[i], KIR_ARG, RP_DTYPE_F32, i,
                             0, 0);
    kir_ref row = kir_begin(f, KIR_PAR, kir_const_i(f, 64));
    kir_ref col = kir_begin(f, KIR_LOOP, kir_const_i(f, 1024));
    kir_ref at = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, row, kir_const_i(f, 1024)), col);
    kir_ref v = kir_load(f, buf[1], at), y = kir_load(f, buf[2], at), z = kir_load(f, buf[3], at);
    for (uint32_t i = 0; i < n; i++) {
        int arity = ir_op_table(chain[i])->arity;
        kir_ref second = i ? kir_const_f(f, 0.1f) : y;
        v = kir_alu(f, chain[i], v, arity > 1 ? second : KIR_NONE, arity > 2 ? z : KIR_NONE);
    }
    kir_store(f, buf[0], at, v);
    kir_end(f);
    kir_end(f);
    k->first = line_of(&u->text);
    if (render_c(f, &u->text, NULL, &err) != RP_OK) fail_msg("%s: %s", k->name, err.text);
    k->last = line_of(&u->text);
    kir_free(f);
}

/* out = x with the sign of its type turned around, or (back) the float that an integer with another sign is. */
static void add_bits(unit *u, rp_dtype t, bool back) {
    const size_t bytes = rp_dtype_block_bytes(t);
    const rp_dtype as = bytes == 8   ? RP_DTYPE_I64
                        : bytes == 4 ? RP_DTYPE_I32
                        : bytes == 2 ? RP_DTYPE_I16
                                     : RP_DTYPE_I8;
    const rp_dtype wide = bytes == 8 ? RP_DTYPE_F64 : RP_DTYPE_F32;
    kernel *k = &u->kernels[u->n++];
    rp_error err = {0};
    (void)snprintf(k->name, sizeof k->name, "k_bits_%s%s", rp_dtype_name(t), back ? "_back" : "");
    kir_func *f = kir_new(k->name, KIR_KERNEL, NULL);
    const uint32_t out = kir_add_buf(f, "out", KIR_ARG, back ? wide : as, 0, 0, 0);
    const uint32_t x = kir_add_buf(f, "x", KIR_ARG, back ? as : wide, 1, 0, 0);
    kir_ref row = kir_begin(f, KIR_PAR, kir_const_i(f, 64));
    kir_ref col = kir_begin(f, KIR_LOOP, kir_const_i(f, 1024));
    kir_ref at = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, row, kir_const_i(f, 1024)), col);
    kir_ref v = kir_load(f, x, at);
    if (!back) v = kir_bits_of(f, t, v);
    const int64_t sign = -((int64_t)1 << (bytes == 1 ? 6 : bytes == 8 ? 62 : bytes * 8 - 1));
    v = kir_alu(f, IR_xor, v,
                kir_from_index(f, bytes == 8 ? KIR_I64 : KIR_I32, kir_const_i(f, sign)), KIR_NONE);
    v = back ? kir_of_bits(f, t, v) : kir_wrap_to(f, as, v);
    kir_store(f, out, at, v);
    kir_end(f);
    kir_end(f);
    k->first = line_of(&u->text);
    if (render_c(f, &u->text, NULL, &err) != RP_OK) fail_msg("%s: %s", k->name, err.text);
    k->last = line_of(&u->text);
    kir_free(f);
}

static void add_all(unit *u) {
    static const rp_dtype floats[] = {RP_DTYPE_F64,  RP_DTYPE_F32,      RP_DTYPE_F16,
                                      RP_DTYPE_BF16, RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2};
    for (size_t i = 0; i < 2 * sizeof floats / sizeof *floats; i++)
        add_bits(u, floats[i / 2], i % 2);
    static const ir_op choosing[] = {IR_max, IR_where, IR_pow, IR_log, IR_tanh};
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        ir_op chain[MAX_CHAIN] = {(ir_op)op};
        if (!ir_op_on_floats((ir_op)op) || op == IR_cast || op == IR_bitcast) continue;
        add_kernel(u, chain, 1);
        for (size_t i = 0; i < sizeof choosing / sizeof *choosing; i++) {
            chain[1] = choosing[i];
            add_kernel(u, chain, 2);
        }
    }
    assert_true(u->n > 150);
}

/* --- the compiler's report --------------------------------------------------------- */

static void note(unit *u, uint32_t line) {
    for (uint32_t i = 0; i < u->n; i++)
        if (line >= u->kernels[i].first && line < u->kernels[i].last)
            u->kernels[i].vectorised = true;
}

/* FILE:LINE:COLUMN: optimized: loop vectorized... (gcc), ...: remark: vectorized loop... (clang) */
static void read_report(unit *u, char *report) {
    char *save = NULL;
    for (char *l = strtok_r(report, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *line = strstr(l, ".c:");
        if (line && (strstr(l, "optimized: loop vectorized") || strstr(l, "remark: vectorized")))
            note(u, (uint32_t)strtoul(line + 3, NULL, 10));
    }
}

static void compile(unit *u, const char *cc, gen_cc_family family, gen_isa isa) {
    const char *argv[48] = {cc, "-c", "-w", "-fPIC", "-o", "/dev/null"};
    size_t n = 6, n_flags = 0;
    int code = -1;
    char path[128];
    base_buf report;
    const char *const *flags = gen_isa_flags(isa, family, &n_flags);
    for (size_t i = 0; i < n_flags; i++) argv[n++] = flags[i];
    argv[n++] = family == GEN_CC_CLANG ? "-Rpass=loop-vectorize" : "-fopt-info-vec-optimized";
    /* Equal functions would be reported once. */
    if (family == GEN_CC_GCC) argv[n++] = "-fno-ipa-icf";
    (void)snprintf(path, sizeof path, "%s/vector.c", folder);
    argv[n] = path;
    base_buf_init(&report, 0);
    assert_int_equal(base_file_write_atomic(path, u->text.data, u->text.len, NULL), RP_OK);
    assert_int_equal(base_spawn(argv, &report, &code, NULL), RP_OK);
    if (code != 0) fail_msg("%s exited with %d: %.300s", cc, code, report.data);
    if (report.data) read_report(u, report.data);
    base_buf_done(&report);
}

static void check(const char *name, gen_cc_family family) {
    static unit u;
    char *cc = base_find_program(name);
    base_buf plain;
    uint32_t n_plain = 0;
    if (!cc || gen_isa_best() == GEN_ISA_PORTABLE) {
        print_message("skip: %s\n", cc ? "no vector instructions but the portable ones"
                                       : "no compiler of that name");
        base_free(cc);
        skip();
    }
    memset(&u, 0, sizeof u);
    base_buf_init(&u.text, 0);
    base_buf_init(&plain, 0);
    gen_c_prelude(gen_isa_best(), &u.text);
    add_all(&u);
    compile(&u, cc, family, gen_isa_best());
    for (uint32_t i = 0; i < u.n; i++) {
        if (u.kernels[i].vectorised) continue;
        base_buf_printf(&plain, " %s", u.kernels[i].name);
        n_plain++;
    }
    if (n_plain) fail_msg("%s leaves %u of %u loops scalar:%s", name, n_plain, u.n, plain.data);
    base_buf_done(&plain);
    base_buf_done(&u.text);
    base_free(cc);
}

static void gcc_vectorises_every_op(void **state) {
    (void)state;
    check("gcc", GEN_CC_GCC);
}

static void clang_vectorises_every_op(void **state) {
    (void)state;
    check("clang", GEN_CC_CLANG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcc_vectorises_every_op),
        cmocka_unit_test(clang_vectorises_every_op),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
