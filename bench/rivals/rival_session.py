"""What bench/rivals/measure has beside the harness of bench/peers: libraries by name, and ours as whole programs."""
import gzip
import importlib.util
import pathlib
import re
import shutil
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "peers"), str(HERE)]
from harness import comparison, peers, session  # noqa: E402
from harness.printed import printed  # noqa: E402

import rival_cases  # noqa: E402

HLO = HERE / "hlo"
#       name: what `stitch run` is asked for
OURS = {"ours": ["--products", "ours", "--tune"], "ours-beside-library": ["--products", "stream", "--tune"],
        "ours-predicted": ["--products", "ours"]}
BY_NAME = ("library", "cudnn", "sdpa_flash", "flash2", "flash3", "efficient", "flex")
# In the order in which a case prepares them: what may take long comes last.
ALL = ("eager", *BY_NAME, "xla", "compile", *OURS, "autotune")


def stored(array):
    """As NumPy files hold it for `stitch run`: types that NumPy has not are bytes."""
    name = rival_cases.dtype_name(array.dtype)
    return array.view(f"V{array.dtype.itemsize}") if name in ("bf16", "f8e4m3fn") else array


def parameter_names(text):
    """The entry's parameters in their order."""
    found = re.findall(r"^\s+(?:ROOT )?%?([\w.\-]+) = [^=]* parameter\((\d+)\)", text[text.index("\nENTRY "):], re.MULTILINE)
    return [name for name, _ in sorted(found, key=lambda each: int(each[1]))]


class Ours:
    """`stitch run HLO --device gpu:0`: on the inputs of the others, results beside the reference of the others. The time
    is of the whole program as one CUDA graph behind a cold L2, gaps between its kernels included."""

    def __init__(self, program, device, log, checks):
        self.program, self.device, self.log, self.checks = program, device, log, checks
        self.path, self.answers = None, {}

    def open(self, case, checked, reference, folder, about):
        """`about`: the worker's answer to `describe`: this process itself runs nothing of JAX, whose threads do not
        outlive a fork."""
        self.case, self.reference, self.about, self.answers = case, reference, about, {}
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.path = peers.hlo_file(HLO, case.name)
        if checked:
            self.path = self.folder / f"{case.name}.hlo.txt"
            self.path.write_text(about["text"])
        if self.path is None:
            return
        self.inputs = []
        names = parameter_names(text_of(self.path))
        arrays = rival_cases.leaves(case.arrays(checked))
        for place, (name, array) in enumerate(zip(names, arrays, strict=True)):
            np.save(self.folder / f"{place}.npy", stored(np.asarray(array, order="C")))
            self.inputs += ["--input", f"{name}={self.folder / f'{place}.npy'}"]

    def close(self):
        if self.path is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self, peer, seconds):
        start, results = time.monotonic(), self.folder / "results"
        shutil.rmtree(results, ignore_errors=True)
        asked = [word for word in OURS[peer] if not (self.checks and word == "--tune")]  # steps are checked as they run
        command = [self.program, "run", self.path, "--device", self.device, *asked, *self.case.ours, *self.inputs,
                   "--output", results, "--json", "--quiet", *(["--check"] if self.checks else [])]
        status, report = printed(command, self.log, seconds)
        if status is None:
            return report
        if not {"steps", "fallbacks"} <= report.keys():
            return {"error": f"exit status {status}, no report: {str(report)[:300]}"}
        steps = report["steps"]
        if report["fallbacks"]:
            return {"error": f"by the reference evaluator: {report['fallbacks'][0]['reason']}"[:300]}
        if status != 0:
            wrong = next((step for step in steps if step.get("wrong")), None)
            return {"error": f"exit status {status}: {wrong and wrong['name']} {wrong and wrong['first_wrong']}"}
        answer = {"compile_s": round(time.monotonic() - start, 2), **self.compared(results)}
        answer["steps"] = [f"{step['kind']} by {step['by']}, {step['launches']} launches" for step in steps]
        if "why_by_steps" in report and not self.checks:
            return {**answer, "error": f"not on a stream: {report['why_by_steps']}"[:300]}
        self.answers[peer] = {"samples": report.get("cold_us", []), "kernels": sum(step["launches"] for step in steps)}
        return answer

    def compared(self, folder):
        found = sorted(folder.glob("*.npy"), key=lambda path: int(path.name.split(".")[0]))
        references = comparison.load(self.reference)
        if len(found) != len(references):
            return {"correct": False, "worst": None}
        pairs = []
        for path, reference, dtype in zip(found, references, self.about["dtypes"], strict=True):
            result = np.load(path)
            result = result.view(rival_cases.numpy_dtype(dtype)) if result.dtype.kind == "V" else result
            pairs.append((result.astype(np.float64), np.asarray(reference)))
        return comparison.verdict(comparison.worst(pairs, self.about["tolerances"], np))

    def measure(self, peer, iterations, seconds):
        """A call's samples are all there are: it made its plan, and the others wait meanwhile."""
        answer = self.answers[peer]
        samples, answer["samples"] = answer["samples"], []
        if not samples and "told" not in answer:
            return {"error": "no time of a CUDA graph with a cold L2"}
        answer["told"] = True
        return {"busy_us": samples, "span_us": samples, "kernels": answer["kernels"],
                "method": "events around a CUDA graph", "label": "whole program"}


def text_of(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def lacking(peer):
    """The package that a peer needs and this Python has not, if any."""
    package = rival_cases.PACKAGES.get(peer)
    return package if package and importlib.util.find_spec(package) is None else None


class RivalSession(session.Session):
    def __init__(self, options, folder, names):
        super().__init__(options, folder, names, HERE / "rival_cases")
        self.ours = Ours(options.ours, "emulated" if options.device == "cpu" else "gpu:0", self.log, options.check)

    def all_peers(self):
        return ALL

    def peers_of(self, case):
        """Those by name where the case has a way to ask them; packages that are not there keep their line."""
        return [peer for peer in self.peers if peer not in BY_NAME or peer in case.ways]

    def write(self, kind, **fields):
        """A result says of which kind of work it is: the report needs no table of cases."""
        if kind == "result":
            fields["family"] = rival_cases.by_name(fields["case"]).family
        super().write(kind, **fields)

    def prepared(self, peer, opened):
        package = lacking(peer)
        if package:
            return {"absent": package, "error": f"absent: {package} is not installed"}
        if self.options.device == "cpu" and peer in self.case.ways and self.case.ways[peer].on_gpu:
            return {"absent": "a GPU", "error": "absent: no kernel for a CPU"}
        if "error" in opened:
            return {"error": f"no reference: {opened['error']}"}
        if self.side(peer) is self.ours and self.options.ours and "error" in self.described:
            return {"error": f"no HLO text: {self.described['error']}"}
        return super().prepared(peer, opened)

    def begin(self):
        super().begin()
        if self.options.check:  # so that a report of it says that nothing was measured
            self.write("session", gpu=None)

    def open_ours(self, case, reference):
        if not self.options.ours:
            return
        self.described = self.xla.worker.ask({"do": "describe", "case": case.name}, self.options.peer_seconds)
        if "error" not in self.described:
            self.ours.open(case, self.options.check, reference, self.folder / "ours", self.described)

    def run_case(self, case):
        self.case = case
        try:
            return super().run_case(case)
        finally:
            self.ours.close()
