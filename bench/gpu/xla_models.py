#!/usr/bin/env python3
"""Whole models by XLA: HLO text as it is, compiled and timed, beside what `stitch run` says of the same text.

    bench/gpu/xla_models.py MODEL.hlo.txt.gz … --results FILE --no-tf32       products of f32 as f32
    bench/gpu/xla_models.py MODEL.hlo.txt.gz … --results FILE                 XLA as it comes: products of f32 as TF32
    bench/gpu/xla_models.py MODEL.hlo.txt.gz … --results FILE --both          one after the other
    bench/gpu/xla_models.py MODEL.hlo.txt.gz … --platform cpu                 tries it out without a GPU

A line of JSON a model and variant, appended as it comes; what has a line in FILE already is left alone. Models are done
in the given order, each in a process of its own: a crash or a compilation without end costs one line. A model without
products of f32 has one variant, XLA as it comes. `us` is the host's clock around 20 executions enqueued one after the
other, ÷ 20, the median of up to 5 such bursts, with quartiles; `enqueue_us` is the host's part of it: where the two are
equal, the host is what is slow. `device_us` is the sum of the kernels' durations by a profiler, `span_us` from the
first kernel's start to the last one's end, ÷ executions; `kernels` counts launches, copies and fills among them. Exit
status: 0 all done, 3 --within ended it before, 1 a model failed (its line says why).
"""
import argparse
import concurrent.futures
import gzip
import importlib
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))
from harness import lines, timing, worker  # noqa: E402

WARM, BURSTS = 3, 5
BURST_SECONDS = 4    # after which no further burst begins
LEAST_SECONDS = 12   # starting JAX on a GPU and compiling the smallest model
TOP_KERNELS = 12

HEAD = re.compile(r"^(?:ENTRY )?%?[\w.\-]+ .*\{\s*$|^[\w.\-]+ \{\s*$")
RESULT = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\w+)\[")
PRODUCT = re.compile(r"^(\s+(?:ROOT )?%?[\w.\-]+ = f32\S* (?:dot|convolution)\(([^()]*)\))(.*)$")


def text_of(path):
    data = pathlib.Path(path).read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def name_of(path):
    return pathlib.Path(path).name.split(".hlo.txt")[0]


def in_f32(text):
    """The text with every product of f32 at the highest precision, and how many there are. XLA has no flag for this: a
    product of f32 is TF32 unless its own operand_precision says otherwise, in cuBLAS, in cuDNN and in Triton."""
    out, types, count = [], {}, 0
    for line in text.splitlines():
        if HEAD.match(line):
            types = {}  # names are a computation's own
        result = RESULT.match(line)
        if result:
            types[result[1]] = result[2]
        product = PRODUCT.match(line)
        if product:
            plain = re.sub(r"\[[^\]]*\]|\{[^}]*\}|/\*.*?\*/", "", product[2])
            operands = [operand.split() for operand in plain.split(",")]
            # An operand is a name, or a type and a name.
            if all((words[0] if len(words) > 1 else types.get(words[-1].lstrip("%"))) == "f32" for words in operands):
                rest = re.sub(r", operand_precision=\{[^}]*\}", "", product[3])
                line = f"{product[1]}, operand_precision={{highest,highest}}{rest}"
                count += 1
        out.append(line)
    return "\n".join(out) + "\n", count


# --- the child: one model, in a process that has JAX ---

def tell(**fields):
    """What is known so far: the parent has it even when this process does not live on."""
    print(json.dumps(fields), flush=True)


def first_of(*ways):
    """What the first way that works returns; JAX's internals move from release to release."""
    failures = []
    for way in ways:
        try:
            return way()
        except (AttributeError, ImportError, TypeError) as error:
            failures.append(f"{type(error).__name__}: {error}"[:200])
    raise RuntimeError("; ".join(failures))


class Module:
    """HLO text as jaxlib takes it."""

    def __init__(self, text):
        from jax._src.lib import xla_client
        self.client = xla_client

        hlo = first_of(lambda: importlib.import_module("jaxlib._hlo"), lambda: xla_client.hlo, lambda: xla_client._xla)
        self.proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        self.computation = first_of(lambda: hlo.XlaComputation(self.proto),
                                    lambda: xla_client.XlaComputation(self.proto))
        mlir = first_of(lambda: xla_client._xla.mlir, lambda: importlib.import_module("jaxlib._jax").mlir)
        self.stablehlo = first_of(lambda: mlir.xla_computation_to_mlir_module(self.computation),
                                  lambda: mlir.hlo_to_stablehlo(self.proto))

    def parameters(self):
        return [(shape.numpy_dtype(), tuple(shape.dimensions()))
                for shape in self.computation.program_shape().parameter_shapes()]

    def options(self):
        """As jax.jit compiles."""
        def jax_own():
            import numpy as np
            from jax._src import compiler
            return compiler.get_compile_options(1, 1, device_assignment=np.array([[0]]))
        return first_of(jax_own, self.client.CompileOptions)

    def compiled(self, device):
        devices = first_of(lambda: self.client.DeviceList((device,)), lambda: self.client._xla.DeviceList((device,)))
        return first_of(lambda: device.client.compile_and_load(self.stablehlo, devices, self.options()),
                        lambda: device.client.compile_and_load(self.stablehlo, devices, self.options(), []),
                        lambda: device.client.compile(self.stablehlo, self.options()))


def drawn(types, names, device):
    """An array for each parameter, made on the device. Integers index tables of unknown lengths: 0 or 1. What is the
    square of something (Adam's second moments, variances) must not be negative: NaNs need less power than numbers."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def maker(dtype, shape, positive):
        def make(seed):
            # One kernel that compiles fast: a hash of the place.
            bits = jax.lax.iota(jnp.uint32, math.prod(shape)) * np.uint32(2654435761) + seed
            for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
                bits = (bits ^ (bits >> shift)) * np.uint32(factor)
            bits ^= bits >> 16
            if jnp.issubdtype(dtype, jnp.floating):
                uniform = (bits >> 8).astype(jnp.float32) * 2.0**-23 - (1 - 2.0**-24)
                normal = jax.lax.erf_inv(uniform) * (0.02 * math.sqrt(2))
                values = abs(normal) if positive else normal
            else:
                values = bits >> 31
            return values.astype(dtype).reshape(shape)
        return jax.jit(make)
    kinds = [(np.dtype(dtype), shape, bool(re.search(r"(^|_)(v|var|variance|nu)_", name)))
             for (dtype, shape), name in zip(types, names, strict=True)]
    seed, distinct = jax.device_put(np.uint32(1), device), list(dict.fromkeys(kinds))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        programs = threads.map(lambda kind: maker(*kind).lower(seed).compile(), distinct)
        makers = dict(zip(distinct, programs, strict=True))
    return jax.block_until_ready([makers[kind](jax.device_put(np.uint32(2 * number + 1), device))
                                  for number, kind in enumerate(kinds)])


def parameter_names(text, count):
    """The entry's, by number."""
    entry = text[text.index("\nENTRY "):]
    found = re.findall(r"^\s+(?:ROOT )?%?([\w.\-]+) = [^=]* parameter\((\d+)\)", entry, re.MULTILINE)
    names = {int(number): name for name, number in found}
    return [names.get(number, "") for number in range(count)]


def by_clock(run, runs):
    import jax
    bursts, host, start = [], [], time.perf_counter()
    while len(bursts) < BURSTS and (not bursts or time.perf_counter() - start < BURST_SECONDS):
        begin = time.perf_counter()
        for _ in range(runs):
            results = run()
        host.append((time.perf_counter() - begin) / runs * 1e6)
        jax.block_until_ready(results)
        bursts.append((time.perf_counter() - begin) / runs * 1e6)
    spread = timing.spread(bursts)
    return {"us": round(spread["median"], 2), "low_us": round(spread["low"], 2), "high_us": round(spread["high"], 2),
            "enqueue_us": round(timing.spread(host)["median"], 2), "runs": runs, "bursts": len(bursts)}


def by_profiler(run, runs):
    """By the first profiler that shows something."""
    import jax
    from harness.recorders import RECORDERS

    def work():
        for _ in range(runs):
            results = run()
        jax.block_until_ready(results)
    failures = []
    for name, recorded in RECORDERS.items():
        try:
            events = recorded(work)
        except Exception as error:  # a profiler that does not work here is no reason to have no time at all
            failures.append(f"{name}: {error}"[:200])
            continue
        if events:
            return {**profiled(events, runs), "method": f"{name}.profiler"}
        failures.append(f"{name}: no events")
    return {"no_profile": "; ".join(failures)[:400]}


def profiled(events, runs):
    """Sums over all executions, ÷ their number: nothing stands between one and the next."""
    one = timing.summed([events])
    names = {}
    for event in events:
        count, us = names.get(event.name, (0, 0.0))
        names[event.name] = (count + 1, us + event.duration)
    top = sorted(names.items(), key=lambda item: -item[1][1])[:TOP_KERNELS]
    return {"device_us": round(one["busy_us"][0] / runs, 2), "span_us": round(one["span_us"][0] / runs, 2),
            "kernels": round(len(events) / runs, 2),
            "top": [[name[:100], round(count / runs, 2), round(us / runs, 2)] for name, (count, us) in top]}


def child(options):
    start = time.monotonic()
    import jax
    import numpy as np
    device = jax.devices()[0]
    text = text_of(options.models[0])
    if options.variant == "no-tf32":
        text, _ = in_f32(text)
    tell(gpu=device.device_kind, jax=jax.__version__, start_s=round(time.monotonic() - start, 2))
    start = time.monotonic()
    module = Module(text)
    tell(parse_s=round(time.monotonic() - start, 2))
    start = time.monotonic()
    program = module.compiled(device)
    tell(compile_s=round(time.monotonic() - start, 2))
    start = time.monotonic()
    types = module.parameters()
    arguments = drawn(types, parameter_names(text, len(types)), device)
    tell(inputs_s=round(time.monotonic() - start, 2), input_bytes=sum(each.nbytes for each in arguments))

    def run():
        return program.execute(arguments)
    for _ in range(WARM):
        results = jax.block_until_ready(run())
    small = [np.asarray(each).astype(np.float64) for each in results if each.nbytes <= 1 << 20]
    tell(finite=bool(all(np.isfinite(each).all() for each in small)))
    del results, small
    tell(**by_clock(run, options.runs))
    tell(**by_profiler(run, options.runs))


# --- the parent: no JAX, so that nothing of it outlives a model ---

def environment_of(options, variant):
    env = {**os.environ, "JAX_PLATFORMS": "cpu" if options.platform == "cpu" else "cuda", "TF_CPP_MIN_LOG_LEVEL": "2"}
    # What the libraries choose by themselves may not be TF32 either; they read this when they are loaded.
    env.pop("NVIDIA_TF32_OVERRIDE", None)
    if variant == "no-tf32":
        env["NVIDIA_TF32_OVERRIDE"] = "0"
    if options.autotune_level is not None:
        env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} --xla_gpu_autotune_level={options.autotune_level}".strip()
    return env


def measured(options, path, variant, seconds):
    """What a child told, and why it told no more: "" if it told all, None if its time was up."""
    command = [sys.executable, __file__, str(path), "--child", "--variant", variant, "--runs", str(options.runs)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=out, stderr=log, env=environment_of(options, variant),
                                   start_new_session=True, preexec_fn=worker.die_with_parent)
        try:
            process.wait(seconds)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        log.seek(0)
        told = {}
        for line in out.read().decode(errors="replace").splitlines():
            try:
                told.update(json.loads(line))
            except (ValueError, TypeError):
                continue  # not ours
        said = log.read().decode(errors="replace").strip()
    if late:
        return told, None
    if process.returncode:
        return told, f"exit status {process.returncode}: {said[-600:]}"
    return told, ""


def steps_of(options, path):
    """The variants of a model. Without products of f32 there is one: XLA as it comes."""
    try:
        products = in_f32(text_of(path))[1]
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        products = 0  # its child will say what is wrong
    wanted = ["no-tf32", "default"] if options.both else ["no-tf32"] if options.no_tf32 else ["default"]
    return [(variant, products) for variant in (wanted if products else ["default"])]


def all_models(options):
    until = time.monotonic() + options.within
    done = {(line["name"], line["variant"]) for line in lines.read_lines(options.results)} if options.results else set()
    failed, longest = False, LEAST_SECONDS
    for path in options.models:
        for variant, products in steps_of(options, path):
            if (name_of(path), variant) in done and not options.again:
                continue
            left = until - time.monotonic()
            if left < longest:
                print(f"time is up before {name_of(path)} {variant}; the same command goes on from there")
                return 3
            start = time.monotonic()
            told, why = measured(options, path, variant, min(options.timeout, left))
            if why is None and left < options.timeout and "us" not in told:
                print(f"time is up in {name_of(path)} {variant}; the same command goes on from there")
                return 3
            spent = time.monotonic() - start
            longest = max(longest, min(spent, LEAST_SECONDS * 2))
            line = {"name": name_of(path), "variant": variant, "platform": options.platform, "f32_products": products,
                    "autotune_level": options.autotune_level, **told, "seconds": round(spent, 1)}
            if why is None:
                why = f"no end in {spent:.0f} s"
            if why:
                line["error"] = why
                failed = True
            if options.results:
                lines.append(options.results, line)
            print(json.dumps(line), flush=True)
    return 1 if failed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, help="JSON-lines file to go on with")
    parser.add_argument("--platform", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--no-tf32", action="store_true", help="products of f32 are f32, as ours are")
    parser.add_argument("--both", action="store_true", help="without TF32, then as XLA comes")
    parser.add_argument("--autotune-level", type=int, help="XLA's own is 4: every library algorithm, results checked")
    parser.add_argument("--runs", default=20, type=int, help="executions in a burst and in the profile")
    parser.add_argument("--timeout", default=150, type=float, help="seconds for a model")
    parser.add_argument("--within", default=math.inf, type=float, help="seconds for this call")
    parser.add_argument("--again", action="store_true", help="also what has a line already")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.child:
        child(options)
        return 0
    return all_models(options)


if __name__ == "__main__":
    sys.exit(main())
