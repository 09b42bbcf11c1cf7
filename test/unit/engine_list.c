/* Lists of requests against an array: who is in them, in which order, whatever is put and taken. */
#include "support/check.h"

#include "engine/request_list.h"

enum { N = 6, STEPS = 20000 };

static engine_request request[N];

typedef struct model {
    engine_request *at[N];
    uint32_t n;
} model;

static void put(model *m, uint32_t at, engine_request *r) {
    for (uint32_t i = m->n++; i > at; i--) m->at[i] = m->at[i - 1];
    m->at[at] = r;
}

static engine_request *take(model *m, uint32_t at) {
    engine_request *r = m->at[at];
    for (uint32_t i = at; i + 1 < m->n; i++) m->at[i] = m->at[i + 1];
    m->n--;
    return r;
}

static void check(const engine_request_list *l, const model *m) {
    const engine_request *r = l->head;
    assert_int_equal(l->n, m->n);
    for (uint32_t i = 0; i < m->n; i++, r = r->next) assert_ptr_equal(r, m->at[i]);
    assert_null(r);
    assert_ptr_equal(l->head, m->n ? m->at[0] : NULL);
    assert_ptr_equal(l->tail, m->n ? m->at[m->n - 1] : NULL);
}

static void order_is_that_of_an_array(void **state) {
    engine_request_list l = {0};
    model m = {.n = 0}, out = {.n = 0};
    uint32_t seed = 1;
    (void)state;
    for (uint32_t i = 0; i < N; i++) put(&out, i, &request[i]);
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t what = seed >> 30, which = seed >> 8 & 0xffff;
        if (what == 0 && out.n) {
            put(&m, m.n, take(&out, which % out.n));
            engine_list_push_back(&l, m.at[m.n - 1]);
        } else if (what == 1 && out.n) {
            put(&m, 0, take(&out, which % out.n));
            engine_list_push_front(&l, m.at[0]);
        } else if (what == 2) {
            engine_request *r = m.n ? take(&m, 0) : NULL;
            assert_ptr_equal(engine_list_pop_front(&l), r);
            if (r) put(&out, out.n, r);
        } else if (what == 3 && m.n) {
            put(&out, out.n, take(&m, which % m.n));
            engine_list_remove(&l, out.at[out.n - 1]);
        }
        check(&l, &m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(order_is_that_of_an_array)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
