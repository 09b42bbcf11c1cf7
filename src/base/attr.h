/* What a compiler cannot see of functions: which of them a call that goes as the one before does without. They are called, so that such a call
 * keeps no registers for them. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#define RP_APART __attribute__((noinline))
/* And what it does: within its caller, also where there are several. */
#define RP_WITHIN inline __attribute__((always_inline))
/* Hardly ever: not where speed counts, too. */
#define RP_COLD __attribute__((noinline, cold))

#endif
