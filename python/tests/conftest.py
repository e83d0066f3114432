"""What the tests of the package share: profiles and traces that need no torch."""

import contextlib
import sqlite3

import pipescope
import pytest


def fields_of(layers=8, **more):
    """The fields of a profile of equal layers, at micro-batches of 1 and 4 samples."""
    layer = {
        "forward_ns": [20_000, 60_000],
        "backward_ns": [40_000, 110_000],
        "output_bytes": [1024, 4096],
        "saved_bytes": [4096, 16384],
        "parameter_bytes": 65536,
        "flops": [1_000_000, 4_000_000],
    }
    return {
        "format": "pipescope.profile",
        "version": 1,
        "model": "eight",
        "samples": [1, 4],
        **more,
        "layers": [{"name": f"layer {number}", **layer} for number in range(layers)],
    }


@pytest.fixture
def profile():
    return pipescope.Profile.from_dict(fields_of())


@pytest.fixture
def noisy():
    return pipescope.Profile.from_dict(fields_of(16, step_cv=0.05, host_cores=2))


def make_run(path, profile, slower=1.0, steps=3, **options):
    """A trace of a run that took its simulated times: what was simulated is said to be measured, for several steps."""
    profile.simulate(trace=path, **options)
    with contextlib.closing(sqlite3.connect(path)) as trace, trace:
        columns = [row[1] for row in trace.execute("PRAGMA table_info(PIPESCOPE_TASK)")]
        rows = [dict(zip(columns, row)) for row in trace.execute("SELECT * FROM PIPESCOPE_TASK")]
        length = int(max(row["end"] for row in rows) * 1.5 * slower)
        trace.execute("DELETE FROM PIPESCOPE_TASK")
        for step in range(steps):
            for row in rows:
                times = {name: int(row[name] * slower) + step * length for name in ("start", "end")}
                changed = {**row, **times, "step": step, "source": "measured"}
                changed.pop("id", None)
                names = ", ".join(f'"{name}"' for name in changed)
                places = ", ".join("?" for _ in changed)
                trace.execute(f"INSERT INTO PIPESCOPE_TASK ({names}) VALUES ({places})", list(changed.values()))
    return path


@pytest.fixture
def run(tmp_path, profile):
    return make_run(tmp_path / "run.sqlite", profile, balance=[4, 4], chunks=4, batch=16, devices=["cpu", "cpu"])
