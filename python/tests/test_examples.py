"""The notebooks, the blocks of docs/python.md and the guide for own models run as they are."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pipescope
import pytest
from conftest import fields_of, make_run

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(pipescope.__file__).parents[1]


def blocks_below(heading):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    section = page[page.index(f"\n{heading}\n") :].split("\n## ", 2)[1]
    return re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def test_the_example_of_the_page_runs(tmp_path):
    profile = pipescope.Profile.from_dict(fields_of(8, step_cv=0.05))
    profile.save(tmp_path / "p.json")
    make_run(tmp_path / "run.sqlite", profile, balance=[4, 4], chunks=8, batch=16, devices=["cpu", "cpu"])
    blocks = blocks_below("## An example")
    assert len(blocks) == 2
    assert "8 layers on cpu" in run_in(tmp_path, "\n".join(blocks))


def test_the_example_of_a_cluster_runs():
    (code,) = blocks_below("## On a cluster")
    assert "128 devices of type A100" in run_in(ROOT, code)


def run_in(folder, code, timeout=120):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True,
                            timeout=timeout, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_first_steps_end_with_a_picture(tmp_path):
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    page = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    run_in(tmp_path, code)
    assert (tmp_path / "timeline.svg").read_text().startswith("<svg")


GUIDE = ROOT / "docs" / "guides" / "bring-your-model.md"


def blocks_of_the_guide():
    """(those that need nothing but torch, those by the library that they need, model.py)."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (model,) = [each for each in blocks if "def make_batch" in each]
    libraries = {each.split()[1]: each for each in blocks if each.startswith("from ")}
    return [each for each in blocks if each != model and each not in libraries.values()], libraries, model


def test_the_guide_for_own_models_runs(tmp_path):
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    blocks, _, _ = blocks_of_the_guide()
    lines = run_in(tmp_path, "\n".join(blocks), timeout=500).splitlines()
    assert len(blocks) == 4
    assert [len(line.split()) > 1 for line in lines[:3]] == [True] * 3  # a loss and a balance each
    assert "PlanCandidate" in lines[3]
    assert float(lines[4].removeprefix("tensor(").split(",")[0].rstrip(")")) > 0


@pytest.mark.parametrize("library", ["transformers", "diffusers"])
def test_the_guide_takes_models_of_a_library(tmp_path, library):
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    pytest.importorskip(library)
    _, libraries, _ = blocks_of_the_guide()
    head = "import torch\nfrom torch.nn import functional as F\nimport pipescope\ntorch.manual_seed(0)\n"
    loss, balance = run_in(tmp_path, head + libraries[library], timeout=500).split(maxsplit=1)
    assert float(loss) > 0 and balance.startswith("[")


def test_the_commands_of_the_guide_run(tmp_path):
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    page = GUIDE.read_text(encoding="utf-8")
    commands = re.findall(r"^    pipescope (.*)$", page[page.index("\n## The commands\n"):], re.MULTILINE)
    assert [each.split()[0] for each in commands] == ["profile", "balance", "plan", "run", "compare"]
    (tmp_path / "model.py").write_text(blocks_of_the_guide()[2])
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    for each in commands:
        result = subprocess.run([sys.executable, "-m", "pipescope", *each.split()], cwd=tmp_path, env=environment,
                                capture_output=True, text=True, timeout=240, check=False)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["transformer", "bring-your-model"])
def test_the_notebooks_run(monkeypatch, name):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    path = ROOT / "python" / "examples" / f"{name}.ipynb"
    assert not any(cell.get("outputs") for cell in json.loads(path.read_text())["cells"]), "clear the outputs"
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    pictures = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
        if "<svg" in output.get("data", {}).get("text/html", "")
    ]
    assert pictures
