#!/usr/bin/env python3
"""scripts/mutate counts what tests notice, names what they do not, and puts the sources back."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "mutate"
SOURCE = """int most(int a, int b) {
    // a < b stays as it is
    if (a < b) {
        return b;
    }
    return a;
}
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "scripts").mkdir()
        script = shutil.copy(SCRIPT, root / "scripts")
        source = root / "most.cpp"
        source.write_text(SOURCE, encoding="utf-8")

        def git(*words):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=root, check=True, stdout=subprocess.DEVNULL)

        def mutate(test, build="true"):
            command = [sys.executable, script, "most.cpp", "--timeout", "2", "--build", build, "--test", test]
            return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

        git("init", "--quiet")
        git("add", ".")
        git("commit", "--quiet", "-m", "a")
        # The three changes: "<=", ">=" and the condition negated.
        all_killed = mutate("grep -q 'if (a < b)' most.cpp")
        assert "3 of 3 killed (100 %); 0 did not compile" in all_killed.stdout, all_killed
        one_survives = mutate("grep -q 'if (a <=* b)' most.cpp")
        assert "2 of 3 killed (67 %)" in one_survives.stdout, one_survives
        assert re.search(r"most\.cpp:3: survived\n  - if \(a < b\) \{\n  \+ if \(a <= b\) \{\n", one_survives.stdout), one_survives
        too_late = mutate("grep -q 'a < b) {' most.cpp || sleep 60")
        assert "3 of 3 killed" in too_late.stdout, too_late
        not_compiled = mutate("true", build="! grep -q 'a >= b' most.cpp")
        assert "0 of 2 killed (0 %); 1 did not compile" in not_compiled.stdout, not_compiled
        assert source.read_text(encoding="utf-8") == SOURCE
        failing = mutate("false")
        assert failing.returncode == 1 and "without a change" in failing.stderr, failing
        source.write_text(SOURCE + "\n", encoding="utf-8")
        changed = mutate("true")
        assert changed.returncode == 1 and "uncommitted changes" in changed.stderr, changed


if __name__ == "__main__":
    main()
