"""bench/rivals/report on made records: goals, tables, what was absent and what failed. No framework and no GPU."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = ROOT / "bench/rivals/report"
GPU = "A made GPU"  # nothing here was measured


def result(case, peer, us=None, family="epilogue", **more):
    line = {"kind": "result", "session": "s", "place": 0, "ideal_bytes": 1, "family": family, "case": case, "peer": peer,
            "correct": True, "worst": 0.5, "method": "torch.profiler"}
    return {**line, **({"busy_us": us, "span_us": us} if us else {}), **more}


class Report(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def page(self, lines=(), gpu=GPU, **files):
        cases = dict.fromkeys(line["case"] for line in lines)
        written = [{"kind": "session", "session": "s", "gpu": gpu}, *lines,
                   *({"kind": "case", "session": "s", "case": case} for case in cases)]
        if lines:
            (self.folder / "rivals.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
        for name, found in files.items():
            text = "$ a call\n" + "".join(json.dumps(line) + "\n" for line in found) + "[exit status 0]\n"
            (self.folder / (name.replace("_", "-") + ".jsonl")).write_text(text)
        done = subprocess.run([sys.executable, REPORT, self.folder], capture_output=True, text=True, check=True)
        return done.stdout

    def goals(self, page):
        rows = page.split("## Goals")[1].split("Times below")[0].splitlines()
        return [row.split(" | ")[1] for row in rows if row.startswith("| ") and "---" not in row][1:]

    def test_goals_of_nothing_are_dashes(self):
        self.assertEqual(self.goals(self.page()), ["–"] * 4)
        page = self.page([result("gelu", "ours"), result("gelu", "library")], gpu=None)
        self.assertEqual(self.goals(page), ["–"] * 4)
        self.assertIn("nothing was measured", page)
        self.assertIn("| gelu | right | right | – | – |", page)

    def test_the_best_rival_counts_and_the_best_of_ours(self):
        page = self.page([result("gelu", "library", [30, 20, 40]), result("gelu", "xla", [25]), result("gelu", "eager", [90]),
                          result("gelu", "ours", [40]), result("gelu", "ours-beside-library", [20]),
                          result("rows", "xla", [80], "rows"), result("rows", "ours", [20], "rows"),
                          result("square", "eager", [90], "plain"), result("square", "ours", [100], "plain")])
        plain, whole, fused, pipelining = self.goals(page)
        self.assertEqual((plain, whole, pipelining), ("–", "0.90 (1)", "–"))
        self.assertEqual(fused, "2.24 (2)", "√(25/20 · 80/20)")
        self.assertIn("| gelu | 90.0 | 30.0 | 25.0 | 40.0 | 20.0 | xla | 1.25 |", page)

    def test_a_time_of_a_wrong_kernel_is_none(self):
        lines = [result("gelu", "library", [10], correct=False, worst=7.0), result("gelu", "xla", [30]),
                 result("gelu", "ours", [15])]
        page = self.page(lines)
        self.assertEqual(self.goals(page)[2], "2.00 (1)")
        self.assertIn("gelu, library: **wrong**, 7.0 times", page)
        lines[2] = result("gelu", "ours", [1], correct=False, worst=2.0)
        page = self.page(lines)
        self.assertEqual(self.goals(page)[2], "–")
        self.assertIn("| gelu | **wrong** | 30.0 | **wrong** | xla | – |", page)

    def test_what_is_absent_is_named_and_is_no_failure(self):
        page = self.page([result("a", "flash2", absent="flash_attn", error="absent"), result("a", "ours", [3]),
                          result("a", "xla", error="RuntimeError: out of memory in /home/someone/jax/x.py")])
        self.assertIn("* flash2: flash_attn was not there (1 cases)", page)
        failures = page.split("## Failures")[1]
        self.assertNotIn("flash2", failures)
        self.assertIn("a, xla: RuntimeError: out of memory in x.py", failures)

    def test_plain_products_are_those_of_the_step_products(self):
        page = self.page(products_ours=[{"name": "p", "place": 0, "measured_us": 12.0},
                                        {"name": "p", "place": 1, "measured_us": 10.0},
                                        {"name": "p", "place": 2, "measured_us": 1.0, "failure": "error", "error": "correctness"}],
                         products_library=[{"name": "p", "library": "cuBLAS", "us": 9.0},
                                           {"name": "p", "library": "cuDNN", "us": 1.0}])
        self.assertEqual(self.goals(page)[0], "0.90 (1)")

    def test_pipelining_is_the_best_with_beside_the_best_without(self):
        def line(us, without=None, **more):
            return {"name": "p", "place": 0, "runs": "mma stages 4×2", "measured_us": us, **({"without": without} if without else {}),
                    **more}
        page = self.page(pipelining=[line(20.0), line(10.0), line(11.0, "one-level"), line(30.0, "no-pipelining"),
                                     line(15.0, "no-pipelining"), line(1.0, "two-stages", failure="x", error="correctness")])
        self.assertEqual(self.goals(page)[3], "1.50 (1)")
        self.assertIn("| p | 10.0 (mma stages 4×2) | – | 11.0 (1.10, mma) | 15.0 (1.50, mma) |", page)
        self.assertIn("**Wrong**: p, two-stages, place 0", page)

    def test_the_last_call_counts(self):
        (self.folder / "pipelining.jsonl").write_text(
            '$ first\n{"name": "p", "runs": "", "measured_us": 1}\n{"name": "p", "runs": "", "measured_us": 9, '
            '"without": "no-pipelining"}\n$ second\n{"name": "p", "runs": "", "measured_us": 2}\n{"name": "p"')
        self.assertEqual(self.goals(self.page())[3], "–", "the second call got no further")


if __name__ == "__main__":
    unittest.main()
