#include "support/invariance.h"

#include "base/hash.h"
#include "engine/engine.h"
#include "support/check.h"
#include "support/engines.h"

enum { MOST = 64, MOST_TOKENS = 16, MOST_PROMPT = 64 };

/* Of each request what it chose and a hash of the row that it chose from. */
typedef struct answers {
    int32_t ids[MOST][MOST_TOKENS];
    base_hash128 rows[MOST][MOST_TOKENS];
} answers;

static uint32_t prompt_of(uint32_t i, int32_t *out) {
    const uint32_t n = 1 + i * 13 % 45;
    for (uint32_t k = 0; k < n; k++) out[k] = (int32_t)((i * 37 + k * 11) % 250);
    return n;
}

/* Rows of the step that was run last, in the order of its entries. */
static void keep_rows(rp_engine *e, const engine_batch *b, const uint64_t *id, uint32_t n,
                      answers *a) {
    const size_t vocab = model_source_hparams(e->source)->n_vocab;
    const float *logits = NULL;
    rp_error err = {0};
    uint32_t row = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const engine_batch_entry *x = &b->entry[i];
        row += x->n_logits;
        if (!x->samples) continue;
        uint32_t r = 0;
        while (r < n && id[r] != ((engine_job *)x->req->user)->id) r++;
        assert_true(r < n && x->step < MOST_TOKENS);
        CHECK_OK(engine_runner_logits(e->runner, row - 1, 1, &logits, &err), &err);
        a->rows[r][x->step] = base_hash(logits, vocab * sizeof *logits);
    }
}

/* The first n of those requests, `at_once` of them together, then the next so many. */
static void answer(rp_engine *e, uint32_t requests, uint32_t tokens, uint32_t at_once,
                   answers *out) {
    uint64_t id[MOST] = {0};
    int32_t prompt[MOST_PROMPT];
    rp_error err = {0};
    memset(out, 0, sizeof *out);
    for (uint32_t done = 0; done < requests;) {
        const uint32_t first = done;
        const engine_batch *b = NULL;
        for (; done < requests && done < first + at_once; done++) {
            rp_request_options r = plain_request(tokens);
            r.n_prompt_ids = prompt_of(done, prompt);
            r.prompt_ids = prompt;
            id[done] = must_submit(e, &r);
        }
        for (;;) {
            engine_request *r;
            CHECK_OK(engine_sched_next(e->sched, &b, &err), &err);
            if (!b) break;
            CHECK_OK(engine_run_step(e, b, &err), &err);
            keep_rows(e, b, id, done, out);
            CHECK_OK(engine_pick_tokens(e, b, &err), &err);
            engine_sched_commit(e->sched, e->tokens);
            while ((r = engine_sched_take_finished(e->sched)))
                ((engine_job *)r->user)->finished = true;
        }
        for (uint32_t i = first; i < done; i++) {
            const rp_result r = must_result(e, id[i]);
            assert_int_equal(r.n_output_ids, tokens);
            memcpy(out->ids[i], r.output_ids, tokens * sizeof *r.output_ids);
            rp_engine_release(e, id[i]);
        }
    }
}

static rp_engine *open_engine(const char *model, uint32_t chunk) {
    char setting[48];
    (void)snprintf(setting, sizeof setting, "long_prefill_token_threshold=%u", chunk);
    return engine_must(model, (const char *[]){"device=cuda:0", "batch_invariant=true",
                                               "max_num_seqs=64", "max_model_len=64",
                                               "max_num_batched_tokens=512", setting, NULL});
}

static void check_same(const char *model, const char *how, uint32_t n, uint32_t requests,
                       const answers *got, const answers *want) {
    for (uint32_t i = 0; i < requests; i++)
        for (uint32_t k = 0; k < MOST_TOKENS; k++) {
            if (got->ids[i][k] != want->ids[i][k])
                fail_msg("%s, %s %u: request %u chose token %u otherwise", model, how, n, i, k);
            if (memcmp(&got->rows[i][k], &want->rows[i][k], sizeof got->rows[i][k]) != 0)
                fail_msg("%s, %s %u: request %u has other logits for token %u", model, how, n, i,
                         k);
        }
}

void invariance_check(const char *model, uint32_t requests, uint32_t tokens,
                      const uint32_t *batches, size_t n_batches, const uint32_t *chunks,
                      size_t n_chunks) {
    static answers want, got;
    assert_true(requests <= MOST && tokens <= MOST_TOKENS);
    rp_engine *e = open_engine(model, 0);
    answer(e, requests, tokens, 1, &want);
    for (size_t i = 0; i < n_batches; i++) {
        answer(e, requests, tokens, batches[i], &got);
        check_same(model, "a batch of", batches[i], requests, &got, &want);
    }
    rp_engine_close(e);
    for (size_t i = 0; i < n_chunks; i++) {
        e = open_engine(model, chunks[i]);
        answer(e, requests, tokens, requests, &got);
        check_same(model, "chunks of", chunks[i], requests, &got, &want);
        rp_engine_close(e);
    }
}
