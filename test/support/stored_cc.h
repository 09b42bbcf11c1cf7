/* A host compiler that remembers: the same source gives the object of its first run, without compiling again. */
#ifndef SUPPORT_STORED_CC_H
#define SUPPORT_STORED_CC_H

/* Makes it in a private folder and names it in REPRISE_CC. */
void stored_cc_install(void);

#endif
