"""Runs the peers in turn, round after round, and prints medians and the ratios within a round. Called by ./compare."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(command, pinned=False):
    command = (["taskset", "-c", "0"] if pinned else []) + [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"peers: {' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def torchgpipe(*case):
    return [sys.executable, HERE / "torchgpipe_peer.py", *case]


def pipelining(*case):
    return [sys.executable, HERE / "pipelining_peer.py", *case]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def overhead(ours, rounds):
    rows = []
    for mode in ("never", "always"):
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append(run([ours, "overhead", mode], pinned=True))
            theirs.append(run(torchgpipe("overhead", mode), pinned=True))
        median = lambda runs, key: statistics.median(each[key] for each in runs) / 1000
        ours_us, theirs_us = median(mine, "overhead_ns"), median(theirs, "overhead_ns")
        # Ours may vanish in the noise, even below zero; then a ratio says only that it is large.
        ratio = f"{theirs_us / ours_us:.0f}×" if ours_us > theirs_us / 100 else "over 100×"
        rows.append([mode, f"{ours_us:.1f} µs", f"{theirs_us:.0f} µs", ratio, f"{median(mine, 'plain_ns'):.1f} µs",
                     f"{median(theirs, 'plain_ns'):.1f} µs"])
    print("Host overhead for each (partition, micro-batch), 8 × 32, Linear(8, 8), one sample each, pinned to one core; "
          "mode always includes the recompute:\n")
    table(["checkpoint", "PipeScope", "torchgpipe", "ratio", "plain, C++", "plain, Python"], rows)


def throughput(ours, rounds):
    runs = {"ours": [], "torchgpipe": [], "pipelining": []}
    for _ in range(rounds):
        runs["ours"].append(run([ours, "throughput"]))
        runs["torchgpipe"].append(run(torchgpipe("throughput")))
        runs["pipelining"].append(run(pipelining("throughput")))
    of = lambda name, key: statistics.median(each[key] for each in runs[name])
    rows = [["PipeScope, two lanes", of("ours", "pipeline_samples_per_second"), of("ours", "pipeline_over_plain")],
            ["torchgpipe, two lanes", of("torchgpipe", "pipeline_samples_per_second"),
             of("torchgpipe", "pipeline_over_plain")],
            ["torch.distributed.pipelining, two processes", of("pipelining", "pipeline_samples_per_second"),
             of("pipelining", "pipeline_over_plain")],
            ["plain model, C++, two intra-op threads", of("ours", "two_threads_samples_per_second"),
             of("ours", "two_threads_samples_per_second") / of("ours", "plain_samples_per_second")],
            ["plain model, C++, one thread", of("ours", "plain_samples_per_second"), 1.0],
            ["plain model, Python, one thread", of("torchgpipe", "plain_samples_per_second"), 1.0]]
    print("Training throughput, 8 × (Linear(512, 512), ReLU), 2048 samples, 8 micro-batches, checkpoint never:\n")
    table(["", "samples/s", "against its own plain model"], [[name, f"{rate:.0f}", f"{gain:.2f}×"]
                                                             for name, rate, gain in rows])
    print(f"Two independent copies scale {of('ours', 'two_copies_scaling'):.2f}×; the two lanes attain "
          f"{of('ours', 'attained'):.2f} of s · m/(m + n − 1).\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    overhead(given.ours, given.rounds)
    throughput(given.ours, given.rounds)
