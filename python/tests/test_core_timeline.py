"""Timeline, Schedule and Trace."""

import contextlib
import copy
import dataclasses
import json
import pickle
import sqlite3
import xml.etree.ElementTree

import numpy
import pipescope
import pytest
from conftest import make_run

OPTIONS = {"balance": [4, 4], "chunks": 4, "batch": 16}


@pytest.fixture
def timeline(profile):
    return profile.simulate(**OPTIONS, link_bandwidth="1GB/s").timeline


def test_is_a_sequence_of_tasks(timeline):
    tasks = list(timeline)
    assert len(tasks) == len(timeline)
    assert timeline[0] == tasks[0]
    assert timeline[-1] == tasks[-1]
    assert timeline[1:3] == tuple(tasks[1:3])
    assert tasks[0].kind == "forward"
    assert (tasks[0].partition, tasks[0].micro_batch, tasks[0].lane, tasks[0].start_ns) == (0, 0, 0, 0)
    assert sum(task.kind == "forward" for task in tasks) == 8
    assert all(task.duration_ns >= 0 for task in tasks)
    assert [lane.name for lane in timeline.lanes] == ["lane 0", "lane 1"]
    assert timeline.source == "simulated"
    with pytest.raises(IndexError):
        timeline[len(timeline)]


def test_is_the_same_after_copying_and_pickling(profile, timeline):
    assert copy.deepcopy(timeline) == timeline == pickle.loads(pickle.dumps(timeline))
    simulation = profile.simulate(**OPTIONS)
    assert copy.deepcopy(simulation) == simulation == pickle.loads(pickle.dumps(simulation))


def test_has_read_only_columns_for_numpy(timeline):
    starts = numpy.asarray(timeline.columns["start_ns"])
    assert starts.dtype == numpy.int64
    assert starts.tolist() == [task.start_ns for task in timeline]
    with pytest.raises(ValueError, match="read-only"):
        starts[0] = 1


def test_is_a_frame_of_pandas(profile, timeline):
    frame = timeline.to_pandas()
    assert frame["duration_ns"].tolist() == [task.duration_ns for task in timeline]
    assert set(frame["kind"]) == {task.kind for task in timeline}
    memory = profile.simulate(**OPTIONS).memory.to_pandas()
    peaks = [lane.peak_bytes for lane in profile.simulate(**OPTIONS).lanes]
    assert memory.groupby("lane")["peak_bytes"].max().tolist() == peaks


def test_is_a_picture(timeline):
    picture = xml.etree.ElementTree.fromstring(timeline._repr_html_())
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(title.startswith("forward of micro-batch") for title in titles) == 8
    assert len(timeline.to_svg(width=400)) > 0


def test_draws_many_tasks_in_a_small_picture(profile):
    many = profile.simulate(balance=[1] * 8, chunks=2000, batch=2000).timeline
    assert len(many) > 30_000
    assert len(many.to_svg()) < 6_000_000


def test_draws_the_step_of_median_length_and_looks_at_each_task_once(timeline, monkeypatch):
    names = ("kind", "step", "partition", "micro_batch", "lane", "start_ns", "end_ns", "bytes")
    lengths = [(7 * step) % 101 + 1 for step in range(101)]
    rows = [(0, step, 0, 0, 0, 1000 * step + 500 * part, 1000 * step + (500 + length) * part, 0)
            for step, length in enumerate(lengths) for part in (0, 1)]
    columns = {name: b"".join(value.to_bytes(8, "little") for value in column) for name, column in zip(names, zip(*rows))}
    many = pipescope.Timeline({"source": "measured", "lanes": [("lane 0", "cpu")], **columns})
    picked = []
    step_of = pipescope.Timeline.step
    monkeypatch.setattr(pipescope.Timeline, "step", lambda self, number: picked.append(number) or step_of(self, number))
    assert len(many.to_svg()) > 0
    assert [lengths[step] for step in picked] == [51]


def test_plots_into_axes(timeline):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    assert timeline.plot(axes) is axes
    assert axes.get_xlabel() == "ms"
    assert axes.get_xlim()[1] >= timeline[-1].end_ns / 1e6
    pyplot.close(figure)


def test_escapes_what_a_file_says(profile):
    simulation = profile.simulate(**OPTIONS, devices=["<b>", "&"])
    xml.etree.ElementTree.fromstring(simulation.timeline.to_svg())


def test_names_schedules():
    assert "1f1b" in pipescope.Schedule.names(runnable=True)
    assert "pipedream" in pipescope.Schedule.names()
    assert "pipedream" not in pipescope.Schedule.names(runnable=True)


def test_makes_and_reads_schedules(tmp_path, profile):
    schedule = pipescope.Schedule("1f1b", lanes=2, chunks=4)
    assert (schedule.lanes, schedule.partitions, schedule.micro_batches, schedule.placement) == (2, 2, 4, (0, 1))
    assert 0 < schedule.idle_fraction < 1
    assert schedule.rows[0][0] == "0F0"
    schedule.save(tmp_path / "own.csv")
    loaded = pipescope.Schedule.load(tmp_path / "own.csv")
    assert loaded.to_csv() == schedule.to_csv()
    assert pipescope.Schedule.from_csv(schedule.to_csv(), "own.csv") == loaded
    assert pickle.loads(pickle.dumps(schedule)) == copy.deepcopy(schedule) == schedule
    assert len({schedule, pipescope.Schedule("1f1b", lanes=2, chunks=4)}) == 1
    options = {"balance": [4, 4], "batch": 16, "checkpoint": "never"}
    steps = {
        profile.simulate(**options, chunks=4, schedule="1f1b").step_ns,
        profile.simulate(**options, schedule=schedule).step_ns,
        profile.simulate(**options, schedule=tmp_path / "own.csv").step_ns,
    }
    assert len(steps) == 1
    assert profile.balance(batch=16, schedule=schedule).feasible
    plan = profile.plan(batch=16, schedule=[schedule, "gpipe"], partitions=2, chunks=4)
    assert {each.schedule for each in plan.candidates} == {"1f1b", "gpipe"}
    only = profile.plan(batch=16, schedule=schedule)
    assert {(each.schedule, each.chunks) for each in only.candidates} == {("1f1b", 4)}


def test_a_schedule_from_a_text_keeps_its_cells(profile):
    """Pairs of tasks, whose times overlap, recomputes, and the line with the placement."""
    pairs = pipescope.Schedule("dualpipe-v", lanes=2, chunks=4)
    again = pipescope.Schedule.from_csv(pairs.to_csv(), "again.csv")
    assert again.rows == pairs.rows
    options = {"balance": [2, 2, 2, 2], "batch": 16, "checkpoint": "never", "pair_overlap": 1}
    assert profile.simulate(**options, schedule=again).step_ns == profile.simulate(**options, schedule=pairs).step_ns
    text = "# placement 0,1\n0F0,,,0R0,0B0\n,1F0,1L0,1R0,1B0,1O\n"
    placed = pipescope.Schedule.from_csv(text)
    assert placed.to_csv() == text
    assert placed.rows == (("0F0", "", "", "0R0", "0B0"), ("", "1F0", "1L0", "1R0", "1B0", "1O"))


def test_refuses_schedules_that_cannot_run(tmp_path):
    with pytest.raises(pipescope.Error, match="wait"):
        pipescope.Schedule.from_csv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    with pytest.raises(pipescope.UsageError, match="lanes|-n"):
        pipescope.Schedule("1f1b")
    with pytest.raises(pipescope.UsageError, match="lanes is -1"):
        pipescope.Schedule("1f1b", lanes=-1, chunks=2)
    with pytest.raises(pipescope.UsageError, match="1f1c"):
        pipescope.Schedule("1f1c", lanes=2, chunks=4)
    with pytest.raises(pipescope.Error, match="missing.csv"):
        pipescope.Schedule.load(tmp_path / "missing.csv")
    with pytest.raises(AttributeError, match="does not change"):
        pipescope.Schedule("gpipe", lanes=1, chunks=1).lanes = 3


def test_opens_a_trace(run, profile):
    trace = pipescope.Trace.open(run)
    assert [step.step for step in trace.steps] == [0, 1, 2]
    assert trace.steps[0].step_ns == profile.simulate(**OPTIONS, devices="cpu,cpu").step_ns
    assert [lane.name for lane in trace.lanes] == ["lane 0", "lane 1"]
    assert trace.tasks is trace.measured
    assert trace.profile == profile
    assert trace.dropped == 0
    assert set(trace.to_pandas()["source"]) == {"measured"}
    assert "3 steps" in repr(trace)
    assert trace.measured.step(1) != trace.measured.step(2)
    assert trace._repr_html_().startswith("<svg")
    assert pickle.loads(pickle.dumps(trace)).measured == trace.measured


def test_says_what_recorded_the_run(tmp_path, run):
    assert pipescope.Trace.open(run).origin == "a PipeScope trace"
    files = []
    for rank in range(2):
        ranges = [("ProfilerStep#5", 0, 200), ("Forward 0", 10, 25), ("Backward 0", 100, 60)]
        events = [
            {"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 7, "ts": start, "dur": length}
            for name, start, length in ranges
        ]
        head = {"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}}
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps({**head, "baseTimeNanoseconds": 10**18, "traceEvents": events}))
    trace = pipescope.Trace.open(files)
    assert trace.origin == "a trace of PyTorch's profiler"
    assert "PyTorch's profiler" in repr(trace)
    assert pipescope.Trace.open(files[0]).origin == trace.origin


def test_adds_up_the_kernels_of_devices(tmp_path, run):
    assert pipescope.Trace.open(run).kernels.by_name == ()
    def event(category, name, process, thread, start, length, **arguments):
        return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": length, "args": arguments}
    events = []
    for number, (task, start) in enumerate([("PP:0F0", 0), ("PP:0B0", 100)]):
        events.append(event("user_annotation", task, 7, 7, start, 9))
        for k in range(2):
            events.append(event("cuda_runtime", "cudaLaunchKernel", 7, 7, start + k, 1, correlation=10 * number + k + 1))
            events.append(event("kernel", "gemm", 0, 3, start + 20 + 10 * k, 5 + k, correlation=10 * number + k + 1,
                                **{"grid": [128, 2, 1], "block": [256, 1, 1], "registers per thread": 40}))
    events.append(event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0, 9, 200, 4, **{
        "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2,
        "Process Group Ranks": "[0, 1]"}))
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 10**18, "traceEvents": events}))
    kernels = pipescope.Trace.open(path).kernels
    gemm, nccl = kernels.by_name
    assert (gemm.count, gemm.total_ns, gemm.p95_ns, gemm.share) == (4, 22_000, 6_000, 22 / 26)
    assert (gemm.launch.grid, gemm.launch.block, gemm.launch.registers) == ((128, 2, 1), (256, 1, 1), 40)
    assert (nccl.bytes, nccl.bandwidth, nccl.launch) == (2000, 2000 / 4e-6, None)
    (reduce,) = kernels.collectives
    assert (reduce.type, reduce.bytes, reduce.ranks, reduce.skew_ns, reduce.best_bandwidth) == ("all_reduce", 2000, 2, None, 5e8)
    assert list(kernels.to_pandas(by="collective")["element_type"]) == ["BFloat16"]
    assert [(each.kind, each.partition, each.count) for each in kernels.by_task] == [("forward", 0, 2), ("backward", 0, 2)]
    assert kernels.by_stream[0].count == 4
    assert list(kernels.to_pandas()["registers"])[0] == 40
    frame = kernels.to_pandas(by="task")
    assert list(frame["total_ns"]) == [11_000, 11_000] and "kind" in frame and "kind" not in kernels.to_pandas()
    with pytest.raises(pipescope.UsageError, match="name, task, stream or collective"):
        kernels.to_pandas(by="rank")


def test_says_which_steps_are_whole(tmp_path, profile):
    path = make_run(tmp_path / "damaged.sqlite", profile, **OPTIONS, devices=["cpu", "cpu"])
    assert all(step.whole for step in pipescope.Trace.open(path).steps)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND kind = 'backward' AND partition = 0 AND microBatch = 0")
    trace = pipescope.Trace.open(path)
    assert [step.whole for step in trace.steps] == [True, False, True]
    assert trace.compare().steps == (0, 2)


def test_a_comparison_prints_the_steps_of_its_error(run):
    comparison = pipescope.Trace.open(str(run)).compare()
    medians = dataclasses.replace(comparison, measured_step_ns=4_000_000, measured_step_mean_ns=9_000_000,
                                  simulated_step_ns=3_000_000, simulated_step_mean_ns=None, step_error=-0.25)
    assert "measured 4 ms, simulated 3 ms, error -25.00%" in repr(medians)
    means = dataclasses.replace(medians, simulated_step_mean_ns=9_000_000, step_error=0.0)
    assert "measured 9 ms, simulated 9 ms, error +0.00%" in repr(means)


def test_compares_a_run_with_its_simulation(run):
    comparison = pipescope.Trace.open(str(run)).compare()
    assert comparison.steps == (0, 1, 2)
    assert abs(comparison.step_error) < 1e-3
    assert comparison.tasks_unmatched == 0
    assert sum(cause.share for cause in comparison.bubbles.simulated.causes) == pytest.approx(
        comparison.simulated_bubble_fraction
    )
    assert "error" in repr(comparison)


def test_compares_two_runs(run, tmp_path, profile):
    slower = make_run(tmp_path / "slower Ω.sqlite", profile, slower=1.5, **OPTIONS, devices=["cpu", "cpu"])
    compared = pipescope.Trace.open(run).compare(slower)
    assert compared.step.change == pytest.approx(0.5, rel=1e-3)
    assert compared.joined_by == "task"
    assert compared.only_before == compared.only_after == 0
    assert pipescope.Trace.open(run).compare(pipescope.Trace.open(slower)) == compared


def test_simulates_what_another_run_would_have_been(run):
    trace = pipescope.Trace.open(run)
    measured = trace.measured_run()
    step = trace.steps[0].step_ns
    assert measured.profile.simulate(**measured.options).step_ns == pytest.approx(step, rel=0.01)
    assert measured.profile.simulate(**{**measured.options, "chunks": 8}).micro_batches == 8
    assert trace.profile.simulate(**trace.options).step_ns == pytest.approx(step, rel=1e-6)


def test_refuses_what_is_no_trace(tmp_path, profile):
    profile.save(tmp_path / "p.json")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.sqlite").write_text("no trace")
    for path, message in (
        (tmp_path / "p.json", "Profile.load"),
        (tmp_path / "missing.sqlite", "missing.sqlite"),
        (tmp_path / "empty", "without a trace"),
        (tmp_path / "text.sqlite", "text.sqlite"),
        ([], "empty list"),
    ):
        with pytest.raises(pipescope.Error, match=message):
            pipescope.Trace.open(path)
    profile.simulate(**OPTIONS, trace=tmp_path / "simulated.sqlite")
    with pytest.raises(pipescope.TraceFormatError, match="measured"):
        pipescope.Trace.open(tmp_path / "simulated.sqlite").compare()
