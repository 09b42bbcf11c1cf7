/* Embeddings of texts: the mean of the normed hidden states of their tokens, and how alike they are: embeddings [MODEL [TEXT...]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/reprise.h>

enum { MAX_TEXTS = 8, MAX_WIDTH = 16384 };

typedef struct embedding {
    double sum[MAX_WIDTH];
    uint32_t width, n;
} embedding;

static void add(void *user, uint32_t position, const float *row, uint32_t width) {
    embedding *m = user;
    (void)position;
    m->width = width < MAX_WIDTH ? width : MAX_WIDTH;
    for (uint32_t i = 0; i < m->width; i++) m->sum[i] += (double)row[i];
    m->n++;
}

static rp_status embed(rp_engine *e, const char *text, embedding *out, rp_error *err) {
    rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
    int32_t *ids = NULL;
    rp_status st = rp_engine_tokenize(e, text, strlen(text), &ids, &o.n_prompt_ids, err);
    memset(out, 0, sizeof *out);
    o.prompt_ids = ids;
    o.normed = true;
    o.on_token = add;
    o.user = out;
    if (st == RP_OK) st = rp_engine_hidden(e, &o, err);
    rp_engine_text_free(ids);
    return st;
}

/* The cosine of the angle between two: their lengths, and so how many tokens they are of, do not matter. */
static double alike(const embedding *a, const embedding *b) {
    double ab = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < a->width; i++) {
        ab += a->sum[i] * b->sum[i];
        aa += a->sum[i] * a->sum[i];
        bb += b->sum[i] * b->sum[i];
    }
    return ab / sqrt(aa * bb);
}

static rp_status compare(rp_engine *e, const char *const *texts, int n, rp_error *err) {
    embedding *m = calloc((size_t)n, sizeof *m);
    rp_status st = m ? RP_OK : RP_NOMEM;
    if (!m) (void)snprintf(err->text, sizeof err->text, "no memory for %d embeddings", n);
    for (int i = 0; i < n && st == RP_OK; i++) {
        st = embed(e, texts[i], &m[i], err);
        if (st == RP_OK) printf("%d: %u tokens, %u wide: %s\n", i, m[i].n, m[i].width, texts[i]);
    }
    for (int i = 0; i < n && st == RP_OK; i++)
        for (int k = 0; k < n; k++) printf("%6.2f%s", alike(&m[i], &m[k]), k + 1 < n ? "" : "\n");
    free(m);
    return st;
}

int main(int argc, char **argv) {
    static const char *const some[] = {"The cat sleeps on the sofa.", "A kitten naps on the couch.",
                                       "Interest rates rose again this year."};
    const char *const *texts = argc > 2 ? (const char *const *)(argv + 2) : some;
    int n = argc > 2 ? argc - 2 : 3;
    rp_error err = {0};
    rp_engine *e = NULL;
    if (n > MAX_TEXTS) {
        (void)fprintf(stderr, "embeddings: %d texts, at most %d\n", n, MAX_TEXTS);
        return rp_status_exit_code(RP_INVALID);
    }
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = argc > 1 ? argv[1] : "synthetic:tiny";
    o.config = rp_config_new();
    rp_status st = o.config ? rp_config_set_olevel(o.config, 2, &err) : RP_NOMEM;
    if (!o.config) (void)snprintf(err.text, sizeof err.text, "no memory for a configuration");
    if (st == RP_OK)
        st = rp_engine_open(&o, &e, &err);
    else
        rp_config_free(o.config);
    if (st == RP_OK) st = compare(e, texts, n, &err);
    if (st != RP_OK) (void)fprintf(stderr, "embeddings: %s\n", err.text);
    rp_engine_close(e);
    return rp_status_exit_code(st);
}
