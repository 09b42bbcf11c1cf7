/* The stages of compiling a graph as text: files under rank_0/ and the log channels graph, schedule and kernel_code.
 *
 * Files are named STAGE_what.GRAPH.PIECE..., so that they sort in the order of the stages; GRAPH-2 is another graph of that name that the process has dumped there. `reprise opt` reads every
 * .ir back, kir_parse every kernel of a .kir. Nothing here changes what is compiled. */
#ifndef COMPILE_DUMP_H
#define COMPILE_DUMP_H

#include "compile/compile.h"
#include "config/config.h"

/* <debug_dump_path>/rank_0, made now; NULL when nothing is to be dumped. Owned by the caller (base_free). */
rp_status compile_dump_dir(const rp_compilation_config *cfg, char **out, rp_error *err) RP_MUST_USE;

/* Splits, optimises and lowers g once more, as compile_graph does with opt, and writes down what comes out: files in
 * dir (may be NULL), text on the channels. Returns at once when nobody wants either. */
rp_status compile_dump_stages(const ir_graph *g, const compile_options *opt, const char *dir,
                              rp_error *err) RP_MUST_USE;
/* The plan of g as a file in dir (NULL: none, nor is g looked at), and on the channel schedule. */
rp_status compile_dump_plan(const plan *p, const ir_graph *g, const char *dir,
                            rp_error *err) RP_MUST_USE;

/* Around compile_graph, on the channel dynamo, with torch's words. */
void compile_log_step(const ir_graph *g, const compile_options *opt, bool done);
/* Lines of the channel inductor, for compile_graph: a piece was lowered; its code was found or compiled. */
void compile_log_lowered(const split_piece *sp, const lower_piece *low, double ms);
/* Sizes of a step as log lines have them: None, 8, (1, 8). */
enum { COMPILE_SHAPE = 48 };
void compile_shape_text(int64_t first, int64_t last, char out[COMPILE_SHAPE]);
/* hit: the key of what was found, NULL where it was compiled. */
void compile_log_code(const split_piece *sp, const compile_options *opt, const char *hit,
                      double ms);

#endif
