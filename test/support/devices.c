#include "support/devices.h"

#include <pthread.h>

rp_device *device_open_ok(const char *name, uint32_t threads) {
    rp_error err = {0};
    rp_device *d = NULL;
    CHECK_OK(rp_device_open(name, threads, &d, &err), &err);
    return d;
}

rp_stream *stream_open_ok(rp_device *d) {
    rp_error err = {0};
    rp_stream *s = NULL;
    CHECK_OK(rp_stream_open(d, &s, &err), &err);
    return s;
}

void device_check_copies(const char *name) {
    rp_error err = {0};
    rp_device *d = device_open_ok(name, 1);
    rp_stream *a = stream_open_ok(d), *b = stream_open_ok(d);
    rp_event *e = NULL;
    void *p = NULL, *q = NULL;
    char back[8] = "";
    CHECK_OK(rp_device_alloc(d, 8, &p, &err), &err);
    CHECK_OK(rp_device_alloc(d, 8, &q, &err), &err);
    CHECK_OK(rp_event_new(d, &e, &err), &err);
    CHECK_OK(rp_event_synchronize(e, &err), &err); /* never recorded: over */
    CHECK_OK(rp_stream_copy(a, p, "reprise", 8, &err), &err);
    CHECK_OK(rp_stream_fill(a, p, 'R', 1, &err), &err);
    CHECK_OK(rp_event_record(e, a, &err), &err);
    CHECK_OK(rp_event_wait(e, b, &err), &err);
    CHECK_OK(rp_stream_copy(b, q, p, 8, &err), &err);
    CHECK_OK(rp_stream_copy(b, back, q, 8, &err), &err);
    CHECK_OK(rp_stream_synchronize(b, &err), &err);
    CHECK_OK(rp_event_synchronize(e, &err), &err);
    assert_string_equal(back, "Reprise");
    assert_int_equal(rp_stream_copy(a, NULL, back, 8, &err), RP_INVALID);
    CHECK_OK(rp_stream_copy(a, NULL, NULL, 0, &err), &err);
    rp_event_free(e);
    rp_stream_close(a);
    rp_stream_close(b);
    rp_device_free(d, p);
    rp_device_close(d); /* and q with it */
}

/* --- engines ------------------------------------------------------------------------------- */

enum { TOKENS = 12 };

/* d NULL: a device of its own. */
static rp_engine *open_engine(const char *name, rp_device *d) {
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_error err = {0};
    rp_engine *e = NULL;
    o.model = "synthetic:tiny";
    o.device = d;
    o.config = rp_config_new();
    CHECK_OK(rp_config_set(o.config, "level=3", &err), &err);
    if (!d) CHECK_OK(rp_config_set_key(o.config, "device", name, &err), &err);
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    return e;
}

static rp_status generate(rp_engine *e, int32_t *ids, rp_error *err) {
    static const int32_t prompt[] = {3, 1, 4, 1, 5};
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    rp_result res = RP_RESULT_INIT;
    uint64_t id = 0;
    bool more = true;
    r.prompt_ids = prompt;
    r.n_prompt_ids = 5;
    r.max_tokens = TOKENS;
    r.ignore_eos = true;
    rp_status st = rp_engine_submit(e, &r, &id, err);
    while (more && st == RP_OK) st = rp_engine_step(e, &more, err);
    if (st == RP_OK) st = rp_engine_result(e, id, &res, err);
    if (st == RP_OK) memcpy(ids, res.output_ids, TOKENS * sizeof *ids);
    rp_engine_release(e, id);
    return st;
}

typedef struct driver {
    rp_engine *e;
    const int32_t *want;
    int wrong;
    rp_error err;
} driver;

static void *generate_often(void *arg) {
    driver *me = arg;
    int32_t got[TOKENS];
    for (int i = 0; i < 3 && me->err.code == RP_OK; i++)
        if (generate(me->e, got, &me->err) == RP_OK)
            me->wrong += memcmp(got, me->want, sizeof got) != 0;
    return NULL;
}

static void check_generates(rp_engine *e, const int32_t *want) {
    driver one = {.e = e, .want = want};
    (void)generate_often(&one);
    if (one.err.code != RP_OK) fail_msg("%s", one.err.text);
    assert_int_equal(one.wrong, 0);
}

void device_check_engines(const char *name) {
    int32_t want[TOKENS];
    rp_error err = {0};
    char *summary = NULL;
    rp_engine *own = open_engine(name, NULL);
    CHECK_OK(generate(own, want, &err), &err);
    rp_engine_close(own);
    rp_device *d = device_open_ok(name, 2);
    rp_engine *e[2] = {open_engine(name, d), open_engine(name, d)};
    rp_device_close(d); /* they keep it */
    check_generates(e[0], want);
    CHECK_OK(rp_engine_summary(e[1], &summary, &err), &err);
    assert_non_null(strstr(summary, "\"replays\":0"));
    rp_engine_text_free(summary);
    pthread_t t[2];
    driver at_once[2] = {{.e = e[0], .want = want}, {.e = e[1], .want = want}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, generate_often, &at_once[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        if (at_once[i].err.code != RP_OK) fail_msg("%s", at_once[i].err.text);
        assert_int_equal(at_once[i].wrong, 0);
    }
    rp_engine_close(e[0]);
    check_generates(e[1], want);
    rp_engine_close(e[1]);
}
