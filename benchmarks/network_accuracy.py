#!/usr/bin/env python3
"""How accurately is a pipeline over a slow network predicted? Runs one, with emulated layers, in network namespaces of this
machine, and compares its steps with `simulate --links`, whose table `profile --links` measures over the same network.

    sudo benchmarks/network_accuracy.py [--bin build/release/bin] [--processes 4] [--rate 100mbit]

Each process has a namespace whose veth sends and receives through a token bucket. Ends with exit code 77 and a message where
namespaces cannot be made.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = 77
LIMIT_S = 300


def command(*words):
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=30)


class Network:
    """Namespaces on one bridge; namespace k has the address 10.77.0.(k + 1)."""

    def __init__(self, size, rate):
        self.tag = f"ps{os.getpid() % 10000}"
        self.size = size
        self.rate = rate

    def name(self, rank):
        return f"{self.tag}n{rank}"

    def __enter__(self):
        try:
            command("ip", "link", "add", f"{self.tag}b", "type", "bridge")
            command("ip", "link", "set", f"{self.tag}b", "up")
            for rank in range(self.size):
                name, outside, inside = self.name(rank), f"{self.tag}v{rank}", "eth0"
                command("ip", "netns", "add", name)
                command("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
                command("ip", "link", "set", outside, "master", f"{self.tag}b", "up")
                command("ip", "-n", name, "addr", "add", f"10.77.0.{rank + 1}/24", "dev", inside)
                command("ip", "-n", name, "link", "set", inside, "up")
                command("ip", "-n", name, "link", "set", "lo", "up")
                bucket = ["root", "tbf", "rate", self.rate, "burst", "5kb", "latency", "400ms"]
                command("tc", "-n", name, "qdisc", "add", "dev", inside, *bucket)
                command("tc", "qdisc", "add", "dev", outside, *bucket)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            print(f"skipped: network namespaces cannot be made here ({getattr(error, 'stderr', None) or error})".strip())
            sys.exit(SKIPPED)
        return self

    def __exit__(self, *_):
        for rank in range(self.size):
            subprocess.run(["ip", "netns", "del", self.name(rank)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", f"{self.tag}b"], capture_output=True, check=False)

    def run(self, size, words):
        """Starts the command as each of `size` ranks; what rank 0 prints."""
        processes = []
        for rank in range(size):
            environment = dict(os.environ, PIPESCOPE_RANK=str(rank), PIPESCOPE_SIZE=str(size),
                               PIPESCOPE_RENDEZVOUS="10.77.0.1:29500", PIPESCOPE_PATIENCE="60")
            processes.append(subprocess.Popen(["ip", "netns", "exec", self.name(rank), *map(str, words)], env=environment,
                                              stdout=subprocess.PIPE, text=True))
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
    """Eight layers of 5 + 10 ms a sample, each with an output of that size."""
    layer = {"forward_ns": [5e6], "backward_ns": [1e7], "output_bytes": [kibibytes * 1024], "saved_bytes": [4096],
             "parameter_bytes": 4096}
    return {"format": "pipescope.profile", "version": 1, "samples": [1], "input_bytes": [4096],
            "layers": [{"name": f"layer {k}", **layer} for k in range(8)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--processes", type=int, default=4, choices=(2, 4))
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512], help="of the outputs, in KiB")
    flags = parser.parse_args()
    lanes = flags.processes
    pipeline = ["--balance", ",".join([str(8 // lanes)] * lanes), "-m", "8", "--batch", "8", "--checkpoint", "never"]
    with tempfile.TemporaryDirectory() as name, Network(lanes, flags.rate) as network:
        folder = pathlib.Path(name)
        links = folder / "links.json"
        print(network.run(2, [flags.bin / "pipescope-torch", "profile", "--links", "-o", links]))
        print(f"| output | schedule | measured | {' | '.join(('none', 'sender', 'host'))} |\n| ---: | --- | ---: | ---: | ---: | ---: |")
        for size in flags.sizes:
            model = folder / f"p{size}.json"
            model.write_text(json.dumps(profile(size)))
            for schedule in ("gpipe", "1f1b"):
                words = [*pipeline, "--schedule", schedule, "--json"]
                run = json.loads(network.run(lanes, [flags.bin / "pipescope-torch", "run", f"emulated:{model}", *words,
                                                     "--steps", "6", "--warmup", "2"]))
                measured = statistics.mean(step["step_ns"] for step in run["steps"][2:])
                errors = []
                for sharing in ("none", "sender", "host"):
                    simulated = subprocess.run(
                        [flags.bin / "pipescope", "simulate", model, *words, "--links", links, "--processes", str(lanes),
                         "--link-sharing", sharing], check=True, capture_output=True, text=True, timeout=60).stdout
                    errors.append(f"{json.loads(simulated)['step_ns'] / measured - 1:+.1%}")
                print(f"| {size} KiB | {schedule} | {measured / 1e6:.1f} ms | {' | '.join(errors)} |", flush=True)


if __name__ == "__main__":
    main()
