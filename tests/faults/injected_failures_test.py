#!/usr/bin/env python3
"""Each command fails well, whichever call of the system fails.

    injected_failures_test.py BIN LIBRARY [--part files|sockets] [--all] [--only WORD]

BIN holds the built programs, LIBRARY is failing_calls.so. Commands run in folders with the inputs of the golden texts. Each kind
of call fails once, at its first, second.. call, then also always from there on. --all tries every call instead of a spread of
them; --only takes the commands or kinds with a word in their names.

What must hold: the command ends in time; an error says something, and leaves the files as they were, or, if it comes after the
last rename, as they are without a failure; a success leaves the same files and text as without a failure. Only memory that runs
out may end the process without our error: nlohmann-json's destructors allocate, and a destructor cannot throw.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

INPUTS = pathlib.Path(__file__).resolve().parents[1] / "cli/golden/inputs"
KINDS = ["read", "write", "sync", "rename", "remove", "lock", "open", "map", "thread", "new", "sqlite"]
SOCKET_KINDS = ["socket", "connect", "accept", "send", "receive", "poll"]
LIMIT_S = 60

MODEL = "gpt:layers=4,hidden=256,heads=4,sequence=64,vocabulary=512"
# What a command needs is made first, without failures. Names of files that a command writes.
PREPARE = ["simulate p.json --balance 2,2 -m 4 --batch 4 --trace t.sqlite",
           "simulate p.json --balance 1,3 -m 4 --batch 4 --trace other.sqlite",
           "schedule 1f1b -n 2 -m 4 -o old.csv", "export t.sqlite --format chrome -o old.json"]
COMMANDS = {
    "simulate": "simulate p.json --balance 2,2 -m 4 --batch 4 --trace new.sqlite",
    "simulate over an old file": "simulate p.json --balance 1,3 -m 4 --batch 4 --trace t.sqlite --force",
    "simulate on a cluster": f"simulate {MODEL} --cluster c.json --batch 8 -n 2 --data-parallel 2 --json",
    "balance": "balance p.json -n 2 -m 4 --batch 4 --json",
    "plan": "plan p.json -n 2 -m 2,4 --batch 4 --schedule 1f1b,auto --schedule-output best.csv",
    "schedule": "schedule zero-bubble-v -n 2 -m 4 -o new.csv",
    "schedule over an old file": "schedule gpipe -n 2 -m 4 -o old.csv --force",
    "export": "export t.sqlite --format chrome -o new.json",
    "export over an old file": "export t.sqlite --format csv -o old.json --force",
    "import": "import traces -o run.sqlite",
    "import over an old file": "import traces -o t.sqlite --force",
    "compare two runs": "compare t.sqlite other.sqlite --json",
    "advise": "advise p.json --balance 2,2 -m 4 --batch 4",
    "profile of a trace": "profile --from-trace traces -o new.profile.json",
    "recover": "recover t.sqlite",
    "doctor": "doctor --json",
}


# A training that was saved goes on where a failure broke it off, and ends as if there had been none.
TRAIN = "run mlp:layers=4,width=16 --balance 2,2 -m 2 --batch 4 --seed 3 --save saves --save-every 1 --steps "
RANKS = 2
LAUNCH = f"launch -n {RANKS} --silence 3 --patience 10 -- "


def state_of(folder):
    """The bytes of every file below a folder. SQLite's shared index says nothing about a trace, and its empty log is none."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: data for name, data in files.items()
            if not name.endswith("-shm") and not (name.endswith("-wal") and not data)}


class Session:
    """A folder in which one command runs with one failure."""

    def __init__(self, bins, library):
        self.bins, self.library = os.path.abspath(bins), os.path.abspath(library)
        self.prepared = pathlib.Path(tempfile.mkdtemp())
        shutil.copytree(INPUTS, self.prepared, dirs_exist_ok=True)
        for command in PREPARE:
            self.must(command, self.prepared)

        self.can_train = pathlib.Path(self.bins, "pipescope-torch").exists()
        if self.can_train:
            (self.prepared / "training").mkdir()
            self.must(TRAIN + "2", self.prepared / "training")

    def must(self, command, folder):
        """Runs a command that may not fail."""
        result = subprocess.run([f"{self.bins}/pipescope", *command.split()], cwd=folder, capture_output=True, text=True,
                                timeout=LIMIT_S, check=False)
        assert result.returncode == 0, f"{command}: {result.stderr}"

    def train(self, kind="write", number=0, always=False, rank=None):
        """The fault of a training that fails at a call of the kind and goes on, the number of calls, and its last save. With a
        rank, the training of several processes, of which this one fails."""
        launch = "" if rank is None else LAUNCH
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "training"
            shutil.copytree(self.prepared / "training", folder)
            code, _, err, calls = self.failing(f"{launch}{TRAIN}4 --resume", folder, pathlib.Path(name) / "count", kind, number, always,
                                               rank)
            # Threads of c10d's store and of Gloo abort their process if they cannot accept or wait; launch then ends the others.
            aborts = rank is not None and code == 134 and f"rank {rank} was ended by signal 6" in err
            if code is None or (code != 0 and not aborts and (code < 0 or code >= 126 or not err.strip())):
                return f"ends with {code}: {err.strip()[-200:]}", calls, {}
            # The first socket of a rank is ours; errors of later ones have the words of LibTorch.
            if kind == "socket" and number == 1 and "Too many open files" not in err:
                return f"does not say why it fails: {err.strip()[-200:]}", calls, {}
            # The parts of an unfinished save are not saves; the next run removes them.
            self.must("doctor --save saves", folder)
            self.must(f"{launch}{TRAIN}4 --resume", folder)
            self.must("doctor --save saves", folder)
            return None, calls, {file.name: file.read_bytes() for file in (folder / "saves/step-000004").glob("*.safetensors")}

    def failing(self, command, folder, count, kind, number, always, rank=None):
        """Runs a command with a failing call: its exit code, None when time ran out; stdout; stderr; and the number of calls."""
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": str(folder.parent)}
        if kind:
            environment.update(LD_PRELOAD=self.library, FAIL_CALL=kind, FAIL_AT=str(number), FAIL_COUNT=str(count))
        if always:
            environment["FAIL_ALWAYS"] = "1"
        if rank is not None:
            environment["FAIL_RANK"] = str(rank)
        try:
            result = subprocess.run([f"{self.bins}/pipescope", *command.split()], cwd=folder, env=environment,
                                    capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return None, "", "", 0
        calls = int(count.read_text()) if count.exists() and count.read_text().strip() else 0
        return result.returncode, result.stdout, result.stderr, calls

    def run(self, command, kind=None, number=0, always=False):
        """What became of the command: its exit code, stdout, stderr, files before and after, and number of calls."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "session"
            shutil.copytree(self.prepared, folder)
            before = state_of(folder)
            count = pathlib.Path(name) / "count"
            code, out, err, calls = self.failing(command, folder, count, kind, number, always)
            left = [str(path) for path in pathlib.Path(name).iterdir() if path.name not in ("session", "count")]
            return code, masked(out, name), masked(err, name), before, state_of(folder), calls, left


def masked(text, folder):
    """Times and the folder's name differ from run to run."""
    return re.sub(r"\b[\d.]+ (ns|us|ms|s)\b", "TIME", text.replace(folder, "FOLDER"))


def without_times(files):
    """SQLite's traces hold the time when they were written; only that they are there is compared."""
    return {name: (b"" if name.endswith(".sqlite") else data) for name, data in files.items()}


def fault_of(name, kind, outcome, usual):
    """What is wrong with an outcome, or None."""
    code, out, err, before, after, _, left = outcome
    if code is None:
        return f"still runs after {LIMIT_S} s"
    if code in (-6, 134) and kind == "new" and "std::bad_alloc" in err:
        return None if before == after else "aborts, and changes files: " + difference(after, before)
    if code < 0 or code >= 126:
        return f"was ended by a signal: {code}; {err.strip()[-200:]}"
    if kind == "remove":  # what cannot be removed stays
        left = [name for name in left if "pipescope-scratch-" not in name]
        after = {name: data for name, data in after.items() if name in before or ".partial" not in name}
    if left:
        return f"leaves {left} in the folder for temporary files"
    if code == usual[0] and code == 0:
        if without_times(after) != without_times(usual[4]):
            return "says nothing, and other files are there: " + difference(after, usual[4])
        if out != usual[1] and name != "doctor":  # whose report has the load of the machine
            return "says nothing, and prints something else"
        return None
    # The doctor tells of what fails in its report.
    if not err.strip() and (name != "doctor" or out == usual[1]):
        return f"fails with {code} and says nothing"
    if before == after or without_times(after) == without_times(usual[4]):
        return None
    return "fails, and changes files: " + difference(after, before)


def difference(files, expected):
    missing = sorted(set(expected) - set(files))
    new = sorted(set(files) - set(expected))
    changed = sorted(name for name in set(files) & set(expected) if files[name] != expected[name])
    return f"missing {missing}, new {new}, changed {changed}"


def spread(calls, most):
    """The numbers of the calls that fail: the first and last ones, and some between, further and further apart."""
    if calls <= most:
        return list(range(1, calls + 1))
    if most < 6:
        return [1, calls]
    numbers = {1, 2, 3, calls, calls - 1}
    step = calls ** (1 / (most - len(numbers)))
    at = 3.0
    while at < calls:
        numbers.add(int(at))
        at *= max(step, 1.05)
    return sorted(number for number in numbers if 1 <= number <= calls)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bins")
    parser.add_argument("library")
    parser.add_argument("--part", choices=["files", "sockets"], help="only these calls")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=int, default=6, help="calls of a kind that fail in each command; below 6: the first and the last")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    session = Session(options.bins, options.library)
    tried = collections.Counter()
    faults = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        cases = []
        for name, command in COMMANDS.items() if options.part != "sockets" else []:
            usual = session.run(command)
            assert usual[0] == 0, f"{name} fails without a failure: {usual[2]}"
            for kind in KINDS:
                if options.only and options.only not in f"{name} / {kind}":
                    continue
                calls = session.run(command, kind)[5]
                numbers = range(1, calls + 1) if options.all else spread(calls, options.most * (3 if kind == "new" else 1))
                for number in numbers:
                    for always in (False, True):
                        tried[kind] += 1
                        cases.append((name, kind, number, calls, always, usual,
                                      pool.submit(session.run, command, kind, number, always)))
        last_saves = {}
        trainings = [("training", None, KINDS), *((f"rank {rank} of a training", rank, SOCKET_KINDS) for rank in range(RANKS))]
        for name, rank, kinds in trainings if session.can_train else []:
            if options.part and (options.part == "sockets") != (rank is not None):
                continue
            for kind in kinds:
                if kind == "new" or (options.only and options.only not in f"{name} / {kind}"):
                    continue  # LibTorch's own allocations are not ours to prove
                if name not in last_saves:
                    last_saves[name] = session.train(rank=rank)[2]
                calls = session.train(kind, rank=rank)[1]
                for number in range(1, calls + 1) if options.all else spread(calls, options.most):
                    for always in (False, True):
                        tried[kind] += 1
                        cases.append((name, kind, number, calls, always, None,
                                      pool.submit(session.train, kind, number, always, rank)))
        for name, kind, number, calls, always, usual, outcome in cases:
            if not usual:
                fault = outcome.result()[0]
                fault = fault or (None if outcome.result()[2] == last_saves[name] else "goes on, and ends with other parameters")
            else:
                fault = fault_of(name, kind, outcome.result(), usual)
            if fault:
                faults.append(f"{name}: {kind} {number} of {calls}{' and all later ones' if always else ''}: {fault}")
    shutil.rmtree(session.prepared)
    for fault in faults:
        print(fault)
    print("injected failures: " + ", ".join(f"{count} of {kind}" for kind, count in tried.items()) + f"; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
