"""bench/gpu/run_all and the bundle's launcher on a bundle whose programs only write down how they were called."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/gpu/run_all"

# Writes its name and arguments to `calls`; then does what a file of the bundle says that is called after it.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "{bundle}/calls"
name=$(basename "$0")-$1
[ "$1" = record ] && [ "$STITCH_RUNNER" ] && "$STITCH_RUNNER" --started
[ -f "{bundle}/$name" ] && . "{bundle}/$name"
exit 0
"""
IDENTITY = {"key": "GPU-1", "kind": "gpu", "name": "a GPU", "architecture": "sm_90a", "driver": "1", "sm_count": 1,
            "memory_bytes": 1}
README = """| case | family | inputs |
|---|---|---|
| norm_a | norm | f32[1] |
| norm_b | norm | f32[1] |
| sum_a | sums | f32[1] |
"""


def loaded():
    loader = importlib.machinery.SourceFileLoader("run_all", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_all", loader))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class Bundle(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.bundle, self.results = self.folder / "bundle", self.folder / "results"
        run_all = loaded()
        for name in ("bin", "peers/hlo", *(f"tests/golden/kernels/{each}" for each in run_all.SANITIZED)):
            (self.bundle / name).mkdir(parents=True)
        for name in ("stitch", "stitch-runner", "profiler_test", "tuning_test"):
            self.executable(self.bundle / "bin" / name, PROGRAM.format(bundle=self.bundle))
        for name in run_all.SANITIZED:
            (self.bundle / "tests/golden/kernels" / name / "graph.json").write_text("{}")
        for name in ("norm_a.hlo.txt", "norm_b.hlo.txt.gz", "other.hlo.txt", "sum_a.hlo.txt"):
            (self.bundle / "peers/hlo" / name).write_text("")
        (self.bundle / "peers/README.md").write_text(README)
        (self.bundle / "peers/measure").write_text(
            f"import sys; open('{self.bundle}/calls', 'a').write('measure ' + ' '.join(sys.argv[1:]) + '\\n')")
        (self.bundle / "rivals").mkdir()
        (self.bundle / "rivals/pipelining.json").write_text('[{"name": "a"}, {"name": "b"}]')
        (self.bundle / "rivals/measure").write_text(
            f"import sys; open('{self.bundle}/calls', 'a').write('rivals ' + ' '.join(sys.argv[1:]) + '\\n')")
        (self.bundle / "products").mkdir()
        (self.bundle / "products/problems.json").write_text('[{"name": "a"}, {"name": "b"}]')
        (self.bundle / "products/library.py").write_text(
            f"import sys; open('{self.bundle}/calls', 'a').write('library ' + ' '.join(sys.argv[1:]) + '\\n')")
        (self.bundle / "commit").write_text("abc\n")
        self.probes(IDENTITY)

    def executable(self, path, text):
        path.write_text(text)
        path.chmod(0o755)

    def probes(self, identity):
        self.does("stitch-runner---device", f"echo '{json.dumps(identity)}'")

    def does(self, name, commands):
        (self.bundle / name).write_text(commands + "\n")

    def command(self, *options):
        return [sys.executable, str(SCRIPT), "--bundle", str(self.bundle), "--results", str(self.results),
                *map(str, options)]

    def run_all(self, *options, path=None):
        (self.bundle / "calls").write_text("")
        env = {**os.environ, **({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})}
        done = subprocess.run(self.command(*options), capture_output=True, text=True, env=env, check=False, timeout=100)
        self.calls = [line for line in (self.bundle / "calls").read_text().splitlines()
                      if not line.startswith(("stitch-runner --device", "stitch tune"))]  # the probe's
        self.said = done.stdout + done.stderr
        return done.returncode

    def state(self):
        return json.loads((self.results / "state.json").read_text())


class RunAll(Bundle):
    def test_what_was_tried_is_not_tried_again_failed_or_not(self):
        self.does("stitch-calibrate", "exit 7")
        self.assertEqual(self.run_all("--only", "suite", "calibration"), 1, "a failure is told")
        self.assertEqual([call.split()[0:2] for call in self.calls],
                         [["profiler_test", "--gtest_filter=*Gpu.*"], ["tuning_test", "--gtest_filter=*Gpu.*"],
                          ["stitch", "calibrate"]])
        self.assertEqual(self.state()["calibration"], 7)
        self.assertIn("[exit status 7]", (self.results / "calibration.log").read_text())
        self.assertEqual(self.run_all("--only", "suite", "calibration"), 1, "and told again")
        self.assertEqual(self.calls, [])
        self.does("stitch-calibrate", "exit 0")
        self.assertEqual(self.run_all("--only", "suite", "calibration", "--again"), 0, self.said)
        self.assertEqual(len(self.calls), 3)

    def test_an_archive_goes_on_in_an_empty_folder(self):
        archive = self.folder / "out/results.tar.gz"
        self.does("stitch-calibrate", "echo measured")
        self.assertEqual(self.run_all("--only", "suite", "calibration", "--archive", archive), 0, self.said)
        with tarfile.open(archive) as packed:
            self.assertEqual(sorted(packed.getnames()), ["calibration.log", "state.json", "suite.log"])
        before = self.state()
        shutil.rmtree(self.results)
        self.assertEqual(self.run_all("--only", "suite", "calibration", "--resume-from", archive), 0, self.said)
        self.assertEqual(self.calls, [])
        self.assertEqual(self.state(), before)
        self.assertIn("measured", (self.results / "calibration.log").read_text())

    def test_a_folder_that_is_there_is_newer_than_an_archive(self):
        archive = self.folder / "results.tar.gz"
        self.assertEqual(self.run_all("--only", "suite", "--archive", archive), 0)
        self.assertEqual(self.run_all("--only", "calibration"), 0)
        self.assertEqual(self.run_all("--only", "calibration", "--resume-from", archive), 0)
        self.assertEqual(self.calls, [])

    def test_time_that_runs_out_leaves_an_archive(self):
        archive = self.folder / "results.tar.gz"
        self.assertEqual(self.run_all("--only", "suite", "recording", "--archive", archive, "--within", 50), 3)
        with tarfile.open(archive) as packed:
            state = json.load(packed.extractfile("state.json"))
        self.assertEqual((state["suite profiler_test"], "recording 16" in state), (0, False))
        self.assertEqual(self.run_all("--resume-from", self.folder / "none.tar.gz"), 2)
        self.assertIn("none.tar.gz is not there", self.said)

    def test_who_stops_it_stops_its_programs(self):
        archive, pid_file = self.folder / "results.tar.gz", self.folder / "pid"
        self.does("profiler_test---gtest_filter=*Gpu.*", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}\n"
                  "exec sleep 600")
        process = subprocess.Popen(self.command("--only", "suite", "--archive", archive), stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not pid_file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 3)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)
        self.assertTrue(archive.exists())

    def test_without_a_device_nothing_is_done(self):
        self.does("stitch-runner---device", "echo 'no CUDA driver' >&2; exit 5")
        self.assertEqual(self.run_all(), 4)
        self.assertIn("nothing was done: no device gpu:0: no CUDA driver", self.said)
        self.assertEqual(self.calls, [])
        self.assertFalse((self.results / "state.json").exists())

    def test_without_cupti_nothing_is_done(self):
        self.probes({**IDENTITY, "no_cupti": "no CUPTI to time with"})
        self.assertEqual(self.run_all(), 4)
        self.assertIn("gpu:0 cannot be measured: no CUPTI to time with", self.said)
        self.assertEqual(self.calls, [])

    def test_without_nvrtc_nothing_is_done(self):
        self.does("stitch-tune", "echo 'stitch: no NVRTC to compile with' >&2; exit 4")
        self.assertEqual(self.run_all(), 4)
        self.assertIn("nothing can be compiled: stitch: no NVRTC", self.said)
        self.assertEqual(self.calls, [])

    def test_recording_begins_with_little_of_every_family(self):
        self.assertEqual(self.run_all("--only", "recording"), 0, self.said)
        self.assertEqual([call.split("--candidates ")[1].split()[0:3] for call in self.calls],
                         [["16", "--kernel-within", "5"], ["128", "--kernel-within", "0"],
                          ["512", "--kernel-within", "0"], ["2000", "--kernel-within", "0"]])
        cases = [pathlib.Path(word).name for word in self.calls[0].split() if ".hlo.txt" in word]
        self.assertEqual(cases, ["norm_a.hlo.txt", "sum_a.hlo.txt", "norm_b.hlo.txt.gz", "other.hlo.txt"])
        self.assertIn("recording-GPU-1.stitchrec", self.calls[0])

    def test_a_recording_that_used_its_time_up_is_not_done(self):
        run_all = loaded()
        options = argparse.Namespace(bundle=self.bundle, results=self.results, device="gpu:0", within=300, archive=None,
                                     resume_from=None, again=False, cases=None, peers="")
        now = [1000.0]
        with mock.patch.object(run_all.time, "monotonic", lambda: now[0]):
            run = run_all.Run(options)
            run.identity = IDENTITY
            asked = []

            def call(command, log, most_seconds):
                asked.append((int(command[command.index("--within") + 1]), most_seconds))
                now[0] += (20, asked[-1][0] + 2)[len(asked) - 1]
                return 0
            run.call = call
            with self.assertRaises(run_all.OutOfTime):
                run_all.recording(run)
        self.assertEqual(asked, [(260, 300), (240, 280)], "what is killed at the end has had 30 s to end by itself")
        self.assertEqual(self.state(), {"recording 16": 0})

    def test_peers_leave_the_slow_ones_for_later(self):
        self.assertEqual(self.run_all("--only", "peers", "autotune"), 0, self.said)
        quick, whole, rivals = self.calls
        self.assertIn("--ours-seconds 0", quick)
        self.assertIn("--peers xla,ours-predicted,ours-tuned,compile", quick)
        self.assertNotIn("autotune", quick)
        self.assertNotIn("--peers", whole)
        self.assertRegex(rivals, r"^rivals --results .*rivals.jsonl --ours .*/stitch --within \d+$")

    def test_rivals_are_measured_on_a_gpu_and_checked_without(self):
        self.assertEqual(self.run_all("--only", "rivals", "--cases", "conv", "gelu"), 0, self.said)
        self.assertRegex(self.calls[0], r"^rivals --results .* --peers eager,library,.*,ours,ours-beside-library "
                                        r"--only conv,gelu$")
        self.assertNotIn("autotune", self.calls[0])
        self.probes({**IDENTITY, "kind": "emulated"})
        self.assertEqual(self.run_all("--only", "rivals", "--again", "--device", "emulated:counts"), 0, self.said)
        self.assertIn("--device cpu --check", self.calls[0])

    def test_pipelining_goes_on_with_the_problems_that_are_left(self):
        def tells(name):
            return f"echo '{{\"name\": \"{name}\"}}'; echo '{{\"name\": \"{name}\", \"without\": \"no-pipelining\"}}'"
        self.does("stitch-contractions", tells("a") + "; echo '{\"name\": \"b\"}'")
        self.assertEqual(self.run_all("--only", "pipelining", "--within", 200), 3, "b is not through")
        self.assertIn("--best 4", self.calls[0])
        self.assertIn("--without two-stages --without one-level --without no-pipelining", self.calls[0])
        self.assertEqual(json.loads((self.results / "pipelining-problems.json").read_text()),
                         [{"name": "a"}, {"name": "b"}])
        self.does("stitch-contractions", tells("b"))
        self.assertEqual(self.run_all("--only", "pipelining", "--within", 200), 0, self.said)
        self.assertEqual(json.loads((self.results / "pipelining-problems.json").read_text()), [{"name": "b"}])

    def test_a_call_that_is_killed_in_a_problem_goes_on_there_if_it_came_further(self):
        run_all = loaded()
        options = argparse.Namespace(bundle=self.bundle, results=self.results, archive=None, again=False, cases=None,
                                     peers="", device="gpu:0", within=500, resume_from=None)
        run, log = run_all.Run(options), self.results / "p.jsonl"

        def killed(lines):
            def call(command, path, seconds):
                log.write_text((log.read_text() if log.exists() else "") + lines)
                return 124
            with mock.patch.object(run, "call", call):
                return run_all.some_problems(run, "p", [{"name": "a"}, {"name": "b"}], [], 100)
        with self.assertRaises(run_all.OutOfTime):
            killed('{"name": "a"}\n{"na')
        self.assertEqual(killed("\n"), 124, "b alone takes longer than there is time: not tried for ever")

    def python_with(self, *modules):
        """PYTHONPATH of a folder that has these, empty."""
        folder = self.folder / "python"
        folder.mkdir()
        for name in modules:
            (folder / f"{name}.py").write_text("")
        return mock.patch.dict(os.environ, {"PYTHONPATH": str(folder)})

    def test_xla_that_fails_costs_its_own_line_only(self):
        (self.bundle / "models").mkdir()
        (self.bundle / "models/asr.hlo.txt").write_text("HloModule m\n")
        with self.python_with("jax"):
            self.assertEqual(self.run_all("--only", "programs"), 1, self.said)
            self.assertEqual({key: status for key, status in self.state().items() if key.startswith("programs")},
                             {"programs asr library": 0, "programs asr stream": 0, "programs asr xla": 1})
            line, = map(json.loads, (self.results / "programs-xla.jsonl").read_text().splitlines())
            self.assertEqual((line["name"], line["variant"], line["platform"]), ("asr", "default", "gpu"))
            self.assertIn("exit status 1: Traceback", line["error"])

    def test_programs_run_by_the_library_and_as_a_stream_takes_them(self):
        (self.bundle / "models").mkdir()
        for name in ("asr.hlo.txt.gz", "dien_infer.hlo.txt.gz"):
            (self.bundle / "models" / name).write_text("")
        # With JAX or without: XLA has done its part.
        self.results.mkdir()
        (self.results / "programs-xla.jsonl").write_text("".join(
            json.dumps({"name": name, "variant": "default"}) + "\n" for name in ("asr", "dien_infer")))
        self.assertEqual(self.run_all("--only", "programs"), 0, self.said)
        calls = [line for line in self.calls if line.startswith("stitch run")]
        self.assertEqual(len(calls), 4)
        self.assertRegex(calls[0], r"^stitch run .*asr.hlo.txt.gz --device gpu:0 --products library --price --json "
                                   r"--quiet$")
        self.assertRegex(calls[3], r"^stitch run .*dien_infer.*--products stream --price --json --quiet --check-model$")
        self.assertEqual(self.state()["programs asr stream"], 0)

    def test_products_are_seen_beside_the_libraries_until_all_are(self):
        (self.bundle / "products/library.py").write_text(
            f"import sys; open('{self.bundle}/calls', 'a').write('library ' + ' '.join(sys.argv[1:]) + '\\n')\n"
            "print('{\"name\": \"a\"}\\n{\"name\": \"b\"}')")
        self.does("stitch-contractions", "echo '{\"name\": \"a\"}'")
        self.assertEqual(self.run_all("--only", "products", "--within", 200), 3, "b is left")
        library, ours = self.calls
        self.assertRegex(library, r"^library .*products-problems.json --within 3[67] --iterations 20$")
        self.assertRegex(ours, r"^stitch contractions --problems .*products-problems.json --device gpu:0 --best 3 "
                               r"--ranks 100 --within 14[5-8]$")
        self.does("stitch-contractions", "echo '{\"name\": \"b\"}'")
        self.assertEqual(self.run_all("--only", "products", "--within", 200), 0, self.said)
        self.assertEqual(len(self.calls), 1, "the library's times are there")
        self.assertEqual(json.loads((self.results / "products-problems.json").read_text()), [{"name": "b"}])

    def test_products_are_seen_as_programs_have_them(self):
        (self.bundle / "products/library.py").write_text("print('{\"name\": \"a\"}\\n{\"name\": \"b\"}')")
        self.does("stitch-contractions", "echo '{\"name\": \"a\"}'; echo '{\"name\": \"b\"}'")
        (self.bundle / "models").mkdir()
        (self.bundle / "models/bert_infer_f16.hlo.txt.gz").write_text("")
        self.assertEqual(self.run_all("--only", "products"), 0, self.said)
        self.assertRegex(self.calls[-1], r"^stitch contractions .*bert_infer_f16.hlo.txt.gz --joined --device gpu:0 "
                                         r"--best 3 --ranks 24 --within 30$")
        self.assertTrue((self.results / "products-joined.jsonl").exists())

    def test_cases_are_chosen_by_parts_of_their_names(self):
        self.assertEqual(self.run_all("--only", "peers", "recording", "--cases", "norm", "--peers", "compile"), 0,
                         self.said)
        self.assertIn("--peers compile --only norm", self.calls[0])
        self.assertEqual([pathlib.Path(word).name for word in self.calls[1].split() if ".hlo.txt" in word],
                         ["norm_a.hlo.txt", "norm_b.hlo.txt.gz"])

    def test_the_sanitizer_comes_last_without_cupti_and_with_one_candidate(self):
        self.assertEqual(list(loaded().STEPS)[-1], "sanitizer")
        tools = self.folder / "tools"
        tools.mkdir()
        self.executable(tools / "compute-sanitizer", f"""#!/bin/sh
echo "sanitize $2" >> {self.bundle}/calls
shift 6
exec "$@"
""")
        self.assertEqual(self.run_all("--only", "sanitizer", path=tools), 0, self.said)
        names = loaded().SANITIZED
        self.assertEqual(len(self.calls), 3 * len(names) * 3)
        self.assertEqual(self.calls[0], "sanitize memcheck")
        self.assertRegex(self.calls[1], r"^stitch record .*softmax_1024/graph.json .*--candidates 1 --cache ")
        self.assertEqual(self.calls[2], "stitch-runner --cupti /none --started")
        self.assertEqual({call.split()[1] for call in self.calls[::3]}, {"memcheck", "racecheck", "synccheck"})


class Launcher(unittest.TestCase):
    """Where the bundle's programs look for NVRTC, CUPTI and cuBLASLt."""

    def libraries(self, toolkit):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for part in ("bin", "lib", "libc", "programs", "wheels/nvidia/cu13/lib", "cuda/lib64"):
                (folder / part).mkdir(parents=True)
            for library in toolkit:
                (folder / "cuda/lib64" / library).write_text("")
            (folder / "libc/version").write_text("2.0\n")
            (folder / "programs/show").write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH"\n')
            (folder / "programs/show").chmod(0o755)
            shutil.copy(ROOT / "bench/gpu/launcher", folder / "bin/show")
            env = {**os.environ, "CUDA_HOME": str(folder / "cuda"), "PYTHONPATH": str(folder / "wheels")}
            done = subprocess.run([folder / "bin/show"], capture_output=True, text=True, env=env, check=True)
            return [str(path).removeprefix(name) for path in done.stdout.strip().split(":")]

    def test_a_whole_toolkit_serves_alone(self):
        found = self.libraries(["libnvrtc.so.13", "libcupti.so.13", "libcublasLt.so.13"])
        self.assertEqual(found[:3], ["/lib", "/cuda/lib64", "/cuda/extras/CUPTI/lib64"])
        self.assertNotIn("/wheels/nvidia/cu13/lib", found)

    def test_what_the_toolkit_lacks_comes_from_pythons_packages(self):
        whole = ["libnvrtc.so.13", "libcupti.so.13", "libcublasLt.so.13"]
        for toolkit in ([], *([one for one in whole if one != lacking] for lacking in whole)):
            self.assertIn("/wheels/nvidia/cu13/lib", self.libraries(toolkit), toolkit)


if __name__ == "__main__":
    unittest.main()
