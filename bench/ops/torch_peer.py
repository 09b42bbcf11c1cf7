"""torch.compile as a peer of bench/ops.sh: the functions of cases.list in PyTorch, compiled by Inductor.

usage: torch_peer.py CASES.LIST [threads] [freezing 0|1] [mode] [device]

Answers lines on standard input:
    open NAME   -> "compiled SECONDS", to the end of the first call
    time MS     -> microseconds of a call: median of those that fit into so many milliseconds; on a GPU of 20 replays of one that was captured
    check FILE  -> largest difference from the results in FILE over the largest result, 1 for whole numbers that differ
    close       -> frees the case
Only bench/ops.sh runs it; it is no part of reprise.
"""

import math
import re
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F


def mixed(x):  # Wellons' lowbias32, as in ops.c
    with np.errstate(over="ignore"):
        x = x ^ (x >> np.uint32(16))
        x = x * np.uint32(0x7FEB352D)
        x = x ^ (x >> np.uint32(15))
        x = x * np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))


def filled(which, dtype, dims, scale, below, distinct):
    place = np.arange(math.prod(dims), dtype=np.uint32)
    h = place * np.uint32(0x9E3779B1) if distinct else mixed(place ^ mixed(np.uint32(which + 1)))
    if dtype == "i32":
        return torch.from_numpy((h % np.uint32(below)).astype(np.int32)).reshape(dims)
    if below:
        return torch.from_numpy((h % np.uint32(below)).astype(np.float32)).reshape(dims)
    v = ((h >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)) * np.float32(scale)
    if dtype == "bf16":
        return torch.from_numpy((v.view(np.uint32) >> 16).astype(np.uint16).view(np.int16)).view(torch.bfloat16).reshape(dims)
    return torch.from_numpy(v).reshape(dims)


REPLAYS = 20
OPERAND = re.compile(r"(@?)(\w+):(\w+)\[([\d,]+)\](?:~([\d.]+))?(?:([<!])(\d+))?$")


def read_cases(path):
    """name -> [(is weight, name, tensor maker)]"""
    cases = {}
    for line in open(path):
        if line.startswith("#") or not line.strip():
            continue
        name, _, operands = (part.strip() for part in line.split("|"))
        cases[name] = [OPERAND.match(word).groups() for word in operands.split()]
    return cases


# ---- the functions -----------------------------------------------------------------------------


def gelu_bias(x, b):
    return F.gelu(x + b)


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def mean_var(x):
    var, mean = torch.var_mean(x, -1, correction=0)
    return mean, var


def mean_pool(x, mask):
    m = mask[..., None]
    return (x * m).sum(1) / m.sum(1).clamp(min=1e-9)


def embedding(ids, table, pos, w, b):
    return F.layer_norm(F.embedding(ids, table) + pos, w.shape, w, b)


def chain(x):
    half = x * 0.5
    t = torch.tanh(half + 1) * x
    d = (torch.sigmoid(t) - half).abs()
    return torch.exp(-torch.sqrt(d + 1e-3)).clamp(min=0.1)


def topk(x):
    values, indices = torch.topk(x, 8, -1)
    return values, indices.int()


def seed_attention(x, wq, wk, wv):
    q, k, v = F.linear(x, wq), F.linear(x, wk), F.linear(x, wv)
    out = q @ k.transpose(-2, -1)
    out = torch.exp(out) / torch.sum(torch.exp(out), dim=-1, keepdim=True)
    return out @ v


def llama_layer(x, cos, sin, n1, wq, wk, wv, wo, n2, gate, up, down):
    t = x.shape[0]
    h = F.rms_norm(x, n1.shape, n1, 1e-5)
    q = rope(F.linear(h, wq).view(t, 32, 64), cos, sin).transpose(0, 1)
    k = rope(F.linear(h, wk).view(t, 4, 64), cos, sin).transpose(0, 1)
    v = F.linear(h, wv).view(t, 4, 64).transpose(0, 1)
    y = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
    x = x + F.linear(y.transpose(0, 1).reshape(t, 2048), wo)
    h = F.rms_norm(x, n2.shape, n2, 1e-5)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


FUNCTIONS = {
    "softmax": lambda x: F.softmax(x, -1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
    "cross_entropy": lambda x, target: F.cross_entropy(x, target.long()),
    "gelu_bias": gelu_bias,
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "rope": rope,
    "column_sum": lambda x: x.sum(0),
    "mean_var": mean_var,
    "mean_pool": mean_pool,
    "embedding": embedding,
    "transpose": lambda x, y: x.t().to(torch.float32) + y,
    "chain": chain,
    "cumsum": lambda x: torch.cumsum(x, -1),
    "topk": topk,
    "index_add": lambda x, idx, src: x.index_add(0, idx, src),
    "index_copy": lambda x, idx, src: x.index_copy(0, idx.long(), src),
    "matvec": F.linear,
    "linear_nk": F.linear,
    "linear_kn": lambda x, w: x @ w,
    "mlp": lambda x, w1, b1, w2, b2: F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2),
    "seed_attention": seed_attention,
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "llama_layer": llama_layer,
}


class Case(torch.nn.Module):
    """A function whose weights are parameters, so that freezing may pack them."""

    def __init__(self, fn, operands):
        super().__init__()
        self.fn, self.order = fn, []
        for weight, name, value in operands:
            self.order.append("w_" + name if weight else None)
            if weight:
                self.register_buffer("w_" + name, value)

    def forward(self, *inputs):
        rest = list(inputs)
        return self.fn(*[getattr(self, name) if name else rest.pop(0) for name in self.order])


class Peer:
    def __init__(self, path, mode, device):
        self.cases, self.mode, self.device = read_cases(path), mode, device
        self.close()

    def close(self):
        self.f = self.inputs = self.out = self.graph = None
        torch._dynamo.reset()
        return "closed"

    def open(self, name):
        self.close()
        operands = []
        for i, (weight, key, dtype, dims, scale, how, below) in enumerate(self.cases[name]):
            dims = [int(d) for d in dims.split(",")]
            value = filled(i, dtype, dims, float(scale or 1), int(below or 0), how == "!")
            operands.append((weight, key, value.to(self.device)))
        self.inputs = [value for weight, _, value in operands if not weight]
        t0 = time.perf_counter()
        self.f = torch.compile(Case(FUNCTIONS[name], operands).eval(), dynamic=False, fullgraph=True, mode=self.mode)
        self.f(*self.inputs)
        if self.device != "cpu":
            torch.cuda.synchronize()
        took = time.perf_counter() - t0
        if self.device != "cpu":
            self.capture()
        return f"compiled {took:.4f}"

    def capture(self):
        for _ in range(3):
            self.f(*self.inputs)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.f(*self.inputs)

    def once(self):
        """A call, or as many replays as are timed at once, to their end."""
        if not self.graph:
            return self.f(*self.inputs)
        for _ in range(REPLAYS):
            self.graph.replay()
        torch.cuda.synchronize()

    def time(self, ms):
        self.once()
        samples, end = [], time.perf_counter() + float(ms) * 1e-3
        while len(samples) < 3 or time.perf_counter() < end:
            t0 = time.perf_counter()
            self.once()
            samples.append((time.perf_counter() - t0) / (REPLAYS if self.graph else 1))
        return f"{statistics.median(samples) * 1e6:.3f}"

    def check(self, path):
        out = self.f(*self.inputs)
        raw, worst = open(path, "rb").read(), 0.0
        for y in out if isinstance(out, tuple) else (out,):
            y = y.contiguous().cpu()
            size = y.numel() * y.element_size()
            x = torch.frombuffer(bytearray(raw[:size]), dtype=y.dtype).reshape(y.shape)
            raw = raw[size:]
            if y.dtype == torch.float32:
                off = ((x - y).abs().max() / y.abs().max()).item()
            else:
                off = 0.0 if torch.equal(x, y) else 1.0
            worst = max(worst, off) if off == off else math.inf
        return f"off {worst:.1e}" if not raw else f"error: {len(raw)} bytes of results are too many"


def main():
    torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    torch._inductor.config.freezing = len(sys.argv) <= 3 or sys.argv[3] == "1"
    with torch.no_grad():
        device = sys.argv[5] if len(sys.argv) > 5 else "cpu"
        if device != "cpu":
            torch.cuda.set_device(device)
        peer = Peer(sys.argv[1], sys.argv[4] if len(sys.argv) > 4 else "default", device)
        torch.compile(lambda x: x + 1)(torch.ones(64, device=device))  # what is paid once a process
        print("ready", torch.__version__, flush=True)
        for line in sys.stdin:
            word, *rest = line.split()
            try:
                answer = getattr(peer, word)(*rest)
            except Exception as e:
                answer = f"error: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
            print(answer, flush=True)


if __name__ == "__main__":
    main()
