"""libreprise from Python with ctypes: compiles and runs a small graph, then writes text with a model.

    python3 reprise.py [MODEL [PROMPT]]

Needs libreprise.so.0 where the loader looks (LD_LIBRARY_PATH, or ldconfig after make install)."""
import ctypes as c
import math
import sys

lib = c.CDLL("libreprise.so.0")
F32, MAX_RANK = 0, 6


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("line", c.c_int), ("file", c.c_char_p), ("text", c.c_char * 480)]


class Dim(c.Structure):  # a number without a graph, or a size that a call gave
    _fields_ = [("graph", c.c_void_p), ("n", c.c_int64)]


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint32), ("dim", Dim * MAX_RANK)]


class Tensor(c.Structure):
    _fields_ = [("graph", c.c_void_p), ("ref", c.c_uint32), ("id", c.c_uint32)]


class Buffer(c.Structure):
    _fields_ = [("dtype", c.c_int), ("rank", c.c_uint32), ("dim", c.c_int64 * MAX_RANK), ("data", c.c_void_p)]


class EngineOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("model", c.c_char_p), ("config", c.c_void_p), ("chat_template", c.c_char_p)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_double), ("top_p", c.c_double), ("min_p", c.c_double), ("top_k", c.c_int32),
                ("seed", c.c_uint64)]


class RequestOptions(c.Structure):  # up to what is used here: size says where it ends
    _fields_ = [("size", c.c_size_t), ("prompt", c.c_char_p), ("messages", c.c_void_p), ("n_messages", c.c_uint32),
                ("prompt_ids", c.c_void_p), ("n_prompt_ids", c.c_uint32), ("raw", c.c_bool),
                ("max_tokens", c.c_uint32), ("sampling", Sampling)]


class Result(c.Structure):  # the same
    _fields_ = [("size", c.c_size_t), ("id", c.c_uint64), ("prompt_ids", c.POINTER(c.c_int32)),
                ("output_ids", c.POINTER(c.c_int32)), ("n_prompt_ids", c.c_uint32), ("n_output_ids", c.c_uint32),
                ("text", c.c_char_p), ("finish_reason", c.c_char_p)]


def function(name, result, *args):
    f = getattr(lib, name)
    f.restype, f.argtypes = result, args
    return f


def call(name, *args):
    """A function that returns rp_status and takes rp_error last; a failure is an exception with its text."""
    err, f = Error(), getattr(lib, name)
    f.restype = c.c_int
    if f(*args, c.byref(err)) != 0:
        raise RuntimeError(f"{name}: {err.text.decode(errors='replace')}")


graph_new = function("rp_graph_new", c.c_void_p, c.c_char_p)
graph_free = function("rp_graph_free", None, c.c_void_p)
symbol = function("rp_symbol", Dim, c.c_void_p, c.c_char_p, c.c_int64, c.c_int64)
tensor_input = function("rp_input", Tensor, c.c_void_p, c.c_char_p, c.c_int, Shape)
mul, exp = function("rp_mul", Tensor, Tensor, Tensor), function("rp_exp", Tensor, Tensor)
softmax = function("rp_softmax", Tensor, Tensor, c.c_int)
compiled_free = function("rp_compiled_free", None, c.c_void_p)
config_new = function("rp_config_new", c.c_void_p)
config_free = function("rp_config_free", None, c.c_void_p)
engine_close = function("rp_engine_close", None, c.c_void_p)


def shape(*dims):
    return Shape(len(dims), (Dim * MAX_RANK)(*(d if isinstance(d, Dim) else Dim(None, d) for d in dims)))


def buffer(data, *dims):
    return Buffer(F32, len(dims), (c.c_int64 * MAX_RANK)(*dims), c.cast(data, c.c_void_p))


def run_graph(rows=3, columns=5):
    """y = softmax(x * x) by row, traced once with a symbolic number of rows."""
    g, config, compiled = graph_new(b"python"), config_new(), c.c_void_p()
    try:
        x = tensor_input(g, b"x", F32, shape(symbol(g, b"B", 1, 64), columns))
        y = softmax(mul(x, x), -1)
        call("rp_graph_finish", c.c_void_p(g), c.byref(y), c.c_uint32(1))
        call("rp_config_set", c.c_void_p(config), b"level=2")
        call("rp_compile", c.c_void_p(g), c.c_void_p(config), c.byref(compiled))
        values = [0.1 * i for i in range(rows * columns)]
        data, out = (c.c_float * len(values))(*values), (c.c_float * len(values))()
        call("rp_compiled_run", compiled, c.byref(buffer(data, rows, columns)), c.c_uint32(1),
             c.byref(buffer(out, rows, columns)), c.c_uint32(1))
    finally:
        compiled_free(compiled)
        config_free(config)
        graph_free(g)
    worst = 0.0
    for r in range(rows):
        e = [math.exp(v * v) for v in values[r * columns:(r + 1) * columns]]
        worst = max([worst] + [abs(out[r * columns + i] - v / sum(e)) for i, v in enumerate(e)])
    print(f"graph: largest difference to Python {worst:.1g}")
    assert worst < 1e-6


def generate(model, prompt):
    engine, request, more, result = c.c_void_p(), c.c_uint64(), c.c_bool(True), Result(size=c.sizeof(Result))
    config = config_new()
    call("rp_config_set_olevel", c.c_void_p(config), c.c_int(2))
    options = EngineOptions(c.sizeof(EngineOptions), model.encode(), config, None)
    call("rp_engine_open", c.byref(options), c.byref(engine))
    try:
        wanted = RequestOptions(size=c.sizeof(RequestOptions), prompt=prompt.encode(), max_tokens=24,
                                sampling=Sampling(top_p=1.0))
        call("rp_engine_submit", engine, c.byref(wanted), c.byref(request))
        while more.value:
            call("rp_engine_step", engine, c.byref(more))
        call("rp_engine_result", engine, request, c.byref(result))
        print(f"{model}: {result.n_output_ids} tokens, {result.finish_reason.decode()}")
        print(result.text.decode(errors="replace"))
    finally:
        engine_close(engine)


if __name__ == "__main__":
    run_graph()
    generate(*(sys.argv[1:] + ["synthetic:tiny", "The sea"][len(sys.argv) - 1:])[:2])
