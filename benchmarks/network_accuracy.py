#!/usr/bin/env python3
"""How accurately is a pipeline over a slow network predicted? Runs one, with emulated layers, in network namespaces of this
machine, and compares its steps with `simulate --links`, whose table `profile --links` measures over the same network.

    sudo benchmarks/network_accuracy.py [--bin build/release/bin] [--processes 4] [--rate 100mbit]

Each process has a namespace. Its veth sends and receives at the given rate, shared fairly among the other processes as fq_codel
and switches do: a single queue gives a copy the bandwidth in proportion to its packets there. TCP keeps its window while a
connection is idle, and uses reno: bbr and a window that starts again at ten packets add 5 to 30 %, which `--links` cannot know.
Ends with exit code 77 and a message where namespaces cannot be made.
"""
import argparse
import collections
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile

from network import Network, command

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT_S = 300


def run(network, size, words):
    """Starts the command as each of `size` ranks; what rank 0 prints."""
    processes = []
    for rank in range(size):
        environment = dict(os.environ, PIPESCOPE_RANK=str(rank), PIPESCOPE_SIZE=str(size), PIPESCOPE_RENDEZVOUS="10.77.0.1:29500",
                           PIPESCOPE_PATIENCE="60")
        processes.append(network.start(rank, words, env=environment, stdout=subprocess.PIPE))
    try:
        text = processes[0].communicate(timeout=LIMIT_S)[0]
        for process in processes[1:]:
            process.communicate(timeout=30)
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"'{' '.join(map(str, words))}' failed in a process; see its message")
    return text


def profile(kibibytes):
    """Eight layers of 5 + 10 ms a sample, each with an output of that size, and 512 KiB of parameters."""
    layer = {"forward_ns": [5e6], "backward_ns": [1e7], "output_bytes": [kibibytes * 1024], "saved_bytes": [4096],
             "parameter_bytes": 512 * 1024}
    return {"format": "pipescope.profile", "version": 1, "samples": [1], "input_bytes": [4096],
            "layers": [{"name": f"layer {k}", **layer} for k in range(8)]}


def pipelines(processes):
    """Options by name; all have eight micro-batches of one sample."""
    lanes = ["--balance", ",".join([str(8 // processes)] * processes), "-m", "8", "--batch", "8"]
    chunks = ["--balance", ",".join(["1"] * 8), "-m", "8", "--batch", "8",
              "--placement", ",".join(str(k % processes) for k in range(8))]
    half = processes // 2
    replicas = ["--balance", ",".join([str(8 // half)] * half), "-m", "8", "--batch", "16", "--replicas", "2"]
    return {"gpipe": [*lanes, "--schedule", "gpipe"], "1f1b": [*lanes, "--schedule", "1f1b"],
            "interleaved": [*chunks, "--schedule", "interleaved"], "gpipe, 2 replicas": [*replicas, "--schedule", "gpipe"]}


def median_times(trace, first_step, kinds):
    """Medians over the steps, in ns, of each task of those kinds. A copy counts from the end of the task that made its tensors."""
    database = sqlite3.connect(trace)
    ends, spans = {}, collections.defaultdict(list)
    rows = database.execute("select step, kind, partition, coalesce(microBatch, -1), start, end from PIPESCOPE_TASK "
                            "where step >= ? order by id", (first_step,)).fetchall()
    for step, kind, partition, micro_batch, _, end in rows:
        ends[step, kind, partition, micro_batch] = end
    for step, kind, partition, micro_batch, start, end in rows:
        if kind not in kinds:
            continue
        source = {"copy_forward": ("forward", partition), "copy_backward": ("backward", partition + 1)}.get(kind)
        begin = start if source is None else ends[step, *source, micro_batch]
        spans[kind, partition, micro_batch].append(end - begin)
    database.close()
    return {task: statistics.median(each) for task, each in spans.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--processes", type=int, default=4, choices=(2, 4))
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512], help="of the outputs, in KiB")
    parser.add_argument("--pipelines", nargs="+", default=list(pipelines(4)), choices=list(pipelines(4)))
    flags = parser.parse_args()
    warmup = 2
    with tempfile.TemporaryDirectory() as name, Network(flags.processes, flags.rate) as network:
        folder = pathlib.Path(name)
        links = folder / "links.json"
        print(run(network, 2, [flags.bin / "pipescope-torch", "profile", "--links", "-o", links]))
        print("| output | pipeline | measured step | simulated | copies or all-reduce |\n| ---: | --- | ---: | ---: | ---: |")
        for size in flags.sizes:
            model = folder / f"p{size}.json"
            model.write_text(json.dumps(profile(size)))
            for number, pipeline in enumerate(flags.pipelines):
                words = [*pipelines(flags.processes)[pipeline], "--checkpoint", "never", "--json"]
                trace = folder / f"{size}-{number}"
                trained = json.loads(run(network, flags.processes, [
                    flags.bin / "pipescope-torch", "run", f"emulated:{model}", *words, "--steps", "8", "--warmup", str(warmup),
                    "--profile", model, "--trace", f"{trace}.sqlite"]))
                measured = statistics.median(step["step_ns"] for step in trained["steps"][warmup:])
                ranks = sorted(folder.glob(f"{trace.name}.rank*"))
                if "--replicas" in words:  # their traces are not merged; an all-reduce is the same in all
                    kinds, timeline = ("all_reduce",), ranks[0]
                else:
                    kinds, timeline = ("copy_forward", "copy_backward"), f"{trace}.merged"
                    command(flags.bin / "pipescope", "merge", *ranks, "-o", timeline)
                simulated = json.loads(subprocess.run(
                    [flags.bin / "pipescope", "simulate", model, *words, "--links", links, "--processes", str(flags.processes),
                     "--link-sharing", "host", "--trace", f"{trace}.simulated"],
                    check=True, capture_output=True, text=True, timeout=60).stdout)
                expected = median_times(f"{trace}.simulated", 0, kinds)
                times = median_times(timeline, warmup, kinds)
                transfers = sum(expected[task] for task in times) / sum(times.values())
                print(f"| {size} KiB | {pipeline} | {measured / 1e6:.1f} ms | {simulated['step_ns'] / measured - 1:+.1%} | "
                      f"{transfers - 1:+.1%} |", flush=True)


if __name__ == "__main__":
    main()
