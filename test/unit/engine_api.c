/* The public engine from its rough side: bad requests, requests given up at any moment, engines closed and reopened,
 * loading that is cancelled. Every refusal is one line with the values; nothing leaks. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/trees.h"

#define SMALL \
    "level=3", "max_num_seqs=3", "max_num_batched_tokens=16", "max_model_len=48", "threads=1"
static const char *const small[] = {SMALL, NULL};

typedef struct asked {
    bool answer;
    int times;
    char device[8];
} asked;

static bool enabled(void *user, const rp_compilation_config *config) {
    asked *a = user;
    char *device = NULL;
    rp_error err = {0};
    CHECK_OK(rp_config_get_json(config, "device", &device, &err), &err);
    (void)snprintf(a->device, sizeof a->device, "%s", device);
    rp_config_text_free(device);
    a->times++;
    return a->answer;
}

/* Of a model that is not to be compiled nothing is: the tokens are the same. */
static void enable_if_is_asked_once(void **state) {
    int32_t ids[2][8];
    (void)state;
    for (int answer = 0; answer < 2; answer++) {
        rp_error err = {0};
        rp_engine *e = NULL;
        rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
        asked a = {.answer = answer};
        o.model = "synthetic:tiny";
        o.config = rp_config_new();
        for (int i = 0; small[i]; i++) CHECK_OK(rp_config_set(o.config, small[i], &err), &err);
        o.enable_if = enabled;
        o.user = &a;
        CHECK_OK(rp_engine_open(&o, &e, &err), &err);
        assert_int_equal(a.times, 1);
        assert_string_equal(a.device, "\"cpu\"");
        assert_int_equal(engine_count(e, "level"), answer ? 3 : 0);
        if (!answer) {
            const rp_config_note *note = NULL;
            size_t n = rp_config_notes(e->config, &note), i = 0;
            while (i < n && strcmp(note[i].reason, "enable_if says no") != 0) i++;
            assert_true(i < n);
            assert_string_equal(note[i].what, "level 3");
        }
        assert_int_equal(engine_greedy(e, plain_prompt, 5, 8, ids[answer]), 8);
        rp_engine_close(e);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
}

static void refused(rp_engine *e, const rp_request_options *r, rp_status want, const char *text) {
    rp_error err = {0};
    uint64_t id = 0;
    rp_status st = rp_engine_submit(e, r, &id, &err);
    if (st != want || !strstr(err.text, text) || strchr(err.text, '\n'))
        fail_msg("wanted %s with '%s', got %s: %s", rp_status_name(want), text, rp_status_name(st),
                 err.text);
}

static void bad_requests_are_refused(void **state) {
    static int32_t many[64];
    const rp_message m = {"user", "hi"};
    static const char *const empty[] = {""};
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    size_t live = base_live();
    rp_request_options r = plain_request(8);
    r.prompt_ids = many;
    r.n_prompt_ids = 48;
    refused(e, &r, RP_CONFIG, "prompt of 48 tokens leaves no room in max_model_len 48");
    r.n_prompt_ids = 50;
    refused(e, &r, RP_CONFIG, "prompt of 50 tokens leaves no room in max_model_len 48");
    r.n_prompt_ids = 0;
    refused(e, &r, RP_CONFIG, "no token");
    r = plain_request(8);
    r.prompt = "text";
    refused(e, &r, RP_INVALID, "exactly one");
    r.prompt = NULL;
    r.messages = &m;
    r.n_messages = 1;
    refused(e, &r, RP_INVALID, "exactly one");
    r = plain_request(8);
    r.prompt_ids = NULL;
    refused(e, &r, RP_INVALID, "exactly one");
    r = plain_request(8);
    many[3] = -1;
    r.prompt_ids = many;
    refused(e, &r, RP_CONFIG, "token id -1 at position 3");
    many[3] = 1000000;
    refused(e, &r, RP_CONFIG, "token id 1000000 at position 3");
    r = plain_request(8);
    r.prompt = "text";
    r.messages = &m;
    r.n_messages = 1;
    refused(e, &r, RP_INVALID, "prompt, messages and prompt_ids; 3 are given");
    r = plain_request(8);
    r.stop = empty;
    r.n_stop = 1;
    refused(e, &r, RP_CONFIG, "stop string 1 is empty");
    r = plain_request(8);
    r.size = 3;
    refused(e, &r, RP_INVALID, "sizeof(rp_request_options)");
    assert_int_equal(base_live(), live);
    must_run(e, -1);
    rp_engine_close(e);
}

/* Each value that sampling takes: its bounds are taken, what lies behind them is refused by its name. */
static void sampling_values_have_bounds(void **state) {
    static const struct {
        double temperature, top_p, min_p;
        int32_t top_k;
        const char *text; /* NULL: taken */
    } cases[] = {
        {0, 1, 0, 0, NULL},
        {1e6, 1, 0, 0, NULL},
        {-0.5, 1, 0, 0, "temperature -0.5 is not in 0..1e6; 0 is greedy"},
        {1.5e6, 1, 0, 0, "temperature 1.5e+06 is not in 0..1e6; 0 is greedy"},
        {NAN, 1, 0, 0, "temperature nan is not in 0..1e6; 0 is greedy"},
        {1, 1e-9, 0, 0, NULL},
        {1, 0, 0, 0, "top_p 0 is not in (0, 1]; 1 turns it off"},
        {1, 1.25, 0, 0, "top_p 1.25 is not in (0, 1]; 1 turns it off"},
        {1, NAN, 0, 0, "top_p nan is not in (0, 1]; 1 turns it off"},
        {1, 1, 1, 0, NULL},
        {1, 1, -0.25, 0, "min_p -0.25 is not in [0, 1]; 0 turns it off"},
        {1, 1, 1.5, 0, "min_p 1.5 is not in [0, 1]; 0 turns it off"},
        {1, 1, NAN, 0, "min_p nan is not in [0, 1]; 0 turns it off"},
        {1, 1, 0, -1, NULL},
        {1, 1, 0, INT32_MAX, NULL},
        {1, 1, 0, -2, "top_k -2 is below -1; 0 turns it off"},
    };
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_request_options r = plain_request(2);
        r.sampling.temperature = cases[i].temperature;
        r.sampling.top_p = cases[i].top_p;
        r.sampling.min_p = cases[i].min_p;
        r.sampling.top_k = cases[i].top_k;
        if (cases[i].text)
            refused(e, &r, RP_CONFIG, cases[i].text);
        else
            (void)must_submit(e, &r);
    }
    must_run(e, -1);
    rp_engine_close(e);
}

/* The longest prompt that fits gives its one token. */
static void the_longest_prompt_fits(void **state) {
    static int32_t many[47], out[4];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    assert_int_equal(engine_greedy(e, many, 47, 4, out), 1);
    rp_engine_close(e);
}

/* More requests than places, of different lengths: each as if alone. */
static void more_requests_than_places(void **state) {
    enum { N = 11 };
    static int32_t ids[N][40];
    int32_t alone[20];
    uint64_t id[N];
    rp_error err = {0};
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    for (int i = 0; i < N; i++) {
        rp_request_options r = plain_request(8);
        for (int k = 0; k < 3 * i + 1; k++) ids[i][k] = (k * 31 + i * 17) % 250;
        r.prompt_ids = ids[i];
        r.n_prompt_ids = (uint32_t)(3 * i + 1);
        r.max_tokens = (uint32_t)(3 + i);
        id[i] = must_submit(e, &r);
    }
    must_run(e, -1);
    for (int i = 0; i < N; i++) {
        rp_result res = RP_RESULT_INIT;
        CHECK_OK(rp_engine_result(e, id[i], &res, &err), &err);
        assert_int_equal(res.n_output_ids, 3 + i);
        assert_string_equal(res.finish_reason, "length");
        uint32_t n = engine_greedy(e, ids[i], (uint32_t)(3 * i + 1), (uint32_t)(3 + i), alone);
        assert_int_equal(n, 3 + i);
        assert_memory_equal(alone, res.output_ids, n * sizeof *alone);
    }
    rp_engine_close(e);
}

static void requests_are_given_up_at_any_moment(void **state) {
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    int32_t before[8], after[8];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 8, before), 8);
    size_t live = base_live();
    for (int steps = 0; steps < 12; steps++)
        for (int how = 0; how < 3; how++) {
            uint64_t id[5];
            rp_request_options r = plain_request(8);
            for (int i = 0; i < 5; i++) id[i] = must_submit(e, &r);
            must_run(e, steps);
            if (how != 1) rp_engine_abort(e, id[1]);
            if (how != 1) rp_engine_abort(e, id[4]);
            if (how != 0) rp_engine_release(e, id[0]); /* running, or done */
            if (how != 0) rp_engine_release(e, id[3]); /* waiting, or done */
            must_run(e, -1);
            if (how != 0) assert_int_equal(rp_engine_result(e, id[0], &res, &err), RP_NOT_FOUND);
            for (int i = 0; i < 5; i++) {
                if (how != 0 && (i == 0 || i == 3)) continue;
                CHECK_OK(rp_engine_result(e, id[i], &res, &err), &err);
                if (strcmp(res.finish_reason, "abort") == 0) continue;
                assert_string_equal(res.finish_reason, "length");
                assert_memory_equal(res.output_ids, before, sizeof before);
            }
            for (int i = 0; i < 5; i++) rp_engine_release(e, id[i]); /* unknown ones are fine */
            assert_int_equal(base_live(), live);
        }
    rp_engine_abort(e, 12345);
    rp_engine_release(e, 12345);
    err = (rp_error){0};
    assert_int_equal(rp_engine_result(e, 12345, &res, &err), RP_NOT_FOUND);
    assert_non_null(strstr(err.text, "12345"));
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 8, after), 8);
    assert_memory_equal(after, before, sizeof before);
    rp_engine_close(e);
}

static bool stop_at_first(void *user, uint64_t id, const char *text, size_t len) {
    (void)id, (void)text, (void)len;
    ++*(int *)user;
    return false;
}

static void a_listener_ends_its_request(void **state) {
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    int calls = 0;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_request_options r = plain_request(8);
    r.on_text = stop_at_first;
    r.user = &calls;
    r.max_tokens = 40;
    uint64_t id = must_submit(e, &r);
    must_run(e, -1);
    CHECK_OK(rp_engine_result(e, id, &res, &err), &err);
    assert_int_equal(calls, 1);
    assert_string_equal(res.finish_reason, "abort");
    assert_true(res.n_output_ids < 40);
    rp_engine_close(e);
}

/* ---- sampling -------------------------------------------------------------------------------------------------- */

static void generate(rp_engine *e, const rp_sampling *s, int32_t out[8]) {
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    rp_request_options r = plain_request(8);
    r.sampling = *s;
    uint64_t id = must_submit(e, &r);
    must_run(e, -1);
    CHECK_OK(rp_engine_result(e, id, &res, &err), &err);
    assert_int_equal(res.n_output_ids, 8);
    memcpy(out, res.output_ids, 8 * sizeof *out);
    rp_engine_release(e, id);
}

static bool like_greedy(rp_engine *e, rp_sampling s) {
    int32_t greedy[8], out[8];
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 8, greedy), 8);
    s.temperature = 50; /* nearly uniform, but for what cuts it */
    generate(e, &s, out);
    return memcmp(out, greedy, sizeof out) == 0;
}

/* Each cuts the choice down to the best token when it is driven to its end, and the seed chooses among what is left. */
static void every_sampling_value_counts(void **state) {
    const rp_sampling none = {.top_p = 1};
    int32_t a[8], b[8], c[8];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_sampling s = none;
    assert_false(like_greedy(e, s));
    s.top_k = 1;
    assert_true(like_greedy(e, s));
    s = none;
    s.min_p = 1;
    assert_true(like_greedy(e, s));
    s = none;
    s.top_p = 1e-9;
    assert_true(like_greedy(e, s));
    s = none;
    s.temperature = 50;
    generate(e, &s, a);
    generate(e, &s, b);
    s.seed = 1;
    generate(e, &s, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    rp_engine_close(e);
}

/* A text that ends inside of a character shows that there was one. Ids are bytes here. */
static void half_a_character_at_the_end_is_shown(void **state) {
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    int seen = 0;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    for (uint64_t seed = 0; seed < 200 && seen < 3; seed++) {
        rp_request_options r = plain_request(8);
        r.max_tokens = 1;
        r.sampling = (rp_sampling){.temperature = 50, .top_p = 1, .seed = seed};
        uint64_t id = must_submit(e, &r);
        must_run(e, -1);
        CHECK_OK(rp_engine_result(e, id, &res, &err), &err);
        if (res.output_ids[0] >= 0xc2 && res.output_ids[0] <= 0xf4) {
            assert_string_equal(res.text, "\xef\xbf\xbd");
            seen++;
        }
        rp_engine_release(e, id);
    }
    assert_int_equal(seen, 3);
    rp_engine_close(e);
}

/* Closed with requests running, waiting and done, at every moment. */
static void closing_leaks_nothing(void **state) {
    (void)state;
    rp_engine_close(engine_must("synthetic:tiny", small));
    size_t live = base_live(), files = tree_open_files();
    for (int i = 0; i < 40; i++) {
        rp_engine *e = engine_must("synthetic:tiny", small);
        rp_request_options r = plain_request(8);
        for (int k = 0; k < i % 7; k++) (void)must_submit(e, &r);
        must_run(e, i % 11);
        rp_engine_close(e);
        assert_int_equal(base_live(), live);
        assert_int_equal(tree_open_files(), files);
    }
    rp_engine_close(NULL);
}

/* ---- opening ----------------------------------------------------------------------------------------------- */

typedef struct cancel {
    rp_stage at;
    int seen[4];
} cancel;

static bool cancel_at(void *user, rp_stage stage, uint64_t done, uint64_t total) {
    cancel *c = user;
    assert_true(done <= total);
    c->seen[stage]++;
    return stage != c->at;
}

static rp_status open_as(const char *model, bool no_capture, cancel *c, rp_engine **out,
                         rp_error *err) {
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = model;
    o.no_capture = no_capture;
    o.config = rp_config_new();
    for (size_t i = 0; small[i]; i++) CHECK_OK(rp_config_set(o.config, small[i], err), err);
    if (c) {
        o.progress = cancel_at;
        o.user = c;
    }
    return rp_engine_open(&o, out, err);
}

static void loading_can_be_cancelled(void **state) {
    static const rp_stage stages[] = {RP_STAGE_COMPILE, RP_STAGE_PACK, RP_STAGE_CAPTURE};
    (void)state;
    assert_int_equal(setenv("REPRISE_CACHE_DIR", tree_new("cancelled"), 1), 0);
    for (size_t i = 0; i < 3; i++) {
        rp_error err = {0};
        rp_engine *e = NULL;
        cancel c = {.at = stages[i]};
        size_t live = base_live();
        /* the first is cold; what was compiled before the end is in the cache for the next */
        rp_status st = open_as("synthetic:tiny,seed=99", false, &c, &e, &err);
        if (st != RP_CANCELLED)
            fail_msg("stage %d: %s, seen %d times", (int)stages[i], rp_status_name(st),
                     c.seen[stages[i]]);
        assert_null(e);
        assert_true(c.seen[stages[i]] > 0);
        if (stages[i] == RP_STAGE_PACK) assert_int_equal(c.seen[RP_STAGE_PACK], 1); /* at once */
        assert_int_equal(base_live(), live);
        tree_no_temporaries(getenv("REPRISE_CACHE_DIR"));
    }
    rp_engine_close(engine_must("synthetic:tiny,seed=99", small));
}

typedef struct heard_progress {
    rp_stage stage;
    uint64_t done;
    int calls, again;
} heard_progress;

/* Who is asked whether he still wants it hears what he heard last. */
static bool hear_progress(void *user, rp_stage stage, uint64_t done, uint64_t total) {
    static const int order[] = {
        [RP_STAGE_FETCH] = 0, [RP_STAGE_COMPILE] = 1, [RP_STAGE_PACK] = 2, [RP_STAGE_CAPTURE] = 3};
    heard_progress *h = user;
    assert_true(done <= total);
    if (h->calls++ > 0) {
        assert_true(order[stage] >= order[h->stage]);
        assert_true(stage != h->stage || done >= h->done);
        h->again += stage == h->stage && done == h->done;
    }
    h->stage = stage;
    h->done = done;
    return true;
}

static void progress_never_goes_back(void **state) {
    rp_error err = {0};
    rp_engine *e = NULL;
    heard_progress h = {.calls = 0};
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    (void)state;
    o.model = "synthetic:tiny,seed=98";
    o.config = rp_config_new();
    for (size_t i = 0; small[i]; i++) CHECK_OK(rp_config_set(o.config, small[i], &err), &err);
    o.progress = hear_progress;
    o.user = &h;
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    assert_true(h.again > 0);
    assert_int_equal(h.stage, RP_STAGE_CAPTURE);
    rp_engine_close(e);
}

typedef struct packing {
    uint64_t done;
    size_t live; /* when the first matrix was told of */
    int matrices;
} packing;

/* What a matrix was packed from is not in memory any more when it is told of, nor are others. */
static bool count_blocks(void *user, rp_stage stage, uint64_t done, uint64_t total) {
    packing *p = user;
    (void)total;
    if (stage != RP_STAGE_PACK || done == p->done) return true; /* asked while one is made */
    p->done = done;
    if (p->matrices++ == 0) p->live = base_live();
    if (base_live() != p->live)
        print_error("matrix %d: %zu blocks, not %zu\n", p->matrices, base_live(), p->live);
    return base_live() == p->live;
}

static void packing_keeps_one_matrix(void **state) {
    rp_error err = {0};
    rp_engine *e = NULL;
    packing p = {.matrices = 0};
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    (void)state;
    o.model = "synthetic:tiny,seed=97,layers=3";
    o.config = rp_config_new();
    for (size_t i = 0; small[i]; i++) CHECK_OK(rp_config_set(o.config, small[i], &err), &err);
    o.progress = count_blocks;
    o.user = &p;
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    assert_true(p.matrices > 3 * 3);
    rp_engine_close(e);
}

static void an_engine_without_graphs_runs_nothing(void **state) {
    rp_error err = {0};
    rp_engine *e = NULL;
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    bool more;
    (void)state;
    CHECK_OK(open_as("synthetic:tiny", true, NULL, &e, &err), &err);
    rp_request_options r = plain_request(8);
    refused(e, &r, RP_INVALID, "opened without capture");
    assert_int_equal(rp_engine_step(e, &more, &err), RP_INVALID);
    o.prompt_ids = o.continuation_ids = plain_prompt;
    o.n_prompt_ids = o.n_continuation_ids = 2;
    assert_int_equal(rp_engine_score(e, &o, NULL, &err), RP_INVALID);
    assert_int_equal(engine_count(e, "captures"), 0);
    rp_engine_close(e);
}

static void unknown_models_and_settings(void **state) {
    char absent[600];
    (void)snprintf(absent, sizeof absent, "%s/model.gguf", tree_new("nothing"));
    const struct {
        const char *model;
        rp_status st;
        const char *text;
    } cases[] = {
        {"", RP_CONFIG, "no model"},
        {absent, RP_NOT_FOUND, absent},
        {"synthetic:tinny", RP_CONFIG, "tiny"},
        {"synthetic:tiny,layers=0", RP_CONFIG, "layers"},
    };
    (void)state;
    size_t live = base_live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        rp_engine *e = NULL;
        rp_status st = open_as(cases[i].model, false, NULL, &e, &err);
        if (st != cases[i].st || !strstr(err.text, cases[i].text) || strchr(err.text, '\n'))
            fail_msg("'%s': %s: %s", cases[i].model, rp_status_name(st), err.text);
    }
    rp_error err = {0};
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_engine *e = NULL;
    assert_int_equal(rp_engine_open(NULL, &e, &err), RP_INVALID);
    o.size = 1;
    assert_int_equal(rp_engine_open(&o, &e, &err), RP_INVALID);
    o.size = sizeof o;
    o.config = rp_config_new(); /* taken over, also on failure */
    assert_int_equal(rp_engine_open(&o, NULL, &err), RP_INVALID);
    assert_int_equal(base_live(), live);
}

/* ---- scoring ------------------------------------------------------------------------------------------------- */

static void scoring_checks_its_input(void **state) {
    static int32_t ids[60];
    rp_error err = {0};
    double ppl[2];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    o.prompt_ids = o.continuation_ids = ids;
    o.n_prompt_ids = 10;
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_CONFIG);
    o.n_continuation_ids = 50;
    err = (rp_error){0};
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "10 and continuation of 50 tokens do not fit"));
    o.n_continuation_ids = 20;
    o.step = 17;
    err = (rp_error){0};
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "max_num_batched_tokens 16"));
    o.step = 1;
    o.top_logits = 100000;
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_CONFIG);
    o.top_logits = 2;
    CHECK_OK(rp_engine_score(e, &o, &ppl[0], &err), &err);
    o.step = 16;
    CHECK_OK(rp_engine_score(e, &o, &ppl[1], &err), &err);
    assert_memory_equal(&ppl[0], &ppl[1], sizeof ppl[0]);
    ids[4] = -7;
    err = (rp_error){0};
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "token id -7 at position 4 of the prompt"));
    ids[4] = 0;
    o.continuation_ids = NULL;
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_INVALID);
    assert_string_equal(err.text, "20 ids of the continuation, and no list of them");
    o.continuation_ids = ids;
    rp_request_options r = plain_request(8);
    uint64_t id = must_submit(e, &r);
    assert_int_equal(rp_engine_score(e, &o, ppl, &err), RP_INVALID);
    rp_engine_release(e, id);
    CHECK_OK(rp_engine_score(e, &o, ppl, &err), &err);
    rp_engine_close(e);
}

enum { N_SCORED = 9, N_VOCAB = 288 };
typedef struct scored {
    double sum;
    int n;
} scored;

/* All logits come along, so the probability of the token can be made of them. */
static void check_logprob(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                          const int32_t *ids, const float *logits) {
    scored *s = user;
    double sum = 0, own = 0;
    assert_int_equal(k, N_VOCAB);
    assert_int_equal(position, 5 + s->n);
    assert_int_equal(id, 40 + 3 * s->n);
    for (uint32_t i = 0; i < k; i++) {
        sum += exp((double)logits[i]);
        if (ids[i] == id) own = (double)logits[i];
    }
    assert_true(fabs(logprob - (own - log(sum))) < 1e-6);
    s->sum += logprob;
    s->n++;
}

static void scores_are_those_of_the_logits(void **state) {
    int32_t next[N_SCORED];
    rp_error err = {0};
    double perplexity;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    for (int i = 0; i < N_SCORED; i++) next[i] = 40 + 3 * i;
    for (uint32_t step = 1; step <= 16; step += 5) {
        scored s = {0};
        rp_score_options o = RP_SCORE_OPTIONS_INIT;
        o.prompt_ids = plain_prompt;
        o.n_prompt_ids = 5;
        o.continuation_ids = next;
        o.n_continuation_ids = N_SCORED;
        o.step = step;
        o.top_logits = N_VOCAB;
        o.on_token = check_logprob;
        o.user = &s;
        CHECK_OK(rp_engine_score(e, &o, &perplexity, &err), &err);
        assert_int_equal(s.n, N_SCORED);
        assert_true(fabs(perplexity / exp(-s.sum / N_SCORED) - 1) < 1e-9);
    }
    /* As many as there are positions, and one more. */
    int32_t all[49] = {0};
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    assert_true(must_score(e, all, 5, 48, o) > 0);
    o.prompt_ids = all;
    o.n_prompt_ids = 5;
    o.continuation_ids = all + 5;
    o.n_continuation_ids = 44;
    assert_int_equal(rp_engine_score(e, &o, &perplexity, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "do not fit max_model_len 48"));
    rp_engine_close(e);
}

/* ---- the summary ------------------------------------------------------------------------------------------------ */

/* The first of eight tokens comes out of the prompt's step. */
static void rates_are_tokens_over_time(void **state) {
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_request_options r = plain_request(8);
    (void)must_submit(e, &r);
    must_run(e, -1);
    assert_int_equal(e->times.prefill_tokens, 5);
    assert_int_equal(e->times.decode_tokens, 7);
    assert_true(e->times.decode_ms > 0 && e->times.prefill_ms > 0);
    assert_true(fabs(engine_number(e, "decode_tok_s") * e->times.decode_ms / 7e3 - 1) < 1e-9);
    assert_true(fabs(engine_number(e, "prefill_tok_s") * e->times.prefill_ms / 5e3 - 1) < 1e-9);
    rp_engine_close(e);
}

/* A step that only begins a prompt gives no token. */
static void the_first_token_ends_the_prompt(void **state) {
    static int32_t ids[40];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_request_options r = plain_request(2);
    r.prompt_ids = ids;
    r.n_prompt_ids = 40; /* in steps of 16 */
    uint64_t id = must_submit(e, &r);
    for (int steps = 0; steps < 3; steps++) {
        assert_true(e->times.ttft_ms == 0.0 && must_result(e, id).n_output_ids == 0);
        must_run(e, 1);
    }
    assert_true(e->times.ttft_ms > 0.0 && must_result(e, id).n_output_ids == 1);
    rp_engine_close(e);
}

static int set_up(void **state) {
    (void)state;
    return setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(enable_if_is_asked_once),
        cmocka_unit_test(sampling_values_have_bounds),
        cmocka_unit_test(the_longest_prompt_fits),
        cmocka_unit_test(more_requests_than_places),
        cmocka_unit_test(requests_are_given_up_at_any_moment),
        cmocka_unit_test(a_listener_ends_its_request),
        cmocka_unit_test(every_sampling_value_counts),
        cmocka_unit_test(half_a_character_at_the_end_is_shown),
        cmocka_unit_test(closing_leaks_nothing),
        cmocka_unit_test(loading_can_be_cancelled),
        cmocka_unit_test(progress_never_goes_back),
        cmocka_unit_test(packing_keeps_one_matrix),
        cmocka_unit_test(an_engine_without_graphs_runs_nothing),
        cmocka_unit_test(unknown_models_and_settings),
        cmocka_unit_test(scoring_checks_its_input),
        cmocka_unit_test(scores_are_those_of_the_logits),
        cmocka_unit_test(rates_are_tokens_over_time),
        cmocka_unit_test(the_first_token_ends_the_prompt),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
