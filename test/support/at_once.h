/* One thread for each of n items that lie `size` bytes apart: work is called with each, at once. */
#ifndef SUPPORT_AT_ONCE_H
#define SUPPORT_AT_ONCE_H

#include <pthread.h>

#include "support/check.h"

enum { AT_ONCE_MOST = 16 };

static inline void at_once(void *(*work)(void *item), void *items, size_t size, int n) {
    pthread_t t[AT_ONCE_MOST];
    assert_true(n <= AT_ONCE_MOST);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&t[i], NULL, work, (char *)items + (size_t)i * size), 0);
    for (int i = 0; i < n; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
}

#endif
