"""Writes test/num/torch_table.txt: what torch computes for each op of the graph IR, at the edges of its types.

usage: python torch_table.py > test/num/torch_table.txt     (torch 2.x on a CPU; scripts/peers.sh torch installs one)

A case is a line "graph", the graph up to "}", a line "in VALUES" for each input, a line "out ULPS VALUES" for each output: so many units
in the last place may it be off, of what torch rounds more than once, sqrt among it, and of functions; 0: it is that number. Not here: what torch does
not define (division by 0, casts of what does not fit), does otherwise (indices outside), or does not have (philox, block formats, fma).
"""

import torch as t

INF, NAN = float("inf"), float("nan")
TYPES = {"f32": t.float32, "f64": t.float64, "f16": t.float16, "bf16": t.bfloat16, "i32": t.int32, "i64": t.int64,
         "i16": t.int16, "i8": t.int8, "u8": t.uint8, "bool": t.bool}
FLOATS, WORDS, SMALL = ("f32", "f64", "f16", "bf16"), ("i32", "i64"), ("i16", "i8", "u8")
INTS = WORDS + SMALL


def number(v):
    return str(int(v)) if isinstance(v, (bool, int)) else "nan" if v != v else "%.17g" % v


def line(x):
    return " ".join(number(v) for v in x.reshape(-1).tolist())


def name_of(x):
    return next(n for n, d in TYPES.items() if d == x.dtype)


def text_of(x):
    return "%s[%s]" % (name_of(x), ",".join(str(n) for n in x.shape))


def case(inputs, lines):
    """lines: (text of an op, what it gives or None for a step on the way, units)"""
    args = ", ".join("%%%s: %s" % (n, text_of(x)) for n, x in inputs.items())
    print("graph\ngraph @table(%s) {" % args)
    for i, (op, _, _) in enumerate(lines):
        print("  %%%d = %s" % (i, op))
    print("  ret " + ", ".join("%%%d" % i for i, x in enumerate(lines) if x[1] is not None) + "\n}")
    for x in inputs.values():
        print(("in " + line(x)).rstrip())
    for _, x, ulps in lines:
        if x is not None:
            print(("out %d %s" % (ulps, line(x))).rstrip())


def floats(name):
    edges = [0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, -3.7, 10.3, -20, 1e-4, INF, -INF, NAN]
    least = {"f32": 1e-40, "f64": 1e-310, "f16": 2**-24, "bf16": 1e-40}[name]
    most = {"f32": 3e38, "f64": 1e308, "f16": 65504, "bf16": 3e38}[name]
    return t.tensor(edges + [least, -least, most, -most], dtype=t.float64).to(TYPES[name])


def integers(name):
    lo, hi = t.iinfo(TYPES[name]).min, t.iinfo(TYPES[name]).max
    return t.tensor([0, 1, -1, 7, -7, 12, lo, lo + 1, hi]).to(TYPES[name])


def elementwise():
    functions = {"rsqrt": t.rsqrt, "exp": t.exp, "log": t.log, "sin": t.sin, "cos": t.cos, "tanh": t.tanh, "erf": t.erf, "sigmoid": t.sigmoid}
    exact = {"neg": t.neg, "abs": t.abs, "sqrt": t.sqrt, "recip": t.reciprocal, "floor": t.floor, "ceil": t.ceil, "round": t.round}
    pairs = {"add": t.add, "sub": t.sub, "mul": t.mul, "div": t.div, "max": t.maximum, "min": t.minimum}
    asked = {"eq": t.eq, "ne": t.ne, "lt": t.lt, "le": t.le, "gt": t.gt, "ge": t.ge}
    bits = {"and": t.bitwise_and, "or": t.bitwise_or, "xor": t.bitwise_xor}
    for n in FLOATS:
        x, units = floats(n), 4 if n in ("f32", "f64") else 1
        case({"x": x}, [(op + " %x", f(x), int(op == "sqrt")) for op, f in exact.items()] + [(op + " %x", f(x), units) for op, f in functions.items()])
        a, b = x.reshape(-1, 1), x.reshape(1, -1)
        same = [("%s %%a, %%b" % op, f(a, b), 0) for op, f in {**pairs, **asked}.items()]
        case({"a": a, "b": b}, same + [("pow %a, %b", t.pow(a, b), units)])
        case({"a": a, "b": b, "c": t.tensor([True, False, True]).reshape(3, 1, 1)},
             [("where %c, %a, %b", t.where(t.tensor([True, False, True]).reshape(3, 1, 1), a, b), 0)])
    for n in INTS:
        x = integers(n)
        a, b = x.reshape(-1, 1), x.reshape(1, -1)
        case({"x": x}, [("neg %x", -x, 0), ("abs %x", x.abs(), 0), ("not %x", ~x, 0)])
        some = {k: f for k, f in pairs.items() if k != "div"}
        case({"a": a, "b": b}, [("%s %%a, %%b" % op, f(a, b), 0) for op, f in {**some, **asked, **bits}.items()])
        d, s = x[1:6].reshape(1, -1), t.tensor([[0, 1, 5, 31]], dtype=x.dtype)
        case({"a": a, "d": d, "s": s}, [("floor_divide %a, %d", t.floor_divide(a, d), 0), ("remainder %a, %d", t.remainder(a, d), 0),
                                        ("shift_left %a, %s", a << s, 0), ("shift_right %a, %s", a >> s, 0)])
    a = t.tensor([False, True])
    case({"a": a.reshape(2, 1), "b": a}, [("%s %%a, %%b" % op, f(a.reshape(2, 1), a), 0) for op, f in {**bits, "eq": t.eq, "ne": t.ne}.items()]
         + [("not %b", ~a, 0)])


def casts():
    for n in TYPES:
        some = t.tensor([0, -0.0, 1, -1.5, 2.5, 100, -99.9, 0.1], dtype=t.float64)
        x = t.tensor([0, 1], dtype=t.int32).bool() if n == "bool" else (some.abs() if n == "u8" else some).to(TYPES[n])
        case({"x": x}, [("cast %%x {dtype=%s}" % to, x.to(d), 0) for to, d in TYPES.items() if to not in (n, "u8")])
        if n != "bool":
            case({"x": x.abs()}, [("cast %x {dtype=u8}", x.abs().to(t.uint8), 0)])
    for n in INTS: # of an integer that does not fit
        x = t.tensor([127, 128, -129, 255, 256, 32768, -32769, 65541, 2**31 - 1, -(2**31), 2**31, 2**32 + 200, -(2**40) - 5]).to(TYPES[n])
        case({"x": x}, [("cast %%x {dtype=%s}" % to, x.to(TYPES[to]), 0) for to in INTS if to != n])
    x = t.tensor([2**24 + 1, -(2**24) - 3, 2**30 + 2**6, 2049, 2051, 4098 * 2 + 1, 16777217 * 2 + 1])
    for n in WORDS:
        case({"x": x.to(TYPES[n])}, [("cast %x {dtype=f32}", x.to(t.float32), 0), ("cast %x {dtype=f64}", x.to(t.float64), 0)])


def rows(n):
    """Ties, NaN, infinities, zeros of both signs."""
    if n in INTS:
        return t.tensor([[3, -1, 3, 7, 7], [0, 0, 0, 0, 0], [-5, 9, -5, 9, 1]]).to(TYPES[n])
    return t.tensor([[3, -1, 3, 7, 7], [0.0, -0.0, 0.0, -0.0, 0], [INF, 1, -INF, 2, INF], [1, NAN, 3, NAN, INF], [0.5, 1.5, -0.25, 4, 4]],
                    dtype=TYPES[n])


def first(x, axis, least=False):
    """torch.argmax does not say which of equals it gives; a NaN is the largest there."""
    best = x.amax(axis, keepdim=True)
    hit = (x == best) | (x.isnan() & best.isnan())
    return hit.int().cumsum(axis).eq(0).int().sum(axis).int()


def along_axes():
    for n in FLOATS + INTS:
        for x in (rows(n), rows(n)[:, :1], rows(n)[:, :0]):
            for axis in range(2):
                k, like = x.shape[axis], TYPES[n]
                all_ = [("sum %%x {axis=%d}" % axis, x.sum(axis).to(like), 1), ("prod %%x {axis=%d, keep=true}" % axis, x.prod(axis, keepdim=True).to(like), 1),
                        ("cumsum %%x {axis=%d}" % axis, x.cumsum(axis).to(like), 1)]
                if k:
                    all_ += [("amax %%x {axis=%d}" % axis, x.amax(axis), 0), ("amin %%x {axis=%d, keep=true}" % axis, x.amin(axis, keepdim=True), 0),
                             ("argmax %%x {axis=%d}" % axis, first(x, axis), 0)]
                case({"x": x}, all_)
                for down in (False, True):
                    v, i = t.sort(x, dim=axis, stable=True, descending=down)
                    case({"x": x}, [("sort %%x {axis=%d, descending=%s}" % (axis, str(down).lower()), v, 0), ("result %0 {index=1}", i.int(), 0)])
        if n not in ("f64", "i64"):
            x = rows(n)
            v, i = t.sort(x, dim=1, stable=True, descending=True)
            case({"x": x}, [("topk %x {k=3}", v[:, :3], 0), ("result %0 {index=1}", i[:, :3].int(), 0)])


def by_index():
    for n in FLOATS + INTS:
        x = rows(n)[:3]
        src = t.arange(1, 7).reshape(3, 2).to(TYPES[n])
        for i in WORDS:
            at = t.tensor([[0, 4], [2, 2], [3, 1]], dtype=TYPES[i])
            from_ = t.tensor([[2, 0], [1, 1]], dtype=TYPES[i])
            case({"x": x, "i": from_}, [("gather %x, %i", x[from_.long()], 0)])
            hows = {"_add": "sum", "_prod": "prod", "_amax": "amax", "_amin": "amin"} if n not in ("f16", "bf16") else {}
            plain = x.clone()
            for r in range(3):
                for c in range(2):
                    plain[r, at[r, c]] = src[r, c]
            case({"x": x, "i": at, "s": src}, [("scatter %x, %i, %s {axis=1}", plain, 0)] +
                 [("scatter%s %%x, %%i, %%s {axis=1}" % how, x.scatter_reduce(1, at.long(), src, red), 1) for how, red in hows.items()])


def moves_and_products():
    for n in TYPES:
        x = (rows("i32")[:3] % 2).bool() if n == "bool" else rows(n)[:3]
        case({"x": x}, [("permute %x {axes=[1,0]}", x.T, 0), ("slice %x {axis=1, start=1, stop=4}", x[:, 1:4], 0), ("slice %x {axis=0, start=2, stop=2}", x[2:2], 0),
                        ("concat %x, %x {axis=1}", t.cat([x, x], 1), 0), ("reshape %x {shape=[5,3]}", x.reshape(5, 3), 0),
                        ("broadcast %x {shape=[2,3,5]}", x.expand(2, 3, 5), 0), ("concat %2, %x {axis=0}", x, 0)])
    for n in ("f32", "f16", "bf16"):
        for m, k, c in ((3, 5, 2), (1, 1, 1), (2, 0, 3), (0, 2, 2)):
            a = (t.arange(m * k) % 7 - 3).reshape(m, k).to(TYPES[n]) / 4
            b = (t.arange(k * c) % 5 - 2).reshape(k, c).to(TYPES[n])
            case({"a": a, "b": b, "d": b.T.contiguous()}, [("matmul %a, %b", a.float() @ b.float(), 0), ("matmul %a, %d {trans_b=true}", a.float() @ b.float(), 0)])
        a, b = t.tensor([[INF, 0], [1, NAN], [1, 2]], dtype=TYPES[n]), t.tensor([[1], [-1.0]], dtype=TYPES[n])
        case({"a": a, "b": b}, [("matmul %a, %b", a.float() @ b.float(), 0)])


elementwise()
casts()
along_axes()
by_index()
moves_and_products()
