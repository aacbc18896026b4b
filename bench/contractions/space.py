#!/usr/bin/env python3
"""How many schedules there are of each shape of ALCOP and DeepCuts and of the attentions of bench/products, what it takes to
enumerate and rank them, to compile the best 32, what pruning by DeepCuts' bound would leave out, and what pipelining is
predicted to gain (ALCOP's ablations). Writes bench/results/contractions_search.md.

    bench/contractions/space.py [--stitch build/release/bin/stitch] [--repeats 3]     prints the page
    bench/contractions/space.py --write                                               and writes it
    bench/contractions/space.py --compile-on a100 …                                   GPUs that kernels are compiled for

`stitch contractions --problems … --target GPU --json [--without …] [--least-bound …]`, one GPU after the other. Times: processor time of the
whole command, which other work on the machine hardly changes, less what it takes for no problem at all; of each shape the
least time by the clock of the repeats, which other work does change. `stitch contractions --compile 32` compiles the best of
a shape side by side with NVRTC, as tuning does: of each family the shape whose number of schedules is the median. Needs no GPU
and no package; nothing is measured on one.
Errors: a stitch that fails, with what it said.
"""
import argparse
import collections
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import provenance  # noqa: E402
from coverage import alcop, attentions, deepcuts  # noqa: E402

PAGE = ROOT / "bench/results/contractions_search.md"
GPUS = ("a100", "l4", "h100", "b200")
ABLATIONS = ("two-stages", "one-level", "no-pipelining")
SHARES = (0.3, 0.5, 0.7, 0.9)  # of the greatest bound by which DeepCuts prunes
ABLATED = ("a100", "h100")  # ALCOP's own GPU, and one whose copies come by the engine
COMPILED = 32  # of the ranking: what the search keeps
#                of the pipelined kernels' speed-up over TVM's, arXiv 2210.16691, section 5.2, in the mean
PUBLISHED = {"none": 1.23, "one-level": 1.13, "two-stages": 1.01}
WORDS = {"one-level": "without registers as a level", "two-stages": "with two stages at the most",
         "no-pipelining": "without any"}


def kind_of(problem):
    if "keys" in problem:
        return "attention's gradients" if "gradient" in problem else "attentions"
    return "convolutions" if "window" in problem else "products"


def family_of(problem):
    name = problem["name"].split("/")[0]
    return {"alcop": "ALCOP", "deepcuts": "DeepCuts"}.get(name, "bench/products") + ", " + kind_of(problem)


def run(command):
    """Its lines and the processor seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [json.loads(line) for line in done.stdout.splitlines()], seconds


def ranked(options, problems, gpu, ablation="none", repeats=1, least_bound=0):
    """Of each shape its line, `ranking_seconds` the least of the repeats; and processor seconds of a run, the median."""
    with tempfile.TemporaryDirectory() as folder:
        listed, none = pathlib.Path(folder) / "problems.json", pathlib.Path(folder) / "none.json"
        listed.write_text(json.dumps(problems))
        none.write_text("[]")
        command = [options.stitch, "contractions", "--target", gpu, "--json", "--without", ablation, "--least-bound",
                   least_bound, "--problems"]
        runs = [run([*command, listed]) for _ in range(repeats)]
        idle = min(run([*command, none])[1] for _ in range(repeats))
    lines = runs[0][0]
    for at, line in enumerate(lines):
        if "why_none" not in line:
            line["ranking_seconds"] = min(each[0][at]["ranking_seconds"] for each in runs)
    return lines, statistics.median(each[1] for each in runs) - idle


def median_shapes(problems, lines):
    """Of each family the shape whose number of schedules is the (lower) median."""
    families = collections.defaultdict(list)
    for problem, line in zip(problems, lines):
        if "why_none" not in line:
            families[family_of(problem)].append((line["enumerated"], problem["name"], problem))
    return {family: sorted(members)[(len(members) - 1) // 2][2] for family, members in families.items()}


def compiled(options, problem, gpu):
    """The best of a shape compiled: its line, with the processor seconds of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder) / "problems.json"
        listed.write_text(json.dumps([problem]))
        lines, seconds = run([options.stitch, "contractions", "--target", gpu, "--compile", COMPILED, "--problems", listed])
    return lines[0] | {"processor_seconds": seconds}


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def counts_table(problems, lines_of):
    """Down families, across GPUs: schedules in the median and at most."""
    families = collections.defaultdict(list)
    for at, problem in enumerate(problems):
        families[family_of(problem)].append(at)
    rows = ["| | shapes | " + " | ".join(lines_of) + " |", "|---|---|" + "---|" * len(lines_of)]
    for family, members in families.items():
        cells = []
        for lines in lines_of.values():
            counts = [lines[at]["enumerated"] for at in members if "why_none" not in lines[at]]
            none = len(members) - len(counts)
            cells.append((f"{figure(statistics.median(counts))} ({figure(min(counts))} – {figure(max(counts))})" if counts
                          else "") + (f", {none} without any" if none else ""))
        rows.append(f"| {family} | {len(members)} | " + " | ".join(cells) + " |")
    return rows


def time_rows(lines_of, seconds_of):
    rows = ["| GPU | schedules of all shapes | processor time | a shape | a schedule | by the clock, a shape: median | most |",
            "|---|---|---|---|---|---|---|"]
    for gpu, lines in lines_of.items():
        ours = [line for line in lines if "why_none" not in line]
        schedules, seconds = sum(line["enumerated"] for line in ours), seconds_of[gpu]
        clock = [1e3 * line["ranking_seconds"] for line in ours]
        rows.append(f"| {gpu} | {schedules:,} | {seconds:.2f} s | {1e3 * seconds / len(ours):.1f} ms | "
                    f"{1e6 * seconds / schedules:.2f} us | {statistics.median(clock):.1f} ms | {max(clock):.0f} ms |")
    return rows


def compile_rows(compiled_of):
    """By GPU and family: seconds, and what spills."""
    rows = ["| GPU | shape | compiled | by the clock | processor time | a kernel | spill | their registers, bytes spilled |",
            "|---|---|---|---|---|---|---|---|"]
    for gpu, lines in compiled_of.items():
        for line in lines:
            count = len(line["kernels"])
            spilling = [kernel for kernel in line["kernels"] if kernel["spilled"]]
            what = ", ".join(f"{kernel['registers']}: {kernel['spilled']} (place {kernel['place']})" for kernel in spilling)
            rows.append(f"| {gpu} | {line['name']} | {count} | {line['seconds']:.1f} s | {line['processor_seconds']:.1f} s | "
                        f"{1e3 * line['processor_seconds'] / count:.0f} ms | {len(spilling)} | {what or '–'} |")
    return rows


def compile_summary(compiled_of):
    lines = [line for lines in compiled_of.values() for line in lines]
    seconds = [line["processor_seconds"] for line in lines]
    kernels = [kernel for line in lines for kernel in line["kernels"]]
    spilling = [kernel for kernel in kernels if kernel["spilled"]]
    return (f"Of {len(kernels)} kernels {len(spilling)} spill, {sum(kernel['place'] == 0 for kernel in spilling)} of them the best "
            f"predicted of its shape. The best {COMPILED} of a shape take {statistics.median(seconds):.0f} s of processor time in "
            f"the median, {max(seconds):.0f} s at most: on {lines[0]['processors']} cores with nothing else to do "
            f"{statistics.median(seconds) / lines[0]['processors']:.0f} s and {max(seconds) / lines[0]['processors']:.0f} s.")


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def gains(whole, without):
    """Predicted time without ÷ with, of the shapes that have a kernel in both."""
    return [b["predicted_us"] / a["predicted_us"] for a, b in zip(whole, without) if "why_none" not in a and "why_none" not in b]


def ablation_rows(problems, whole, parts):
    """`whole`: lines of a GPU; `parts`: the same of each ablation. What all that is left does for the time."""
    kinds = ["all", *dict.fromkeys(map(kind_of, problems))]
    rows = ["| pipelining | " + " | ".join(kinds) + " | least – most | ALCOP |", "|---|" + "---|" * (len(kinds) + 2)]

    def of(lines):
        return gains(lines, parts["no-pipelining"])

    for name, lines in [("none", whole), *((name, parts[name]) for name in ("one-level", "two-stages"))]:
        cells = []
        for kind in kinds:
            chosen = [at for at, problem in enumerate(problems) if kind in ("all", kind_of(problem))]
            cells.append(f"{geometric_mean(gains([lines[at] for at in chosen], [parts['no-pipelining'][at] for at in chosen])):.2f}")
        every = of(lines)
        rows.append(f"| {'as it is' if name == 'none' else WORDS[name]} | " + " | ".join(cells) +
                    f" | {min(every):.2f} – {max(every):.2f} | {PUBLISHED[name]:.2f} |")
    return rows


def pruned_rows(lines_of, seconds_of, pruned_of):
    """By GPU and share: what is left, and what the best of that is predicted to take beside the best of all."""
    rows = ["| GPU | share of the greatest bound | schedules left | processor time ÷ without | best left ÷ best: geometric mean | most "
            "| the best is left |", "|---|---|---|---|---|---|---|"]
    for (gpu, share), (lines, seconds) in pruned_of.items():
        pairs = [(a, b) for a, b in zip(lines_of[gpu], lines) if "why_none" not in a and "predicted_us" in b]
        left = statistics.mean(1 - b.get("pruned", 0) / b["enumerated"] for _, b in pairs)
        times = [b["predicted_us"] / a["predicted_us"] for a, b in pairs]
        kept = sum(time <= 1.0001 for time in times)
        rows.append(f"| {gpu} | {share} | {100 * left:.0f} % | {seconds / seconds_of[gpu]:.2f} | {geometric_mean(times):.3f} | "
                    f"{max(times):.2f} | {kept} of {len(times)} |")
    return rows


def shapes_table(problems, lines_of):
    rows = ["| shape | " + " | ".join(f"{gpu}: schedules, best" for gpu in lines_of) + " |", "|---|" + "---|" * len(lines_of)]
    for at, problem in enumerate(problems):
        cells = []
        for lines in lines_of.values():
            line = lines[at]
            cells.append("none" if "why_none" in line else f"{line['enumerated']:,}, `{line['schedule']}`")
        rows.append(f"| {problem['name']} | " + " | ".join(cells) + " |")
    return rows


def page(about, options, problems, lines_of, seconds_of, compiled_of, pruning, ablated):
    pipelined = [problem for problem in problems if problem["name"].startswith("alcop/")]
    text = ["# How many schedules products, convolutions and attentions have", "",
            "Written by `bench/contractions/space.py` ([bench/contractions](../contractions/README.md)). All times of kernels "
            "are predictions; nothing ran on a GPU.", "", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in about.items()),
            "", "## Legal schedules", "",
            "Median (least – most) over the shapes. Only legal schedules are enumerated, each is priced and none pruned; of the "
            "best predicted 32 remain, with the walk over tiles that is best for each.", "", *counts_table(problems, lines_of),
            "", "## To enumerate and rank", "",
            f"Median of {options.repeats} runs; a run ranks all shapes, one by one. By the clock the machine's other work is in "
            "it: least of the runs.", "", *time_rows(lines_of, seconds_of)]
    if compiled_of:
        text += ["", f"## To compile the best {COMPILED}", "",
                 "With NVRTC, to machine code, as many side by side as there are processors; of each family the shape whose number "
                 "of schedules is the median. Processor time is the whole command's, its start and ranking in it; by the clock the "
                 "machine's other work is in it. " + compile_summary(compiled_of), "", *compile_rows(compiled_of)]
    text += ["", "## What DeepCuts' bound would leave out", "",
             "DeepCuts (PLDI 2021) compiles those alone whose bound is great: of the share of its peak that memory lets the device "
             "reach, that which loads from shared memory do, and that of the last round of blocks (`costmodel/contraction/"
             "pruning_bound`, `stitch contractions --least-bound`). Products and convolutions of ALCOP and DeepCuts; "
             "predictions of the pipeline model. Since that takes no longer, nothing is pruned unless it is asked for.", "",
             *pruned_rows(*pruning)]
    text += ["", "## What pipelining is predicted to gain", "",
            f"Predicted time of the best schedule without any pipelining ÷ of the best with what there is, over ALCOP's "
            f"{len(pipelined)} shapes in f16, geometric means. ALCOP's figures are of their measurements on an A100, over "
            "TVM's kernels: of kernels that differ in more than this, so that the order is to be compared and no digit."]
    for gpu, (whole, parts) in ablated.items():
        text += ["", f"### {gpu}", "", *ablation_rows(pipelined, whole, parts)]
    return "\n".join([*text, "", "## Shape by shape", "", *shapes_table(problems, lines_of)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", default=ROOT / "build/release/bin/stitch", type=pathlib.Path)
    parser.add_argument("--repeats", default=3, type=int)
    parser.add_argument("--compile-on", nargs="*", default=["a100", "h100"], choices=GPUS, metavar="GPU")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    problems = [*alcop(), *deepcuts(), *attentions()]
    lines_of, seconds_of = {}, {}
    for gpu in GPUS:
        lines_of[gpu], seconds_of[gpu] = ranked(options, problems, gpu, repeats=options.repeats)
        print(f"{gpu}: {seconds_of[gpu]:.2f} s", file=sys.stderr, flush=True)
    pipelined = [at for at, problem in enumerate(problems) if problem["name"].startswith("alcop/")]
    ablated = {}
    for gpu in ABLATED:
        parts = {name: ranked(options, [problems[at] for at in pipelined], gpu, name)[0] for name in ABLATIONS}
        ablated[gpu] = ([lines_of[gpu][at] for at in pipelined], parts)
    products = [problem for problem in problems if not kind_of(problem).startswith("attention")]
    whole, pruned_of = {gpu: ranked(options, products, gpu, repeats=options.repeats) for gpu in GPUS}, {}
    for gpu in GPUS:
        for share in SHARES:
            pruned_of[gpu, share] = ranked(options, products, gpu, repeats=options.repeats, least_bound=share)
    pruning = ({gpu: each[0] for gpu, each in whole.items()}, {gpu: each[1] for gpu, each in whole.items()}, pruned_of)
    compiled_of = {}
    for gpu in options.compile_on:
        compiled_of[gpu] = []
        for problem in median_shapes(problems, lines_of[gpu]).values():
            compiled_of[gpu].append(compiled(options, problem, gpu))
            line = compiled_of[gpu][-1]
            print(f"{gpu}: {problem['name']}: {line['processor_seconds']:.1f} s, {line['spilling']} spill", file=sys.stderr, flush=True)
    text = page(provenance.about("bench/contractions/space.py --write", repeats=options.repeats), options, problems, lines_of,
                seconds_of, compiled_of, pruning, ablated)
    print(text)
    if options.write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
