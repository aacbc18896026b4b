"""What `bench/models/table` and the test of every model (tests/models) share: which files there are, how one is tuned, and
when that is sound."""
import hashlib
import json
import pathlib
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
# A plan's predicted time beside the time of its launches and bytes: at most so many times that, or a reason below.
MOST_BEYOND_TRAFFIC = 3.0
BEYOND_TRAFFIC = {
    ("hlo", "dien_infer"): "two recurrences of 100 turns, one after the other, each turn a dependent chain within a block",
    ("hlo", "crnn_infer"): "LSTMs of 24 turns with their products, forwards and backwards, each turn a dependent chain",
    ("onnx", "crnn_unrolled"): "LSTMs of 31 turns with their products, each turn a dependent chain behind a barrier of its cluster",
    ("onnx", "crnn_lstm"): "LSTMs of 31 turns, one after the other, each turn a dependent chain behind a barrier of its cluster",
}
# The same beside the time of XLA's launches and bytes (its library kernels, by the same rule): no model's plan is predicted to
# take longer, or there is a reason below; and so much in the geometric mean.
MOST_BESIDE_XLA, MEAN_BESIDE_XLA = 1.0, 0.48
BESIDE_XLA = {
    "crnn_infer": "96 products of its LSTMs are in the recurrent kernels; XLA's are library calls, which its side leaves out",
}
# Rows of docs/models.md that had fewer launches or bytes once (best.json), and why they have not now.
OLD_MODEL = "planned otherwise before 47ce721d, by an earlier model; today's predicts this to be faster"
DEPTHWISE = "depthwise convolutions are written out: what their library calls moved, which counts on neither side, is ours now"
WORSE_THAN_ONCE = {
    "hlo/dien_train_unrolled": "its turns are loops, which leave their states in memory for the gradients' loops: 55 MB for 398 launches",
    "hlo/llama_train": "one launch more (2 us by the rule) than at 29575869 moves 81 MB less (27 us)",
    "hlo/resnet50_train": "its batch norms, which read a tensor twice, keep less of it on chip; " + OLD_MODEL,
    "onnx/convnext_tiny": DEPTHWISE,
    "onnx/mobilenet_v3": DEPTHWISE,
    "onnx/unet_block": "one launch more (2 us by the rule) moves 84 MB less (28 us)",
    "onnx/unet_block_f16": "two launches fewer (4 us by the rule) for 42 MB (14 us); " + OLD_MODEL,
    "fragments/batch_norm_relu_fb": "the slabs' number follows the model's price of DRAM rows and barriers, which changed twice",
    "fragments/lamb_60": "two launches (4 us by the rule) that move 93 MB less than the one did (31 us)",
}
# Models with kernels that spill registers in a loop, and why they have to: {(kind, name): reason}. None does.
SPILLING = {}
PATTERNS = {"hlo": "hlo/*.hlo.txt.gz", "onnx": "onnx/*.onnx", "fragments": "fragments/*.hlo.txt.gz"}


def name_of(path):
    return path.name.split(".")[0]


def paths(only=""):
    """(kind, path) of every model and fragment here whose name contains `only`."""
    return [(kind, path) for kind, pattern in PATTERNS.items() for path in sorted(HERE.glob(pattern))
            if only in name_of(path)]


def seed_of(commit):
    """Of the inputs of verification: every commit sees other values, and the same commit always the same."""
    return int.from_bytes(hashlib.sha256(f"seed {commit}".encode()).digest()[:4], "big")


def is_drawn(commit, kind, name):
    """Whether a test run at this commit tunes this model or fragment: one of every two of its kind that are alike in size,
    drawn by the commit's hash, so that every run has its half of the large ones; and always the model that had a wrong
    kernel once. STITCH_MODELS=all tunes the others, too."""
    if (kind, name) == ("hlo", "llama_decode"):
        return True
    files = sorted(HERE.glob(PATTERNS[kind]), key=lambda path: (path.stat().st_size, path.name))
    names = [name_of(path) for path in files]
    place = names.index(name)
    first = names[place - place % 2]
    return (hashlib.sha256(f"{commit} {kind}/{first}".encode()).digest()[0] + place) % 2 == 0


def run(stitch, verb, path, options, timeout):
    """What `stitch plan` or `stitch tune` (the verb) printed for a file, with "error" and "wall" added."""
    command = [str(stitch), verb, str(path), "--json", "--quiet", *options]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {timeout:g} s", "wall": time.monotonic() - start}
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        result = {"error": f"exit status {done.returncode}: {last}"}
    if isinstance(result.get("error"), dict):
        result["error"] = result["error"]["message"]
    result["wall"] = time.monotonic() - start
    return result


def rough_us(launches, size):
    """2 us a launch and 3.0 TB/s: the same rule for everybody's launches and bytes."""
    return 2 * launches + size / 3.0e6


def beyond_traffic(result):
    """The predicted time divided by the rough time of the plan's launches and bytes."""
    return result["predicted_us"] / rough_us(result["launches"], result["bytes"]) if result["launches"] else 1.0


def rows_of_page(text):
    """{"hlo/NAME": {"launches", "bytes" (MB, of fragments ÷ ideal), "calls" (library)}} of a docs/models.md."""
    rows, section, heading = {}, "", None
    for line in text.splitlines():
        if line.startswith("## "):
            section, heading = {"HLO models": "hlo", "ONNX models": "onnx", "Fragments": "fragments"}.get(line[3:], ""), None
        if not section or not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if heading is None:
            heading = cells
            continue
        size = "bytes ÷ ideal" if section == "fragments" else "MB"
        if size not in heading or "launches" not in heading:
            continue
        found = {"launches": cells[heading.index("launches")], "bytes": cells[heading.index(size)],
                 "calls": cells[heading.index("library calls")] if "library calls" in heading else ""}
        try:
            figures = {name: float(cell.replace(",", "").strip("()")) for name, cell in found.items() if cell}
        except ValueError:  # a row with a problem, the line below the heading
            continue
        if "launches" in figures and "bytes" in figures:
            rows[f"{section}/{cells[0]}"] = figures
    return rows


def worse_rows(rows, best):
    """[(key, figure, now, entry of best)]: rows that had fewer launches once, or fewer bytes by more than print shows."""
    least = {"launches": lambda value: value, "bytes": lambda value: value * 1.003 + 0.004}
    return [(key, figure, row[figure], best[key][figure]) for key, row in rows.items() if key in best for figure in least
            if row[figure] > least[figure](best[key][figure][figure])]


def worse_lines(rows, best):
    """The page's list: what each row had, when, and why it has not now."""
    lines = []
    for key, figure, now, then in worse_rows(rows, best):
        other = "bytes" if figure == "launches" else "launches"
        unit = {"launches": "launches", "bytes": "× ideal" if key.startswith("fragments/") else "MB"}
        calls = f", {then['calls']:,.0f} library calls (now {rows[key].get('calls', 0):,.0f})" if then.get("calls") else ""
        lines.append(f"* {key}: {now:,g} {unit[figure]}, at {then['commit']} {then[figure]:,g} (with {then[other]:,g} "
                     f"{unit[other]}, now {rows[key][other]:,g}{calls}): {WORSE_THAN_ONCE.get(key, '**unexplained**')}.")
    return lines


def xla_figures():
    return json.loads((HERE / "xla.json").read_text())


def xla_rough_us(figures):
    """What XLA's launches and bytes take by the rule, of one entry of xla.json; nothing where nobody has compiled it."""
    library = figures.get("library", {})
    return rough_us(library["memory_intensive"], library["bytes"]) if "bytes" in library else None


def beside_xla(result, figures):
    """The predicted time divided by XLA's rough time."""
    theirs = xla_rough_us(figures)
    return result["predicted_us"] / theirs if theirs and "error" not in result else None


def slower_than_xla(name, result, figures):
    """Why an HLO model's plan is worse than XLA's counts say; empty when it is not, or when it is known why."""
    ratio = beside_xla(result, figures)
    if ratio is None:
        return ""
    if ratio > MOST_BESIDE_XLA and name not in BESIDE_XLA:
        return (f"predicted {result['predicted_us']:.1f} us, {ratio:.2f} times what XLA's launches and bytes take; "
                "BESIDE_XLA of bench/models/tuned.py names those that may")
    if ratio <= MOST_BESIDE_XLA and name in BESIDE_XLA:
        return f"only {ratio:.2f} times XLA's rough time now: take it off BESIDE_XLA in bench/models/tuned.py"
    return ""


def slow_plan(kind, name, result):
    """Why a plan is worse than its counts say; empty when it is not, or when it is known why."""
    if "error" in result:
        return result["error"]
    ratio = beyond_traffic(result)
    known = (kind, name) in BEYOND_TRAFFIC
    if ratio > MOST_BEYOND_TRAFFIC and not known:
        return (f"predicted {result['predicted_us']:.1f} us, {ratio:.2f} times the {result['launches']} launches and "
                f"{result['bytes'] / 1e6:.1f} MB; bench/models/tuned.py names those that may")
    if ratio <= MOST_BEYOND_TRAFFIC and known:
        return f"only {ratio:.2f} times its traffic now: take it off BEYOND_TRAFFIC in bench/models/tuned.py"
    return ""


def spilling(kind, name, result):
    """What is wrong with a tuned model's kernels that spill in loops; empty when none does, or when it is known why."""
    if "spilling_kernels" not in result:
        return ""
    kernels = result["spilling_kernels"]
    if kernels and (kind, name) not in SPILLING:
        return f"{len(kernels)} kernels spill in a loop: {kernels[0]}; SPILLING of bench/models/tuned.py names those that may"
    if not kernels and result["verified"]["kernels"] and (kind, name) in SPILLING:
        return "no kernel spills in a loop now: take it off SPILLING in bench/models/tuned.py"
    return ""


def problem(result, tuned=False):
    """Why a result is not sound; empty when it is. A kernel that was wrong is a problem although a right one took its
    place."""
    if "error" in result:
        return result["error"]
    parts = []
    if result["verified"]["wrong"]:
        parts.append(f"{result['verified']['wrong']} wrong")
    if result["failures"]:
        parts.append(f"{len(result['failures'])} fragments without a plan: {result['failures'][0]}")
    if wrong := result.get("wrong_candidates"):
        parts.append(f"{len(wrong)} wrong candidates: {wrong[0]}")
    if tuned and not parts and result["verified"]["kernels"] != result["kernels"]:
        parts.append(f"{result['verified']['kernels']} of {result['kernels']} kernels verified")
    return "; ".join(parts)
