"""The notebook and the blocks of docs/python.md run as they are."""

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
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
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


def test_the_guide_for_own_models_runs(tmp_path):
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    page = (ROOT / "docs" / "guides" / "bring-your-model.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    lines = run_in(tmp_path, "\n".join(blocks), timeout=500).splitlines()
    assert len(blocks) == 4
    assert [len(line.split()) > 1 for line in lines[:3]] == [True] * 3  # a loss and a balance each
    assert "PlanCandidate" in lines[3]
    assert float(lines[4].removeprefix("tensor(").split(",")[0].rstrip(")")) > 0


def test_the_notebook_runs(monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("pipescope._torch", reason="this build has no engine for this torch")
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    path = ROOT / "python" / "examples" / "transformer.ipynb"
    assert not any(cell.get("outputs") for cell in json.loads(path.read_text())["cells"]), "clear the outputs"
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    pictures = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
        if "<svg" in output.get("data", {}).get("text/html", "")
    ]
    assert pictures
