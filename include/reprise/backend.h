/* Compilers of others: who gets a graph, reads it (node.h), and gives what runs in its place, as a function that is given to
 * torch.compile(backend=...) does.
 *
 *     rp_backend_desc d = {.size = sizeof d, .name = "mine", .compile = compile};
 *     rp_backend_register(&d, &err);
 *     rp_config_set(config, "level=2", &err);
 *     rp_config_set(config, "backend=mine", &err);      (for rp_jit_new and rp_compile)
 *
 * docs/backends.md has the rules and those that come with the library; examples/backend.c is a small one. */
#ifndef REPRISE_BACKEND_H
#define REPRISE_BACKEND_H

#include "reprise/node.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a backend gives: called in place of the graph. */
typedef struct rp_callable {
    /* inputs and outputs are those of the graph in its order: dense, in memory of the host, types and sizes checked; the data of an
     * empty one may be NULL. Outputs overlap nothing else and are to be written in full. Borrowed for the call. Calls of one callable take turns; they come
     * from any thread. A failure writes why into err->text (err is never NULL) and is that of the call. */
    rp_status (*run)(void *self, const rp_buffer *inputs, uint32_t n_inputs, rp_buffer *outputs,
                     uint32_t n_outputs, rp_error *err);
    void (*free)(void *self); /* (optional) once, when nothing runs */
    void *self;
} rp_callable;

/* What the configuration asks for beside the graph. It is the library's, and grows at the end. */
typedef struct rp_backend_options {
    size_t size;
    uint32_t threads; /* that a call may use, at least 1 */
} rp_backend_options;

/* Takes the next bytes of a handle. */
typedef void (*rp_backend_write)(void *to, const void *data, size_t size);

typedef struct rp_backend_desc {
    size_t size;      /* sizeof(rp_backend_desc); may be an older, smaller one */
    const char *name; /* letters, digits, _ and -; copied */
    /* (optional) Whether it can work here: a library is there. A failure is that of every compile. Any thread, several at once. */
    rp_status (*ready)(void *user, rp_error *err);
    /* Fills *out for g, in which nothing is left that no output or write needs. g is read-only and stays until out->free has returned. Any thread, several at once.
     * RP_UNSUPPORTED says that it does not take this graph, which may be a piece of one (supports; at level 3 what is between splitting ops), and why: inductor compiles it then, with a warning, a note in the configuration and the reason in
     * rp_compiled_info and rp_output_reason. Another failure is that of the compile; rp_jit_run runs the function op by op then where suppress_errors says so. err is never NULL. */
    rp_status (*compile)(void *user, const rp_graph *g, const rp_backend_options *options,
                         rp_callable *out, rp_error *err);
    void *user;
    /* (optional, all three or none) As the compilers of vLLM: what is made is kept in the compile cache, and the next process loads it. save and load: threads as above.
     * hash: text of what decides it beside graph and options, versions and settings of the compiler; borrowed until the next call of hash. Any thread, one
     * after the other, also of several backends: it must not compile, nor wait for who does. */
    const char *(*hash)(void *user);
    /* Writes what load needs, a handle: the code, or the name of a file that has it. A failure is told as a warning, and nothing is kept. */
    rp_status (*save)(void *user, const rp_callable *made, rp_backend_write write, void *to,
                      rp_error *err);
    /* As compile, from a handle of an equal graph, options and hash. A failure is told, and g is compiled. */
    rp_status (*load)(void *user, const rp_graph *g, const rp_backend_options *options,
                      const void *handle, size_t size, rp_callable *out, rp_error *err);
    /* (optional) Whether it takes node i of g, where what the node reads may be its operands in the same graph or inputs: RP_OK, or RP_UNSUPPORTED and why. Asked of all
     * nodes but inputs, params, states and splitting ops, before compile, and again of a graph that was rewritten in between: where it takes not all of them, or g has params or states, compile is given pieces, graphs of nodes that it
     * takes, whose params are inputs; inductor compiles the rest. NULL: it takes each node; compile is given all of a graph, or at level 3 what is between splitting ops, whose params are inputs. Another failure is that of the compile. Any thread, several at once. err is never NULL. */
    rp_status (*supports)(void *user, const rp_graph *g, uint32_t i, rp_error *err);
} rp_backend_desc;

/* For the rest of the process. Copies desc. RP_INVALID for a name that is none or is taken. Thread-safe. */
RP_API rp_status rp_backend_register(const rp_backend_desc *desc, rp_error *err) RP_MUST_USE;
/* All that the setting `backend` takes, registered ones behind those of the library: the name at i, NULL behind the last. Thread-safe. */
RP_API const char *rp_backend_name(uint32_t i);

#ifdef __cplusplus
}
#endif
#endif
