#!/usr/bin/env python3
"""A transformer trained on two lanes of this machine under gpipe, 1f1b and auto, measured against predicted.

    python3 benchmarks/real_schedules.py [MODEL] [--rounds N] [--steps N]

The schedules take turns, so that slow changes of the machine meet all of them. Prints Markdown tables: steps; by how much
auto is quicker; and the time of all tasks of a step, by kind. Predictions are from a profile measured before the runs,
and from one measured from a recorded run of auto (`profile --from-trace`). Takes some two minutes; needs a quiet machine.
"""

import argparse
import json
import os
import sqlite3
import statistics
import tempfile

from pipescope_json import pipescope

BATCH, MICRO_BATCHES = 32, 8
SCHEDULES = ["gpipe", "1f1b", "auto"]


def percent(ratio):
    return f"{100 * ratio:+.1f} %"


class Bench:
    def __init__(self, folder, arguments):
        self.arguments = arguments
        self.profile = os.path.join(folder, "p.json")
        self.order = os.path.join(folder, "auto.csv")
        self.traces = {name: os.path.join(folder, name + ".sqlite") for name in SCHEDULES}
        size = str(BATCH // MICRO_BATCHES)
        pipescope("profile", arguments.model, "--micro-batch-sizes", size, "-o", self.profile)
        balance = pipescope("balance", self.profile, "-n", "2", "--algorithm", "minmax", *self.step())["balance"]
        self.pipeline = ["--balance", ",".join(map(str, balance)), *self.step()]

    def step(self):
        return ["-m", str(MICRO_BATCHES), "--batch", str(BATCH), "--checkpoint", "never", "--devices", "cpu,cpu"]

    def slowdown(self):
        with open(self.profile, encoding="utf-8") as file:
            return json.load(file).get("co_running_slowdown", [1])[-1]

    def predicted(self, profile):
        """Expected steps in ns by schedule. The order of auto is that of the profile measured first."""
        if not os.path.exists(self.order):
            pipescope("simulate", profile, *self.pipeline, "--schedule", "auto", "--schedule-output", self.order)
        steps = {}
        for name in SCHEDULES:
            done = pipescope("simulate", profile, *self.pipeline, "--schedule", self.file_of(name))
            steps[name] = done.get("step_mean_ns", done["step_ns"])
        return steps

    def file_of(self, name):
        return self.order if name == "auto" else name

    def run(self, name):
        """The mean step in ns."""
        done = pipescope("run", self.arguments.model, *self.pipeline, "--schedule", self.file_of(name), "--steps",
                         str(self.arguments.steps), "--warmup", "2", "--profile", self.profile, "--trace",
                         self.traces[name], "--force")
        return statistics.mean(step["step_ns"] for step in done["steps"][2:])

    def tasks(self, name):
        """By kind: ms of all tasks of a step, measured in the last run and simulated."""
        simulated = os.path.join(os.path.dirname(self.profile), "simulated.sqlite")
        pipescope("simulate", self.profile, *self.pipeline, "--schedule", self.file_of(name), "--trace", simulated,
                  "--force")
        sums = []
        for path, steps in ((self.traces[name], "SELECT step FROM PIPESCOPE_STEP WHERE warmup = 0"),
                            (simulated, "SELECT DISTINCT step FROM PIPESCOPE_TASK")):
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as trace:
                count = len(trace.execute(steps).fetchall())
                rows = trace.execute("SELECT kind, sum(end - start) FROM PIPESCOPE_TASK "
                                     f"WHERE step IN ({steps}) GROUP BY kind").fetchall()
                sums.append({kind: total / 1e6 / count for kind, total in rows})
        return {kind: (ms, sums[1].get(kind, 0)) for kind, ms in sums[0].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="transformer:layers=6")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, arguments)
        before = bench.predicted(bench.profile)
        measured = {name: [] for name in SCHEDULES}
        for _ in range(arguments.rounds):
            for name in SCHEDULES:
                measured[name].append(bench.run(name))
        recorded = os.path.join(folder, "recorded.json")
        pipescope("profile", "--from-trace", bench.traces["auto"], "-o", recorded)
        after = bench.predicted(recorded)
        tasks = {name: bench.tasks(name) for name in SCHEDULES}
        slowdown = bench.slowdown()

    print(f"Balance {bench.pipeline[1]}. In the profile a layer takes {slowdown:.2f} times as long with both lanes busy.\n")
    print("| schedule | measured | half range | predicted | error | from the recorded run | error |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in SCHEDULES:
        median = statistics.median(measured[name])
        half = (max(measured[name]) - min(measured[name])) / 2 / median
        cells = [name, f"{median / 1e6:.1f} ms", f"± {half:.1%}"]
        for predicted in (before, after):
            cells += [f"{predicted[name] / 1e6:.1f} ms", percent(predicted[name] / median - 1)]
        print("| " + " | ".join(cells) + " |")
    print("\n| auto is quicker than | measured | of each round | predicted | from the recorded run |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in SCHEDULES[:-1]:
        gains = [1 - auto / other for auto, other in zip(measured["auto"], measured[name])]
        cells = [percent(statistics.median(gains)), f"{percent(min(gains))} to {percent(max(gains))}"]
        cells += [percent(1 - predicted["auto"] / predicted[name]) for predicted in (before, after)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\n| schedule | tasks | measured | predicted | error |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name in SCHEDULES:
        for kind, (measured_ms, predicted_ms) in tasks[name].items():
            if predicted_ms > 1:
                print(f"| {name} | {kind} | {measured_ms:.1f} ms | {predicted_ms:.1f} ms | "
                      f"{percent(predicted_ms / measured_ms - 1)} |")


if __name__ == "__main__":
    main()
