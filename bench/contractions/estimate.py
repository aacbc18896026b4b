#!/usr/bin/env python3
"""Our predictions for products of matrices beside those of NVIDIA's own analytical model. Nothing runs: no measured times.

    bench/contractions/estimate.py                  plans every problem for every GPU, prints the page
    bench/contractions/estimate.py --ours FILES     reads lines of `stitch contractions --problems ... --json` instead
    bench/contractions/estimate.py --write          also writes bench/results/contractions.md

Counting rules: bench/contractions/README.md. Theirs are read from nvidia.json. Only the estimates of our tiles by their
model need the package nvidia-matmul-heuristics in the Python that runs this; without it that part says so.
"""
import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(HERE)]
import nvidia  # noqa: E402
import provenance  # noqa: E402
from rank_correlation import ranks, spearman  # noqa: E402,F401

# What a line of ours may call the GPU of a column of theirs: its 40 GB sister has three quarters of the bandwidth.
SAME = {"a100": "a100-80gb"}
# GFLOP of a product; what is below the first is mostly launch, fill and store, and above the last mostly multiplying.
SIZES = (("below 1 GFLOP", 0, 1e9), ("1 to 30", 1e9, 30e9), ("above 30", 30e9, math.inf))
MEASURED = ROOT / "bench/results/contractions_measured.json"  # measured.py --write
WORST = 4


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def spread(values):
    """The factor either way of the mean that holds a standard deviation."""
    middle = math.log(geometric_mean(values)) if values else math.nan
    return math.exp(math.sqrt(sum((math.log(v) - middle) ** 2 for v in values) / len(values))) if values else math.nan


def flops(problem):
    return 2 * problem["batch"] * problem["m"] * problem["n"] * problem["k"]


def parse(text):
    """Lines of ours; what is no JSON object (a warning, an empty line) is none."""
    lines = []
    for line in text.splitlines():
        if line.startswith("{"):
            lines.append(json.loads(line))
    return lines


def ask_stitch(stitch, gpu):
    words = [str(stitch), "contractions", "--problems", str(HERE / "problems.json"), "--target", gpu, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()[-400:]}")
    return parse(done.stdout)


def theirs_by_problem(rows):
    """{(GPU, problem): {back end: row}}"""
    found = {}
    for row in rows:
        found.setdefault((row["gpu"], row["name"]), {})[row["backend"]] = row
    return found


def compare(problems, ours, rows):
    """One entry per problem of ours that both sides predict, and the lines of ours that have no kernel or are unknown."""
    by_name, theirs = {p["name"]: p for p in problems}, theirs_by_problem(rows)
    entries, missing = [], []
    for line in ours:
        gpu = SAME.get(line["target"], line["target"])
        answers = theirs.get((gpu, line["name"]), {})
        if line["name"] not in by_name or not answers or not line.get("predicted_us"):
            missing.append(line)
            continue
        # CUTLASS 2 has the instruction of our kernels; where it does not answer, the other stands in its place.
        own = answers.get("CUTLASS") or answers["CUTLASS3"]
        entries.append({
            "problem": by_name[line["name"]], "gpu": gpu, "line": line, "ours": line["predicted_us"],
            "library": line.get("library_us"), "theirs": own["best"][1], "backend": own["backend"],
            "bare": own.get("bare", own["best"])[1], "discovery": own["discovery"],
            "fastest": min(row["best"][1] for row in answers.values()),
            "configuration": own["best"][0]})
    return entries, missing


def group_of(entry):
    """What is one model of theirs: GPU, back end, dtype, with discovery or bare."""
    return (entry["gpu"], entry["backend"], entry["problem"]["dtype"], "discovery" if entry["discovery"] else "bare")


def grouped(entries, key):
    groups = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def line(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(heading, rows):
    return [line(heading), line(["---"] * len(heading)), *map(line, rows)]


def text(value, digits=2):
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def summary(entries):
    rows = []
    for key, group in grouped(entries, group_of).items():
        ratios = [e["ours"] / e["theirs"] for e in group]
        bare = [e["ours"] / e["bare"] for e in group] if key[3] == "discovery" else []
        library = [e["library"] / e["fastest"] for e in group if e["library"]]
        rows.append([*key, len(group), text(geometric_mean(ratios)), "×÷ " + text(spread(ratios)),
                     text(spearman([e["ours"] for e in group], [e["theirs"] for e in group]), 3),
                     text(geometric_mean(bare)), text(geometric_mean(library))])
    return table(["GPU", "theirs", "dtype", "their model", "problems", "ours ÷ theirs", "spread", "rank correlation",
                  "ours ÷ bare", "library's call ÷ fastest of theirs"], rows)


def by_size(entries):
    rows = []
    for key, group in grouped(entries, group_of).items():
        cells = []
        for _, low, high in SIZES:
            ratios = [e["ours"] / e["theirs"] for e in group if low <= flops(e["problem"]) < high]
            cells.append(f"{geometric_mean(ratios):.2f} ({len(ratios)})" if ratios else "")
        rows.append([*key, *cells])
    return table(["GPU", "theirs", "dtype", "their model", *(name for name, _, _ in SIZES)], rows)


def beside_measured(entries, measured):
    """Of GPUs, types and sizes that somebody measured: whose part of the distance between both models is an error."""
    rows = []
    known = {(each["gpu"], each["dtype"], each["size"]): each for each in measured}
    for key, group in grouped(entries, lambda e: (e["gpu"], e["problem"]["dtype"])).items():
        for size, low, high in (("all", 0, math.inf), *SIZES):
            here = [e for e in group if e["library"] and low <= flops(e["problem"]) < high]
            same = (key[0], *(mine for mine, same in SAME.items() if same == key[0]))
            times = [known[gpu, key[1], size] for gpu in same if (gpu, key[1], size) in known]
            if not here or not times:
                continue
            count = sum(each["times"] for each in times)
            ours, theirs = (math.exp(sum(each["times"] * math.log(each[who]) for each in times) / count)
                            for who in ("ours", "theirs"))
            ratio = geometric_mean([e["library"] / e["fastest"] for e in here])
            nearer = "ours" if abs(math.log(ours)) < abs(math.log(theirs)) else "theirs"
            rows.append([*key, size, len(here), text(ratio), count, text(ours), text(theirs), text(ours / theirs), nearer])
    return table(["GPU", "dtype", "size", "problems", "library's call ÷ fastest of theirs", "measured times",
                  "library's call ÷ measured", "theirs ÷ measured", "the one ÷ the other", "nearer to measured"], rows)


def tile_of(configuration):
    """As `stitch contractions` writes a schedule, as far as they have the same words."""
    by = ["×".join(map(str, configuration[part])) for part in ("block", "warp")]
    return f"block {by[0]} warp {by[1]} stages {configuration['stages']} split {configuration['split']}"


def worst(entries):
    """Of each GPU those that are furthest from the mean of their own group, either way; the smallest, where theirs has
    little to say, are left out."""
    rows = []
    large = [e for e in entries if flops(e["problem"]) >= SIZES[0][2]]
    for gpu, of_gpu in grouped(large, lambda e: e["gpu"]).items():
        off = []
        for group in grouped(of_gpu, group_of).values():
            mean = geometric_mean([e["ours"] / e["theirs"] for e in group])
            off += [(e["ours"] / e["theirs"] / mean, e) for e in group]
        off.sort(key=lambda pair: pair[0])
        for factor, e in off if len(off) <= 2 * WORST else off[:WORST] + off[-WORST:]:
            rows.append([gpu, e["problem"]["name"], e["problem"]["dtype"], text(e["ours"]), text(e["theirs"]),
                         text(e["ours"] / e["theirs"]), text(factor), e["line"].get("schedule", ""),
                         tile_of(e["configuration"])])
    return table(["GPU", "problem", "dtype", "ours µs", "theirs µs", "ratio", "÷ its group's mean", "our schedule",
                  "their configuration"], rows)


def estimates(entries, library=nvidia.Library):
    """Yields (entry, µs of our tile by their model or None), by the back end that the entry is compared with."""
    handles = {}
    for entry in entries:
        if "tile" not in entry["line"]:
            continue
        # Turns that blocks share are no tile of theirs: without a split it would be another kernel.
        if "streamed" in entry["line"].get("schedule", ""):
            yield entry, None
            continue
        key = entry["gpu"], entry["backend"]
        if key not in handles:
            handles[key] = library(*key, True)
        yield entry, handles[key].estimate(entry["problem"], entry["line"]["tile"])


def timed_tiles(path=HERE / "measured_tiles.csv"):
    """How far its estimates of tiles are from what they took where somebody timed them."""
    with path.open(newline="") as file:
        times = [float(row["us"]) / float(row["theirs"]) for row in csv.DictReader(file) if row.get("theirs")]
    return [f"Where the ratio is large, tiles are small and of two stages. {len(times)} such were timed by somebody on an RTX 4090 "
            f"([contractions_measured.md](contractions_measured.md)): they took {text(geometric_mean(times))} of what this model "
            "estimates; there stands what ours predicts.", ""]


def tile_part(entries, about, package):
    """Their estimate of our tile beside the least of the twelve that they gave."""
    if package is None:
        return ["Left out: this Python has no `nvidia-matmul-heuristics` (bench/contractions/README.md)."]
    if package != about["package"]:
        return [f"Left out: nvidia.json is of {about['package']}, here is {package}."]
    return tile_rows(estimates(entries))


def tile_rows(estimated):
    rows, off = [], []
    for key, pairs in grouped(estimated, lambda pair: group_of(pair[0])).items():
        known = [(us / entry["theirs"], entry, us) for entry, us in pairs if us]
        ratios = [ratio for ratio, _, _ in known]
        # Theirs is what their own ranking prefers; ours may be better by their estimate, too.
        better = sum(ratio < 0.995 for ratio in ratios)
        rows.append([*key, len(known), len(pairs) - len(known), text(geometric_mean(ratios)),
                     text(max(ratios, default=math.nan)), better])
        off += [(ratio, entry, us) for ratio, entry, us in known]
    off.sort(key=lambda each: -each[0])
    return [*table(["GPU", "theirs", "dtype", "their model", "our tiles", "of which it has no estimate",
                    "our tile ÷ their best, by their model", "worst", "ours is better"], rows), "",
            *table(["GPU", "problem", "our tile by their model µs", "their best µs", "ratio", "our schedule",
                    "their configuration"],
                   [[e["gpu"], e["problem"]["name"], text(us), text(e["theirs"]), text(ratio), e["line"].get("schedule", ""),
                     tile_of(e["configuration"])] for ratio, e, us in off[:12]])]


def installed():
    try:
        import nvMatmulHeuristics  # noqa: F401
        return "nvidia-matmul-heuristics " + nvidia.version()
    except ImportError:
        return None


def page(entries, missing, about, package, measured=()):
    where = provenance.about("bench/contractions/estimate.py --write")
    why = grouped(missing, lambda each: (each["target"], each.get("why_none", "not asked of theirs")[:80]))
    return "\n".join([
        "# Products of matrices: our predictions beside NVIDIA's model", "",
        f"Written by `{where['command']}` on {where['date']}, commit {where['commit']}, {where['machine']}; theirs: PyPI's "
        f"{about['package']}, {about['flags']}. Both sides are predictions by analytical models, nobody measured anything: "
        "a ratio of 1 says that two models agree. Counting rules, and what *discovery* and *bare* are: "
        "[bench/contractions/README.md](../contractions/README.md).", "",
        "*Ours*: the predicted time of the schedule that we would choose. *Theirs*: the least estimate among "
        f"{about['asked']} configurations. *Spread*: a standard deviation of the ratio, as a factor. *Library's call*: what "
        "we expect a library to take, beside the fastest of all back ends of theirs.", "",
        *summary(entries), "", "## By size", "", "Geometric mean of ours ÷ theirs (problems).", "", *by_size(entries), "",
        "## Furthest from the mean of their group", "", "Of products of at least 1 GFLOP.", "", *worst(entries), "",
        *(["## Beside measured times", "",
           "Of GPUs and types whose products somebody timed ([contractions_measured.md](contractions_measured.md)): the mean "
           "of this page's problems, and beside it how far each model is from measured times, of other problems. Where *the one "
           "÷ the other* is about the ratio of this page, both speak of the same difference, and *nearer to measured* says "
           "that it is the other's error.", "",
           *beside_measured(entries, measured), ""] if measured else []),
        "## Our tiles by their model", "", *timed_tiles(), *tile_part(entries, about, package), "",
        *(["## Not compared", "", *table(["GPU", "why", "problems"], [[*key, len(each)] for key, each in why.items()]), ""]
          if missing else [])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", default=ROOT / "build/release/bin/stitch", type=pathlib.Path)
    parser.add_argument("--ours", nargs="+", type=pathlib.Path, help="files of lines instead of running stitch")
    parser.add_argument("--targets", nargs="+", default=list(nvidia.GPUS), metavar="GPU")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--output", default=ROOT / "bench/results/contractions.md", type=pathlib.Path)
    options = parser.parse_args()
    problems = json.loads((HERE / "problems.json").read_text())
    about, rows = nvidia.read()
    if options.ours:
        ours = [each for path in options.ours for each in parse(path.read_text())]
    else:
        ours = [each for gpu in options.targets for each in ask_stitch(options.stitch, gpu)]
    entries, missing = compare(problems, ours, rows)
    if not entries:
        print("estimate.py: no line of ours is of a problem and GPU that theirs are known for", file=sys.stderr)
        return 1
    made = page(entries, missing, about, installed(), json.loads(MEASURED.read_text()) if MEASURED.exists() else ())
    print(made)
    if options.write:
        options.output.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
