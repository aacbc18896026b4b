"""bench/peers without frameworks and without a GPU: workers that end with their parent, a reference by the CPU where
XLA's device fails, and how often ours are called."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench/peers"
sys.dont_write_bytecode = True
sys.path.insert(0, str(PEERS))
from harness import peers, session, worker  # noqa: E402

# A framework in the place of JAX and PyTorch. argv: "broken", or how long its answers take.
FRAMEWORK = f"""
import pathlib, sys, time
sys.path.insert(0, {str(PEERS)!r})
from harness import worker

def open_case(request):
    if sys.argv[1] == "broken":
        raise RuntimeError("no room on the device")
    pathlib.Path(request["reference"]).mkdir(exist_ok=True)
    (pathlib.Path(request["reference"]) / "complete.json").write_text(sys.argv[1])
    return {{"ideal_bytes": 12}}

def prepare(request):
    return {{"correct": True, "worst": 0.5, "compile_s": 1}}

def measure(request):
    return {{"busy_us": [1.0], "span_us": [2.0], "kernels": 1, "method": "none"}}

def sleep(request):
    time.sleep(600)

worker.serve({{"open": open_case, "prepare": prepare, "measure": measure, "release": lambda request: {{}},
              "sleep": sleep}})
"""


def ends(pid):
    """Whether a process is gone, or a zombie that nobody waits for, within ten seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class Harness(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.framework = self.folder / "framework.py"
        self.framework.write_text(FRAMEWORK)
        self.log = str(self.folder / "log")

    def made(self, kind):
        made = peers.Framework(str(self.framework), [kind], self.log, {})
        self.addCleanup(made.worker.stop)
        return made


class Workers(Harness):
    def test_a_killed_parent_takes_its_worker_along(self):
        code = f"""
import sys
sys.path.insert(0, {str(PEERS)!r})
from harness import worker
child = worker.Worker({str(self.framework)!r}, ["right"], {self.log!r})
child.start()
print(child.child.pid, flush=True)
child.ask({{"do": "sleep"}}, 600)
"""
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        pid = int(parent.stdout.readline())
        time.sleep(0.5)
        self.assertIsNone(parent.poll())
        os.kill(pid, 0)  # it is there
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
        if not ends(pid):
            os.kill(pid, signal.SIGKILL)
            self.fail("it outlived its parent")


class References(Harness):
    def session(self, xla, spare, device="cuda"):
        options = argparse.Namespace(device=device, peers=["eager", "xla"], check=False, log=self.log, ours=None,
                                     ours_seconds=0, recorders="jax", results=str(self.folder / "results.jsonl"),
                                     peer_seconds=20, case_seconds=60, rounds=1, iterations=1, within=100)
        made = session.Session(options, self.folder, ["a_case"])
        made.torch, made.xla, made.spare = self.made("right"), self.made(xla), self.made(spare)
        return made

    def lines(self, made):
        """{peer: line} of a case, and what made its reference."""
        made.run_case(argparse.Namespace(name="a_case"))
        written = [json.loads(line) for line in (self.folder / "results.jsonl").read_text().splitlines()]
        return {line["peer"]: line for line in written if line["kind"] == "result"}

    def test_jax_that_cannot_open_a_case_costs_its_own_line_only(self):
        lines = self.lines(self.session("broken", "right"))
        self.assertEqual((lines["eager"]["busy_us"], lines["eager"]["ideal_bytes"]), ([1.0], 12))
        self.assertIn("no room on the device", lines["xla"]["error"])

    def test_no_reference_no_peers(self):
        lines = self.lines(self.session("broken", "broken"))
        self.assertIn("no reference: RuntimeError: no room on the device", lines["eager"]["error"])

    def test_the_cpu_is_not_asked_when_the_device_can(self):
        made = self.session("right", "broken")
        lines = self.lines(made)
        self.assertNotIn("error", lines["xla"])
        self.assertIsNone(made.spare.worker.child, "never started")


class Ours(Harness):
    def program(self):
        path = self.folder / "stitch"
        answer = {"time_us": 3, "samples_us": [3.0, 4.0], "kernels": 2, "correct": True, "worst": 0.1,
                  "label": "measured"}
        path.write_text(f"#!/bin/sh\necho called >> {self.folder}/calls\necho '{json.dumps(answer)}'\n")
        path.chmod(0o755)
        return str(path)

    def rounds(self, slow_seconds):
        ours = peers.Ours(self.program(), self.log, slow_seconds)
        ours.open(self.folder / "x.hlo.txt")
        self.assertEqual(ours.prepare("ours-tuned", 20)["worst"], 0.1)
        answers = [ours.measure("ours-tuned", 10, 20) for _ in range(3)]
        calls = (self.folder / "calls").read_text().count("called")
        (self.folder / "calls").unlink()
        return answers, calls

    def test_are_called_once_or_once_a_round(self):
        answers, calls = self.rounds(0)
        self.assertEqual(calls, 1)
        # One CUDA graph's span is both of its times.
        self.assertEqual((answers[0]["busy_us"], answers[0]["span_us"]), ([3.0, 4.0], [3.0, 4.0]))
        self.assertEqual(answers[1:], [{}, {}])
        answers, calls = self.rounds(15)
        self.assertEqual((calls, len(answers[2]["busy_us"])), (3, 2))


if __name__ == "__main__":
    unittest.main()
