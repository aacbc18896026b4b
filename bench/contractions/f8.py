#!/usr/bin/env python3
"""Products of f8 on Hopper: by wgmma with promoted sums, beside mma.sync, and beside what DeepGEMM's authors measured. Writes
bench/results/f8_hopper.md.

    bench/contractions/f8.py [--stitch build/release/bin/stitch]     prints the page
    bench/contractions/f8.py --write                                 and writes it

`stitch contractions --problems … --target GPU --json [--single-warps]`. Predictions alone: needs no GPU and no package.
Errors: a stitch that fails, with what it said.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(HERE)]
import provenance  # noqa: E402
from estimate import geometric_mean, parse, spread, table  # noqa: E402
from problems import problem  # noqa: E402

PAGE = ROOT / "bench/results/f8_hopper.md"
PUBLISHED = HERE / "deepgemm.csv"
GPUS = ("h100", "h200")
PART = 128  # of depth that has a scale of its own, and columns that share one of the weights' (DeepSeek-V3, arXiv 2412.19437)


def asked(options, problems, gpu, *words):
    """Lines of the problems, in order. A product that has no kernel of ours ends the run: all of these have."""
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder) / "problems.json"
        listed.write_text(json.dumps(problems))
        command = [str(options.stitch), "contractions", "--problems", str(listed), "--target", gpu, "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = parse(done.stdout)
    if done.returncode != 0 or any("why_none" in line for line in lines):
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()} {[line['why_none'] for line in lines if 'why_none' in line][:1]}")
    return lines


def of_llama(options):
    problems = [each for each in json.loads((HERE / "problems.json").read_text()) if each["dtype"] == "f8e4m3"]
    both = {gpu: (asked(options, problems, gpu), asked(options, problems, gpu, "--single-warps")) for gpu in GPUS}
    rows, gains, large, shares = [], [], [], []
    for at, each in enumerate(problems):
        for gpu in GPUS:
            ours, before = (lines[at] for lines in both[gpu])
            gain, share = before["predicted_us"] / ours["predicted_us"], ours["predicted_us"] / ours["library_us"]
            gains.append(gain)
            shares.append(share)
            large += [gain] if each["m"] >= 512 else []
            rows.append([each["name"], gpu, f"{before['predicted_us']:.1f}", f"{ours['predicted_us']:.1f}", f"{gain:.2f}",
                         f"{ours['library_us']:.1f}", f"{share:.2f}", ours["schedule"]])
    heading = ["problem", "GPU", "mma.sync, us", "chosen, us", "mma.sync ÷ chosen", "library, us", "chosen ÷ library", "schedule"]
    return [*table(heading, rows), "",
            f"Geometric means: mma.sync ÷ chosen {geometric_mean(gains):.2f}, of the problems of 512 rows and more "
            f"{geometric_mean(large):.2f}; chosen ÷ library {geometric_mean(shares):.2f}. At 16 rows all are bound by device "
            "memory. The library's time is by the same model, which has its sums promoted, too."]


def of_deepgemm(options):
    with PUBLISHED.open(encoding="utf-8") as file:
        published = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    plain = [problem(f"deepgemm/{row['m']:.0f}x{row['n']:.0f}x{row['k']:.0f}", int(row["m"]), int(row["n"]), int(row["k"]),
                     "f8e4m3", result="bf16") for row in published]
    scaled = [each | {"scaled_by": PART} for each in plain]
    lines = asked(options, scaled, "h100"), asked(options, scaled, "h100", "--single-warps"), asked(options, plain, "h100")
    rows, shares = [], {}
    for at, row in enumerate(published):
        rates = [2e-6 * row["m"] * row["n"] * row["k"] / each[at]["predicted_us"] for each in lines]
        shares.setdefault(row["m"], []).append(rates[0] / row["tflops"])
        rows.append([f"{row['m']:.0f}", f"{row['n']:.0f}", f"{row['k']:.0f}", f"{row['tflops']:.0f}", f"{rates[0]:.0f}",
                     f"{shares[row['m']][-1]:.2f}", f"{rates[1]:.0f}", f"{rates[2]:.0f}", lines[0][at]["schedule"]])
    heading = ["M", "N", "K", "published", "ours, scaled", "ours ÷ published", "ours, mma.sync, scaled", "ours, no scales",
               "schedule, scaled"]
    every = [share for of_rows in shares.values() for share in of_rows]
    means = ", ".join(f"{geometric_mean(of_rows):.2f} of {rows_of:.0f} rows" for rows_of, of_rows in shares.items())
    return [*table(heading, rows), "", f"Geometric means of ours ÷ published: {means}; {geometric_mean(every):.2f} in all, spread "
            f"×÷ {spread(every):.2f}."]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", default=ROOT / "build/release/bin/stitch", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    about = provenance.about("bench/contractions/f8.py --write")
    text = "\n".join([
        "# f8 on Hopper: by wgmma with promoted sums, beside mma.sync and DeepGEMM", "",
        f"Written by `{about['command']}` on {about['date']}, commit {about['commit']}, {about['machine']}. Predictions of "
        "`costmodel/contraction`; nothing of ours was measured. *mma.sync*: the best schedule without `wgmma`. How f8 is summed, "
        "and what the reference grants: [docs/contractions.md](../../docs/contractions.md#how-it-runs).", "",
        "## The problems of bench/contractions", "", "f8e4m3 by f8e4m3, right operand turned, result f16.", "",
        *of_llama(options), "", "## The shapes of DeepGEMM", "",
        "*Published*: TFLOP/s that DeepSeek measured on an H800 (an H100 with slower NVLink) with scales 1×128 · 128×128 and results "
        "of bf16: README.md of github.com/deepseek-ai/DeepGEMM at commit 55ab91f72f76 (\"Normal GEMMs for dense models\"; MIT). "
        "*Ours*: predicted for an H100, the same scales, and the same product without scales. Nothing is fitted to it.", "",
        *of_deepgemm(options)]) + "\n"
    print(text)
    if options.write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
