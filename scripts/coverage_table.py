#!/usr/bin/env python3
"""Prints the branch coverage of each folder from gcovr's JSON, and fails where a folder is below its floor.

scripts/coverage calls it: coverage_table.py COVERAGE.json FLOORS.txt UNTAKEN.txt. FLOORS.txt holds a folder and its floor in
percent a line, and comments after #. UNTAKEN.txt gets each line with branches that no test takes.
"""

import json
import pathlib
import sys


class Count:
    """Lines and branches, and how many of them tests reached."""

    def __init__(self):
        self.lines = self.reached = self.branches = self.taken = 0

    def add(self, line):
        self.lines += 1
        self.reached += line["count"] > 0
        branches = line.get("branches", [])
        self.branches += len(branches)
        self.taken += sum(branch["count"] > 0 for branch in branches)


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def folder_of(path):
    """The folder of a source, and its parents: "simulator/clock/x.cpp" counts for "simulator/clock" and "simulator"."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def main(coverage, floors, untaken):
    counts = {}
    with open(untaken, "w", encoding="utf-8") as out:
        for file in json.loads(pathlib.Path(coverage).read_text(encoding="utf-8"))["files"]:
            for line in file["lines"]:
                for folder in folder_of(file["file"]):
                    counts.setdefault(folder, Count()).add(line)
                missed = sum(branch["count"] == 0 for branch in line.get("branches", []))
                if missed or not line["count"]:
                    branches = len(line.get("branches", []))
                    what = f"{missed} of {branches} branches" if branches else "the line"
                    print(f"{file['file']}:{line['line_number']}: {what}", file=out)
    print("| folder | lines | reached | branches | taken |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for folder, count in sorted(counts.items()):
        lines, branches = percent(count.reached, count.lines), percent(count.taken, count.branches)
        print(f"| {folder} | {count.lines} | {lines:.1f} % | {count.branches} | {branches:.1f} % |")
    below = []
    for line in pathlib.Path(floors).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        folder, floor = line.split()
        if folder not in counts:
            below.append(f"{folder} has no coverage; correct its name in {floors}")
        elif percent(counts[folder].taken, counts[folder].branches) < float(floor):
            taken = percent(counts[folder].taken, counts[folder].branches)
            below.append(f"{folder}: tests take {taken:.1f} % of the branches, below the floor of {floor} %; see {untaken}")
    for message in below:
        print(f"coverage: {message}", file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
