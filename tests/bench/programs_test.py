"""bench/programs/measure: what counts as within the goal, and that a model without a program is said."""
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def loaded():
    loader = importlib.machinery.SourceFileLoader("programs_measure", str(ROOT / "bench/programs/measure"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("programs_measure", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def row(model, arena, bound, results, eager):
    return {"model": model, "steps": 3, "fragments": 2, "library_calls": 1, "foreign": 0, "arena_bytes": arena,
            "lower_bound_bytes": bound, "ratio": arena / bound, "result_bytes": results, "eager_peak_bytes": eager}


class Programs(unittest.TestCase):
    def setUp(self):
        self.measure = loaded()

    def test_the_page_counts_what_is_within_the_goal(self):
        rows = [row("hlo/a", 105, 100, 5, 120), row("hlo/b", 106, 100, 20, 120),
                {"model": "onnx/c", "failure": "operator 'sort'"}]
        page = self.measure.page(rows, {"commit": "abc"})
        self.assertIn("**1 of 2 programs have an arena of at most 1.05 × the lower bound (an exact one where that takes blocks for several results); 1 need, results included, no more "
                      "than eager; 1 models have no program.**", page)
        self.assertIn("* onnx/c: no program: operator 'sort'", page)
        self.assertIn("| 1.0600 |", page)

    def outline(self, output, status):
        with tempfile.TemporaryDirectory() as folder:
            stitch = pathlib.Path(folder) / "stitch"
            stitch.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n")
            stitch.chmod(0o755)
            options = types.SimpleNamespace(stitch=stitch, timeout=30)
            return self.measure.outline(options, pathlib.Path(folder) / "onnx/c.onnx")

    def test_a_row_is_what_stitch_reports(self):
        memory = {"arena_bytes": 512, "lower_bound_bytes": 256, "ratio": 2.0, "result_bytes": 0, "eager_peak_bytes": 1}
        report = {"steps": [{"kind": "fragment"}, {"kind": "library"}, {"kind": "fragment"}], "memory": memory}
        seen = self.outline(json.dumps(report), 0)
        self.assertEqual((seen["steps"], seen["fragments"], seen["library_calls"]), (3, 2, 1))
        self.assertEqual(seen["arena_bytes"], 512)

    def test_a_model_without_a_program_says_why(self):
        seen = self.outline(json.dumps({"error": {"kind": "internal", "message": "it is not sound"}}), 1)
        self.assertEqual(seen["failure"], "it is not sound")


if __name__ == "__main__":
    unittest.main()
