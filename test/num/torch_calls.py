"""Writes test/num/torch_calls.txt: what torch gives for calls of the tensor API that are made of several ops.

usage: python torch_calls.py > test/num/torch_calls.txt     (torch 2.x on a CPU; scripts/peers.sh torch installs one)

A case is a line "call NAME KEY=INTEGER ...", as torch_calls.c reads it, a line "in VALUES" for each input, a line "out BOUND VALUES" for each
output: so far may it be off, relative to its size or to 1. What torch has a call for is that call, in double precision where it takes it; what it
has on GPUs alone is written out.
"""

import torch as t
import torch.nn.functional as F

t.manual_seed(1)
F64 = t.float64


def number(v):
    return str(int(v)) if isinstance(v, (bool, int)) else "nan" if v != v else "%.9g" % v


def case(name, sizes, inputs, outputs):
    """outputs: (bound, tensor)"""
    print(("call " + name + "".join(" %s=%d" % s for s in sizes.items())))
    for x in inputs:
        print(("in " + " ".join(number(v) for v in x.reshape(-1).tolist())).rstrip())
    for bound, x in outputs:
        print(("out %g " % bound + " ".join(number(v) for v in x.reshape(-1).tolist())).rstrip())


def randn(*shape):
    """Numbers of few digits, which any float type holds."""
    return (t.randn(*shape) * 8).round() / 8


def attention():
    flash = t.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for n in (dict(T=3, S=5), dict(T=4, S=4, causal=1), dict(T=3, S=5, causal=1, H=4, KV=2), dict(T=1, S=1), dict(T=5, S=3, mask=1, H=2, KV=2),
              dict(T=2, S=2, mask=2)):
        h, kv, T, S = n.get("H", 1), n.get("KV", 1), n["T"], n["S"]
        q, k, v = randn(2, h, T, 4), randn(2, kv, S, 4), randn(2, kv, S, 3)
        r = [x.double().repeat_interleave(h // kv, 1) for x in (k, v)]
        m = (t.rand(T, S) < 0.5) if n.get("mask") == 1 else t.ones(T, S).bool()
        if n.get("mask"):
            m[0] = False
        bias = t.zeros(T, S, dtype=F64).masked_fill(~m, -t.inf)
        # The kernel wants as many columns in v as in k.
        y, lse = flash(q.double(), r[0], F.pad(r[1], (0, 1)), 0.0, bool(n.get("causal")), attn_mask=bias if n.get("mask") else None)
        if n.get("mask"):  # of a row that sees nothing flash-attn says -inf, this kernel a NaN
            lse = lse.masked_fill(~m.any(1), -t.inf)
        case("sdpa_lse", n, [q, k, v] + ([m] if n.get("mask") else []), [(1e-5, y[..., :3]), (1e-5, lse)])
    for n in (dict(T=6, S=4, causal=1, window=2), dict(T=3, S=4, softcap=2), dict(T=0, S=2)):
        q, k, v = randn(2, 1, n["T"], 4), randn(2, 1, n["S"], 4), randn(2, 1, n["S"], 3)
        s = q.double() @ k.double().mT / 2
        if "softcap" in n:
            s = n["softcap"] * t.tanh(s / n["softcap"])
        i, j = t.arange(n["T"])[:, None], t.arange(n["S"])
        seen = ((j <= i) & (j > i - n["window"])) if "window" in n else t.ones(n["T"], n["S"]).bool()
        s = s.masked_fill(~seen, -t.inf)
        case("sdpa_lse", n, [q, k, v], [(1e-5, s.softmax(-1).nan_to_num(0) @ v.double()), (1e-5, s.logsumexp(-1))])


def varlen():
    """Sequence by sequence: torch's kernel runs on a GPU alone."""
    for n, cq, ck in ((dict(T=6, S=7, most=3, most_k=4), [0, 2, 5, 6], [0, 1, 5, 7]), (dict(T=6, S=7, causal=1, H=4, KV=2), [0, 2, 5, 6], [0, 3, 5, 7]),
                      (dict(T=5, S=5, causal=1, wide=1, most=3), [0, 0, 3, 5, 5], [0, 0, 3, 5, 5]), (dict(T=6, S=6, most=4, window=2), [0, 2, 6], [0, 2, 6]),
                      (dict(T=7, S=6, window=2, causal=1, most=4), [1, 2, 6], [0, 2, 4]), (dict(T=1, S=1, most=1), [0, 1], [0, 1])):
        h, kv = n.get("H", 1), n.get("KV", 1)
        q, k, v = randn(n["T"], h, 4), randn(n["S"], kv, 4), randn(n["S"], kv, 3)
        y, lse = t.zeros(n["T"], h, 3, dtype=F64), t.full((h, n["T"]), -t.inf, dtype=F64)
        for b in range(len(cq) - 1):
            at, to = slice(cq[b], cq[b + 1]), slice(ck[b], ck[b + 1])
            x, r = q[at].double().transpose(0, 1), [z[to].double().transpose(0, 1).repeat_interleave(h // kv, 0) for z in (k, v)]
            i, j = t.arange(at.stop - at.start)[:, None] - at.stop + at.start, t.arange(to.stop - to.start) - to.stop + to.start
            seen = (j <= i) if n.get("causal") else t.ones(i.shape[0], j.shape[0]).bool()
            if "window" in n:
                seen = seen & (j > i - n["window"]) & (j < i + n["window"])
            s = (x @ r[0].mT / 2).masked_fill(~seen, -t.inf)
            y[at] = (s.softmax(-1).nan_to_num(0) @ r[1]).transpose(0, 1)
            lse[:, at] = s.logsumexp(-1)
        case("varlen", {**n, "N": len(cq)}, [q, k, v, t.tensor(cq), t.tensor(ck)], [(1e-5, y), (1e-5, lse)])


attention()
varlen()
