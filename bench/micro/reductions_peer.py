"""What torch.compile (Inductor) takes for the cases of reductions.c: medians of rounds of replays of a captured graph, and smallest, as there.

usage: reductions_peer.py [rounds] [cuda|cpu] [threads] [text that names of cases hold]
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

CALLS = 20
ROUND = 0.02  # seconds on the host, at the most but for one call
CASES = [
    ("sum [1, 2^24]", (1, 1 << 24), lambda x: x.sum(-1)),
    ("sum [1, 2^26]", (1, 1 << 26), lambda x: x.sum(-1)),
    ("max [4, 2^22]", (4, 1 << 22), lambda x: x.amax(-1)),
    ("argmax [4, 2^22]", (4, 1 << 22), lambda x: x.argmax(-1)),
    ("column sum [2^20, 64]", (1 << 20, 64), lambda x: x.sum(0)),
    ("softmax [4, 2^20]", (4, 1 << 20), lambda x: F.softmax(x, -1)),
    ("layer norm [8, 2^20]", (8, 1 << 20), None),
    ("sum [1, 2^17]", (1, 1 << 17), lambda x: x.sum(-1)),
    ("sum [1, 2^20]", (1, 1 << 20), lambda x: x.sum(-1)),
    ("argmax [1, 2^22]", (1, 1 << 22), lambda x: x.argmax(-1)),
    ("softmax [1, 2^20]", (1, 1 << 20), lambda x: F.softmax(x, -1)),
    ("layer norm [1, 2^20]", (1, 1 << 20), None),
    ("sum [4096, 4096]", (4096, 4096), lambda x: x.sum(-1)),
    ("sum [16384, 512]", (16384, 512), lambda x: x.sum(-1)),
    ("sum [131072, 64]", (131072, 64), lambda x: x.sum(-1)),
    ("softmax [32768, 128]", (32768, 128), lambda x: F.softmax(x, -1)),
    ("softmax [4096, 512]", (4096, 512), lambda x: F.softmax(x, -1)),
    ("softmax [8192, 1024]", (8192, 1024), lambda x: F.softmax(x, -1)),
    ("softmax [4096, 2048]", (4096, 2048), lambda x: F.softmax(x, -1)),
    ("softmax [4096, 8192]", (4096, 8192), lambda x: F.softmax(x, -1)),
    ("layer norm [1, 2048]", (1, 2048), None),
    ("layer norm [64, 2048]", (64, 2048), None),
    ("layer norm [16384, 128]", (16384, 128), None),
    ("layer norm [2048, 768]", (2048, 768), None),
    ("layer norm [2048, 2048]", (2048, 2048), None),
    ("layer norm [2048, 8192]", (2048, 8192), None),
]


def captured(f, x):
    """One call, as a graph where there is a GPU."""
    if x.device.type == "cpu":
        return lambda: f(x)
    for _ in range(3):
        f(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f(x)
    return graph.replay


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
    if len(sys.argv) > 3:
        torch.set_num_threads(int(sys.argv[3]))
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    print("torch", torch.__version__, device)
    for what, shape, f in CASES:
        if only not in what:
            continue
        x = torch.rand(shape, device=device) * 2 - 1
        if f is None:
            w, b = x[0].clone(), x[-1].clone()
            f = lambda x, w=w, b=b: F.layer_norm(x, w.shape, w, b)  # noqa: E731
        torch._dynamo.reset()
        with torch.no_grad():
            call = captured(torch.compile(f, dynamic=False), x)
            call()
            wait()
            took = []
            for _ in range(rounds):
                start, n = time.perf_counter(), 0
                while n < CALLS and (device != "cpu" or n == 0 or time.perf_counter() - start < ROUND):
                    call()
                    n += 1
                wait()
                took.append((time.perf_counter() - start) * 1e6 / n)
            moved = x.nbytes + f(x).nbytes
        us = statistics.median(took)
        print(f"{what:24} {us:10.2f} us  ({min(took):.2f})  {moved * 1e-3 / us:8.1f} GB/s", flush=True)


if __name__ == "__main__":
    main()
