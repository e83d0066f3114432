#!/usr/bin/env python3
"""scripts/check_docs.py on small made-up trees."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_docs.py"
PROGRAM = """#!/bin/sh
case "$1" in
--help) printf 'Commands\\n  plan         Ranks\\n  run          Trains\\n  check        Compares\\n' ;;
check) printf 'Usage\\n  --rounds N\\n' ;;
plan) printf 'Usage\\n  -n, --partitions N\\n  --json\\n' ;;
*) exit 1 ;;
esac
"""


class CheckDocs(unittest.TestCase):
    def check(self, page, **others):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"docs/page.md": page, "scripts/test": "", "docs/other.md": "# Its *one* heading\n",
                               "engine/gpipe.h": "", "build/core/bin/pipescope": PROGRAM, **others}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            (root / "build/core/bin/pipescope").chmod(0o755)
            return subprocess.run([sys.executable, str(SCRIPT), "--root", folder], capture_output=True, text=True, timeout=60)

    def assert_fault(self, page, word, **others):
        result = self.check(page, **others)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(word, result.stderr)

    def test_accepts_a_page_whose_names_exist(self):
        result = self.check("# Page\n[a](other.md#its-one-heading), [b](#page), [c](../scripts/test), `engine/gpipe.h`, "
                            "`gpipe.h`, `engine/`, `build/x`, `pipescope plan F -n 2 --json`, [w](https://a.example)\n\n"
                            "    scripts/test\n    pipescope plan p.json \\\n        --json   # --not-checked\n"
                            "    pipescope run m --steps 3\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("cannot tell of run", result.stdout)

    def test_finds_a_link_to_no_file(self):
        self.assert_fault("[a](gone.md)", "links to gone.md")

    def test_finds_a_link_to_no_heading(self):
        self.assert_fault("[a](other.md#gone)", "no such heading")

    def test_finds_a_file_that_is_not_there(self):
        self.assert_fault("`engine/gone.h`", "`engine/gone.h`")
        self.assert_fault("`gone.h`", "`gone.h`")
        self.assert_fault("    scripts/gone\n", "scripts/gone")

    def test_finds_an_option_that_is_not_there(self):
        self.assert_fault("`pipescope plan --gone`", "no option --gone")
        self.assert_fault("\n\n    ./pipescope plan \\\n        --gone\n", "no option --gone")

    def test_leaves_out_the_options_of_check_if_the_program_cannot_tell_those_of_run(self):
        result = self.check("`pipescope check m --steps 3`")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("cannot tell of check, run", result.stdout)

    def test_finds_a_command_that_is_not_there(self):
        self.assert_fault("`pipescope gone x`", "`pipescope gone` is no command")

    def test_finds_a_page_that_a_comment_names_and_is_not_there(self):
        self.assert_fault("", "docs/gone.md", **{"engine/lane.cpp": "// see docs/gone.md\n"})


if __name__ == "__main__":
    unittest.main()
