"""Runs torchgpipe's own tests against pipescope.compat, where they lie.

    python python/tests/run_torchgpipe_tests.py FOLDER

FOLDER is a checkout of kakaobrain/torchgpipe, release 0.0.7. Its tests run twice, in processes of their own: with the
torchgpipe that lies beside them, and with ours. Every test of public behaviour that passes with theirs must pass with ours,
except for those that are listed here with the reason. Tests of modules that are internal to torchgpipe are counted apart.
Ends with code 0 if all of that holds.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PUBLIC = [
    "test_balance.py",
    "test_bugs.py",
    "test_deferred_batch_norm.py",
    "test_gpipe.py",
    "test_inplace.py",
    "test_transparency.py",
    "skip/test_api.py",
    "skip/test_gpipe.py",
    "skip/test_stash_pop.py",
    "skip/test_verify_skippables.py",
]
# Tests in those files that look at internals, or where we differ on purpose.
EXCEPT = {
    "test_gpipe.py::test_checkpoint_mode": "counts autograd nodes by name",
    "test_gpipe.py::test_checkpoint_eval": "looks for autograd nodes by name",
    "test_inplace.py::test_inplace_on_requires_grad": "we refuse the change in the forward already, by a message of our own",
}

PLUGIN = """
import json, os, sys, types

if os.environ["TORCHGPIPE_OURS"] == "1":
    import pipescope.compat
    pipescope.compat.install()
    portal = types.ModuleType("torchgpipe.skip.portal")  # internal, and named only to say that it is not used
    import torch
    class _Never(torch.autograd.Function):
        pass
    portal.PortalBlue = portal.PortalCopy = portal.PortalOrange = _Never
    sys.modules["torchgpipe.skip.portal"] = portal

outcomes = {}

def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        outcomes.setdefault(report.nodeid, outcome)

def pytest_sessionfinish():
    with open(os.environ["TORCHGPIPE_OUTCOMES"], "w") as file:
        json.dump(outcomes, file)
"""


def run(folder: pathlib.Path, files: list[str], ours: bool) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as temporary:
        pathlib.Path(temporary, "torchgpipe_outcomes.py").write_text(PLUGIN)
        outcomes = pathlib.Path(temporary, "outcomes.json")
        path = [temporary, *([] if ours else [str(folder)]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TORCHGPIPE_OURS": "1" if ours else "0",
                       "TORCHGPIPE_OUTCOMES": str(outcomes), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "torchgpipe_outcomes", "-p", "no:cacheprovider",
                   "--rootdir", str(folder / "tests"), "-c", os.devnull, *[str(folder / "tests" / name) for name in files]]
        done = subprocess.run(command, env=environment, cwd=temporary, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=600)
        if not outcomes.exists():
            sys.exit(f"pytest did not end in good order:\n{done.stdout}")
        found = json.loads(outcomes.read_text())
    return {name.split("tests/")[-1]: outcome for name, outcome in found.items()}


def summary(outcomes: dict[str, str]) -> str:
    counts: dict[str, int] = {}
    for outcome in outcomes.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder.resolve()
    tests = folder / "tests"
    if not (tests / "test_gpipe.py").exists():
        sys.exit(f"{folder} holds no tests/test_gpipe.py; give a checkout of kakaobrain/torchgpipe")
    every = sorted(str(path.relative_to(tests)) for path in tests.rglob("test_*.py"))
    internal = [name for name in every if name not in PUBLIC]
    theirs, ours = run(folder, PUBLIC, ours=False), run(folder, PUBLIC, ours=True)
    print(f"public behaviour, torchgpipe: {summary(theirs)}")
    print(f"public behaviour, pipescope:  {summary(ours)}")
    lost = [name for name, outcome in theirs.items() if outcome == "passed" and ours.get(name) != "passed"]
    unexplained = [name for name in lost if name.split("[")[0] not in EXCEPT]
    for name in lost:
        print(f"  differs: {name}: {EXCEPT.get(name.split('[')[0], 'NOT EXPLAINED')}")
    for name in sorted(set(ours) - set(theirs)):
        print(f"  only with ours: {name}: {ours[name]}")
    print(f"internal modules, torchgpipe: {summary(run(folder, internal, ours=False))}; not run with pipescope")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
