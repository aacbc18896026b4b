"""Whole models beside XLA: bench/gpu/programs_page on what the step `programs` leaves; parts of xla_models.py."""
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def loaded(name):
    loader = importlib.machinery.SourceFileLoader(name.replace(".", "_"), str(ROOT / "bench/gpu" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def step(name, us, **fields):
    return {"kind": "fragment", "name": name, "by": "device", "runs": 1, "launches": 1, "bytes": 4000000,
            "host_seconds": 0.0, "us": us, **fields}


def command(model, by, said):
    return f"\n$ /b/bin/stitch run /b/models/{model}.hlo.txt.gz --device gpu:0 --products {by} --json --quiet\n{said}" \
           "[exit status 0]\n"


STEPS = [step("step 0 (level 0)", 2.0, predicted_us=1.0),
         step("step 1 (dot f32[100,20]·f32[20,30], add)", 10.0, by="library"),
         step("step 2 (level 3)", 4.0, predicted_us=2.0)]
XLA = {"name": "a", "variant": "no-tf32", "us": 8.0, "device_us": 4.0, "kernels": 5.0, "jax": "1", "gpu": "a GPU",
       "autotune_level": None, "compile_s": 1.0, "top": [["gemm|1", 2.0, 3.0]]}


class Page(unittest.TestCase):
    def setUp(self):
        self.page = loaded("programs_page")
        self.log = command("a", "library", json.dumps({"steps": STEPS[:1]}) + "\n") + \
            command("a", "stream", "a warning\n" + json.dumps({"steps": STEPS}) + "\n") + command("b", "stream", "")

    def of(self, lines, state=None):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "programs-xla.jsonl"
            path.write_text("\n".join(lines))
            return self.page.page(self.page.runs_of(self.log), self.page.xla_of(path), state or {})

    def test_ours_stand_beside_xla(self):
        page = self.of([json.dumps({**XLA, "us": 99.0}), json.dumps(XLA), '{"name": "cut o'])
        self.assertIn("| a | stream | 3 | 3 | 16.0 | 0.50 | no-tf32 | 8.0 | 4.0 | 5 | 2.00 | 4.00 |", page)
        self.assertIn("| a | library | 1 | 1 | 2.0 | 0.50 | no-tf32 | 8.0 | 4.0 | 5 | 0.25 | 0.50 |", page)
        self.assertIn("| `gemm\\|1` | 2 | 3.0 |", page)

    def test_steps_that_are_alike_are_one_row(self):
        page = self.of([])
        self.assertIn("| fragment | device | 2 | 1 | 4.00 | 6.0 | 3.00 | 2.0–4.0 | 1,333 |  | 0.50 |", page)
        self.assertEqual(self.page.plain(step("step 7 (1fad2a927ac5, level 12)", 1.0)), "fragment 1fad2a927ac5")
        self.assertIn("| dot f32[100,20]·f32[20,30], add | library | 1 | 1 | 4.00 | 10.0 | 10.00 | 10.0–10.0 | 400 | "
                      "0.0 |  |", page)

    def test_what_failed_is_said(self):
        machine = {"name": "a GPU", "driver": "1", "date": "today", "commit": "abc\nwith changes"}
        page = self.of([json.dumps({"name": "b", "variant": "default", "error": "…\na.XlaError: no memory\n  ^"})],
                       {"machine GPU-1": machine, "suite": 0})
        self.assertIn("| b | stream |  |  | no times |  | default | failed |", page)
        self.assertIn("* b, stream: the command ended without a result.", page)
        self.assertIn("* b, XLA default: a.XlaError: no memory", page)
        self.assertIn("* a GPU, driver 1, today, commit abc\n", page)

    def test_operations_are_counted_where_there_is_no_doubt(self):
        flops = self.page.flops_of_dot
        self.assertEqual(flops("dot f32[8,250,256]·f32[256,512], add"), 2 * 8 * 250 * 256 * 512)
        self.assertEqual(flops("dot f32[8,4,250,250]·f32[8,4,250,64], transpose"), 2 * 32 * 250 * 250 * 64)
        self.assertEqual(flops("dot bf16[32,128,768]·bf16[32,128,3072]"), 2 * 32 * 128 * 768 * 3072, "a gradient")
        self.assertIsNone(flops("dot f32[8,4,250,64]·f32[8,4,250,64], multiply"), "64 or 250 is summed over")
        self.assertIsNone(flops("dot f32[8,250,256]·f32[256,256], and 2 more in one"))
        self.assertIsNone(flops("convolution f32[8,250,256]·f32[31,1,256]"))


TEXT = """HloModule m

region_0.1 {
  a.1 = bf16[4,8]{1,0} parameter(0)
  b.1 = bf16[8,2]{1,0} parameter(1)
  ROOT dot.1 = f32[4,2]{1,0} dot(a.1, b.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY main.2 {
  a.1 = f32[4,8]{1,0} parameter(0)
  b.1 = f32[8,2]{1,0} parameter(1)
  dot.2 = f32[4,2]{1,0} dot(a.1, b.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dot.3 = f32[4,2]{1,0} dot(f32[4,8]{1,0} %a.1, f32[8,2] %b.1), lhs_contracting_dims={1}, operand_precision={high,high}
  ROOT add.1 = f32[4,2]{1,0} add(dot.2, dot.3)
}
"""


class Profile(unittest.TestCase):
    def test_sums_are_an_executions(self):
        xla = loaded("xla_models.py")
        events = [xla.timing.Event(name, start, us) for name, start, us in (("a", 0.0, 2.0), ("b", 3.0, 4.0),
                                                                            ("a", 10.0, 2.0), ("b", 12.0, 4.0))]
        self.assertEqual(xla.profiled(events, 2), {"device_us": 6.0, "span_us": 8.0, "kernels": 2.0,
                                                   "top": [["b", 1.0, 4.0], ["a", 1.0, 2.0]]})


class WithoutTf32(unittest.TestCase):
    def test_products_of_f32_alone_get_the_highest_precision(self):
        text, count = loaded("xla_models.py").in_f32(TEXT)
        self.assertEqual(count, 2)
        self.assertEqual(text, TEXT.replace("dot.2 = f32[4,2]{1,0} dot(a.1, b.1)",
                                            "dot.2 = f32[4,2]{1,0} dot(a.1, b.1), operand_precision={highest,highest}")
                         .replace("%b.1), lhs_contracting_dims={1}, operand_precision={high,high}",
                                  "%b.1), operand_precision={highest,highest}, lhs_contracting_dims={1}"))


if __name__ == "__main__":
    unittest.main()
