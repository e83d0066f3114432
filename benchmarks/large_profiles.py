#!/usr/bin/env python3
"""Writes large files as PyTorch's profiler does, to measure how long PipeScope takes to read them.

    benchmarks/large_profiles.py big --kernels 500000             # one rank, 2.5 million events
    benchmarks/large_profiles.py many --ranks 256 --kernels 27000 # 256 files of 20 MB: 8 stages, 32 replicas
    /usr/bin/time -v pipescope compare big --json > big.txt

A file holds a rank's part of 1F1B. Each kernel has an operator, a launching call and an arrow, which makes five events.
Replicas have equal events, so writing takes a second for each file. Nothing is random: equal arguments give equal files.
"""

import argparse
import json
import os

US = 1000
STAGES = 8
BINDS = ', "bp": "e"'
START = 1_712_000_000_000_000_000  # wall clock of the run, ns


def order(stage, stages, micro_batches):
    """1F1B: (kind, micro-batch) in the order of the stage."""
    ahead = min(micro_batches, stages - stage - 1)
    tasks = [("F", i) for i in range(ahead)]
    for i in range(micro_batches):
        tasks += [("F", ahead + i)] if ahead + i < micro_batches else []
        tasks.append(("B", i))
    return tasks


def times(stages, micro_batches, forward):
    """(stage, kind, micro-batch): start of each task of a step, ns. A backward takes two forwards, a message 20 us."""
    message = 20 * US
    start = {}
    queues = [order(stage, stages, micro_batches) for stage in range(stages)]
    free = [0] * stages
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue:
                kind, i = queue[0]
                before = stage - 1 if kind == "F" else stage + 1
                ready = 0
                if 0 <= before < stages:
                    if (before, kind, i) not in start:
                        break
                    ready = start[before, kind, i] + forward * (1 if kind == "F" else 2) + message
                start[stage, kind, i] = max(free[stage], ready)
                free[stage] = start[stage, kind, i] + forward * (1 if kind == "F" else 2)
                queue.pop(0)
    return start, max(free)


def events_of(stage, stages, steps, micro_batches, kernels):
    """The events of one stage as lines of JSON."""
    pid = 4000 + stage
    of_task = max(1, kernels // (steps * micro_batches * 2))
    each = 12 * US  # of a kernel of a forward, with the time until the next one
    forward = of_task * each
    start, whole = times(stages, micro_batches, forward)
    lines = [f'{{"ph": "M", "name": "process_name", "pid": {pid}, "tid": 0, "ts": 0, "args": {{"name": "python3"}}}}',
             '{"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}}']
    number = 0

    def add(category, name, process, thread, begin, length, arguments=""):
        lines.append(f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {process}, "tid": {thread}, '
                     f'"ts": {begin / 1000:.3f}, "dur": {length / 1000:.3f}, "args": {{{arguments}}}}}')

    def launch(name, stream, call, begin, length, thread=0, operator=None, facts=""):
        nonlocal number
        number += 1
        if operator:
            add("cpu_op", operator, pid, pid + thread, call - 400, 2_400, f'"External id": {number}')
        add("cuda_runtime", "cudaLaunchKernel", pid, pid + thread, call, 1_500, f'"correlation": {number}')
        add("kernel", name, 0, stream, begin, length, f'"device": 0, "stream": {stream}, "correlation": {number}, '
            f'"grid": [128, 1, 1], "block": [256, 1, 1], "registers per thread": 64{facts}')
        for end, process, own, at in (("s", pid, pid + thread, call), ("f", 0, stream, begin)):
            lines.append(f'{{"ph": "{end}", "id": {number}, "pid": {process}, "tid": {own}, "ts": {at / 1000:.3f}, '
                         f'"cat": "ac2g", "name": "ac2g"{BINDS if end == "f" else ""}}}')

    def message(sends, kind, i, call, begin, end):
        other = stage + (1 if sends == (kind == "F") else -1)
        verb = "send" if sends else "recv"
        add("user_annotation", f"PP:{stage}{verb.upper()}_{kind}{i}", pid, pid, call - 2 * US, 6 * US)
        add("user_annotation", f"nccl:{verb} {stage}{'->' if sends else '<-'}{other}", pid, pid, call - US, 4 * US)
        launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 20 + 2 * other + sends, call, begin, end - begin)

    for step in range(steps):
        base = 1_000 * US + step * (whole + 2_000 * US)
        add("user_annotation", f"ProfilerStep#{step + 3}", pid, pid, base - 200 * US, whole + 1_900 * US)
        host = base - 100 * US
        for kind, i in order(stage, stages, micro_batches):
            begin = base + start[stage, kind, i]
            length = forward * (1 if kind == "F" else 2)
            before, after = (stage - 1, stage + 1) if kind == "F" else (stage + 1, stage - 1)
            if 0 <= before < stages:
                sent = base + start[before, kind, i] + length
                message(False, kind, i, host + 3 * US, host + 8 * US, max(sent, host + 8 * US) + 18 * US)
                host += 10 * US
            add("user_annotation", f"PP:{stage}{kind}{i}", pid, pid, host, of_task * 3 * US + 5 * US)
            for k in range(of_task):
                at = begin + k * length // of_task
                launch(f"gemm_{kind}_{k % 40}", 7, min(host + 2 * US + k * 3 * US, at - 4 * US), at,
                       (length // of_task if k == of_task - 1 else length // of_task - US), int(kind == "B"),
                       f"aten::mm_{k % 40}")
            host += of_task * 3 * US + 8 * US
            if 0 <= after < stages:
                end = begin + length
                message(True, kind, i, min(host + 3 * US, end - 4 * US), end, end + 18 * US)
                host += 10 * US
            host = max(host, begin - 2_000 * US)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=1, help="1, or a multiple of 8")
    parser.add_argument("--kernels", type=int, default=500_000, help="of each rank")
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    stages = 1 if arguments.ranks == 1 else STAGES
    if arguments.ranks % stages:
        parser.error("--ranks is 1 or a multiple of 8")
    os.makedirs(arguments.folder, exist_ok=True)
    replicas = arguments.ranks // stages
    for stage in range(stages):
        events = ",\n".join(events_of(stage, stages, arguments.steps, 2 * STAGES, arguments.kernels))
        for replica in range(replicas):
            rank = stage * replicas + replica
            pipeline = [each * replicas + replica for each in range(stages)]
            run = {"backend": "nccl", "rank": rank, "world_size": arguments.ranks,
                   "pg_config": [{"pg_name": "1", "pg_desc": "mesh_pp", "ranks": pipeline}]}
            with open(os.path.join(arguments.folder, f"rank{rank}.pt.trace.json"), "w") as out:
                out.write(f'{{"schemaVersion": 1, "distributedInfo": {json.dumps(run)},\n"traceEvents": [\n{events}\n],\n'
                          f'"baseTimeNanoseconds": {START}}}\n')


if __name__ == "__main__":
    main()
