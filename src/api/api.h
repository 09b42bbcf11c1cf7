/* What the files of this room share. */
#ifndef API_API_H
#define API_API_H

#include "compile/assemble.h"
#include "gen/isa.h"
#include "plan/plan.h"
#include "reprise/graph.h"
#include "trace/trace.h"

/* RP_INVALID for NULL and for a graph that is still being traced; the failure of its trace. */
rp_status api_graph_ready(const rp_graph *g, rp_error *err) RP_MUST_USE;

/* NULL, "" and "auto": the best one here; else the named one, granted or not (the next smaller one where it has no
 * templates, which is a warning). RP_CONFIG for an unknown name. */
rp_status api_isa(const char *name, gen_isa *out, rp_error *err) RP_MUST_USE;

/* One value of every symbol of g from "T=4,R=2": the smallest multiple of its divisor, at least 2 where
 * allowed, for what is not named. values: ir_dims_symbol_count entries. */
rp_status api_sizes(const ir_graph *g, const char *sizes, int64_t *values,
                    rp_error *err) RP_MUST_USE;

/* RP_INVALID names a size that g depends on and no input tells (api_read_sizes). */
rp_status api_check_sizes(const ir_graph *g, rp_error *err) RP_MUST_USE;

/* The values of a plan's symbols from the shapes of its inputs, whose ranks were checked: a dim of one symbol, times and
 * plus constants, gives its value; symbols without one, on which nothing depends, get their least. RP_INVALID names two inputs that
 * contradict each other; other contradictions are the caller's to find. */
rp_status api_read_sizes(const plan *p, const rp_buffer *inputs, int64_t *symbols,
                         rp_error *err) RP_MUST_USE;

/* Settings that speak of ops and backends are checked against those that there are. */
rp_status api_resolve(const ir_graph *g, rp_compilation_config *cfg, rp_error *err) RP_MUST_USE;
/* Where nothing is compiled: each kernel is in the one module that there would be. */
rp_status api_own_functions(compile_lowered *l, gen_isa isa, rp_error *err) RP_MUST_USE;
/* Gives l the plans of the graphs that its launches run, for compile_assemble. */
rp_status api_inner_plans(compile_lowered *l, gen_isa isa, rp_error *err) RP_MUST_USE;
/* Of a piece that was lowered here; the plans that no plan has taken as well. */
void api_lowered_done(compile_lowered *l);

#endif
