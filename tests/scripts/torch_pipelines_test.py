#!/usr/bin/env python3
"""Trains with torch.distributed.pipelining on gloo, imports what its profiler leaves, and simulates the imported profile.

    torch_pipelines_test.py BIN PYTHON                   what the tests run; without torch in PYTHON the exit code is 77
    torch_pipelines_test.py BIN PYTHON --long [REGEX]    all schedules, longer runs, as a table; needs a quiet machine
    torch_pipelines_test.py BIN PYTHON --compute [REGEX] the same, with stages that compute; a core for each rank

Every task that a stage ran must be in the trace, and no other. In short runs and in runs of --long a stage waits instead
of computing, so ranks may outnumber cores. REGEX chooses among names such as "4 ranks, 1F1B".
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ANNOTATE = HERE.parent.parent / "docs" / "examples" / "annotate_pipeline.py"
SKIPPED = 77
KINDS = ["forward", "backward", "backward_weight"]
# Schedule: stages of a rank
SCHEDULES = {"GPipe": 1, "1F1B": 1, "Interleaved1F1B": 2, "LoopedBFS": 2, "InterleavedZeroBubble": 2, "ZBVZeroBubble": 2,
             "DualPipeV": 2}
SHORT = [("GPipe", 2, 4), ("1F1B", 2, 4), ("GPipe", 4, 8), ("1F1B", 4, 8), ("Interleaved1F1B", 2, 4)]


def fail(text):
    sys.exit(f"torch_pipelines_test: {text}")


def output_of(words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=200, check=False)
    if result.returncode != 0:
        fail(f"{' '.join(map(str, words))} exited with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def calls_in(traces):
    """(kind, stage, micro-batch) of each call, by step."""
    steps = collections.defaultdict(list)
    for file in sorted(traces.glob("calls-rank*.txt")):
        for line in file.read_text().splitlines():
            step, kind, stage, chunk = line.split()
            steps[int(step)].append((kind, int(stage), int(chunk)))
    return [sorted(steps[step]) for step in sorted(steps)]


def tasks_in(pipescope, trace):
    """The same of the trace's tasks. Copies, of which a trace may show one end only, and optimizers are left out."""
    steps = collections.defaultdict(list)
    lines = output_of([pipescope, "export", trace, "--format", "csv", "-o", "-"]).splitlines()
    columns = lines[0].split(",")
    for line in lines[1:]:
        row = dict(zip(columns, line.split(",")))
        if row["kind"] in KINDS:
            steps[int(row["step"])].append((row["kind"], int(row["partition"]), int(row["micro_batch"])))
    return [sorted(steps[step]) for step in sorted(steps)]


def check_run(pipescope, python, folder, run, mode):
    schedule, ranks, micro_batches = run
    stages = SCHEDULES[schedule]
    traces = folder / f"{schedule}-{ranks}"
    steps = 3 if mode == "short" else 10
    work = {"short": ["--width", 64, "--wait-ms", 2], "long": ["--width", 64, "--wait-ms", 10],
            "compute": ["--width", 768, "--samples", 64, "--depth", 4]}[mode]
    output_of([python, HERE / "torch_pipeline.py", traces, "--schedule", schedule, "--ranks", ranks,
               "--stages-per-rank", stages, "--micro-batches", micro_batches, "--steps", steps, *work, "--annotate", ANNOTATE])
    trace = folder / f"{schedule}-{ranks}.sqlite"
    output_of([pipescope, "import", traces, "-o", trace])
    calls, tasks = calls_in(traces), tasks_in(pipescope, trace)
    if len(calls) != steps or tasks != calls:
        fail(f"{schedule}: the stages ran {calls}, and the trace has {tasks}")
    compared = json.loads(output_of([pipescope, "compare", trace, "--json"]))
    if len(compared["steps"]) != steps:
        fail(f"{schedule}: steps {compared['steps']} of {steps}")
    # A loaded machine interrupts ranks; on a quiet one the error is within 5 %.
    if not -0.5 < compared["step_error"] < 0.5:
        fail(f"{schedule}: the step is predicted with an error of {compared['step_error']:.0%}")
    similar = any("no schedule that is known" in each for each in compared["warnings"])
    print(f"| {schedule} | {ranks} | {ranks * stages} | {micro_batches} | {sum(map(len, tasks))} of {sum(map(len, calls))} | "
          f"{compared['measured_step_ns'] / 1e6:.1f} ms | {compared['simulated_step_ns'] / 1e6:.1f} ms | "
          f"{compared['step_error']:+.1%} | {'similar' if similar else 'same'} |", flush=True)
    if similar and mode == "short":
        fail(f"{schedule}: {compared['warnings']}")


def main():
    pipescope, python, words = pathlib.Path(sys.argv[1]) / "pipescope", sys.argv[2], sys.argv[3:]
    found = subprocess.run([python, "-c", "import torch.distributed.pipelining"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"{python} cannot import torch; set PIPESCOPE_TORCH_PYTHON to one that can, and configure again")
        sys.exit(SKIPPED)
    mode = words[0].removeprefix("--") if words else "short"
    runs = SHORT if mode == "short" else [(schedule, ranks, 2 * ranks) for ranks in (2, 4) for schedule in SCHEDULES]
    print("| schedule | ranks | stages | micro-batches | tasks found | measured step | simulated | error | order |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for run in runs:
            if mode == "short" or re.search(words[1] if len(words) > 1 else "", f"{run[1]} ranks, {run[0]}"):
                check_run(pipescope, python, pathlib.Path(folder), run, mode)


if __name__ == "__main__":
    main()
