"""bench/rivals with PyTorch and JAX on the CPU: the real workers, and ours on the emulated device where --stitch names the
program. The packages flash_attn and flash_attn_interface are played by functions of PyTorch (FLASH), which have their
arguments and layouts as these packages document them; they measure nothing."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STITCH = None

FLASH = '''
import torch

def attention(q, k, v, mask):
    """Positions first."""
    q, k, v = (each.transpose(-3, -2) for each in (q, k, v))
    k, v = (each.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for each in (k, v))
    scores = (q.double() @ k.double().transpose(-1, -2)) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
    return (weights @ v.double()).to(q.dtype).transpose(-3, -2)

def positions(rows, keys, causal, window=(-1, -1)):
    """The last row sees the last key."""
    row, key = torch.arange(rows)[:, None] + keys - rows, torch.arange(keys)[None, :]
    mask = torch.ones(rows, keys, dtype=torch.bool)
    if causal:
        mask &= key <= row
    if window[0] >= 0:
        mask &= key >= row - window[0]
    return mask

def flash_attn_func(q, k, v, causal=False, window_size=(-1, -1)):
    assert q.is_contiguous() and q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3]
    return attention(q, k, v, positions(q.shape[1], k.shape[1], causal, window_size))

def flash_attn_varlen_func(q, k, v, *, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False):
    assert cu_seqlens_q.dtype == torch.int32 and isinstance(max_seqlen_q, int)
    parts = []
    for begin, end in zip(cu_seqlens_q[:-1], cu_seqlens_q[1:]):
        parts.append(attention(q[begin:end], k[begin:end], v[begin:end], positions(end - begin, end - begin, causal)))
    return torch.cat(parts)

def flash_attn_with_kvcache(q, k_cache, v_cache, *, cache_seqlens, TABLE):
    assert TABLE.dtype == torch.int32 and cache_seqlens.dtype == torch.int32
    k, v = (cache[TABLE.long()].flatten(1, 2) for cache in (k_cache, v_cache))
    mask = torch.arange(k.shape[1])[None, :] < cache_seqlens[:, None]
    return attention(q, k, v, mask[:, None, None, :])
'''


class Check(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def measure(self, *options, bench=ROOT / "bench", packages=None):
        results = self.folder / "rivals.jsonl"
        # The packages are found beside the script's own modules.
        command = [sys.executable, "-c", "import runpy, sys; sys.path[:0] = sys.argv[1].split(':'); sys.argv[:] = sys.argv[2:]; "
                   "runpy.run_path(sys.argv[0], run_name='__main__')", str(packages or ""), bench / "rivals/measure"]
        done = subprocess.run([*map(str, command), "--device", "cpu", "--check", "--results", str(results),
                               *map(str, options)], capture_output=True, text=True, timeout=900, check=False)
        self.said = done.stdout + done.stderr
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        self.lines = {(line["case"], line["peer"]): line for line in lines if line["kind"] == "result"}
        return done.returncode

    def test_the_ways_of_a_case_agree(self):
        self.assertEqual(self.measure("--only", "linear_gelu_residual,experts,conv_norm_add,attention_sliding",
                                      "--peers", "eager,library,flash2,flex,xla"), 0, self.said)
        compared = {key: line for key, line in self.lines.items() if "absent" not in line}
        self.assertEqual(len(compared), 4 * 2 + 3 + 1, compared.keys())  # flex has no library
        for key, line in compared.items():
            self.assertTrue(line["correct"], key)
            self.assertGreater(line["worst"], 0, "16-bit floats are not exact")
        self.assertEqual(self.lines["attention_sliding_1x8x8192x128_bf16", "flash2"]["absent"], "flash_attn")

    def test_flash_attention_is_asked_as_it_documents(self):
        for package, table in (("flash_attn", "block_table"), ("flash_attn_interface", "page_table")):
            (self.folder / f"{package}.py").write_text(FLASH.replace("TABLE", table))
        # The workers are other processes.
        shutil.copytree(ROOT / "bench/peers", self.folder / "bench/peers", ignore=shutil.ignore_patterns("hlo"))
        shutil.copytree(ROOT / "bench/rivals", self.folder / "bench/rivals", ignore=shutil.ignore_patterns("hlo"))
        for package in ("flash_attn", "flash_attn_interface"):
            shutil.copy(self.folder / f"{package}.py", self.folder / "bench/rivals")
        self.assertEqual(self.measure("--only", "attention", "--peers", "flash2,flash3", bench=self.folder / "bench",
                                      packages=self.folder), 0, self.said)
        self.assertEqual(len(self.lines), 2 * 6, self.lines.keys())
        self.assertTrue(all(line["correct"] for line in self.lines.values()), self.said)

    def test_a_wrong_way_is_found(self):
        shutil.copytree(ROOT / "bench/peers", self.folder / "bench/peers", ignore=shutil.ignore_patterns("hlo"))
        shutil.copytree(ROOT / "bench/rivals", self.folder / "bench/rivals", ignore=shutil.ignore_patterns("hlo"))
        layers = self.folder / "bench/rivals/rival_cases/layers.py"
        text = layers.read_text()
        self.assertIn("    return x + y\n", text)
        layers.write_text(text.replace("    return x + y\n", "    return x + 1.05 * y\n"))
        self.assertEqual(self.measure("--only", "linear_gelu_residual", "--peers", "eager,library",
                                      bench=self.folder / "bench"), 1, self.said)
        self.assertIn("library WRONG", self.said)
        self.assertNotIn("eager WRONG", self.said)

    def test_ours_compute_the_same_on_the_emulated_device(self):
        if STITCH is None:
            self.skipTest("--stitch names no program")
        names = "linear_gelu_residual,qkv_4096x768,attention_sliding,conv_strided,f8_tensor"
        self.assertEqual(self.measure("--only", names, "--peers", "ours", "--ours", STITCH), 0, self.said)
        self.assertEqual(len(self.lines), 5)
        for key, line in self.lines.items():
            self.assertTrue(line["correct"], (key, line))
            self.assertTrue(all(" by device" in step for step in line["steps"]), "no library's call, nothing on the host")

    def test_the_texts_are_those_of_the_cases_and_all_ours(self):
        """Full extents, planned and not compiled: no call of a library is left."""
        if STITCH is None:
            self.skipTest("--stitch names no program")
        sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench/rivals")]
        import rival_cases
        texts = {path.name.split(".hlo.txt")[0]: path for path in (ROOT / "bench/rivals/hlo").iterdir()}
        self.assertEqual(set(texts), {case.name for case in rival_cases.CASES}, "run bench/rivals/generate")
        for case in rival_cases.CASES:
            done = subprocess.run([STITCH, "run", texts[case.name], "--outline", "--products", "ours", *case.ours, "--json",
                                   "--quiet"], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, case.name + done.stderr)
            self.assertEqual({step["kind"] for step in json.loads(done.stdout)["steps"]}, {"fragment"}, case.name)


class Ours(unittest.TestCase):
    """What becomes of the answers of `stitch run` on a GPU, by a program that gives them; its times are made."""

    def setUp(self):
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench/rivals")]
        import numpy as np
        import rival_session
        from harness import comparison
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.reference = np.linspace(-1, 1, 40 * 48).reshape(40, 48)
        comparison.save(self.folder / "reference", [self.reference])
        self.np, self.rivals = np, rival_session
        self.case = rival_session.rival_cases.by_name("linear_relu_tf32_4096x4096x4096_f32")

    def answer(self, result, code=0, **report):
        self.np.save(self.folder / "result.npy", result.astype("f4"))
        report = {"steps": [{"kind": "fragment", "by": "device", "launches": 2}], "fallbacks": [], **report}
        program = self.folder / "stitch"
        program.write_text(f"""#!/bin/sh
echo "$@" > {self.folder}/called
while [ "$1" != --output ]; do shift; done
mkdir -p "$2" && cp {self.folder}/result.npy "$2/0.result.npy"
echo '{json.dumps(report)}'
exit {code}
""")
        program.chmod(0o755)
        ours = self.rivals.Ours(program, "gpu:0", self.folder / "log", False)
        about = {"text": "", "dtypes": ["f32"], "tolerances": [1e-3]}
        # The text of the checked shape in the place of the large one: files of some MiB suffice.
        text = "HloModule m\n\nENTRY main {\n  x.1 = f32[] parameter(0)\n  w.2 = f32[] parameter(1)\n  b.3 = f32[] parameter(2)\n}\n"
        ours.open(self.case, True, self.folder / "reference", self.folder / "inputs", {**about, "text": text})
        return ours, ours.prepare("ours", 60)

    def test_times_are_those_behind_a_cold_cache_and_come_once(self):
        ours, answer = self.answer(self.reference, cold_us=[3.0, 2.0], replay_us=1.0)
        self.assertTrue(answer["correct"], answer)
        called = (self.folder / "called").read_text()
        self.assertIn("--device gpu:0 --products ours --tune --tf32 --input x.1=", called)
        self.assertEqual(ours.measure("ours", 10, 60)["busy_us"], [3.0, 2.0])
        self.assertEqual(ours.measure("ours", 10, 60)["busy_us"], [], "a second round has no samples of its own")

    def test_a_wrong_result_is_wrong_however_fast(self):
        _, answer = self.answer(self.reference * 1.01, cold_us=[1.0])
        self.assertFalse(answer["correct"])

    def test_what_was_not_on_the_stream_has_no_time(self):
        _, answer = self.answer(self.reference, cold_us=[1.0], why_by_steps="a branch")
        self.assertEqual(answer["error"], "not on a stream: a branch")
        _, answer = self.answer(self.reference, fallbacks=[{"reason": "sort"}])
        self.assertEqual(answer["error"], "by the reference evaluator: sort")
        ours, answer = self.answer(self.reference, replay_us=1.0)
        self.assertEqual(ours.measure("ours", 10, 60), {"error": "no time of a CUDA graph with a cold L2"})

    def test_a_failure_is_told(self):
        _, answer = self.answer(self.reference, code=1)
        self.assertIn("exit status 1", answer["error"])


if __name__ == "__main__":
    if "--stitch" in sys.argv:
        at = sys.argv.index("--stitch")
        STITCH = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    unittest.main()
