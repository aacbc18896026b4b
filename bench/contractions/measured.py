#!/usr/bin/env python3
"""Who is nearer to measured times of matrix products: our model, or NVIDIA's? Both beside what others published and what our
calls of cuBLAS took on H100s. Nothing runs on a GPU here.

    bench/contractions/measured.py                    prints the page
    bench/contractions/measured.py --write            also writes bench/results/contractions_measured.md and .json (in short)
    bench/contractions/measured.py --fitted           only what constants may be fitted to, in short, for who fits them
    bench/contractions/measured.py --keep             keeps today's predictions as the model before (measured_before.csv)
    bench/contractions/measured.py --ours FILES       reads lines of `stitch contractions --problems ... --json` instead
    bench/contractions/measured.py --problems GPU     the problems of a GPU as a file for `stitch contractions`
    bench/contractions/measured.py --collect WHEEL    XLA's table out of PyPI's jax-cuda12-pjrt into measured.csv
    VENV/bin/python bench/contractions/measured.py --ask   what NVIDIA's model says of each, into measured_nvidia.csv

Counting rules and sources: bench/contractions/README.md, measured_sources.json.
"""
import argparse
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(HERE)]
import nvidia  # noqa: E402
import provenance  # noqa: E402
from estimate import SIZES, geometric_mean, grouped, parse, spread, table, text  # noqa: E402
from rank_correlation import spearman  # noqa: E402

TIMES, SOURCES = HERE / "measured.csv", HERE / "measured_sources.json"
THEIRS, BEFORE, TILES = HERE / "measured_nvidia.csv", HERE / "measured_before.csv", HERE / "measured_tiles.csv"
COLUMNS = ("source", "gpu", "dtype", "batch", "m", "n", "k", "left", "right", "result", "us")
SHAPE = ("dtype", "batch", "m", "n", "k", "left", "right", "result")
# What events around a single call add is some µs, by the host: such times count from here on.
LEAST_BY_EVENTS = 60
LEAST_FITTED = 5e9  # FLOP: below them XLA's harness shows (README.md)
# Ours: theirs, and its back ends. Theirs has no A100 of 40 GB, which multiplies as its sister does.
GPUS = {"a100": ("A100_SXM_80GB", ("CUTLASS",)), "a100-80gb": ("A100_SXM_80GB", ("CUTLASS",)),
        "a100-pcie": ("A100_PCIE_80GB", ("CUTLASS",)), "rtx3090": ("RTX_3090", ("CUTLASS",)), "l4": ("L4", ("CUTLASS",)),
        "l40s": ("L40S", ("CUTLASS",)), "rtx4090": ("RTX_4090", ("CUTLASS",)),
        "h100": ("H100_SXM", ("CUTLASS3", "CUTLASS")), "h100-pcie": ("H100_PCIE", ("CUTLASS3", "CUTLASS")),
        "h100-nvl": ("H100_NVL", ("CUTLASS3", "CUTLASS")), "h200": ("H200_SXM", ("CUTLASS3", "CUTLASS")),
        "b200": ("B200", ("CUTLASS3", "CUTLASS")), "gb200": ("GB200_NVL", ("CUTLASS3", "CUTLASS")),
        "b300": ("GB300_NVL", ("CUTLASS3", "CUTLASS")), "rtx5090": ("RTX_5090", ("CUTLASS3", "CUTLASS"))}
# Beside those of nvidia.py: F is TF32; f8 with a result of bf16 or f32.
PRECISIONS = nvidia.PRECISIONS | {("tf32", "f32"): "FSS", ("f8e4m3", "bf16"): "QQTST", ("f8e4m3", "f32"): "QQSSS"}
XLA = {"sm_90": "h100", "sm_100_B200": "b200"}
XLA_TYPES = {"bf16xbf16->bf16": ("bf16", "bf16"), "f32xf32->f32": ("tf32", "f32"),
             "f8e4m3fnxf8e4m3fn->bf16": ("f8e4m3", "bf16")}


def collect(wheel):
    """Rows of XLA's table, which lies as text in the plug-in's library."""
    with zipfile.ZipFile(wheel) as archive:
        library = next(name for name in archive.namelist() if name.endswith("xla_cuda_plugin.so"))
        data = archive.read(library)
    begin = data.index(b"# proto-message: xla.GemmPerfTable")
    gpu, at, rows = None, {}, []
    for line in data[begin:data.index(b"\0", begin)].decode().splitlines():
        if key := re.match(r'\s*key: "(\w+)"', line):
            gpu = XLA.get(key[1])
        elif extent := re.match(r"\s*([bmnk]): (\d+)", line):
            at[extent[1]] = int(extent[2])
        elif (rate := re.match(r'\s*flops { key: "(.*)" value: (\d+) }', line)) and gpu and rate[1] in XLA_TYPES:
            dtype, result = XLA_TYPES[rate[1]]
            if (gpu, dtype) == ("h100", "f8e4m3"):
                continue  # measured_sources.json says why
            us = 2e6 * at["b"] * at["m"] * at["n"] * at["k"] / int(rate[2])
            rows.append(dict(zip(COLUMNS, ("xla", gpu, dtype, at["b"], at["m"], at["n"], at["k"], "plain", "plain", result,
                                           f"{us:.6g}"))))
    return rows


def write_rows(path, columns, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def recordings(root=ROOT):
    """What cuBLAS took in our own calls, by problem: the geometric mean over the calls that have it."""
    problems = {p["name"]: p for p in json.loads((root / "bench/products/problems.json").read_text())}
    times = {}
    for path in sorted((root / "bench/results/gpu").glob("*/products-library.jsonl")):
        last = {}
        for line in parse(path.read_text()):
            if line.get("library") == "cuBLAS" and line.get("us"):
                last[line["name"]] = line["us"]
        for name, us in last.items():
            times.setdefault(name, []).append(us)
    rows = []
    for name, each in times.items():
        problem = problems[name]
        rows.append({"source": "recordings", "gpu": "h100", "dtype": problem["dtype"], "batch": problem.get("batch", 1),
                     **{d: problem[d] for d in "mnk"}, "left": problem.get("left", "plain"),
                     "right": problem.get("right", "plain"), "result": problem.get("result", problem["dtype"]),
                     "us": geometric_mean(each)})
    return rows


def key_of(row):
    return (row["gpu"], *(str(row[part]) for part in SHAPE))


def name_of(row):
    return "/".join(key_of(row)[1:])


def held_out(row):
    """A third of the shapes, by nothing but their extents: the same ones of every GPU, source and dtype."""
    return zlib.crc32("x".join(str(row[d]) for d in ("batch", "m", "n", "k")).encode()) % 3 == 0


def flops(row):
    return 2 * math.prod(int(row[d]) for d in ("batch", "m", "n", "k"))


def counted(rows, sources):
    """With numbers as such; without what events cannot tell."""
    made = [row | {"us": float(row["us"])} for row in rows]
    return [row for row in made if sources[row["source"]]["timed"] != "events" or row["us"] >= LEAST_BY_EVENTS]


def problems_of(rows, gpu):
    """As `stitch contractions` reads them."""
    named = {}
    for row in rows:
        if row["gpu"] != gpu:
            continue
        problem = {"name": name_of(row), **{d: int(row[d]) for d in ("batch", "m", "n", "k")},
                   **{part: row[part] for part in ("dtype", "left", "right", "result")}}
        if row["dtype"] == "tf32":
            problem |= {"dtype": "f32", "arithmetic": "tf32"}
        named[problem["name"]] = problem
    return list(named.values())


def ask_stitch(stitch, rows):
    """{key: (µs of our best schedule or None, library's µs)}"""
    found = {}
    for gpu in dict.fromkeys(row["gpu"] for row in rows):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(problems_of(rows, gpu), file)
            file.flush()
            words = [str(stitch), "contractions", "--problems", file.name, "--target", gpu, "--json"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()[-400:]}")
        found |= ours_of(parse(done.stdout))
    return found


def ours_of(lines):
    return {(line["target"], *line["name"].split("/")): (line.get("predicted_us"), line.get("library_us")) for line in lines}


def ask_nvidia(rows):
    """What their model has as the least of its estimates, by back end; empty where it has none."""
    nvidia.GPUS, nvidia.PRECISIONS = GPUS, PRECISIONS
    by_key = {key_of(row): row for row in rows if (row["dtype"], row["result"]) in PRECISIONS}
    made = []
    for gpu, (_, backends) in GPUS.items():
        libraries = {name: [nvidia.Library(gpu, name, informed) for informed in (True, False)] for name in backends}
        for key, row in by_key.items():
            if key[0] != gpu:
                continue
            problem = row | {d: int(row[d]) for d in ("batch", "m", "n", "k")}
            for name, (informed, bare) in libraries.items():
                # CUTLASS 2 has no products of f8 on these: what it answers is for CUDA cores.
                if row["dtype"] == "f8e4m3" and name == "CUTLASS" and gpu not in ("l4", "l40s", "rtx4090", "rtx5090"):
                    continue
                answer = {"gpu": gpu, **{part: row[part] for part in SHAPE}, "backend": name}
                for column, library in (("discovery", informed), ("bare", bare)):
                    has = column == "bare" or informed.has_discovery(problem)
                    ranked = library.ranked(problem) if has else []
                    answer[column] = nvidia.least(ranked)[1] if ranked else ""
                made.append(answer)
    return made


def number(row, *names):
    return [int(row[name]) for name in names]


def tile_of(row):
    """Of measured_tiles.csv, as `stitch contractions --json` has one."""
    return {"block": number(row, "block_rows", "block_columns", "block_depth"), "warp": number(row, "warp_rows", "warp_columns"),
            "stages": int(row["stages"]), "split": int(row["split"]), "group": int(row["group"])}


def ask_nvidia_tiles(rows):
    """The same rows with their estimate of each tile, and their best of any."""
    nvidia.GPUS, nvidia.PRECISIONS = GPUS, PRECISIONS
    for row in rows:
        library = nvidia.Library(row["gpu"], "CUTLASS", True)
        problem = row | dict(zip(("batch", "m", "n", "k"), number(row, "batch", "m", "n", "k")))
        us = library.estimate(problem, tile_of(row))
        yield row | {"theirs": f"{us:.2f}" if us else "", "their_best": f"{nvidia.least(library.ranked(problem))[1]:.2f}"}


def price_tiles(stitch, rows):
    """µs of each, by `stitch contractions --tiles`; None where it breaks a rule of what a tile is."""
    with tempfile.TemporaryDirectory() as folder:
        problems, tiles = pathlib.Path(folder) / "problems.json", pathlib.Path(folder) / "tiles.jsonl"
        problems.write_text(json.dumps([{"name": str(i), **dict(zip(("batch", "m", "n", "k"), number(row, "batch", "m", "n", "k"))),
                                         **{part: row[part] for part in ("dtype", "left", "right", "result")}}
                                        for i, row in enumerate(rows)]))
        tiles.write_text("\n".join(json.dumps({"name": str(i), "tiles": [
            tile_of(row) | {"instruction": "mma_m16n8k16", "stages": [int(row["stages"]), 1]}]}) for i, row in enumerate(rows)))
        words = [str(stitch), "contractions", "--problems", str(problems), "--target", rows[0]["gpu"], "--tiles", str(tiles)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()[-400:]}")
    return [line["predicted_us"][0] for line in parse(done.stdout)]


def tiles_part(rows, prices):
    lines, off = [], {"ours": [], "theirs": []}
    for row, us in zip(rows, prices):
        tile, measured = tile_of(row), float(row["us"])
        theirs = float(row["theirs"]) if row["theirs"] else None
        for who, value in (("ours", us), ("theirs", theirs)):
            if value:
                off[who].append(value / measured)
        words = [f"{'×'.join(map(str, tile['block']))} warp {'×'.join(map(str, tile['warp']))} stages {tile['stages']} split "
                 f"{tile['split']}", text(measured), row["library_us"]]
        lines.append([shape_text(row), *words, text(us), text(us / measured) if us else "", text(theirs),
                      text(theirs / measured) if theirs else "", row["their_best"]])
    means = [f"{text(geometric_mean(values))} ×÷ {text(spread(values))} ({len(values)})" for values in off.values()]
    return [*table(["product", "tile", "measured µs", "cuBLAS µs", "ours µs", "÷ measured", "theirs µs", "÷ measured",
                    "their best of any tile µs"], lines), "",
            f"Geometric means: ours ÷ measured {means[0]}, theirs ÷ measured {means[1]}."]


def theirs_of(answers):
    """{key: {column: µs}}: each back end as it comes (with discovery where there is any), the fastest of them, and of bare."""
    found = {}
    for answer in answers:
        columns = found.setdefault(key_of(answer), {})
        usual = float(answer["discovery"] or answer["bare"] or "nan")
        if usual > 0:
            columns[answer["backend"]] = usual
            columns["theirs"] = min(usual, columns.get("theirs", math.inf))
        if answer["bare"]:
            columns["bare"] = min(float(answer["bare"]), columns.get("bare", math.inf))
    return found


def joined(rows, ours, theirs, before=None):
    """One entry for each measured time that both models predict."""
    entries = []
    for row in rows:
        best, library = ours.get(key_of(row), (None, None))
        if not library:
            continue
        entries.append({"row": row, "us": row["us"], "library": library, "best": best, "held": held_out(row),
                        **theirs.get(key_of(row), {}), "before": (before or {}).get(key_of(row))})
    return entries


def ratios(entries, column):
    return [e[column] / e["us"] for e in entries if e.get(column)]


def correlation(entries, column):
    both = [e for e in entries if e.get(column)]
    return spearman([e[column] for e in both], [e["us"] for e in both]) if len(both) > 2 else math.nan


def cell(entries, column):
    values = ratios(entries, column)
    return f"{text(geometric_mean(values))} ×÷ {text(spread(values))}" if values else ""


def nearer(entries):
    """Of how many the library as we have it is nearer to the measured time, of those that both predict."""
    both = [e for e in entries if e.get("theirs")]
    wins = sum(abs(math.log(e["library"] / e["us"])) < abs(math.log(e["theirs"] / e["us"])) for e in both)
    return f"{wins} of {len(both)}" if both else ""


def group_key(entry):
    return entry["row"]["source"], entry["row"]["gpu"], entry["row"]["dtype"]


def summary(entries):
    rows = []
    for key, group in grouped(entries, group_key).items():
        rows.append([*key, len(group), cell(group, "library"), text(correlation(group, "library"), 3),
                     cell(group, "theirs"), text(correlation(group, "theirs"), 3), cell(group, "bare"), nearer(group),
                     cell(group, "best")])
    return table(["source", "GPU", "dtype", "times", "library as we have it ÷ measured", "rank correlation",
                  "theirs ÷ measured", "rank correlation", "bare ÷ measured", "ours is nearer", "our best schedule ÷ measured"],
                 rows)


def by_gpu(entries):
    """Ours and theirs over all sources of a GPU and dtype, where both predict."""
    rows = []
    for key, group in grouped(entries, lambda e: group_key(e)[1:]).items():
        both = [e for e in group if e.get("theirs")]
        if not both:
            continue
        ours, theirs = geometric_mean(ratios(both, "library")), geometric_mean(ratios(both, "theirs"))
        who = "ours" if abs(math.log(ours)) < abs(math.log(theirs)) else "theirs"
        rows.append([*key, len(both), cell(both, "library"), cell(both, "theirs"), text(ours / theirs), text(ours),
                     text(theirs), who, nearer(both)])
    return table(["GPU", "dtype", "times", "ours ÷ measured", "theirs ÷ measured", "ours ÷ theirs", "of it ours is off by",
                  "theirs by", "nearer in the mean", "nearer one by one"], rows)


def by_size(entries, column):
    rows = []
    for key, group in grouped(entries, group_key).items():
        cells = []
        for _, low, high in SIZES:
            values = ratios([e for e in group if low <= flops(e["row"]) < high], column)
            cells.append(f"{geometric_mean(values):.2f} ×÷ {spread(values):.2f} ({len(values)})" if values else "")
        rows.append([*key, *cells])
    return table(["source", "GPU", "dtype", *(name for name, _, _ in SIZES)], rows)


def held_table(entries):
    """What was fitted to beside what was not, and both by the model before."""
    rows = []
    for key, group in grouped(entries, lambda e: group_key(e)[1:]).items():
        cells = []
        for held in (False, True):
            part = [e for e in group if e["held"] == held]
            cells += [len(part), cell(part, "before"), cell(part, "library"), text(correlation(part, "before"), 3),
                      text(correlation(part, "library"), 3)]
        rows.append([*key, *cells])
    return table(["GPU", "dtype", "may be fitted to", "before", "now", "rank correlation before", "now", "held out", "before",
                  "now", "rank correlation before", "now"], rows)


def short(entries):
    """For estimate.py: by GPU and dtype, and by size, what is ours and theirs ÷ measured where both predict."""
    rows = []
    for (gpu, dtype), group in grouped(entries, lambda e: group_key(e)[1:]).items():
        for name, low, high in (("all", 0, math.inf), *SIZES):
            both = [e for e in group if e.get("theirs") and low <= flops(e["row"]) < high]
            if both:
                rows.append({"gpu": gpu, "dtype": dtype, "size": name, "times": len(both),
                             "ours": round(geometric_mean(ratios(both, "library")), 3),
                             "theirs": round(geometric_mean(ratios(both, "theirs")), 3)})
    return rows


def shape_text(row):
    batch = f"{row['batch']}×" if int(row["batch"]) > 1 else ""
    turned = "".join(", " + side + " turned" for side in ("left", "right") if row[side] == "turned")
    return f"{batch}{row['m']}×{row['n']}×{row['k']}{turned}"


def worst(entries, count=16):
    ranked = sorted(entries, key=lambda e: -abs(math.log(e["library"] / e["us"])))
    rows, seen = [], {}
    for e in ranked:
        group = group_key(e)
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= 3 and len(rows) < count:
            rows.append([*group, shape_text(e["row"]), text(e["us"]), text(e["library"]), text(e["library"] / e["us"]),
                         text(e.get("theirs")), text(e["theirs"] / e["us"]) if e.get("theirs") else "",
                         "yes" if e["held"] else ""])
    return table(["source", "GPU", "dtype", "product", "measured µs", "ours µs", "÷ measured", "theirs µs", "÷ measured",
                  "held out"], rows)


def our_schedules(root=ROOT, stitch=None):
    """Of the best predicted schedules that an H100 timed, what is predicted today beside what they took: by call."""
    found = {}
    problems = root / "bench/products/problems.json"
    for path in sorted((root / "bench/results/gpu").glob("*/products-ours.jsonl")):
        words = [str(stitch), "contractions", "--problems", str(problems), "--target", "h100", "--priced", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        for line in parse(done.stdout) if done.returncode == 0 else []:
            if line.get("measured_us") and "convolution" not in line["problem"] and "softmax" not in line["problem"] and \
                    "spill" not in line["resources"]:
                found.setdefault((line["name"], line["schedule"]), (line, path.parent.name))
    return list(found.values())


def instruction_of(line):
    """A word of either text; older recordings have but one."""
    return re.search(r"\b(?:mma|wgmma|cuda)_\w+", line.get("runs", "") + " " + line["what"])[0]


def schedules_part(lines):
    rows = []
    for instruction, group in grouped(lines, lambda pair: instruction_of(pair[0])).items():
        values = [line["predicted_us"] / line["measured_us"] for line, _ in group]
        rows.append([instruction, len(group), f"{text(geometric_mean(values))} ×÷ {text(spread(values))}"])
    return table(["instruction", "schedules", "predicted ÷ measured"], rows)


def h100_table(entries):
    """Every product that our calls had cuBLAS do."""
    rows = [[shape_text(e["row"]), e["row"]["dtype"], text(e["us"]), text(e["library"]), text(e["library"] / e["us"]),
             text(e.get("CUTLASS3")), text(e.get("CUTLASS")), text(e.get("bare")),
             text(e["theirs"] / e["us"]) if e.get("theirs") else "", text(e["best"]), "yes" if e["held"] else ""]
            for e in entries if e["row"]["source"] == "recordings"]
    return table(["product", "dtype", "cuBLAS µs", "library as we have it µs", "÷ cuBLAS", "their CUTLASS 3 µs",
                  "their CUTLASS µs", "bare µs", "fastest of theirs ÷ cuBLAS", "our best schedule, predicted µs", "held out"],
                 rows)


def sources_part(sources, entries):
    counts = grouped(entries, lambda e: e["row"]["source"])
    rows = [[name, f"[{about['title']}]({about['address']})" if about["address"].startswith("http") else about["title"],
             about["revision"], about["licence"], len(counts.get(name, [])), about["how"]] for name, about in sources.items()]
    return table(["source", "what", "revision", "licence", "times counted", "how measured"], rows)


def page(entries, sources, lines, tiles=(), prices=()):
    where = provenance.about("bench/contractions/measured.py --write")
    return "\n".join([
        "# Products of matrices: two models beside measured times", "",
        f"Written by `{where['command']}` on {where['date']}, commit {where['commit']}, {where['machine']}. Ours and NVIDIA's "
        "(nvMatmulHeuristics 0.1.0.27) are predictions; the times are GPUs', nearly all measured and published by others, none "
        "on this machine. Counting rules: [bench/contractions/README.md](../contractions/README.md).", "",
        "*Library as we have it*: `library_us`, what our model expects a library's call to take. *Theirs*: the least estimate "
        "of all back ends, with discovery where there is any; *bare* without. *Our best schedule*: what the model predicts of "
        "the kernel that we would choose. A cell has geometric mean and spread (a standard deviation, as a factor).", "",
        "## Who is nearer", "",
        "Where both predict. Ours ÷ theirs is the one divided by the other: of the distance between two models, so much is "
        "ours and so much theirs.", "", *by_gpu(entries), "",
        "## By source", "", *summary(entries), "",
        "## By size, library as we have it ÷ measured", "", *by_size(entries, "library"), "",
        "## By size, theirs ÷ measured", "", *by_size(entries, "theirs"), "",
        "## Fitted and held out", "",
        "Constants may be fitted to two thirds of the shapes, and nothing was to the others. *Before*: the model of "
        "measured_before.csv.", "", *held_table(entries), "",
        "Of at least 5 GFLOP, which alone were fitted to:", "",
        *held_table([e for e in entries if flops(e["row"]) >= LEAST_FITTED]), "",
        "## Furthest off", "", "At most three of a group.", "", *worst(entries), "",
        "## An H100, product by product", "", *h100_table(entries), "",
        "## Our kernels on an H100", "",
        "Schedules that were timed there (bench/results/gpu), do not spill and are in today's space, each once, as the model "
        "has them today.", "", *schedules_part(lines), "",
        *(["## Tiles that somebody timed on an RTX 4090", "",
           "Kernels of `emmy` (mma.sync, f16 with sums in f32), the fastest of its searches, and cuBLAS beside them. In what "
           "order it walks tiles is not told but once: 8 rows of them together, here. Small tiles of two stages, which NVIDIA's "
           "model holds to take half as long again as its best or twice as long, take 0.84 to 1.13 × what cuBLAS does.", "", *tiles_part(tiles, prices), ""]
          if tiles else []),
        "## Sources", "", *sources_part(sources, entries), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", default=ROOT / "build/release/bin/stitch", type=pathlib.Path)
    parser.add_argument("--ours", nargs="+", type=pathlib.Path)
    parser.add_argument("--problems", metavar="GPU")
    parser.add_argument("--collect", type=pathlib.Path, metavar="WHEEL")
    parser.add_argument("--output", default=ROOT / "bench/results/contractions_measured.md", type=pathlib.Path)
    for flag in ("write", "fitted", "keep", "ask"):
        parser.add_argument("--" + flag, action="store_true")
    options = parser.parse_args()
    if options.collect:
        others = [row for row in read_rows(TIMES) if row["source"] != "xla"]
        write_rows(TIMES, COLUMNS, others + collect(options.collect))
        return 0
    sources = json.loads(SOURCES.read_text())
    rows = recordings() + read_rows(TIMES)
    if options.ask:
        write_rows(THEIRS, ("gpu", *SHAPE, "backend", "discovery", "bare"), ask_nvidia(rows))
        tiles = list(ask_nvidia_tiles(read_rows(TILES)))
        write_rows(TILES, list(tiles[0]), tiles)
        return 0
    rows = counted(rows, sources)
    if options.problems:
        json.dump(problems_of(rows, options.problems), sys.stdout, indent=0)
        return 0
    if options.fitted:
        rows = [row for row in rows if not held_out(row)]
    ours = ours_of([line for path in options.ours for line in parse(path.read_text())]) if options.ours \
        else ask_stitch(options.stitch, rows)
    if options.keep:
        write_rows(BEFORE, ("gpu", *SHAPE, "library"), [dict(zip(("gpu", *SHAPE), key)) | {"library": f"{library:.6g}"}
                                                        for key, (_, library) in ours.items() if library])
        return 0
    before = {key_of(row): float(row["library"]) for row in read_rows(BEFORE)} if BEFORE.exists() else {}
    entries = joined(rows, ours, theirs_of(read_rows(THEIRS)) if THEIRS.exists() else {}, before)
    if options.fitted:
        print("\n".join([*summary(entries), "", *by_size(entries, "library"), "", *worst(entries, 60)]))
        return 0
    tiles = read_rows(TILES)
    made = page(entries, sources, our_schedules(stitch=options.stitch), tiles, price_tiles(options.stitch, tiles))
    print(made)
    if options.write:
        options.output.write_text(made)
        lines = ",\n".join(json.dumps(each) for each in short(entries))
        options.output.with_suffix(".json").write_text(f"[\n{lines}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
