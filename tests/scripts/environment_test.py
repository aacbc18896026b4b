#!/usr/bin/env python3
"""Every environment variable that our sources read stands in the table of `stitch env`, and the other way round."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = "base graph import kernel search costmodel codegen emulator driver cuda profiler db api tuning daemon client lab cli python/stitch python/native"
PASSED_ON = {"STITCH_PARENT"}  # from one program of ours to another


class Environment(unittest.TestCase):
    def test_the_table_is_what_is_read(self):
        table = (ROOT / "base/environment.cpp").read_text()
        listed = set(re.findall(r'Variable\{"(STITCH_[A-Z_]+)"', table))
        read = set()
        for folder in FOLDERS.split():
            for file in (ROOT / folder).rglob("*"):
                if file.suffix in (".cpp", ".h", ".py") and file.name != "environment.cpp":
                    read |= set(re.findall(r'["\'](STITCH_[A-Z_]+)["\']', file.read_text(errors="replace")))
        read -= PASSED_ON
        self.assertEqual(read - listed, set(), "read, and not in the table of base/environment.cpp")
        self.assertEqual(listed - read, set(), "in the table, and read by nobody")
        self.assertGreater(len(read), 15)


if __name__ == "__main__":
    unittest.main()
