/* Compiled graphs on a device: the bits of the cpu, wherever buffers and weights lie. */
#ifndef SUPPORT_COMPILED_DEVICE_H
#define SUPPORT_COMPILED_DEVICE_H

/* Fails the test where a graph that gathers, adds up, multiplies and writes an input and a state gives something else on the device
 * of that name than on the cpu, at any level, from memory of the host, of the device and between, with and without a stream. */
void compiled_device_check(const char *name);
/* Operands that kernels load 16 bytes at a time give the same bits wherever they lie, between the places of such loads, too. */
void compiled_device_check_loads(const char *name);
/* Calls from several threads at once, with and without streams. */
void compiled_device_check_threads(const char *name);
/* rp_graph_eval_text there and on the cpu: the same text. For the first GPU alone. */
void compiled_device_check_eval(void);
/* What cannot run there is refused when it is compiled or bound, with the reason. */
void compiled_device_check_refusals(const char *name);

#endif
