/* What a compiler cannot see of functions: which of them a call that goes as the one before does without. They are called, so that such a call
 * keeps no registers for them. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#define RP_APART __attribute__((noinline))
/* Hardly ever: not where speed counts, too. */
#define RP_COLD __attribute__((noinline, cold))

#endif
