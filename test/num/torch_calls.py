"""Writes test/num/torch_calls.txt: what torch gives for calls of the tensor API that are made of several ops.

usage: python torch_calls.py > test/num/torch_calls.txt     (torch 2.x on a CPU; scripts/peers.sh torch installs one)

A case is a line "call NAME KEY=INTEGER ...", as torch_calls.c reads it, a line "in VALUES" for each input, a line "out BOUND VALUES" for each
output: so far may it be off, relative to its size or to 1. What torch has a call for is that call, in double precision where it takes it; what it
has on GPUs alone is written out.
"""

import math

import torch as t
import torch.ao.quantization.fx._decomposed  # quantized_decomposed
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


F8 = {13: t.float8_e4m3fn, 14: t.float8_e5m2}  # numbers of rp_dtype


def quantized():
    d = t.ops.quantized_decomposed
    ends = {6: (-128, 127, t.int8), 7: (0, 255, t.uint8)}
    x = t.randn(2, 3, 5)
    x[1, 0] = 0  # a row without a scale of its own
    x[1, 1] = x[1, 1].abs()
    for type_, (lo, hi, like) in ends.items():
        scale, zero = d.choose_qparams.tensor(x, lo, hi, 2**-23, like)
        scale = scale.float()
        q = d.quantize_per_tensor.tensor(x, scale, zero, lo, hi, like)
        case("quantized", dict(T=2, type=type_, affine=1), [x], [(1e-6, scale), (0, zero), (0, q), (1e-6, d.dequantize_per_tensor.tensor(q, scale, zero, lo, hi, like))])
        per = [d.choose_qparams.tensor(x[:, i], lo, hi, 2**-23, like) for i in range(3)]
        scale, zero = t.cat([s for s, _ in per]).float(), t.cat([z for _, z in per])
        q = d.quantize_per_channel(x, scale, zero, 1, lo, hi, like)
        case("quantized", dict(T=2, type=type_, affine=1, per=1, axis=1), [x], [(1e-6, scale), (0, zero), (0, q), (1e-6, d.dequantize_per_channel(q, scale, zero, 1, lo, hi, like))])
        case("quantized", dict(T=2, type=type_, affine=1, per=1, axis=-2), [x], [(1e-6, scale), (0, zero), (0, q), (1e-6, d.dequantize_per_channel(q, scale, zero, 1, lo, hi, like))])
        for y in (x.abs() + 1, -x.abs() - 1):  # on one side of 0
            scale, zero = d.choose_qparams.tensor(y, lo, hi, 2**-23, like)
            scale = scale.float()
            q = d.quantize_per_tensor.tensor(y, scale, zero, lo, hi, like)
            case("quantized", dict(T=2, type=type_, affine=1), [y], [(1e-6, scale), (0, zero), (0, q), (1e-6, d.dequantize_per_tensor.tensor(q, scale, zero, lo, hi, like))])
    # per token; torch's scale of nothing is 1e-5
    scale, zero = d.choose_qparams_per_token(x, t.int8)
    q = d.quantize_per_token(x, scale, zero, -128, 127, t.int8)
    scale[1, 0] = 2**-23
    case("quantized", dict(T=2, type=6, per=2), [x], [(1e-6, scale), (0, zero), (0, q), (1e-6, q * scale)])
    case("quantized", dict(T=2, type=7, per=2), [x], [(1e-6, scale), (0, zero + 128), (0, q.int() + 128), (1e-6, q * scale)])
    for type_, like in F8.items():
        most = t.finfo(like).max
        for per, s in ((0, x.abs().amax()), (2, x.abs().amax(2, keepdim=True))):
            s = (s / most).clamp(min=2**-23)
            q = (x * (1 / s)).clamp(-most, most).to(like).float()
            case("quantized", dict(T=2, type=type_, per=per), [x], [(1e-6, s), (0, t.zeros_like(s)), (0, q), (1e-6, q * s)])
    h = t.randn(1, 3, 5).bfloat16()  # not f32
    scale, zero = d.choose_qparams_per_token(h.float(), t.int8)
    q = d.quantize_per_token(h.float(), scale, zero, -128, 127, t.int8)
    case("quantized", dict(T=1, of=2, type=6, per=2), [h], [(1e-6, scale), (0, zero), (0, q), (1e-6, q * scale)])
    x = t.tensor([0, 0.25, 0.75, 1.25, -0.25, -0.75, 63.25, 64, 70, 1e9, -64, -64.75, -1e9, t.inf, -t.inf, 5e-8])  # ties, both ends
    for type_, (lo, hi, like) in ends.items():
        for zero in (0, 3, 128):
            q = d.quantize_per_tensor(x, 0.5, zero, lo, hi, like)
            case("rounded_to", dict(T=16, type=type_), [x, t.tensor([0.5]), t.tensor([zero])], [(0, q)])
    for type_, like in F8.items():
        most = t.finfo(like).max
        x = t.tensor([0, 300, 224.1, 223, 1.0625, 1.1875, -1e9, t.inf, t.nan, 2**-10, 1e-9, 28671, 28673, 40000])
        case("rounded_to", dict(T=14, type=type_), [x, t.tensor([0.5]), t.tensor([0])], [(0, (x * 2).clamp(-most, most).to(like).float())])


def scaled_mm():
    for type_, like in F8.items():
        if like != t.float8_e4m3fn:
            continue
        a, b = t.randn(5, 32).to(like), t.randn(32, 16).to(like)
        col = b.T.contiguous().T  # as it wants it
        sa, sb, bias = t.tensor([[0.5]]), t.tensor([[3.0]]), t.randn(16)
        case("scaled_mm", dict(M=5, K=32, N=16, type=type_), [a.float(), b.float(), sa, sb], [(1e-5, t._scaled_mm(a, col, sa[0, 0], sb[0, 0], out_dtype=t.float32))])
        sa, sb = t.rand(5, 1), t.rand(1, 16)
        y = t._scaled_mm(a, col, sa, sb, out_dtype=t.float32)
        case("scaled_mm", dict(M=5, K=32, N=16, rows=1, b1=16, type=type_, bias=1), [a.float(), b.float(), sa, sb, bias], [(1e-5, y + bias)])
        case("scaled_mm", dict(M=5, K=32, N=16, rows=1, b0=16, trans=1, type=type_), [a.float(), b.T.float(), sa, sb], [(1e-5, y)])
    a, b = t.randint(-128, 128, (1, 17)).to(t.int8), t.randint(-128, 128, (17, 8)).to(t.int8)
    one = t.tensor([[1.0]])
    y = t._int_mm(t.cat([a] * 17), b)[:1]  # it wants more than 16 rows
    case("scaled_mm", dict(M=1, K=17, N=8, type=6), [a, b, one, one], [(0, y)])
    # Scales of blocks, as DeepSeek has them: with a rest of N, and of both
    for m, k, n, kb, nb in ((3, 8, 6, 4, 4), (2, 130, 129, 128, 128)):
        a, b = t.randint(-8, 9, (m, k)), t.randint(-8, 9, (n, k))
        ka, na = -(-k // kb), -(-n // nb)
        sa, sb = t.rand(m, ka), t.rand(na, ka)
        x = a.double() * sa.double().repeat_interleave(kb, 1)[:, :k]
        w = b.double() * sb.double().repeat_interleave(nb, 0)[:n].repeat_interleave(kb, 1)[:, :k]
        case("scaled_mm", dict(M=m, K=k, N=n, rows=1, ka=ka, b0=na, b1=ka, trans=1, type=6, block=kb if kb == nb else 0), [a, b, sa, sb], [(1e-5, x @ w.T)])


def searchsorted():
    """Ties, both ends, infinities and NaN; few and many of them."""
    for n in (dict(B=3, M=8, N=5), dict(B=1, M=1, N=1), dict(B=2, M=4, N=0), dict(B=0, M=3, N=2), dict(B=2, M=9, N=65, fixed=1, some=1), dict(B=2, M=12, N=100, fixed=1),
              dict(B=1, M=8, N=128, fixed=1, type=4, some=1), dict(B=1, M=12, N=127, fixed=1, flat=1), dict(B=2, M=4, N=6, flat=1, type=3)):
        x = ((t.randn(2, n["B"], n["N"]) * 4).round() * 2).sort(-1).values
        v = (t.randn(2, n["B"], n["M"]) * 8).round()
        v.reshape(-1)[:5] = t.tensor([1e9, -1e9, t.inf, -t.inf, t.nan])[:v.numel()]
        if "type" in n:
            x, v = x.long(), v.nan_to_num(3, 30, -30).long()
        if n.get("flat"):
            x = x[0, 0].contiguous()
        case("searchsorted", n, [x, v], [(0, t.searchsorted(x, v, right=r)) for r in (False, True)])


def convolutions():
    """Strides, paddings and distances of each axis differ; the keys of axis i end in i."""
    def one(name, f, n):
        axes = [i for i in (0, 1, 2) if "x%d" % i in n]
        get = lambda key, default: tuple(n.get("%s%d" % (key, i), default) for i in axes)
        groups, C, O = n.get("groups", 1), n["C"], n["O"]
        x = randn(n["N"], C, *get("x", 1))
        w = randn(*((O, C // groups) if name == "conv3d" else (C, O // groups)), *get("k", 1))
        b = randn(O)
        more = {} if name == "conv3d" else {"output_padding": n.get("extra", 0)}
        y = f(x.double(), w.double(), b.double(), stride=get("s", 1), padding=get("p", 0), dilation=get("d", 1), groups=groups, **more)
        case(name, {**n, "axes": len(axes)}, [x, w, b], [(1e-5, y)])

    for n in (dict(N=2, C=2, O=3, x0=5, x1=4, x2=6, k0=2, k1=3, k2=2), dict(N=1, C=3, O=4, x0=4, x1=4, x2=4, k0=2, k1=2, k2=2, s0=2, s1=2, s2=2),
              dict(N=1, C=1, O=1, x0=3, x1=1, x2=2, bare=1), dict(N=2, C=4, O=6, groups=2, x0=6, x1=5, x2=4, k0=3, k1=2, k2=1, s0=2, s1=1, s2=3, p0=1, p1=2, p2=0, d0=2, d1=1),
              dict(N=1, C=3, O=3, groups=3, x0=6, x1=5, x2=5, k0=3, k1=3, k2=3, p0=1, p1=1, p2=1, d2=2), dict(N=1, C=2, O=4, groups=2, x0=2, x1=3, x2=3, k0=1, k1=2, k2=2)):
        one("conv3d", F.conv3d, n)
    for n in (dict(N=2, C=2, O=3, x0=4, x1=3, x2=2, k0=2, k1=3, k2=2, s0=2, s1=1, s2=3, p0=1, p2=1, d1=2), dict(N=1, C=4, O=6, groups=2, x0=4, x1=3, x2=3, k0=2, k1=2, k2=1, s0=2, s1=3, s2=2, extra=1),
              dict(N=1, C=1, O=1, x0=2, x1=1, x2=1, bare=1)):
        one("conv_transpose", F.conv_transpose3d, n)
    for n in (dict(N=2, C=4, O=2, groups=2, x1=4, x2=3, k1=2, k2=3, s1=2, s2=1, p2=1, d2=2), dict(N=1, C=2, O=3, x1=4, x2=5, k1=1, k2=3, s1=2, s2=2, p2=2, extra=1)):
        one("conv_transpose", F.conv_transpose2d, n)
    for n in (dict(N=2, C=2, O=3, x2=6, k2=3, s2=3, p2=1, d2=2, extra=2), dict(N=1, C=4, O=4, groups=4, x2=4, k2=2, s2=2), dict(N=1, C=1, O=1, x2=2, k2=1)):
        one("conv_transpose", F.conv_transpose1d, n)


def grouped_mm():
    """Groups of no row, of one, of several tiles; rows behind them. torch's own call wants rows of 16 bytes, and leaves those rows as they were."""
    for n, ends in ((dict(M=6, K=4, N=8), [2, 2, 6]), (dict(M=12, K=8, N=4, trans=1), [0, 0, 11, 12, 12]), (dict(M=1, K=4, N=4, wide=1), [0, 1]),
                    (dict(M=9, K=4, N=4), [3, 7]), (dict(M=16, K=4, N=4), [16]), (dict(M=13, K=8, N=8, type=2), [5, 13, 13]), (dict(M=8, K=4, N=4), [1, 2, 3, 4, 5, 6, 7, 8])):
        G, like = len(ends), t.bfloat16 if n.get("type") else t.float32
        a, b = randn(n["M"], n["K"]).to(like), randn(G, n["K"], n["N"]).to(like)
        if n["M"] == ends[-1]:
            y = F.grouped_mm(a, b, offs=t.tensor(ends, dtype=t.int32)).float()
        begin = [0] + ends[:-1]
        want = t.cat([a[i:j].float() @ b[g].float() for g, (i, j) in enumerate(zip(begin, ends))] + [t.zeros(n["M"] - ends[-1], n["N"])])
        if n["M"] == ends[-1]:  # which rounds to its type
            assert t.equal(want.to(like), y.to(like))
        case("grouped_mm", {**n, "G": G}, [a, b.mT if n.get("trans") else b, t.tensor(ends)], [(1e-6, want)])


def rope():
    """transformers' modeling_rope_utils.py and Qwen2-VL's apply_multimodal_rotary_pos_emb, in double precision."""
    def frequencies(n):
        base, dim, factor, original = n.get("base", 0) or 10000, n["D"], n.get("factor", 0) / 100, n.get("original", 0)
        inv = 1.0 / (base ** (t.arange(0, dim, 2, dtype=F64) / dim))
        get_mscale = lambda scale, mscale=1: 1.0 if scale <= 1 else 0.1 * mscale * math.log(scale) + 1.0
        attention = n.get("attention", 0) / 100
        if n.get("scaling") == 1:
            inv = inv / factor
        if n.get("scaling") == 2:  # _compute_llama3_parameters
            low, high = n.get("low", 100) / 100, n.get("high", 400) / 100
            wavelen = 2 * math.pi / inv
            llama = t.where(wavelen > original / low, inv / factor, inv)
            smooth = (original / wavelen - low) / (high - low)
            medium = ~(wavelen < original / high) * ~(wavelen > original / low)
            inv = t.where(medium, (1 - smooth) * llama / factor + smooth * llama, llama)
        if n.get("scaling") == 3:  # _compute_yarn_parameters
            fast, slow, m, every = n.get("fast", 3200) / 100, n.get("slow", 100) / 100, n.get("mscale", 0) / 100, n.get("all_dim", 0) / 100
            if not attention:
                attention = get_mscale(factor, m) / get_mscale(factor, every) if m and every else get_mscale(factor)
            dim_of = lambda rotations: (dim * math.log(original / (rotations * 2 * math.pi))) / (2 * math.log(base))
            low, high = max(math.floor(dim_of(fast)), 0), min(math.ceil(dim_of(slow)), dim - 1)
            if low == high:
                high += 0.001
            extrapolation = 1 - ((t.arange(dim // 2, dtype=F64) - low) / (high - low)).clamp(0, 1)
            inv = inv / factor * (1 - extrapolation) + inv * extrapolation
        return inv, attention or 1.0

    yarn = dict(scaling=3, factor=400, original=4096)
    for n in (dict(T=3, D=16), dict(T=2, D=2, wide=1), dict(T=3, D=8, base=500000), dict(T=3, D=8, scaling=1, factor=250), dict(T=4, D=16, scaling=2, factor=800, original=8192, base=500000),
              dict(T=4, D=32, scaling=2, factor=3200, original=64, low=50, high=300), dict(T=4, D=32, **yarn), dict(T=3, D=16, **{**yarn, "factor": 4000}, mscale=71, all_dim=100),
              dict(T=3, D=16, **yarn, fast=800, slow=200, attention=150), dict(T=2, D=8, **{**yarn, "original": 6}), dict(T=2, D=8, **{**yarn, "factor": 50}),
              dict(T=3, D=16, s0=2, s1=3, s2=3), dict(T=2, D=16, **yarn, s0=4, s1=2, s2=2)):
        at = t.tensor([0, 1, 70000, 12345, 7, 100, 3, 99999, 2][: n["T"] * (3 if "s0" in n else 1)]).reshape(-1, n["T"])
        inv, by = frequencies(n)
        angle = at[..., None] * inv  # of each of the positions
        if "s0" in n:
            parts = angle.split([n["s0"], n["s1"], n["s2"]], -1)
            angle = t.cat([m[i % 3] for i, m in enumerate(parts)], -1)
        case("rope", n, [at], [(1e-6, angle.cos() * by), (1e-6, angle.sin() * by)])


def nonzero():
    """Fewer and more than there is room for, none, all; of each type, NaN and both zeros among floats."""
    for n in (dict(A=9, n=4), dict(A=9, n=9), dict(A=3, B=4, rank=2, n=12, fill=7), dict(A=3, B=5, rank=3, n=6), dict(A=1, n=1), dict(A=0, n=3), dict(A=4, n=0), dict(A=6, n=8, type=8),
              dict(A=6, B=2, rank=2, n=9, type=4), dict(A=6, n=5, type=3, most=0), dict(A=5, n=7, type=2), dict(A=7, n=3, type=15, fill=0)):
        shape = {1: (n["A"],), 2: (n["A"], n.get("B", 1)), 3: (2, n["A"], n.get("B", 1))}[n.get("rank", 1)]
        x = (t.rand(*shape) < n.get("most", 0.6)) * t.randint(1, 5, shape)
        if n.get("type", 0) in (0, 2, 15) and x.numel() > 2:
            x = x.double()
            x.reshape(-1)[:3] = t.tensor([t.nan, -0.0, 0.5])
        x = x.to({0: t.float32, 8: t.bool, 4: t.int64, 3: t.int32, 2: t.bfloat16, 15: t.float64}[n.get("type", 0)])
        n.pop("most", None)
        case("nonzero", n, [x], [(0, t.nonzero_static(x, size=n["n"], fill_value=n.get("fill", -1)))])


attention()
varlen()
quantized()
scaled_mm()
searchsorted()
convolutions()
grouped_mm()
rope()
nonzero()
