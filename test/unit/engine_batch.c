/* Scheduler, step builder, dispatcher and sampler together, around a model whose next token is a
 * hash of everything it can see through the block tables. Whatever the mode, the ladder, the chunk,
 * the number of blocks and the neighbours, a request's text is the one it would have alone. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/sampler.h"
#include "engine/step.h"

enum { V = 29, SEQS = 6, TOKENS = 24, BLOCKS_PER_SEQ = 6, MODEL_LEN = 90, MAX_CACHE = 64 };

static uint64_t rng_state = 3;

static uint32_t rnd(uint32_t n) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static void logits_of(uint64_t context, float out[V]) {
    for (uint64_t v = 0; v < V; v++) out[v] = (float)(mix(context, v + 1) >> 44) / 65536.0f;
}

/* ---- the model: reads nothing but the static inputs and its cache ---- */

typedef struct world {
    engine_step_buffers b;
    int32_t ids[TOKENS], pos[TOKENS], slots[TOKENS], seqs[TOKENS], rows[TOKENS];
    int32_t tables[SEQS * BLOCKS_PER_SEQ];
    int32_t cache[MAX_CACHE * ENGINE_KV_BLOCK]; /* token ids in place of keys and values */
    uint64_t hidden[TOKENS];
    float logits[TOKENS * V];
    engine_kv *kv;
    engine_sched *sched;
    engine_step *step;
    engine_sampler *sampler;
    graph_dispatcher dispatcher;
    uint32_t n_blocks;
    uint32_t max_logits;
    uint64_t padded_steps, graph_steps;
    uint32_t rows_of[64];      /* logit rows handed out, by request id */
    uint32_t n_prompt, n_same; /* the last prompt, and how often it was given again */
    int32_t prompt[MODEL_LEN];
    uint64_t computed; /* tokens */
    /* Steps launched before the one in front is committed: */
    bool ahead;
    const engine_batch *flight; /* the one that is launched when a step begins */
    int32_t tokens[2][SEQS], row_tokens[2][TOKENS];
    uint32_t turn; /* of those */
    uint64_t handed, forgotten, cancelled;
} world;

static void poison(world *w) {
    memset(w->ids, 0x7f, sizeof w->ids);
    memset(w->pos, 0x7f, sizeof w->pos);
    memset(w->slots, 0x7f, sizeof w->slots);
    memset(w->seqs, 0x7f, sizeof w->seqs);
    memset(w->rows, 0x7f, sizeof w->rows);
    memset(w->hidden, 0x7f, sizeof w->hidden);
}

static void model_run(world *w, const rp_dispatch *d) {
    for (int32_t t = 0; t < d->padded; t++)
        if (w->slots[t] >= 0) {
            assert_in_range(w->slots[t], ENGINE_KV_BLOCK, w->n_blocks * ENGINE_KV_BLOCK - 1);
            w->cache[w->slots[t]] = w->ids[t];
        }
    for (int32_t t = 0; t < d->padded; t++) {
        uint64_t h = 0;
        assert_true(w->seqs[t] < d->padded_reqs);
        for (int32_t p = 0; w->seqs[t] >= 0 && p <= w->pos[t]; p++) {
            int32_t block = w->tables[w->seqs[t] * BLOCKS_PER_SEQ + p / ENGINE_KV_BLOCK];
            h = mix(h, (uint64_t)w->cache[block * ENGINE_KV_BLOCK + p % ENGINE_KV_BLOCK] + 1);
        }
        w->hidden[t] = h;
    }
    for (int32_t r = 0; r < d->padded_logits; r++) {
        assert_in_range(w->rows[r], 0, d->padded - 1);
        logits_of(w->hidden[w->rows[r]], w->logits + r * V);
    }
}

/* ---- what a request must give ---- */

typedef struct expected {
    int32_t output[MODEL_LEN];
    uint32_t n;
    engine_finish finish;
} expected;

static void expect(world *w, const engine_request_options *o, uint32_t room, expected *e) {
    uint64_t h = 0;
    uint32_t most = o->max_tokens < room ? o->max_tokens : room;
    for (uint32_t i = 0; i < o->n_prompt; i++) h = mix(h, (uint64_t)o->prompt[i] + 1);
    e->n = 0;
    e->finish = ENGINE_FINISH_LENGTH;
    while (e->n < most) {
        float x[V];
        int32_t token;
        rp_error err = {0};
        logits_of(h, x);
        CHECK_OK(engine_sampler_pick(w->sampler, &o->sampling, x, e->n, &token, &err), &err);
        e->output[e->n++] = token;
        h = mix(h, (uint64_t)token + 1);
        for (uint32_t i = 0; i < o->n_stop_ids; i++)
            if (token == o->stop_ids[i]) {
                e->finish = ENGINE_FINISH_STOP;
                return;
            }
    }
}

/* ---- worlds ---- */

static const int64_t decode_sizes[] = {1, 2, 4}, token_sizes[] = {2, 6, 20};

typedef struct setup {
    rp_cudagraph_mode mode;
    uint32_t n_blocks, chunk, max_tokens, max_seqs, max_logits;
} setup;

static void world_open(world *w, const setup *s) {
    rp_error err = {0};
    engine_kv_options ko = {
        .n_blocks = s->n_blocks, .max_seqs = s->max_seqs, .max_blocks = BLOCKS_PER_SEQ};
    engine_sched_options so = {.max_num_seqs = s->max_seqs,
                               .max_num_batched_tokens = s->max_tokens,
                               .max_model_len = MODEL_LEN,
                               .prefill_chunk = s->chunk,
                               .max_logits = s->max_logits,
                               .vocab_size = V};
    graph_params gp = {.mode = s->mode,
                       .max_num_seqs = (int32_t)s->max_seqs,
                       .max_num_batched_tokens = (int32_t)s->max_tokens,
                       .decode_sizes = decode_sizes,
                       .mixed_sizes = token_sizes};
    memset(w, 0, sizeof *w);
    w->n_blocks = s->n_blocks;
    w->max_logits = s->max_logits ? s->max_logits : s->max_tokens;
    w->b = (engine_step_buffers){w->ids,  w->pos, w->slots, w->seqs,        w->tables,
                                 w->rows, TOKENS, SEQS,     BLOCKS_PER_SEQ, TOKENS};
    while (gp.n_decode_sizes < 3 && decode_sizes[gp.n_decode_sizes] <= s->max_seqs)
        gp.n_decode_sizes++;
    while (gp.n_mixed_sizes < 3 && token_sizes[gp.n_mixed_sizes] <= s->max_tokens)
        gp.n_mixed_sizes++;
    CHECK_OK(engine_kv_new(&ko, &w->kv, &err), &err);
    CHECK_OK(engine_sched_new(&so, w->kv, &w->sched, &err), &err);
    CHECK_OK(engine_step_new(&w->b, ENGINE_KV_BLOCK, &w->step, &err), &err);
    CHECK_OK(engine_sampler_new(V, &w->sampler, &err), &err);
    CHECK_OK(graph_dispatcher_init(&w->dispatcher, &gp, &err), &err);
}

static void world_close(world *w) {
    assert_int_equal(engine_kv_n_free(w->kv), engine_kv_n_usable(w->kv));
    engine_sched_free(w->sched);
    engine_kv_free(w->kv);
    engine_step_free(w->step);
    engine_sampler_free(w->sampler);
    graph_dispatcher_done(&w->dispatcher);
    assert_int_equal(base_live(), 0);
}

static void check_step(world *w, const engine_batch *batch, const rp_dispatch *d) {
    assert_true(batch->num_logits <= w->max_logits);
    for (int32_t i = 0; i < d->padded_reqs; i++) {
        uint32_t used = 0;
        if (i < (int32_t)batch->n) {
            (void)engine_kv_table(w->kv, batch->entry[i].seq, &used);
        }
        for (uint32_t k = used; k < BLOCKS_PER_SEQ; k++)
            assert_int_equal(w->tables[i * BLOCKS_PER_SEQ + (int32_t)k], ENGINE_KV_NULL_BLOCK);
    }
}

/* What custom attention is told of each request. */
static void check_context(const world *w, const rp_forward_context *fc, const engine_batch *batch,
                          const rp_dispatch *d) {
    const rp_attention_metadata *m = &fc->attn_metadata;
    int32_t longest = 0, prefills = 0;
    for (uint32_t i = 0; i < batch->n; i++) {
        const engine_batch_entry *e = &batch->entry[i];
        int32_t len = (int32_t)(e->start + e->n_tokens);
        assert_int_equal(m->context_lens[i], len);
        assert_int_equal(m->cu_seqlens_q[i + 1] - m->cu_seqlens_q[i], e->n_tokens);
        assert_int_equal(m->cu_seqlens_k[i + 1] - m->cu_seqlens_k[i], len);
        if (len > longest) longest = len;
        prefills += e->n_tokens > 1 || e->start == 0;
    }
    assert_ptr_equal(m->slot_mapping, w->slots);
    assert_ptr_equal(m->token_seqs, w->seqs);
    assert_ptr_equal(m->block_tables, w->tables);
    assert_int_equal(m->block_tables_stride, BLOCKS_PER_SEQ);
    assert_int_equal(m->block_size, ENGINE_KV_BLOCK);
    assert_int_equal(m->num_actual_tokens, batch->num_tokens);
    assert_int_equal(m->num_prefills + m->num_decodes, batch->n);
    assert_true(m->num_prefills >= prefills);
    assert_ptr_equal(fc->context.positions, w->pos);
    assert_false(fc->context.is_dummy);
    assert_int_equal(fc->context.batch_size, batch->n);
    assert_int_equal(fc->context.graph_bs, d->padded_reqs);
    assert_int_equal(fc->cudagraph_runtime_mode, d->mode);
    assert_int_equal(fc->batch_descriptor.num_tokens, d->key.num_tokens);
    assert_int_equal(fc->batch_descriptor.num_reqs, d->key.num_reqs);
    assert_int_equal(fc->batch_descriptor.num_logits, d->key.num_logits);
    assert_int_equal(fc->batch_descriptor.uniform, d->key.uniform);
    for (int32_t i = (int32_t)batch->n; i < d->padded_reqs; i++)
        assert_int_equal(m->context_lens[i], 0);
    assert_int_equal(m->cu_seqlens_q[d->padded_reqs], d->num_tokens);
    assert_int_equal(m->max_seqlen_k, longest);
    assert_int_equal(m->max_seqlen_q, batch->max_query_len);
}

/* Every entry that samples does so from its last row. */
static void sample(world *w, const engine_batch *batch, int32_t *tokens, int32_t *row_tokens) {
    uint32_t row = 0;
    rp_error err = {0};
    for (uint32_t i = 0; i < batch->n; i++) {
        const engine_batch_entry *e = &batch->entry[i];
        row += e->n_logits;
        tokens[i] = -1;
        if (!e->samples) continue;
        CHECK_OK(engine_sampler_pick(w->sampler, &e->req->sampling, w->logits + (row - 1) * V,
                                     e->req->n_output + e->req->n_pending, &tokens[i], &err),
                 &err);
        row_tokens[row - 1] = tokens[i];
    }
}

/* Tokens that come from the step in front, whose turn was the other. */
static void take_handed(world *w) {
    for (uint32_t i = 0; i < sizeof w->ids / sizeof *w->ids; i++) {
        if (w->ids[i] >= 0) continue;
        w->ids[i] = w->row_tokens[!w->turn][-1 - w->ids[i]];
        w->handed++;
    }
}

static void launch(world *w, const engine_batch *batch) {
    graph_step_shape shape = engine_batch_shape(batch);
    rp_dispatch d;
    rp_forward_context fc;
    rp_error err = {0};
    w->turn = !w->turn;
    CHECK_OK(graph_dispatch(&w->dispatcher, &shape, &d, &err), &err);
    w->padded_steps += d.padded > d.num_tokens;
    w->graph_steps += d.mode != RP_CUDAGRAPH_NONE;
    w->computed += batch->num_tokens;
    poison(w);
    if (w->computed % 3 == 0) { /* else rows that hold what they should are left alone */
        memset(w->tables, 0x7f, sizeof w->tables);
        engine_step_dirty(w->step);
    }
    CHECK_OK(engine_step_build(w->step, batch, w->kv, &d, &fc, &err), &err);
    take_handed(w);
    check_step(w, batch, &d);
    assert_int_equal(fc.context.is_prefill, batch->n_prefills > 0);
    check_context(w, &fc, batch, &d);
    model_run(w, &d);
    sample(w, batch, w->tokens[w->turn], w->row_tokens[w->turn]);
}

static void commit(world *w, const engine_batch *batch, const int32_t *tokens) {
    for (uint32_t i = 0; i < batch->n; i++) {
        const engine_batch_entry *e = &batch->entry[i];
        if (e->req)
            w->rows_of[e->req->id] += e->n_logits;
        else
            w->forgotten++;
    }
    engine_sched_commit(w->sched, tokens);
}

/* One step; false when nothing is left. */
static bool world_step(world *w) {
    const engine_batch *batch = w->flight, *next = NULL;
    rp_error err = {0};
    w->flight = NULL;
    if (!batch) {
        CHECK_OK(engine_sched_next(w->sched, &batch, &err), &err);
        if (!batch) return false;
        launch(w, batch);
    }
    const int32_t *tokens = w->tokens[w->turn];
    if (w->ahead && rnd(8)) next = engine_sched_ahead(w->sched);
    CHECK_OK(engine_kv_check(w->kv, &err), &err);
    if (next) launch(w, next);
    if (w->ahead && rnd(40) == 0) { /* as where the device failed */
        engine_sched_cancel(w->sched);
        w->cancelled++;
        return true;
    }
    commit(w, batch, tokens);
    w->flight = next;
    if (engine_sched_idle(w->sched)) {
        engine_sched_cancel(w->sched);
        w->flight = NULL;
    }
    return true;
}

static engine_request *add_random(world *w, uint64_t id, expected *e) {
    int32_t prompt[MODEL_LEN];
    static const int32_t stops[] = {3, 17};
    uint32_t room = engine_kv_max_tokens(w->kv) < MODEL_LEN ? engine_kv_max_tokens(w->kv)
                                                            : MODEL_LEN;
    engine_request_options o = {.id = id,
                                .prompt = prompt,
                                .n_prompt = 1 + rnd(rnd(3) ? 12 : room - 1),
                                .max_tokens = rnd(8) ? 1 + rnd(40) : 0,
                                .sampling = ENGINE_SAMPLING_GREEDY,
                                .stop_ids = stops,
                                .n_stop_ids = rnd(3) ? 0 : 2,
                                .all_logits = rnd(6) == 0};
    engine_request *r = NULL;
    rp_error err = {0};
    for (uint32_t i = 0; i < o.n_prompt; i++) prompt[i] = (int32_t)rnd(V);
    if (w->n_prompt && rnd(3) == 0) { /* as a sample of the same prompt */
        o.prompt = w->prompt;
        o.n_prompt = w->n_prompt;
        w->n_same++;
    } else {
        memcpy(w->prompt, prompt, sizeof prompt);
        w->n_prompt = o.n_prompt;
    }
    if (rnd(2)) {
        o.sampling.temperature = 1.3;
        o.sampling.seed = rnd(1000);
        if (rnd(2)) o.sampling.top_k = 7;
        if (rnd(2)) o.sampling.top_p = 0.9;
    }
    expect(w, &o, room - o.n_prompt, e);
    CHECK_OK(engine_request_new(&o, &r, &err), &err);
    CHECK_OK(engine_sched_add(w->sched, r, &err), &err);
    return r;
}

/* Whoever runs is older than whoever waits. */
static void check_order(engine_request *const *all, uint32_t n) {
    uint64_t newest = 0, oldest = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i]) continue;
        if (all[i]->state == ENGINE_RUNNING && all[i]->arrival + 1 > newest)
            newest = all[i]->arrival + 1;
        if (all[i]->state == ENGINE_WAITING && all[i]->arrival < oldest) oldest = all[i]->arrival;
    }
    assert_true(newest <= oldest);
}

/* Logits of each position once, or of each that was sampled from. */
static void check_rows(const world *w, const engine_request *r) {
    uint32_t want = r->all_logits ? engine_request_len(r) - (r->n_output > 0) : r->n_output;
    assert_int_equal(w->rows_of[r->id], want);
}

/* Random arrivals until `total` requests have come and gone; every text is compared. */
static void play(world *w, uint32_t total, uint64_t *steps) {
    expected *e = calloc(total, sizeof *e);
    engine_request *all[64] = {NULL};
    uint32_t added = 0, done = 0;
    bool more = true;
    assert_true(total <= 64);
    while (done < total) {
        engine_request *r;
        while (added < total && (!more || rnd(3) == 0)) {
            all[added] = add_random(w, added, &e[added]);
            added++;
            more = true;
        }
        uint64_t before = base_alloc_count();
        more = world_step(w);
        assert_int_equal(base_alloc_count(), before); /* a step never allocates */
        (*steps)++;
        check_order(all, added);
        while ((r = engine_sched_take_finished(w->sched))) {
            assert_int_equal(r->finish, e[r->id].finish);
            assert_int_equal(r->n_output, e[r->id].n);
            if (r->n_output) assert_memory_equal(r->output, e[r->id].output, r->n_output * 4);
            check_rows(w, r);
            all[r->id] = NULL;
            engine_request_free(r);
            done++;
        }
    }
    assert_true(engine_sched_idle(w->sched));
    free(e);
}

/* What happened in all worlds: the tests are worth something only if all of it did. */
typedef struct life {
    uint64_t steps, preemptions, padded, graphs, same, handed, forgotten, cancelled;
    uint32_t most_running;
} life;

static void live(bool ahead, int rounds, life *l) {
    static const rp_cudagraph_mode modes[] = {RP_CUDAGRAPH_NONE, RP_CUDAGRAPH_PIECEWISE,
                                              RP_CUDAGRAPH_FULL, RP_CUDAGRAPH_FULL_DECODE_ONLY,
                                              RP_CUDAGRAPH_FULL_AND_PIECEWISE};
    for (int round = 0; round < rounds; round++) {
        world w;
        uint32_t seqs = 1 + rnd(SEQS);
        setup s = {.mode = modes[round % 5],
                   .n_blocks = 4 + rnd(rnd(2) ? 6 : 40),
                   .chunk = rnd(2) ? ENGINE_CHUNK_SHARED : rnd(10),
                   .max_tokens = seqs + rnd(TOKENS - seqs + 1),
                   .max_seqs = seqs,
                   .max_logits = rnd(3) ? 0 : seqs};
        engine_sched_stats st;
        world_open(&w, &s);
        w.ahead = ahead;
        play(&w, 40, &l->steps);
        engine_sched_get_stats(w.sched, &st);
        assert_int_equal(st.finished, 40);
        l->preemptions += st.preemptions;
        if (st.most_running > l->most_running) l->most_running = st.most_running;
        l->padded += w.padded_steps;
        l->same += w.n_same;
        l->graphs += w.graph_steps;
        l->handed += w.handed;
        l->forgotten += w.forgotten;
        l->cancelled += w.cancelled;
        world_close(&w);
    }
}

static void text_depends_on_the_request_alone(void **state) {
    life l = {0};
    (void)state;
    live(false, 60, &l);
    assert_true(l.steps > 10000);
    assert_true(l.preemptions > 50 && l.same > 300);
    assert_true(l.padded > 500 && l.graphs > 2000);
    assert_int_equal(l.most_running, SEQS);
    assert_int_equal(l.handed + l.forgotten + l.cancelled, 0);
}

/* The same where steps are launched before the tokens of those in front are known: what goes on behind a stop is forgotten, and
 * what failed is done again. */
static void a_step_ahead_changes_no_text(void **state) {
    life l = {0};
    (void)state;
    live(true, 60, &l);
    assert_true(l.steps > 10000);
    assert_true(l.preemptions > 50 && l.same > 300);
    assert_true(l.handed > 5000 && l.forgotten > 100 && l.cancelled > 100);
    assert_int_equal(l.most_running, SEQS);
}

static const setup roomy = {RP_CUDAGRAPH_NONE, 40, 0, TOKENS, SEQS, 0};

static engine_request *add(world *w, uint64_t id, uint32_t n_prompt, uint32_t max_tokens,
                           rp_status want, rp_error *err) {
    int32_t prompt[200];
    engine_request_options o = {.id = id,
                                .prompt = prompt,
                                .n_prompt = n_prompt,
                                .max_tokens = max_tokens,
                                .sampling = ENGINE_SAMPLING_GREEDY};
    engine_request *r = NULL;
    for (uint32_t i = 0; i < n_prompt; i++) prompt[i] = (int32_t)((i + 7 * id) % V); /* its own */
    CHECK_OK(engine_request_new(&o, &r, err), err);
    assert_int_equal(engine_sched_add(w->sched, r, err), want);
    if (want == RP_OK) return r;
    engine_request_free(r);
    return NULL;
}

enum { SAMPLES = 5 };

/* Samples of one prompt: each has the text of its own seed. */
static void add_samples(world *w, uint32_t n_prompt, engine_request **r, expected *e) {
    int32_t prompt[MODEL_LEN];
    rp_error err = {0};
    for (uint32_t i = 0; i < n_prompt; i++) prompt[i] = (int32_t)(i * i % V);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        engine_request_options o = {.id = i,
                                    .prompt = prompt,
                                    .n_prompt = n_prompt,
                                    .max_tokens = 6,
                                    .sampling = {.temperature = 1.3, .top_p = 1, .seed = i}};
        expect(w, &o, MODEL_LEN - n_prompt, &e[i]);
        CHECK_OK(engine_request_new(&o, &r[i], &err), &err);
        CHECK_OK(engine_sched_add(w->sched, r[i], &err), &err);
    }
}

static void samples_compute_their_prompt_once(void **state) {
    static const uint32_t lengths[] = {5, 16, 17, 32, 33, 47, 70};
    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        uint32_t n = lengths[l], shared = (n - 1) / ENGINE_KV_BLOCK * ENGINE_KV_BLOCK;
        uint64_t want = n + (SAMPLES - 1) * (n - shared);
        engine_request *r[SAMPLES];
        expected e[SAMPLES];
        world w;
        world_open(&w, &roomy);
        add_samples(&w, n, r, e);
        while (world_step(&w)) {
        }
        for (uint32_t i = 0; i < SAMPLES; i++) {
            assert_int_equal(r[i]->n_output, e[i].n);
            assert_memory_equal(r[i]->output, e[i].output, e[i].n * sizeof(int32_t));
            assert_ptr_equal(engine_sched_take_finished(w.sched), r[i]);
            engine_request_free(r[i]);
            want += e[i].n - 1; /* the last token of each is not fed back */
        }
        assert_int_equal(w.computed, want);
        world_close(&w);
    }
}

/* Those that compute the prompt for the others are ended one after the other, each at any moment: somebody goes on, from
 * where they were. */
static void samples_go_on_without_the_first(void **state) {
    enum { N = 70, SHARED = 64 };
    (void)state;
    for (int first = 0; first < 9; first++)
        for (int second = first; second < 9; second++) {
            setup s = roomy;
            engine_request *r[SAMPLES];
            expected e[SAMPLES];
            uint64_t texts = 0;
            world w;
            s.max_tokens = 10;
            world_open(&w, &s);
            add_samples(&w, N, r, e);
            for (int step = 0;; step++) {
                if (step == first) engine_sched_abort(w.sched, r[0]);
                if (step == second) engine_sched_abort(w.sched, r[1]);
                if (!world_step(&w)) break;
            }
            for (uint32_t i = 2; i < SAMPLES; i++) {
                assert_int_equal(r[i]->n_output, e[i].n);
                assert_memory_equal(r[i]->output, e[i].output, e[i].n * sizeof(int32_t));
            }
            for (uint32_t i = 0; i < SAMPLES; i++) texts += r[i]->n_output;
            assert_true(w.computed <= SHARED + SAMPLES * (N - SHARED) + texts);
            for (engine_request *done; (done = engine_sched_take_finished(w.sched));)
                engine_request_free(done);
            world_close(&w);
        }
}

/* Of an older one that decodes, and of one that wants the logits of every position. */
static void who_comes_later_shares_too(void **state) {
    (void)state;
    engine_request *r[3], *all;
    engine_request_options o = {
        .n_prompt = 40, .max_tokens = 9, .sampling = ENGINE_SAMPLING_GREEDY};
    int32_t prompt[40] = {0};
    rp_error err = {0};
    world w;
    o.prompt = prompt;
    world_open(&w, &roomy);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t before = w.computed;
        o.id = i;
        o.all_logits = i == 2;
        CHECK_OK(engine_request_new(&o, &r[i], &err), &err);
        CHECK_OK(engine_sched_add(w.sched, r[i], &err), &err);
        for (int k = 0; r[i]->n_output == 0; k++) assert_true(world_step(&w) && k < 4);
        before = w.computed - before;
        assert_true(i == 0 ? before == 40 : i == 1 ? before == 8 + 1 : before > 40);
    }
    while (world_step(&w)) {
    }
    assert_int_equal(w.rows_of[2], 40 + 8);
    while ((all = engine_sched_take_finished(w.sched))) engine_request_free(all);
    world_close(&w);
}

static void what_can_never_fit_is_refused_with_numbers(void **state) {
    (void)state;
    setup small = roomy;
    world w;
    rp_error err = {0};
    engine_request *r;
    engine_request_options o = {.sampling = ENGINE_SAMPLING_GREEDY};
    int32_t bad_ids[] = {1, 2, V};
    world_open(&w, &roomy);
    (void)add(&w, 0, MODEL_LEN, 1, RP_INVALID, &err);
    assert_non_null(strstr(err.text, "prompt of 90 tokens"));
    assert_non_null(strstr(err.text, "max_model_len 90"));
    r = add(&w, 0, MODEL_LEN, 0, RP_OK, &err);
    err = (rp_error){0};
    assert_int_equal(engine_request_new(&o, &r, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "empty"));
    o.prompt = bad_ids;
    o.n_prompt = 3;
    err = (rp_error){0};
    CHECK_OK(engine_request_new(&o, &r, &err), &err);
    assert_int_equal(engine_sched_add(w.sched, r, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "token id 29 at position 2"));
    engine_request_free(r);
    while (world_step(&w)) {
    }
    engine_request_free(engine_sched_take_finished(w.sched));
    world_close(&w);

    small.n_blocks = 4;
    world_open(&w, &small);
    err = (rp_error){0};
    (void)add(&w, 0, 48, 1, RP_INVALID, &err);
    assert_non_null(strstr(err.text, "48 tokens (3 blocks of 16)"));
    r = add(&w, 1, 47, 100, RP_OK, &err); /* room for one token */
    while (world_step(&w)) {
    }
    assert_int_equal(r->n_output, 1);
    assert_int_equal(r->finish, ENGINE_FINISH_LENGTH);
    engine_request_free(engine_sched_take_finished(w.sched));
    world_close(&w);

    engine_sched_options so = {.max_num_seqs = 8, .max_num_batched_tokens = 4, .max_model_len = 90};
    engine_sched *s;
    assert_int_equal(engine_sched_new(&so, NULL, &s, NULL), RP_CONFIG);
    so.max_num_batched_tokens = 16;
    so.max_logits = 4;
    assert_int_equal(engine_sched_new(&so, NULL, &s, NULL), RP_CONFIG);
}

/* Decodes are in every step, prompts share what is left, in order of arrival. */
static void decodes_come_first_and_prompts_are_cut(void **state) {
    (void)state;
    setup s = roomy;
    world w;
    rp_error err = {0};
    const engine_batch *b;
    engine_request *r[3];
    int32_t tokens[SEQS] = {5, 5, 5, 5, 5, 5};
    s.max_tokens = 10;
    s.chunk = 6;
    world_open(&w, &s);
    r[0] = add(&w, 0, 3, 4, RP_OK, &err);
    CHECK_OK(engine_sched_next(w.sched, &b, &err), &err);
    engine_sched_commit(w.sched, tokens);
    r[1] = add(&w, 1, 20, 4, RP_OK, &err);
    r[2] = add(&w, 2, 20, 4, RP_OK, &err);
    CHECK_OK(engine_sched_next(w.sched, &b, &err), &err);
    assert_int_equal(b->n, 3);
    assert_int_equal(b->entry[0].req->id, 0);
    assert_false(b->entry[0].prefill);
    assert_int_equal(b->entry[1].n_tokens, 6);
    assert_int_equal(b->entry[2].n_tokens, 3);
    assert_int_equal(b->num_tokens, 10);
    assert_int_equal(b->num_logits, 1);
    assert_int_equal(b->n_prefills, 2);
    assert_int_equal(b->max_query_len, 6);
    /* Without a commit the same step comes again. */
    CHECK_OK(engine_sched_next(w.sched, &b, &err), &err);
    assert_int_equal(b->entry[1].start, 0);
    assert_int_equal(b->num_tokens, 10);
    engine_sched_free(w.sched);
    w.sched = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i]->finish, ENGINE_FINISH_ABORT);
        engine_request_free(r[i]);
    }
    assert_int_equal(engine_kv_n_free(w.kv), engine_kv_n_usable(w.kv));
    world_close(&w);
}

/* ---- who waits for whom ---- */

enum { QUEUE_STEP = 32, QUEUE_SEQS = 8 };

typedef struct queue {
    engine_kv *kv;
    engine_sched *s;
    uint64_t n_added;
} queue;

static void queue_open(queue *q, uint32_t chunk) {
    rp_error err = {0};
    engine_kv_options ko = {.n_blocks = 2048, .max_seqs = QUEUE_SEQS, .max_blocks = 256};
    engine_sched_options so = {.max_num_seqs = QUEUE_SEQS,
                               .max_num_batched_tokens = QUEUE_STEP,
                               .max_model_len = 4096,
                               .prefill_chunk = chunk};
    *q = (queue){0};
    CHECK_OK(engine_kv_new(&ko, &q->kv, &err), &err);
    CHECK_OK(engine_sched_new(&so, q->kv, &q->s, &err), &err);
}

static engine_request *queue_add(queue *q, uint32_t n_prompt, uint32_t max_tokens) {
    static int32_t prompt[4000];
    rp_error err = {0};
    engine_request *r = NULL;
    engine_request_options o = {.id = q->n_added++,
                                .prompt = prompt,
                                .n_prompt = n_prompt,
                                .max_tokens = max_tokens,
                                .sampling = ENGINE_SAMPLING_GREEDY};
    prompt[0] = (int32_t)o.id; /* equal prompts are computed once */
    CHECK_OK(engine_request_new(&o, &r, &err), &err);
    CHECK_OK(engine_sched_add(q->s, r, &err), &err);
    return r;
}

/* Every step is full while there is enough to do. */
static void queue_step(queue *q) {
    static const int32_t tokens[QUEUE_SEQS];
    rp_error err = {0};
    const engine_batch *b = NULL;
    CHECK_OK(engine_sched_next(q->s, &b, &err), &err);
    assert_non_null(b);
    assert_true(b->num_tokens <= QUEUE_STEP);
    engine_sched_commit(q->s, tokens);
}

static uint32_t steps_until(queue *q, const engine_request *r) {
    uint32_t n = 0;
    while (r->state != ENGINE_FINISHED) {
        queue_step(q);
        n++;
    }
    return n;
}

static void queue_close(queue *q) {
    engine_request *r;
    while (!engine_sched_idle(q->s)) queue_step(q);
    while ((r = engine_sched_take_finished(q->s))) engine_request_free(r);
    engine_sched_free(q->s);
    engine_kv_free(q->kv);
    assert_int_equal(base_live(), 0);
}

/* However many long prompts came before, and nothing of a step is left unused for it. */
static void a_short_prompt_does_not_wait_for_long_ones(void **state) {
    (void)state;
    for (int n_long = 1; n_long < 5; n_long++) {
        queue q;
        engine_request *first = NULL;
        queue_open(&q, ENGINE_CHUNK_SHARED);
        for (int i = 0; i < n_long; i++) {
            engine_request *r = queue_add(&q, 3200, 1);
            if (i == 0) first = r;
        }
        assert_int_equal(steps_until(&q, queue_add(&q, 3, 1)), 1);
        /* later, too, and two at a time */
        for (int i = 0; i < 10; i++) queue_step(&q);
        (void)queue_add(&q, 7, 1);
        assert_int_equal(steps_until(&q, queue_add(&q, 3, 1)), 1);
        uint32_t had = first->n_computed, steps = steps_until(&q, first);
        /* alone it had all but what those took, beside others half */
        assert_int_equal(had, n_long == 1 ? 12 * QUEUE_STEP - 13 : 12 * QUEUE_STEP / 2);
        assert_int_equal(steps, (3200 - had + (n_long == 1 ? 31 : 15)) / (n_long == 1 ? 32 : 16));
        queue_close(&q);
    }
    /* no limit: first come, first served */
    queue q;
    queue_open(&q, 0);
    (void)queue_add(&q, 3200, 1);
    assert_int_equal(steps_until(&q, queue_add(&q, 3, 1)), 101);
    queue_close(&q);
    queue_open(&q, 20); /* never more than 20 of one, though the step has room */
    engine_request *r = queue_add(&q, 3200, 1);
    assert_int_equal(steps_until(&q, queue_add(&q, 3, 1)), 1);
    assert_int_equal(steps_until(&q, r), 159);
    queue_close(&q);
}

/* Nor do long ones wait for short ones that never stop coming: the oldest gets its half in every step. */
static void a_long_prompt_is_not_starved(void **state) {
    (void)state;
    queue q;
    queue_open(&q, ENGINE_CHUNK_SHARED);
    (void)queue_add(&q, 40, 1);
    engine_request *a = queue_add(&q, 1600, 4), *b = queue_add(&q, 1600, 4), *done;
    uint32_t steps = 0, worst = 0;
    uint64_t born[2000];
    for (; b->state != ENGINE_FINISHED; steps++) {
        uint32_t had = a ? a->n_computed : 0;
        born[q.n_added] = steps;
        (void)queue_add(&q, 9, 2);
        queue_step(&q);
        if (steps > 1 && a && a->n_output == 0) assert_true(a->n_computed >= had + 14);
        while ((done = engine_sched_take_finished(q.s)) && done != b) {
            if (done->n_prompt == 9 && steps + 1 - born[done->id] > worst)
                worst = steps + 1 - (uint32_t)born[done->id];
            if (done == a) a = NULL;
            engine_request_free(done);
        }
        assert_true(steps < 400);
    }
    engine_request_free(b);
    assert_in_range(steps, 100, 240);
    assert_in_range(worst, 2, 3); /* one step for the prompt, one for the second token */
    queue_close(&q);
}

/* A newcomer that would be preempted soon waits; the one that runs is not disturbed. */
static void prompts_wait_for_blocks(void **state) {
    (void)state;
    setup s = roomy;
    world w;
    rp_error err = {0};
    engine_request *a, *b;
    engine_sched_stats st;
    s.n_blocks = 7;
    world_open(&w, &s);
    a = add(&w, 0, 20, 40, RP_OK, &err);
    b = add(&w, 1, 60, 3, RP_OK, &err); /* 4 blocks are free, one of which is held back */
    (void)world_step(&w);
    assert_int_equal(a->state, ENGINE_RUNNING);
    assert_int_equal(b->state, ENGINE_WAITING);
    while (world_step(&w)) {
    }
    engine_sched_get_stats(w.sched, &st);
    assert_int_equal(st.preemptions, 0);
    assert_ptr_equal(engine_sched_take_finished(w.sched), a);
    assert_ptr_equal(engine_sched_take_finished(w.sched), b);
    engine_request_free(a);
    engine_request_free(b);
    world_close(&w);
}

/* How many of five prompts of 33 tokens begin in a cache of so many blocks: each wants 3, of which 2 are those of the first
 * where the prompts are one, and a block is held back for each that runs. */
static void as_many_begin_as_there_are_blocks_for(void **state) {
    (void)state;
    for (uint32_t usable = 3; usable <= 20; usable++)
        for (int alike = 0; alike < 2; alike++) {
            setup s = roomy;
            engine_request *r[SAMPLES];
            expected e[SAMPLES];
            engine_sched_stats st;
            rp_error err = {0};
            world w;
            s.n_blocks = usable + 1;
            world_open(&w, &s);
            if (alike)
                add_samples(&w, 33, r, e);
            else
                for (uint64_t i = 0; i < SAMPLES; i++) r[i] = add(&w, i, 33, 6, RP_OK, &err);
            (void)world_step(&w);
            uint32_t want = 1, left = usable - 3, own = alike ? 1 : 3;
            while (want < SAMPLES && want < SEQS && own + want <= left) {
                left -= own;
                want++;
            }
            engine_sched_get_stats(w.sched, &st);
            if (st.running != want)
                fail_msg("%u blocks, prompts %s: %u began, not %u", usable,
                         alike ? "alike" : "of their own", st.running, want);
            while (world_step(&w)) {
            }
            for (engine_request *done; (done = engine_sched_take_finished(w.sched));)
                engine_request_free(done);
            world_close(&w);
        }
}

static bool stop_at_two(void *user, const engine_request *r) {
    (*(uint32_t *)user)++;
    return r->n_output == 2;
}

static void hooks_and_aborts_end_requests(void **state) {
    (void)state;
    world w;
    rp_error err = {0};
    const engine_batch *b;
    engine_request *r, *waiting, *flying;
    uint32_t calls = 0;
    int32_t id = 1, tokens[SEQS] = {9, 9, 9, 9, 9, 9};
    engine_request_options o = {.prompt = &id,
                                .n_prompt = 1,
                                .max_tokens = 9,
                                .sampling = ENGINE_SAMPLING_GREEDY,
                                .stop = stop_at_two,
                                .user = &calls};
    world_open(&w, &roomy);
    CHECK_OK(engine_request_new(&o, &r, &err), &err);
    CHECK_OK(engine_sched_add(w.sched, r, &err), &err);
    while (world_step(&w)) {
    }
    assert_int_equal(calls, 2);
    assert_int_equal(r->n_output, 2);
    assert_string_equal(engine_finish_name(r->finish), "stop");
    assert_ptr_equal(engine_sched_take_finished(w.sched), r);
    engine_request_free(r);

    flying = add(&w, 1, 5, 9, RP_OK, &err);
    CHECK_OK(engine_sched_next(w.sched, &b, &err), &err);
    waiting = add(&w, 2, 5, 9, RP_OK, &err);
    engine_sched_abort(w.sched, flying);
    assert_int_equal(flying->state, ENGINE_RUNNING); /* its step is under way */
    engine_sched_abort(w.sched, waiting);
    assert_int_equal(waiting->state, ENGINE_FINISHED);
    engine_sched_commit(w.sched, tokens);
    assert_int_equal(flying->finish, ENGINE_FINISH_ABORT);
    assert_int_equal(flying->n_output, 0);
    assert_ptr_equal(engine_sched_take_finished(w.sched), waiting);
    assert_ptr_equal(engine_sched_take_finished(w.sched), flying);
    engine_request_free(waiting);
    engine_request_free(flying);
    assert_false(world_step(&w));
    world_close(&w);
}

/* all_logits: every position exactly once, even across chunks and preemptions. */
static void all_logits_asks_for_each_position_once(void **state) {
    (void)state;
    setup s = roomy;
    world w;
    rp_error err = {0};
    const engine_batch *b;
    engine_request *r;
    int32_t prompt[40] = {0}, tokens[SEQS] = {0};
    engine_request_options o = {
        .prompt = prompt, .n_prompt = 40, .sampling = ENGINE_SAMPLING_GREEDY, .all_logits = true};
    uint32_t rows = 0, steps = 0;
    s.max_logits = 7;
    world_open(&w, &s);
    CHECK_OK(engine_request_new(&o, &r, &err), &err);
    CHECK_OK(engine_sched_add(w.sched, r, &err), &err);
    for (;; steps++) {
        CHECK_OK(engine_sched_next(w.sched, &b, &err), &err);
        if (!b) break;
        assert_true(b->num_logits <= 7);
        rows += b->num_logits;
        assert_false(b->entry[0].samples);
        engine_sched_commit(w.sched, tokens);
    }
    assert_int_equal(rows, 40);
    assert_int_equal(steps, 6);
    assert_int_equal(r->finish, ENGINE_FINISH_LENGTH);
    engine_request_free(engine_sched_take_finished(w.sched));
    world_close(&w);
}

/* Capture and warm-up: a dummy step stores nothing, reads nothing, and is all padding. */
static void dummy_step_touches_no_live_kv(void **state) {
    (void)state;
    setup s = roomy;
    world w;
    rp_error err = {0};
    rp_forward_context fc;
    int32_t before[MAX_CACHE * ENGINE_KV_BLOCK];
    s.mode = RP_CUDAGRAPH_FULL;
    world_open(&w, &s);
    (void)add(&w, 0, 30, 9, RP_OK, &err);
    (void)world_step(&w);
    memcpy(before, w.cache, sizeof before);
    for (uint32_t i = 0; i < w.dispatcher.keys.tokens.n; i++) {
        rp_dispatch d;
        graph_dispatch_of(&w.dispatcher, GRAPH_MIXED, i, 0, &d);
        poison(&w);
        engine_step_dirty(w.step);
        CHECK_OK(engine_step_dummy(w.step, &d, &fc, &err), &err);
        assert_true(fc.context.is_dummy);
        assert_int_equal(fc.context.batch_size, 0);
        assert_int_equal(fc.cudagraph_runtime_mode, RP_CUDAGRAPH_FULL);
        for (int32_t t = 0; t < d.padded; t++) {
            assert_int_equal(w.ids[t], 0);
            assert_int_equal(w.pos[t], 0);
            assert_int_equal(w.slots[t], -1);
            assert_int_equal(w.seqs[t], -1);
        }
        for (int32_t q = 0; q < d.padded_reqs * BLOCKS_PER_SEQ; q++)
            assert_int_equal(w.tables[q], ENGINE_KV_NULL_BLOCK);
        model_run(&w, &d);
    }
    assert_memory_equal(before, w.cache, sizeof before);
    while (world_step(&w)) {
    }
    engine_request_free(engine_sched_take_finished(w.sched));
    world_close(&w);
}

/* A ladder of captures writes its padding once, however many sizes it has; a real step in between is padded over. */
static void padding_is_written_once(void **state) {
    (void)state;
    world w;
    setup s = roomy;
    rp_error err = {0};
    rp_forward_context fc;
    rp_dispatch large, small;
    s.mode = RP_CUDAGRAPH_FULL;
    world_open(&w, &s);
    graph_dispatch_of(&w.dispatcher, GRAPH_MIXED, w.dispatcher.keys.tokens.n - 1, 0, &large);
    graph_dispatch_of(&w.dispatcher, GRAPH_MIXED, 0, 0, &small);
    poison(&w);
    CHECK_OK(engine_step_dummy(w.step, &large, &fc, &err), &err);
    w.ids[0] = w.tables[0] = 77; /* nobody is told */
    CHECK_OK(engine_step_dummy(w.step, &small, &fc, &err), &err);
    assert_int_equal(w.ids[0], 77);
    assert_int_equal(w.tables[0], 77);
    (void)add(&w, 0, 30, 2, RP_OK, &err);
    (void)world_step(&w);
    CHECK_OK(engine_step_dummy(w.step, &small, &fc, &err), &err);
    assert_int_equal(w.ids[0], 0);
    assert_int_equal(w.slots[0], -1);
    assert_int_equal(w.tables[0], ENGINE_KV_NULL_BLOCK);
    while (world_step(&w)) {
    }
    engine_request_free(engine_sched_take_finished(w.sched));
    world_close(&w);
}

static void records_that_do_not_fit_are_refused(void **state) {
    (void)state;
    world w;
    rp_error err = {0};
    const engine_batch *b;
    rp_forward_context fc;
    rp_dispatch d;
    world_open(&w, &roomy);
    engine_request *r = add(&w, 0, 8, 2, RP_OK, &err);
    CHECK_OK(engine_sched_next(w.sched, &b, &err), &err);
    graph_step_shape shape = engine_batch_shape(b);
    CHECK_OK(graph_dispatch(&w.dispatcher, &shape, &d, &err), &err);
    for (int i = 0; i < 4; i++) {
        rp_dispatch x = d;
        if (i == 0) x.padded = 7;
        if (i == 1) x.padded = TOKENS + 1;
        if (i == 2) x.padded_reqs = 0;
        if (i == 3) x.padded_logits = 0;
        assert_int_equal(engine_step_build(w.step, b, w.kv, &x, &fc, NULL), RP_INVALID);
    }
    CHECK_OK(engine_step_build(w.step, b, w.kv, &d, &fc, &err), &err);
    engine_sched_free(w.sched);
    w.sched = NULL;
    engine_request_free(r);
    world_close(&w);
}

static void making_an_engine_survives_each_failure(void **state) {
    (void)state;
    rp_status st = RP_NOMEM;
    FOR_EACH_ALLOC_FAILURE (n) {
        engine_kv_options ko = {.n_blocks = 8, .max_seqs = 2, .max_blocks = 4};
        engine_sched_options so = {
            .max_num_seqs = 2, .max_num_batched_tokens = 8, .max_model_len = 60};
        int32_t ids[4] = {1, 2, 3, 4};
        engine_request_options o = {.prompt = ids,
                                    .n_prompt = 4,
                                    .max_tokens = 5,
                                    .sampling = ENGINE_SAMPLING_GREEDY,
                                    .stop_ids = ids,
                                    .n_stop_ids = 1};
        engine_step_buffers sb = {.max_tokens = 8, .max_seqs = 2, .max_blocks = 4, .max_rows = 2};
        engine_kv *kv = NULL;
        engine_sched *s = NULL;
        engine_step *step = NULL;
        engine_request *r = NULL;
        st = engine_kv_new(&ko, &kv, NULL);
        if (st == RP_OK) st = engine_sched_new(&so, kv, &s, NULL);
        if (st == RP_OK) st = engine_step_new(&sb, 16, &step, NULL);
        if (st == RP_OK) st = engine_request_new(&o, &r, NULL);
        if (st == RP_OK) st = engine_sched_add(s, r, NULL);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        engine_sched_free(s);
        engine_request_free(r);
        engine_step_free(step);
        engine_kv_free(kv);
        assert_int_equal(base_live(), 0);
    }
    assert_int_equal(st, RP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_depends_on_the_request_alone),
        cmocka_unit_test(a_step_ahead_changes_no_text),
        cmocka_unit_test(samples_compute_their_prompt_once),
        cmocka_unit_test(samples_go_on_without_the_first),
        cmocka_unit_test(who_comes_later_shares_too),
        cmocka_unit_test(what_can_never_fit_is_refused_with_numbers),
        cmocka_unit_test(decodes_come_first_and_prompts_are_cut),
        cmocka_unit_test(a_short_prompt_does_not_wait_for_long_ones),
        cmocka_unit_test(a_long_prompt_is_not_starved),
        cmocka_unit_test(prompts_wait_for_blocks),
        cmocka_unit_test(as_many_begin_as_there_are_blocks_for),
        cmocka_unit_test(hooks_and_aborts_end_requests),
        cmocka_unit_test(all_logits_asks_for_each_position_once),
        cmocka_unit_test(dummy_step_touches_no_live_kv),
        cmocka_unit_test(padding_is_written_once),
        cmocka_unit_test(records_that_do_not_fit_are_refused),
        cmocka_unit_test(making_an_engine_survives_each_failure),
    };
    return cmocka_run_group_tests_name("engine_batch", tests, NULL, NULL);
}
