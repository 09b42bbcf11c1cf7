/* What users write with calls of the tensor API that are several ops, as values of random graphs: products, random numbers, values by
 * their place, attention (dense, and over a cache in blocks), convolutions, pooling. */
#ifndef SUPPORT_RANDOM_COMPOSITES_H
#define SUPPORT_RANDOM_COMPOSITES_H

#include "support/random_maker.h"

/* Something that is made of x, of any type and rank but block formats; x itself where nothing was drawn that takes it. New leaves are
 * named by the count of nodes. */
random_item random_composite(random_maker *m, random_item x);

#endif
