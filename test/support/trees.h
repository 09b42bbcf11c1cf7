/* Folders of files, as tests of the cache use them: a private place, copies, lists, comparisons. */
#ifndef SUPPORT_TREES_H
#define SUPPORT_TREES_H

#include <stddef.h>
#include <stdint.h>

/* A new empty folder in $TMPDIR, which test/run.sh makes for each test, in memory where that is possible (some write
 * thousands of files). The caller removes it. 0, or -1 when it cannot be made or dir is too small. */
int tree_make(char *dir, size_t size);
/* A new empty folder of this program, removed at exit with all that is in it. Static; name is its last part. */
const char *tree_new(const char *name);
/* Replaces `to` by a copy of `from`. */
void tree_copy(const char *from, const char *to);
void tree_remove(const char *path);

/* Every regular file below root, relative and sorted. Free with tree_list_free. */
typedef struct tree_list {
    char **path;
    size_t n;
} tree_list;
tree_list tree_files(const char *root);
void tree_list_free(tree_list *l);

/* Fails the test at the first file that only one of them has, or that differs. Returns how many there are. */
size_t tree_same(const char *a, const char *b);
/* Fails the test when a temporary file was left behind. */
void tree_no_temporaries(const char *root);

/* Files that this process has open. */
size_t tree_open_files(void);

/* A whole file; free with free. */
uint8_t *tree_read(const char *root, const char *path, size_t *size);
void tree_write(const char *root, const char *path, const void *data, size_t size);

#endif
