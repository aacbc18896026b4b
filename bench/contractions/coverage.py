#!/usr/bin/env python3
"""Kernels of the matmul class on the emulated device for sm_80, sm_89 and sm_90a: the shapes of ALCOP, DeepCuts, attention
and models, and random products. Writes bench/results/contractions_coverage.md.

    bench/contractions/coverage.py                 runs what the logs lack, then prints the page
    bench/contractions/coverage.py --write         and writes it
    bench/contractions/coverage.py --within 600    begins nothing more after so many seconds; the page says what is missing
    bench/contractions/coverage.py --logs FOLDER   where the logs are; a run goes on where they end (.venv/coverage)

Counting rules: bench/contractions/README.md. Needs no GPU and no package.
"""
import argparse
import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import provenance
from problems import RESNET50, VGG16, problem

PAGE = ROOT / "bench/results/contractions_coverage.md"
TARGETS = {"sm_80": "a100", "sm_89": "l4", "sm_90a": "h100"}
BEST = 3  # of the ranking: the first that the compiler does not spill is the chosen one, as in tuning
SEED = 1
#          name: file under bench/models; whole models whose products, convolutions and attentions are run
MODELS = ["hlo/unet_block.hlo.txt.gz", "hlo/llama_prefill.hlo.txt.gz", "hlo/llama_decode.hlo.txt.gz",
          "hlo/bert_infer_f16.hlo.txt.gz", "hlo/gpt2_train.hlo.txt.gz", "onnx/whisper_tiny_encoder.onnx", "onnx/swin_t.onnx",
          "onnx/convnext_tiny.onnx", "onnx/mobilenet_v3.onnx", "hlo/resnet50_train.hlo.txt.gz"]
# Of case numbers of SEED that logs have as wrong: why, found by running each by itself, and what became of it.
WRONG_BECAUSE = {194: "a guard of steps was printed as one of turns, of which a block has as many at the most; right since 1e7a3bf6"}
KINDS = ["product", "sums of columns", "normed product", "gates", "merged products", "computing product", "scaled product", "summed products",
         "grouped product", "convolution", "depthwise convolution", "attention", "attention's gradients", "chain of products"]


def convolution(name, images, layer, dtype):
    _, side, features, window, results = layer
    strides = 2 if window == 7 else 1
    return {"name": name, "dtype": dtype, "images": images, "features": features, "results": results,
            "extents": [side * strides] * 2, "window": [window] * 2, "padding": window // 2, "strides": strides}


def alcop():
    """arXiv 2210.16691, section 5: products and batched products of BERT and GPT-2, cubes, convolutions of 64 images."""
    for m, (n, k) in itertools.product((512, 1024), ((768, 768), (2304, 768), (3072, 768), (768, 3072))):
        yield problem(f"alcop/{m}x{n}x{k}", m, n, k, right="plain")
    for edge in (1024, 2048, 4096):
        yield problem(f"alcop/{edge}_cubed", edge, edge, edge, right="plain")
    for heads, length in itertools.product((12, 16), (512, 1024)):
        yield problem(f"alcop/scores_{heads}x{length}", length, length, 64, batch=heads)
        yield problem(f"alcop/values_{heads}x{length}", length, 64, length, batch=heads, right="plain")
    for family, layers in (("resnet50", RESNET50), ("vgg16", VGG16)):
        for layer in layers:
            yield convolution(f"alcop/{family}_{layer[0]}_64", 64, layer, "f16")


def deepcuts():
    """PLDI'21: convolutional networks of one image in f32, and what multiplies in a classifier and a recurrent layer."""
    for family, layers in (("resnet50", RESNET50), ("vgg16", VGG16)):
        for layer in layers:
            yield convolution(f"deepcuts/{family}_{layer[0]}_1", 1, layer, "f32")
    yield problem("deepcuts/fc6", 1, 4096, 25088, "f32")
    yield problem("deepcuts/fc8", 1, 1000, 4096, "f32")
    for hidden in (512, 1024, 2048):
        yield problem(f"deepcuts/lstm_{hidden}", 1, 4 * hidden, hidden, "f32")


def attentions():
    """Those of bench/products, with their gradients."""
    for each in json.loads((ROOT / "bench/products/problems.json").read_text()):
        if "keys" in each:
            yield each


def shapes():
    return [*alcop(), *deepcuts(), *attentions()]


# ---- Running --------------------------------------------------------------------------------------------------------

class Deadline:
    def __init__(self, seconds):
        self.until = time.monotonic() + seconds if seconds else None

    def left(self):
        return None if self.until is None else max(0, self.until - time.monotonic())

    def over(self):
        return self.left() == 0


def lines_of(path):
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def run_shapes(options, deadline):
    """A line for every schedule that was verified, as `stitch contractions` prints it, with `architecture` and `family`;
    and one `{"done": [family, architecture]}` behind those of a family."""
    log = options.logs / "shapes.jsonl"
    done = {tuple(line["done"]) for line in lines_of(log) if "done" in line}
    listed = options.logs / "shapes.json"
    listed.write_text(json.dumps(shapes()))
    units = [("shapes", ["--problems", listed, "--best", BEST])]
    units += [(name, [ROOT / "bench/models" / name, "--best", 1]) for name in MODELS]
    for (family, words), (architecture, target) in itertools.product(units, TARGETS.items()):
        if (family, architecture) in done or deadline.over():
            continue
        print(f"{family} for {architecture}", file=sys.stderr, flush=True)
        ran = subprocess.run([options.stitch, "contractions", *map(str, words), "--device", "emulated", "--target", target],
                             capture_output=True, text=True, timeout=deadline.left(), check=False)
        if ran.returncode not in (0, 1):
            sys.exit(f"{family} for {architecture}: {ran.stderr}")
        with log.open("a") as out:
            for text in ran.stdout.splitlines():
                out.write(json.dumps(json.loads(text) | {"architecture": architecture, "family": family}) + "\n")
            out.write(json.dumps({"done": [family, architecture]}) + "\n")


def run_random(options, deadline):
    command = [options.stitch, "conformance", "random", "--products", "--count", str(3 * options.count), "--seed", str(SEED),
               "--jobs", str(options.jobs), "--log", str(options.logs / "random.jsonl"), "--quiet", "--json"]
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=deadline.left(), check=False)
    except subprocess.TimeoutExpired:
        pass


# ---- The page -------------------------------------------------------------------------------------------------------

def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head),
            *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


class Random:
    """The log of `stitch conformance random --products`, added up."""

    def __init__(self, path):
        self.count, self.features = collections.Counter(), collections.Counter()
        self.refusals, self.failures = collections.Counter(), {}
        for line in lines_of(path):
            if "graphs" not in line:
                continue
            for key in ("graphs", "right", "refused", "elements", "compared"):
                self.count[key] += line[key]
            self.features.update(line["features"])
            self.refusals.update(line["refusals"])
            self.failures |= line["failures"]

    def of(self, architecture, pattern):
        """{first group of the pattern: kernels}."""
        found = collections.Counter()
        for feature, kernels in self.features.items():
            if match := re.fullmatch(f"{architecture} {pattern}", feature):
                found[match.group(1)] += kernels
        return found

    def counted(self, title, pattern, order=None):
        """Names down, architectures across."""
        columns = {architecture: self.of(architecture, pattern) for architecture in TARGETS}
        names = order or sorted({name for column in columns.values() for name in column},
                                key=lambda name: (len(re.sub(r"\D", "", name)), name))
        return table([title, *TARGETS], [[name, *(columns[a][name] for a in TARGETS)] for name in names])


def wrong_line(number, why):
    because = WRONG_BECAUSE.get(number)
    return f"* {number}: {' '.join(why.split())}" + (f" – {because}" if because else "")


def random_part(random, asked):
    count = random.count
    share = 100 * count["compared"] / max(1, count["elements"])
    kernels = {a: sum(random.of(a, f"({'|'.join(map(re.escape, KINDS))}) of .*").values()) for a in TARGETS}
    lines = ["## Random products", "",
             f"Seed {SEED}; {asked} products were asked for, each for every architecture with a schedule of its own: "
             f"{count['graphs']} cases of {3 * asked} ran. **{count['right']} right, {len(random.failures)} wrong**, "
             f"{count['refused']} without a kernel of ours; {share:.1f} % of {count['elements']:,} elements were compared (what "
             "the reference cannot bound is not). Extents are small, up to some hundreds (depths to 1,024); above a budget of work "
             "a sample of the blocks runs. A third of the schedules are the model's choice, the others any legal one.", ""]
    lines += table(["", *TARGETS], [["kernels that ran", *kernels.values()]])
    lines += random.counted("kind", f"({'|'.join(map(re.escape, KINDS))}) of .*", KINDS)
    lines += random.counted("operands", f"(?:{'|'.join(map(re.escape, KINDS))}) of (.*)")
    lines += random.counted("multiplied by", "(cuda_core|w?g?mma_.*)")
    lines += random.counted("schedule", "(split .*|streamed depth|tensor copies|realigned copies|cluster .*|"
                                        "two stages in registers|scores beside weights)")
    lines += random.counted("stages", r"stages (\d+)")
    lines += random.counted("stages of chosen schedules", r"chosen stages (\d+)")
    lines += ["**Bank conflicts.** Chosen kernels of plain products run once more with four turns of their loop more; with "
              "conflicts are those that these turns add conflicts to. By the operands' type:", ""]
    lines += random.counted("without conflicts in the loop", "loop without conflicts of (.*)")
    with_some = random.counted("with conflicts in the loop", "loop with conflicts of (.*)")
    lines += with_some if len(with_some) > 3 else ["None has conflicts in its loop.", ""]
    if random.failures:
        failures = sorted(random.failures.items(), key=lambda each: int(each[0]))
        lines += ["**Wrong:**", "", *(wrong_line(int(number), why) for number, why in failures), ""]
    if random.refusals:
        lines += ["No kernel of ours, by reason:", "", *(f"* {n} × {why}" for why, n in random.refusals.most_common()), ""]
    return lines


def spills(line):
    return "spilled" in line.get("resources", "")


def chosen_of(lines):
    """By problem: the first in the ranking that is not spilled, and all of its lines."""
    by_problem = collections.defaultdict(list)
    for line in lines:
        by_problem[line["name"], line["problem"]].append(line)
    for key, tried in by_problem.items():
        tried.sort(key=lambda line: line.get("place", 0))
        yield key, next((line for line in tried if not spills(line) and "failure" not in line), tried[0]), tried


def family_of(line):
    if line["family"] != "shapes":
        return line["family"].split(".")[0]
    return line["name"].split("/")[0].replace("_fused", "")


def shapes_part(lines):
    families = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        if "done" not in line:
            families[family_of(line)][line["architecture"]].append(line)
    rows, wrong, spilled, shares, stages, none = [], [], [], [], collections.defaultdict(collections.Counter), collections.Counter()
    for family, by_architecture in families.items():
        for architecture in TARGETS:
            chosen = list(chosen_of(by_architecture.get(architecture, [])))
            ours = [(key, line, tried) for key, line, tried in chosen if "place" in line]
            for key, line, tried in chosen:
                if "place" not in line:
                    none[line["failure"]] += 1
                wrong += [(architecture, *key, one["failure"]) for one in tried if one.get("error") == "correctness"]
            without = [line for _, line, _ in ours if not spills(line)]
            spilled += [(architecture, *key, line["runs"], line["resources"]) for key, line, _ in ours if spills(line)]
            shares += [line["share"] for _, line, _ in ours if "share" in line]
            for _, line, _ in ours:
                if match := re.search(r"stages (\d+)", line["runs"]):
                    stages[architecture][int(match.group(1))] += 1
            if chosen:
                rows.append([family, architecture, len(chosen), len(ours),
                             sum("failure" not in line for _, line, _ in ours), len(ours) - len(without),
                             sum(spills(tried[0]) for _, _, tried in ours)])
    lines = ["## Shapes of papers and models", "",
             "At their full extents: no extent was reduced. Of a large grid a sample of the blocks runs, the corners of a batch "
             "among them, and what these write is compared (of every kernel at least "
             f"{100 * min(shares, default=0):.3g} %, {100 * sorted(shares)[len(shares) // 2] if shares else 0:.2g} % in the "
             f"median). *Chosen* is the first of the {BEST} best predicted that the compiler does not spill, as in tuning; of "
             "whole models the first. *First spilled*: of how many that was another than the first.", ""]
    lines += table(["shapes", "architecture", "distinct", "kernels of ours", "right", "chosen spilled", "first spilled"], rows)
    used = sorted({stage for counter in stages.values() for stage in counter})
    lines += ["Stages in shared memory of the chosen kernels:", ""]
    lines += table(["stages", *TARGETS], [[stage, *(stages[a][stage] for a in TARGETS)] for stage in used])
    if none:
        lines += ["No kernel of ours, by reason:", "", *(f"* {n} × {why}" for why, n in none.most_common()), ""]
    if wrong:
        lines += ["**Wrong:**", "", *("* " + ": ".join(each) for each in wrong), ""]
    if spilled:
        lines += ["Chosen, and spilled:", "", *("* " + ": ".join(each) for each in spilled), ""]
    return lines


def page(options):
    shapes_log = lines_of(options.logs / "shapes.jsonl")
    done = {tuple(line["done"]) for line in shapes_log if "done" in line}
    missing = [f"{family} ({architecture})" for family, architecture in itertools.product(["shapes", *MODELS], TARGETS)
               if (family, architecture) not in done]
    random = Random(options.logs / "random.jsonl")
    about = provenance.about("bench/contractions/coverage.py --write")
    about["commit"] = options.of or about["commit"]
    lines = ["# Kernels of the matmul class for sm_80, sm_89 and sm_90a", "",
             f"Written by `{about['command']}` on {about['date']}, commit {about['commit']}, {about['machine']}. Kernels are "
             "compiled for each architecture and run on the emulated device, with red zones and all detectors, against the "
             "float64 reference; nothing is timed. Counting rules: [bench/contractions/README.md](../contractions/README.md).", ""]
    if missing:
        lines += ["**Not whole:** not run yet: " + ", ".join(missing) + ".", ""]
    return "\n".join(lines + random_part(random, options.count) + shapes_part(shapes_log)).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", default=ROOT / "build/release/bin/stitch", type=pathlib.Path)
    parser.add_argument("--logs", default=ROOT / ".venv/coverage", type=pathlib.Path)
    parser.add_argument("--count", default=3168, type=int, help="random products")
    parser.add_argument("--jobs", default=1, type=int, help="threads of the random products")
    parser.add_argument("--within", default=0, type=float, metavar="SECONDS")
    parser.add_argument("--of", metavar="COMMIT", help="the logs' commit, where it is another than that of the page")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    if not options.page:
        deadline = Deadline(options.within)
        run_shapes(options, deadline)
        if not deadline.over():
            run_random(options, deadline)
    text = page(options)
    if options.write:
        PAGE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
