/* Shape rules: what each op gives, and the text of every refusal. */
#include "support/check.h"

#include "ir/graph.h"

/* One op over a fixed set of values, as text; `want` is its type, or the error. */
typedef struct rule_case {
    const char *line, *want;
} rule_case;

static const char header[] =
    "graph @t(%x: f32[T,8], %y: f32[S,8], %s: f32[T,1], %r: f32[8], %m: f32[8,4], %b: bool[T,8],\n"
    " %i: i32[T], %l: i64[4], %h: f16[T,8], %mu: f32[T,8] mutates, %c: f32[2,3,4,5,6,7], %q: "
    "i16b32[T,64], %my: f32[S,8] mutates,\n"
    " %x64: f32[T,64], %d: f64[4], %e: f32[0,4], %u8: u8[4], %bt: i32[S,4], %one: f32[1,8], %b3: "
    "f32[2,T,8], %j: i32[S], %i64: i64[T], %bt2: i64[S,4])\n"
    " where T in [1,64], S in [1,64], Z in [0,9] {\n"
    " %w4 = param @w4 : q4_1[96,64]\n %k = state @k : f16[9,2,16,4]\n %v = state @v : "
    "f16[9,2,16,4]\n"
    " %k32 = state @k32 : f32[9,2,16,4] %k8 = state @k8 : f16[8,2,16,4] %kh = state @kh : "
    "f16[9,1,16,4]\n"
    " %kb = state @kb : f16[9,2,8,4] %kd = state @kd : f16[9,2,16,8]\n %o = empty {dtype=f32, "
    "shape=[T,8]}\n %n = ";

static void run_case(const rule_case *c) {
    char text[2048];
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)snprintf(text, sizeof text, "%s%s\n ret %%n\n}", header, c->line);
    if (ir_parse(text, strlen(text), &g, &err) != RP_OK) {
        const char *got = strncmp(err.text, "line 11: ", 9) == 0 ? err.text + 9 : err.text;
        if (strcmp(got, c->want) != 0) fail_msg("%s\n got  %s\n want %s", c->line, got, c->want);
        return;
    }
    ir_type_text type = ir_type_of(g, ir_output_at(g, 0));
    if (strcmp(type.s, c->want) != 0) fail_msg("%s\n got  %s\n want %s", c->line, type.s, c->want);
    assert_int_equal(ir_verify(g, &err), RP_OK);
    ir_graph_free(g);
}

#define RUN(cases) \
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) run_case(&cases[i])

static void elementwise(void **state) {
    static const rule_case cases[] = {
        {"add %x, %x", "f32[T,8]"},
        {"add %x, %r", "f32[T,8]"},
        {"add %s, %x", "f32[T,8]"},
        {"add %one, %x", "f32[T,8]"},
        {"add %b3, %x", "f32[2,T,8]"},
        {"lt %x, %s", "bool[T,8]"},
        {"eq %b, %b", "bool[T,8]"},
        {"mul %i, %i", "i32[T]"},
        {"max %l, %l", "i64[4]"},
        {"mul %h, %h", "f16[T,8]"},
        {"not %b", "bool[T,8]"},
        {"where %b, %x, %r", "f32[T,8]"},
        {"where %b, %b, %b", "bool[T,8]"},
        {"fma %x, %r, %s", "f32[T,8]"},
        {"cast %i {dtype=bf16}", "bf16[T]"},
        {"add %x, %y",
         "add: f32[T,8] and f32[S,8] do not broadcast; axes counted from the last must "
         "be known to be equal, or 1"},
        {"add %x, %m",
         "add: f32[T,8] and f32[8,4] do not broadcast; axes counted from the last must "
         "be known to be equal, or 1"},
        {"add %x, %h", "add: element types of f32[T,8] and f16[T,8] differ; cast one"},
        {"sqrt %i", "sqrt: wants f32, f16, bf16 or f64, not i32[T]; cast it"},
        {"add %b, %b", "add: wants f32, f16, bf16, f64 or an integer, not bool[T,8]; cast it"},
        {"philox %u8, %u8", "philox: wants i32 or i64, not u8[4]; cast it"},
        {"div %i, %i", "div: wants f32, f16, bf16 or f64, not i32[T]; cast it"},
        {"cumsum %d {axis=0}", "f64[4]"},
        {"exp %d", "f64[4]"},
        {"sin %d", "f64[4]"},
        {"pow %d, %d", "f64[4]"},
        {"fma %d, %d, %d", "f64[4]"},
        {"pow %i, %i", "pow: wants f32, f16, bf16 or f64, not i32[T]; cast it"},
        {"sqrt %d", "f64[4]"},
        {"lt %d, %d", "bool[4]"},
        {"and %x, %x",
         "and: operand 0 must be bool or an integer, not f32[T,8]; compare or cast it"},
        {"and %i, %i", "i32[T]"},
        {"xor %b, %b", "bool[T,8]"},
        {"or %i, %b", "or: element types of i32[T] and bool[T,8] differ; cast one"},
        {"remainder %i, %i", "i32[T]"},
        {"floor_divide %x, %x", "floor_divide: wants integers, not f32[T,8]; cast it"},
        {"shift_left %b, %b", "shift_left: wants integers, not bool[T,8]; cast it"},
        {"where %x, %x, %x", "where: operand 0 must be bool, not f32[T,8]; compare it"},
        {"where %b, %x, %i", "where: element types of f32[T,8] and i32[T] differ; cast one"},
        {"where %b, %x, %y", "where: f32[T,8] and f32[S,8] do not broadcast; axes counted from the "
                             "last must be known to be equal, or 1"},
        {"where %b, %w4, %w4", "where: not for q4_1[96,64]; dequant it"},
        {"cast %x {dtype=q4_0}", "cast: to q4_0 is done by quantize"},
        {"cast %w4 {dtype=f32}", "cast: not for q4_1[96,64]; dequant it"},
        {"add %x", "add: takes 2 operands, not 1"},
        {"neg %x, %x", "neg: takes 1 operand, not 2"},
        {"neg %x {axis=0}", "neg: takes no attribute 'axis'"},
        {"cast %x", "cast: attribute 'dtype' is missing"},
        {"cast %x {dtype=f16, dtype=f16}", "cast: attribute 'dtype' is given twice"},
    };
    (void)state;
    RUN(cases);
}

static void reductions(void **state) {
    static const rule_case cases[] = {
        {"sum %x {axis=1}", "f32[T]"},
        {"sum %x {axis=-1, keep=true}", "f32[T,1]"},
        {"amax %x {axis=0}", "f32[8]"},
        {"argmax %x {axis=1}", "i32[T]"},
        {"sum %i {axis=0}", "i32[]"},
        {"sum %e {axis=0}", "f32[4]"},
        {"sum %x {axis=2}", "sum: axis 2 out of range for f32[T,8]"},
        {"sum %x {axis=-3}", "sum: axis -3 out of range for f32[T,8]"},
        {"sum %x", "sum: attribute 'axis' is missing"},
        {"sum %b {axis=0}", "sum: wants f32, f16, bf16, f64 or an integer, not bool[T,8]; cast it"},
        {"amax %e {axis=0}", "amax: axis 0 of f32[0,4] may be empty"},
    };
    (void)state;
    RUN(cases);
}

static void views(void **state) {
    static const rule_case cases[] = {
        {"reshape %x {shape=[T,2,4]}", "f32[T,2,4]"},
        {"reshape %x {shape=[8*T]}", "f32[8*T]"},
        {"reshape %x {shape=[2,4*T]}", "f32[2,4*T]"},
        {"reshape %e {shape=[0]}", "f32[0]"},
        {"permute %b3 {axes=[1,2,0]}", "f32[T,8,2]"},
        {"slice %x {axis=1, start=2, stop=6}", "f32[T,4]"},
        {"slice %x {axis=0, stop=1}", "f32[1,8]"},
        {"slice %x {axis=0, start=T-1}", "f32[1,8]"},
        {"slice %w4 {axis=0, start=32}", "q4_1[64,64]"},
        {"slice %w4 {axis=1, start=32}", "q4_1[96,32]"},
        {"broadcast %r {shape=[T,8]}", "f32[T,8]"},
        {"broadcast %s {shape=[T,8]}", "f32[T,8]"},
        {"reshape %x {shape=[T,9]}",
         "reshape: f32[T,8] and f32[T,9] are not known to have equally many elements"},
        {"reshape %x {shape=[S,8]}",
         "reshape: f32[T,8] and f32[S,8] are not known to have equally many elements"},
        {"reshape %x {shape=[T-2,8]}", "reshape: axis 0 of f32[T-2,8] may be negative"},
        {"reshape %x {shape=[1,1,1,1,1,1,T]}", "reshape: a tensor has at most 6 axes"},
        {"reshape %w4 {shape=[64,96]}", "reshape: not for q4_1[96,64]; dequant it"},
        {"permute %x {axes=[0]}", "permute: axes must name each axis of f32[T,8] once"},
        {"permute %x {axes=[0,0]}", "permute: axes must name each axis of f32[T,8] once"},
        {"permute %b3 {axes=[-2,-1,0]}", "f32[T,8,2]"},
        {"permute %x {axes=[0,-2]}", "permute: axes must name each axis of f32[T,8] once"},
        {"permute %x {axes=[0,2]}", "permute: axis 2 out of range for f32[T,8]"},
        {"permute %x {axes=[0,-3]}", "permute: axis -3 out of range for f32[T,8]"},
        {"slice %x {axis=1, stop=9}",
         "slice: [0, 9) is not known to lie within axis 1 of f32[T,8]"},
        {"slice %x {axis=0, stop=2}",
         "slice: [0, 2) is not known to lie within axis 0 of f32[T,8]"},
        {"slice %x {axis=1, start=5, stop=4}",
         "slice: [5, 4) is not known to lie within axis 1 of f32[T,8]"},
        {"slice %x {axis=1, start=-1, stop=4}",
         "slice: [-1, 4) is not known to lie within axis 1 of f32[T,8]"},
        {"slice %w4 {axis=1, start=8, stop=40}",
         "slice: start 8 of q4_1[96,64] is not a multiple of 32"},
        {"slice %w4 {axis=1, start=Z, stop=Z+32}",
         "slice: start Z of q4_1[96,64] is not a multiple of 32"},
        {"slice %w4 {axis=1, stop=40}",
         "slice: the last axis of q4_1[96,40] is not a multiple of 32"},
        {"broadcast %x {shape=[8]}", "broadcast: f32[T,8] does not stretch to f32[8]"},
        {"broadcast %x {shape=[T,9]}", "broadcast: f32[T,8] does not stretch to f32[T,9]"},
        {"broadcast %r {shape=[8,1]}", "broadcast: f32[8] does not stretch to f32[8,1]"},
    };
    (void)state;
    RUN(cases);
}

static void moves(void **state) {
    static const rule_case cases[] = {
        {"concat %x, %x {axis=0}", "f32[2*T,8]"},
        {"concat %x, %y {axis=0}", "f32[T+S,8]"},
        {"concat %x, %s {axis=-1}", "f32[T,9]"},
        {"concat %w4, %w4 {axis=0}", "q4_1[192,64]"},
        {"gather %m, %i", "f32[T,4]"},
        {"gather %r, %bt", "f32[S,4]"},
        {"gather %w4, %i", "q4_1[T,64]"},
        {"concat {axis=0}", "concat: no operands"},
        {"concat %x, %y {axis=1}", "concat: f32[T,8] and f32[S,8] differ beside axis 1"},
        {"concat %x, %r {axis=0}", "concat: f32[T,8] and f32[8] differ beside axis 0"},
        {"concat %x, %h {axis=0}",
         "concat: element types of f32[T,8] and f16[T,8] differ; cast one"},
        {"gather %m, %l", "f32[4,4]"},
        {"gather %m, %u8", "gather: index must be i32 or i64, not u8[4]; cast it"},
        {"gather %e, %i", "gather: table f32[0,4] may be empty"},
        {"gather %c, %bt", "gather: result of f32[2,3,4,5,6,7] by i32[S,4] has more than 6 axes"},
    };
    (void)state;
    RUN(cases);
}

static void contractions(void **state) {
    static const rule_case cases[] = {
        {"matmul %x, %m", "f32[T,4]"},
        {"matmul %h, %m", "f32[T,4]"},
        {"matmul %x, %y {trans_b=true}", "f32[T,S]"},
        {"matmul %b3, %m", "f32[2,T,4]"},
        {"quantize %x64 {dtype=i16b32}", "i16b32[T,64]"},
        {"dequant %w4", "f32[96,64]"},
        {"matmul %x, %s", "matmul: k of f32[T,8] and f32[T,1] differ"},
        {"matmul %x, %m {trans_b=true}", "matmul: k of f32[T,8] and f32[8,4] (transposed) differ"},
        {"matmul %x, %r", "matmul: f32[T,8] and f32[8] need two axes each; reshape"},
        {"matmul %x, %w4", "matmul: wants f32, f16 or bf16, not q4_1[96,64]; cast it"},
        {"quantize %x64 {dtype=q8_0}",
         "quantize: to q8_0; activations are quantised to i16b32 only"},
        {"quantize %x {dtype=i16b32}",
         "quantize: the last axis of i16b32[T,8] is not a multiple of 32"},
        {"quantize %h {dtype=i16b32}", "quantize: wants f32, not f16[T,8]; cast it"},
        {"dequant %x", "dequant: f32[T,8] is not of a block format"},
    };
    (void)state;
    RUN(cases);
}

static void constants(void **state) {
    static const rule_case cases[] = {
        {"const 0.1 : f32[]", "f32[]"},
        {"const -3 : i32[]", "i32[]"},
        {"const 1 : bool[]", "bool[]"},
        {"iota {axis=0, dtype=i32, shape=[T]}", "i32[T]"},
        {"const 0.5 : i32[]", "const: 0.5 is not a value of i32"},
        {"const 300 : u8[]", "const: 300 is not a value of u8"},
        {"const 2 : bool[]", "const: 2 is not a value of bool"},
        {"const 1 : q8_0[]", "const: no constants of block format q8_0"},
        {"const 1 : f32[4]", "type f32[4] is given, but const gives f32[]"},
        {"iota {axis=-1, dtype=i32, shape=[T]}", "i32[T]"},
        {"iota {axis=1, dtype=i32, shape=[T]}", "iota: axis 1 out of range for i32[T]"},
        {"iota {axis=-2, dtype=i32, shape=[T]}", "iota: axis -2 out of range for i32[T]"},
        {"iota {axis=0, dtype=bool, shape=[T]}",
         "iota: of bool; f32, f64, i32 and i64 are supported"},
        {"empty {dtype=f32, shape=[T,Z-1]}", "empty: axis 1 of f32[T,Z-1] may be negative"},
        {"param @p : q4_0[8]", "param: the last axis of q4_0[8] is not a multiple of 32"},
        {"param @p : q4_0[]", "param: the last axis of q4_0[] is not a multiple of 32"},
        {"state @k : f16[9,2,16,5]", "state 'k' is f16[9,2,16,4] already, not f16[9,2,16,5]"},
        {"param @p", "param and state need a type: param @w : f32[4]"},
        {"state @7up : f32[1]",
         "state name '7up' must be letters, digits, _ . - / with a letter or _ first"},
    };
    (void)state;
    RUN(cases);
}

#define ATTN "{heads=2, head_dim=4, kv_heads=2}"
static void effects(void **state) {
    static const rule_case cases[] = {
        {"kv_store %k, %x, %i", "f16[9,2,16,4]"},
        {"attention %x, %k, %v, %i, %i, %bt, %o " ATTN, "f32[T,8]"},
        {"attention %x, %k, %v, %i, %i, %bt, %mu " ATTN, "f32[T,8]"},
        {"update %mu, %x", "f32[T,8]"},
        {"update %o, %x", "f32[T,8]"},
        {"update %mu, %s {offsets=[0,7]}", "f32[T,8]"},
        {"copy %x", "f32[T,8]"},
        {"copy %w4", "copy: not for q4_1[96,64]; dequant it"},
        {"update %x, %x",
         "update: writes input 'x', which the graph does not declare to mutate; trace it with "
         "rp_mutable_input, or write %x: f32[T,8] mutates"},
        {"update %w4, %w4", "update: operand 0 is written, so it must be a state, an input that "
                            "the graph mutates, empty or a version of one, not param"},
        {"update %mu, %h", "update: element types of f32[T,8] and f16[T,8] differ; cast one"},
        {"update %mu, %r", "update: f32[8] does not fill f32[T,8]; broadcast it, or give offsets "
                           "to write a part"},
        {"update %mu, %s {offsets=[1,0]}",
         "update: f32[T,1] at offset 1 of axis 0 is not known to lie within f32[T,8]"},
        {"update %mu, %s {offsets=[0]}", "update: 1 offsets for f32[T,8]"},
        {"update %o, %s {offsets=[0,0]}", "update: writes a part of an empty, whose rest has no "
                                          "contents; update all of it first"},
        {"written %mu, %x", "written: %x = input is no call that writes %mu"},
        {"kv_store %k, %x", "kv_store: takes 3 operands, not 2"},
        {"kv_store %mu, %x, %i", "kv_store: operand 0 must be a state of f32, f16 or bf16 "
                                 "[blocks,kv_heads,block,head_dim], not f32[T,8]"},
        {"kv_store %k, %h, %i", "kv_store: x must be f32 with 2 axes, not f16[T,8]"},
        {"kv_store %k, %x, %l", "kv_store: slots must be i32 with 1 axes, not i64[4]"},
        {"kv_store %k, %x64, %i",
         "kv_store: rows of f32[T,64] do not fill kv_heads x head_dim of f16[9,2,16,4]"},
        {"kv_store %k, %y, %i", "kv_store: f32[S,8] needs one slot a row, got i32[T]"},
        {"kv_store %k, %x, %i, %x", "kv_store: takes 3 operands, not 4"},
        {"attention %x, %k, %v, %i, %i, %bt " ATTN, "attention: takes 7 operands, not 6"},
        {"attention %x, %k, %v, %i, %i, %i, %o " ATTN,
         "attention: block_tables must be i32 with 2 axes, not i32[T]"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=3, head_dim=4, kv_heads=2}",
         "attention: 3 heads of 4 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=0, head_dim=4, kv_heads=2}",
         "attention: 0 heads of 4 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=-2, head_dim=4, kv_heads=2}",
         "attention: -2 heads of 4 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=2, head_dim=0, kv_heads=2, scale=1}",
         "attention: 2 heads of 0 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=2, head_dim=-4, kv_heads=2, scale=1}",
         "attention: 2 heads of -4 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=2, head_dim=4, kv_heads=0}",
         "attention: 2 heads of 4 over 0 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=2, head_dim=4, kv_heads=-2}",
         "attention: 2 heads of 4 over -2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=65538, head_dim=4, kv_heads=2}",
         "attention: 65538 heads of 4 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=2, head_dim=65537, kv_heads=2}",
         "attention: 2 heads of 65537 over 2 kv heads do not divide"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=4, head_dim=4, kv_heads=2}",
         "attention: q f32[T,8] and out f32[T,8] must be f32[rows,16]"},
        {"attention %x, %k, %v, %i, %i, %bt, %o {heads=2, head_dim=4, kv_heads=1}",
         "attention: cache f16[9,2,16,4] is not of 1 kv heads of 4"},
        {"attention %x, %k, %k32, %i, %i, %bt, %o " ATTN,
         "attention: caches f16[9,2,16,4] and f32[9,2,16,4] differ"},
        {"attention %y, %k, %v, %i, %i, %bt, %my " ATTN,
         "attention: i32[T] needs one entry a row of f32[S,8]"},
        {"attention %x, %k, %v, %i, %i, %bt, %o", "attention: attribute 'head_dim' is missing"},
        {"custom %x", "custom: attribute 'name' is missing"},
        {"scan %x {carried=0, body=graph @b() {ret}}", "scan: attribute 'length' is missing"},
        {"scan %x {sliced=1, body=graph @b() {ret}}", "scan: attribute 'carried' is missing"},
        {"scan %x {carried=1, sliced=1, body=graph @b() {ret}}",
         "scan: attribute 'length' is missing"},
        {"scan %x {carried=-1, sliced=1, body=graph @b() {ret}}",
         "scan: attribute 'length' is missing"},
        {"scan %x {carried=1, sliced=-1, body=graph @b() {ret}}",
         "scan: attribute 'length' is missing"},
        {"custom %x {name=\"no::op\"}",
         "custom: 'no::op' is not registered; call rp_op_register first"},
        {"custom %x {name=\"no\"}", "custom: name is not of the form namespace::name"},
    };
    (void)state;
    RUN(cases);
}

/* Operands of attention fit each other: with any one of another size or type it is refused. */
static void one_operand_of_attention_differs(void **state) {
    static const char *const right[] = {"x", "k", "v", "i", "i", "bt", "o"};
    static const char *const wrong[7][6] = {{"y", "h", "x64", "b3"},
                                            {"k8", "kh", "kb", "kd", "k32", "x"},
                                            {"k8", "kh", "kb", "kd", "k32", "x"},
                                            {"j", "l", "i64", "x", "bt"},
                                            {"j", "l", "i64", "x", "bt"},
                                            {"i", "bt2", "x"},
                                            {"my", "x64", "i", "x"}};
    (void)state;
    for (int at = 0; at < 7; at++)
        for (int k = 0; k < 6 && wrong[at][k]; k++) {
            char text[2048];
            ir_graph *g = NULL;
            rp_error err = {0};
            int n = snprintf(text, sizeof text, "%sattention", header);
            for (int i = 0; i < 7; i++)
                n += snprintf(text + n, sizeof text - (size_t)n, "%s %%%s", i ? "," : "",
                              i == at ? wrong[at][k] : right[i]);
            (void)snprintf(text + n, sizeof text - (size_t)n, " %s\n ret %%n\n}", ATTN);
            if (ir_parse(text, strlen(text), &g, &err) == RP_OK)
                fail_msg("operand %d may be %%%s", at, wrong[at][k]);
            if (!strstr(err.text, ": attention: ")) fail_msg("%%%s: %s", wrong[at][k], err.text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),  cmocka_unit_test(reductions),
        cmocka_unit_test(views),        cmocka_unit_test(moves),
        cmocka_unit_test(contractions), cmocka_unit_test(constants),
        cmocka_unit_test(effects),      cmocka_unit_test(one_operand_of_attention_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
