/* cmocka and what every test program needs around it. */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Skips the running test; a skip without a reason counts as a failure. */
#define SKIP_TEST(...)       \
    do {                     \
        printf("skip: ");    \
        printf(__VA_ARGS__); \
        printf("\n");        \
        skip();              \
    } while (0)

/* call must give RP_OK; otherwise the test fails with the error's text. */
#define CHECK_OK(call, err)                                                        \
    do {                                                                           \
        rp_status check_st_ = (call);                                              \
        if (check_st_ != RP_OK)                                                    \
            fail_msg("%s: %s: %s", #call, rp_status_name(check_st_), (err)->text); \
    } while (0)

/* Whether expected texts are to be rewritten: BLESS=1. An empty BLESS is none. */
#define BLESSING() (getenv("BLESS") && *getenv("BLESS"))

/* Runs body with the n-th allocation failing, for every n, until it no longer
 * does. body sets st; nothing may stay allocated after a failure. */
#define FOR_EACH_ALLOC_FAILURE(n)                                         \
    for (uint64_t n = 1, more_ = 1; more_ && (base_alloc_fail_nth(n), 1); \
         more_ = base_alloc_fail_nth(0), n++)

#endif
