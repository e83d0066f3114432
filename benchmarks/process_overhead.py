#!/usr/bin/env python3
"""What do several processes on one host cost? Trains an emulated pipeline of 8 partitions and 32 micro-batches in one process and
in several, in turns, and prints the medians of the steps. Layers sleep, so no process lacks a core.

    benchmarks/process_overhead.py [--bin build/release/bin] [--processes 2 4] [--rounds 3]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT_S = 300
LANES, MICRO_BATCHES = 8, 32


def profile(forward_ms):
    """One layer for each lane, whose backward takes twice as long, with 64 KiB of output."""
    layer = {"forward_ns": [forward_ms * 1e6], "backward_ns": [2 * forward_ms * 1e6], "output_bytes": [65536],
             "saved_bytes": [4096], "parameter_bytes": 4096}
    return {"format": "pipescope.profile", "version": 1, "samples": [1], "input_bytes": [4096],
            "layers": [{"name": f"layer {k}", **layer} for k in range(LANES)]}


def step_ns(binaries, model, schedule, processes):
    launch = [binaries / "pipescope", *(["launch", "-n", str(processes), "--"] if processes > 1 else [])]
    run = ["run", f"emulated:{model}", "--balance", ",".join(["1"] * LANES), "-m", str(MICRO_BATCHES), "--batch",
           str(MICRO_BATCHES), "--checkpoint", "never", "--schedule", schedule, "--steps", "8", "--warmup", "2", "--json"]
    text = subprocess.run([*launch, *run], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout
    return statistics.median(step["step_ns"] for step in json.loads(text)["steps"][2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--forward-ms", type=float, nargs="+", default=[2.5, 5, 10], help="of a layer")
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    counts = [1, *flags.processes]
    print(f"| layer | schedule | one process | {' | '.join(f'{n} processes' for n in flags.processes)} |")
    print(f"| --- | --- | ---: |{' ---: |' * len(flags.processes)}")
    with tempfile.TemporaryDirectory() as name:
        for forward_ms in flags.forward_ms:
            model = pathlib.Path(name) / f"{forward_ms}.json"
            model.write_text(json.dumps(profile(forward_ms)))
            for schedule in ("gpipe", "1f1b"):
                rounds = [[step_ns(flags.bin, model, schedule, n) for n in counts] for _ in range(flags.rounds)]
                one, *others = (statistics.median(times) for times in zip(*rounds))
                ratios = " | ".join(f"{other / one - 1:+.1%}" for other in others)
                print(f"| {forward_ms:g} + {2 * forward_ms:g} ms | {schedule} | {one / 1e6:.0f} ms | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
