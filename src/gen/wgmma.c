#include "gen/wgmma.h"

#include <stdbool.h>

void gen_wgmma_text(const char *name, uint32_t columns, gen_wgmma_form form, base_buf *out) {
    const bool turned = form == GEN_WGMMA_REGISTERS_TURNED;
    const bool registers = turned || form == GEN_WGMMA_REGISTERS;
    const uint32_t n = columns / 2, b = n + (registers ? 4 : 1); /* operands: d, a, b, more */
    base_buf_printf(out,
                    "template <>\nRP_INLINE_MEMBER void %s<%u>(float *d, %s, rp_u64 "
                    "b%s)\n{\n    asm volatile(\"{\\n",
                    name, columns, registers ? "const rp_u32 *a" : "rp_u64 a",
                    turned ? "" : ", int more");
    if (!turned) base_buf_printf(out, ".reg .pred p;\\nsetp.ne.b32 p, %%%u, 0;\\n", b + 1);
    base_buf_printf(out,
                    "\"\n                 \"wgmma.mma_async.sync.aligned.m64n%uk16.f32.bf16.bf16 {",
                    columns);
    for (uint32_t i = 0; i < n; i++) base_buf_printf(out, "%s%%%u", i ? ", " : "", i);
    if (registers)
        base_buf_printf(out, "}, {%%%u, %%%u, %%%u, %%%u}, %%%u, %s, 1, 1, %d;", n, n + 1, n + 2,
                        n + 3, b, turned ? "1" : "p", turned);
    else
        base_buf_printf(out, "}, %%%u, %%%u, p, 1, 1, %d, 0;", n, b,
                        form == GEN_WGMMA_SHARED_TURNED);
    base_buf_printf(out, "\\n}\"\n                 : ");
    for (uint32_t i = 0; i < n; i++) base_buf_printf(out, "%s\"+f\"(d[%u])", i ? ", " : "", i);
    base_buf_puts(out, "\n                 : ");
    base_buf_puts(out,
                  registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)");
    base_buf_printf(out, ", \"l\"(b)%s);\n}\n", turned ? "" : ", \"r\"(more)");
}
