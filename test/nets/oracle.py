"""Writes test/nets/oracle.txt: what torch computes for the networks of test/nets/*.c, in float64 from the same float32 leaves.

usage: python oracle.py > test/nets/oracle.txt     (torch 2.x; scripts/peers.sh torch installs one)

One line an output: NAME T OUTPUT COUNT: values. Of more than 48 values every step-th is written, step = COUNT // 48 | 1.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

SAMPLES = 48
INF = float("inf")


def mixed(x):  # Wellons' lowbias32, as in test/support/nets.c
    with np.errstate(over="ignore"):
        x = x ^ (x >> np.uint32(16))
        x = x * np.uint32(0x7FEB352D)
        x = x ^ (x >> np.uint32(15))
        x = x * np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))


def hashes(name, shape):
    seed = 2166136261
    for c in name.encode():
        seed = ((seed ^ c) * 16777619) & 0xFFFFFFFF
    return mixed(np.arange(math.prod(shape), dtype=np.uint32) ^ mixed(np.uint32(seed))).reshape(shape)


def around(name, shape, offset, scale):
    v = offset + ((hashes(name, shape) >> np.uint32(8)).astype(np.float64) * 2.0**-23 - 1.0) * scale
    return torch.from_numpy(v.astype(np.float32).astype(np.float64))


def weight(name, shape, scale):
    return around(name, shape, 0.0, scale)


def ids(name, shape, below):
    return torch.from_numpy((hashes(name, shape) % np.uint32(below)).astype(np.int64))


def dense(x, name, i, o):
    return F.linear(x, weight(name + ".w", (o, i), 0.2), weight(name + ".b", (o,), 0.1))


def plain(x, name, i, o):
    return F.linear(x, weight(name, (o, i), 0.2))


def layer_norm(x, name, d, eps):
    return F.layer_norm(x, (d,), around(name + ".w", (d,), 1, 0.2), weight(name + ".b", (d,), 0.1), eps)


def rms_norm(x, w, eps):
    return F.rms_norm(x, (x.shape[-1],), w, eps)


def split(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


sdpa = F.scaled_dot_product_attention

# ---- language ----


def gpt2(T):
    d, vocab = 32, 61
    wte, wpe = weight("wte", (vocab, d), 1), weight("wpe", (64, d), 0.5)
    x = F.embedding(ids("ids", (2, T), vocab), wte) + wpe[:T]

    def conv1d(x, name, i, o):
        return torch.addmm(weight(name + ".b", (o,), 0.1), x.reshape(-1, i), weight(name + ".w", (i, o), 0.2)).view(*x.shape[:-1], o)

    q, k, v = (split(t, 4) for t in conv1d(layer_norm(x, "ln_1", d, 1e-5), "c_attn", d, 3 * d).split(d, dim=-1))
    x = x + conv1d(merge(sdpa(q, k, v, is_causal=True)), "c_proj", d, d)
    h = conv1d(layer_norm(x, "ln_2", d, 1e-5), "c_fc", d, 4 * d)
    x = x + conv1d(F.gelu(h, approximate="tanh"), "mlp_proj", 4 * d, d)
    return x, layer_norm(x, "ln_f", d, 1e-5) @ wte.T


def bert(T):
    d, vocab = 24, 53
    e = F.embedding(ids("ids", (3, T), vocab), weight("word", (vocab, d), 1))
    e = e + F.embedding(ids("types", (3, T), 2), weight("type", (2, d), 1)) + weight("position", (64, d), 1)[:T]
    x = layer_norm(e, "embed_ln", d, 1e-12)
    mask = torch.arange(T) <= ids("lengths", (3,), 5)[:, None]
    q, k, v = (split(dense(x, n, d, d), 3) for n in "qkv")
    x = layer_norm(x + dense(merge(sdpa(q, k, v, attn_mask=mask[:, None, None, :])), "o", d, d), "ln_1", d, 1e-12)
    x = layer_norm(x + dense(F.gelu(dense(x, "up", d, 4 * d)), "down", 4 * d, d), "ln_2", d, 1e-12)
    m = mask.unsqueeze(-1).double()
    return x, F.normalize((x * m).sum(1) / m.sum(1).clamp(min=1e-9), dim=-1)


def rope_tables(T, d, base):
    angle = torch.outer(torch.arange(T).double(), base ** (-torch.arange(0, d, 2).double() / d))
    return angle.cos(), angle.sin()


def rope(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rope_interleaved(x, cos, sin):
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous()) * torch.complex(cos, sin)
    return torch.view_as_real(z).flatten(-2)


def gemma(T):
    d, heads, kv, hd, vocab = 48, 4, 2, 16, 67
    table = weight("embed", (vocab, d), 0.4)
    x = F.embedding(ids("ids", (2, T), vocab), table) * d**0.5
    cos, sin = rope_tables(T, hd, 10000.0)

    def norm(x, name):
        return rms_norm(x, 1 + weight(name, (d,), 0.3), 1e-6)

    h = norm(x, "input_norm")
    q = rope(split(plain(h, "q", d, heads * hd), heads), cos, sin)
    k = rope(split(plain(h, "k", d, kv * hd), kv), cos, sin).repeat_interleave(heads // kv, dim=1)
    v = split(plain(h, "v", d, kv * hd), kv).repeat_interleave(heads // kv, dim=1)
    s = 50 * torch.tanh(q @ k.transpose(-1, -2) * 24.0**-0.5 / 50)
    i, j = torch.arange(T)[:, None], torch.arange(T)
    s = s.masked_fill((j > i) | (j <= i - 4), -INF)
    x = x + norm(plain(merge(s.softmax(-1) @ v), "o", heads * hd, d), "post_attention")
    h = norm(x, "pre_ffn")
    y = plain(F.gelu(plain(h, "gate", d, 3 * d), approximate="tanh") * plain(h, "up", d, 3 * d), "down", 3 * d, d)
    x = x + norm(y, "post_ffn")
    return x, 30 * torch.tanh(norm(x, "final") @ table.T / 30)


def moe_dense(T):
    d, ff, experts, top = 16, 24, 8, 2
    x = weight("x", (T, d), 1)
    w, which = (x @ weight("router", (experts, d), 0.5).T).topk(top)
    w = w.softmax(-1)
    gate, up = weight("gate", (experts, ff, d), 0.3), weight("up", (experts, ff, d), 0.3)
    down = weight("down", (experts, d, ff), 0.3)
    y = torch.zeros(T, d, dtype=torch.float64)
    for t in range(T):
        for k in range(top):
            e = which[t, k]
            y[t] += w[t, k] * (down[e] @ (F.silu(gate[e] @ x[t]) * (up[e] @ x[t])))
    return y, which


def moe_gather(T):
    d, ff, experts, top = 16, 12, 16, 3
    x = weight("x", (T, d), 1)
    scores = plain(x, "router", d, experts).softmax(-1)
    which = scores.topk(top).indices
    w = scores.gather(-1, which)
    w = w / w.sum(-1, keepdim=True)
    up, down = weight("up", (experts, ff, d), 0.3)[which], weight("down", (experts, d, ff), 0.3)[which]
    y = torch.einsum("tkdf,tkf,tk->td", down, F.relu(torch.einsum("tkfd,td->tkf", up, x)), w)
    return (y + plain(F.silu(plain(x, "shared_up", d, ff)), "shared_down", ff, d),)


def t5(T):
    d, heads = 32, 4
    x, memory = weight("x", (2, T, d), 1), weight("memory", (2, 5, d), 1)
    far = (torch.arange(T)[:, None] - torch.arange(T)).clamp(min=0)
    large = 4 + ((far.double() / 4).clamp(min=1e-6).log() / math.log(16 / 4) * 4).long()
    bucket = torch.where(far < 4, far, large.clamp(max=7))
    bias = weight("bias", (8, heads), 1)[bucket].permute(2, 0, 1)
    bias = bias + torch.full((T, T), -INF, dtype=torch.float64).triu(1)
    h = rms_norm(x, around("ln_1", (d,), 1, 0.2), 1e-6)
    q, k, v = (split(plain(h, n, d, d), heads) for n in "qkv")
    x = x + plain(merge(sdpa(q, k, v, attn_mask=bias, scale=1.0)), "o", d, d)
    q = split(plain(rms_norm(x, around("ln_2", (d,), 1, 0.2), 1e-6), "cross_q", d, d), heads)
    k, v = (split(plain(memory, "cross_" + n, d, d), heads) for n in "kv")
    x = x + plain(merge(sdpa(q, k, v, scale=1.0)), "cross_o", d, d)
    h = rms_norm(x, around("ln_3", (d,), 1, 0.2), 1e-6)
    return (x + plain(F.relu(plain(h, "wi", d, 2 * d)), "wo", 2 * d, d),)


def alibi(T):
    d, heads = 32, 8
    x = weight("x", (1, T, d), 1)
    q, k, v = (split(dense(x, n, d, d), heads) for n in "qkv")
    slope = 2.0 ** -(torch.arange(heads).double() + 1)
    bias = -slope[:, None, None] * (torch.arange(T)[:, None] - torch.arange(T)).double()
    bias = bias + torch.full((T, T), -INF, dtype=torch.float64).triu(1)
    return (merge(sdpa(q, k, v, attn_mask=bias)),)


def mla(T):
    d, heads, nope, pe, latent, hd = 32, 4, 8, 4, 12, 8
    x = weight("x", (2, T, d), 1)
    cos, sin = rope_tables(T, pe, 10000.0)
    q = rms_norm(plain(x, "q_a", d, 20), around("q_norm", (20,), 1, 0.2), 1e-6)
    q, q_pe = split(plain(q, "q_b", 20, heads * (nope + pe)), heads).split([nope, pe], dim=-1)
    kv, k_pe = plain(x, "kv_a", d, latent + pe).split([latent, pe], dim=-1)
    k_pe = rope_interleaved(k_pe[:, None], cos, sin).expand(-1, heads, -1, -1)
    kv = rms_norm(kv, around("kv_norm", (latent,), 1, 0.2), 1e-6)
    k, v = split(plain(kv, "kv_b", latent, heads * (nope + hd)), heads).split([nope, hd], dim=-1)
    q, k = torch.cat([q, rope_interleaved(q_pe, cos, sin)], -1), torch.cat([k, k_pe], -1)
    return (plain(merge(sdpa(q, k, v, is_causal=True)), "o", heads * hd, d),)


def neox(T):
    d, heads = 32, 2
    hd = d // heads
    turned = hd // 2
    x = weight("x", (1, T, d), 1)
    cos, sin = rope_tables(T, turned, 10000.0 * 4.0 ** (turned / (turned - 2)))
    q, k, v = dense(layer_norm(x, "ln_1", d, 1e-5), "qkv", d, 3 * d).view(1, T, heads, 3, hd).permute(3, 0, 2, 1, 4)
    q, k = (torch.cat([rope(t[..., :turned], cos, sin), t[..., turned:]], -1) for t in (q, k))
    y = dense(merge(sdpa(q, k, v, is_causal=True)), "o", d, d)
    return (x + y + dense(F.gelu(dense(layer_norm(x, "ln_2", d, 1e-5), "up", d, 4 * d)), "down", 4 * d, d),)


def sampling(T):
    vocab = 50
    x, u = weight("logits", (T, vocab), 4), around("u", (vocab,), 0.5, 0.4)
    y = (x / 0.7).log_softmax(-1)
    drawn = (y - (-u.log()).log()).argmax(-1)
    cut = y.topk(5).values[:, -1:]
    y = y.masked_fill(y < cut, -INF)
    p = y.softmax(-1)
    kept = (p.cumsum(-1) - p < 0.9) & (y >= cut)
    loss = F.cross_entropy(x, ids("target", (T,), vocab))
    return drawn, y.masked_fill(~kept, -1e4), kept.sum(-1), loss


def clip(T):
    d = 24
    image, text = weight("image", (T, d), 1), weight("text", (T, d), 1)
    image = F.normalize(plain(image, "image_proj", d, d), dim=-1)
    text = F.normalize(plain(text * torch.sigmoid(1.702 * text), "text_proj", d, d), dim=-1)
    s = image @ text.T * around("logit_scale", (1,), 2.6, 0.1).exp()
    at = torch.arange(T)
    return s, (F.cross_entropy(s, at) + F.cross_entropy(s.T, at)) / 2


# ---- vision ----


def conv(x, name, i, o, size, **kw):
    return F.conv2d(x, weight(name + ".w", (o, i, size, size), 0.2), weight(name + ".b", (o,), 0.1), **kw)


def vit(T):
    d, heads = 32, 4
    p = conv(weight("x", (T, 3, 8, 12), 1), "patch", 3, d, 4, stride=4).flatten(2).transpose(1, 2)
    p = torch.cat([weight("cls", (1, 1, d), 1).expand(T, -1, -1), p], 1) + weight("pos", (1, 7, d), 0.5)
    q, k, v = dense(layer_norm(p, "ln_1", d, 1e-6), "qkv", d, 3 * d).view(T, 7, 3, heads, -1).permute(2, 0, 3, 1, 4)
    p = p + dense(merge(sdpa(q, k, v)), "o", d, d)
    p = p + dense(F.gelu(dense(layer_norm(p, "ln_2", d, 1e-6), "up", d, 4 * d)), "down", 4 * d, d)
    return p, dense(layer_norm(p, "ln", d, 1e-6)[:, 0], "head", d, 10)


def batch_norm(x, name, c):
    mean, var = weight(name + ".mean", (c,), 0.5), around(name + ".var", (c,), 1, 0.5)
    return F.batch_norm(x, mean, var, around(name + ".w", (c,), 1, 0.2), weight(name + ".b", (c,), 0.1), False, 0, 1e-5)


def resnet(T):
    c = 8
    x = conv(weight("x", (T, 3, 19, 22), 1), "stem", 3, c, 5, stride=2, padding=2)
    x = F.max_pool2d(batch_norm(x, "bn", c).relu(), 3, 2, 1)
    y = batch_norm(conv(x, "a", c, 2 * c, 3, stride=2, padding=1), "bn_a", 2 * c).relu()
    y = batch_norm(conv(y, "b", 2 * c, 2 * c, 3, padding=1), "bn_b", 2 * c)
    y = (y + batch_norm(conv(x, "skip", c, 2 * c, 1, stride=2), "bn_skip", 2 * c)).relu()
    return y, dense(F.adaptive_avg_pool2d(y, 1).flatten(1), "fc", 2 * c, 7)


def res_block(x, name, i, o):
    w, b = around(name + ".gn.w", (i,), 1, 0.2), weight(name + ".gn.b", (i,), 0.1)
    return conv(F.silu(F.group_norm(x, 4, w, b, 1e-5)), name + ".conv", i, o, 3, padding=1)


def unet(T):
    c = 8
    a = conv(weight("x", (1, 3, 2 * T, 6), 1), "in", 3, c, 3, padding=1)
    a = a + res_block(a, "r1", c, c)
    m = res_block(F.avg_pool2d(a, 2), "r2", c, 2 * c)
    m = m + dense(F.silu(weight("t", (1, 2 * c), 1)), "time", 2 * c, 2 * c)[:, :, None, None]
    pixels = m.flatten(2).transpose(1, 2)
    q, k, v = (split(dense(pixels, n, 2 * c, 2 * c), 2) for n in "qkv")
    m = m + merge(sdpa(q, k, v)).transpose(1, 2).reshape(m.shape)
    up = torch.cat([F.interpolate(m, scale_factor=2, mode="nearest"), a], 1)
    return (conv(res_block(up, "r3", 3 * c, c), "out", c, 3, 3, padding=1),)


def convnext(T):
    c = 8
    x = weight("x", (T, c, 9, 7), 1)
    y = F.conv2d(x, weight("dw", (c, 1, 5, 5), 0.3), weight("dw.b", (c,), 0.1), padding=2, groups=c)
    y = layer_norm(y.permute(0, 2, 3, 1), "ln", c, 1e-6)
    y = dense(F.gelu(dense(y, "up", c, 4 * c)), "down", 4 * c, c) * weight("gamma", (c,), 1)
    x = x + y.permute(0, 3, 1, 2)
    w = weight("grouped", (2 * c, c // 4, 3, 3), 0.3)
    y = F.conv2d(x, w, stride=(2, 1), padding=(2, 1), dilation=(2, 1), groups=4)
    return x, y, F.avg_pool2d(F.leaky_relu(y, 0.1), 3, 2, 1)


def conv_time(T):
    c = 12
    x = weight("x", (2, 5, 2 * T), 1)
    x = F.gelu(F.conv1d(x, weight("w1", (c, 5, 3), 0.4), weight("b1", (c,), 0.1), padding=1))
    x = F.gelu(F.conv1d(x, weight("w2", (c, c, 3), 0.3), weight("b2", (c,), 0.1), stride=2, padding=1))
    return x, F.conv1d(F.pad(x, (4, 0)), weight("w3", (c, c, 2), 0.3), dilation=4)


# ---- recurrent ----

STEPS = 8


def linear(x, name, i, o):
    return F.linear(x, weight(name, (o, i), 0.3))


def mamba(T):
    d, state, rank = 16, 4, 3
    inner = 2 * d
    u, z = linear(weight("x", (T, STEPS, d), 1), "in_proj", d, 2 * inner).chunk(2, dim=-1)
    u = F.conv1d(F.pad(u.transpose(1, 2), (3, 0)), weight("conv", (inner, 1, 4), 0.5), weight("conv.b", (inner,), 0.1), groups=inner)
    u = F.silu(u.transpose(1, 2))
    dt, b, c = linear(u, "x_proj", inner, rank + 2 * state).split([rank, state, state], dim=-1)
    dt = F.softplus(linear(dt, "dt_proj", rank, inner) + around("dt.b", (inner,), -3, 1))
    a = -weight("a_log", (inner, state), 1).exp()
    h, y = torch.zeros(T, inner, state, dtype=torch.float64), []
    for t in range(STEPS):
        h = torch.exp(dt[:, t, :, None] * a) * h + dt[:, t, :, None] * b[:, t, None, :] * u[:, t, :, None]
        y.append(torch.einsum("bin,bn->bi", h, c[:, t]) + around("d", (inner,), 1, 0.2) * u[:, t])
    return linear(torch.stack(y, 1) * F.silu(z), "out_proj", inner, d), h


def cell(kind, name, d, m):
    c = kind(d, d, dtype=torch.float64)
    with torch.no_grad():
        for p, n, shape in ((c.weight_ih, "ih", (m * d, d)), (c.weight_hh, "hh", (m * d, d))):
            p.copy_(weight(f"{name}.{n}", shape, 0.4))
        for p, n in ((c.bias_ih, "bih"), (c.bias_hh, "bhh")):
            p.copy_(weight(f"{name}.{n}", (m * d,), 0.2))
    return c


def lstm(T):
    d, every = 12, []
    x, h, c = weight("x", (T, STEPS, d), 1), weight("h", (T, d), 1), weight("c", (T, d), 1)
    step = cell(torch.nn.LSTMCell, "lstm", d, 4)
    for t in range(STEPS):
        h, c = step(x[:, t], (h, c))
        every.append(h)
    return torch.stack(every, 1), c


def gru(T):
    d = 12
    x, h = weight("x", (T, STEPS, d), 1), weight("h", (T, d), 1)
    step = cell(torch.nn.GRUCell, "gru", d, 3)
    for t in range(STEPS):
        h = step(x[:, t], h)
    return (h,)


def retnet(T):
    d, heads = 8, 2
    x = weight("x", (T, STEPS, heads * d), 1)
    q, k, v = (linear(x, n, heads * d, heads * d).view(T, STEPS, heads, d).transpose(1, 2) for n in "qkv")
    decay = torch.sigmoid(around("decay", (heads, 1, 1), 2, 0.5))
    i, j = torch.arange(STEPS)[:, None], torch.arange(STEPS)
    weights = torch.where(i >= j, decay ** (i - j).clamp(min=0), 0.0)
    y = ((q @ k.transpose(-1, -2)) * weights @ v).transpose(1, 2).reshape(T * STEPS, heads * d)
    return (F.group_norm(y, 2, eps=1e-5),)


def over_time(T):
    d = 6
    x = weight("x", (T + 1, d), 2)
    stats = torch.stack([x.var(0), x.logsumexp(0), (0.7 * x).prod(0)])
    y = F.layer_norm(x.T, (T + 1,)) @ linear(x, "pool", d, 1).softmax(0)
    big = x > 1.5
    return x.mean(0), stats, y, torch.stack([big.any(0).long(), x.argmin(0), (~big).all(0).long()], 1)


def pieces(T):
    x, idx, pick = weight("x", (T, 5, 8), 3), ids("idx", (T, 5, 3), 8), ids("pick", (4,), 5)
    part = [
        x.flip(1),
        torch.cat([x[..., 1::3], x[..., ::2], x[..., 7:]], -1),
        F.pad(x.gather(2, idx)[..., :2], (2, 4), value=-1.0),
        F.pad(x.index_select(1, pick), (0, 0, 0, 1), value=9.0),
        x.scatter_add(2, idx, (x * x)[..., :3]),
        F.elu(x.clamp(-2, 1.5), 0.8),
    ]
    near = (torch.log1p(x * 1e-4) + torch.expm1(x * 1e-4)) * 1e4
    smooth = torch.stack([near + F.softplus(8 * x), x.round() + x.floor() * x.ceil()])
    return torch.stack(part), smooth, F.one_hot(idx, 8).double(), x.gather(1, ids("inner", (T, 2, 8), 5))


# ---- more ----


def swin(T):
    c, heads, m, h, w = 16, 2, 4, 8, 12
    x = weight("x", (T, h, w, c), 1)
    y = x.roll((-2, -2), (1, 2)).view(T, h // m, m, w // m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, c)
    q, k, v = linear(y, "qkv", c, 3 * c).view(-1, m * m, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    i = torch.arange(m * m)
    at = (i[:, None] // m - i // m + 3) * 7 + i[:, None] % m - i % m + 3
    y = linear(merge(sdpa(q, k, v, attn_mask=weight("bias", (49, heads), 1)[at].permute(2, 0, 1))), "o", c, c)
    y = y.view(T, h // m, w // m, m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(T, h, w, c).roll((2, 2), (1, 2))
    x = x + y
    y = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
    return x, linear(F.layer_norm(y, (4 * c,)), "reduction", 4 * c, 2 * c)


def decode(T):
    heads, d, room = 2, 8, 64
    x, keys, values = weight("x", (1, heads * d), 1), weight("keys", (1, room, d), 1), weight("values", (1, room, d), 1)
    keys[:, T - 1], values[:, T - 1] = linear(x, "k", heads * d, d), linear(x, "v", heads * d, d)
    q = linear(x, "q", heads * d, heads * d).view(heads, 1, d)
    return sdpa(q, keys[:, :T].expand(heads, -1, -1), values[:, :T].expand(heads, -1, -1)).view(1, -1), keys


def routing(T):
    experts, groups, d = 16, 4, 12
    score = linear(weight("x", (T, d), 1), "router", d, experts).sigmoid()
    grouped = (score + weight("correction", (experts,), 0.2)).view(T, groups, -1)
    chosen = grouped.topk(2).values.sum(-1).topk(2).indices
    open_ = torch.zeros(T, groups, dtype=torch.bool).scatter(1, chosen, True)
    which = grouped.masked_fill(~open_[..., None], -INF).view(T, experts).topk(4).indices
    w = score.gather(-1, which)
    return which, w / w.sum(-1, keepdim=True) * 2.5


def int8(T):
    d, out, rank = 24, 20, 4
    x = weight("x", (2, T, d), 1)
    w = (ids("w", (out, d), 255) - 127).to(torch.int8).double() * around("scale", (out, 1), 0.01, 0.002)
    return (x @ w.T + linear(linear(x, "a", d, rank), "b", rank, out) * 2,)


def nucleus(T):
    p = weight("logits", (T, 40), 3).softmax(-1)
    s, order = p.sort(descending=True)
    kept = s.cumsum(-1) - s < 0.8
    p = torch.zeros_like(p).scatter(1, order, s * kept)
    p = p / p.sum(-1, keepdim=True)
    return p, order[:, :5], (p.cumsum(-1) <= 0.5).sum(-1)


def larger(T):
    c = 8
    x = weight("x", (T, c, 5, 6), 1)
    rows = F.interpolate(x, scale_factor=(2, 1), mode="bilinear", align_corners=False)
    kernel, b = weight("kernel", (c, 6, 3, 3), 0.3), weight("b", (6,), 0.1)
    return F.pixel_shuffle(x, 2), rows, F.conv_transpose2d(x, kernel, b, stride=2, padding=1, output_padding=1)


def ordering(T):
    x = (weight("x", (T, 5, 6), 1) * 2).round() / 2
    value, place = zip(*(x.sort(dim=d, descending=d == 1, stable=True) for d in range(3)))
    n = ids("ids", (T, 70), 9)
    both = torch.cat([n.argsort(dim=-1, descending=True, stable=True), n.half().argsort(dim=-1, stable=True)])
    return torch.stack(value), torch.stack(place), (n * 2**30 - 3 * 2**30).sort(-1).values, both


def scattering(T):
    x, at, src = weight("x", (T, 4, 6), 1), ids("at", (T, 9, 6), 4), weight("src", (T, 9, 6), 1)
    part = [x.scatter_add(1, at, src)]
    part += [x.scatter_reduce(1, at, src, reduce=how) for how in ("prod", "amax", "amin")]
    part += [x.index_copy(2, ids("column", (1,), 6), x[..., 5:])]
    rows = weight("base", (5, 6), 1).index_add(0, ids("row", (T,), 5), x[:, 0])
    table, i, j = weight("table", (5, 3, 4), 1), ids("i", (T, 2), 5), ids("j", (T, 2), 3)
    values = weight("values", (T, 1, 4), 1).expand(T, 2, 4)
    put = [table.index_put((i, j), values, accumulate=True), table.index_put((i,), torch.tensor(7.0).double())]
    return torch.stack(part), rows, torch.stack(put), x.gather(0, ids("from", (2, 4, 6), 3).clamp(max=T - 1))


# ---- over any number of steps ----


def shifted(x):
    return F.pad(x, (0, 0, 1, 0))[:, : x.shape[1]]


def mixed_with(x, name, d):
    return x + (shifted(x) - x) * around("mu." + name, (d,), 0.5, 0.5)


def rwkv4(T):
    d = 16
    x = weight("x", (2, T, d), 1)
    h = F.layer_norm(x, (d,), eps=1e-5)
    r, k, v = (linear(mixed_with(h, n, d), n, d, d) for n in "rkv")
    w, u = -weight("w", (d,), 1).exp(), weight("u", (d,), 1)
    y = []
    for t in range(T):  # as defined: all of the past again
        age = (t - 1 - torch.arange(t)).double()[:, None]
        e = torch.cat([age * w + k[:, :t], (u + k[:, t])[:, None]], 1)
        y.append((e.softmax(1) * v[:, : t + 1]).sum(1))
    x = x + linear(r.sigmoid() * torch.stack(y, 1), "o", d, d)
    h = F.layer_norm(x, (d,), eps=1e-5)
    cr, ck = linear(mixed_with(h, "cr", d), "cr", d, d), linear(mixed_with(h, "ck", d), "ck", d, 3 * d)
    age = (T - 1 - torch.arange(T)).double()[:, None]
    last = ((age * w + k).softmax(1) * v).sum(1)
    return x + cr.sigmoid() * linear(F.relu(ck) ** 2, "cv", 3 * d, d), last


def rwkv6(T):
    heads, d = 2, 8
    n = heads * d
    x = weight("x", (2, T, n), 1)
    r, k, v = (linear(mixed_with(x, m, n), m, n, n).view(2, T, heads, d) for m in "rkv")
    low = torch.tanh(linear(mixed_with(x, "w", n), "w1", n, 5))
    w = torch.exp(-torch.exp(linear(low, "w2", 5, n) + around("w0", (n,), -1, 1))).view(2, T, heads, d)
    u, s, y = weight("u", (heads, d), 1), torch.zeros(2, heads, d, d, dtype=torch.float64), []
    for t in range(T):
        kv = torch.einsum("bhi,bhj->bhij", k[:, t], v[:, t])
        y.append(torch.einsum("bhi,bhij->bhj", r[:, t], s + u[..., None] * kv))
        s = w[:, t, :, :, None] * s + kv
    y = F.group_norm(torch.stack(y, 1).reshape(2 * T, n), heads, eps=1e-5).view(2, T, n)
    return x + linear(y * F.silu(linear(mixed_with(x, "g", n), "g", n, n)), "o", n, n), s


def deltanet(T):
    heads, d = 3, 4
    n = heads * d
    x = weight("x", (2, T, n), 1)
    q, k, v = (F.silu(linear(x, m, n, n)).view(2, T, heads, d) for m in "qkv")
    q, k = F.normalize(q, dim=-1, eps=1e-6), F.normalize(k, dim=-1, eps=1e-6)
    beta = linear(x, "beta", n, heads).sigmoid()
    s, y = torch.zeros(2, heads, d, d, dtype=torch.float64), []
    for t in range(T):
        answer = torch.einsum("bhi,bhij->bhj", k[:, t], s)
        s = s + torch.einsum("bhi,bhj->bhij", k[:, t], beta[:, t, :, None] * (v[:, t] - answer))
        y.append(torch.einsum("bhi,bhij->bhj", q[:, t], s))
    return linear(rms_norm(torch.stack(y, 1), around("norm", (d,), 1, 0.2), 1e-5).flatten(2), "o", n, n), s


def griffin(T):
    d = 12
    x = weight("x", (2, T, d), 1)
    u = F.pad(linear(x, "in", d, d).transpose(1, 2), (3, 0))
    u = F.conv1d(u, weight("conv", (d, 1, 4), 0.5), weight("conv.b", (d,), 0.1), groups=d).transpose(1, 2)
    log_a = -8 * linear(u, "ra", d, d).sigmoid() * F.softplus(around("lambda", (d,), 1, 0.5))
    fed = (1 - (2 * log_a).exp()).sqrt() * linear(u, "ri", d, d).sigmoid() * u
    h, y = torch.zeros(2, d, dtype=torch.float64), []
    for t in range(T):
        h = log_a[:, t].exp() * h + fed[:, t]
        y.append(h)
    return linear(torch.stack(y, 1) * F.gelu(linear(x, "gate", d, d), approximate="tanh"), "out", d, d), h


# ---- speech ----


def over_channels(x, name, i, o, size, groups=1, **kw):
    return F.conv1d(x, weight(name + ".w", (o, i // groups, size), 0.3), weight(name + ".b", (o,), 0.1), groups=groups, **kw)


def whisper(T):
    d, mels = 24, 10
    x = F.gelu(over_channels(weight("x", (2, mels, 2 * T), 1), "conv1", mels, d, 3, padding=1))
    x = F.gelu(over_channels(x, "conv2", d, d, 3, stride=2, padding=1)).transpose(1, 2)
    angle = torch.arange(T).double()[:, None] * torch.exp(-math.log(10000) / (d // 2 - 1) * torch.arange(d // 2).double())
    x = x + torch.cat([angle.sin(), angle.cos()], 1)
    h = layer_norm(x, "attn_ln", d, 1e-5)
    q, k, v = (split(t, 3) for t in (dense(h, "q", d, d), plain(h, "k", d, d), dense(h, "v", d, d)))
    x = x + dense(merge(sdpa(q, k, v)), "o", d, d)
    x = x + dense(F.gelu(dense(layer_norm(x, "mlp_ln", d, 1e-5), "up", d, 4 * d)), "down", 4 * d, d)
    return x, layer_norm(x, "ln_post", d, 1e-5)


def half_step(x, name, d):
    return x + 0.5 * dense(F.silu(dense(layer_norm(x, name, d, 1e-5), name + ".up", d, 4 * d)), name + ".down", 4 * d, d)


def conformer(T):
    d = 16
    x = half_step(weight("x", (2, T, d), 1), "first", d)
    mask = torch.arange(T) < (ids("lengths", (2,), 8) + 1)[:, None, None, None]
    h = layer_norm(x, "attn", d, 1e-5)
    q, k, v = (split(dense(h, n, d, d), 2) for n in "qkv")
    x = x + dense(merge(sdpa(q, k, v, attn_mask=mask)), "o", d, d)
    h = F.glu(over_channels(layer_norm(x, "conv", d, 1e-5).transpose(1, 2), "point", d, 2 * d, 1), dim=1)
    h = over_channels(h, "depth", d, d, 7, groups=d, padding=3)
    h = F.silu(F.batch_norm(h, weight("mean", (d,), 0.5), around("var", (d,), 1, 0.5), eps=1e-5))
    x = x + over_channels(h, "point2", d, d, 1).transpose(1, 2)
    return (layer_norm(half_step(x, "second", d), "ln", d, 1e-5),)


def wav2vec(T):
    d = 16
    x = over_channels(weight("x", (2, 1, 4 * T + 9), 1), "c0", 1, d, 5, stride=2)
    x = F.gelu(F.group_norm(x, d, around("gn.w", (d,), 1, 0.2), weight("gn.b", (d,), 0.1), 1e-5))
    x = layer_norm(F.gelu(over_channels(x, "c1", d, d, 3, stride=2)).transpose(1, 2), "ln", d, 1e-5)
    at = over_channels(x.transpose(1, 2), "pos", d, d, 4, groups=4, padding=2)[..., :-1]
    return (x + F.gelu(at).transpose(1, 2),)


CASES = {
    gpt2: (7, 1, 33),
    bert: (9, 1, 17),
    gemma: (7, 1, 19),
    moe_dense: (5, 1, 17),
    moe_gather: (5, 1, 17),
    t5: (9, 1, 23),
    alibi: (11, 1, 37),
    mla: (7, 1, 21),
    neox: (5, 1, 19),
    sampling: (3, 1, 13),
    clip: (5, 1, 15),
    vit: (2, 1, 5),
    resnet: (2, 1, 3),
    unet: (3, 1, 7),
    convnext: (1, 2, 3),
    conv_time: (9, 1, 16),
    mamba: (3, 1, 7),
    lstm: (3, 1, 9),
    gru: (5, 1, 2),
    retnet: (3, 1, 5),
    over_time: (8, 1, 32),
    pieces: (3, 1, 4),
    swin: (2, 1, 3),
    decode: (9, 1, 64),
    routing: (5, 1, 9),
    int8: (7, 1, 3),
    nucleus: (3, 1, 7),
    larger: (2, 1, 3),
    ordering: (3, 1, 9),
    scattering: (3, 1, 7),
    rwkv4: (6, 1, 17),
    rwkv6: (5, 1, 19),
    deltanet: (7, 1, 16),
    griffin: (5, 1, 33),
    whisper: (11, 1, 30),
    conformer: (9, 1, 23),
    wav2vec: (6, 1, 21),
}

for fn, sizes in CASES.items():
    for T in sizes:
        for o, out in enumerate(fn(T)):
            v = out.detach().flatten().tolist()
            step = len(v) // SAMPLES | 1
            text = " ".join(f"{v[i * step % len(v)]:.9g}" for i in range(min(len(v), SAMPLES)))
            print(f"{fn.__name__} {T} {o} {len(v)}: {text}")
