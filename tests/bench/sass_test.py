"""bench/sass/table: what is called behind, and that no column is without its reason."""
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def loaded():
    loader = importlib.machinery.SourceFileLoader("sass_table", str(ROOT / "bench/sass/table"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sass_table", loader))
    loader.exec_module(module)
    return module


TABLE = loaded()
CODE = {"registers": 32, "spills": 0, "instructions an element": 4.0, "loads before the first wait": 4,
        "bytes in flight an SM": 65536, "barriers": 0, "waits": 1, "threads": 256, "loop": False, "blocks an SM": 8}


class Behind(unittest.TestCase):
    def test_more_registers_count_only_where_they_cost_room(self):
        self.assertEqual(TABLE.behind(CODE | {"registers": 64}, CODE), [])
        self.assertEqual(TABLE.behind(CODE | {"registers": 64, "blocks an SM": 4}, CODE), ["registers"])

    def test_less_in_flight_counts_only_where_it_is_not_enough(self):
        self.assertEqual(TABLE.behind(CODE | {"bytes in flight an SM": 40000}, CODE), [])
        self.assertEqual(TABLE.behind(CODE | {"bytes in flight an SM": 8192}, CODE), ["bytes in flight an SM"])

    def test_a_column_without_a_reason_and_a_reason_without_a_column_are_faults(self):
        verdicts = [["waits"], ["waits", "spills"]]
        self.assertEqual(TABLE.columns_behind(verdicts), ["waits", "spills"])
        self.assertEqual(TABLE.faults("a", verdicts, {"waits": "so", "spills": "so"}), [])
        self.assertEqual(TABLE.faults("a", verdicts, {"waits": "so"}), ["a is behind in spills without a reason"])
        self.assertIn("goes", TABLE.faults("a", [], {"waits": "so"})[0])
        text = TABLE.page([("a", CODE, [("other", CODE)], [["spills"]], {})], [])
        self.assertIn("| a | spills | **unexplained** |", text)


class Kept(unittest.TestCase):
    def test_the_page_explains_every_column(self):
        text = (ROOT / "bench/results/sass.md").read_text()
        self.assertNotIn("unexplained", text)
        rows = json.loads((ROOT / "bench/sass/rows.json").read_text())
        self.assertGreaterEqual(sum("public" in row for row in rows), 20)
        told = {tuple(found) for found in re.findall(r"^\| (\w+) \| ([a-zA-Z ]+) \| [^|]+ \|$", text, re.M)}
        self.assertEqual({(row["kernel"], column) for row in rows for column in row.get("reasons", {})}, told - {("kernel", "ours is behind in")})


if __name__ == "__main__":
    unittest.main()
