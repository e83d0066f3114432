"""What Python programs do beside the plain path: threads, signals, forks, exits, and no torch."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pipescope
import pytest
from conftest import fields_of
from pipescope._installed import engine_package

OPTIONS = {"balance": [8, 8], "chunks": 8, "batch": 32}
PACKAGE = pathlib.Path(pipescope.__file__).parents[1]
CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "clusters" / "dgx-a100.json"


def python(code, *words, **more):
    """Runs a program that begins with a profile called p."""
    start = f"import sys; sys.path[:0] = {[str(PACKAGE), str(pathlib.Path(__file__).parent)]!r}\n"
    start += "import pipescope\nfrom conftest import fields_of\np = pipescope.Profile.from_dict(fields_of(16, step_cv=0.05))\n"
    return subprocess.run([sys.executable, "-c", start + code, *words], capture_output=True, text=True, timeout=60,
                          check=False, **more)


def test_serves_many_threads_at_once(noisy):
    expected = noisy.simulate(**OPTIONS)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        every = list(pool.map(lambda _: noisy.simulate(**OPTIONS), range(32)))
        plans = list(pool.map(lambda _: noisy.plan(batch=8, partitions=[1, 2]), range(4)))
    assert all(each == expected for each in every)
    assert all(each == plans[0] for each in plans)


def test_opens_traces_in_many_threads(run):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for comparison in pool.map(lambda _: pipescope.Trace.open(run).compare(), range(16)):
            assert comparison.tasks_unmatched == 0


def test_lets_other_threads_run_while_it_plans():
    profile = pipescope.Profile.from_dict(fields_of(48, step_cv=0.05))
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    profile.plan(batch=64, partitions="1..8")
    took = time.monotonic() - start
    done.set()
    thread.join()
    assert len([tick for tick in ticks if tick > start]) > took / 0.1


def test_reports_progress_and_passes_its_exceptions_on(noisy):
    shares = []
    noisy.plan(batch=16, partitions=[1, 2, 3], progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)

    class OwnError(Exception):
        pass

    def fail(_):
        raise OwnError("mine", 3)

    with pytest.raises(OwnError) as error:
        noisy.plan(batch=16, progress=fail)
    assert error.value.args == ("mine", 3)
    with pytest.raises(TypeError):
        noisy.plan(batch=16, progress=3)
    assert noisy.plan(batch=16, partitions=1).best


LONG_CALLS = {
    "plan": """big(200).plan(batch=512, partitions="1..64", chunks="1..512",
                             schedule="gpipe,1f1b,interleaved,zero-bubble-h1")""",
    "plan on a cluster": """[big(1), pipescope.plan_cluster(
        "gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=51200", CLUSTER, batch=3072, devices="64..3072")]""",
    "balance": """[big(1500).balance(64, chunks=256, batch=1024, schedule="1f1b") for _ in range(100)]""",
    "simulate auto": """[big(64).simulate(balance=[1] * 64, chunks=512, batch=512, schedule="auto") for _ in range(100)]""",
    "simulate": """[big(128).simulate(balance=[1] * 128, chunks=1024, batch=2048) for _ in range(100)]""",
}


@pytest.mark.parametrize("call", LONG_CALLS)
def test_ctrl_c_ends_a_long_call(call):
    """One signal ends the call, by a handler of the user's too, and what follows works."""
    code = f"""
import threading, os, signal, time
CLUSTER = {str(CLUSTER)!r}
def big(layers):
    profile = pipescope.Profile.from_dict(fields_of(layers, step_cv=0.05))
    begun.append(time.monotonic())
    return profile
def interrupt():
    while not begun:
        time.sleep(0.01)
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
class Own(Exception):
    pass
def own(*_):
    raise Own("mine")
for handler, expected in ((signal.default_int_handler, KeyboardInterrupt), (own, Own)):
    begun, sent = [], []
    signal.signal(signal.SIGINT, handler)
    threading.Thread(target=interrupt).start()
    try:
        {LONG_CALLS[call]}
        print("finished")
    except expected:
        print("interrupted", time.monotonic() - sent[0] < 5)
print(p.simulate(balance=[8, 8], chunks=4, batch=8).feasible)
"""
    result = python(code)
    assert result.stdout.splitlines() == ["interrupted True", "interrupted True", "True"], result.stdout + result.stderr


def test_ctrl_c_ends_the_reading_of_a_trace(tmp_path):
    with (tmp_path / "rank0.json").open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for k in range(300_000):
            file.write('{"ph": "X", "cat": "user_annotation", "name": "Forward 0", "pid": 1, "tid": 1, '
                       f'"ts": {10 * k}, "dur": 5}},\n')
        file.write('{"ph": "X", "cat": "user_annotation", "name": "load", "pid": 1, "tid": 1, "ts": 0, "dur": 1}]}')
    code = """
import os, signal, threading, time
for call in (lambda: pipescope.Trace.open(sys.argv[1]), lambda: pipescope.Trace.open(sys.argv[1])):
    def interrupt():
        time.sleep(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    sent = []
    threading.Thread(target=interrupt).start()
    try:
        call()
        print("finished")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - sent[0] < 5)
pipescope.Trace.open(sys.argv[1])  # each task is a step of its own: so many steps are no matter of minutes
print("opened")
"""
    result = python(code, tmp_path / "rank0.json")
    assert result.stdout.splitlines() == ["interrupted True"] * 2 + ["opened"], result.stdout + result.stderr


def test_works_in_a_forked_child(noisy):
    expected = noisy.simulate(**OPTIONS).step_ns
    noisy.plan(batch=8, partitions=2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(step_of, [(noisy, OPTIONS)] * 4) == [expected] * 4


def test_works_in_a_spawned_child(noisy):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(step_of, [(noisy, OPTIONS)]) == [noisy.simulate(**OPTIONS).step_ns]


def step_of(work):
    profile, options = work
    return profile.simulate(**options).step_ns


def test_exits_while_a_daemon_thread_plans():
    code = """
import threading, time
big = pipescope.Profile.from_dict(fields_of(100, step_cv=0.05))
def forever():
    while True:
        big.plan(batch=64, partitions="1..16")
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
print("bye", flush=True)
"""
    result = python(code)
    assert result.stdout == "bye\n"
    assert result.returncode == 0, result.stderr


def test_keeps_the_signal_handlers(run, tmp_path):
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    pipescope.Trace.open(run).compare()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_imports_and_works_without_torch():
    code = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "pandas", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoTorch())
timeline = p.simulate(balance=[8, 8], chunks=4, batch=8).timeline
print(len(timeline) > 0, timeline._repr_html_()[:4])
for call in (timeline.to_pandas, timeline.plot, p.to_pandas):
    try:
        call()
    except ImportError as error:
        print(error)
try:
    pipescope.GPipe
except ImportError as error:
    print(error)
print("torch" in sys.modules, "numpy" in sys.modules)
"""
    lines = python(code).stdout.splitlines()
    assert lines[0] == "True <svg"
    assert lines[1] == "to_pandas() needs pandas; install it: pip install pandas"
    assert lines[2].startswith("plot() needs matplotlib")
    assert lines[3] == lines[1]
    versions = engine_versions(PACKAGE)
    assert f"needs torch {' or '.join(versions)}, and there is no torch" in lines[4] or not versions
    assert lines[5] == "False False"


def engine_versions(folder):
    """The minor versions of torch whose engines are in a folder."""
    numbers = sorted(tuple(map(int, each.name.split("_")[2:])) for each in folder.glob("pipescope_torch_*"))
    return [f"{major}.{minor}" for major, minor in numbers]


def test_says_which_torch_it_needs(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.9.1'")
    for minor in (7, 12):
        (tmp_path / f"pipescope_torch_2_{minor}").mkdir()
        (tmp_path / f"pipescope_torch_2_{minor}" / "__init__.py").write_text("")
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
try:
    pipescope.GPipe
except ImportError as error:
    print(error)
print(hasattr(pipescope, "Profile"))
"""
    versions = sorted({*engine_versions(PACKAGE), "2.7", "2.12"}, key=lambda version: int(version.split(".")[1]))
    assert python(code).stdout.splitlines() == [
        f"torch is 2.9.1; the engine is installed for torch {' and '.join(versions)}; "
        f"install one that fits: pip install 'torch=={versions[-1]}.*'",
        "True",
    ]


def test_takes_the_engine_of_its_torch(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.7.3+cu99'")
    for minor in (7, 12):
        package = tmp_path / f"pipescope_torch_2_{minor}"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "_engine.py").write_text(f"minor = {minor}")
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
from pipescope import _torch
print(_torch.engine.minor)
"""
    assert python(code).stdout == "7\n"


def test_commands_start_the_engine_of_the_installed_torch(tmp_path):
    package = tmp_path / "pipescope"
    package.mkdir()
    for file in ("__init__.py", "__main__.py", "_installed.py"):
        (package / file).write_text("" if file == "__init__.py" else (PACKAGE / "pipescope" / file).read_text())
    (package / "commands" / "bin").mkdir(parents=True)
    (package / "commands" / "bin" / "pipescope").write_text("#!/bin/sh\necho program $PIPESCOPE_TORCH_PROGRAM $LD_LIBRARY_PATH\n")
    (tmp_path / "pipescope_torch_2_7" / "bin").mkdir(parents=True)
    (tmp_path / "pipescope_torch_2_7" / "bin" / "pipescope-torch").write_text("")
    (tmp_path / "torch-2.7.3.dist-info").mkdir()
    (tmp_path / "torch-2.7.3.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.7.3\n")
    (package / "commands" / "bin" / "pipescope").chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for name in ("PIPESCOPE_TORCH_PROGRAM", "LD_LIBRARY_PATH"):
        environment.pop(name, None)
    words = [sys.executable, "-m", "pipescope"]

    def said(**more):
        done = subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False, **more)
        return done.stdout + done.stderr

    program = f"program {tmp_path}/pipescope_torch_2_7/bin/pipescope-torch"
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    assert said() == f"{program}\n"
    # In another folder than the package, such as the system's: its libraries are not where the program looks.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "torch").rename(elsewhere / "torch")
    (elsewhere / "nvidia" / "cu13" / "lib").mkdir(parents=True)
    environment["PYTHONPATH"] += f":{elsewhere}"
    assert said() == f"{program} {elsewhere}/torch/lib:{elsewhere}/nvidia/cu13/lib\n"
    # Without stdout.
    (package / "commands" / "bin" / "pipescope").write_text("#!/bin/sh\necho started >&2\n")
    assert said(preexec_fn=lambda: os.close(1)) == "started\n"


def test_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'gpipe'"):
        pipescope.gpipe  # noqa: B018
    if engine_package() is not None:
        assert "GPipe" in dir(pipescope)


def test_without_an_engine_the_rest_can_be_listed():
    code = f"""
import importlib.metadata, inspect, pydoc, sys
sys.path.insert(0, {str(PACKAGE)!r})
importlib.metadata.version = lambda name: "1.9.0"  # no engine is for this torch
import pipescope
from pipescope import *
assert Profile and "GPipe" not in pipescope.__all__
assert inspect.getmembers(pipescope)
assert "class Profile" in pydoc.render_doc(pipescope, renderer=pydoc.plaintext)
assert "GPipe" not in dir(pipescope)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 0, said.stderr


def test_leaks_no_memory(noisy):
    def used():
        pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def work():
        for _ in range(60):
            noisy.simulate(**OPTIONS)
            with pytest.raises(pipescope.UsageError):
                noisy.simulate(balance=[1], chunks=1, batch=1)

    work()
    before = used()
    work()
    assert used() - before < 20 << 20


def test_messages_name_functions_and_options_of_python():
    from pipescope._values import in_python

    assert in_python("it exists; use --force") == "it exists; use force=True"
    assert "GPipe.record(" in in_python("holds no profile; record it with 'pipescope run --trace'")
    assert "Profile.balance()" in in_python("change it, or let 'pipescope balance' find one")


def test_wrong_types_are_usage_errors(run, tmp_path, noisy):
    trace = pipescope.Trace.open(run)
    for call, message in (
        (lambda: pipescope.Trace.open(None), "None is no name"),
        (lambda: pipescope.Trace.open(object()), "is no name"),
        (lambda: pipescope.Trace.open([run, 3]), "3 is no name"),
        (lambda: pipescope.Trace.open(run, task_rules=3), "3 is no name"),
        (lambda: trace.compare(3), "3 is no name"),
        (lambda: trace.measured_run(steps=["a"]), "steps"),
        (lambda: trace.measured_run(steps=object()), "steps is a object"),
        (lambda: trace.measured_run(micro_batch_size="a"), "micro_batch_size is 'a'"),
        (lambda: pipescope.Profile.load(None), "None is no name"),
        (lambda: pipescope.Schedule.load(3), "3 is no name"),
        (lambda: pipescope.Schedule(None, lanes=2, chunks=2), "None is no name"),
        (lambda: noisy.save(3), "3 is no name"),
    ):
        with pytest.raises(pipescope.UsageError, match=message):
            call()
    with pytest.raises(pipescope.UsageError, match="empty list"):
        pipescope.Trace.open([])
    assert pipescope.Trace.open(pathlib.Path(run)).measured_run(steps=[1]).profile.samples


def test_messages_name_options_as_python_does():
    from pipescope._values import in_python

    said = in_python("--link-bandwidth is 0, as in run--x.sqlite; see 'pipescope schedule --json', or use --force")
    assert said == "link_bandwidth is 0, as in run--x.sqlite; see 'pipescope schedule --json', or use force=True"
