/* Custom ops with a source in C: a kernel that calls rp_op for each of its items. */
#include "target/source.h"

#include "target/cpu/cpu.h"

static void put_kernel(lowerer *L, const target_source *s) {
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "void %s(void *const *arg, const long long *dim, long long begin, long long "
                    "end, void *scratch)\n{\n",
                    s->name);
    target_source_put_arguments(L, s);
    base_buf_printf(b,
                    "    void (*const op)(const rp_op_view *, const rp_op_value *, long long) = "
                    "rp_op_%s;\n"
                    "    (void)dim, (void)scratch;\n"
                    "    for (long long item = begin; item < end; item++) op(view, attr, item);\n"
                    "}\n",
                    s->hash);
}

rp_status target_cpu_source(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d) {
    target_source s;
    RP_TRY(target_source_begin(L, n, r, d, d->c_source, &s));
    target_source_put(L, &s, false);
    put_kernel(L, &s);
    target_source_end(L, &s);
    lower_launch *l = target_source_launch(L, &s);
    RP_TRY(base_buf_status(&L->source, L->err));
    return lower_take_args(L, l);
}
