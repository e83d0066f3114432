#!/usr/bin/env python3
"""What scripts/demo builds is all that `cmake --install` needs: install_test.py BUILD"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def demo_targets():
    (line,) = re.findall(r"^scripts/build release (.+)$", (ROOT / "scripts" / "demo").read_text(), re.MULTILINE)
    return line.split()


def ninja(build, *arguments):
    return subprocess.run(["ninja", "-C", str(build), *arguments], check=True, capture_output=True, text=True).stdout


def installed_and_built(build):
    """Paths below the build folder of what install copies and the build makes."""
    made = {line.split(":")[0] for line in ninja(build, "-t", "targets", "all").splitlines()}
    for script in build.rglob("cmake_install.cmake"):
        for path in re.findall(f'"{re.escape(str(build))}/([^"]+)"', script.read_text()):
            if path in made:
                yield path


class Install(unittest.TestCase):
    def test_needs_nothing_that_the_demo_does_not_build(self):
        build = pathlib.Path(BUILD).resolve()
        programs = {pathlib.PurePath(path).name for path in installed_and_built(build)}
        targets = [target for target in demo_targets() if target in programs]  # without torch there are fewer
        self.assertIn("pipescope", targets)
        needed = set(ninja(build, "-t", "inputs", *targets).split()) | {f"bin/{target}" for target in targets}
        missing = sorted(set(installed_and_built(build)) - needed)
        self.assertEqual(missing, [], f"`cmake --install` fails after `scripts/build release {' '.join(targets)}`")


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
