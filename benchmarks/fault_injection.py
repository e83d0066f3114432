#!/usr/bin/env python3
"""Do processes that train together end together? Breaks one of four at a random instant, again and again, and checks that all
others end in time, name the same cause, and leave no process and no open port behind.

    sudo benchmarks/fault_injection.py [--trainer build/release/bin/process_trainer] [--faults 20] [--kinds throw kill stop cut]

throw: a layer throws. kill: SIGKILL. stop: SIGSTOP. cut: the network cable of a process is pulled, in network namespaces, so
this one needs root; exit code 77 and a message where they cannot be made.
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from network import Network

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIZE = 4
SILENCE_S = 3
LIMIT_S = {"throw": 1, "kill": 1, "stop": SILENCE_S + 3, "cut": SILENCE_S + 3}
CAUSES = {
    "throw": r"rank {victim} \(host .*\), lane {victim}, step \d+ (forward|recompute) \(\d, {victim}\), layer sleepy {layer}: "
             r"the sleepy layer woke up",
    "kill": r"rank {victim} \(host .*\) ended without a word.*",
    "stop": r"rank {victim} \(host .*\) has not (been heard of|answered at .*) for 3 s.*",  # rank 0 answers, as the store's host
    "cut": r"rank {victim} \(host .*\) has not (been heard of|answered at .*) for 3 s.*",
}


class Group:
    """Four processes that train eight layers of 1 ms until one fails."""

    def __init__(self, trainer, network, thrower):
        self.files = [tempfile.TemporaryFile("w+") for _ in range(2 * SIZE)]
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        host = "10.77.0.1" if network else "127.0.0.1"
        environment = dict(os.environ, PIPESCOPE_TEST_SILENCE_MS=str(1000 * SILENCE_S))
        model = f"sleepy:8:1{thrower}|2,2,2,2||1f1b|except_last|4|8"
        self.processes = []
        for rank in range(SIZE):
            words = [trainer, str(rank), str(SIZE), f"{host}:{self.port}", "1000000", model]
            options = {"env": environment, "stdout": self.files[rank], "stderr": self.files[SIZE + rank]}
            self.processes.append(network.start(rank, words, **options) if network else subprocess.Popen(words, **options))

    def text(self, number):
        self.files[number].seek(0)
        return self.files[number].read()

    def wait_for_steps(self):
        while " step 3 " not in self.text(SIZE - 1):
            if any(process.poll() is not None for process in self.processes):
                sys.exit("a process ended before its fault: " + "".join(self.text(SIZE + rank) for rank in range(SIZE)))
            time.sleep(0.01)

    def ends(self, ranks, limit_s):
        """When each rank ended, until the limit."""
        ended = {}
        until = time.monotonic() + limit_s
        while len(ended) < len(ranks) and time.monotonic() < until:
            for rank in ranks:
                if rank not in ended and self.processes[rank].poll() is not None:
                    ended[rank] = time.monotonic()
            time.sleep(0.002)
        return ended

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for file in self.files:
            file.close()


def port_is_free(port):
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


def inject(kind, trainer, network, chance, limit_s):
    """How long the others took to end, in seconds, and what is wrong, if anything."""
    victim, layer = chance.randrange(SIZE), None
    thrower = ""
    if kind == "throw":
        layer = 2 * victim + chance.randrange(2)
        thrower = f":{layer}:{chance.randrange(20, 400)}"
    group = Group(trainer, network, thrower)
    try:
        if kind == "throw":
            waiting = list(range(SIZE))
        else:
            group.wait_for_steps()
            time.sleep(chance.uniform(0, 0.5))
            waiting = [rank for rank in range(SIZE) if rank != victim or kind == "cut"]
            first = time.monotonic()
            if kind == "cut":
                network.cut(victim)
            else:
                group.processes[victim].send_signal(signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        ended = group.ends(waiting, 60)
        if len(ended) < len(waiting):
            return None, f"ranks {sorted(set(waiting) - set(ended))} still run 60 s after the fault of rank {victim}"
        took = max(ended.values()) - (min(ended.values()) if kind == "throw" else first)
        # The rank that is cut off cannot hear the others, so it has a cause of its own.
        causes = {group.text(SIZE + rank) for rank in waiting if rank != victim}
        expected = "pipescope: " + CAUSES[kind].format(victim=victim, layer=layer) + "\n"
        if len(causes) != 1 or not re.fullmatch(expected, *causes):
            return took, f"rank {victim} failed, and the others say {causes}"
        if kind == "stop":
            group.processes[victim].send_signal(signal.SIGCONT)
            if not group.ends([victim], 10):
                return took, f"rank {victim} still runs 10 s after it was woken"
        if kind == "cut":
            network.mend(victim)
        elif not port_is_free(group.port):
            return took, f"port {group.port} is still open"
        return took, None if took <= limit_s else f"took {took:.1f} s"
    finally:
        group.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build/release/bin/process_trainer")
    parser.add_argument("--faults", type=int, default=20, help="of each kind")
    parser.add_argument("--kinds", nargs="+", default=list(CAUSES), choices=CAUSES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1, help="factor on the time limits, for a busy machine")
    flags = parser.parse_args()
    chance = random.Random(flags.seed)
    faulty = 0
    print("| fault | number | ended after: median | most | limit | wrong |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind in flags.kinds:
        limit_s = LIMIT_S[kind] * flags.tolerance
        times, wrong = [], []
        with Network(SIZE) if kind == "cut" else contextlib.nullcontext() as network:
            for _ in range(flags.faults):
                took, fault = inject(kind, flags.trainer, network, chance, limit_s)
                times += [took] if took is not None else []
                wrong += [fault] if fault else []
        shown = f"{sorted(times)[len(times) // 2]:.2f} s | {max(times):.2f} s" if times else " | "
        print(f"| {kind} | {flags.faults} | {shown} | {limit_s:g} s | {len(wrong)} |", flush=True)
        for each in wrong:
            print(each, file=sys.stderr)
        faulty += len(wrong)
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()
