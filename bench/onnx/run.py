"""Runs the models of bench/models/onnx, and ONNX's node suite, by stitch.onnx beside onnxruntime; writes
bench/results/onnx.md.

    scripts/test-python --run bench/onnx/run.py [--models NAME,… | --models none] [--cases N] [--timeout SECONDS]

Needs onnx and onnxruntime. Weights are random, the same for both, from a seed; models are as they are exported, not
scaled. Each model, and each third of the suite, has a process of its own. On the emulated device, whose time says
nothing: what is compared are results.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
import zlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "bench" / "models" / "onnx"
OPTIONS = [{"deadline_ms": 600_000, "improve": False}]
PARTS = 3

# Two units in the last place of a 16-bit float; 1e-3 of others, as ONNX's own runner.
TOLERANCES = {"float16": 2**-9, "bfloat16": 2**-6}


def array_of(name: str, code: int, shape, facts: dict) -> numpy.ndarray:
    """Random elements by the name's hash: floats of a layer's usual size, integers inside what the model indexes."""
    random = numpy.random.default_rng(zlib.crc32(name.encode()))
    dtype = helper.tensor_dtype_to_np_dtype(code)
    if dtype == bool:
        return random.integers(0, 2, shape).astype(bool)
    if numpy.issubdtype(dtype, numpy.integer):
        known = facts.get("stripped_integers", {}).get(name, {"min": 0, "max": 1})
        return random.integers(known["min"], known["max"] + 1, shape).astype(dtype)
    fan_in = int(numpy.prod(shape[1:])) if len(shape) > 1 else 1
    scale = fan_in**-0.5 if len(shape) > 1 else 0.1
    values = random.standard_normal(shape, "float32") * scale
    # Variances of normalisations, and their factors, are about 1.
    if len(shape) == 1 and any(word in name for word in ("weight", "var", "gamma")):
        values = 1 + numpy.abs(values)
    return values.astype(dtype)


def extents_indexed(model) -> dict:
    """Of initializers that GatherND takes for tuples of indices: the extents that these index."""
    model = onnx.shape_inference.infer_shapes(model)
    values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    shapes = {v.name: [extent.dim_value for extent in v.type.tensor_type.shape.dim] for v in values}
    shapes |= {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type == "GatherND" and node.input[0] in shapes:
            batch = next((a.i for a in node.attribute if a.name == "batch_dims"), 0)
            found[node.input[1]] = shapes[node.input[0]][batch:]
    return found


def stand_in(name: str, folder: pathlib.Path) -> tuple[pathlib.Path, dict]:
    """The model with a file of weights beside it, and feeds for it."""
    facts = json.loads((MODELS / f"{name}.json").read_text())
    model = onnx.load(MODELS / f"{name}.onnx", load_external_data=False)
    indexed = extents_indexed(model)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            array = array_of(tensor.name, tensor.data_type, tuple(tensor.dims), facts)
            if extents := indexed.get(tensor.name):
                array %= numpy.asarray(extents[: array.shape[-1]], array.dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    path = folder / f"{name}.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location=f"{name}.weights", size_threshold=1024)
    feeds = {}
    for port in model.graph.input:
        shape = [extent.dim_value for extent in port.type.tensor_type.shape.dim]
        feeds[port.name] = array_of(port.name, port.type.tensor_type.elem_type, shape, facts)
    return path, feeds


def difference(ours, theirs) -> tuple[float, str | None]:
    """The largest difference over the largest value of its output, and what is not comparable."""
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        other = numpy.asarray(other)
        if one.dtype != other.dtype or one.shape != other.shape:
            return float("inf"), f"{one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
        if one.size == 0:
            continue
        a, b = one.astype("float64"), other.astype("float64")
        if not numpy.array_equal(numpy.isfinite(a), numpy.isfinite(b)):
            return float("inf"), "other elements are finite"
        a, b = a[numpy.isfinite(a)], b[numpy.isfinite(b)]
        if a.size:
            worst = max(worst, float(numpy.abs(a - b).max() / max(numpy.abs(b).max(), 1e-6)))
    return worst, None


def run_model(name: str) -> dict:
    import onnxruntime

    import stitch.onnx

    with tempfile.TemporaryDirectory() as folder:
        path, feeds = stand_in(name, pathlib.Path(folder))
        began = time.monotonic()
        session = stitch.onnx.InferenceSession(path, provider_options=OPTIONS)
        made = time.monotonic()
        ours = session.run(None, feeds)
        ran = time.monotonic()
        try:
            theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
        except Exception as refusal:  # of classes of its own
            return {"failed": f"runs; onnxruntime does not: {str(refusal).split(' : ')[-1][:120]}"}
    error, why = difference(ours, theirs)
    info = session.info()
    return {
        "error": error,
        "why": why,
        "steps": info["steps"],
        "launches": info["launches"],
        "fallbacks": len(info["fallbacks"]),
        "arena": info["arena_bytes"],
        "eager": info["eager_bytes"],
        "made": made - began,
        "ran": ran - made,
    }


def arrays(values) -> list:
    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else numpy.asarray(v) for v in values]


def reason_of(error: Exception) -> str:
    """The message without the code in front of it and without the place, which is node 0 in these models."""
    words = str(error).split(" : ", 3)[-1]
    for common in ("operators that nobody here computes: ", "ONNX model: ", " (node 0)", "node 0 "):
        words = words.replace(common, "")
    return words


def run_case(case) -> str:
    """ "equal to onnxruntime", "equal to the suite" (where onnxruntime is none), "refused: …", or what is wrong."""
    import onnxruntime

    import stitch.onnx

    source = case.model.SerializeToString()
    try:
        session = stitch.onnx.InferenceSession(source, provider_options=OPTIONS)
        names = [port.name for port in session.get_inputs()]
        results = [session.run(None, dict(zip(names, arrays(inputs), strict=True))) for inputs, _ in case.data_sets]
    except stitch.onnx.NotImplemented as error:
        return f"refused: {reason_of(error)}"
    except Exception as error:
        return f"{type(error).__name__}: {reason_of(error)}"
    of_suite = [arrays(outputs) for _, outputs in case.data_sets]
    try:
        other = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        of_other = [other.run(None, dict(zip(names, arrays(inputs), strict=True))) for inputs, _ in case.data_sets]
    except Exception:
        wrong = unlike(results, of_suite)
        return f"differs from the suite, onnxruntime refuses: {wrong}" if wrong else "equal to the suite"
    wrong = unlike(results, of_other)
    if wrong and not unlike(results, of_suite):
        return "equal to the suite, not to onnxruntime"
    return f"differs from onnxruntime: {wrong}" if wrong else "equal to onnxruntime"


def is_wrong(result: str) -> bool:
    return not result.startswith(("equal", "refused"))


def unlike(results, expected) -> str | None:
    """What is not equal within the tolerances."""
    for ours, theirs in zip(results, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            other = numpy.asarray(other)
            if one.dtype != other.dtype or one.shape != other.shape:
                return f"{one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
            tolerance = TOLERANCES.get(one.dtype.name, 1e-3)
            close = numpy.isclose(one.astype("float64"), other.astype("float64"), tolerance, 1e-6, equal_nan=True)
            if not close.all():
                return f"{int((~close).sum())} of {close.size} elements"
    return None


def suite(part: int, count: int, only: list[str]) -> dict:
    """Every PARTS-th case from `part` on, of `count` in all that are spread over the suite, or those of these names;
    expanded forms are left out."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    cases = sorted(
        (case for case in collect_testcases(None) if "_expanded" not in case.name), key=lambda case: case.name
    )
    chosen = cases if count <= 0 or count >= len(cases) else [cases[i * len(cases) // count] for i in range(count)]
    results = {"of": len(cases)}
    for case in [case for case in cases if case.name in only] if only else chosen[part::PARTS]:
        results[case.name] = run_case(case)
    return results


def page(results: dict) -> str:
    sys.path.insert(0, str(ROOT / "bench"))
    import onnxruntime
    import provenance

    lines = [
        "# ONNX models and cases beside onnxruntime",
        "",
        "Made by `scripts/test-python --run bench/onnx/run.py` ([docs/onnx-python.md](../../docs/onnx-python.md)):"
        f" `stitch.onnx.InferenceSession` and onnxruntime {onnxruntime.__version__} on the same inputs, ours on the"
        " emulated device with predicted plans, products and convolutions by OpenBLAS. The error is the largest"
        " difference over the largest value of its output; models in f16 and bf16 round at other places than"
        " onnxruntime does. The exported graphs are as they are, weights are random. Seconds are those of a busy"
        " machine that emulates a GPU, to say what can be tried at all, and no time of anything else.",
        "",
        f"{provenance.machine()}, commit {provenance.commit()}.",
        "",
        "| model | error | steps | launches | by the reference | arena, MB | eager, MB | made, s | run, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(results["models"].items()):
        if "failed" in row:
            lines.append(f"| {name} | **{row['failed']}** | | | | | | | |")
            continue
        error = f"**{row['why']}**" if row["why"] else f"{row['error']:.1e}"
        steps = ", ".join(f"{count} {kind}" for kind, count in sorted(row["steps"].items()))
        lines.append(
            f"| {name} | {error} | {steps} | {row['launches']} | {row['fallbacks']} | {row['arena'] / 1e6:.1f} |"
            f" {row['eager'] / 1e6:.1f} | {row['made']:.0f} | {row['ran']:.0f} |"
        )
    left = sorted(path.stem for path in MODELS.glob("*.onnx") if path.stem not in results["models"])
    if left:
        lines += ["", f"Not tried: {', '.join(left)}."]
    cases = dict(results["cases"])
    of = cases.pop("of", 0)
    if cases:
        groups: dict = {}
        for name, result in cases.items():
            kind = "wrong" if is_wrong(result) else "refused" if result.startswith("refused") else result
            groups.setdefault(kind, []).append(name)
        lines += [
            "",
            f"Of the {of} cases of the node suite (onnx {onnx.__version__}, without the expanded forms) {len(cases)}"
            " were run, to a relative 1e-3, or two units in the last place of 16-bit floats; where onnxruntime refuses"
            " a case, or differs from the suite, the suite's own values are the measure.",
            "",
            "| | cases |",
            "|---|---|",
            *[f"| {kind} | {len(names)} |" for kind, names in sorted(groups.items())],
        ]
        if "wrong" in groups:
            lines += ["", "Wrong, or not run for another reason:", ""]
            lines += [f"* `{name}`: {cases[name][:300]}" for name in groups["wrong"]]
        if "refused" in groups:
            reasons: dict = {}
            for name in groups["refused"]:
                reasons.setdefault(cases[name].removeprefix("refused: ")[:160], []).append(name.removeprefix("test_"))
            lines += ["", "Refused, by reason:", ""]
            lines += [f"* {reason}: {', '.join(names)}" for reason, names in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def in_process(words: list[str], timeout: float) -> tuple[dict | None, str]:
    """What a process of this program prints on its last line, or why it did not."""
    try:
        done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, timeout=timeout, text=True)
    except subprocess.TimeoutExpired:
        return None, f"not done after {timeout:.0f} s"
    if done.returncode:
        return None, f"ended with status {done.returncode}"
    return json.loads(done.stdout.splitlines()[-1]), ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = ",".join(sorted(path.stem for path in MODELS.glob("*.onnx")))
    parser.add_argument("--models", default=everything, help="names, or none")
    parser.add_argument("--cases", type=int, default=400, help="how many of the node suite; 0: all")
    parser.add_argument("--again", action="store_true", help="of the suite only what was not equal in --log")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one model, or a part of the suite")
    parser.add_argument("--log", help="a file of results, JSON, that another run adds to")
    parser.add_argument("--output", default=str(ROOT / "bench" / "results" / "onnx.md"))
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.model:
        print(json.dumps(run_model(arguments.model)))
        return
    if arguments.part is not None:
        print(json.dumps(suite(arguments.part, arguments.cases, arguments.only.split(",") if arguments.only else [])))
        return
    log = pathlib.Path(arguments.log) if arguments.log else None
    results = json.loads(log.read_text()) if log and log.exists() else {"models": {}, "cases": {}}

    def keep() -> None:
        if log:
            log.write_text(json.dumps(results))
        pathlib.Path(arguments.output).write_text(page(results))

    if arguments.again:
        bad = [name for name, result in results["cases"].items() if name != "of" and is_wrong(result)]
        found, failed = in_process(["--part", "0", "--only", ",".join(bad)], arguments.timeout)
        results["cases"].update(found or {})
        print("again", failed or "done", file=sys.stderr, flush=True)
        keep()
    elif arguments.cases >= 0:
        for part in range(PARTS):
            words = ["--part", str(part), "--cases", str(arguments.cases)]
            found, failed = in_process(words, arguments.timeout)
            results["cases"].update(found or {f"part {part}": failed})
            print(f"part {part}", failed or "done", file=sys.stderr, flush=True)
            keep()
    for name in [] if arguments.models == "none" else arguments.models.split(","):
        found, failed = in_process(["--model", name], arguments.timeout)
        results["models"][name] = found or {"failed": failed}
        print(name, failed or "done", file=sys.stderr, flush=True)
        keep()


if __name__ == "__main__":
    main()
