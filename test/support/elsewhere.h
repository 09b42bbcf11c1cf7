/* The tests of functions and of compiled graphs on another device, as they are: REPRISE_TEST_DEVICE=cuda, which test/run.sh sets for
 * --device cuda, makes those of a program that includes this run there, but for functions and graphs that name a device of their own. Arguments and results stay in
 * memory of the host, where tests read and write them: results are copied there when they are asked for, and what a test calls a state has
 * memory on the device that is written before a call, and read when it has ended and at each graph break.
 * The emulated GPU, unless REPRISE_TEST_GPU says that there is one. */
#ifndef SUPPORT_ELSEWHERE_H
#define SUPPORT_ELSEWHERE_H

#include <stdbool.h>
#include <string.h>

#include "reprise/reprise.h"

/* "cpu", or the other one: for texts that name it, and for what has a reason to differ. */
const char *elsewhere_name(void);
static inline bool runs_elsewhere(void) {
    return strcmp(elsewhere_name(), "cpu") != 0;
}
/* Skips the running test there. */
#define NOT_ELSEWHERE(why) \
    if (runs_elsewhere()) SKIP_TEST("on %s: %s", elsewhere_name(), why)

rp_status elsewhere_jit_new(const rp_jit_options *options, rp_jit **out, rp_error *err);
rp_status elsewhere_jit_run(rp_jit *f, const rp_value *args, rp_output **out, rp_error *err);
rp_status elsewhere_jit_run_into(rp_jit *f, const rp_value *args, const rp_buffer *outputs,
                                 uint32_t n_outputs, rp_error *err);
rp_status elsewhere_jit_run_views(rp_jit *f, const rp_value *args, const rp_view *outputs,
                                  uint32_t n_outputs, const rp_run_options *options, rp_error *err);
void elsewhere_jit_break_at(rp_jit_call *call, const char *reason, const char *file, int line);
double elsewhere_item_at(rp_tensor x, const char *file, int line);
rp_buffer elsewhere_jit_read_at(rp_jit_call *call, rp_tensor x, const char *file, int line);
void elsewhere_jit_free(rp_jit *f);
rp_status elsewhere_output_value(const rp_output *o, const rp_value **out, rp_error *err);
void elsewhere_output_free(rp_output *o);
rp_status elsewhere_compile(const rp_graph *g, rp_compilation_config *config, rp_compiled **out,
                            rp_error *err);
rp_status elsewhere_bind(rp_compiled *c, const char *leaf, void *data, rp_error *err);
rp_status elsewhere_run(rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                        rp_buffer *outputs, uint32_t n_outputs, rp_error *err);
void elsewhere_compiled_free(rp_compiled *c);

#ifndef ELSEWHERE_ITSELF
#define rp_jit_new elsewhere_jit_new
#define rp_jit_run elsewhere_jit_run
#define rp_jit_run_into elsewhere_jit_run_into
#define rp_jit_run_views elsewhere_jit_run_views
#define rp_jit_break_at elsewhere_jit_break_at
#define rp_item_at elsewhere_item_at
#define rp_jit_read_at elsewhere_jit_read_at
#define rp_jit_free elsewhere_jit_free
#define rp_output_value elsewhere_output_value
#define rp_output_free elsewhere_output_free
#define rp_compile elsewhere_compile
#define rp_compiled_bind elsewhere_bind
#define rp_compiled_run elsewhere_run
#define rp_compiled_free elsewhere_compiled_free
#endif

#endif
