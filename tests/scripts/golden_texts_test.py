#!/usr/bin/env python3
"""The commands print the texts in tests/cli/golden/COMMAND.txt.

    golden_texts_test.py BIN                             the folder with the built programs
    PIPESCOPE_REWRITE_GOLDEN=1 golden_texts_test.py BIN  writes what they print into the files

Each file is a session in an empty folder with copies of golden/inputs/. A line behind "$ " goes to the shell. Below it
are its stdout, indented by two blanks, its stderr behind "! ", and its exit code behind "= " unless it is 0. Lines
behind "# " are comments. Two names are masked: BIN is the folder of the programs, FOLDER that of the session. Other
texts that differ between machines or runs stay out.
"""
import concurrent.futures
import difflib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "cli/golden"


def answer(line, folder):
    """What the shell prints for the line, as a golden file has it."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)}
    result = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
                            check=False)
    text = "".join("  " + each + "\n" if each else "\n" for each in result.stdout.splitlines())
    text += "".join("! " + each + "\n" for each in result.stderr.splitlines())
    text += f"= {result.returncode}\n" if result.returncode else ""
    return text.replace(str(folder), "FOLDER").replace(str(BIN), "BIN")


def played_again(text):
    """The session, with the answers of today."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve() / "session"
        shutil.copytree(GOLDEN / "inputs", folder)
        parts = []
        for line in text.splitlines():
            if line.startswith("#"):
                parts.append(line + "\n")
            elif line.startswith("$ "):
                text = answer(line[2:], folder)
                parts.append(line + "\n" + text + ("\n" if text else ""))
    return "".join(parts).rstrip("\n") + "\n"


class GoldenTexts(unittest.TestCase):
    def test_are_what_the_commands_print(self):
        has_viewer = (BIN / "pipescope-gui").exists()
        paths = [path for path in sorted(GOLDEN.glob("*.txt")) if has_viewer or path.stem != "view"]
        texts = [path.read_text() for path in paths]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            printed = list(pool.map(played_again, texts))
        for path, old, new in zip(paths, texts, printed):
            if os.environ.get("PIPESCOPE_REWRITE_GOLDEN"):
                path.write_text(new)
                continue
            with self.subTest(path.stem):
                diff = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), "printed now", "", "", 3, "")
                self.assertTrue(old == new, "\n".join(diff) + "\n\nIf the new texts are right: "
                                "PIPESCOPE_REWRITE_GOLDEN=1 ctest --preset release -R GoldenTexts")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
