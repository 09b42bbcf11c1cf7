/* Every allocation and every system call of an engine's life fails in turn: opening warm, submitting, serving, scoring,
 * summary, each as a whole and alone. A clean error, nothing leaked, nothing half-written, and the same engine and
 * cache work afterwards. First starts are cold.c's. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/stored_cc.h"
#include "support/trees.h"

#define MODEL "synthetic:tiny"
#define SMALL                                                                                  \
    "level=3", "max_num_seqs=4", "max_num_batched_tokens=32", "max_model_len=64", "threads=1", \
        "cudagraph_mode=FULL_AND_PIECEWISE"
enum { N_OUT = 6 };

typedef bool (*fail_nth_fn)(uint64_t n);
typedef uint64_t (*count_fn)(void);
static const char *const kinds[] = {"allocation", "system call"};
static const fail_nth_fn fail_nth[] = {base_alloc_fail_nth, base_sys_fail_nth};
static const count_fn count[] = {base_alloc_count, base_sys_count};

static const char *const small[] = {SMALL, NULL};
static int32_t expected[N_OUT];
static char full[512], work[512], tmp[512]; /* a filled cache, the one in use, TMPDIR */

/* ---- stages: each gives its status; what it gives must be right ------------------------------------- */

static rp_status submit_one(rp_engine *e, uint64_t *id, rp_error *err) {
    static const char *const stops[] = {"never", "comes"};
    rp_request_options r = plain_request(N_OUT);
    r.stop = stops;
    r.n_stop = 2;
    return rp_engine_submit(e, &r, id, err);
}

static rp_status run_all(rp_engine *e, rp_error *err) {
    rp_status st = RP_OK;
    for (bool more = true; more && st == RP_OK;) st = rp_engine_step(e, &more, err);
    return st;
}

static rp_status do_generate(rp_engine *e, rp_error *err) {
    uint64_t id = 0;
    rp_result res = RP_RESULT_INIT;
    rp_status st = submit_one(e, &id, err);
    if (st != RP_OK) return st;
    st = run_all(e, err);
    if (st == RP_OK) st = rp_engine_result(e, id, &res, err);
    if (st == RP_OK) {
        assert_int_equal(res.n_output_ids, N_OUT);
        assert_memory_equal(res.output_ids, expected, sizeof expected);
    }
    rp_engine_release(e, id);
    return st;
}

static rp_status do_text(rp_engine *e, rp_error *err) {
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    rp_message m[] = {{"system", "be brief"}, {"user", "hello"}};
    uint64_t id = 0;
    r.messages = m;
    r.n_messages = 2;
    r.max_tokens = 4;
    rp_status st = rp_engine_submit(e, &r, &id, err);
    if (st == RP_OK) st = run_all(e, err);
    rp_engine_release(e, id);
    return st;
}

static rp_status do_score(rp_engine *e, rp_error *err) {
    static const int32_t next[] = {1, 2, 3};
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    double ppl = 0;
    o.prompt_ids = plain_prompt;
    o.n_prompt_ids = 5;
    o.continuation_ids = next;
    o.n_continuation_ids = 3;
    o.step = 4;
    o.top_logits = 3;
    rp_status st = rp_engine_score(e, &o, &ppl, err);
    if (st == RP_OK) assert_true(ppl > 1.0);
    return st;
}

static rp_status do_reports(rp_engine *e, rp_error *err) {
    char *text = NULL;
    rp_status st = rp_engine_summary(e, &text, err);
    rp_engine_text_free(text);
    text = NULL;
    if (st == RP_OK) st = rp_engine_coverage(e, &text, err);
    rp_engine_text_free(text);
    return st;
}

static rp_status do_tokens(rp_engine *e, rp_error *err) {
    int32_t *ids = NULL;
    uint32_t n = 0;
    char *text = NULL;
    rp_status st = rp_engine_tokenize(e, "h\xc3\xa9llo", 6, &ids, &n, err);
    if (st == RP_OK) st = rp_engine_detokenize(e, ids, n, &text, err);
    if (st == RP_OK) assert_string_equal(text, "h\xc3\xa9llo");
    rp_engine_text_free(ids);
    rp_engine_text_free(text);
    return st;
}

static const struct {
    const char *name;
    rp_status (*run)(rp_engine *e, rp_error *err);
} stages[] = {{"generate", do_generate},
              {"chat", do_text},
              {"score", do_score},
              {"reports", do_reports},
              {"tokens", do_tokens}};
enum { N_STAGES = sizeof stages / sizeof *stages };

static void check_status(const char *what, int kind, uint64_t n, rp_status st,
                         const rp_error *err) {
    if (st == RP_OK) return;
    if (err->code != st || !err->text[0])
        fail_msg("%s, %s %d: %s without a text", what, kinds[kind], (int)n, rp_status_name(st));
    if (strchr(err->text, '\n'))
        fail_msg("%s, %s %d: more than a line: %s", what, kinds[kind], (int)n, err->text);
    if (st == RP_INTERNAL || st == RP_INVALID || st == RP_CONFIG)
        fail_msg("%s, %s %d: %s: %s", what, kinds[kind], (int)n, rp_status_name(st), err->text);
}

/* Each of the calls that were counted really failed, and no other. */
static void check_fired(const char *what, int kind, uint64_t n, uint64_t all, bool fired) {
    if (fired != (n <= all))
        fail_msg("%s, %s %d of %d: %s", what, kinds[kind], (int)n, (int)all,
                 fired ? "one too many" : "did not fail");
}

/* ---- each stage alone --------------------------------------------------------------------------------- */

static void stages_survive_each_failure(void **state) {
    (void)state;
    rp_engine *e = engine_must(MODEL, small);
    for (size_t s = 0; s < N_STAGES; s++)
        for (int kind = 0; kind < 2; kind++) {
            bool fired = true;
            uint64_t n = 1;
            for (; fired; n++) {
                rp_error err = {0}, good = {0};
                uint64_t before = count[kind]();
                CHECK_OK(stages[s].run(e, &good), &good);
                uint64_t all = count[kind]() - before;
                size_t live = base_live();
                (void)fail_nth[kind](n);
                rp_status st = stages[s].run(e, &err);
                fired = fail_nth[kind](0);
                check_fired(stages[s].name, kind, n, all, fired);
                check_status(stages[s].name, kind, n, st, &err);
                if (!fired) CHECK_OK(st, &err);
                if (base_live() != live)
                    fail_msg("%s, %s %d: %d blocks leaked", stages[s].name, kinds[kind], (int)n,
                             (int)(base_live() - live));
                CHECK_OK(engine_kv_check(e->kv, &good), &good);
            }
            printf("%s: %d %ss\n", stages[s].name, (int)n - 2, kinds[kind]);
        }
    rp_engine_close(e);
}

/* ---- the whole life, warm --------------------------------------------------------------------------------- */

static rp_status live_once(rp_error *err) {
    rp_engine *e = engine_with(MODEL, small, err);
    if (!e) return err->code;
    rp_status st = do_generate(e, err);
    rp_engine_close(e);
    return st;
}

static uint64_t calls_of_a_life(int kind) {
    rp_error err = {0};
    uint64_t before = count[kind]();
    CHECK_OK(live_once(&err), &err);
    return count[kind]() - before;
}

static void warm_life_survives_each_failure(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        uint64_t all = calls_of_a_life(kind);
        bool fired = true;
        uint64_t n = 1, tolerated = 0;
        for (; fired; n++) {
            rp_error err = {0}, good = {0};
            size_t live = base_live(), files = tree_open_files();
            (void)fail_nth[kind](n);
            rp_status st = live_once(&err);
            fired = fail_nth[kind](0);
            check_fired("life", kind, n, all, fired);
            check_status("life", kind, n, st, &err);
            tolerated += fired && st == RP_OK;
            if (base_live() != live)
                fail_msg("%s %d: %d blocks leaked", kinds[kind], (int)n, (int)(base_live() - live));
            assert_int_equal(tree_open_files(), files);
            tree_no_temporaries(work);
            if (fired) CHECK_OK(live_once(&good), &good);
        }
        printf("warm life: %d %ss, %d of them not needed\n", (int)n - 2, kinds[kind],
               (int)tolerated);
        /* What failed to be read was made again, and is the same. */
        (void)tree_same(full, work);
    }
}

static int set_up(void **state) {
    (void)state;
    (void)snprintf(full, sizeof full, "%s", tree_new("full"));
    (void)snprintf(work, sizeof work, "%s", tree_new("cache"));
    (void)snprintf(tmp, sizeof tmp, "%s", tree_new("tmp"));
    if (setenv("REPRISE_CACHE_DIR", work, 1) != 0 || setenv("TMPDIR", tmp, 1) != 0) return -1;
    stored_cc_install();
    rp_engine *e = engine_must(MODEL, small);
    uint32_t n = engine_greedy(e, plain_prompt, 5, N_OUT, expected);
    rp_engine_close(e);
    tree_copy(work, full);
    return n == N_OUT ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_survive_each_failure),
        cmocka_unit_test(warm_life_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
