#include "engine/shares.h"

/* Up to `most` further tokens for p, as far as tokens and logit rows last. */
static void give(engine_share *p, uint32_t most, engine_purse *left) {
    uint32_t want = engine_request_left(p->r) - p->n, n = want < most ? want : most;

    if (n > left->tokens) n = left->tokens;
    if (p->r->all_logits) {
        if (n > left->rows) n = left->rows;
        left->rows -= n;
    } else if (n > 0 && n == want) { /* its last token is sampled from */
        if (left->rows == 0)
            n--;
        else
            left->rows--;
    }
    p->n += n;
    p->dealt = true;
    left->tokens -= n;
}

/* The one with the fewest tokens left that has had no turn, the older of two; NULL when all have. */
static engine_share *least_left(engine_share *v, uint32_t n) {
    engine_share *best = NULL;

    for (uint32_t i = 0; i < n; i++)
        if (!v[i].dealt && (!best || engine_request_left(v[i].r) < engine_request_left(best->r)))
            best = &v[i];
    return best;
}

void engine_shares_deal(engine_share *v, uint32_t n, uint32_t most, bool shared,
                        engine_purse *left) {
    if (shared) most = left->tokens - left->tokens / 2;
    if (most == 0) most = left->tokens;
    if (n > 0) give(&v[0], most, left);
    for (engine_share *p; left->tokens > 0 && (p = least_left(v, n));) give(p, most, left);
    for (uint32_t i = 0; i < n && shared; i++) give(&v[i], left->tokens, left);
}
