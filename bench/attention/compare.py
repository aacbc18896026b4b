#!/usr/bin/env python3
"""Our predictions for attention kernels beside times that others published. Nothing runs: no times measured here.

    bench/attention/compare.py            ranks the schedules of every published case, prints the page
    bench/attention/compare.py --write    also writes bench/results/attention.md

The published times, their sources and how they were measured: bench/attention/README.md. Ours are of kernels by
mma.sync and cp.async, as FlashAttention-2 is; FlashAttention-3 and cuDNN on Hopper multiply by wgmma.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import provenance  # noqa: E402

STITCH = ROOT / "build/release/bin/stitch"
# What the device table calls a published GPU; those of others are left out.
TARGETS = {"h100": "h100", "h200": "h200", "h20": "h20", "a100-80gb": "a100-80gb", "a100-80gb-pcie": "a100-pcie",
           "rtx-pro-6000": "rtx-pro-6000", "rtx5090": "rtx5090", "b200": "b200"}
SHAPE = ("dtype", "batch", "heads", "kv_heads", "rows", "keys", "depth", "width", "causal")
# Sources that time from the host, launches included: they say little of short kernels.
HOST_TIMED = ("fxmarty", "xformers", "a5000", "b200-issue", "h20-issue")
SHORT_US = 100


def kind_of(kernel):
    name = kernel.lower()
    if "eager" in name or "standard" in name or "unfused" in name or "math" in name:
        return "unfused"
    if "flashattention-2" in name or "flashattention 2" in name or name.startswith("fa2"):
        return "FlashAttention-2"
    if "flashattention-1" in name or "flashattention 1" in name:
        return "FlashAttention-1"
    if "cudnn" in name:
        return "cuDNN"
    if "flashattention-3" in name:
        return "FlashAttention-3"
    if "triton" in name:
        return "Triton"
    return "other"


def predictions(cases):
    """By target and shape: what `stitch contractions` says."""
    wanted = {}
    for case in cases:
        wanted.setdefault(TARGETS[case["gpu"]], {})[tuple(case[field] for field in SHAPE)] = None
    found = {}
    for target, shapes in wanted.items():
        problems = [dict(zip(SHAPE, shape)) | {"name": str(i)} for i, shape in enumerate(shapes)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(problems, file)
            file.flush()
            lines = subprocess.run([STITCH, "contractions", "--problems", file.name, "--target", target, "--json"],
                                   check=True, capture_output=True, text=True).stdout.splitlines()
        for shape, line in zip(shapes, lines, strict=True):
            found[target, shape] = json.loads(line)
    return found


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def spread(values):
    """The factor either way of the mean that holds a standard deviation."""
    middle = math.log(geometric_mean(values))
    return math.exp(math.sqrt(sum((math.log(v) - middle) ** 2 for v in values) / len(values)))


def summary(title, groups):
    lines = [f"## {title}", "", "| | cases | mean | spread | least | most |", "|---|---|---|---|---|---|"]
    for name, values in sorted(groups.items()):
        lines.append(f"| {name} | {len(values)} | {geometric_mean(values):.2f} | × {spread(values):.2f} | "
                     f"{min(values):.2f} | {max(values):.2f} |")
    return lines + [""]


def page(cases, predicted):
    about = provenance.about("bench/attention/compare.py --write")
    by_kernel, fastest, unfused, refused = {}, {}, {}, []
    rows = []
    for case in cases:
        target, shape = TARGETS[case["gpu"]], tuple(case[field] for field in SHAPE)
        ours = predicted[target, shape]
        if "why_none" in ours:
            refused.append(f"{target} {shape}: {ours['why_none']}")
            continue
        if any(case["source"].startswith(name) for name in HOST_TIMED) and case["us"] < SHORT_US:
            continue
        kind = kind_of(case["kernel"])
        if kind == "unfused":
            unfused.setdefault(target, []).append(ours["library_us"] / case["us"])
            continue
        ratio = ours["predicted_us"] / case["us"]
        decoding = "decoding" if case["rows"] == 1 else "prefill or training"
        by_kernel.setdefault(f"{target}, {kind}, {decoding}", []).append(ratio)
        key = (target, shape)
        if key not in fastest or case["us"] < fastest[key][0]:
            fastest[key] = (case["us"], case["kernel"], ours)
    groups = {}
    for (target, shape), (us, kernel, ours) in fastest.items():
        case = dict(zip(SHAPE, shape))
        groups.setdefault(f"{target}, {'decoding' if case['rows'] == 1 else 'prefill or training'}", []).append(
            ours["predicted_us"] / us)
        rows.append(f"| {target} | {case['dtype']} {case['batch']}×{case['heads']}"
                    f"{'' if case['heads'] == case['kv_heads'] else '/' + str(case['kv_heads'])} | {case['rows']} | "
                    f"{case['keys']} | {case['depth']}{'' if case['depth'] == case['width'] else '/' + str(case['width'])}"
                    f" | {'yes' if case['causal'] else ''} | {us:.1f} | {kernel} | {ours['predicted_us']:.1f} | "
                    f"{ours['predicted_us'] / us:.2f} | {ours['bound_by']} |")
    lines = ["# Attention: predictions beside published times", "",
             f"Written by `{about['command']}` on {about['date']}, commit {about['commit']}, {about['machine']}. "
             f"{len(cases)} published times of GPUs that the device table has ([sources](../attention/README.md)); of "
             f"what was timed from the host those below {SHORT_US} µs are left out. **Predicted, never measured**: ours "
             "÷ published, of the schedule that the model thinks fastest; geometric means, and the factor either way "
             "that holds a standard deviation. No constant was fitted to these times; they were at hand when the space "
             "was widened for decoding.", ""]
    lines += summary("Beside the fastest that was published for the shape", groups)
    lines += summary("Beside each kernel", by_kernel)
    if unfused:
        lines += summary("Three steps (our prediction of the library's products and a softmax between) beside unfused ones",
                         unfused)
    if refused:
        lines += ["## Without a kernel of ours", ""] + [f"* {each}" for each in refused] + [""]
    lines += ["## Shapes", "",
              "| GPU | heads | rows | keys | depth | causal | published, µs | by | ours predicted, µs | ratio | bound by |",
              "|---|---|---|---|---|---|---|---|---|---|---|"] + sorted(rows)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write bench/results/attention.md")
    arguments = parser.parse_args()
    published = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
    cases = [case for case in published["cases"] if case["gpu"] in TARGETS]
    text = page(cases, predictions(cases))
    if arguments.write:
        (ROOT / "bench/results/attention.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
