/* Linked into every test program: output is written line by line, so that what a
 * test printed before it crashed is in the log, in order with stderr. */
#include <stdio.h>

__attribute__((constructor)) static void line_by_line(void) {
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
}
