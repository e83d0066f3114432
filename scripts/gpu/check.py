#!/usr/bin/env python3
"""Tries on a GPU all that needs one, with a bundle that scripts/gpu-bundle made: no network, no apt, pip or compiler.

    check --torch /path/to/python                  all stages on cuda:0, 8 minutes at most
    check --torch /path/to/python --stage 3        one stage, or several: --stage 1,3; the others' results are kept
    check --torch /path/to/python --device cpu     what can be tried without a GPU, on few small sizes

The stages: 1 engine, 2 recording, 3 rates, 4 python, 5 processes. Each has a time limit of its own; what outlasts it is killed,
with all that it started. Results come into a folder as they are found (-o, pipescope-gpu-results by default): summary.txt,
summary.json and the output of each step. Exits with 0 if every step succeeded, 1 if one failed or there is no device, 2 for
wrong usage, 130 or 143 after SIGINT or SIGTERM.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BUNDLE = pathlib.Path(__file__).resolve().parent
OK, FAILED, OUT_OF_TIME, LEFT_OUT = "ok", "failed", "out of time", "left out"
RUNNING, INTERRUPTED = "running", "interrupted"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_NCCL = "the bundle was built without NCCL's headers"
STARTING_SECONDS = 60  # for Python's first import of torch, from a slow disk

# What a Python says of its torch.
PROBE = """
import json, os, sys, torch
there = torch.version.cuda is not None and torch.cuda.is_available()
properties = torch.cuda.get_device_properties(0) if there else None
print(json.dumps({
    "torch": torch.__version__, "cuda": torch.version.cuda, "python": "%d.%d" % sys.version_info[:2],
    "folder": os.path.dirname(torch.__file__), "devices": torch.cuda.device_count() if there else 0,
    "name": properties.name if there else None, "memory_bytes": properties.total_memory if there else None,
    "capability": "%d.%d" % (properties.major, properties.minor) if there else None}))
"""


class Refused(Exception):
    """The check cannot start; the exit code says whose fault that is."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


class Interrupted(BaseException):
    """A signal asks the check to end; no `except Exception` may hold it up."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.number = number


def stop_on_signals():
    def stop(number, frame):
        raise Interrupted(number)

    for number in STOPPING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves SIGHUP
            signal.signal(number, stop)


def ignore_signals():
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


def say(text, stream=None):
    """The check goes on without the one who reads, such as a tee that Ctrl-C ended."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def become_reaper():
    """Makes orphans of our children ours, so that none of them escapes."""
    import ctypes

    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants():
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # pid (name) state parent ..; the name may hold anything
            state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
        except (OSError, IndexError, ValueError):
            continue
        if state != "Z":
            parents[int(folder.name)] = int(parent)
    found, last = set(), {os.getpid()}
    while last:
        last = {process for process, parent in parents.items() if parent in last} - found
        found |= last
    return found


def kill_descendants():
    """Ends the running child and all that it started, also in other groups and sessions. We run one child at a time."""
    while True:
        running = descendants()
        for process in running:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if not running:
            return
        time.sleep(0.02)


def run_child(words, seconds, environment, output, errors):
    """The exit code, or None if it was killed after that time."""
    with open(output, "wb") as out, open(errors, "wb") as err:
        child = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment,
                                 cwd=pathlib.Path(output).parent, start_new_session=True)
        try:
            return child.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill_descendants()  # also what a child left behind
            child.wait()


class Results:
    """The folder's summary, written anew as each step begins and ends."""

    def __init__(self, folder, about):
        self.folder = folder
        self.path = folder / "summary.json"
        self.text_path = folder / "summary.txt"
        self.content = {"about": about, "stages": {}}
        if self.path.exists() or self.text_path.exists():  # the results of other stages stay
            try:
                self.content["stages"] = dict(json.loads(self.path.read_text())["stages"])
                self.text()
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                raise Refused(f"-o is {folder}, which holds a summary that is not the check's; name another folder", 2) from None
        for stage in self.content["stages"].values():
            if stage["status"] == RUNNING:  # that check was killed, and could not say so
                stage.update(status=INTERRUPTED, running=None)

    def write(self):
        stages = {number: self.content["stages"][number] for number in sorted(self.content["stages"])}
        self.content["stages"] = stages
        try:
            self.replace(self.path, json.dumps(self.content, indent=1) + "\n")
            self.replace(self.text_path, self.text())
        except OSError as error:
            raise Refused(f"{self.folder} takes no more results ({error.strerror}); make room there, or name another folder by "
                          "-o") from None

    def text(self):
        lines = [f"{key}: {value}" for key, value in self.content["about"].items()]
        for number, stage in self.content["stages"].items():
            killed = sum(step.get("killed", False) for step in stage["steps"])
            words = f" ({killed} {'steps were' if killed > 1 else 'step was'} killed at the time limit)" if killed else ""
            lines.append(f"\nstage {number}, {stage['name']}, on {stage['device']}: {stage['status']}{words} after "
                         f"{stage['seconds']:.1f} s of {stage['limit_seconds']:.0f} s; begun {stage.get('started', 'earlier')}")
            for step in stage["steps"]:
                note = f": {step['note']}" if step["note"] else ""
                lines.append(f"  {step['status']:<11} {step['seconds']:6.1f} s  {step['name']} on {step['ran_on']}{note}")
            if stage.get("running"):
                lines.append(f"  {RUNNING:<11}           {stage['running']}")
        return "\n".join(lines) + "\n"

    @staticmethod
    def replace(path, text):
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(text)
        os.replace(fresh, path)


def now():
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def files_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def remove_files(folder, names):
    """Removes these files and the folders that are empty then; not what a name leads to outside of the folder."""
    top = folder.resolve()
    for name in names:
        path = folder / name
        if top not in (path.parent.resolve() / path.name).parents or path.name == "..":
            continue
        if path.is_symlink() or path.is_file():
            path.unlink()
        for parent in path.parents:
            if parent == folder:
                break
            try:
                parent.rmdir()
            except OSError:
                break


def fault_of(error):
    """Judges raise ValueError with a sentence; other errors need their type to be understood."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


class Stage:
    """Runs the steps of one stage until its time is over."""

    def __init__(self, number, name, limit, setting, results):
        self.setting = setting
        self.results = results
        self.number = number
        self.deadline = time.monotonic() + limit
        self.started = time.monotonic()
        self.running = None
        self.folder = setting.folder / f"{number}-{name}"
        earlier = results.content["stages"].get(str(number), {})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_files(self.folder, earlier.get("files", []))
        except OSError as error:
            raise Refused(f"{error.filename} is in the way of results ({error.strerror}); name another folder by -o", 2) from None
        self.others = files_in(self.folder)  # what somebody else put there stays
        self.names = set()
        self.record = {"name": name, "device": setting.device, "status": RUNNING, "started": now(), "seconds": 0.0,
                       "limit_seconds": limit, "steps": [], "running": None, "files": []}
        results.content["stages"][str(number)] = self.record
        results.write()

    def path(self, name):
        self.names.add(name)
        return self.folder / name

    def write(self):
        """Names the files that a repeated run may remove: what steps write, also before it is there."""
        there = {name for name in files_in(self.folder) - self.others
                 if any(self.is_made(pathlib.PurePath(name).parts[0], made) for made in self.names)}
        planned = {name for name in self.names - self.others if not (self.folder / name).is_dir()}
        self.record["files"] = sorted(there | planned)
        self.record["seconds"] = round(time.monotonic() - self.started, 2)
        self.results.write()

    @staticmethod
    def is_made(name, made):
        return name == made or made.endswith(".sqlite") and name.startswith(made + "-")  # SQLite's log

    def note(self, name, status, seconds=0.0, note="", ran_on=None, command=(), killed=False):
        self.record["steps"].append({"name": name, "status": status, "seconds": round(seconds, 2), "note": note, "killed": killed,
                                     "ran_on": ran_on or self.setting.device, "command": [str(word) for word in command]})
        self.running = self.record["running"] = None
        self.write()
        say(f"  {status:<11} {seconds:6.1f} s  {name}{': ' + note if note else ''}")
        return status == OK

    def leave_out(self, name, why):
        self.note(name, LEFT_OUT, note=why)

    def run(self, name, words, limit=None, environment=None, ran_on=None, refused_with=None, judge=None):
        """Runs a command into NAME.txt and NAME.err. `refused_with`: it must fail with that text. `judge` takes the output and
        returns a note, or raises ValueError with the fault."""
        left = self.deadline - time.monotonic()
        if left <= 1:
            return self.note(name, OUT_OF_TIME, note="the stage's time was over before it began", ran_on=ran_on, command=words)
        seconds = min(left, limit or left)
        output, errors = self.path(name + ".txt"), self.path(name + ".err")
        started = time.monotonic()
        self.running = (name, started, ran_on, words)
        self.record["running"] = f"{name} on {ran_on or self.setting.device}"
        self.write()
        try:
            code = run_child(words, seconds, {**self.setting.environment, **(environment or {})}, output, errors)
        except OSError as error:
            return self.note(name, FAILED, note=str(error), ran_on=ran_on, command=words)
        took = time.monotonic() - started
        said = errors.read_text(errors="replace").strip()
        if not said:
            errors.unlink()
        status, note = OK, ""
        if code is None:
            whose = "step's" if seconds == limit else "stage's"
            status, note = OUT_OF_TIME, (f"killed at the {whose} time limit, after {seconds:.0f} s; if the machine was busy, try "
                                         f"again by --stage {self.number}")
        elif refused_with is not None:
            everything = said + output.read_text(errors="replace")
            if code == 0 or refused_with not in everything:
                status, note = FAILED, f"must be refused with '{refused_with}', but exits with {code}"
            else:
                note = "refused, as it must be"
        elif code != 0:
            last = (said or output.read_text(errors="replace").strip()).splitlines()[-1:] or ["no output"]
            status, note = FAILED, f"exits with {code}: {last[0][:300]}"
        elif judge is not None:
            try:
                note = judge(output) or ""
            except Exception as error:  # whatever the output lacks
                status, note = FAILED, fault_of(error)
        return self.note(name, status, took, note, ran_on, words, killed=code is None)

    def judge(self, name, judge, *arguments):
        """A step that only reads what others wrote."""
        try:
            return self.note(name, OK, note=judge(*arguments) or "")
        except Exception as error:
            return self.note(name, FAILED, note=fault_of(error))

    def end(self):
        states = [step["status"] for step in self.record["steps"]]
        self.record["status"] = next((bad for bad in (FAILED, OUT_OF_TIME) if bad in states), OK)
        self.write()
        return self.record["status"] == OK

    def interrupt(self):
        self.record["status"] = INTERRUPTED
        if self.running:
            name, started, ran_on, words = self.running
            self.note(name, INTERRUPTED, time.monotonic() - started, ran_on=ran_on, command=words)
        self.write()


def make_executable(programs):
    """Some ways of copying lose the execute bits."""
    for program in programs:
        if not program.is_file():
            raise Refused(f"the bundle lacks {program}; copy all of it", 2)
        if os.access(program, os.X_OK):
            continue
        try:
            program.chmod(program.stat().st_mode | 0o111)
            why = "its file system may be mounted with noexec"
        except OSError as error:
            why = f"its execute bit is not set, and cannot be ({error.strerror})"
        if not os.access(program, os.X_OK):
            raise Refused(f"{program} cannot be executed: {why}; copy the bundle to another folder, by cp -a or tar", 2)


def make_folder(folder):
    """Makes the results' folder, in which files can be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refused(f"-o is {folder}, where no results can be written ({error.strerror}); name a folder that can be made or "
                      "written", 2) from None


class Setting:
    """Where everything is, and how its programs are started."""

    def __init__(self, options, bundle, torch):
        self.python = os.path.abspath(shutil.which(options.torch) or options.torch)  # steps run in other folders
        self.folder = pathlib.Path(options.output).resolve()
        self.device = options.device
        self.is_cuda = options.device.startswith("cuda")
        self.devices = torch["devices"]
        self.has_engine = torch["python"] == bundle["python"]
        self.why_no_engine = f"the engine's wheel is for Python {bundle['python']}, and {options.torch} is {torch['python']}"
        package = BUNDLE / "python"
        tests = BUNDLE / "tests"
        self.accelerator_test, self.fake_accelerator = tests / "accelerator_test", tests / "fake_accelerator_pipelines"
        self.pipescope = package / "pipescope" / "commands" / "bin" / "pipescope"
        self.pipescope_torch = package / bundle["engine"] / "bin" / "pipescope-torch"
        self.nccl = self.pipescope_torch.parent.parent / "lib" / "libpipescope_nccl.so"
        programs = [self.pipescope, self.pipescope_torch, self.accelerator_test, self.fake_accelerator]
        make_executable(programs + [path for program in programs[:2] for path in program.parent.glob("*") if path.is_file()])
        libraries = [BUNDLE / "lib", pathlib.Path(torch["folder"]) / "lib"]
        libraries += sorted(pathlib.Path(torch["folder"]).parent.glob("nvidia/*/lib"))
        before = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
        paths = [str(package)] + ([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, [*libraries, *before])),
                            "PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
                            "PIPESCOPE_TORCH_PROGRAM": str(self.pipescope_torch)}
        # A small model where lanes are a CPU's: this shows that the check works, not how fast anything is.
        self.model, self.balance = ("transformer:layers=6", "4,4") if self.is_cuda else ("transformer:layers=2,width=32", "2,2")
        self.batch, self.chunks, self.steps = (64, 8, 20) if self.is_cuda else (8, 4, 4)
        self.lanes = f"{self.device},{self.device}"

    def training(self, steps=None, lanes=None):
        return [self.pipescope, "run", self.model, "--balance", self.balance, "-m", self.chunks, "--batch", self.batch,
                "--devices", lanes or self.lanes, "--steps", steps or self.steps, "--json"]


def rows_of(trace, query):
    import sqlite3  # some Pythons are built without it

    connection = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def count_rows(trace, table):
    count = rows_of(trace, f"SELECT count(*) FROM {table}")[0][0]
    if count == 0:
        raise ValueError(f"{table} of {trace.name} is empty")
    return f"{count} rows"


def kernels_in_tasks(trace):
    """How many kernels and copies belong to tasks; the rest were launched between them."""
    works, tasks = rows_of(trace, """SELECT (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL)
        + (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY) + (SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMSET),
        (SELECT count(*) FROM PIPESCOPE_TASK_DEVICE)""")[0]
    if tasks == 0:
        raise ValueError("PIPESCOPE_TASK_DEVICE is empty: no task has kernels' times")
    return f"{tasks} tasks have times of the device; {works} kernels, copies and fills were recorded"


def composition(trace):
    rows = rows_of(trace, """
        SELECT lane, count(*), sum(parameters IS NULL), max(parameters), max(gradients), max(saved), max(boundary),
               max(abs(allocated - parameters - gradients - optimizer - boundary - saved - skip - transient - copy - output))
        FROM PIPESCOPE_MEMORY GROUP BY lane""")
    said = "; ".join("lane %s: %s samples, %s unknown, parameters %s, gradients %s, saved %s, boundary %s, off by %s" % row for row in rows)
    if not rows or any(row[2] or not row[3] or not row[4] or not row[5] or row[7] for row in rows):
        raise ValueError(f"the composition is not known, or does not sum up: {said or 'no samples'}")
    return said


def steps_of(output):
    return json.loads(pathlib.Path(output).read_text())["steps"]


def median_step_ms(output):
    steps = steps_of(output)[2:] or steps_of(output)
    return statistics.median(step["wall_step_ns"] for step in steps) / 1e6


def step_time(output):
    return f"median step {median_step_ms(output):.3f} ms"


def capture_cost(plain, captured):
    without, with_capture = median_step_ms(plain), median_step_ms(captured)
    return f"{without:.3f} ms without CUPTI, {with_capture:.3f} ms with it, {with_capture / without - 1:+.1%}"


def same_losses(one, other):
    first, second = ([step["loss"] for step in steps_of(output)] for output in (one, other))
    if not first or first != second:
        raise ValueError(f"losses differ: {first} and {second}")
    return f"{len(first)} equal losses"


def last_line(output):
    return (pathlib.Path(output).read_text(errors="replace").strip().splitlines() or [""])[-1][:300]


def passed_tests(output):
    text = pathlib.Path(output).read_text(errors="replace")
    passed, skipped = re.search(r"PASSED  . (\d+) test", text), re.search(r"SKIPPED . (\d+) test", text)
    if not passed or passed[1] == "0":
        raise ValueError("no test passed")
    return f"{passed[1]} passed" + (f", {skipped[1]} skipped" if skipped else "")


# The engine on lanes of the device against the CPU: gradients, streams, skips, checkpointing, split backwards.
def engine(stage):
    setting = stage.setting
    stage.run("doctor", [setting.pipescope, "doctor"], limit=20, judge=last_line)
    stage.run("devices", [setting.pipescope_torch, "devices"], limit=20)
    stage.run("engine", [setting.accelerator_test], limit=45, judge=passed_tests,
              environment={"PIPESCOPE_TEST_ACCELERATOR": setting.device})
    stage.run("engine-on-the-fake-accelerator", [setting.fake_accelerator], ran_on="fake:0", judge=passed_tests,
              environment={"PIPESCOPE_CUDA": "0"})


def recording(stage):
    setting = stage.setting
    profile, trace, without = stage.path("profile.json"), stage.path("run.sqlite"), stage.path("without-cupti.sqlite")
    sizes = "1,4,8" if setting.is_cuda else "2"
    stage.run("profile", [setting.pipescope, "profile", setting.model, "--device", setting.device, "--micro-batch-sizes", sizes,
                          "--time-limit", "20s", "-o", profile, "--force"], limit=40, judge=last_line)
    stage.run("run-without-cupti", [*setting.training(), "--profile", profile, "--trace", without, "--force"], limit=30,
              environment={"PIPESCOPE_CUPTI": "off"}, judge=step_time)
    stage.run("run", [*setting.training(), "--profile", profile, "--trace", trace, "--force"], limit=30, judge=step_time)
    stage.run("compare", [setting.pipescope, "compare", trace], limit=15)
    stage.judge("memory", count_rows, trace, "PIPESCOPE_MEMORY")
    stage.judge("composition", composition, trace)
    simulated = stage.path("simulate.txt")
    stage.run("simulate", [setting.pipescope, "simulate", profile, "--balance", setting.balance, "-m", setting.chunks, "--batch",
                           setting.batch, "--devices", setting.lanes, "--json"], limit=15)
    if setting.is_cuda:
        stage.judge("capture-cost", capture_cost, stage.path("run-without-cupti.txt"), stage.path("run.txt"))
        stage.judge("kernels", count_rows, trace, "CUPTI_ACTIVITY_KIND_KERNEL")
        stage.judge("copies", count_rows, trace, "CUPTI_ACTIVITY_KIND_MEMCPY")
        stage.judge("kernels-in-tasks", kernels_in_tasks, trace)
        stage.run("reserved", [setting.python, BUNDLE / "compare_reserved.py", trace, simulated], limit=15, judge=last_line)
    else:
        for name in ("capture-cost", "kernels", "copies", "kernels-in-tasks", "reserved"):
            stage.leave_out(name, "a CPU has none")
    stage.run("balance", [setting.pipescope, "balance", profile, "-n", 2, "-m", setting.chunks, "--batch", setting.batch], limit=15)
    stage.run("mixed", setting.training(5 if setting.is_cuda else 2, f"cpu,{setting.device}"), limit=20, judge=step_time)
    if setting.devices >= 2:
        stage.run("two-gpus", [*setting.training(10, "cuda:0,cuda:1"), "--profile", profile, "--trace", stage.path("two-gpus.sqlite"),
                               "--force"], limit=20, judge=step_time)
    else:
        stage.leave_out("two-gpus", f"there are {setting.devices} GPUs")


def rates(stage):
    setting = stage.setting
    table, entry = stage.path("rates.csv"), stage.path("device.json")
    small = [] if setting.is_cuda else ["--small"]
    seconds = stage.deadline - time.monotonic() - 20
    stage.run("sweep", [setting.python, BUNDLE / "kernel_rates.py", "--device", setting.device, "--csv", table, "--entry", entry,
                        "--time-limit", f"{seconds:.0f}", *small], limit=seconds + 12)
    try:
        name = json.loads(entry.read_text())["devices"][0]["name"]
    except (OSError, ValueError, LookupError):
        stage.leave_out("catalogue", "the sweep gave no entry")
        return
    stage.run("catalogue", [setting.pipescope, "profile", "mlp:layers=2", "--device", "meta", "--device-type", name,
                            "--device-catalogue", entry, "-o", stage.path("estimated.json"), "--force"])


def python(stage):
    setting = stage.setting
    ours, theirs = stage.path("ours"), stage.path("torch-pipeline")
    if setting.has_engine:
        stage.run("gpipe", [setting.python, BUNDLE / "gpipe_on_device.py", "--device", setting.device, "-o", ours], limit=40,
                  judge=last_line)
        for name, file in (("compare-recorded", ours / "run.sqlite"), ("compare-ours", ours / "profiler.json.gz")):
            if file.exists():
                stage.run(name, [setting.pipescope, "compare", file], limit=10)
            else:
                stage.leave_out(name, f"there is no {file.name}")
    else:
        stage.leave_out("gpipe", setting.why_no_engine)
    width, samples = (2048, 256) if setting.is_cuda else (64, 4)
    if stage.run("torch-pipeline", [setting.python, BUNDLE / "torch_pipeline.py", theirs, "--schedule", "1F1B", "--ranks", 2, "--width",
                                    width, "--samples", samples, "--depth", 2, "--steps", 3, "--annotate",
                                    BUNDLE / "annotate_pipeline.py", "--device", setting.device], limit=60):
        stage.run("compare-torch-pipeline", [setting.pipescope, "compare", theirs], limit=10)


def processes(stage):
    setting = stage.setting
    steps = 5 if setting.is_cuda else 2

    def together(way, lanes=None):
        return [setting.pipescope, "launch", "-n", 2, "--", *setting.training(steps, lanes)[1:], "--device-messages", way]

    stage.run("one-process", setting.training(steps), limit=20, judge=step_time)
    if stage.run("two-processes-host", together("host"), limit=25, judge=step_time):
        stage.judge("two-processes-losses", same_losses, stage.path("one-process.txt"), stage.path("two-processes-host.txt"))
    if not setting.is_cuda:
        stage.leave_out("two-processes-nccl", "a CPU has no NCCL")
        return
    if setting.devices >= 2:
        two_gpus(stage, together)
        return
    # NCCL cannot connect a GPU with itself: one that two processes share is refused, and takes the way through the host.
    stage.run("two-processes-auto", together("auto"), limit=25, judge=step_time)
    if not setting.nccl.exists():
        stage.leave_out("two-processes-nccl", NO_NCCL)
    else:
        stage.run("two-processes-nccl", together("nccl"), limit=25, refused_with="are one device (GPU-")


def two_gpus(stage, together):
    """Losses of two processes with a GPU each are those of one process, through the hosts' memory and by NCCL."""
    lanes = "cuda:0,cuda:1"
    stage.run("one-process-two-gpus", stage.setting.training(5, lanes), limit=20, judge=step_time)
    has_nccl = stage.setting.nccl.exists()
    for way in ("host", "nccl") if has_nccl else ("host",):
        for schedule in ("gpipe", "1f1b"):
            stage.run(f"two-gpus-{way}-{schedule}", [*together(way, lanes), "--schedule", schedule], limit=20, judge=step_time)
        stage.judge(f"two-gpus-{way}-losses", same_losses, stage.path("one-process-two-gpus.txt"),
                    stage.path(f"two-gpus-{way}-gpipe.txt"))
    if has_nccl:
        stage.judge("two-gpus-1f1b-losses", same_losses, stage.path("two-gpus-host-1f1b.txt"), stage.path("two-gpus-nccl-1f1b.txt"))
    else:
        stage.leave_out("two-gpus-nccl", NO_NCCL)


ALL_SECONDS = 480
# Each with its time limit in seconds: 460 together, the rest is for starting.
STAGES = {1: (engine, 60), 2: (recording, 120), 3: (rates, 130), 4: (python, 80), 5: (processes, 70)}


def stages_of(text):
    numbers = [int(number) if number.isdecimal() else number for number in text.split(",")]
    unknown = [number for number in numbers if number not in STAGES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no stage {unknown[0]}; there are {', '.join(map(str, STAGES))}")
    return numbers


def bundle_of(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        raise Refused(f"{path.parent} is no bundle, since {path.name} cannot be read there; make one with scripts/gpu-bundle, "
                      "and copy all of it", 2) from None


def glibc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    except (AttributeError, IndexError, OSError, ValueError):
        return ""


def numbers_of(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def torch_of(options, bundle):
    """What the Python says of its torch, which must fit the bundle."""
    if platform.machine() != "x86_64":
        raise Refused(f"this machine is {platform.machine()}; the bundle's programs are for x86_64")
    there = glibc()
    if not there or numbers_of(there) < numbers_of(bundle["glibc"]):
        raise Refused(f"this system's glibc is {there or 'none'}; the bundle needs {bundle['glibc']} or newer; build the bundle on an "
                      "older system, or run it in a container")
    try:
        child = subprocess.run([options.torch, "-c", PROBE], capture_output=True, text=True, timeout=STARTING_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Refused(f"{options.torch} did not import torch within {STARTING_SECONDS} s; start the check again, since the files are "
                      "now in memory") from None
    except OSError as error:
        raise Refused(f"--torch names {options.torch}, which does not start ({error.strerror}); give a Python that can import torch",
                      2) from None
    if child.returncode != 0:
        why = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise Refused(f"{options.torch} cannot import torch ({why}); give a Python that has torch {bundle['torch']}", 2)
    torch = json.loads(child.stdout.strip().splitlines()[-1])
    cuda = (torch["cuda"] or "").split(".")[0]
    is_other_cuda = cuda != bundle["cuda"] and (options.device != "cpu" or cuda)
    if numbers_of(torch["torch"]) != numbers_of(bundle["torch"]) or is_other_cuda:
        of_cuda = f"for CUDA {torch['cuda']}" if cuda else "without CUDA"
        raise Refused(f"{options.torch} has torch {torch['torch']} {of_cuda}; this bundle is for torch {bundle['torch']} for CUDA "
                      f"{bundle['cuda']}; name a Python that has it, or build a bundle for yours (TORCH_VERSION of scripts/gpu-bundle)", 2)
    if options.device != "cpu" and torch["devices"] == 0:
        import ctypes

        try:
            ctypes.CDLL("libcuda.so.1")
            why = "the CUDA driver gives torch no device"
        except OSError:
            why = "no CUDA driver was found (libcuda.so.1)"
        raise Refused(f"there is no GPU here: {why}; --device cpu tries what needs none")
    return torch


def main(words):
    parser = argparse.ArgumentParser(prog="check", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True, metavar="PYTHON", help="a Python that can import torch")
    parser.add_argument("-o", "--output", default="pipescope-gpu-results", metavar="FOLDER")
    parser.add_argument("--stage", type=stages_of, default=list(STAGES), metavar="N[,N]", help="these stages only")
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or cpu")
    try:
        return check(parser.parse_args(words))
    except Refused as refused:
        say(f"check: {refused}", sys.stderr)
        return refused.code
    except Interrupted as stop:
        ignore_signals()
        kill_descendants()
        say(f"check: interrupted by {stop}", sys.stderr)
        return 128 + stop.number


def check(options):
    started = time.monotonic()
    if not re.fullmatch(r"cpu|cuda:\d+", options.device):
        raise Refused(f"--device is '{options.device}'; it is cpu, or a GPU such as cuda:0", 2)
    bundle = bundle_of(BUNDLE / "bundle.json")
    torch = torch_of(options, bundle)
    index = int(options.device[5:]) if options.device != "cpu" else 0
    if options.device != "cpu" and index >= torch["devices"]:
        raise Refused(f"--device is {options.device}, but there are {torch['devices']} GPUs; name one from cuda:0 on", 2)
    setting = Setting(options, bundle, torch)
    make_folder(setting.folder)
    become_reaper()
    about = {"bundle": f"pipescope {bundle['pipescope']}, {bundle['commit']}", "torch": f"{torch['torch']} in Python {torch['python']}",
             "device": torch["name"] if setting.is_cuda else "cpu: no GPU was tried", "compute capability": torch["capability"],
             "GPUs": torch["devices"], "glibc": glibc(), "machine": platform.platform(), "started": now(), "result": RUNNING}
    results = Results(setting.folder, about)
    good, stage, left = True, None, list(options.stage)
    try:
        while left:
            number = left[0]
            function, limit = STAGES[number]
            limit = max(0, min(limit, round(ALL_SECONDS - (time.monotonic() - started))))
            say(f"stage {number}, {function.__name__}, on {options.device}, {limit} s at most")
            stage = Stage(number, function.__name__, limit, setting, results)
            del left[0]
            function(stage)
            good = stage.end() and good
            stage = None
    except Interrupted as stop:
        ignore_signals()
        kill_descendants()
        during = f" in stage {stage.number}" if stage else ""
        missing = f"; not begun: stage {', '.join(map(str, left))}" if left else ""
        about["result"] = f"{INTERRUPTED} by {stop}{during} after {time.monotonic() - started:.0f} s{missing}"
        if stage:
            stage.interrupt()
        results.write()
        raise
    about["result"] = f"{'all succeeded' if good else 'something failed'} after {time.monotonic() - started:.0f} s"
    results.write()
    say(f"check: {about['result']}; see {results.text_path}")
    return 0 if good else 1


if __name__ == "__main__":
    stop_on_signals()
    sys.exit(main(sys.argv[1:]))
