#!/usr/bin/env python3
"""Steps of 8 lanes and 32 micro-batches with emulated layers, measured against predicted: a Markdown table.

    python3 benchmarks/emulated_schedules.py [--part steps|periods] [--runs N]

Lanes take twice the stage times of Zero Bubble's 6.2B model (arXiv 2401.10241, table 4: F 29.7, I 29.4, W 19.9 ms) and
wait instead of computing, so 8 lanes run on any machine. Twice, since a task ends some 0.1 ms late, when the timer wakes
its lane. An update waits 30 ms. Copies are free. Each part takes 160 s.
Run it on a quiet machine, or under `chrt -f 20`: lanes that wake up must not queue behind other processes. The memory
limits of schedule auto are the peak of 1f1b's first lane, plus 1 % for what a lane passes on, and twice that.
"""

import argparse
import json
import os
import statistics
import tempfile

from pipescope_json import pipescope

LANES, MICRO_BATCHES = 8, 32
FORWARD, INPUTS, WEIGHTS, UPDATE = 59.4, 58.8, 39.8, 30.0  # ms a lane


def write_profile(path, forward=FORWARD, inputs=INPUTS, weights=WEIGHTS):
    """16 layers, two a lane, so that every schedule fits."""
    layer = {
        "forward_ns": [forward * 1e6 / 2],
        "backward_ns": [(inputs + weights) * 1e6 / 2],
        "backward_weight_ns": [weights * 1e6 / 2],
        "output_bytes": [64],
        "saved_bytes": [1 << 20],
        "parameter_bytes": 64,
        "gradient_bytes": 64,
    }
    layers = [dict(layer, name=f"layer{k}") for k in range(2 * LANES)]
    profile = {"format": "pipescope.profile", "version": 1, "samples": [1], "input_bytes": [64],
               "optimizer_ns": UPDATE * 1e6 * LANES, "layers": layers}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(profile, file)


def pipeline(two_a_lane):
    """The options of 8 lanes with one partition each, or two."""
    partitions = 2 * LANES if two_a_lane else LANES
    balance = ",".join(["1" if two_a_lane else "2"] * partitions)
    return ["--balance", balance, "-m", str(MICRO_BATCHES), "--batch", str(MICRO_BATCHES), "--checkpoint", "never",
            "--devices", ",".join(["cpu"] * LANES)]


# Down the lanes and up again.
V = ["--placement", ",".join(str(lane) for lane in [*range(LANES), *reversed(range(LANES))])]


class Bench:
    def __init__(self, folder, runs):
        self.folder = folder
        self.runs = runs
        self.profile = os.path.join(folder, "e.json")
        write_profile(self.profile)

    def simulate(self, two_a_lane, *options):
        return pipescope("simulate", self.profile, *pipeline(two_a_lane), *options)

    def found(self, two_a_lane, *options):
        """Writes the order that schedule auto finds; returns its file and what was predicted."""
        path = os.path.join(self.folder, "auto.csv")
        in_v = V if two_a_lane else []
        predicted = self.simulate(two_a_lane, *in_v, "--schedule", "auto", "--schedule-output", path, "--force",
                                  *options)
        return path, predicted

    def measure(self, two_a_lane, steps, *options):
        """Step times in ns, without the first step, of all runs."""
        times = []
        trace = os.path.join(self.folder, "t.sqlite")
        for _ in range(self.runs):
            done = pipescope("run", "emulated:" + self.profile, *pipeline(two_a_lane), *options,
                             "--steps", str(steps), "--warmup", "1", "--trace", trace, "--force")
            times += [step["step_ns"] for step in done["steps"][1:]]
        return times


def row(name, times, predicted_ns, bound_ns):
    measured = statistics.median(times)
    spread = (max(times) - min(times)) / measured / 2
    cells = [name, f"{measured / 1e6:.1f} ms", f"± {spread:.2%}", f"{predicted_ns / 1e6:.1f} ms",
             f"{predicted_ns / measured - 1:+.2%}", f"{bound_ns / 1e6:.1f} ms", f"{measured / bound_ns - 1:+.2%}"]
    print("| " + " | ".join(cells) + " |", flush=True)


def steps(bench):
    bounds = {two: bench.found(two)[1]["lower_bound_ns"] for two in (False, True)}
    for name in ["1f1b", "zero-bubble-h1", "zero-bubble-v", "dualpipe-v", "v-half"]:
        two = name in ("zero-bubble-v", "dualpipe-v", "v-half")
        predicted = bench.simulate(two, "--schedule", name)
        row(name, bench.measure(two, 3, "--schedule", name), predicted["step_ns"], bounds[two])
    one = max(lane["peak_bytes"] for lane in bench.simulate(False, "--schedule", "1f1b")["lanes"]) * 101 // 100
    for two, lanes in [(False, "auto"), (True, "auto in a V")]:
        for limit, memory in [(one, "memory of 1f1b"), (2 * one, "twice that")]:
            path, predicted = bench.found(two, "--memory-limit", f"{limit}B")
            times = bench.measure(two, 3, "--schedule", path)
            row(f"{lanes}, {memory}", times, predicted["step_ns"], predicted["lower_bound_ns"])


def periods(bench):
    staggered = ["--update", "staggered"]
    work = MICRO_BATCHES * (FORWARD + INPUTS + WEIGHTS) * 1e6
    predicted = bench.simulate(False, "--schedule", "zero-bubble-2p", *staggered)
    row("zero-bubble-2p", bench.measure(False, 10, "--schedule", "zero-bubble-2p", *staggered), predicted["step_ns"],
        work)
    path, predicted = bench.found(False, *staggered)
    row("auto", bench.measure(False, 10, "--schedule", path, *staggered), predicted["step_ns"], work)
    third = (FORWARD + INPUTS + WEIGHTS) / 3
    write_profile(bench.profile, third, third, third)
    predicted = bench.simulate(False, "--schedule", "zero-bubble-2p", *staggered)
    row("zero-bubble-2p, F = I = W", bench.measure(False, 10, "--schedule", "zero-bubble-2p", *staggered),
        predicted["step_ns"], work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["steps", "periods"], help="default: both")
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, arguments.runs)
        for part, run, against in [("steps", steps, "lower bound"), ("periods", periods, "m (F + I + W)")]:
            if arguments.part in (None, part):
                print(f"\n| {part} | measured | half range | predicted | error | {against} | above it |")
                print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
                run(bench)


if __name__ == "__main__":
    main()
