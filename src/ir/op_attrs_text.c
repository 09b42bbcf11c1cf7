/* The text of a custom op's attributes: {axes=[0,1], eps=0x1p-3, mode="relu"}.
 *
 * Bytes of strings that the text form gives a meaning to, and those that are no ASCII letters, digits or signs, are \xNN. */
#include <string.h>

#include "base/status.h"
#include "ir/lex.h"
#include "ir/op_attrs.h"
#include "ir/text.h"

#define FAIL(...) ir_read_fail(s, s->p, RP_INVALID, __VA_ARGS__)

static void print_string(const char *s, base_buf *out) {
    base_buf_putc(out, '"');
    for (; *s; s++)
        if (*s >= ' ' && *s <= '~' && !strchr("\"\\;{}", *s))
            base_buf_putc(out, *s);
        else
            base_buf_printf(out, "\\x%02x", (unsigned)(unsigned char)*s);
    base_buf_putc(out, '"');
}

/* Element i of a list. */
static void print_element(const rp_op_attr *a, uint32_t i, base_buf *out) {
    if (i > 0) base_buf_putc(out, ',');
    if (a->kind == RP_OP_I64S)
        base_buf_printf(out, "%lld", (long long)a->is[i]);
    else if (a->kind == RP_OP_F64S)
        ir_float_print(a->fs[i], out);
    else
        print_string(a->ss[i], out);
}

void ir_op_attrs_print(const rp_op_attr *a, uint32_t n, base_buf *out) {
    base_buf_putc(out, '{');
    for (uint32_t k = 0; k < n; k++, a++) {
        base_buf_printf(out, "%s%s=", k ? ", " : "", a->name);
        switch (a->kind) {
        case RP_OP_I64: base_buf_printf(out, "%lld", (long long)a->i); break;
        case RP_OP_F64: ir_float_print(a->f, out); break;
        case RP_OP_STRING: print_string(a->s, out); break;
        case RP_OP_I64S:
        case RP_OP_F64S:
        case RP_OP_STRINGS:
            base_buf_putc(out, '[');
            for (uint32_t i = 0; i < a->n; i++) print_element(a, i, out);
            base_buf_putc(out, ']');
            break;
        case RP_OP_KIND_COUNT_: break;
        }
    }
    base_buf_putc(out, '}');
}

/* --- reading ------------------------------------------------------------------------------------ */

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static rp_status read_string(ir_reader *s, base_arena *arena, const char **out) {
    char text[RP_MAX_OP_STRING + 1];
    size_t n = 0;
    RP_TRY(ir_read_expect(s, '"'));
    for (; *s->p != '"'; s->p++) {
        int high = -1, low = -1;
        if (!*s->p || *s->p == '\n' || n == RP_MAX_OP_STRING)
            return FAIL("a string ends on its line, within %d bytes", RP_MAX_OP_STRING);
        text[n] = *s->p;
        if (*s->p == '\\') {
            if (s->p[1] == 'x') high = hex_digit(s->p[2]);
            if (high >= 0) low = hex_digit(s->p[3]);
            if (low < 0 || high + low == 0)
                return FAIL("a backslash begins \\x and two digits 0-9 a-f");
            text[n] = (char)(16 * high + low);
            s->p += 3;
        }
        n++;
    }
    s->p++;
    *out = base_arena_strn(arena, text, n);
    return *out ? RP_OK : rp_fail(s->err, RP_NOMEM, "parse: out of memory");
}

/* Whether what comes is an integer, not a number with a point or an exponent. */
static bool is_integer(const ir_reader *s) {
    ir_reader t = {.text = s->text, .p = s->p};
    int64_t v;
    return ir_read_integer(&t, &v) == RP_OK && !ir_word_char(*t.p) && *t.p != '.';
}

static rp_status read_scalar(ir_reader *s, base_arena *arena, rp_op_attr *a) {
    ir_read_skip(s);
    if (*s->p == '"') {
        a->kind = RP_OP_STRING;
        return read_string(s, arena, &a->s);
    }
    a->kind = is_integer(s) ? RP_OP_I64 : RP_OP_F64;
    return a->kind == RP_OP_I64 ? ir_read_integer(s, &a->i) : ir_read_number(s, &a->f);
}

/* Room for the longest list; what is kept is as long as it is. */
typedef struct list {
    int64_t is[RP_MAX_OP_LIST];
    double fs[RP_MAX_OP_LIST];
    const char *ss[RP_MAX_OP_LIST];
} list;

static void append(list *room, rp_op_attr *a, const rp_op_attr *x) {
    if (x->kind == RP_OP_STRING) room->ss[a->n] = x->s;
    if (x->kind == RP_OP_I64) room->is[a->n] = x->i;
    room->fs[a->n] = x->kind == RP_OP_I64 ? (double)x->i : x->f;
    /* One number with a point makes them all numbers. */
    if (a->n == 0 || (a->kind == RP_OP_I64S && x->kind == RP_OP_F64))
        a->kind = x->kind == RP_OP_STRING ? RP_OP_STRINGS
                  : x->kind == RP_OP_F64  ? RP_OP_F64S
                                          : RP_OP_I64S;
    a->n++;
}

static rp_status read_list(ir_reader *s, list *room, rp_op_attr *a, base_arena *arena) {
    a->kind = RP_OP_I64S;
    RP_TRY(ir_read_expect(s, '['));
    if (ir_read_accept(s, ']')) return RP_OK;
    do {
        rp_op_attr x = {0};
        if (a->n == RP_MAX_OP_LIST) return FAIL("a list has at most %d entries", RP_MAX_OP_LIST);
        RP_TRY(read_scalar(s, arena, &x));
        if (a->n > 0 && (x.kind == RP_OP_STRING) != (a->kind == RP_OP_STRINGS))
            return FAIL("a list has strings or numbers, not both");
        append(room, a, &x);
    } while (ir_read_accept(s, ','));
    return ir_read_expect(s, ']');
}

static rp_status read_value(ir_reader *s, base_arena *arena, rp_op_attr *a) {
    list room;
    ir_read_skip(s);
    if (*s->p != '[') return read_scalar(s, arena, a);
    RP_TRY(read_list(s, &room, a, arena));
    a->is = room.is;
    a->fs = room.fs;
    a->ss = room.ss;
    const rp_op_attr *own = ir_op_attrs_copy(arena, a, 1);
    if (!own) return rp_fail(s->err, RP_NOMEM, "parse: out of memory");
    *a = *own;
    if (a->kind != RP_OP_I64S) a->is = NULL;
    if (a->kind != RP_OP_F64S) a->fs = NULL;
    if (a->kind != RP_OP_STRINGS) a->ss = NULL;
    return RP_OK;
}

rp_status ir_op_attrs_read(ir_reader *s, base_arena *arena, const rp_op_attr **out, uint32_t *n) {
    rp_op_attr *a = base_arena_array(arena, RP_MAX_OP_ATTRS, sizeof *a);
    if (!a) return rp_fail(s->err, RP_NOMEM, "parse: out of memory");
    *out = a;
    *n = 0;
    RP_TRY(ir_read_expect(s, '{'));
    if (ir_read_accept(s, '}')) return RP_OK;
    do {
        char name[64];
        if (*n == RP_MAX_OP_ATTRS) return FAIL("an op has at most %d attributes", RP_MAX_OP_ATTRS);
        RP_TRY(ir_read_word(s, "an attribute", name));
        RP_TRY(ir_read_expect(s, '='));
        a[*n].name = base_arena_str(arena, name);
        if (!a[*n].name) return rp_fail(s->err, RP_NOMEM, "parse: out of memory");
        RP_TRY(read_value(s, arena, &a[(*n)++]));
    } while (ir_read_accept(s, ','));
    return ir_read_expect(s, '}');
}

rp_status ir_op_attrs_parse(base_arena *arena, const char *text, const rp_op_attr **out,
                            uint32_t *n, rp_error *err) {
    ir_reader r = {.text = text, .p = text, .err = err}, *s = &r;
    RP_TRY(ir_op_attrs_read(s, arena, out, n));
    ir_read_skip(s);
    return *s->p ? FAIL("expected the end of the attributes") : RP_OK;
}
