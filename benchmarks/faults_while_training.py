#!/usr/bin/env python3
"""Does a training of several processes end with the same parameters, however often something breaks? `pipescope launch --restarts`
trains and saves, a fault comes every minute, and in the end every tensor of the last save is compared, bit for bit, with a
training of as many steps in one process that nothing disturbed.

    nice -n 10 benchmarks/faults_while_training.py --minutes 60 --every 60 [--bin build/release/bin] [--folder DIR]

kill: SIGKILL to a process of the training. stop: SIGSTOP to a process, for good. pause: SIGSTOP, then SIGCONT a second later; the
training goes on. connection: a connection of a process, or with network all of them, are shut down; of some connections nobody reads any more.
launcher: SIGKILL to the launcher, which is then started again. The instants are random, so faults also hit saves, starts and
meetings. Breaking connections needs Linux 5.6.
"""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIZE = 4
SILENCE_S = 10
TRAINING = ["mlp:layers=8,width=16", "--balance", "2,2,2,2", "-m", "4", "--batch", "8", "--seed", "3", "--optimizer", "adam"]
KINDS = ["kill", "stop", "pause", "connection", "network", "launcher"]
PIDFD_GETFD = 438  # the number of the system call, equal on all machines


def newest_step(saves):
    """The steps of the newest whole save; 0 without one."""
    return max((int(path.name[5:]) for path in saves.glob("step-*") if path.name[5:].isdigit()), default=0)


def tensors_of(save):
    """The tensors of model and optimizer by name. The random state belongs to a process, so its number depends on theirs."""
    found = {}
    for path in save.glob("*.safetensors"):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for name, tensor in json.loads(data[8:8 + length]).items():
            if name != "__metadata__" and not name.startswith("random_state_"):
                begin, end = tensor["data_offsets"]
                found[name] = (tensor["dtype"], tensor["shape"], data[8 + length + begin:8 + length + end])
    return found


class Training:
    """A launcher with its processes."""

    def __init__(self, bins, folder):
        self.bins, self.saves, self.log = bins, folder / "saves", folder / "launch.txt"
        self.starts = 0
        self.start()

    def start(self):
        self.starts += 1
        with self.log.open("a") as log:
            self.launcher = subprocess.Popen(
                [self.bins / "pipescope", "launch", "-n", str(SIZE), "--restarts", "100000", "--silence", str(SILENCE_S), "--patience",
                 "60", "--", "run", *TRAINING, "--steps", "1000000000", "--save", self.saves, "--save-every", "50", "--resume"],
                stdout=log, stderr=log)

    def note(self, text):
        with self.log.open("a") as log:
            log.write(f"--- {text}\n")

    def ranks(self):
        """The processes of the training by rank; some are missing while they start."""
        found = {}
        for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(status.read_text().rpartition(")")[2].split()[1])
                if parent != self.launcher.pid:
                    continue
                rank = re.search(rb"PIPESCOPE_RANK=(\d+)", status.with_name("environ").read_bytes())
            except OSError:
                continue
            if rank:
                found[int(rank[1])] = int(status.parent.name)
        return found


def break_connections(process, chance, most):
    """Shuts down `most` of the process's connections, as a router that loses them would. How many there were."""
    handle = os.pidfd_open(process)
    try:
        numbers = [int(path.name) for path in pathlib.Path(f"/proc/{process}/fd").iterdir()
                   if os.readlink(path).startswith("socket:")]
        chance.shuffle(numbers)
        broken = 0
        for number in numbers:
            if broken == most:
                break
            copy = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, handle, number, 0)
            if copy < 0:  # it was closed meanwhile
                continue
            with socket.socket(fileno=copy) as one:
                if one.type == socket.SOCK_STREAM and one.family in (socket.AF_INET, socket.AF_INET6):
                    try:
                        one.getpeername()
                        one.shutdown(socket.SHUT_RDWR)
                        broken += 1
                    except OSError:  # it listens, or has ended
                        continue
        return broken
    finally:
        os.close(handle)


def end_of(processes, limit_s):
    """The processes that still run after the limit."""
    until = time.monotonic() + limit_s
    while (left := [each for each in processes if pathlib.Path(f"/proc/{each}").exists()]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def inject(kind, training, chance):
    """What is wrong, or None."""
    ranks = training.ranks()
    if kind == "launcher":
        training.launcher.kill()
        training.launcher.wait()
        left = end_of(ranks.values(), 60)
        training.start()
        return f"processes {left} run 60 s after their launcher was killed" if left else None
    if not ranks:
        return "no process runs"
    victim = chance.choice(sorted(ranks.values()))
    try:
        if kind in ("connection", "network"):
            broken = break_connections(victim, chance, 1 if kind == "connection" else 1000)
            training.note(f"broke {broken} connections")
        else:
            os.kill(victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        if kind == "pause":
            time.sleep(1)
            os.kill(victim, signal.SIGCONT)
    except (ProcessLookupError, FileNotFoundError, PermissionError):
        pass  # it ended by itself: an earlier fault still ends the others
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--folder", type=pathlib.Path, help="for saves and output; an empty one; default: a temporary one")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--every", type=float, default=60, help="seconds from fault to fault")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    folder = flags.folder or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(flags.seed)
    training = Training(flags.bin, folder)
    counts, wrong, idle = collections.Counter(), [], 0
    began = time.monotonic()
    try:
        before = -1
        at, number = began, 0
        while at + flags.every < began + 60 * flags.minutes:
            at += flags.every
            time.sleep(max(0, at + chance.uniform(-0.2, 0) * flags.every - time.monotonic()))
            kind = flags.kinds[number % len(flags.kinds)]
            number += 1
            steps = newest_step(training.saves)
            idle += steps == before
            before = steps
            if training.launcher.poll() is not None:
                wrong.append(f"before fault {number} the launcher ended with {training.launcher.returncode}")
                training.start()
            training.note(f"fault {number} after {time.monotonic() - began:.0f} s: {kind}; {steps} steps are saved")
            fault = inject(kind, training, chance)
            counts[kind] += 1
            if fault:
                wrong.append(f"fault {number}, {kind}: {fault}")
        time.sleep(max(0, began + 60 * flags.minutes - time.monotonic()))
        processes = list(training.ranks().values())
        training.launcher.terminate()
        training.launcher.wait(120)
        if left := end_of(processes, 5):
            wrong.append(f"processes {left} still run in the end")
    finally:
        training.launcher.kill()
    steps = newest_step(training.saves)
    took = time.monotonic() - began
    subprocess.run([flags.bin / "pipescope", "run", *TRAINING, "--steps", str(steps), "--save", folder / "undisturbed"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = tensors_of(training.saves / f"step-{steps:06}")
    expected = tensors_of(folder / "undisturbed" / f"step-{steps:06}")
    different = sorted(name for name in expected.keys() | ended.keys() if ended.get(name) != expected.get(name))
    if different or not expected:
        wrong.append(f"{len(different)} of {len(expected)} tensors differ: {different}")
    # Otherwise the comparison would also pass for a training that lost or repeated steps.
    for earlier in training.saves.glob("step-*"):
        if earlier.name != f"step-{steps:06}" and tensors_of(earlier) == ended:
            wrong.append(f"{earlier.name} has the same tensors as the last step, so they say nothing")
    restarts = training.log.read_text().count("starting again")
    print(f"{took / 60:.0f} minutes, {sum(counts.values())} faults: " + ", ".join(f"{count} {kind}" for kind, count in counts.items())
          + f"; {restarts} restarts, {training.starts} launchers; {idle} times no step was saved between two faults; "
          f"{steps} steps; {len(expected)} tensors, {len(different)} of them different; {len(wrong)} wrong")
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
