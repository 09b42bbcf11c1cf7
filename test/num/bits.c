/* Bits survive: what bitcast names, and what moves floats of any width, keeps every NaN and the sign of zero, in the interpreter and at
 * every level. */
#include "support/check.h"
#include "support/elsewhere.h"

#include "base/alloc.h"
#include "ir/eval.h"
#include "trace/trace.h"

#include "reprise/reprise.h"

static const rp_dtype types[] = {RP_DTYPE_F64, RP_DTYPE_I64,      RP_DTYPE_F32,   RP_DTYPE_I32,
                                 RP_DTYPE_F16, RP_DTYPE_BF16,     RP_DTYPE_I16,   RP_DTYPE_I8,
                                 RP_DTYPE_U8,  RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2};
enum { TYPES = sizeof types / sizeof *types, SIDE = 256, ALL = SIDE * SIDE };

/* Every pattern of 8 and 16 bits; of more every upper half beside lower ones that are all zeros, all ones or neither. */
static void fill(rp_dtype t, void *to) {
    for (uint32_t i = 0; i < ALL; i++) {
        const uint32_t low = i % 3 == 0 ? 0 : i % 3 == 1 ? UINT32_MAX : i * 2654435761u;
        const uint64_t wide = (uint64_t)i << 48 | (uint64_t)low << 16 | (low & 0xffff);
        switch (rp_dtype_block_bytes(t)) {
        case 8: ((uint64_t *)to)[i] = wide; break;
        case 4: ((uint32_t *)to)[i] = i << 16 | (low & 0xffff); break;
        case 2: ((uint16_t *)to)[i] = (uint16_t)i; break;
        default: ((uint8_t *)to)[i] = (uint8_t)i; break;
        }
    }
}

/* Alone; and through all that moves, in one kernel or in several, as the other type. The odd rows come turned around; what is
 * masked is a constant. */
static const char *const forms[] = {
    "graph @alone(%%x: %1$s[256,256], %%m: bool[256,1], %%r: i32[256]) {\n"
    "  %%y = bitcast %%x {dtype=%2$s}\n  ret %%y\n}\n",
    "graph @moved(%%x: %1$s[256,256], %%m: bool[256,1], %%r: i32[256]) {\n"
    "  %%s = state @s : %2$s[256,256]\n"
    "  %%b = bitcast %%x {dtype=%2$s}\n"
    "  %%p = permute %%b {axes=[1,0]}\n  %%u = slice %%p {axis=0, start=0, stop=100}\n"
    "  %%v = slice %%p {axis=0, start=100}\n  %%c = concat %%v, %%u {axis=0}\n"
    "  %%g = gather %%c, %%r\n  %%k = const 1 : %2$s[]\n  %%w = where %%m, %%g, %%k\n"
    "  %%n = update %%s, %%w\n  %%f = reshape %%n {shape=[65536]}\n"
    "  %%y = bitcast %%f {dtype=%1$s}\n  ret %%w, %%y\n}\n"};

typedef struct memory {
    void *x, *y, *z, *want, *state;
    uint8_t mask[SIDE];
    int32_t rows[SIDE];
} memory;

static void memory_init(memory *m) {
    void **of[] = {&m->x, &m->y, &m->z, &m->want, &m->state};
    for (int i = 0; i < 5; i++) assert_non_null(*of[i] = base_alloc_array(ALL, sizeof(uint64_t)));
    for (int i = 0; i < SIDE; i++) {
        m->mask[i] = i % 5 != 3;
        m->rows[i] = i * 77 % SIDE;
    }
}

static void memory_done(memory *m) {
    void *of[] = {m->x, m->y, m->z, m->want, m->state};
    for (int i = 0; i < 5; i++) base_free(of[i]);
}

/* What the moves of the second form make, byte for byte. */
static void expect(memory *m, size_t size, rp_dtype t) {
    const double one = 1;
    uint8_t constant[8] = {1};
    if (ir_dtype_is_real(t)) ir_pack(t, &one, 1, constant);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            const int row = (m->rows[i] + 100) % SIDE;
            const char *from = m->mask[i] ? (const char *)m->x + (size_t)(j * SIDE + row) * size
                                          : (const char *)constant;
            memcpy((char *)m->want + (size_t)(i * SIDE + j) * size, from, size);
        }
}

static void check_same(const void *got, const void *want, size_t size, const char *what,
                       const char *from, const char *to) {
    for (size_t i = 0; i < ALL; i++)
        if (memcmp((const char *)got + i * size, (const char *)want + i * size, size) != 0) {
            uint64_t a = 0, b = 0;
            memcpy(&a, (const char *)got + i * size, size);
            memcpy(&b, (const char *)want + i * size, size);
            fail_msg("%s, %s to %s: element %zu is %#llx, not %#llx", what, from, to, i,
                     (unsigned long long)a, (unsigned long long)b);
        }
}

static void by_level(const char *text, const char *level, rp_dtype from, rp_dtype to, bool moved,
                     memory *m) {
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_buffer in[] = {{from, 2, {SIDE, SIDE}, m->x},
                      {RP_DTYPE_BOOL, 2, {SIDE, 1}, m->mask},
                      {RP_DTYPE_I32, 1, {SIDE}, m->rows}};
    rp_buffer out[] = {{to, 2, {SIDE, SIDE}, m->y}, {from, 1, {ALL}, m->z}};
    CHECK_OK(rp_config_set(cfg, level, &err), &err);
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    if (moved) CHECK_OK(rp_compiled_bind(c, "s", m->state, &err), &err);
    CHECK_OK(rp_compiled_run(c, in, 3, out, moved ? 2 : 1, &err), &err);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

static void by_interpreter(const char *text, rp_dtype from, rp_dtype to, bool moved, memory *m) {
    rp_error err = {0};
    rp_graph *g = NULL;
    ir_value in[3] = {{.rank = 2, .dim = {SIDE, SIDE}, .n = ALL},
                      {.rank = 2, .dim = {SIDE, 1}, .n = SIDE},
                      {.rank = 1, .dim = {SIDE}, .n = SIDE}};
    ir_value state = {.rank = 2, .dim = {SIDE, SIDE}, .n = ALL}, out[2] = {{0}};
    for (int i = 0; i < 3; i++) in[i].data = base_alloc_array((size_t)in[i].n, sizeof(double));
    state.data = base_alloc_array(ALL, sizeof(double));
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    ir_unpack(from, m->x, ALL, in[0].data);
    ir_unpack(RP_DTYPE_BOOL, m->mask, SIDE, in[1].data);
    ir_unpack(RP_DTYPE_I32, m->rows, SIDE, in[2].data);
    CHECK_OK(ir_eval(g->ir, in, NULL, &state, NULL, out, &err), &err);
    ir_pack(to, out[0].data, ALL, m->y);
    if (moved) ir_pack(from, out[1].data, ALL, m->z);
    for (int i = 0; i < 3; i++) ir_value_done(&in[i]);
    ir_value_done(&state);
    for (int i = 0; i < 2; i++) ir_value_done(&out[i]);
    rp_graph_free(g);
}

static void every_bit_stays(void **state) {
    static const char *const ways[] = {"interpreter", "level=0", "level=2"};
    memory m;
    (void)state;
    memory_init(&m);
    for (int a = 0; a < TYPES; a++)
        for (int b = 0; b < TYPES; b++)
            for (int moved = 0; moved < 2; moved++) {
                const rp_dtype from = types[a], to = types[b];
                const size_t size = rp_dtype_block_bytes(from);
                char text[1024];
                if (a == b || size != rp_dtype_block_bytes(to)) continue;
                (void)snprintf(text, sizeof text, forms[moved], rp_dtype_name(from),
                               rp_dtype_name(to));
                fill(from, m.x);
                if (moved) expect(&m, size, to);
                for (int w = 0; w < 3; w++) {
                    memset(m.y, 0x55, ALL * size);
                    memset(m.z, 0x55, ALL * size);
                    if (w == 0)
                        by_interpreter(text, from, to, moved, &m);
                    else
                        by_level(text, ways[w], from, to, moved, &m);
                    check_same(m.y, moved ? m.want : m.x, size, ways[w], rp_dtype_name(from),
                               rp_dtype_name(to));
                    if (moved)
                        check_same(m.z, m.want, size, ways[w], rp_dtype_name(to),
                                   rp_dtype_name(from));
                }
            }
    memory_done(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_bit_stays)};
    return cmocka_run_group_tests_name("num/bits", tests, NULL, NULL);
}
