#!/usr/bin/env python3
"""Where our model ranks the configurations that others found fastest on real GPUs, among all that they tried.

    bench/contractions/winners.py                    ranks every case, prints the page
    bench/contractions/winners.py --write            also writes bench/results/winners.md
    bench/contractions/winners.py --collect WHEEL    keeps what a wheel of sglang has of winners, in winners.json.gz

The winners are facts of others, with their source in winners.json.gz: SGLang's tables of its fused mixture-of-experts kernel
and of its block-scaled product, both in Triton, as somebody's tuning run on that GPU left them. README.md says how a
configuration of theirs becomes a tile of ours. Estimates by NVIDIA's model need the package nvidia-matmul-heuristics in the
Python that runs this; without it that part says so.
"""
import argparse
import gzip
import hashlib
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(HERE)]
import estimate  # noqa: E402
import nvidia  # noqa: E402
import provenance  # noqa: E402

KEPT = HERE / "winners.json.gz"
STITCH = ROOT / "build/release/bin/stitch"
# What their tuning scripts try (get_configs_compute_bound of vLLM's benchmark_moe.py, SGLang's common_utils.py).
FIELDS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
SPACE = ((16, 32, 64, 128, 256), (32, 64, 128, 256), (64, 128, 256), (1, 16, 32, 64), (4, 8), (2, 3, 4, 5))
# Theirs: ours, and NVIDIA's for its Triton back end.
GPUS = {
    "NVIDIA_A100-SXM4-80GB": ("a100-80gb", "a100-80gb"),
    "NVIDIA_A800-SXM4-80GB": ("a100-80gb", "a100-80gb"),
    "NVIDIA_A100-SXM4-40GB": ("a100", "a100-80gb"),
    "NVIDIA_L40S": ("l40s", None),
    "NVIDIA_H100_80GB_HBM3": ("h100", "h100"),
    "NVIDIA_H200": ("h200", "h200"),
    "NVIDIA_H20": ("h20", None),
}
# Experts, columns of an expert's gate (as many of its up projection): the model, hidden size and experts of a token. The file
# names have no hidden size. Where two models have the same (Qwen3-30B-A3B whole and -235B-A22B in two), the first is taken.
MODELS = {
    **{(8, n): ("Mixtral 8x7B", 4096, 2) for n in (14336, 7168, 3584, 1792)},
    **{(8, n): ("Mixtral 8x22B", 6144, 2) for n in (8192, 4096, 2048)},
    **{(16, n): ("DBRX", 6144, 4) for n in (2688, 1344)},
    **{(16, n): ("Jamba", 4096, 2) for n in (14336, 7168, 3584, 1792)},
    **{(16, n): ("Llama 4 Scout", 5120, 1) for n in (2048, 1024)},
    **{(64, n): ("Qwen2-57B-A14B", 3584, 8) for n in (2560, 1280, 640, 320)},
    (128, 768): ("Qwen3-30B-A3B", 2048, 8),
    **{(128, n): ("Qwen3-235B-A22B", 4096, 8) for n in (384, 192)},
    (160, 192): ("DeepSeek-V2", 5120, 6),
    **{(512, n): ("Qwen3-Next-80B-A3B", 2048, 10) for n in (256, 128, 64)},
}
# Of the block-scaled products, all of which were tuned on it: SMs, clock, f32 lanes and conversions of s32 in a clock of an SM
# (I2F is on the unit of special functions in SASS for sm_80), by the A100's white paper as in base/device_spec.cpp.
A100 = {"sms": 108, "mhz": 1410, "lanes": 64, "conversions": 16}
SCALING_INSTRUCTIONS = 3  # of f32 for a sum and tile of the depth: times a row's scale, times a column's, added
OTHER_REGISTERS, MOST_REGISTERS = 40, 255  # beside sums and fragments, as kernel/contraction/contraction_shape.cpp has it
TOKENS = (1, 4, 16, 64, 256, 1024, 4096)
# Goals of issue and page: the median place, and how much slower our choice may be than the winner.
PLACE_GOAL, REGRET_GOAL = 0.05, 1.05


# ---------------------------------------------------------------- what is kept

def table_of(path, text):
    """One of their files as (GPU, what it is of, {M: values of FIELDS}); None for what we do not compare with."""
    folder, name = path.split("/")[-2:]
    winners = {}
    for rows, configuration in json.loads(text).items():
        if rows.isdigit() and isinstance(configuration, dict) and set(FIELDS) <= set(configuration):
            winners[int(rows)] = [configuration[field] for field in FIELDS]
    experts = re.fullmatch(r"E=(\d+),N=(\d+),device_name=([^,]+)\.json", name)
    if experts and "triton_utils" in path and experts[3] in GPUS and tuple(map(int, experts.group(1, 2))) in MODELS:
        return experts[3], {"experts": int(experts[1]), "n": int(experts[2]), "dtype": "bf16", "by": folder}, winners
    plain = re.fullmatch(r"N=(\d+),K=(\d+),device_name=([^,]+),dtype=int8_w8a8,block_shape=\[128, 128\]\.json", name)
    if plain and plain[3] in GPUS and GPUS[plain[3]][0].startswith("a100"):
        return plain[3], {"n": int(plain[1]), "k": int(plain[2]), "dtype": "s8", "by": "block-scaled product"}, winners
    return None


def collect(wheel):
    """What a wheel of sglang has, as the document that is kept: where two versions of Triton have the same, the later."""
    found = {}
    with zipfile.ZipFile(wheel) as files:
        for path in sorted(files.namelist()):
            kept = table_of(path, files.read(path)) if path.endswith(".json") and "device_name=" in path else None
            if kept:
                gpu, what, winners = kept
                key = (gpu, what.get("experts", 0), what["n"], what.get("k", 0), what["dtype"])
                found[key] = {"gpu": gpu, **what, "path": path, "winners": winners}
    return {"about": {"source": "PyPI, " + pathlib.Path(wheel).name, "sha256": hashlib.sha256(
                          pathlib.Path(wheel).read_bytes()).hexdigest(), "licence": "Apache-2.0",
                      "fields": FIELDS, "what": "per rows of a product (tokens of a mixture) the fastest configuration of a "
                      "Triton kernel that a tuning run on that GPU found; no times"},
            "tables": [found[key] for key in sorted(found)]}


def text_of(document):
    tables = ",\n".join(json.dumps(each, separators=(",", ":")) for each in document["tables"])
    return "{\"about\": %s,\n\"tables\": [\n%s\n]}\n" % (json.dumps(document["about"]), tables)


def read(path=KEPT):
    return json.loads(gzip.decompress(path.read_bytes()))


# ---------------------------------------------------------------- their configurations as tiles of ours

def warps_of_mma(rows, columns, warps):
    """How Triton lays the warps of mma.sync over a block (warpsPerTile, version 2)."""
    down = across = 1
    while down * across < warps:
        if rows // 16 // down >= columns // 16 // across and down < rows // 16:
            down *= 2
        else:
            across *= 2
    return down, across


def warps_of_wgmma(rows, warps):
    """The same of wgmma (version 3): four warps below one another, more downwards as long as there are rows."""
    down, across = 4, 1
    while down * across < warps:
        if rows > 16 * down:
            down *= 2
        else:
            across *= 2
    return down, across


def tiles_of(configuration, dtype, gpu, depth, row_tiles):
    """A configuration as tiles of `stitch contractions --tiles`, of which the first that fits is meant. By mma.sync Triton
    keeps num_stages - 1 tiles in shared memory. By wgmma num_stages, of which no one waits to be read: our loop takes a
    stage more for that, where there is room for it."""
    rows, columns, block_depth, group, warps, stages = configuration
    turns = -(-depth // block_depth)
    tile = {"block": [rows, columns, block_depth], "group": min(group, row_tiles)}
    if gpu in ("h100", "h200", "h20") and rows >= 64 and dtype == "bf16":
        down, across = warps_of_wgmma(rows, warps)
        tile |= {"instruction": "wgmma_m64k16", "warp": [rows // down, columns // across]}
        return [tile | {"stages": [stages + more, 1]} for more in (1, 0)]
    down, across = warps_of_mma(rows, columns, warps)
    instruction, step = {"bf16": ("mma_m16n8k16", 16), "s8": ("mma_m16n8k32", 32)}[dtype]
    tile |= {"instruction": instruction, "warp": [rows // down, columns // across]}
    return [tile | {"stages": [min(max(1, stages - 1), turns), 2 if block_depth // step % 2 == 0 else 1]}]


# ---------------------------------------------------------------- what they multiply

def binomial(trials, share):
    """[probability of k], from the mode outwards, so that nothing overflows."""
    if share >= 1:
        return [0.0] * trials + [1.0]
    logs = [math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) +
            k * math.log(share) + (trials - k) * math.log1p(-share) for k in range(trials + 1)]
    return [math.exp(each) for each in logs]


class Case:
    """One winner: a table and a number of rows. `products` for a block of so many rows: [(weight, problem)], whose weighted
    times add up. Tokens choose their experts evenly and at random, as the tuning scripts have it, so that an expert's rows
    are binomial: of the experts that have any, a share has a row tile more than the others."""

    def __init__(self, table, rows):
        self.table, self.rows, self.winner = table, rows, tuple(table["winners"][str(rows)])
        self.gpu = GPUS[table["gpu"]][0]
        self.shape = (table.get("experts", 0), table["n"], table.get("k", 0))
        self.made = {}
        if "experts" in table:
            self.model, self.hidden, self.chosen = MODELS[table["experts"], table["n"]]
            self.rows_of = binomial(rows, self.chosen / table["experts"])

    @property
    def name(self):
        what = f"{self.model} {self.table['experts']}×{self.table['n']}" if "experts" in self.table else \
            f"{self.table['n']}×{self.table['k']}"
        return f"{self.table['gpu'].removeprefix('NVIDIA_')} {what}"

    def products(self, block_rows):
        if block_rows not in self.made:
            self.made[block_rows] = self.make(block_rows)
        return self.made[block_rows]

    def make(self, block_rows):
        if "experts" not in self.table:
            return [(1.0, self.problem(1, self.rows, self.table["n"], self.table["k"]))]
        share = 1 - self.rows_of[0]
        active = self.table["experts"] * share
        tiles = sum(-(-rows // block_rows) * p for rows, p in enumerate(self.rows_of)) / share
        mean = sum(rows * p for rows, p in enumerate(self.rows_of)) / share
        low = math.floor(tiles + 1e-9)
        made = []
        for count, weight in ((low, 1 - (tiles - low)), (low + 1, tiles - low)):
            if count < 1 or weight < 1e-6:
                continue
            rows = min(max(round(mean), (count - 1) * block_rows + 1), count * block_rows)
            for n, k in ((2 * self.table["n"], self.hidden), (self.hidden, self.table["n"])):
                made.append((weight, self.problem(max(1, round(active)), rows, n, k)))
        return made

    def problem(self, batch, m, n, k):
        dtype = self.table["dtype"]
        return {"name": f"{dtype} {batch}×{m}×{n}×{k}", "dtype": dtype, "result": {"s8": "s32"}.get(dtype, dtype),
                "batch": batch, "m": m, "n": n, "k": k, "left": "plain", "right": "turned"}


def space_of(case):
    """All that their tuning tried for it, the winner with it (a few tables have seen other values)."""
    found = [each for each in itertools.product(*SPACE) if case.table["dtype"] != "s8" or each[2] <= 128]
    return found if case.winner in found else [*found, case.winner]


def cases_of(document):
    return [Case(table, rows) for table in document["tables"] for rows in TOKENS if str(rows) in table["winners"]]


def held_out(cases):
    """Every third shape, by its digest: it is no one's choice which."""
    shapes = {case.shape for case in cases}
    ordered = sorted(shapes, key=lambda shape: hashlib.sha256(repr(shape).encode()).hexdigest())
    return set(ordered[::3])


# ---------------------------------------------------------------- ours

def tile_text(tile):
    """As JSON, of which there are a million."""
    return (f'{{"instruction":"{tile["instruction"]}","block":{tile["block"]},"warp":{tile["warp"]},'
            f'"stages":{tile["stages"]},"group":{tile["group"]}}}')


class Prices:
    """Predictions by `stitch contractions --tiles`, each asked for once."""

    def __init__(self, stitch=STITCH):
        self.stitch, self.known, self.wanted, self.problems = stitch, {}, {}, {}

    def want(self, gpu, problem, tile):
        key = gpu, problem["name"], tile_text(tile)
        if key not in self.known:
            self.problems[problem["name"]] = problem
            self.wanted.setdefault((gpu, problem["name"]), {})[key[2]] = None

    def ask(self):
        for gpu in {gpu for gpu, _ in self.wanted}:
            names = [name for of, name in self.wanted if of == gpu]
            with tempfile.TemporaryDirectory() as folder:
                problems, tiles = pathlib.Path(folder, "problems.json"), pathlib.Path(folder, "tiles.jsonl")
                problems.write_text(json.dumps([self.problems[name] for name in names]))
                tiles.write_text("".join(f'{{"name": {json.dumps(name)}, "tiles": [{",".join(self.wanted[gpu, name])}]}}\n'
                                         for name in names))
                done = subprocess.run([str(self.stitch), "contractions", "--problems", str(problems), "--tiles", str(tiles),
                                       "--target", gpu], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"stitch contractions --tiles: {done.stderr.strip()[-400:]}")
            for line in estimate.parse(done.stdout):
                for tile, us, broken in zip(self.wanted[gpu, line["name"]], line["predicted_us"], line["broken"]):
                    self.known[gpu, line["name"], tile] = us, broken
        self.wanted = {}

    def get(self, gpu, problem, tile):
        return self.known[gpu, problem["name"], tile_text(tile)]


def questions(case, configuration):
    """[(weight, problem, tiles)] of one configuration."""
    for weight, problem in case.products(configuration[0]):
        row_tiles = -(-problem["m"] // configuration[0])
        yield weight, problem, tiles_of(configuration, case.table["dtype"], case.gpu, problem["k"], row_tiles)


def scaling_us(case, configuration):
    """What a block-scaled product of s8 does besides multiplying, µs: behind every tile of the depth each sum is converted
    to f32, multiplied by two scales and added. A warp multiplies or scales, so that this is added to what ours would take."""
    if "experts" in case.table:
        return 0.0
    rows, columns, block_depth = configuration[:3]
    tiles = -(-case.rows // rows) * -(-case.table["n"] // columns)
    clocks = rows * columns * (1 / A100["conversions"] + SCALING_INSTRUCTIONS / A100["lanes"])
    return -(-tiles // A100["sms"]) * -(-case.table["k"] // block_depth) * clocks / A100["mhz"]


def sums_spill(case, configuration):
    """Whether a block-scaled product's two sets of sums, s32 of a tile of the depth and f32 of all, are more than registers."""
    rows, columns, warps = configuration[0], configuration[1], configuration[4]
    return "experts" not in case.table and 2 * rows * columns // (32 * warps) + OTHER_REGISTERS > MOST_REGISTERS


def time_of(case, configuration, prices):
    """Predicted µs, and why there are none: the rule that says it does not fit (as their tuning leaves it out), or that there
    is no such tile of ours. Of the winner, which was seen to be fast, what the model says although it would spill; what ours
    would only loop over otherwise has a time."""
    total = 0
    for weight, problem, tiles in questions(case, configuration):
        us, broken = next((found for found in (prices.get(case.gpu, problem, tile) for tile in tiles)
                           if found[1] != "shared-memory"), (None, "shared-memory"))
        if us is None or (broken == "registers" and configuration != case.winner):
            return None, broken
        total += weight * us
    if sums_spill(case, configuration) and configuration != case.winner:
        return None, "registers"
    return total + scaling_us(case, configuration), None


class Ranking:
    """A case's space by our model: the winner's place among those that have a time, our own choice."""

    def __init__(self, case, prices):
        self.case = case
        times = {each: time_of(case, each, prices) for each in space_of(case)}
        self.times = {each: us for each, (us, _) in times.items() if us is not None}
        self.winner_us, self.why_none = times[case.winner]
        self.choice = min(self.times, key=self.times.get)
        if self.winner_us is not None:
            below = sum(us < 0.9999 * self.winner_us for us in self.times.values())
            equal = sum(abs(us / self.winner_us - 1) <= 1e-4 for us in self.times.values())
            # Of equals, among which there is no order, the middle.
            self.place = (below + (equal - 1) / 2) / max(1, len(self.times) - 1)
            self.regret = self.winner_us / self.times[self.choice]


def rank(cases, prices):
    for case in cases:
        for configuration in space_of(case):
            for _, problem, tiles in questions(case, configuration):
                for tile in tiles:
                    prices.want(case.gpu, problem, tile)
    prices.ask()
    return [Ranking(case, prices) for case in cases]


# ---------------------------------------------------------------- NVIDIA's model

def estimates(rankings, library=nvidia.Library):
    """{ranking: (our choice, winner) in µs by NVIDIA's Triton back end}, of those that it knows. It asks for tile, warps and
    split; depth of a tile and stages make no difference to it."""
    handles, found = {}, {}

    def price(case, configuration):
        gpu = GPUS[case.table["gpu"]][1]
        if gpu not in handles:
            handles[gpu] = library(gpu, "TRITON", True)
        handle = handles[gpu]
        total = 0
        for weight, problem, tiles in questions(case, configuration):
            # By the warps of mma.sync, which is what that back end has, on Hopper as well.
            down, across = warps_of_mma(*configuration[:2], configuration[4])
            tile = {"block": tiles[0]["block"], "warp": [configuration[0] // down, configuration[1] // across],
                    "stages": configuration[5], "split": 1, "group": configuration[3]}
            us = handle.estimate(problem, tile)
            if us is None:
                return None
            total += weight * us
        return total

    for ranking in rankings:
        if ranking.winner_us is None or GPUS[ranking.case.table["gpu"]][1] is None:
            continue
        pair = tuple(price(ranking.case, each) for each in (ranking.choice, ranking.case.winner))
        if None not in pair:
            found[ranking] = pair
    return found


# ---------------------------------------------------------------- the page

def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return math.nan if not ordered else ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def summary(groups, theirs):
    rows = []
    for name, group in groups.items():
        known = [each for each in group if each.winner_us is not None]
        places, regrets = [each.place for each in known], [each.regret for each in known]
        by_nvidia = [theirs[each][0] / theirs[each][1] for each in known if each in theirs]
        rows.append([name, len(known), len(group) - len(known), f"{100 * median(places):.1f} %" if places else "",
                     f"{100 * sum(each <= PLACE_GOAL for each in places) / len(places):.0f} %" if places else "",
                     estimate.text(estimate.geometric_mean(regrets)), estimate.text(median(regrets)),
                     estimate.text(max(regrets, default=math.nan)),
                     f"{estimate.geometric_mean(by_nvidia):.2f} ({len(by_nvidia)})" if by_nvidia else ""])
    return estimate.table(["", "winners", "no such tile of ours", "winner's place, median", "in the best 5 %",
                           "winner ÷ our choice, by our model", "median", "worst",
                           "our choice ÷ winner, by NVIDIA's model (of)"], rows)


def of(rankings, key):
    groups = {}
    for each in rankings:
        groups.setdefault(key(each), []).append(each)
    return dict(sorted(groups.items()))


def block_table(rankings):
    """How often ours and theirs agree about each part of a configuration."""
    known = [each for each in rankings if each.winner_us is not None]
    rows = []
    for at, field in enumerate(FIELDS):
        same = sum(each.choice[at] == each.case.winner[at] for each in known)
        near = sum(max(each.choice[at], each.case.winner[at]) <= 2 * min(each.choice[at], each.case.winner[at]) for each in known)
        rows.append([f"`{field}`", f"{100 * same / len(known):.0f} %", f"{100 * near / len(known):.0f} %",
                     f"{100 / len(SPACE[at]):.0f} %"])
    return estimate.table(["", "the same", "within a factor of two", "the same by chance"], rows)


def page(rankings, theirs, document, out, why_no_estimates):
    about = provenance.about("bench/contractions/winners.py --write")
    kept = document["about"]
    small = "up to 64 rows", "256 rows and more"
    none = [each for each in rankings if each.winner_us is None]
    whole = summary({"all": rankings}, theirs)
    lines = [
        "# Where our model ranks winners of others", "",
        f"Written by `{about['command']}` on {about['date']}, commit {about['commit']}, {about['machine']}. Nothing ran here. "
        f"Others tuned {len(rankings)} times on real GPUs: {kept['source']} (sha256 {kept['sha256'][:12]}, {kept['licence']}), "
        "tables of SGLang's fused mixture-of-experts kernel (many of them vLLM's) and of its block-scaled product, in Triton. "
        "*Winner*: the configuration that was fastest on the GPU, of up to 1,920 (tile, warps, stages, group). Each of them as a "
        "tile of ours, ranked by our model: [how](../contractions/README.md#winners-of-others). *Place*: "
        "the share of the space that is predicted to be faster; of equals the middle. *Winner ÷ our choice*: how much slower the "
        "winner is predicted to be than what we would have chosen; 1 says that our model cannot tell them apart. *By NVIDIA's "
        "model*: nvMatmulHeuristics' Triton back end's estimates of both, where it has any.", "",
        "| | goal | seen |", "|---|---|---|",
        f"| winner's place, median | {100 * PLACE_GOAL:.0f} % | {100 * median([e.place for e in rankings if e.winner_us]):.1f} % |",
        f"| of mixtures | {100 * PLACE_GOAL:.0f} % | "
        f"{100 * median([e.place for e in rankings if e.winner_us and 'experts' in e.case.table]):.1f} % |",
        f"| of shapes held out | {100 * PLACE_GOAL:.0f} % | "
        f"{100 * median([e.place for e in rankings if e.winner_us and e.case.shape in out]):.1f} % |",
        f"| our choice ÷ winner by NVIDIA's model, geometric mean | {REGRET_GOAL:.2f} | "
        f"{estimate.text(estimate.geometric_mean([a / b for a, b in theirs.values()])) or why_no_estimates} |", "",
        "Nothing was fitted to these winners; a third of the shapes is held out for whoever does.", "",
        *whole, "", "## By rows and kernel", "",
        "*Rows*: of the product, or tokens of the mixture. *Held out*: every third shape.", "",
        *summary(of(rankings, lambda e: ("mixture, " if "experts" in e.case.table else "product, ") + small[e.case.rows > 64]),
                 theirs), "",
        *summary(of(rankings, lambda e: "held out" if e.case.shape in out else "the others"), theirs), "",
        "## By GPU", "", *summary(of(rankings, lambda e: e.case.table["gpu"].removeprefix("NVIDIA_")), theirs), "",
        "## By part", "", "How often our choice has what the winner has.", "", *block_table(rankings), "",
        "## Furthest", "", "Winners that our model would have missed by most, by its own prediction:", ""]
    far = sorted((each for each in rankings if each.winner_us), key=lambda each: -each.regret)[:12]
    lines += estimate.table(
        ["case", "rows", "winner M, N, K, group, warps, stages", "our choice", "winner ÷ our choice", "place",
         "by NVIDIA's model"],
        [[each.case.name, each.case.rows, " ".join(map(str, each.case.winner)), " ".join(map(str, each.choice)),
          estimate.text(each.regret), f"{100 * each.place:.0f} %",
          estimate.text(1 / (theirs[each][0] / theirs[each][1])) if each in theirs else ""] for each in far])
    lines += ["", "## What limits this", "", *LIMITS, ""]
    if none:
        counted = of(none, lambda each: each.why_none)
        lines += ["Winners that are no tile of ours, by the rule that they break: " +
                  ", ".join(f"{name} {len(group)}" for name, group in counted.items()) + ".", ""]
    if why_no_estimates:
        lines += [f"No estimates by NVIDIA's model: {why_no_estimates}.", ""]
    return "\n".join(lines)


LIMITS = (
    "* A winner is the least of 1,920 short measurements. Up to 64 rows memory decides, hundreds of configurations lie within "
    "some per cent, and their order is noise: there *winner ÷ our choice* says more than the place.",
    "* These are other kernels: Triton's code, which gathers rows by index, loads by pointers (no tensor copies on Hopper) and "
    "stores straight from registers. Our model predicts what kernels of ours would take for the same tiles.",
    "* Block-scaled products of s8 (the products above) multiply their sums by scales in f32 after every tile of the depth, which "
    "kernels of ours do not: twice the sums in registers, and work for CUDA cores. Both are counted here, besides what our model "
    "predicts; the winners' order among tiles of equal work is still our model's.",
    "* Hidden sizes, experts of a token and even routing are taken from the models' papers and the tuning scripts; the tables "
    "do not say. Some are of older versions of Triton, and some were merged from runs on several machines.",
    "* Our model has experts as a batch of equal products. Theirs share nothing but the launch either; but a group of theirs "
    "walks row tiles of several experts, which is why groups agree no more often than by chance.",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collect", type=pathlib.Path, metavar="WHEEL")
    parser.add_argument("--stitch", type=pathlib.Path, default=STITCH)
    parser.add_argument("--only", default="", help="cases whose names contain this; printed, not written")
    parser.add_argument("--write", action="store_true", help="write bench/results/winners.md")
    options = parser.parse_args()
    if options.collect:
        KEPT.write_bytes(gzip.compress(text_of(collect(options.collect)).encode(), mtime=0))
        return
    document = read()
    cases = cases_of(document)
    out = held_out(cases)
    rankings = rank([case for case in cases if options.only in case.name], Prices(options.stitch))
    theirs, why = {}, "this Python has no nvidia-matmul-heuristics" if estimate.installed() is None else ""
    if not why:
        theirs = estimates(rankings)
    text = page(rankings, theirs, document, out, why)
    if options.write and not options.only:
        (ROOT / "bench/results/winners.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
