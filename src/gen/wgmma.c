#include "gen/wgmma.h"

#include <stdbool.h>

static void put_inputs(bool registers, base_buf *out) {
    base_buf_puts(out,
                  registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)");
    base_buf_puts(out, registers ? ", \"l\"(b));\n}\n" : ", \"l\"(b), \"r\"(more));\n}\n");
}

void gen_wgmma_text(const char *name, uint32_t columns, gen_wgmma_form form, base_buf *out) {
    const bool registers = form == GEN_WGMMA_REGISTERS;
    const uint32_t n = columns / 2;
    base_buf_printf(out,
                    "template <>\nRP_INLINE_MEMBER void %s<%u>(float *d, %s, rp_u64 "
                    "b%s)\n{\n    asm volatile(\"{\\n",
                    name, columns, registers ? "const rp_u32 *a" : "rp_u64 a",
                    registers ? "" : ", int more");
    if (!registers) base_buf_printf(out, ".reg .pred p;\\nsetp.ne.b32 p, %%%u, 0;\\n", n + 2);
    base_buf_printf(out,
                    "\"\n                 \"wgmma.mma_async.sync.aligned.m64n%uk16.f32.bf16.bf16 {",
                    columns);
    for (uint32_t i = 0; i < n; i++) base_buf_printf(out, "%s%%%u", i ? ", " : "", i);
    if (registers)
        base_buf_printf(out, "}, {%%%u, %%%u, %%%u, %%%u}, %%%u, 1, 1, 1, 1;", n, n + 1, n + 2,
                        n + 3, n + 4);
    else
        base_buf_printf(out, "}, %%%u, %%%u, p, 1, 1, %d, 0;", n, n + 1,
                        form == GEN_WGMMA_SHARED_TURNED);
    base_buf_printf(out, "\\n}\"\n                 : ");
    for (uint32_t i = 0; i < n; i++) base_buf_printf(out, "%s\"+f\"(d[%u])", i ? ", " : "", i);
    base_buf_puts(out, "\n                 : ");
    put_inputs(registers, out);
}
