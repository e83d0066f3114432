#!/usr/bin/env python3
"""Reads a PipeScope trace with only sqlite3 and json: how much the lanes waited, and what each layer costs.

    python3 docs/examples/read_trace.py out.sqlite
"""

import json
import sqlite3
import statistics
import sys


def open_trace(path):
    """Opens the trace read-only, so a run may still be writing it."""
    trace = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    trace.row_factory = sqlite3.Row
    return trace


def run_values(trace):
    """Returns what was run. Each value of PIPESCOPE_RUN is JSON."""
    return {row["key"]: json.loads(row["value"]) for row in trace.execute("SELECT key, value FROM PIPESCOPE_RUN")}


def lost_ranges(trace):
    """Counts lost ranges. If there are any, idle time is unknown and bubble fractions are wrong."""
    return trace.execute("SELECT coalesce(sum(dropped), 0) FROM PIPESCOPE_DROPS").fetchone()[0]


def unfinished_steps(trace, run):
    """Returns the steps that a killed or running recording may not hold completely; the last one if none is known."""
    marked = "SELECT count(*) FROM PIPESCOPE_DIAGNOSTIC WHERE source = 'trace' AND text LIKE 'the recording was cut off%'"
    if "closed" in run and trace.execute(marked).fetchone()[0] == 0:
        return set()
    steps = {row[0] for row in trace.execute("SELECT DISTINCT step FROM PIPESCOPE_TASK WHERE source = 'measured'")}
    finished = {row[0] for row in trace.execute("SELECT step FROM PIPESCOPE_STEP")}
    return steps - finished if finished else {max(steps)} if steps else set()


def length_of_union(spans):
    """Returns the nanoseconds that at least one of the spans covers."""
    total, covered_to = 0, None
    for start, end in sorted(spans):
        start = start if covered_to is None else max(start, covered_to)
        total += max(0, end - start)
        covered_to = end if covered_to is None else max(covered_to, end)
    return total


def bubble_fractions(trace, source):
    """Returns, by step, the mean over lanes of 1 - busy / step time. Leaves out warm-up steps."""
    query = """
        SELECT step, lane, start, "end" FROM PIPESCOPE_TASK
        WHERE source = ? AND lane IS NOT NULL AND kind IN ('forward', 'recompute', 'backward', 'backward_weight')
          AND (source = 'simulated' OR step NOT IN (SELECT step FROM PIPESCOPE_STEP WHERE warmup))"""
    steps = {}
    for row in trace.execute(query, (source,)):
        steps.setdefault(row["step"], {}).setdefault(row["lane"], []).append((row["start"], row["end"]))
    fractions = {}
    for step, lanes in sorted(steps.items()):
        spans = [span for lane in lanes.values() for span in lane]
        length = max(end for _, end in spans) - min(start for start, _ in spans)
        if length > 0:
            fractions[step] = statistics.mean(1 - length_of_union(lane) / length for lane in lanes.values())
    return fractions


def layer_costs(trace):
    """Returns (name, forward ns, backward ns) of each layer, at the smallest profiled micro-batch."""
    row = trace.execute("SELECT profile FROM PIPESCOPE_PROFILE").fetchone()
    if row is None:
        return []
    profile = json.loads(row["profile"])
    return [(layer["name"], layer["forward_ns"][0], layer["backward_ns"][0]) for layer in profile["layers"]]


def counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def main(path):
    trace = open_trace(path)
    run = run_values(trace)
    print(f"model {run.get('model', 'unknown')}, {counted(len(run.get('lanes', [])), 'lane')}")
    lost = lost_ranges(trace)
    if lost:
        print(f"warning: the recorder lost {counted(lost, 'range')}; measured bubble fractions are not shown")
    unfinished = unfinished_steps(trace, run)
    if unfinished:
        print(f"the recording was cut off; steps left out: {', '.join(map(str, sorted(unfinished)))}")
    for source in ("measured", "simulated"):
        fractions = bubble_fractions(trace, source)
        if source == "measured":
            fractions = {step: fraction for step, fraction in fractions.items() if step not in unfinished}
        if fractions and not (lost and source == "measured"):
            median = statistics.median(fractions.values())
            print(f"{source}: {counted(len(fractions), 'step')}, bubble fraction {median:.1%} (median)")
    for name, forward, backward in layer_costs(trace):
        print(f"  {name}: forward {forward / 1e6:.3f} ms, backward {backward / 1e6:.3f} ms")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
