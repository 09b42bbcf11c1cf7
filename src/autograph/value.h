/* Trees of values: checking, keys, copies, and their tensors in order. */
#ifndef AUTOGRAPH_VALUE_H
#define AUTOGRAPH_VALUE_H

#include "base/str.h"
#include "base/view.h"
#include "reprise/value.h"

/* How a key is made: with numbers of rows rounded up; of views whose neighbours may lie backwards, too. */
enum { AUTOGRAPH_KEY_ROUNDED = 1, AUTOGRAPH_KEY_BACKWARD = 2 };
/* Appends the bytes that a call is found by. RP_INVALID tells what is no value, and where; failed appends are the buffer's to tell. */
rp_status autograph_value_key(const rp_value *v, unsigned how, base_buf *out,
                              rp_error *err) RP_MUST_USE;

/* Calls visit with each tensor, depth first, until it fails. */
typedef rp_status (*autograph_visit)(void *user, rp_value *tensor, rp_error *err);
rp_status autograph_value_each(rp_value *v, autograph_visit visit, void *user,
                               rp_error *err) RP_MUST_USE;
uint32_t autograph_value_tensors(const rp_value *v); /* how many there are */
/* The n-th of them, which there is. */
const rp_value *autograph_value_tensor(const rp_value *v, uint32_t n);

/* Of a list, tuple or map of more than `few` items, whether so many can be read. */
bool autograph_items_are_there(const rp_value *v, uint32_t few);
/* Fewer are not worth asking the kernel at each call. */
enum { AUTOGRAPH_MANY_ITEMS = 256 };

/* Bytes behind v: items, names and strings; a multiple of 16. */
size_t autograph_value_size(const rp_value *v);
/* A copy whose items, names and strings lie at `at`, in so many bytes, 16-byte aligned. Its items are writable. */
rp_value autograph_value_copy(const rp_value *v, void *at);

/* Whether the strides are those of a dense buffer. */
bool autograph_is_dense(const rp_value *tensor);
/* Its elements, of no block format; strides that no memory has are false. */
bool autograph_view_of(const rp_value *tensor, base_view *out);

#endif
