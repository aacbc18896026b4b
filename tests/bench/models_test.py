"""bench/models/table and tuned.py: when a result is sound, what is drawn, and that a page is of one commit or not written."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/models"))
import tuned
sys.path.insert(0, str(ROOT / "tests/models"))
import beside_xla


def loaded():
    loader = importlib.machinery.SourceFileLoader("models_table", str(ROOT / "bench/models/table"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("models_table", loader))
    loader.exec_module(module)
    return module


def report(**changes):
    return {"operators": 9, "fragments": 2, "distinct_fragments": 2, "kernels": 2, "launches": 2, "library_calls": 1,
            "bytes": 1000, "launches_unfused": 5, "bytes_unfused": 9000, "predicted_us": 3.0, "predicted_unfused_us": 9.0,
            "seconds": {"import": 0.1, "plan": 0.1, "codegen": 0.1, "verify": 0.1}, "boundaries": [],
            "verified": {"kernels": 2, "wrong": 0}, "failures": [], "wrong_candidates": [], "wall": 0.1} | changes


class Sound(unittest.TestCase):
    def test_a_wrong_kernel_is_a_problem_although_another_took_its_place(self):
        self.assertEqual(tuned.problem(report(), True), "")
        self.assertIn("level 1: out_of_bounds", tuned.problem(report(wrong_candidates=["level 1: out_of_bounds"]), True))
        self.assertIn("1 of 2 kernels", tuned.problem(report(verified={"kernels": 1, "wrong": 0}), True))
        self.assertEqual(tuned.problem(report(verified={"kernels": 0, "wrong": 0})), "", "a plan verifies nothing")
        self.assertIn("no memory", tuned.problem({"error": "no memory"}))

    def test_a_kernel_that_spills_in_a_loop_is_named_or_wrong(self):
        spilling = {"verified": {"kernels": 2, "wrong": 0}, "spilling_kernels": ["level 1: stitch_ab"]}
        none = spilling | {"spilling_kernels": []}
        self.assertIn("1 kernels spill in a loop: level 1: stitch_ab", tuned.spilling("hlo", "resnet50_train", spilling))
        self.assertEqual(tuned.spilling("hlo", "resnet50_train", none), "")
        with mock.patch.dict(tuned.SPILLING, {("hlo", "resnet50_train"): "a reason"}):
            self.assertEqual(tuned.spilling("hlo", "resnet50_train", spilling), "")
            self.assertIn("take it off SPILLING", tuned.spilling("hlo", "resnet50_train", none))
            only_planned = none | {"verified": {"kernels": 0, "wrong": 0}}
            self.assertEqual(tuned.spilling("hlo", "resnet50_train", only_planned), "")

    def test_half_of_each_kind_is_drawn_and_every_one_in_some_commit(self):
        every = [(kind, tuned.name_of(path)) for kind, path in tuned.paths()]
        self.assertEqual(len(every), len(set(every)))
        self.assertTrue(tuned.is_drawn("0" * 40, "hlo", "llama_decode"))
        commits = [f"{number:040x}" for number in range(64)]
        for kind, name in every:
            self.assertTrue(any(tuned.is_drawn(commit, kind, name) for commit in commits[:24]), name)
        for kind in tuned.PATTERNS:
            names = [name for its, name in every if its == kind and name != "llama_decode"]
            for commit in commits:
                drawn = sum(tuned.is_drawn(commit, kind, name) for name in names)
                self.assertLessEqual(abs(drawn - len(names) / 2), 1, f"{kind} at {commit}")
        self.assertEqual(len({tuned.seed_of(commit) for commit in commits}), len(commits))


class BesideXla(unittest.TestCase):
    FIGURES = {"library": {"memory_intensive": 50, "bytes": 300e6}}  # 200 us by the rule

    def test_a_plan_slower_than_xlas_counts_is_named_or_wrong(self):
        self.assertEqual(tuned.xla_rough_us(self.FIGURES), 200)
        self.assertEqual(tuned.slower_than_xla("a", report(predicted_us=200.0), self.FIGURES), "")
        slow = report(predicted_us=201.0)
        self.assertIn("1.00 times what XLA", tuned.slower_than_xla("a", slow, self.FIGURES))
        self.assertEqual(tuned.slower_than_xla("a", slow, {}), "", "nobody has compiled it with XLA")
        with mock.patch.object(tuned, "BESIDE_XLA", {"a": "why"}):
            self.assertEqual(tuned.slower_than_xla("a", slow, self.FIGURES), "")
            self.assertIn("take it off", tuned.slower_than_xla("a", report(predicted_us=100.0), self.FIGURES))

    def test_the_mean_is_held(self):
        figures = {"a": self.FIGURES, "b": self.FIGURES}
        lines, mean = beside_xla.verdict({"a": report(predicted_us=48.0), "b": report(predicted_us=192.0)}, figures)
        self.assertAlmostEqual(mean, 0.48)
        self.assertEqual(lines, [])
        lines, _ = beside_xla.verdict({"a": report(predicted_us=100.0), "b": report(predicted_us=100.0)}, figures)
        self.assertIn("more than 0.48", lines[0])
        lines, _ = beside_xla.verdict({"a": report(predicted_us=100.0), "b": {"error": "no memory"}}, figures)
        self.assertIn("b: no memory", lines[0])


class History(unittest.TestCase):
    PAGE = "\n".join(["## ONNX models", "| model | launches | library calls | MB |", "| --- | --- | --- | --- |", "{}",
                      "## Fragments", "| fragment | launches | bytes ÷ ideal |", "| --- | --- | --- |", "| b | 1 | (1.20) |"])
    BEST = {"onnx/a": {figure: {"launches": 1000.0, "bytes": 300.0, "calls": 4.0, "commit": "abc"}
                       for figure in ("launches", "bytes")}}

    def test_a_row_that_was_better_once_is_listed_with_its_reason(self):
        rows = tuned.rows_of_page(self.PAGE.format("| a | 1,001 | 3 | 300 |"))
        self.assertEqual(rows, {"onnx/a": {"launches": 1001, "calls": 3, "bytes": 300}, "fragments/b": {"launches": 1, "bytes": 1.2}})
        self.assertEqual([(key, figure) for key, figure, _, _ in tuned.worse_rows(rows, self.BEST)], [("onnx/a", "launches")])
        self.assertIn("unexplained", tuned.worse_lines(rows, self.BEST)[0])
        with mock.patch.object(tuned, "WORSE_THAN_ONCE", {"onnx/a": "for a reason"}):
            self.assertIn("at abc 1,000 (with 300 MB, now 300, 4 library calls (now 3)): for a reason", tuned.worse_lines(rows, self.BEST)[0])
        rows = tuned.rows_of_page(self.PAGE.format("| a | 900 | 3 | 302 |"))
        self.assertEqual([figure for _, figure, _, _ in tuned.worse_rows(rows, self.BEST)], ["bytes"])
        self.assertEqual(tuned.worse_rows(tuned.rows_of_page(self.PAGE.format("| a | 900 | 3 | 300 |")), self.BEST), [])

    def test_no_row_of_the_page_is_worse_without_a_reason(self):
        rows = tuned.rows_of_page((ROOT / "docs/models.md").read_text())
        self.assertGreater(len(rows), 80)
        best = json.loads((ROOT / "bench/models/best.json").read_text())
        worse = {key for key, _, _, _ in tuned.worse_rows(rows, best)}
        self.assertEqual(worse - set(tuned.WORSE_THAN_ONCE), set(), "mend it, or say why in bench/models/tuned.py")
        self.assertEqual(set(tuned.WORSE_THAN_ONCE) - worse, set(), "these are no worse now: take them off the list")


class Page(unittest.TestCase):
    """The command with a `stitch` that answers at once; what is looked at is which page is written."""

    def table(self, *words, commits=("aaa",), results=None):
        with tempfile.TemporaryDirectory() as folder:
            output, kept = pathlib.Path(folder) / "models.md", pathlib.Path(folder) / "results.json"
            if results is not None:
                kept.write_text(json.dumps(results))
            module = loaded()
            answers = iter(commits)
            state = {"commit": None}

            def commit():
                state["commit"] = next(answers, state["commit"])
                return state["commit"]

            runs = []

            def run(stitch, verb, path, options, timeout):
                runs.append((verb, tuned.name_of(path)))
                return report(verified={"kernels": 2 if verb == "tune" else 0, "wrong": 0})

            arguments = ["table", "--output", str(output), "--results", str(kept), "--stitch", "/bin/true", *words]
            errors, printed = io.StringIO(), io.StringIO()
            with mock.patch.object(sys, "argv", arguments), mock.patch.object(module.provenance, "commit", commit), \
                    mock.patch.object(module.tuned, "run", run), contextlib.redirect_stderr(errors), \
                    contextlib.redirect_stdout(printed):
                status = module.main()
            text = output.read_text() if output.exists() else None
            return status, text, errors.getvalue(), printed.getvalue(), [name for verb, name in runs if verb == "tune"]

    def test_a_whole_run_at_one_commit_is_written(self):
        status, text, _, _, names = self.table("--tune")
        self.assertEqual(status, 0)
        self.assertIn("commit aaa", text)
        self.assertEqual(len(names), len(tuned.paths()))
        self.assertIn("| rwkv_block |", text)
        self.assertIn("predicted time ÷ XLA's rough time (goal 0.48", text)

    def test_sources_that_are_not_committed_are_refused(self):
        status, text, errors, _, names = self.table("--tune", commits=("aaa with uncommitted changes",))
        self.assertEqual((status, text, names), (2, None, []))
        self.assertIn("commit first", errors)

    def test_sources_that_changed_meanwhile_are_refused(self):
        status, text, errors, _, _ = self.table("--tune", commits=("aaa", "bbb"))
        self.assertEqual((status, text), (1, None))
        self.assertIn("were aaa when it began and are bbb now", errors)

    def test_rows_of_another_commit_are_tuned_again(self):
        row = report(commit="bbb")
        mine = report(commit="aaa", launches=7)
        _, text, _, _, names = self.table("--tune", "--resume", results={"hlo": {"bert_infer": row, "bert_train": mine}})
        self.assertIn("bert_infer", names)
        self.assertNotIn("bert_train", names)
        self.assertIsNotNone(text)

    def test_an_early_end_writes_nothing(self):
        status, text, errors, _, names = self.table("--tune", "--within", "-1")
        self.assertEqual((status, text, names), (1, None, []))
        self.assertIn("not tuned yet", errors)

    def test_planning_prints(self):
        status, text, _, printed, names = self.table()
        self.assertEqual((status, text, names), (0, None, []))
        self.assertIn("# Models and fragments", printed)


if __name__ == "__main__":
    unittest.main()
