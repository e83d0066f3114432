#!/usr/bin/env python3
"""Compares what `pipescope compare` finds in synthetic GPU runs with the truth: gpu_runs_test.py BIN [--seeds 1 2] [--all].

Without --all, a few runs that show each rule; with it, every schedule, root cause and way to record, and a table.
"""

import argparse
import collections
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

import gpu_runs

BUBBLE = 0.002  # gates: shares of a step
SHARES = 0.005
STEP = 0.03
NAMED = 0.95

# The causes that the reader has, by what the truth calls them.
CAUSES = {
    "partition": ("previous_partition", "next_partition", "slower_lane", "loss"),
    "copy": ("copy",),
    "launch": ("launch",),
    "collective": ("collective", "sums_gradients"),
    "optimizer": ("updates_parameters",),
    "loading": ("loading",),
    "finished": ("finished",),
    "other": ("contention", "computes_loss"),
}

ROOTS = {"ramp": "ramp", "imbalance": "imbalance", "slow_rank": "slow_lane", "launch_bound": "launch", "network": "network"}


def judge(variant, program, folder):
    """The errors of one run, or the refusal."""
    run = gpu_runs.simulate(variant)
    path = gpu_runs.write(run, folder)
    done = subprocess.run([program, "compare", path, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return {"refused": done.stderr.strip()}
    found = json.loads(done.stdout)
    truth = run.truth
    if found["measured_bubble_mean"] is None:
        return {"refused": "; ".join(found["warnings"])}
    shares = {each["cause"]: each["share"] for each in found["bubbles"]["measured"]["causes"]}
    errors = {name: sum(shares.get(cause, 0) for cause in causes) - truth["shares"][name] for name, causes in CAUSES.items()}
    roots = found["bubbles"]["measured"].get("roots") or {}
    lanes = [each["measured_bubble_fraction"] for each in found["lanes"]]
    return {
        "bubble": found["measured_bubble_mean"] - truth["bubble"],
        "lane": max(abs(a - b) for a, b in zip(lanes, truth["lanes"], strict=True)),
        "cause": max(errors.values(), key=abs),
        "causes": errors,
        "step": found["simulated_step_ns"] / truth["step_ns"] - 1,
        "root": roots.get("main"),
        "named": is_named(variant, roots, truth),
        "steps": found["steps"],
        "roots": roots,
        "truth": truth,
    }


def is_named(variant, roots, truth):
    """True if the main root cause is one that was put in, with its lane. Without one, or if those that were put in do
    not make the step longer, it is the ramp, or what other work on the device costs."""
    put_in = {ROOTS[truth["root"]], ROOTS[truth["second"]], "network" if variant.slow_link else "ramp"} - {"ramp"}
    main = roots.get("main")
    if main in put_in:
        return roots.get("lane") == (truth["rank"] if main == "slow_lane" else None)
    plain = dataclasses.replace(variant, root="ramp", second="ramp", slow_link=0)
    costs_nothing = not put_in or gpu_runs.simulate(plain).truth["step_ns"] >= (1 - STEP) * truth["step_ns"]
    others = ("ramp", "other", "collective") if variant.tensor or variant.reduces else ("ramp", "other")
    return main in others and costs_nothing


def few():
    """Runs that show each rule."""
    V = gpu_runs.Variant
    return [
        V(),
        V(schedule="gpipe", program="nsys"),
        V(schedule="gpipe", annotations="none", inside=True, root="network"),
        V(schedule="interleaved", annotations="none", root="launch_bound"),
        V(schedule="zero_bubble", annotations="some", root="slow_rank"),
        V(program="nsys", graphs=True, root="network"),
        V(annotations="none", lost=True, root="imbalance"),
        V(schedule="interleaved", skew=2_000_000, annotations="none", root="network"),
        V(schedule="zero_bubble_v", ranks=3, micro_batches=6, annotations="none", weights_apart=True),
        V(schedule="looped_bfs", ranks=3, micro_batches=5, annotations="none", forwards_only=True),
        V(ranks=5, program="nsys", files=True, early=20_000, graphs=True, nodes=True),
        V(annotations="none", lost_calls=True, reduces=True, unnamed_steps=True),
        V(annotations="none", tensor=True, loading=150_000, bare_optimizer=True, threads=3, batched=True),
        V(annotations="none", skew=300_000, drift=20_000, root="slow_rank", second="network", part=True),
        V(schedule="zero_bubble_v", micro_batches=9, annotations="none", root="slow_rank", second="launch_bound", part=True),
        V(ranks=8, program="nsys", root="launch_bound"),
        V(schedule="interleaved_zero_bubble", ranks=4, micro_batches=9, annotations="none", root="launch_bound"),
        V(annotations="none", waits="messages", root="network"),
        V(program="nsys", waits="loss", root="imbalance"),
        V(schedule="interleaved", chunks=4, annotations="none"),
        V(schedule="interleaved", program="nsys", counted=True),
        V(schedule="zero_bubble_v", micro_batches=9, program="nsys", counted=True, root="slow_rank"),
        V(annotations="none", lost_pairs=True),
        V(program="nsys", root="launch_bound", waits="messages"),
        V(schedule="gpipe", root="network", annotations="none", one_stream=True),
        V(schedule="interleaved", program="nsys", slow_link=30),
    ]


def withheld():
    """Runs whose numbers cannot be known, and words of the reason."""
    V = gpu_runs.Variant
    def without_rank_1(folder):
        os.remove(os.path.join(folder, "rank1.pt.trace.json"))
    return [
        (V(annotations="none", graphs=True, joint=True), None, "only launch work"),
        (V(annotations="none"), without_rank_1, "rank 1"),
        (V(program="nsys", graphs=True, joint=True), None, "only launch work"),
    ]


def is_withheld(variant, damage, reason, program, folder):
    path = gpu_runs.write(gpu_runs.simulate(variant), folder)
    if damage:
        damage(path)
    done = subprocess.run([program, "compare", path, "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout) if done.returncode == 0 else None
    said = done.stderr + " ".join(found["warnings"] if found else [])
    if (found and found["measured_bubble_mean"] is not None) or reason not in said:
        print(variant.name(), "is not withheld:", said)
        return False
    return True


def table(results):
    """Largest errors by way to record, schedule and root cause."""
    recorded = lambda v: (f"{v.program} {v.annotations if v.program == 'kineto' else ''}{' graphs' * v.graphs}"
                          f"{' lost' * v.lost}{f' skew {v.skew // 1000} us' * bool(v.skew)}"
                          f"{' messages inside' * v.inside} {' '.join(v.more_names())}").strip()
    roots = lambda v: v.root if v.second == "ramp" else f"{v.root}, {v.second}"
    for title, key in (("recorded", recorded), ("schedule", lambda v: v.schedule), ("root", roots), ("all", lambda v: "all")):
        groups = collections.defaultdict(list)
        for variant, result in results:
            groups[key(variant)].append(result)
        print(f"| {title} | runs | refused | bubble, points | a lane's | causes | step | root named |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for name, group in groups.items():
            judged = [each for each in group if "refused" not in each]
            def worst(what, unit=100):
                return f"{max((abs(each[what]) * unit for each in judged), default=float('nan')):.2f}"
            def within(what, limit):
                return f"({sum(abs(each[what]) <= limit for each in judged)})"
            named = sum(each["named"] for each in judged)
            print(f"| {name} | {len(group)} | {len(group) - len(judged)} | {worst('bubble')} {within('bubble', BUBBLE)} | "
                  f"{worst('lane')} | {worst('cause')} {within('cause', SHARES)} | {worst('step')} % {within('step', STEP)} | "
                  f"{100 * named / max(1, len(judged)):.0f} % |")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--more", action="store_true", help="as --all, for other schedules, sizes, programs and faults")
    parser.add_argument("--show", action="store_true", help="print each run that misses a gate")
    parser.add_argument("--sample", type=int, default=1, help="only each n-th run")
    arguments = parser.parse_args()
    program = os.path.join(arguments.bin, "pipescope")
    results = []
    missed = []
    chosen = gpu_runs.variants(arguments.seeds) if arguments.all else \
        gpu_runs.more_variants(arguments.seeds) if arguments.more else few()
    for variant in list(chosen)[::arguments.sample]:
        with tempfile.TemporaryDirectory() as folder:
            result = judge(variant, program, folder)
        results.append((variant, result))
        fits = "refused" not in result and abs(result["bubble"]) <= BUBBLE and result["lane"] <= 2 * BUBBLE \
            and abs(result["cause"]) <= SHARES and abs(result["step"]) <= STEP and result["named"]
        if not fits:
            missed.append(variant)
            if arguments.show or not (arguments.all or arguments.more):
                print(variant.name(), {k: v for k, v in result.items() if k != "truth"}, result.get("truth"))
    for case in withheld() if not (arguments.all or arguments.more) else []:
        with tempfile.TemporaryDirectory() as folder:
            if not is_withheld(*case, program, folder):
                missed.append(case)
    if arguments.all or arguments.more:
        table(results)
        named = sum(each.get("named", False) for _, each in results) / len(results)
        return 0 if named >= NAMED and not any("refused" in each for _, each in results) else 1
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
