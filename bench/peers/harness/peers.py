"""The peers of a measurement, each behind the same two questions: `prepare` (build it, say whether it is correct) and
`measure` (some iterations). Answers are dictionaries; one with "error" says why there is nothing."""
import pathlib
import time

from . import worker
from .printed import printed

TORCH = ("eager", "eager+graph", "compile", "compile+graph", "autotune", "autotune+graph")
XLA = ("xla",)
OURS = ("ours-predicted", "ours-tuned")
# In the order in which a case prepares them: what may take long comes last.
ALL = ("eager", "eager+graph", "xla", *OURS, "compile", "compile+graph", "autotune", "autotune+graph")


class Framework:
    """One worker process and the case that is open in it. After an error the process is replaced: an error of the
    device stays with the process that had it."""

    def __init__(self, script, arguments, log, environment):
        self.worker = worker.Worker(script, arguments, log, environment)
        self.request, self.opened, self.prepared = None, False, {}

    def open(self, name, reference, seconds):
        self.request, self.opened, self.prepared = {"do": "open", "case": name, "reference": str(reference)}, False, {}
        return self.reopen(seconds)

    def reopen(self, seconds):
        answer = self.ask(self.request, seconds)
        self.opened = "error" not in answer
        return answer

    def prepare(self, peer, seconds):
        if not self.opened:
            answer = self.reopen(seconds)
            if not self.opened:
                return answer
        answer = self.ask({"do": "prepare", "peer": peer}, seconds)
        if "error" not in answer:
            self.prepared[peer] = answer
        return answer

    def measure(self, peer, iterations, seconds):
        if peer not in self.prepared:
            answer = self.prepare(peer, seconds)
            if "error" in answer:
                return answer
        return self.ask({"do": "measure", "peer": peer, "iterations": iterations}, seconds)

    def ask(self, request, seconds):
        answer = self.worker.ask(request, seconds)
        if "error" in answer:
            self.worker.stop()
            self.opened, self.prepared = False, {}
        return answer

    def close(self, seconds):
        if self.opened:
            self.ask({"do": "release"}, seconds)
        self.opened, self.prepared = False, {}


class Ours:
    """`stitch bench FILE --device gpu:0 --json --predicted` (or `--tuned`): a process a call, which draws its own
    inputs, compares with our own float64 reference, and prints one JSON object:
    {"time_us": …, "samples_us": […], "kernels": n, "correct": bool, "worst": x, "label": "predicted" or "measured"}."""

    def __init__(self, program, log, slow_seconds):
        self.program, self.log, self.slow = program, log, slow_seconds
        self.answers, self.path = {}, None

    def open(self, path):
        self.answers, self.path = {}, path

    def prepare(self, peer, seconds):
        start = time.monotonic()
        command = [self.program, "bench", str(self.path), "--device", "gpu:0", "--json", "--" + peer.split("-")[1]]
        status, result = printed(command, self.log, seconds)
        if status is None:
            return result
        if not {"samples_us", "time_us"} <= result.keys():
            return {"error": f"exit status {status}, no result: {str(result)[:200]}"}
        samples = result["samples_us"] or [result["time_us"]]
        spent = time.monotonic() - start
        # A plan is timed as one CUDA graph, from its first kernel's start to its last one's end: the gaps are in both.
        self.answers[peer] = {"busy_us": samples, "span_us": samples, "kernels": result["kernels"],
                              "label": result["label"], "method": "stitch bench", "seconds": spent, "fresh": True}
        return {"correct": result["correct"], "worst": result["worst"], "compile_s": round(spent, 2)}

    def measure(self, peer, iterations, seconds):
        """The first call's samples, then those of a new call, unless a call takes too long to be repeated."""
        answer = self.answers[peer]
        if not answer["fresh"]:
            if answer["seconds"] > self.slow:
                return {}
            again = self.prepare(peer, seconds)
            if "error" in again:
                return again
        self.answers[peer]["fresh"] = False
        return {key: self.answers[peer][key] for key in ("busy_us", "span_us", "kernels", "label", "method")}


def hlo_file(folder, name):
    for suffix in (".hlo.txt", ".hlo.txt.gz"):
        path = pathlib.Path(folder) / (name + suffix)
        if path.exists():
            return path
    return None
