"""One call of bench/peers/measure: the machine, the cases that are still to do, the lines that are written.

A result file has one JSON object a line: {"kind": "session"} (machine, versions, copy bandwidth), {"kind": "result"}
for each case and peer, {"kind": "case"} when a case is through. README.md lists the fields.
"""
import datetime
import pathlib
import shutil
import subprocess
import time

from . import peers
from .lines import append, read_lines

HLO = pathlib.Path(__file__).resolve().parents[1] / "hlo"
COPY_BYTES = 1 << 30
CLOCKS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"


def nvidia_smi(fields):
    """{field: text}, empty where there is no nvidia-smi."""
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    first = done.stdout.splitlines()[0]
    return dict(zip(fields.split(","), (cell.strip() for cell in first.split(","))))


class Session:
    def __init__(self, options, folder, names, table=None):
        """names: those of all cases, in the order of the report. table: the folder that the workers have them from;
        none: bench/peers' own."""
        self.places = {name: place for place, name in enumerate(names)}
        self.options, self.folder = options, pathlib.Path(folder)
        self.started = time.monotonic()
        self.name = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.peers = [peer for peer in self.all_peers() if peer in options.peers]
        self.log = options.log or str(self.folder / "log")
        checked = (["--checked"] if options.check else []) + (["--cases", str(table)] if table else [])
        # The PyTorch process uses JAX only to know the shapes of the results.
        self.torch = peers.Framework("torch_worker.py", ["--device", options.device, *checked], self.log,
                                     {"JAX_PLATFORMS": "cpu"})
        self.checked, self.xla = checked, None
        # Makes the reference of a case that XLA's device cannot open. Started when one is needed.
        self.spare = peers.Framework("jax_worker.py", ["--device", "cpu", "--recorders", "", *checked], self.log,
                                     {"JAX_PLATFORMS": "cpu"})
        self.ours = peers.Ours(options.ours, self.log, options.ours_seconds)
        self.longest = 0.0

    def all_peers(self):
        """In the order in which a case prepares them."""
        return peers.ALL

    def peers_of(self, case):
        return self.peers

    def elapsed(self):
        return time.monotonic() - self.started

    def write(self, kind, **fields):
        if self.options.results:
            append(self.options.results, {"kind": kind, "session": self.name, **fields})

    def begin(self):
        """Asks what machine this is, and measures its copy bandwidth."""
        about = self.torch.ask({"do": "about"}, 180)
        if "error" in about:
            raise SystemExit(f"PyTorch does not start: {about['error']} (log: {self.log})")
        l2 = about.get("l2_bytes") or 0
        platforms = "cpu" if self.options.device == "cpu" else "cuda,cpu"
        self.xla = peers.Framework("jax_worker.py", ["--device", self.options.device, "--l2-bytes", str(l2),
                                                     "--recorders", self.options.recorders, *self.checked], self.log,
                                   {"JAX_PLATFORMS": platforms, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
        about.update(self.xla.ask({"do": "about"}, 180))
        if self.options.check:
            return
        copies = self.torch.ask({"do": "copy", "bytes": COPY_BYTES, "iterations": 20}, 120)
        if "error" in copies:
            raise SystemExit(f"the copy bandwidth cannot be measured: {copies['error']} (log: {self.log})")
        self.write("session", gpu=about["name"], **nvidia_smi(f"driver_version,{CLOCKS}"), torch=about["torch"],
                   jax=about.get("jax"), l2_bytes=l2, copy_bytes=COPY_BYTES, copy_us=copies["busy_us"],
                   copy_method=copies["method"])

    def remaining(self, chosen):
        """The cases that no earlier call has seen through with all these peers."""
        done = {line["case"]: set(line["peers"]) for line in read_lines(pathlib.Path(self.options.results))
                if line["kind"] == "case"} if self.options.results else {}
        return [case for case in chosen if not set(self.peers_of(case)) <= done.get(case.name, set())]

    def time_for_another(self):
        return self.elapsed() + self.longest < self.options.within

    def run_case(self, case):
        """Prepares every peer, measures them in turns, writes a line for each. Returns {peer: line}."""
        start, reference = time.monotonic(), self.folder / case.name
        self.deadline = start + self.options.case_seconds
        lines, opened = {}, self.open(case, reference)
        for peer in self.peers_of(case):
            lines[peer] = {"case": case.name, "peer": peer, **self.prepared(peer, opened)}
        for turn in range(0 if self.options.check else self.options.rounds):
            self.round(lines, turn)
        for line in lines.values():
            self.write("result", place=self.places[case.name], ideal_bytes=opened.get("ideal_bytes"), **line)
        spent = time.monotonic() - start
        self.longest = max(self.longest, spent)
        self.write("case", case=case.name, peers=list(lines), seconds=round(spent, 1), **nvidia_smi(CLOCKS))
        self.torch.close(60)
        self.xla.close(60)
        shutil.rmtree(reference, ignore_errors=True)
        return lines

    def open(self, case, reference):
        """JAX first: it writes the reference. Where it cannot on its device, it does on the CPU: the other peers have
        done nothing wrong."""
        opened = self.xla.open(case.name, reference, self.options.peer_seconds)
        if "error" in opened and self.options.device != "cpu":
            on_cpu = self.spare.open(case.name, reference, self.options.peer_seconds)
            self.spare.close(60)
            if "error" not in on_cpu:
                opened = on_cpu
        if "error" not in opened and any(self.side(peer) is self.torch for peer in self.peers_of(case)):
            self.torch.open(case.name, reference, self.options.peer_seconds)
        self.open_ours(case, reference)
        return opened

    def open_ours(self, case, reference):
        self.ours.open(peers.hlo_file(HLO, case.name))

    def side(self, peer):
        return self.xla if peer in peers.XLA else self.ours if peer.startswith("ours") else self.torch

    def prepared(self, peer, opened):
        if self.side(peer) is self.ours:
            if not self.options.ours:
                return {"error": "skipped: no --ours"}
            if self.ours.path is None:
                return {"error": "skipped: no HLO text, run generate"}
        elif "error" in opened:
            return {"error": f"no reference: {opened['error']}"}
        left = self.deadline - time.monotonic()
        if left < 1:
            return {"error": "skipped: the case's time was spent"}
        return self.side(peer).prepare(peer, min(left, self.options.peer_seconds))

    def round(self, lines, turn):
        """Each peer once, another one first in every turn."""
        alive = [peer for peer in lines if "error" not in lines[peer]]
        shift = turn % max(1, len(alive))
        for peer in alive[shift:] + alive[:shift]:
            answer = self.side(peer).measure(peer, self.options.iterations, self.options.peer_seconds)
            line = lines[peer]
            if "error" in answer:
                line["error"] = answer["error"]
                continue
            for key in ("busy_us", "span_us"):
                line.setdefault(key, []).extend(answer.get(key, []))
            line.update({key: answer[key] for key in ("kernels", "method", "label") if key in answer})

    def end(self):
        self.torch.worker.stop()
        self.spare.worker.stop()
        if self.xla:
            self.xla.worker.stop()
