/* Graphs with call, cond, while and scan in them, which several programs run. */
#ifndef SUPPORT_CONTROL_CASES_H
#define SUPPORT_CONTROL_CASES_H

#include "support/check.h"

#include "base/alloc.h"
#include "base/file.h"

/* Bodies with work for several threads, a product, a reduction, memory that is written, a loop within. */
static const char control_wide[] =
    "graph @wide(%h: f32[64,48], %x: f32[T,64,48], %w: f32[48,48]) where T in [0,8] {\n"
    "  %s = state @s : f32[64,48]\n"
    "  %n = const 0 : i32[]\n"
    "  %r = scan %h, %n, %x, %w, %s {carried=2, sliced=1, body=graph @step(\n"
    "      %h: f32[64,48], %n: i32[], %x: f32[64,48], %w: f32[48,48], %s: f32[64,48] mutates) "
    "{\n"
    "    %p = matmul %h, %w\n"
    "    %k = const 0x1p-4\n"
    "    %q4 = mul %p, %k\n"
    "    %a = add %q4, %x\n"
    "    %t = tanh %a\n"
    "    %old = mul %s, %t\n"
    "    %s1 = update %s, %a\n"
    "    %two = const 2 : i32[]\n"
    "    %q = lt %n, %two\n"
    "    %g = cond %q, %t, %old { then=graph @f(%t: f32[64,48], %o: f32[64,48]) { ret %t },\n"
    "      else=graph @g(%t: f32[64,48], %o: f32[64,48]) { ret %o }}\n"
    "    %m = amax %g {axis=1}\n"
    "    %one = const 1 : i32[]\n"
    "    %n1 = add %n, %one\n"
    "    ret %g, %n1, %m, %n\n"
    "  }}\n"
    "  %s2 = written %s, %r\n"
    "  %count = result %r {index=1}\n"
    "  %maxima = result %r {index=2}\n"
    "  %numbers = result %r {index=3}\n"
    "  ret %r, %count, %maxima, %numbers, %s2\n"
    "}\n";

/* Doubles x until it is beyond 100, then by p: negates it or not. */
static const char control_decides[] =
    "graph @decides(%x: f32[], %p: bool[]) {\n"
    "  %w = while %x {cond=graph @small(%x: f32[]) { %h = const 100 %m = lt %x, %h ret %m },\n"
    "                 body=graph @twice(%x: f32[]) { %y = add %x, %x ret %y }, limit=20}\n"
    "  %r = cond %p, %w {then=graph @minus(%x: f32[]) { %y = neg %x ret %y },\n"
    "                    else=graph @same(%x: f32[]) { ret %x }}\n"
    "  ret %r\n"
    "}\n";

/* Those of test/ir/graphs.ir that are no errors. */
static inline void control_each(void (*take)(const char *text, void *user), void *user) {
    char *all = NULL, *next;
    size_t size;
    rp_error err = {0};
    int n = 0;
    CHECK_OK(base_file_read("test/ir/graphs.ir", 1 << 20, &all, &size, &err), &err);
    for (char *c = all; c; c = next) {
        if ((next = strstr(c, "; ====\n"))) *next = 0, next += 7;
        char *want = strstr(c, "; ---\n");
        if (want) *want = 0;
        if (strstr(c, "; error: ")) continue;
        take(c, user);
        n++;
    }
    assert_true(n >= 7);
    base_free(all);
}

#endif
