/* Ops of the library that a function of the host runs, as it runs those of users: assert and print.
 *
 * Both take memory of one byte first, which they write, so that a graph runs them in the order in which they were recorded and drops
 * and merges none (src/trace/host.c), and give a byte of 1. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "ir/custom.h"
#include "ir/eval.h"

/* Of an axis of more than ALL elements in all, so many are printed at either end. */
enum { ALL = 1000, EDGE = 3 };

static int64_t count_of(const rp_buffer *b) {
    int64_t n = 1;
    for (uint32_t d = 0; d < b->rank; d++) n *= b->dim[d];
    return n;
}

static void put_type(const rp_buffer *b, base_buf *out) {
    base_buf_printf(out, "%s[", rp_dtype_name(b->dtype));
    for (uint32_t d = 0; d < b->rank; d++)
        base_buf_printf(out, "%s%" PRId64, d ? "," : "", b->dim[d]);
    base_buf_putc(out, ']');
}

static const char *text_attr(const rp_op_call *call, const char *name) {
    return rp_op_call_attr(call, name)->s;
}

static rp_status written(rp_buffer *args, uint32_t n_args) {
    *(uint8_t *)args[0].data = 1;
    *(uint8_t *)args[n_args - 1].data = 1;
    return RP_OK;
}

/* --- assert -------------------------------------------------------------------------- */

/* ", element [1,2] of bool[4,8]" */
static void put_element(const rp_buffer *b, int64_t i, base_buf *out) {
    int64_t at[RP_MAX_RANK];
    if (b->rank == 0) return;
    for (uint32_t d = b->rank; d-- > 0; i /= b->dim[d]) at[d] = i % b->dim[d];
    base_buf_puts(out, ", element [");
    for (uint32_t d = 0; d < b->rank; d++) base_buf_printf(out, "%s%" PRId64, d ? "," : "", at[d]);
    base_buf_puts(out, "] of ");
    put_type(b, out);
}

/* args: order, condition, then the result. */
static rp_status run_assert(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                            rp_error *err) {
    const uint8_t *holds = args[1].data;
    const char *at = text_attr(call, "at"), *message = text_attr(call, "message");
    const int64_t n = count_of(&args[1]);
    base_buf where;
    int64_t i = 0;
    while (i < n && holds[i]) i++;
    if (i == n) return written(args, n_args);
    base_buf_init(&where, 0);
    put_element(&args[1], i, &where);
    (void)rp_fail(err, RP_INVALID, "%s%s%s does not hold%s%s%s", at, *at ? ": " : "", call->name,
                  where.data && !where.failed ? where.data : "", *message ? ": " : "", message);
    base_buf_done(&where);
    return RP_INVALID;
}

/* --- print --------------------------------------------------------------------------- */

static void put_element_value(rp_dtype t, const void *p, base_buf *out) {
    double v;
    int64_t whole;
    ir_unpack(t, p, 1, &v);
    memcpy(&whole, &v, sizeof whole);
    if (t == RP_DTYPE_BOOL)
        base_buf_puts(out, v != 0.0 ? "true" : "false");
    else if (t == RP_DTYPE_I64)
        base_buf_printf(out, "%" PRId64, whole);
    else if (isnan(v))
        base_buf_puts(out, "nan"); /* its sign is not defined */
    else
        base_buf_printf(out, ir_dtype_is_real(t) ? "%g" : "%.0f", v);
}

/* Axes from d on, of which an element at `at` is the first; as numpy writes them, in a line. */
static void put_axis(const rp_buffer *b, uint32_t d, const char *at, int64_t bytes, int64_t n,
                     base_buf *out) { /* NOLINT(misc-no-recursion): one level an axis */
    if (d == b->rank) {
        put_element_value(b->dtype, at, out);
        return;
    }
    const int64_t size = b->dim[d], step = size ? bytes / size : 0;
    base_buf_putc(out, '[');
    for (int64_t i = 0; i < size; i++) {
        if (i) base_buf_puts(out, ", ");
        if (n > ALL && size > 2 * EDGE && i == EDGE) {
            base_buf_puts(out, "..., ");
            i = size - EDGE;
        }
        put_axis(b, d + 1, at + i * step, step, n, out);
    }
    base_buf_putc(out, ']');
}

/* args: order, value, then the result. */
static rp_status run_print(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                           rp_error *err) {
    const char *message = text_attr(call, "message");
    const rp_buffer *x = &args[1];
    const int64_t n = count_of(x);
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s%s", message, *message ? ": " : "");
    put_type(x, &b);
    base_buf_putc(&b, ' ');
    put_axis(x, 0, x->data, n * (int64_t)rp_dtype_block_bytes(x->dtype), n, &b);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) base_log_say("%s", b.data);
    base_buf_done(&b);
    return st == RP_OK ? written(args, n_args) : st;
}

/* --- their descriptions ------------------------------------------------------------------ */

static const rp_op_attr assert_attrs[] = {{.name = "at", .kind = RP_OP_STRING, .s = ""},
                                          {.name = "message", .kind = RP_OP_STRING, .s = ""}};
static const rp_op_attr print_attrs[] = {{.name = "message", .kind = RP_OP_STRING, .s = ""}};

static const rp_op_desc ops[] = {{.size = sizeof(rp_op_desc),
                                  .name = IR_OP_ASSERT,
                                  .mutates = 1,
                                  .cpu = run_assert,
                                  .attrs = assert_attrs,
                                  .n_attrs = 2},
                                 {.size = sizeof(rp_op_desc),
                                  .name = IR_OP_PRINT,
                                  .mutates = 1,
                                  .cpu = run_print,
                                  .attrs = print_attrs,
                                  .n_attrs = 1}};

const rp_op_desc *ir_custom_own(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    return NULL;
}
