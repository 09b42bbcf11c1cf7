"""torch.compile as a peer on a GPU: a Llama-shaped decoder in bf16 with random weights and a static cache.

usage: torch_peer.py SHAPE BATCH CONTEXT        a decode step
       torch_peer.py SHAPE prefill TOKENS       a prefill of one sequence, the head for its last token alone

Compiles a decode step with mode="reduce-overhead" (CUDA graphs), a prefill in the default mode, both fullgraph with static shapes; q, k, v and gate, up are one matrix each;
the cache has context + 64 positions (a longer one makes torch slower) and its addresses are marked static, so that nothing is
copied into the graph. Prints "ready VERSION SECONDS" (of the first three calls), then answers lines on standard input:
    time N   milliseconds a step, N steps in a row, ids handed on
Only bench/gpu.sh runs it; it is no part of reprise.
"""

import sys
import time

import torch
import torch.nn.functional as F

SHAPES = {
    "135m": dict(layers=30, hidden=576, heads=9, kv=3, dim=64, ffn=1536, vocab=49152),
    "1b": dict(layers=16, hidden=2048, heads=32, kv=8, dim=64, ffn=8192, vocab=128256),
    "8b": dict(layers=32, hidden=4096, heads=32, kv=8, dim=128, ffn=14336, vocab=128256),
}


class Llama(torch.nn.Module):
    def __init__(self, s, max_len):
        super().__init__()
        self.s = s
        wide = (s["heads"] + 2 * s["kv"]) * s["dim"]
        sizes = [(wide, s["hidden"]), (s["hidden"], s["heads"] * s["dim"]), (2 * s["ffn"], s["hidden"]), (s["hidden"], s["ffn"])]

        def matrix(rows, k):
            w = torch.empty(rows, k, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1)
            return torch.nn.Parameter(w * (3 / k) ** 0.5, requires_grad=False)

        self.w = torch.nn.ParameterList([matrix(*size) for _ in range(s["layers"]) for size in sizes])
        gains = [torch.ones(s["hidden"], device="cuda", dtype=torch.bfloat16) for _ in range(2 * s["layers"] + 1)]
        self.gains = torch.nn.ParameterList([torch.nn.Parameter(g, requires_grad=False) for g in gains])
        self.embedding = matrix(s["vocab"], s["hidden"])
        freq = 500000.0 ** (-torch.arange(0, s["dim"], 2, device="cuda") / s["dim"])
        angle = torch.arange(max_len, device="cuda")[:, None] * freq[None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("places", torch.arange(max_len, device="cuda"))

    def norm(self, x, gain):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * gain

    def turn(self, x, cos, sin):
        a, b = x.float().chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    def forward(self, ids, position, keys, values):
        s, n = self.s, ids.shape[0]
        x = F.embedding(ids, self.embedding)
        cos, sin = self.cos[position][:, None], self.sin[position][:, None]
        mask = (self.places[None, :] <= position[:, None])[None, None]
        for i in range(s["layers"]):
            qkv, o, up, down = self.w[4 * i], self.w[4 * i + 1], self.w[4 * i + 2], self.w[4 * i + 3]
            rows = F.linear(self.norm(x, self.gains[2 * i]), qkv).view(n, 1, -1, s["dim"])
            q, k, v = rows.split([s["heads"], s["kv"], s["kv"]], 2)
            q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
            keys[i].index_copy_(2, position, k.transpose(1, 2))
            values[i].index_copy_(2, position, v.transpose(1, 2))
            y = F.scaled_dot_product_attention(q.transpose(1, 2), keys[i], values[i], attn_mask=mask, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(n, 1, -1), o)
            gate, up = F.linear(self.norm(x, self.gains[2 * i + 1]), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.linear(self.norm(x[:, -1], self.gains[-1]), self.embedding).argmax(-1, keepdim=True)

    def prefill(self, ids, keys, values):
        s, n = self.s, ids.shape[0]
        x = F.embedding(ids, self.embedding)
        cos, sin = self.cos[:n, None], self.sin[:n, None]
        for i in range(s["layers"]):
            qkv, o, up, down = self.w[4 * i], self.w[4 * i + 1], self.w[4 * i + 2], self.w[4 * i + 3]
            rows = F.linear(self.norm(x, self.gains[2 * i]), qkv).view(n, -1, s["dim"])
            q, k, v = rows.split([s["heads"], s["kv"], s["kv"]], 1)
            q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
            keys[i].copy_(k)
            values[i].copy_(v)
            q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + F.linear(y[0].transpose(0, 1).reshape(n, -1), o)
            gate, up = F.linear(self.norm(x, self.gains[2 * i + 1]), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.linear(self.norm(x[-1:], self.gains[-1]), self.embedding).argmax(-1)


def prefill(model, s, n):
    """A function that runs it `count` times."""
    cache = lambda: [torch.empty(n, s["kv"], s["dim"], device="cuda", dtype=torch.bfloat16) for _ in range(s["layers"])]
    ids, keys, values = torch.randint(0, s["vocab"], (n,), device="cuda"), cache(), cache()
    step = torch.compile(model.prefill, fullgraph=True, dynamic=False)

    def run(count):
        for _ in range(count):
            step(ids, keys, values)

    return run


def decode(model, s, n, context):
    """A function that runs `count` steps, ids handed on."""
    cache = lambda: torch.randn(n, s["kv"], context + 64, s["dim"], device="cuda", dtype=torch.bfloat16)
    keys = [cache() for _ in range(s["layers"])]
    values = [cache() for _ in range(s["layers"])]
    ids = torch.randint(0, s["vocab"], (n, 1), device="cuda")
    position = torch.tensor([context], device="cuda")
    for t in keys + values + [ids, position]:
        torch._dynamo.mark_static_address(t)
    step = torch.compile(model, fullgraph=True, dynamic=False, mode="reduce-overhead")

    def run(count):
        for _ in range(count):
            torch.compiler.cudagraph_mark_step_begin()
            ids.copy_(step(ids, position, keys, values))

    return run


def main():
    s, number = SHAPES[sys.argv[1]], int(sys.argv[3])
    torch.manual_seed(0)
    with torch.inference_mode():
        model = Llama(s, number + 64)
        run = prefill(model, s, number) if sys.argv[2] == "prefill" else decode(model, s, int(sys.argv[2]), number)
        t0 = time.perf_counter()
        run(3)
        torch.cuda.synchronize()
        print("ready", torch.__version__, f"{time.perf_counter() - t0:.1f}", flush=True)
        for line in sys.stdin:
            count = int(line.split()[1])
            run(3)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run(count)
            end.record()
            end.synchronize()
            print(f"{start.elapsed_time(end) / count:.5f}", flush=True)


if __name__ == "__main__":
    main()
