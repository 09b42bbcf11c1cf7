/* One look-up over both tables of built-in kernels. */
#include "compile/builtin.h"

#include <string.h>

#include "compile/portable/kernels.h"
#include "gen/builtin.h"

#define ENTRY(name) {"@" #name, portable_##name},
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_ELEMENTWISE(kind, ENTRY(name)) IR_OF_REDUCTIONS(kind, ENTRY(name))

static const struct {
    const char *name;
    gen_host_fn fn;
} portable[] = {
#include "ir/ops.def"
    PORTABLE_KERNELS(ENTRY) PORTABLE_X86_KERNELS(ENTRY)};
#undef OP

gen_host_fn compile_builtin_find(const char *name) {
    gen_host_fn fn = gen_builtin_find(name);
    for (size_t i = 0; !fn && i < sizeof portable / sizeof *portable; i++)
        if (strcmp(portable[i].name, name) == 0) fn = portable[i].fn;
    return fn;
}
