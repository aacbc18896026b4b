#!/usr/bin/env python3
"""Our predictions for attention kernels beside times that others published. Nothing runs: no times measured here.

    bench/attention/compare.py            ranks the schedules of every published case, prints the page
    bench/attention/compare.py --write    also writes bench/results/attention.md

The published times, their sources and how they were measured: bench/attention/README.md. Ours are of kernels by
mma.sync and cp.async, as FlashAttention-2 is; FlashAttention-3 and cuDNN on Hopper multiply by wgmma. A backward pass
of ours is two kernels, of queries and of keys and values, and small ones around them that are priced here by what
they move.
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
GRADIENTS = ("queries", "keys_and_values")
# What a kernel takes that moves nothing, as the models have it; of a backward pass's small kernels.
LAUNCH_US = 2


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


def backward_rival(kernel):
    """Finer than kind_of: whose backward pass it is, and whether sums come in a fixed order, as ours do."""
    if "open-source engine" in kernel:
        kind = "cudnn-frontend's open engine"
    elif "FlashAttention-4" in kernel:
        kind = "FlashAttention-4"
    else:
        kind = kind_of(kernel)
    return kind + (", deterministic" if "deterministic" in kernel else "")


def ask(stitch, target, problems):
    """What `stitch contractions` says of each."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([problem | {"name": str(i)} for i, problem in enumerate(problems)], file)
        file.flush()
        lines = subprocess.run([stitch, "contractions", "--problems", file.name, "--target", target, "--json"],
                               check=True, capture_output=True, text=True).stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    if len(answers) != len(problems):
        raise SystemExit(f"{stitch}: {len(answers)} answers to {len(problems)} problems")
    for problem, answer in zip(problems, answers):
        if "gradient" in problem and "tile" in answer and "columns" not in answer["tile"]:
            raise SystemExit(f"{stitch} does not know gradients")
    return answers


def by_target(cases):
    wanted = {}
    for case in cases:
        wanted.setdefault(TARGETS[case["gpu"]], {})[tuple(case[field] for field in SHAPE)] = None
    return {target: list(shapes) for target, shapes in wanted.items()}


def predictions(stitch, cases):
    """By target and shape: what `stitch contractions` says."""
    found = {}
    for target, shapes in by_target(cases).items():
        answers = ask(stitch, target, [dict(zip(SHAPE, shape)) for shape in shapes])
        found |= {(target, shape): answer for shape, answer in zip(shapes, answers)}
    return found


def bandwidths():
    """Of device memory, bytes a microsecond, by target: the table that the models plan by (docs/devices.md)."""
    found = {}
    for line in (ROOT / "docs/devices.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 7 and cells[1].startswith("`"):
            found[cells[1].strip("`")] = float(cells[6]) * 1e3
    return found


def small_kernels_us(case, bandwidth):
    """What is neither of the two kernels: for each row the sum of gradient times result, and where heads share keys
    and values the sum of what each head of queries makes of their gradients."""
    size = 4 if case["dtype"] == "f32" else 2
    rows = case["batch"] * case["heads"] * case["rows"]
    us = LAUNCH_US + rows * (2 * case["width"] * size + 4) / bandwidth
    if case["heads"] != case["kv_heads"]:
        heads = case["heads"] + case["kv_heads"]
        us += LAUNCH_US + case["batch"] * heads * case["keys"] * (case["depth"] + case["width"]) * size / bandwidth
    return us


def backward_predictions(stitch, cases):
    """By target and shape: times of the two kernels and of the small ones, and what binds the two; or why there is
    none."""
    found, bandwidth = {}, bandwidths()
    for target, shapes in by_target(cases).items():
        problems = [dict(zip(SHAPE, shape)) | {"gradient": of} for shape in shapes for of in GRADIENTS]
        answers = ask(stitch, target, problems)
        for shape, queries, others in zip(shapes, answers[0::2], answers[1::2]):
            why = queries.get("why_none") or others.get("why_none")
            if why:
                found[target, shape] = {"why_none": why}
                continue
            small = small_kernels_us(dict(zip(SHAPE, shape)), bandwidth[target])
            found[target, shape] = {"queries_us": queries["predicted_us"], "others_us": others["predicted_us"],
                                    "small_us": small,
                                    "predicted_us": queries["predicted_us"] + others["predicted_us"] + small,
                                    "bound_by": [queries["bound_by"], others["bound_by"]]}
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


def heads_of(case):
    return (f"{case['dtype']} {case['batch']}×{case['heads']}"
            f"{'' if case['heads'] == case['kv_heads'] else '/' + str(case['kv_heads'])}")


def depth_of(case):
    return f"{case['depth']}{'' if case['depth'] == case['width'] else '/' + str(case['width'])}"


def of(values):
    """A group's cells: how many, mean, spread, least and most."""
    if not values:
        return "0 | | |"
    return f"{len(values)} | {geometric_mean(values):.2f} | × {spread(values):.2f} | {min(values):.2f} to {max(values):.2f}"


def backward_summary(title, groups):
    """Of (ratio, held out): those at hand, and those that were put aside before anybody saw a ratio."""
    lines = [f"### {title}", "", "| | two thirds: cases | mean | spread | range | held out: cases | mean | spread | range |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, values in sorted(groups.items()):
        lines.append(f"| {name} | {of([v for v, held in values if not held])} | {of([v for v, held in values if held])} |")
    return lines + [""]


def backward(cases, predicted):
    """The page's section of the backward pass."""
    by_kernel, fastest, refused = {}, {}, {}
    for case in cases:
        target, shape = TARGETS[case["gpu"]], tuple(case[field] for field in SHAPE)
        ours = predicted[target, shape]
        if "why_none" in ours:
            what = f"{heads_of(case)}, {case['rows']} rows, depth {depth_of(case)}{', causal' if case['causal'] else ''}"
            refused.setdefault((what, ours["why_none"]), {})[target] = None
            continue
        value = (ours["predicted_us"] / case["us"], case["held_out"])
        by_kernel.setdefault(f"{target}, {backward_rival(case['kernel'])}", []).append(value)
        key = (target, shape)
        if key not in fastest or case["us"] < fastest[key]["us"]:
            fastest[key] = case
    groups, rows = {}, []
    for (target, shape), case in fastest.items():
        ours = predicted[target, shape]
        ratio = ours["predicted_us"] / case["us"]
        groups.setdefault(target, []).append((ratio, case["held_out"]))
        rows.append(f"| {target} | {heads_of(case)} | {case['rows']} | {depth_of(case)} | {'yes' if case['causal'] else ''} | "
                    f"{case['us']:.1f} | {case['kernel']} | {ours['queries_us']:.1f} + {ours['others_us']:.1f} + "
                    f"{ours['small_us']:.1f} | {ratio:.2f} | {'; '.join(dict.fromkeys(ours['bound_by']))} | "
                    f"{'yes' if case['held_out'] else ''} |")
    lines = ["## Backward pass", "",
             f"{len(cases)} published times. Ours is the sum of two kernels, of queries and of keys and values, each of "
             "the schedule that the model thinks fastest, and of small ones (for each row the sum of gradient times "
             "result; the sum over heads that share keys and values), which are bytes ÷ memory bandwidth and a launch. "
             "The two kernels multiply seven times what the published ones do five times (three of 2·rows·keys·depth "
             "and two of ·width; ours compute scores and their slopes in both); their sums come in a fixed order, as "
             "those of rivals named deterministic do. A third of the shapes was put aside before any ratio was seen "
             "(every third of the sorted list; on every GPU the same). No constant was fitted to any of them.", ""]
    lines += backward_summary("Beside the fastest that was published for the shape", groups)
    lines += backward_summary("Beside each kernel", by_kernel)
    if refused:
        lines += ["### Without kernels of ours", ""]
        lines += [f"* {what} ({', '.join(targets)}): {why}" for (what, why), targets in sorted(refused.items())] + [""]
    lines += ["### Shapes", "", "| GPU | heads | rows, keys | depth | causal | published, µs | by | ours predicted, µs: queries + "
              "keys and values + small | ratio | bound by | held out |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    return lines + sorted(rows)


def page(cases, predicted, backward_section):
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
        rows.append(f"| {target} | {heads_of(case)} | {case['rows']} | {case['keys']} | {depth_of(case)} | "
                    f"{'yes' if case['causal'] else ''} | {us:.1f} | {kernel} | {ours['predicted_us']:.1f} | "
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
              "|---|---|---|---|---|---|---|---|---|---|---|"] + sorted(rows) + [""]
    return "\n".join(lines + backward_section) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write bench/results/attention.md")
    parser.add_argument("--stitch", default=STITCH, help="the binary, by default of the release build")
    arguments = parser.parse_args()
    published = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
    known = [case for case in published["cases"] if case["gpu"] in TARGETS]
    forward = [case for case in known if case["direction"] == "forward"]
    others = [case for case in known if case["direction"] == "backward"]
    section = backward(others, backward_predictions(arguments.stitch, others))
    text = page(forward, predictions(arguments.stitch, forward), section)
    if arguments.write:
        (ROOT / "bench/results/attention.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
