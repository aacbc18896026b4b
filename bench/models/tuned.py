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
    ("onnx", "crnn_lstm"): "LSTMs of 31 turns, one after the other, each turn a dependent chain behind a barrier of its cluster",
}
# The same beside the time of XLA's launches and bytes (its library kernels, by the same rule): no model's plan is predicted to
# take longer, or there is a reason below; and so much in the geometric mean.
MOST_BESIDE_XLA, MEAN_BESIDE_XLA = 1.0, 0.48
BESIDE_XLA = {}
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
