/* A text of choices beside a file of the tree, line by line: whatever moves a border changes a line. BLESS=1 rewrites the file. */
#ifndef TEST_SUPPORT_GOLDEN_H
#define TEST_SUPPORT_GOLDEN_H

#include "base/str.h"

/* Fails with the number of the first line that is another one, and both; done with b. */
void check_golden(const char *path, base_buf *b);

/* Lines "FROM..TO: text" of what is chosen for one size after the other: a line for each run of sizes with one text. */
typedef struct golden_runs {
    base_buf *out;
    base_buf last;
    long long from, to;
} golden_runs;

void golden_runs_begin(golden_runs *r, base_buf *out);
/* Takes text over; sizes ascend. */
void golden_runs_add(golden_runs *r, long long size, base_buf *text);
void golden_runs_end(golden_runs *r);

#endif
