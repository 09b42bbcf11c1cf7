/* Kernels whose text the library has compiled ahead (gen/ready.h): launches of those, with what tells them apart as a record. Text
 * in which a size is a symbol is none of it. */
#include "gen/ready.h"
#include "target/cpu/cpu.h"

rp_status target_ready(lowerer *L, const char *name, size_t begin, const char **symbol) {
    const base_str text = {L->source.data ? L->source.data + begin : "", L->source.len - begin};
    gen_ready r;
    *symbol = NULL;
    if (!L->opt->built_in || L->source.failed) return RP_OK;
    if (!gen_ready_find(L->opt->isa, text, name, &r) || r.n_args != L->n_args || !r.n_words)
        return RP_OK;
    RP_TRY(
        lower_add_const(L, r.word, (uint32_t)(sizeof *r.word * r.n_words), &L->args[L->n_args++]));
    L->source.len = begin;
    L->source.data[begin] = 0;
    L->may = 0;
    *symbol = r.symbol;
    return RP_OK;
}
