"""The stubs fit the built module, and the package and its use are well typed."""

import pathlib
import re
import subprocess
import sys

import pipescope
import pytest

PACKAGE = pathlib.Path(pipescope.__file__).parents[1]
SOURCES = pathlib.Path(__file__).resolve().parents[1]
CONFIGURATION = SOURCES.parent / "pyproject.toml"

EXAMPLE = '''
import pathlib
import pipescope

profile = pipescope.Profile.load(pathlib.Path("p.json"))
found = profile.balance(2, chunks=4, batch=16, memory_limit="1GiB")
simulation = profile.simulate(balance=found, chunks=4, batch=16, link_bandwidth="12GB/s", speed=[1, 0.5])
step: int = simulation.step_ns
layers: list[int] = list(found)
for task in simulation.timeline:
    kind: str = task.kind
best = profile.plan(batch=16, partitions=range(1, 5)).best
if best is not None:
    cost: float = best.cost
comparison = pipescope.Trace.open("run.sqlite").compare()
layout = pipescope.simulate_layout("gpt:..", pathlib.Path("c.json"), batch=8, partitions=2, zero=1, gradient_bucket="40MB")
devices: int = layout.layout.devices
ranked = pipescope.plan_cluster(profile, "c.json", batch=8, devices="64..512", device_types=["A100"], tokens=3e11)
if ranked.best is not None:
    hours: float | None = ranked.best.run_hours
    again = pipescope.simulate_layout(profile, "c.json", **ranked.best.options)
'''
WRONG = '''
import pipescope

profile = pipescope.Profile.load(3)
profile.simulate(balance=[4, 4], batch=16, chunk=4)
step: str = profile.simulate(balance=[4, 4], chunks=4, batch=16).step_ns
pipescope.simulate_layout("gpt:..", "c.json", batch=8, chunks=4)
'''


def mypy(*words, cwd):
    pytest.importorskip("mypy")
    environment = {"MYPYPATH": str(SOURCES), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "mypy", "--config-file", str(CONFIGURATION), "--cache-dir", str(cwd.parent / "mypy"),
               *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_uses_are_checked(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)
    (tmp_path / "wrong.py").write_text(WRONG)
    result = mypy("example.py", "wrong.py", cwd=tmp_path)
    lines = [line for line in result.stdout.splitlines() if "error:" in line]
    assert all(line.startswith("wrong.py") for line in lines), result.stdout
    assert {line.split(":")[1] for line in lines} == {"4", "5", "6", "7"}, result.stdout


def test_code_of_the_docs_is_strictly_typed(tmp_path):
    """What its blocks import and call of pipescope; names that a block takes for granted do not count."""
    pytest.importorskip("torch")
    blocks = []
    for page in ("docs/first-steps.md", "docs/python.md", "docs/python-training.md"):
        text = (SOURCES.parent / page).read_text()
        blocks += [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "pipescope" in block]
    assert len(blocks) > 5
    for place, block in enumerate(blocks):
        (tmp_path / f"block{place}.py").write_text("import pipescope\n" + block)
    result = mypy(*sorted(each.name for each in tmp_path.glob("block*.py")), cwd=tmp_path)  # strict, as configured
    allowed = ("[name-defined]", "[has-type]", "[used-before-def]", "[no-untyped-def]", "[no-untyped-call]",
               "[import-untyped]", "[import-not-found]")
    errors = [line for line in result.stdout.splitlines()
              if line.startswith("block") and "error:" in line and not line.endswith(allowed)]
    assert not errors, "\n".join(errors)


def test_stubs_fit_the_module(tmp_path):
    pytest.importorskip("mypy")
    environment = {"PYTHONPATH": str(PACKAGE), "MYPYPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"}
    words = ["pipescope._core", "--ignore-disjoint-bases"]
    result = subprocess.run([sys.executable, "-m", "mypy.stubtest", *words], cwd=tmp_path, env=environment,
                            capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
