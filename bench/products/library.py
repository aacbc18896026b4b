#!/usr/bin/env python3
"""What PyTorch's libraries take for the problems of a file, on the GPU at hand: cuBLAS for products, cuDNN for
convolutions, and for attention each of scaled_dot_product_attention's kernels that takes the shape, or its backward
pass, which is one call for all three gradients and stands under the name of keys and values. A line of JSON for each:
name, library, us (median of the kernels' durations by PyTorch's profiler, cold L2), low and high (quartiles), kernels
(names).

    bench/products/library.py PROBLEMS.json [--within SECONDS] [--iterations N]
"""
import argparse
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from harness import kineto, timing  # noqa: E402

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
WARM = 3


def drawn(shape, dtype):
    return torch.randn(shape, dtype=torch.float32, device="cuda").to(dtype)


def product(problem):
    """Functions without arguments, by library. "turned" operands are views of what lies the other way round, as a
    layer's weights do."""
    if problem["dtype"] not in DTYPES or problem.get("result", problem["dtype"]) != problem["dtype"]:
        return {}
    dtype, batch = DTYPES[problem["dtype"]], problem.get("batch", 1)

    def operand(rows, columns, layout):
        dims = (batch, columns, rows) if layout == "turned" else (batch, rows, columns)
        made = drawn(dims if batch > 1 else dims[1:], dtype)
        return made.transpose(-1, -2) if layout == "turned" else made
    left = operand(problem["m"], problem["k"], problem.get("left", "plain"))
    right = operand(problem["k"], problem["n"], problem.get("right", "plain"))
    out = torch.empty((batch, problem["m"], problem["n"])[0 if batch > 1 else 1:], dtype=dtype, device="cuda")
    return {"cuBLAS": lambda: torch.matmul(left, right, out=out)}


def convolution(problem):
    """cuDNN's by its own search, in the memory format that the problem names."""
    if problem["dtype"] not in DTYPES or problem.get("result", problem["dtype"]) != problem["dtype"]:
        return {}
    if problem.get("holes", 1) != 1 or len(problem["window"]) != 2:
        return {}
    last = problem.get("features_are", "last") == "last"
    layout = torch.channels_last if last else torch.contiguous_format
    dtype, groups = DTYPES[problem["dtype"]], problem.get("groups", 1)
    image = drawn((problem.get("images", 1), problem["features"], *problem["extents"]), dtype)
    weight = drawn((problem["results"], problem["features"] // groups, *problem["window"]), dtype)
    image, weight = image.to(memory_format=layout), weight.to(memory_format=layout)
    return {"cuDNN": lambda: torch.nn.functional.conv2d(image, weight, stride=problem.get("strides", 1),
                                                        padding=problem.get("padding", 0),
                                                        dilation=problem.get("dilation", 1), groups=groups)}


def functions_of(problem):
    if "keys" in problem:
        return attention(problem)
    return convolution(problem) if "window" in problem else product(problem)


def attention(problem):
    """The forward pass; of gradients the backward one, of all three."""
    if problem.get("gradient") == "queries":
        return {}  # keys and values have the time of all
    from torch.nn.attention import SDPBackend, sdpa_kernel
    if problem["dtype"] not in DTYPES:
        return {}
    dtype, batch, heads = DTYPES[problem["dtype"]], problem["batch"], problem["heads"]
    kv_heads, width = problem.get("kv_heads", heads), problem.get("width", problem["depth"])
    query = drawn((batch, heads, problem["rows"], problem["depth"]), dtype)
    key = drawn((batch, kv_heads, problem["keys"], problem["depth"]), dtype)
    value = drawn((batch, kv_heads, problem["keys"], width), dtype)
    causal = problem.get("causal", False)
    if causal and problem["rows"] != problem["keys"]:
        return {}  # PyTorch counts the diagonal from the first key
    backends = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION,
                "memory-efficient": SDPBackend.EFFICIENT_ATTENTION}

    def call(backend):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal,
                                                                    enable_gqa=kv_heads != heads)
    if "gradient" in problem:
        return {name: lambda backend=backend: backward(call, backend, (query, key, value))
                for name, backend in backends.items()}
    return {name: lambda backend=backend: call(backend) for name, backend in backends.items()}


RESULTS = {}


def backward(call, backend, operands):
    """Of a forward pass that is made once for each problem and backend."""
    known = (backend, *map(id, operands))
    if known not in RESULTS:
        RESULTS.clear()
        for operand in operands:
            operand.requires_grad_(True)
        result = call(backend)
        RESULTS[known] = result, torch.randn_like(result)
    result, gradient = RESULTS[known]
    torch.autograd.grad(result, operands, gradient, retain_graph=True)


def measure(run, count, flushed):
    for _ in range(WARM):
        run()
    torch.cuda.synchronize()

    def work():
        for _ in range(count):
            torch.bitwise_not(flushed, out=flushed)
            run()
        torch.cuda.synchronize()
    parts = timing.iterations(kineto.device_events(work), count)
    spread = timing.spread(timing.summed(parts)["busy_us"])
    return {"us": spread["median"], "low": spread["low"], "high": spread["high"],
            "kernels": [event.name[:120] for event in parts[-1]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", type=pathlib.Path)
    parser.add_argument("--within", type=float, default=1e9, help="seconds; no further problem is begun after them")
    parser.add_argument("--iterations", type=int, default=20)
    options = parser.parse_args()
    # Float32 products as ours compute them, without TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    start = time.monotonic()
    flushed = torch.zeros(2 * torch.cuda.get_device_properties(0).L2_cache_size // 4, dtype=torch.int32, device="cuda")
    for problem in json.loads(options.problems.read_text()):
        if time.monotonic() - start > options.within:
            break
        for library, run in functions_of(problem).items():
            line = {"name": problem["name"], "library": library, "iterations": options.iterations}
            try:
                line |= measure(run, options.iterations, flushed)
            except RuntimeError as reason:  # a kernel that does not take the shape says so
                line["failure"] = str(reason).splitlines()[0][:200]
            except timing.NotSeparable as reason:
                line["failure"] = str(reason)[:200]
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
