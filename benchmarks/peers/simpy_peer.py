#!/usr/bin/env python3
"""GPipe's schedule of 8 partitions and 32 micro-batches (never checkpointed) in SimPy, beside simulator_benchmark.

Each lane is a process that takes its tasks in order, each copy an event with a delay of its own. Prints tasks per second
of SimPy and of PipeScope's event engine and recurrence on the same schedule, and on one with recompute and copies beside, and
their ratios. Called by simpy_peer.sh.
"""
import json
import subprocess
import sys
import time

import simpy

N, M = 8, 32
FORWARD, BACKWARD = 1.0, 2.0


def lane(env, j, done):
    def forward(i):
        if j > 0:
            yield done["f", i, j - 1]
        yield env.timeout(FORWARD)
        done["f", i, j].succeed()

    def backward(i):
        yield done["f", M - 1, N - 1] if j == N - 1 else done["b", i, j + 1]
        yield env.timeout(BACKWARD)
        done["b", i, j].succeed()

    for i in range(M):
        yield from forward(i)
    for i in reversed(range(M)):
        yield from backward(i)


def step():
    env = simpy.Environment()
    done = {(kind, i, j): env.event() for kind in "fb" for i in range(M) for j in range(N)}
    for j in range(N):
        env.process(lane(env, j, done))
    env.run()
    return env.now


def pipescope(benchmark):
    """Seconds of one schedule, by name of the benchmark."""
    out = subprocess.run(
        [benchmark, "--benchmark_filter=gpipe_recurrence|event_engine_without_copies|event_engine_with_sharing/8/32/1$", "--benchmark_format=json"],
        check=True, capture_output=True, text=True).stdout
    return {row["name"]: row["cpu_time"] * 1e-9 for row in json.loads(out)["benchmarks"]}


def main():
    assert step() == (M + N - 1) * (FORWARD + BACKWARD), "the closed form"
    tasks = 2 * N * M
    times = []
    for _ in range(30):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    seconds = sorted(times)[len(times) // 2]
    print(f"SimPy {simpy.__version__}: {seconds * 1e3:.2f} ms a schedule, {tasks / seconds / 1e6:.3f} M tasks/s")
    if len(sys.argv) > 1:
        for name, other in pipescope(sys.argv[1]).items():
            work = "the same tasks" if name.endswith("_without_copies") else "with recompute and copies"
            print(f"{name}: {other * 1e6:.2f} us a schedule ({work}), {seconds / other:.0f} times as quick")


if __name__ == "__main__":
    main()
