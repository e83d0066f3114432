#!/usr/bin/env python3
"""scripts/coverage_table.py counts the branches of each folder, lists what no test takes, and fails below a floor."""

import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "coverage_table.py"


def line(number, count, *branches):
    return {"line_number": number, "count": count, "branches": [{"count": taken} for taken in branches]}


def main():
    files = [
        {"file": "simulator/clock/a.cpp", "lines": [line(1, 2, 1, 1), line(2, 1, 3, 0)]},
        {"file": "simulator/b.cpp", "lines": [line(7, 0)]},
    ]
    with tempfile.TemporaryDirectory() as folder:
        coverage, floors, untaken = (pathlib.Path(folder) / name for name in ("coverage.json", "floors.txt", "untaken.txt"))
        coverage.write_text(json.dumps({"files": files}), encoding="utf-8")

        def table(floor):
            floors.write_text(floor, encoding="utf-8")
            return subprocess.run([sys.executable, SCRIPT, coverage, floors, untaken], capture_output=True, text=True, check=False)

        reached = table("# a comment\nsimulator 75\n")
        assert reached.returncode == 0 and not reached.stderr, reached
        assert "| simulator | 3 | 66.7 % | 4 | 75.0 % |" in reached.stdout, reached
        assert "| simulator/clock | 2 | 100.0 % | 4 | 75.0 % |" in reached.stdout, reached
        assert untaken.read_text(encoding="utf-8") == "simulator/clock/a.cpp:2: 1 of 2 branches\nsimulator/b.cpp:7: the line\n"
        below = table("simulator/clock 76\n")
        assert below.returncode == 1, below
        assert "simulator/clock: tests take 75.0 % of the branches, below the floor of 76 %" in below.stderr, below
        unknown = table("simulatr 10\n")
        assert unknown.returncode == 1 and "simulatr has no coverage" in unknown.stderr, unknown


if __name__ == "__main__":
    main()
