"""bench/contractions/measured.py: the published times as they are kept, what is held out, and how models stand beside them;
no package, no stitch."""
import json
import math
import pathlib
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench/contractions"))
import measured  # noqa: E402

ROWS = measured.read_rows(measured.TIMES)
SOURCES = json.loads(measured.SOURCES.read_text())
# What the data sheets have, TFLOP/s dense at the clock that boards reach; nothing that was measured may be beyond.
MOST = {"h100": 1000, "b200": 2250, "a100": 315, "rtx4090": 180, "rtx3090": 81, "l4": 121}


def row(**more):
    return {"source": "xla", "gpu": "h100", "dtype": "bf16", "batch": "1", "m": "512", "n": "256", "k": "128", "left": "plain",
            "right": "plain", "result": "bf16", "us": "10"} | more


class Times(unittest.TestCase):
    def test_each_has_a_source_and_extents(self):
        for each in ROWS:
            with self.subTest(each):
                self.assertIn(each["source"], SOURCES)
                self.assertIn(each["gpu"], measured.GPUS)
                self.assertGreater(measured.flops(each), 0)
                self.assertGreater(float(each["us"]), 0)
                self.assertLessEqual({each["left"], each["right"]}, {"plain", "turned"})

    def test_none_is_faster_than_the_hardware(self):
        for each in ROWS:
            if each["gpu"] in MOST and each["dtype"] in ("f16", "bf16"):
                self.assertLess(measured.flops(each) / float(each["us"]) / 1e6, MOST[each["gpu"]], each)

    def test_a_source_says_how_it_was_measured(self):
        for name, about in SOURCES.items():
            self.assertEqual(set(about), {"title", "address", "revision", "licence", "timed", "how"}, name)
            self.assertIn(about["timed"], ("kernels", "events", "calls"))

    def test_a_third_is_held_out_by_shape_alone(self):
        shapes = {tuple(each[d] for d in ("batch", "m", "n", "k")): measured.held_out(each) for each in ROWS}
        self.assertTrue(1 / 3 < sum(shapes.values()) / len(shapes) < 0.42, sum(shapes.values()) / len(shapes))
        self.assertEqual(measured.held_out(row(gpu="l4", us="3", dtype="f32")), measured.held_out(row()))

    def test_answers_of_theirs_are_of_times_that_there_are(self):
        asked = {measured.key_of(each) for each in measured.recordings() + ROWS}
        answers = measured.read_rows(measured.THEIRS)
        self.assertLessEqual({measured.key_of(each) for each in answers}, asked)
        known = measured.theirs_of(answers)
        self.assertGreater(sum("theirs" in columns for columns in known.values()), 0.95 * len(asked))

    def test_our_calls_of_cublas_are_products(self):
        own = measured.recordings()
        self.assertGreater(len(own), 20)
        self.assertLess(next(each["us"] for each in own if each["m"] == 4096 and each["dtype"] == "f16" and each["k"] == 4096),
                        200)


class Collected(unittest.TestCase):
    def test_a_table_in_a_library(self):
        table = """# proto-message: xla.GemmPerfTable
entries {
  key: "sm_90"
  value {
    entries {
      b: 2
      m: 256
      n: 512
      k: 1024
      flops { key: "bf16xbf16->bf16" value: 268435456000000 }
      flops { key: "f8e4m3fnxf8e4m3fn->bf16" value: 1 }
    }
  }
}
entries {
  key: "gfx942"
  value { entries { b: 1 } }
  entries {
      flops { key: "bf16xbf16->bf16" value: 5 }
"""
        with tempfile.TemporaryDirectory() as folder:
            wheel = pathlib.Path(folder) / "some.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr("jax_plugins/xla_cuda12/xla_cuda_plugin.so", b"\x7fELF\0" + table.encode() + b"\0more")
            found = measured.collect(wheel)
        self.assertEqual(found, [dict(zip(measured.COLUMNS, ("xla", "h100", "bf16", 2, 256, 512, 1024, "plain", "plain",
                                                             "bf16", "2")))])


class Compared(unittest.TestCase):
    def entries(self):
        rows = measured.counted([row(), row(m="1024", us="40"), row(m="2048", us="160"), row(m="4096", source="emmy",
                                                                                               gpu="rtx4090", us="20")], SOURCES)
        lines = [{"target": each["gpu"], "name": measured.name_of(each), "predicted_us": each["us"] * 1.5,
                  "library_us": each["us"] * 2} for each in rows]
        theirs = [{"gpu": each["gpu"], **{part: each[part] for part in measured.SHAPE}, "backend": "CUTLASS", "discovery": "",
                   "bare": str(each["us"] * 4)} for each in rows[:3]]
        return measured.joined(rows, measured.ours_of(lines), measured.theirs_of(theirs), {measured.key_of(rows[0]): 5.0})

    def test_the_nearer_one_is_named(self):
        text = "\n".join(measured.by_gpu(self.entries()))
        self.assertIn("| h100 | bf16 | 3 | 2.00 ×÷ 1.00 | 4.00 ×÷ 1.00 | 0.50 | 2.00 | 4.00 | ours | 3 of 3 |", text)
        self.assertNotIn("rtx4090", text, "theirs has no estimate there")

    def test_groups_are_sources_gpus_and_types(self):
        text = "\n".join(measured.summary(self.entries()))
        self.assertIn("| xla | h100 | bf16 | 3 | 2.00 ×÷ 1.00 | 1.000 | 4.00 ×÷ 1.00 | 1.000 | 4.00 ×÷ 1.00 | 3 of 3 | "
                      "1.50 ×÷ 1.00 |", text)
        self.assertIn("| emmy | rtx4090 | bf16 | 1 | 2.00 ×÷ 1.00 |  |", text)

    def test_events_tell_nothing_of_short_kernels(self):
        rows = [row(source="kernelbench", us="59"), row(source="kernelbench", us="61"), row(us="1")]
        self.assertEqual([each["us"] for each in measured.counted(rows, SOURCES)], [61, 1])

    def test_problems_are_what_stitch_reads(self):
        made = measured.problems_of([row(dtype="tf32", result="f32"), row(gpu="l4")], "h100")
        self.assertEqual(made, [{"name": "tf32/1/512/256/128/plain/plain/f32", "batch": 1, "m": 512, "n": 256, "k": 128,
                                 "dtype": "f32", "left": "plain", "right": "plain", "result": "f32", "arithmetic": "tf32"}])

    def test_schedules_are_grouped_by_instruction(self):
        lines = [({"what": "f16 1×[8,8]·[8,8] → f16 (wgmma_m64k16)", "runs": "wgmma_m64k16 block 64×8×64", "predicted_us": 2,
                   "measured_us": 1}, "a"),
                 ({"what": "wgmma_m64k16 block 128×8×64 warp 16×8", "predicted_us": 2, "measured_us": 1}, "b")]
        self.assertIn("| wgmma_m64k16 | 2 | 2.00 ×÷ 1.00 |", measured.schedules_part(lines))

    def test_tiles_stand_beside_what_they_took(self):
        tiles = measured.read_rows(measured.TILES)
        self.assertEqual(measured.tile_of(tiles[0]), {"block": [32, 32, 64], "warp": [32, 16], "stages": 2, "split": 1, "group": 8})
        text = "\n".join(measured.tiles_part([tiles[0] | {"us": "10", "theirs": "30"}, tiles[1] | {"us": "10", "theirs": ""}],
                                             [20, None]))
        self.assertIn("ours ÷ measured 2.00 ×÷ 1.00 (1), theirs ÷ measured 3.00 ×÷ 1.00 (1).", text)

    def test_the_page_has_both_parts(self):
        page = measured.page(self.entries(), SOURCES, [])
        for each in ("## Who is nearer", "## Fitted and held out", "## Furthest off", "## Sources"):
            self.assertIn(each, page)
        before = [math.log(e["before"] / e["us"]) for e in self.entries() if e["before"]]
        self.assertEqual(before, [math.log(0.5)])


if __name__ == "__main__":
    unittest.main()
