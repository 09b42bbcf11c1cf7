/* A stage of a compile, as its dump has it. */
#ifndef SUPPORT_DUMPED_H
#define SUPPORT_DUMPED_H

#include "compile/dump.h"
#include "support/check.h"
#include "support/trees.h"

/* A text that compile_dump_stages writes of g, by the name of its file; free with free. */
static inline char *dumped(const ir_graph *g, const compile_options *o, const char *file) {
    rp_error err = {0};
    size_t size;
    const char *dir = tree_new("dumped");
    CHECK_OK(compile_dump_stages(g, o, dir, &err), &err);
    char *text = (char *)tree_read(dir, file, &size); /* which has room for one more */
    text[size] = 0;
    return text;
}

#endif
