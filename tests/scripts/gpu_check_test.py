#!/usr/bin/env python3
"""scripts/gpu's check, in a bundle whose programs and torch are made up.

    gpu_check_test.py               the check's rules
    gpu_check_test.py PYTHON BIN    the rates, measured on the CPU by a Python that has torch; BIN is the folder of pipescope
"""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"
BUNDLE = {"pipescope": "0.2.0", "commit": "made up", "torch": "2.11", "cuda": "13", "python": "%d.%d" % sys.version_info[:2],
          "engine": "pipescope_torch_2_11", "glibc": "2.17", "glibcxx": "3.4.30"}
TORCH = """
__version__ = "{version}"
class version:
    cuda = {cuda!r}
class cuda:
    is_available = staticmethod(lambda: {devices} > 0)
    device_count = staticmethod(lambda: {devices})
    class get_device_properties:
        name, total_memory, major, minor = "a GPU", 1 << 30, 9, 0
        def __init__(self, index): pass
"""
# Stands for pipescope on a GPU: a run of two lanes, and what the check reads of it.
PIPESCOPE = """#!{python}
import json, os, sqlite3, sys
words = sys.argv[1:]
if "nccl" in words:
    sys.exit("lanes 0 and 1 are one device (GPU-1234)")
if "--trace" in words:
    trace = sqlite3.connect(words[words.index("--trace") + 1])
    kinds = "parameters gradients optimizer boundary saved skip transient copy output"
    trace.execute("CREATE TABLE PIPESCOPE_TASK (lane, device)")
    trace.execute("CREATE TABLE PIPESCOPE_TASK_DEVICE (task)")
    trace.execute(f"CREATE TABLE PIPESCOPE_MEMORY (lane, reserved, allocated, {{kinds.replace(' ', ', ')}})")
    for lane in range(2):
        trace.execute("INSERT INTO PIPESCOPE_TASK VALUES (?, 'cuda:0')", [lane])
        trace.execute("INSERT INTO PIPESCOPE_MEMORY VALUES (?, 1000, 45, 1, 2, 3, 4, 5, 6, 7, 8, 9)", [lane])
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        trace.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{{kind}} (start)")
        trace.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_{{kind}} VALUES (1)")
    trace.execute("INSERT INTO PIPESCOPE_TASK_DEVICE VALUES (1)")
    trace.commit()
ms = 1 if os.environ.get("PIPESCOPE_CUPTI") == "off" else 1.5
print(json.dumps({{"steps": [{{"loss": 1.0, "wall_step_ns": ms * 1e6}}] * 4,
                  "partitions": [{{"lane": lane, "device": "cuda:0"}} for lane in range(2)],
                  "lanes": [{{"peak_reserved_bytes": 450}}] * 2}}))
"""
PYTHON_AND_BIN = []


def is_running(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "bundle with a space"
        shutil.copytree(SCRIPTS, self.bundle)
        (self.bundle / "bundle.json").write_text(json.dumps(BUNDLE))
        self.have_torch()
        for program in ("python/pipescope/commands/bin/pipescope", "python/pipescope_torch_2_11/bin/pipescope-torch",
                        "tests/accelerator_test", "tests/fake_accelerator_pipelines"):
            self.write_program(program, "echo '[  PASSED  ] 3 tests.'")

    def have_torch(self, version="2.11.0+cu130", cuda="13.0", devices=0):
        (self.folder / "site" / "torch").mkdir(parents=True, exist_ok=True)
        (self.folder / "site" / "torch" / "__init__.py").write_text(TORCH.format(version=version, cuda=cuda, devices=devices))

    def write_program(self, name, script):
        path = self.bundle / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def environment(self):
        return {**os.environ, "PYTHONPATH": str(self.folder / "site")}

    def start(self, *words, program=None):
        return subprocess.run([str(program or self.bundle / "check"), *words], capture_output=True, text=True, timeout=100,
                              cwd=self.folder, env=self.environment(), check=False)

    def check(self, *words, program=None):
        return self.start("--torch", sys.executable, "-o", str(self.folder / "results"), *words, program=program)

    def stages(self):
        return json.loads((self.folder / "results" / "summary.json").read_text())["stages"]

    def statuses(self, number):
        return {step["name"]: step["status"] for step in self.stages()[str(number)]["steps"]}

    def module(self):
        """check.py of the bundle, to call with other limits."""
        spec = importlib.util.spec_from_file_location("gpu_check", self.bundle / "check.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        os.environ["PYTHONPATH"] = str(self.folder / "site")
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        return module

    def assert_refuses(self, code, text, *words):
        result = self.check(*words)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertIn(text, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertFalse((self.folder / "results").exists())

    def test_refuses_another_torch(self):
        self.have_torch(version="2.10.0+cu130", devices=1)
        self.assert_refuses(2, "has torch 2.10.0+cu130 for CUDA 13.0; this bundle is for torch 2.11 for CUDA 13")

    def test_refuses_another_cuda(self):
        self.have_torch(version="2.11.0+cu128", cuda="12.8", devices=1)
        self.assert_refuses(2, "for CUDA 12.8; this bundle is for torch 2.11 for CUDA 13")

    def test_refuses_a_python_without_torch(self):
        (self.folder / "site" / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open')")
        self.assert_refuses(2, "cannot import torch (ImportError: libcudart.so.13: cannot open)")

    def test_refuses_an_older_system(self):
        (self.bundle / "bundle.json").write_text(json.dumps({**BUNDLE, "glibc": "2.999"}))
        self.assert_refuses(1, "the bundle needs 2.999 or newer")

    def test_says_that_there_is_no_gpu(self):
        self.assert_refuses(1, "there is no GPU here: ")

    def test_refuses_a_gpu_that_is_not_there(self):
        self.have_torch(devices=1)
        self.assert_refuses(2, "--device is cuda:1, but there are 1 GPUs", "--device", "cuda:1")

    def test_wants_a_python(self):
        result = subprocess.run([str(self.bundle / "check"), "--stage", "1"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("name the Python", result.stderr)

    def assert_usage_error(self, text, *words):
        result = self.start(*words)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn(text, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_refuses_what_is_no_python(self):
        for name, fault in ((self.folder, "is a folder"), ("/bin/true", "is no Python"), ("/bin/false", "is no Python"),
                            ("/bin/cat", "is no Python"), (self.folder / "none", "is no program")):
            self.assert_usage_error(f"--torch names '{name}', which {fault}", "--torch", str(name))

    def test_refuses_a_folder_that_cannot_be_written(self):
        (self.folder / "a file").write_text("kept")
        for name in ("a file", "a file/below", "/proc", "/proc/x"):
            self.assert_usage_error("where no results can be written", "--torch", sys.executable, "--device", "cpu", "-o", name)
        self.assertEqual((self.folder / "a file").read_text(), "kept")

    def test_refuses_what_is_no_whole_bundle(self):
        (self.bundle / "tests" / "accelerator_test").unlink()
        self.assert_refuses(2, "the bundle lacks ", "--device", "cpu")
        (self.bundle / "bundle.json").unlink()
        self.assert_refuses(2, "is no bundle", "--device", "cpu")

    def test_gives_help_without_a_python(self):
        for word in ("-h", "--help"):
            result = self.start("--stage", "1", word)
            self.assertEqual(result.returncode, 0, result.stderr)
            for option in ("--torch", "-o", "--stage", "--device"):
                self.assertIn(option, result.stdout)

    def test_says_the_same_limits_in_its_help(self):
        words = (self.bundle / "README.txt").read_text()
        for number, (function, limit) in self.module().STAGES.items():
            self.assertIn(f"{number} {function.__name__}, {limit} s", words)

    def test_runs_through_links(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "one").symlink_to("../bundle with a space/check")
        (self.folder / "bin" / "two").symlink_to("one")
        result = self.check("--device", "cpu", "--stage", "1", program=self.folder / "bin" / "two")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_runs_a_bundle_copied_without_execute_bits(self):
        for path in self.bundle.rglob("*"):
            if path.is_file() and path.name != "check":
                path.chmod(0o644)
        result = self.check("--device", "cpu", "--stage", "1")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_takes_a_python_by_a_relative_path(self):
        (self.folder / "python").symlink_to(sys.executable)
        self.write_program("tests/accelerator_test", "echo '[  PASSED  ] 3 tests.'")
        result = self.start("--torch", "./python", "--device", "cpu", "--stage", "3")
        sweep = (self.folder / "pipescope-gpu-results" / "3-rates" / "sweep.err").read_text()
        self.assertIn("kernel_rates.py", sweep, result.stdout + result.stderr)  # it started: torch is made up

    def test_refuses_a_stage_that_is_not_there(self):
        result = self.check("--device", "cpu", "--stage", "6")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no stage 6; there are 1, 2, 3, 4, 5", result.stderr)

    def test_takes_a_torch_without_cuda_for_the_cpu(self):
        self.have_torch(version="2.11.0+cpu", cuda=None)
        result = self.check("--device", "cpu", "--stage", "1")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_goes_on_after_a_failure_and_exits_with_1(self):
        self.write_program("tests/accelerator_test", "echo some words >&2; exit 7")
        result = self.check("--device", "cpu", "--stage", "1")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(self.statuses(1), {"doctor": "ok", "devices": "ok", "engine": "failed", "engine-on-the-fake-accelerator": "ok"})
        step = self.stages()["1"]["steps"][2]
        self.assertEqual(step["note"], "exits with 7: some words")
        self.assertIn("some words", (self.folder / "results" / "summary.txt").read_text())

    def test_says_where_each_step_ran(self):
        self.check("--device", "cpu", "--stage", "1")
        self.assertEqual([step["ran_on"] for step in self.stages()["1"]["steps"]], ["cpu", "cpu", "cpu", "fake:0"])

    def test_a_program_whose_tests_were_all_skipped_is_no_success(self):
        self.write_program("tests/accelerator_test", "echo '[  PASSED  ] 0 tests.'")
        self.check("--device", "cpu", "--stage", "1")
        self.assertEqual(self.statuses(1)["engine"], "failed")

    def test_runs_every_stage_whatever_fails_before(self):
        for program in ("python/pipescope/commands/bin/pipescope", "tests/accelerator_test"):
            self.write_program(program, "exit 1")
        result = self.check("--device", "cpu")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(list(self.stages()), ["1", "2", "3", "4", "5"])
        self.assertNotIn("running", [stage["status"] for stage in self.stages().values()])

    def test_a_repeated_stage_keeps_the_others_results(self):
        self.check("--device", "cpu", "--stage", "1")
        before = self.stages()["1"]
        self.check("--device", "cpu", "--stage", "5")
        self.assertEqual(self.stages()["1"], before)
        self.assertEqual(list(self.stages()), ["1", "5"])

    def test_writes_results_as_they_come(self):
        self.write_program("tests/accelerator_test", "cp ../summary.json ../seen.json; echo '[  PASSED  ] 3 tests.'")
        self.check("--device", "cpu", "--stage", "1")
        seen = json.loads((self.folder / "results" / "seen.json").read_text())["stages"]["1"]
        self.assertEqual([step["name"] for step in seen["steps"]], ["doctor", "devices"])
        self.assertEqual(seen["status"], "running")

    def test_finds_the_librarys_folders_and_its_own(self):
        self.write_program("tests/accelerator_test", "echo \"$LD_LIBRARY_PATH\"; echo '[  PASSED  ] 3 tests.'")
        self.check("--device", "cpu", "--stage", "1")
        paths = (self.folder / "results" / "1-engine" / "engine.txt").read_text().splitlines()[0].split(":")
        self.assertEqual(paths[:2], [str(self.bundle / "lib"), str(self.folder / "site" / "torch" / "lib")])

    def test_kills_what_outlasts_its_stage_with_all_that_it_started(self):
        pids = self.folder / "pids"
        # A child of its own group, and one of its own session, as a daemon has.
        self.write_program("tests/accelerator_test", f"sleep 300 & echo $! >>'{pids}'\nsetsid sleep 300 & echo $! >>'{pids}'\n"
                                                     f"echo $$ >>'{pids}'; echo so far; sleep 300")
        check = self.module()
        check.STAGES = {1: (check.engine, 3), 5: (check.processes, 20)}
        started = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()):
            code = check.main(["--torch", sys.executable, "-o", str(self.folder / "results"), "--device", "cpu", "--stage", "1,5"])
        self.assertEqual(code, 1)
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual(self.statuses(1)["engine"], "out of time")
        self.assertEqual(self.statuses(1)["engine-on-the-fake-accelerator"], "out of time")
        self.assertEqual((self.folder / "results" / "1-engine" / "engine.txt").read_text(), "so far\n")
        self.assertEqual(self.stages()["1"]["status"], "out of time")
        summary = (self.folder / "results" / "summary.txt").read_text()
        self.assertIn("stage 1, engine, on cpu: out of time (1 step was killed at the time limit)", summary)
        self.assertIn("killed at the stage's time limit, after ", summary)
        self.assertIn("5", self.stages(), "the next stage runs")
        processes = pids.read_text().split()
        self.assertEqual(len(processes), 3)
        self.assertEqual([process for process in processes if is_running(process)], [])

    def interrupt(self, number, *words):
        """Sends the signal as the engine's step runs; gives the exit code, stderr and the processes that step started."""
        pids = self.folder / "pids"
        pids.unlink(missing_ok=True)
        self.write_program("tests/accelerator_test", f"setsid sleep 300 & echo $! >>'{pids}'\necho $$ >>'{pids}'; exec sleep 300")
        words = ["--torch", sys.executable, "-o", str(self.folder / "results"), "--device", "cpu", *words]
        # A shell without job control starts what runs behind it with SIGINT ignored; here it is not.
        check = subprocess.Popen([str(self.bundle / "check"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=self.environment(), preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and not (pids.exists() and len(pids.read_text().split()) == 2):
            time.sleep(0.05)
        check.stdout.close()  # as if Ctrl-C had ended a reader
        check.send_signal(number)
        check.send_signal(number)
        errors = check.stderr.read()
        check.stderr.close()
        return check.wait(60), errors, pids.read_text().split()

    def test_says_that_it_was_interrupted(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            found, errors, processes = self.interrupt(number, "--stage", "1,4")
            self.assertEqual(found, code, errors)
            self.assertEqual(errors.splitlines(), [f"check: interrupted by {number.name}"])
            self.assertEqual([process for process in processes if is_running(process)], [])
            self.assertEqual(self.stages()["1"]["status"], "interrupted")
            self.assertEqual(self.statuses(1), {"doctor": "ok", "devices": "ok", "engine": "interrupted"})
            self.assertNotIn("4", self.stages())
            summary = (self.folder / "results" / "summary.txt").read_text()
            self.assertIn(f"result: interrupted by {number.name} in stage 1", summary)
            self.assertIn("not begun: stage 4", summary)
            self.assertNotIn("running", summary)

    def test_a_repeated_stage_removes_what_its_earlier_run_made_and_nothing_else(self):
        self.check("--device", "cpu", "--stage", "1")
        folder = self.folder / "results" / "1-engine"
        made = sorted(path.name for path in folder.iterdir())
        self.assertIn("engine-on-the-fake-accelerator.txt", made)
        (folder / "notes.txt").write_text("not the check's")
        outside = self.folder / "outside.txt"
        outside.write_text("not the check's")
        summary = self.folder / "results" / "summary.json"
        content = json.loads(summary.read_text())
        content["stages"]["1"]["files"] += ["../../outside.txt", str(outside), "..", "."]
        summary.write_text(json.dumps(content))
        self.interrupt(signal.SIGTERM, "--stage", "1")
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         ["devices.txt", "doctor.txt", "engine.err", "engine.txt", "notes.txt"])
        self.assertTrue(outside.exists())

    def test_a_repeated_stage_removes_files_of_folders_that_steps_made(self):
        check = self.module()

        def makes(stage):
            folder = stage.path("ours")
            trace = stage.path("run.sqlite")
            files = f"'{folder}/below/{len(seen)}' '{trace}' '{trace}-wal' other"
            stage.run("make", ["sh", "-c", f"mkdir -p '{folder}/below' && touch {files}"])
            seen.append(sorted(check.files_in(stage.folder)))

        seen = []
        check.STAGES = {1: (makes, 20)}
        words = ["--torch", sys.executable, "-o", str(self.folder / "results"), "--device", "cpu", "--stage", "1"]
        for _ in range(2):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(check.main(words), 0)
        (self.folder / "results" / "1-makes" / "ours" / "mine").write_text("")
        check.STAGES = {1: (lambda stage: seen.append(sorted(check.files_in(stage.folder))), 20)}
        check.STAGES[1][0].__name__ = "makes"
        with contextlib.redirect_stdout(io.StringIO()):
            check.main(words)
        self.assertEqual(seen, [["make.txt", "other", "ours/below/0", "run.sqlite", "run.sqlite-wal"],
                                ["make.txt", "other", "ours/below/1", "run.sqlite", "run.sqlite-wal"], ["other", "ours/mine"]])

    def test_says_that_an_earlier_check_was_killed(self):
        _, _, processes = self.interrupt(signal.SIGKILL, "--stage", "1")
        for process in processes:
            os.kill(int(process), signal.SIGKILL)
        self.assertEqual(self.stages()["1"]["status"], "running")
        self.assertIn("engine on cpu", (self.folder / "results" / "summary.txt").read_text().splitlines()[-1])
        self.check("--device", "cpu", "--stage", "5")
        self.assertEqual(self.stages()["1"]["status"], "interrupted")

    def test_refuses_a_summary_of_something_else(self):
        (self.folder / "results").mkdir()
        for name in ("summary.json", "summary.txt"):
            path = self.folder / "results" / name
            path.write_text("[]")
            result = self.check("--device", "cpu", "--stage", "1")
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertIn("holds a summary that is not the check's", result.stderr)
            self.assertEqual(path.read_text(), "[]")
            path.unlink()

    def test_reads_what_a_run_on_a_gpu_leaves(self):
        self.have_torch(devices=1)
        (self.bundle / "python/pipescope/commands/bin/pipescope").write_text(PIPESCOPE.format(python=sys.executable))
        result = self.check("--stage", "2,5")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        notes = {step["name"]: step["note"] for stage in self.stages().values() for step in stage["steps"]}
        self.assertEqual(notes["capture-cost"], "1.000 ms without CUPTI, 1.500 ms with it, +50.0%")
        self.assertEqual(notes["kernels"], "1 rows")
        self.assertEqual(notes["kernels-in-tasks"], "1 tasks have times of the device; 3 kernels, copies and fills were recorded")
        self.assertIn("lane 1: 1 samples, 0 unknown, parameters 1, gradients 2, saved 5, boundary 4, off by 0", notes["composition"])
        self.assertEqual(notes["reserved"], "cuda:0: reserved 1000 bytes, simulated 900, -10.0%")
        self.assertEqual(notes["two-processes-losses"], "4 equal losses")
        self.assertEqual(notes["two-gpus"], "there are 1 GPUs")

    def test_compares_losses_of_two_gpus(self):
        self.have_torch(devices=2)
        pipescope = PIPESCOPE.replace('if "nccl" in words:', "if False:")
        (self.bundle / "python/pipescope/commands/bin/pipescope").write_text(pipescope.format(python=sys.executable))
        self.write_program("python/pipescope_torch_2_11/lib/libpipescope_nccl.so", "")
        result = self.check("--stage", "2,5")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.statuses(2)["two-gpus"], "ok")
        for name in ("two-gpus-host-losses", "two-gpus-nccl-losses", "two-gpus-1f1b-losses"):
            self.assertEqual(self.statuses(5)[name], "ok")

    def test_has_limits_of_8_minutes_in_all(self):
        check = self.module()
        self.assertEqual(check.ALL_SECONDS, 480)
        self.assertLessEqual(sum(limit for _, limit in check.STAGES.values()), 480 - 20)

    def test_ends_when_the_time_of_all_stages_is_over(self):
        check = self.module()
        check.ALL_SECONDS = 0  # as after a slow start
        with contextlib.redirect_stdout(io.StringIO()):
            code = check.main(["--torch", sys.executable, "-o", str(self.folder / "results"), "--device", "cpu", "--stage", "1,5"])
        self.assertEqual(code, 1)
        self.assertEqual([stage["status"] for stage in self.stages().values()], ["out of time"] * 2)


class KernelRates(unittest.TestCase):
    def test_refuse_what_cannot_be_written_or_measured_on(self):
        python, _ = PYTHON_AND_BIN
        # One process, since torch is slow to import.
        script = """
import json, sys, kernel_rates
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        kernel_rates.main()
    except SystemExit as end:
        print(f"exits with {end.code}", file=sys.stderr)
"""
        cases = {"--csv is '/proc/x.csv', which cannot be written": ["--csv", "/proc/x.csv"],
                 "--entry is '/proc/x/y', which cannot be written": ["--csv", os.devnull, "--entry", "/proc/x/y"],
                 "--device is 'nonsense', which torch refuses": ["--csv", os.devnull, "--device", "nonsense"]}
        said = subprocess.run([python, "-B", "-c", script, json.dumps(list(cases.values()))], capture_output=True, text=True,
                              timeout=200, check=False, env={**os.environ, "PYTHONPATH": str(SCRIPTS)})
        if "No module named" in said.stderr:
            self.skipTest(f"{python} cannot import torch")
        for text in cases:
            self.assertIn(text, said.stderr)
        self.assertEqual(said.stderr.count("exits with 2"), len(cases), said.stderr)

    def test_give_an_entry_that_a_catalogue_takes(self):
        python, programs = PYTHON_AND_BIN
        if subprocess.run([python, "-c", "import torch"], capture_output=True, timeout=100, check=False).returncode:
            self.skipTest(f"{python} cannot import torch")
        with tempfile.TemporaryDirectory() as folder:
            table, entry = pathlib.Path(folder, "rates.csv"), pathlib.Path(folder, "device.json")
            subprocess.run([python, str(SCRIPTS / "kernel_rates.py"), "--device", "cpu", "--small", "--csv", str(table), "--entry",
                            str(entry), "--time-limit", "60"], check=True, capture_output=True, timeout=200)
            lines = table.read_text().splitlines()
            self.assertEqual(lines[0].split(",")[-1], "status")
            for family in ("product", "attention", "memory", "launch", "copy"):
                self.assertTrue(any(line.startswith(family) for line in lines), family)
            self.assertEqual(json.loads(entry.read_text())["devices"][0]["name"], "CPU-measured")
            words = [str(pathlib.Path(programs, "pipescope")), "profile", "mlp:layers=2", "--device", "meta", "--device-type",
                     "CPU-measured", "--device-catalogue", str(entry), "--json"]
            said = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(said.returncode, 0, said.stderr)


if __name__ == "__main__":
    PYTHON_AND_BIN = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0]], defaultTest="KernelRates" if PYTHON_AND_BIN else "Check", verbosity=2)
