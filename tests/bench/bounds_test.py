"""bench/bounds/report: what the lower bound counts, on small texts; no stitch."""
import gzip
import importlib.machinery
import importlib.util
import math
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def loaded():
    loader = importlib.machinery.SourceFileLoader("bounds_report", str(ROOT / "bench/bounds/report"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bounds_report", loader))
    loader.exec_module(module)
    return module


REPORT = loaded()


def text(*lines):
    return "HloModule m\n\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


GATHER = ("table = f32[100,8]{1,0} parameter(0)", "ids = s32[50,1]{1,0} parameter(1)",
          "rows = f32[50,8]{1,0} gather(table, ids), offset_dims={1}, slice_sizes={1,8}")
UNIQUE = 100 * (1 - 0.99 ** 50)


class Bound(unittest.TestCase):
    def of(self, *lines, calls=("dot",), **options):
        return REPORT.bound(text(*lines), set(calls), **options)

    def test_parameters_and_results_count_once(self):
        self.assertEqual(self.of("a = f32[4,4]{1,0} parameter(0)", "b = f32[4,4]{1,0} multiply(a, a)", "c = f32[4,4]{1,0} add(a, b)",
                                 "ROOT t = (f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(b, c)"), 3 * 64)

    def test_of_a_table_only_what_is_touched(self):
        least = self.of(*GATHER, "ROOT r = f32[50,8]{1,0} negate(rows)")
        self.assertAlmostEqual(least, UNIQUE * 32 + 200 + 1600)
        self.assertLess(least, 50 * 32 + 200 + 1600)
        self.assertEqual(self.of(*GATHER, "ROOT r = f32[50,8]{1,0} negate(rows)", permuted=True), 3200 + 200 + 1600)
        read = self.of(*GATHER, "all = f32[100,8]{1,0} negate(table)", "ROOT t = (f32[50,8]{1,0}, f32[100,8]{1,0}) tuple(rows, all)")
        self.assertEqual(read, 3200 + 200 + 1600 + 3200, "who reads the whole table touches all of it")

    def test_calls_cut_what_one_kernel_could_do(self):
        lines = ("a = f32[4,4]{1,0} parameter(0)", "w = f32[4,4]{1,0} parameter(1)", "b = f32[4,4]{1,0} negate(a)",
                 "d = f32[4,4]{1,0} dot(b, w), lhs_contracting_dims={1}", "ROOT r = f32[4,4]{1,0} exponential(d)")
        self.assertEqual(self.of(*lines), 4 * 64, "a, what the call reads of ours, what we read of it, the result; not w")
        self.assertEqual(self.of(*lines, calls=()), 3 * 64)

    def test_reasons_are_held_against_the_figures(self):
        row = lambda moved: [("graph_network", 100.0, {"bytes": moved, "launches": 1, "library_calls": 0}, None)]  # noqa: E731
        self.assertEqual(REPORT.page(row(400))[1], [])
        self.assertIn("now", REPORT.page(row(105))[1][0])
        self.assertIn("does not say why", REPORT.page([("other", 100.0, row(400)[0][2], 300)])[1][0])

    def test_every_graph_has_a_bound(self):
        for path in REPORT.CASES:
            least = REPORT.bound(gzip.open(path, "rt").read(), REPORT.CALLS)
            self.assertTrue(least > 0 and math.isfinite(least), path.name)
        page = (ROOT / "bench/results/bounds.md").read_text()
        self.assertNotIn("unexplained", page)
        for path in REPORT.CASES:
            self.assertIn(f"| {path.name.split('.')[0]} |", page)


if __name__ == "__main__":
    unittest.main()
