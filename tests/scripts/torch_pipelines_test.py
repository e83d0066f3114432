#!/usr/bin/env python3
"""Trains with torch.distributed.pipelining on gloo, and opens what its profiler leaves.

    torch_pipelines_test.py BIN PYTHON          what the tests run; without torch in PYTHON the exit code is 77
    torch_pipelines_test.py BIN PYTHON --long   longer runs, whose step errors are worth a look on a quiet machine

A stage waits instead of computing, so ranks may outnumber cores.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ANNOTATE = HERE.parent.parent / "docs" / "examples" / "annotate_pipeline.py"
SKIPPED = 77
#        schedule, ranks, stages of a rank, micro-batches, kinds of tasks, whether the simulator knows the order
RUNS = [("GPipe", 2, 1, 4, ["forward", "backward"], True),
        ("1F1B", 2, 1, 4, ["forward", "backward"], True),
        ("GPipe", 4, 1, 8, ["forward", "backward"], True),
        ("1F1B", 4, 1, 8, ["forward", "backward"], True),
        ("Interleaved1F1B", 2, 2, 4, ["forward", "backward"], True)]


def fail(text):
    sys.exit(f"torch_pipelines_test: {text}")


def output_of(words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=200, check=False)
    if result.returncode != 0:
        fail(f"{' '.join(map(str, words))} exited with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def check_run(pipescope, python, folder, run, long):
    schedule, ranks, stages, micro_batches, kinds, known = run
    traces = folder / f"{schedule}-{ranks}"
    steps = 10 if long else 3
    output_of([python, HERE / "torch_pipeline.py", traces, "--schedule", schedule, "--ranks", ranks,
               "--stages-per-rank", stages, "--micro-batches", micro_batches, "--steps", steps, "--width", 64,
               "--wait-ms", 10 if long else 2, "--annotate", ANNOTATE])
    compared = json.loads(output_of([pipescope, "compare", traces, "--json"]))
    rows = output_of([pipescope, "merge", traces, "-o", folder / f"{schedule}-{ranks}.sqlite", "--json"])
    if json.loads(rows)["tasks"] < steps * len(kinds) * ranks * stages * micro_batches:
        fail(f"{schedule}: {rows}")
    if len(compared["steps"]) != steps:
        fail(f"{schedule}: steps {compared['steps']} of {steps}")
    # Every forward and backward has a twin. Copies without one are those that the trace does not show.
    if compared["tasks_matched"] < steps * len(kinds) * ranks * stages * micro_batches:
        fail(f"{schedule}: {compared['tasks_matched']} tasks have a twin")
    unknown = [each for each in compared["warnings"] if "no schedule that is known" in each]
    if bool(unknown) == known:
        fail(f"{schedule}: {compared['warnings']}")
    # A loaded machine interrupts ranks; on a quiet one the error is within 5 %.
    if not -0.5 < compared["step_error"] < 0.5:
        fail(f"{schedule}: the step is predicted with an error of {compared['step_error']:.0%}")
    print(f"{schedule} on {ranks} ranks: {compared['measured_step_ns'] / 1e6:.2f} ms measured, "
          f"{compared['simulated_step_ns'] / 1e6:.2f} ms simulated, {compared['step_error']:+.1%}; "
          f"{compared['tasks_matched']} tasks with a twin, {compared['tasks_unmatched']} without")


def main():
    pipescope, python = pathlib.Path(sys.argv[1]) / "pipescope", sys.argv[2]
    found = subprocess.run([python, "-c", "import torch.distributed.pipelining"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"{python} cannot import torch; set PIPESCOPE_TORCH_PYTHON to one that can, and configure again")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        for run in RUNS:
            check_run(pipescope, python, pathlib.Path(folder), run, "--long" in sys.argv)


if __name__ == "__main__":
    main()
