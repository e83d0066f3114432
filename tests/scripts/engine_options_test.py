#!/usr/bin/env python3
"""docs/engine.md lists every field of GPipeOptions, and nothing else."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class EngineOptions(unittest.TestCase):
    def test_are_all_in_the_table(self):
        struct = (ROOT / "engine" / "engine_options.h").read_text().split("struct GPipeOptions {")[1].split("\n};")[0]
        code = re.sub(r"//.*", "", struct)
        fields = re.findall(r"(\w+) = [^;]*;", code)
        self.assertEqual(len(fields), code.count(";"))
        table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "engine.md").read_text(), re.MULTILINE)
        self.assertEqual(sorted(table), sorted(fields))


if __name__ == "__main__":
    unittest.main()
