#!/usr/bin/env python3
"""Writes long.json: what a small Llama says about one sequence of 4096 tokens, in float64 (needs numpy).

The model is that of test/support/long_llama.c, with four ways to turn positions. Nothing here comes from reprise: rope is
written from its definition, pair (2i, 2i+1) of a head turned by position / base^(2i/n), attention from the whole matrix.
"""
import json, os, sys
import numpy as np

LAYERS, EMBD, HEADS, KV_HEADS, HEAD, FF, VOCAB, N = 2, 64, 4, 2, 16, 96, 108, 4096
PROMPT = 600
SHOWN = [600, 601, 699, 700, 701, 702, 767, 768, 900, 1000, 1023, 1024, 1025, 1026, 1100, 1500, 2000, 2047, 2048, 2049,
         2500, 3000, 3071, 3072, 3500, 4000, 4093, 4094, 4095]
TOP = 4


def mix(i, seed):
    i = np.asarray(i, dtype=np.uint64)
    m = np.uint64(0xFFFFFFFF)
    x = (i * np.uint64(2654435761) + np.uint64((seed * 40503 + 12345) % 2**32)) & m
    x = ((x ^ x >> np.uint64(15)) * np.uint64(739982445)) & m
    x = ((x ^ x >> np.uint64(12)) * np.uint64(695872825)) & m
    return x ^ x >> np.uint64(15)


class Model:
    def __init__(self):
        self.seed = 0
        self.embd = self.tensor(EMBD, VOCAB, 0, 2)
        self.layers = [[self.tensor(*t) for t in (
            (EMBD, 1, 1, .5), (EMBD, HEADS * HEAD, 0, 1), (EMBD, KV_HEADS * HEAD, 0, 1), (EMBD, KV_HEADS * HEAD, 0, .5),
            (HEADS * HEAD, EMBD, 0, .5), (EMBD, 1, 1, .5), (EMBD, FF, 0, .5), (EMBD, FF, 0, .5), (FF, EMBD, 0, .5))]
            for _ in range(LAYERS)]
        self.norm = self.tensor(EMBD, 1, 1, .5)

    def tensor(self, n_in, rows, middle, spread):
        x = (mix(np.arange(n_in * rows), self.seed) >> np.uint64(16)).astype(np.float64)
        self.seed += 1
        return (middle + spread * (x / 65536 - 0.5)).reshape(rows, n_in)


def rms_norm(x, w):
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float64(np.float32(1e-5))) * w[0]


def turn(x, angle):
    """x [tokens, heads, HEAD], angle [tokens, pairs]"""
    out = x.copy()
    c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    n = 2 * angle.shape[1]
    a, b = x[:, :, 0:n:2], x[:, :, 1:n:2]
    out[:, :, 0:n:2], out[:, :, 1:n:2] = a * c - b * s, a * s + b * c
    return out


def angles(rope):
    turned = HEAD // 2 if rope == "partial" else HEAD
    position = np.arange(N, dtype=np.float64) / (4 if rope == "linear" else 1)
    frequency = 10000.0 ** (-np.arange(0, turned, 2) / turned)
    if rope == "freqs":
        frequency = frequency / np.array([1, 1, 1.25, 1.5, 2, 4, 8, 8])
    return position[:, None] * frequency[None, :]


def attend(q, k, v):
    out = np.empty_like(q)
    later = np.triu(np.full((N, N), -np.inf), 1)
    for h in range(HEADS):
        g = h // (HEADS // KV_HEADS)
        s = q[:, h] @ k[:, g].T / np.sqrt(HEAD) + later
        p = np.exp(s - s.max(axis=1, keepdims=True))
        out[:, h] = p @ v[:, g] / p.sum(axis=1, keepdims=True)
    return out.reshape(N, HEADS * HEAD)


def logits(m, ids, rope):
    angle = angles(rope)
    x = m.embd[ids]
    for n1, wq, wk, wv, wo, n2, gate, up, down in m.layers:
        h = rms_norm(x, n1)
        q, k = (turn((h @ w.T).reshape(N, -1, HEAD), angle) for w in (wq, wk))
        x = x + attend(q, k, (h @ wv.T).reshape(N, -1, HEAD)) @ wo.T
        h = rms_norm(x, n2)
        g = h @ gate.T
        x = x + (g / (1 + np.exp(-g)) * (h @ up.T)) @ down.T
    return rms_norm(x, m.norm) @ m.embd.T


def main():
    m, out = Model(), {"prompt": PROMPT, "ropes": {}}
    ids = (mix(np.arange(N), 1000) % np.uint64(VOCAB)).astype(np.int64)
    for rope in ("plain", "linear", "freqs", "partial"):
        z = logits(m, ids, rope)
        top = z.max(axis=1, keepdims=True)
        logprob = z - top - np.log(np.exp(z - top).sum(axis=1, keepdims=True))
        of_next = logprob[np.arange(N - 1), ids[1:]]
        rows = []
        for at in SHOWN:  # the row before a token predicts it
            best = np.argsort(-z[at - 1], kind="stable")[:TOP]
            rows.append({"position": at, "id": int(ids[at]), "logprob": round(of_next[at - 1], 6),
                         "top": [[int(b), round(z[at - 1][b], 6)] for b in best]})
        out["ropes"][rope] = {"perplexity": round(float(np.exp(-of_next[PROMPT - 1:].mean())), 6), "rows": rows}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "long.json")
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


sys.exit(main())
