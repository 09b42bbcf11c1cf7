"""torch.compile as a peer: the GGUF's weights, dequantised, in a small Llama with a static KV cache.

usage: torch_peer.py MODEL.gguf [bfloat16|float32] [threads] [default|max-autotune]

Compiles one graph for a decode step and one for the prefill of a fixed length, the way gpt-fast does it
(static shapes, fused QKV and gate/up, weights frozen and packed), then answers lines on standard input:
    decode CONTEXT N   -> tokens per second of N greedy steps after CONTEXT tokens
    prefill N          -> tokens per second of one forward of N tokens (logits of the last)
    greedy N ID,ID,... -> N greedy ids after a prompt, to see that it is the same model
    compile            -> seconds spent on the first calls so far
    compiled           -> the same by graph: "128 tokens 61.2 s, 1 token 40.0 s"
Only bench/cpu.sh runs it; it is no part of reprise.
"""

import sys
import time

import torch
import torch.nn.functional as F
from gguf import GGUFReader
from gguf.quants import dequantize

MAX_LEN = 512


def field(reader, name):
    return reader.fields["llama." + name].contents()


class Llama(torch.nn.Module):
    def __init__(self, path, dtype):
        super().__init__()
        r = GGUFReader(path)
        raw = {t.name: torch.from_numpy(dequantize(t.data, t.tensor_type).copy()) for t in r.tensors}
        self.n_layers, self.heads = field(r, "block_count"), field(r, "attention.head_count")
        self.kv_heads = field(r, "attention.head_count_kv")
        self.eps = field(r, "attention.layer_norm_rms_epsilon")
        self.dim = field(r, "embedding_length")
        self.hd = self.dim // self.heads

        def put(name, value):
            self.register_buffer(name, value.to(dtype).contiguous())

        put("embd", raw["token_embd.weight"])
        put("head", raw.get("output.weight", raw["token_embd.weight"]))
        put("norm", raw["output_norm.weight"])
        for i in range(self.n_layers):
            b = f"blk.{i}."
            put(f"qkv{i}", torch.cat([raw[b + f"attn_{x}.weight"] for x in "qkv"]))
            put(f"o{i}", raw[b + "attn_output.weight"])
            put(f"gu{i}", torch.cat([raw[b + "ffn_gate.weight"], raw[b + "ffn_up.weight"]]))
            put(f"down{i}", raw[b + "ffn_down.weight"])
            put(f"n1{i}", raw[b + "attn_norm.weight"])
            put(f"n2{i}", raw[b + "ffn_norm.weight"])
            put(f"k{i}", torch.zeros(1, self.kv_heads, MAX_LEN, self.hd))
            put(f"v{i}", torch.zeros(1, self.kv_heads, MAX_LEN, self.hd))
        freq = field(r, "rope.freq_base") ** (-torch.arange(0, self.hd, 2) / self.hd)
        angle = torch.arange(MAX_LEN)[:, None] * freq[None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.tril(torch.ones(MAX_LEN, MAX_LEN, dtype=torch.bool)))

    def rms(self, x, w):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * w

    def rope(self, x, pos):  # pairs are neighbours, as llama.cpp stores them
        y = x.float().unflatten(-1, (-1, 2))
        c, s = self.cos[pos], self.sin[pos]
        a, b = y[..., 0], y[..., 1]
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).to(x.dtype)

    def forward(self, ids, pos):
        x = self.embd[ids]
        mask = self.mask[pos][None, None]
        kv = self.kv_heads * self.hd
        for i in range(self.n_layers):
            w = lambda name: getattr(self, f"{name}{i}")
            q, k, v = F.linear(self.rms(x, w("n1")), w("qkv")).split([self.dim, kv, kv], -1)
            q, k, v = (t.view(1, -1, t.shape[-1] // self.hd, self.hd).transpose(1, 2) for t in (q, k, v))
            cache_k, cache_v = w("k"), w("v")
            cache_k[:, :, pos] = self.rope(k, pos)
            cache_v[:, :, pos] = v
            y = F.scaled_dot_product_attention(self.rope(q, pos), cache_k, cache_v, mask, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(1, -1, self.dim), w("o"))
            gate, up = F.linear(self.rms(x, w("n2")), w("gu")).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w("down"))
        return F.linear(self.rms(x[:, -1], self.norm), self.head).argmax(-1)


class Peer:
    def __init__(self, path, dtype, mode):
        torch._inductor.config.freezing = True
        self.model = Llama(path, dtype).eval()
        self.mode = mode
        self.steps = {}
        self.seconds = {}  # by length

    def forward(self, ids, start):
        """One static graph for each length; the first call compiles and is timed apart."""
        n = len(ids)
        args = (torch.tensor([ids]), torch.arange(start, start + n))
        if n in self.steps:
            return int(self.steps[n](*args))
        t0 = time.perf_counter()
        f = torch.compile(self.model, dynamic=False, fullgraph=True, mode=self.mode)
        for _ in range(3):
            out = int(f(*args))
        self.steps[n] = f
        self.seconds[n] = time.perf_counter() - t0
        return out

    def decode(self, context, n):
        token = self.forward(prompt(context), 0)
        self.forward([token], context)  # compiled, and warm
        t0 = time.perf_counter()
        for i in range(n):
            token = self.forward([token], context + i)
        return n / (time.perf_counter() - t0)

    def prefill(self, n):
        self.forward(prompt(n), 0)
        t0 = time.perf_counter()
        self.forward(prompt(n), 0)
        return n / (time.perf_counter() - t0)

    def greedy(self, n, ids):
        out = [self.forward(ids, 0)]
        while len(out) < n:
            out.append(self.forward([out[-1]], len(ids) + len(out) - 1))
        return ",".join(map(str, out))


def prompt(n):
    return [1000 + i * 7919 % 40000 for i in range(n)]


def main():
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    torch.set_num_threads(threads)
    with torch.no_grad():
        dtype = getattr(torch, sys.argv[2] if len(sys.argv) > 2 else "bfloat16")
        peer = Peer(sys.argv[1], dtype, sys.argv[4] if len(sys.argv) > 4 else "default")
        print("ready", torch.__version__, flush=True)
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "decode":
                print(f"{peer.decode(int(rest[0]), int(rest[1])):.3f}", flush=True)
            elif word == "prefill":
                print(f"{peer.prefill(int(rest[0])):.3f}", flush=True)
            elif word == "greedy":
                print(peer.greedy(int(rest[0]), [int(t) for t in rest[1].split(",")]), flush=True)
            elif word == "compile":
                print(f"{sum(peer.seconds.values()):.2f}", flush=True)
            elif word == "compiled":
                print(", ".join(f"{n} token(s) {s:.1f} s" for n, s in peer.seconds.items()), flush=True)


if __name__ == "__main__":
    main()
