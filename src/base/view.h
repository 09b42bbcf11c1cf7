/* Tensors that lie in memory of another shape: where their elements are, whether two of them meet, copies to dense memory and back. */
#ifndef BASE_VIEW_H
#define BASE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/runs.h"

enum { BASE_VIEW_RANK = BASE_RUNS_AXES };

/* Memory is the caller's. Sizes are not negative. */
typedef struct base_view {
    char *at;       /* the element whose indices are all 0 */
    size_t element; /* bytes, at least 1 */
    uint32_t rank;
    int64_t dim[BASE_VIEW_RANK];
    int64_t stride[BASE_VIEW_RANK]; /* bytes between neighbours; 0 and negative, too */
} base_view;

/* Whether the elements lie as those of dense row-major memory do; an empty one does. */
bool base_view_is_dense(const base_view *v);
/* Bytes of the elements together; false where no memory has so many. */
bool base_view_bytes(const base_view *v, size_t *out);
/* Bytes from v->at to the first byte of an element, and behind the last one; both 0 for an empty view. False where they are beyond
 * what addresses have. */
bool base_view_span(const base_view *v, int64_t *begin, int64_t *end);
/* Whether two elements of v share a byte, or one of a and one of b: exact, but for strides so intertwined that the search for
 * an answer is given up, which count as sharing. The spans are in range. */
bool base_view_repeats(const base_view *v);
typedef enum base_meeting { BASE_APART, BASE_MEET, BASE_UNSURE /* given up */ } base_meeting;
base_meeting base_views_meeting(const base_view *a, const base_view *b);
static inline bool base_views_meet(const base_view *a, const base_view *b) {
    return base_views_meeting(a, b) != BASE_APART;
}
/* Between v and dense memory (in: to that): runs of neighbours in both, as long as they are, over as few axes as there are. An empty view
 * has run 0. */
void base_view_runs(const base_view *v, bool in, base_runs *out);
/* Between memory of the host. */
void base_view_gather(const base_view *v, void *dense);
void base_view_scatter(const base_view *v, const void *dense);

#endif
