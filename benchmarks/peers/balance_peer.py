#!/usr/bin/env python3
"""torchgpipe's automatic balance beside PipeScope's, on the same costs. Called by ./balance.

torchgpipe balances by blockpartition.solve() (torchgpipe/balance/blockpartition.py, which needs no torch) of each layer's
forward and backward time: that is what its balance_by_time does with the times it measures. PipeScope is the command line
as users have it. Both balances go through the same simulation; the figure is the step torchgpipe's balance takes over the
step PipeScope's takes. Prints one Markdown table.
"""
import argparse
import importlib.util
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import time


def solver(path):
    spec = importlib.util.spec_from_file_location("blockpartition", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.solve


def seeded_models():
    """Names, how many, and a maker of layers as (forward, backward) in ns."""
    around = lambda source, spread: source.uniform(1 - spread, 1 + spread)
    layer = lambda source, spread: (1e5 * around(source, spread), 2e5 * around(source, spread))
    return [
        ("26 equal layers", 1, lambda source: [(1e5, 2e5)] * 26),
        ("50 layers that vary by 30 %", 20, lambda source: [layer(source, 0.3) for _ in range(50)]),
        ("50 layers that vary by 100 %", 20, lambda source: [layer(source, 1) for _ in range(50)]),
        ("50 layers, a head of ten", 20,
         lambda source: [layer(source, 0.3) for _ in range(49)] + [tuple(10 * t for t in layer(source, 0.3))]),
        ("200 layers that vary by 100 %", 20, lambda source: [layer(source, 1) for _ in range(200)]),
    ]


def profile_of(layers):
    return {"format": "pipescope.profile", "version": 1, "samples": [1],
            "layers": [{"name": f"layer {k}", "forward_ns": [f], "backward_ns": [b], "output_bytes": [0]}
                       for k, (f, b) in enumerate(layers)]}


class PipeScope:
    def __init__(self, binary, folder):
        self.binary = binary
        self.file = folder / "profile.json"

    def ask(self, command, *words):
        done = subprocess.run([self.binary, command, self.file, "--json", *map(str, words)], capture_output=True, text=True,
                              timeout=600)
        if done.returncode != 0:
            raise SystemExit(f"balance: {command} failed: {done.stderr}")
        return json.loads(done.stdout)

    def step(self, balance, partitions, micro_batches, samples):
        return self.ask("simulate", "--balance", ",".join(map(str, balance)), "-m", micro_batches, "--batch",
                        micro_batches * samples)["step_ns"]

    def balance(self, partitions, micro_batches, samples, *words):
        return self.ask("balance", "-n", partitions, "-m", micro_batches, "--batch", micro_batches * samples, *words)


def torchgpipe_balance(solve, profile, partitions):
    """Layers in each part, and the seconds it took. A part may be empty."""
    costs = [layer["forward_ns"][0] + layer["backward_ns"][0] for layer in profile["layers"]]
    started = time.perf_counter()
    parts = solve(costs, partitions)
    return [len(part) for part in parts], time.perf_counter() - started


def compare(solve, ours, profile, partitions, micro_batches):
    ours.file.write_text(json.dumps(profile))
    samples = profile["samples"][0]
    theirs, seconds = torchgpipe_balance(solve, profile, partitions)
    best = ours.balance(partitions, micro_batches, samples)
    empty = min(theirs) == 0
    step = None if empty else ours.step(theirs, partitions, micro_batches, samples)
    return {"ratio": None if empty else step / best["step_ns"], "proven": best["optimal"], "seconds": seconds}


def percent(ratio):
    return f"{100 * (ratio - 1):.1f} %"


def row(name, runs):
    ratios = sorted(each["ratio"] for each in runs if each["ratio"])
    unusable = sum(each["ratio"] is None for each in runs)
    proven = sum(each["proven"] for each in runs)
    return [name, percent(statistics.mean(ratios)) if ratios else "", percent(ratios[-1]) if ratios else "", str(unusable),
            f"{proven} of {len(runs)}", f"{1e3 * statistics.median(each['seconds'] for each in runs):.1f} ms"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--solver", required=True, help="torchgpipe/balance/blockpartition.py")
    parser.add_argument("profiles", nargs="*", type=pathlib.Path, help="profile files of models")
    given = parser.parse_args()
    solve = solver(given.solver)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        ours = PipeScope(given.ours, pathlib.Path(folder))
        for name, count, make in seeded_models():
            source = random.Random(1)
            rows.append(row(name, [compare(solve, ours, profile_of(make(source)), 8, 32) for _ in range(count)]))
        for path in given.profiles:
            profile = json.loads(path.read_text())
            runs = [compare(solve, ours, profile, n, m) for n in (2, 4, 8) for m in (n, 4 * n, 32)
                    if n <= len(profile["layers"])]
            rows.append(row(f"{profile['model']}, 2 to 8 partitions", runs))
    head = ["costs", "torchgpipe's step is longer by, mean", "at most", "a part without a layer", "ours proved optimal",
            "torchgpipe's time"]
    print("| " + " | ".join(head) + " |\n| --- |" + " ---: |" * (len(head) - 1))
    for each in rows:
        print("| " + " | ".join(each) + " |")


if __name__ == "__main__":
    main()
