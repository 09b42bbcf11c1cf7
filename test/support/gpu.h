/* A GPU for tests: the one of this machine, or the emulated one (emu/emu.c), which needs g++ and an x86-64 processor. */
#ifndef SUPPORT_GPU_H
#define SUPPORT_GPU_H

#include <stdbool.h>

/* From now on cuda:0 is the emulated GPU, and its compiler NVRTC. Once a program, before anything looks for a GPU. False
 * where there can be none: *why says it. */
bool gpu_emulate(const char **why);

/* A kernel ends so that its context is lost, with that code (700: it touched memory that is none): on the emulated GPU the next one that runs, on a real one, whose driver chooses
 * the code, one more that has run when this returns. for_good: this process gets no other context, which is what a real driver does. */
void gpu_lose(int code, bool for_good);
/* The emulated GPU takes it back. */
void gpu_find_again(void);
/* The nth call of the emulated driver from now on that can fail gives that code; 0: none. How many there were since. */
void gpu_fail_nth(unsigned nth, int code);
unsigned gpu_calls(void);
/* What the emulated GPU has given and not got back, such as "2 graphs, 1 streams"; "". */
const char *gpu_left(void);
/* A GPU of this machine, of which a lost context is lost for the rest of the program. */
bool gpu_is_real(void);
/* Whether graphs with conditional nodes may be replayed: what compute-sanitizer puts into kernels fails in their bodies. */
bool gpu_may_branch(void);

/* A model on cuda:0 against the cpu: equal greedy tokens of several prompts, one by one and in one batch, for each level and
 * graph mode, and for one more setting (NULL: none). Fails the test where they differ. */
void gpu_check_tokens(const char *model, const char *setting, bool every_level, bool every_mode);
/* Teacher forcing of `n` tokens in steps of `step`: every one of the top logits has the same bits. */
void gpu_check_scores(const char *model, const char *setting, unsigned n, unsigned step);
/* The same of default numerics with bf16 weights, without kernels of decode steps: equal bits for every level and graph mode on cuda:0, near those of the cpu, and not
 * all of them equal to those, since then nothing ran on tensor cores. */
void gpu_check_near(const char *model, unsigned n, unsigned step);
/* Equal greedy tokens of many prompts, most of them short, in one batch. */
void gpu_check_crowd(const char *model);
/* Equal tokens of requests that draw in many ways beside greedy ones and one that wants log probabilities, more of them than run at once, with the next step launched ahead
 * or not, and each of them alone. */
void gpu_check_draws(const char *model);

#endif
