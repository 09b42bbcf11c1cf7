"""torch.compile as a peer of bench/front.sh: the functions of front.c in PyTorch, compiled by Inductor, measured the same way.

usage: front_peer.py [again]

Prints NAME VALUE lines as front.c does. Only bench/front.sh runs it; it is no part of reprise.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

TENSORS, ROUNDS, BREAKS, SHAPES, COLUMNS = 16, 21, 8, 64, 64
CALLS = 1000


def report(name, value):
    print(f"{name} {value:.3f}", flush=True)


def timed(f, *args):
    start = time.perf_counter_ns()
    f(*args)
    return time.perf_counter_ns() - start


def round_ns(f, *args):
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        f(*args)
    return (time.perf_counter_ns() - start) / CALLS


def call_ns(f, *args, than=None):
    for _ in range(100):
        f(*args)
        if than:
            than(*args)
    return statistics.median(round_ns(f, *args) - (round_ns(than, *args) if than else 0) for _ in range(ROUNDS))


def plus_one(x):
    return x + 1


def sum_of_all(*x):
    total = x[0]
    for y in x[1:]:
        total = total + y
    return total


def attention(x, q, k, v):
    return torch.softmax(F.linear(x, q) @ F.linear(x, k).T, -1) @ F.linear(x, v)


def softmax(x):
    return torch.softmax(x, -1)


def broken(x):
    for _ in range(BREAKS):
        x = torch.sin(x)
        torch._dynamo.graph_break()
    return torch.sin(x)


def whole(x):
    for _ in range(BREAKS):
        x = torch.sin(x)
    return torch.sin(x)


def filled(rows, columns):
    return (torch.arange(rows * columns) * 7 % 101 / 101 - 0.5).reshape(rows, columns)


again = sys.argv[1:] == ["again"]
torch.set_num_threads(1)
with torch.no_grad():
    torch.compile(plus_one)(filled(3, 5))
    f = torch.compile(attention)
    weights = [filled(COLUMNS, COLUMNS) for _ in range(3)]
    first = timed(f, filled(8, COLUMNS), *weights)
    second = timed(f, filled(16, COLUMNS), *weights)
    report("again_first" if again else "first", first / 1e6)
    report("again" if again else "recompile", second / 1e6)
    if not again:
        f = torch.compile(softmax)
        report("shapes", sum(timed(f, filled(2 + i, COLUMNS)) for i in range(SHAPES)) / 1e6)
        report("call", call_ns(torch.compile(sum_of_all), *[filled(1, 4) for _ in range(TENSORS)]))
        x = filled(1, 4)
        report("break", call_ns(torch.compile(broken), x, than=torch.compile(whole)) / BREAKS)
