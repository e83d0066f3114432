"""Traces of a training in Python, and staggered updates."""

from __future__ import annotations

import contextlib
import copy
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pipescope
import pytest
import torch
from torch import nn

mse = nn.functional.mse_loss


def layers_of(count: int = 4, width: int = 8) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(count)]).double()


def batches_of(count: int, samples: int = 8, width: int = 8):
    generator = torch.Generator().manual_seed(1)
    return [tuple(torch.randn(samples, width, dtype=torch.float64, generator=generator) for _ in range(2))
            for _ in range(count)]


# ---- torch.profiler ----


def test_torch_profiler_sees_the_tasks_and_compare_the_lanes(tmp_path):
    model = pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, chunks=4, schedule="1f1b", checkpoint="always")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for x, y in batches_of(3):
            optimizer.zero_grad()
            model.step(x, y, mse)
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "own.json"))
    trace = pipescope.Trace.open(tmp_path / "own.json")
    assert [lane.name for lane in trace.lanes] == ["rank 0, lane 0", "rank 0, lane 1"]
    step = trace.tasks.step(trace.tasks.steps[1])
    counts = {}
    for task in step:
        counts[task.kind, task.lane] = counts.get((task.kind, task.lane), 0) + 1
        assert task.partition == task.lane
    per_lane = {(kind, lane): 4 for kind in ("forward", "recompute", "backward") for lane in (0, 1)}
    assert counts == {**per_lane, ("loss", 1): 4, ("optimizer", 0): 1}
    done = subprocess.run([sys.executable, "-m", "pipescope", "compare", str(tmp_path / "own.json")], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0 and "lane 1 busy" in done.stdout, done.stdout + done.stderr


# ---- record() ----


def tasks_of(partitions: int, chunks: int, losses: int, checkpointed: int) -> dict[str, int]:
    return {"forward": partitions * chunks, "backward": partitions * chunks, "loss": losses,
            "recompute": checkpointed * partitions, "copy_forward": (partitions - 1) * chunks,
            "copy_backward": (partitions - 1) * chunks}


def test_a_training_is_recorded_and_compared_with_its_simulation(tmp_path):
    layers = layers_of(4, 64)
    data = batches_of(6, 16, 64)
    profile = pipescope.profile(layers, data[0][0], data[0][1], mse, samples=[4], time_limit_s=1)
    model = pipescope.GPipe(layers, [2, 2], devices=["cpu"] * 2, chunks=4, checkpoint="except_last", schedule="1f1b")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    model.step(*data[0], mse)  # outside: not in the trace
    with model.record(tmp_path / "run.sqlite", profile=profile, warmup=2):
        for x, y in data[1:]:
            optimizer.zero_grad()
            losses.append(float(model.step(x, y, mse)))
            optimizer.step()
            with torch.no_grad():
                model(x)  # no step
    model.step(*data[0], mse)
    trace = pipescope.Trace.open(tmp_path / "run.sqlite")
    assert [step.step for step in trace.steps] == [1, 2, 3, 4, 5]
    assert [step.training_loss for step in trace.steps] == losses
    assert [step.warmup for step in trace.steps] == [True, True, False, False, False]
    assert trace.dropped == 0
    for step in trace.steps:
        assert 0 < step.step_ns <= step.wall_step_ns
        found: dict[str, int] = {}
        for task in trace.tasks:
            if task.step == step.step:
                found[task.kind] = found.get(task.kind, 0) + 1
        assert found == tasks_of(2, 4, 4, 3), found
    assert trace.options["balance"] == [2, 2] and trace.options["batch"] == 16
    comparison = trace.compare()
    assert comparison.tasks_unmatched == 0
    assert trace.profile is not None and len(trace.profile) == 4


def test_mini_batches_of_other_sizes_are_noted_and_not_compared(tmp_path):
    layers = layers_of(4, 64)
    data = batches_of(4, 16, 64)
    data.insert(2, batches_of(1, 5, 64)[0])  # as the last one of a data set
    profile = pipescope.profile(layers, data[0][0], data[0][1], mse, samples=[4], time_limit_s=1)
    model = pipescope.GPipe(layers, [2, 2], devices=["cpu"] * 2, chunks=4, schedule="1f1b")
    with model.record(tmp_path / "run.sqlite", profile=profile):
        for x, y in data:
            model.step(x, y, mse)
            with torch.no_grad():
                model(x[:3])  # no step
    with contextlib.closing(sqlite3.connect(tmp_path / "run.sqlite")) as database:
        rows = database.execute("SELECT samples FROM PIPESCOPE_STEP ORDER BY step").fetchall()
    assert [samples for (samples,) in rows] == [16, 16, 5, 16, 16]
    comparison = pipescope.Trace.open(tmp_path / "run.sqlite").compare()
    assert any("other samples than the simulated one: step 2" in warning for warning in comparison.warnings)


@pytest.mark.parametrize("driver", ["scheduled", "autograd"])
def test_forward_and_backward_are_a_step(tmp_path, driver):
    model = pipescope.GPipe(layers_of(), [1, 3], devices=["cpu"] * 2, chunks=2, checkpoint="never", driver=driver)
    with model.record(tmp_path / "run.sqlite"):
        for x, y in batches_of(3):
            mse(model(x), y).backward()
    trace = pipescope.Trace.open(tmp_path / "run.sqlite")
    assert len(trace.steps) == 3
    kinds = [task.kind for task in trace.tasks]
    assert kinds.count("forward") == kinds.count("backward") == 3 * 2 * 2
    for step in trace.steps:
        times = [(task.start_ns, task.end_ns) for task in trace.tasks
                 if task.step == step.step and task.kind in ("forward", "backward")]
        assert min(start for start, _ in times) >= step.start_ns
        assert max(end for _, end in times) <= step.end_ns


def test_a_schedule_with_two_partitions_a_lane_and_one_from_a_csv(tmp_path):
    own = pipescope.Schedule.from_csv(pipescope.Schedule("zero-bubble-h1", lanes=2, chunks=4).to_csv(), name="own.csv")
    for number, (schedule, partitions) in enumerate((("interleaved", 4), (own, 2))):
        model = pipescope.GPipe(layers_of(), [4 // partitions] * partitions, devices=["cpu"] * 2, chunks=4,
                                checkpoint="never", schedule=schedule)
        with model.record(tmp_path / f"{number}.sqlite"):
            for x, y in batches_of(2):
                model.step(x, y, mse)
        trace = pipescope.Trace.open(tmp_path / f"{number}.sqlite")
        assert len(trace.lanes) == 2
        assert sum(task.kind == "forward" for task in trace.tasks) == 2 * 4 * partitions
        assert trace.options["balance"] == [4 // partitions] * partitions


def test_a_trace_holds_the_tasks_of_its_model_alone(tmp_path):
    """Not those of the measurement that balances it."""
    model = pipescope.GPipe(layers_of(), devices=["cpu"] * 2, chunks=4)
    (tmp_path / "there.sqlite").write_text("")
    with pytest.raises(pipescope.TraceError, match="exists"), model.record(tmp_path / "there.sqlite"):
        raise AssertionError("entered")
    other = pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2)
    with model.record(tmp_path / "run.sqlite"):
        for x, y in batches_of(2):
            model.step(x, y, mse)
        for call in (lambda: other.step(x, y, mse), lambda: other(x), lambda: pipescope.profile(layers_of(), x)):
            with pytest.raises(pipescope.UsageError, match="records another model"):
                call()
    other.step(x, y, mse)
    trace = pipescope.Trace.open(tmp_path / "run.sqlite")
    assert [step.step for step in trace.steps] == [0, 1]
    assert sum(task.kind == "forward" for task in trace.tasks) == 2 * 4 * 2
    with pipescope.GPipe(layers_of(), devices=["cpu"] * 2).record(tmp_path / "empty.sqlite"):
        pass
    assert not pipescope.Trace.open(tmp_path / "empty.sqlite").steps


def test_a_recording_ends_with_its_block_whatever_happens(tmp_path):
    class Raises(nn.Module):
        def forward(self, x):
            if fails:
                raise KeyError("mine")
            return x

    fails = False
    model = pipescope.GPipe([nn.Linear(8, 8).double(), Raises()], [1, 1], devices=["cpu"] * 2, chunks=2)
    (x, y), = batches_of(1)
    with pytest.raises(KeyError, match="mine"), model.record(tmp_path / "run.sqlite"):
        model.step(x, y, mse)
        fails = True
        model.step(x, y, mse)
    done = [step.step for step in pipescope.Trace.open(tmp_path / "run.sqlite").steps if step.wall_step_ns is not None]
    assert done == [0]
    fails = False
    with model.record(tmp_path / "run.sqlite", force=True):
        model.step(x, y, mse)
        copied = copy.deepcopy(model)
        with pytest.raises(pipescope.UsageError, match="is being recorded"), model.record(tmp_path / "other.sqlite"):
            pass
        other = pipescope.GPipe(layers_of(), [4], devices=["cpu"])
        with pytest.raises(pipescope.Error), other.record(tmp_path / "other.sqlite"):  # one at a time in a process
            pass
    copied.step(x, y, mse)
    with pytest.raises(pipescope.UsageError, match="adamw2"), model.record(tmp_path / "y.sqlite", optimizer="adamw2"):
        pass
    with pytest.raises(pipescope.TraceError, match="run.sqlite"), model.record(tmp_path / "run.sqlite"):
        pass
    with pytest.raises(pipescope.TraceError), model.record(tmp_path / "nowhere" / "run.sqlite"):
        pass
    profile = pipescope.profile([nn.Linear(8, 8)], torch.randn(2, 8), time_limit_s=1)
    with pytest.raises(pipescope.UsageError, match="1 layers"), model.record(tmp_path / "x.sqlite", profile=profile):
        pass


def test_a_recording_costs_no_gradients(tmp_path):
    plain, recorded = (pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, chunks=4) for _ in range(2))
    (x, y), = batches_of(1)
    plain.step(x, y, mse)
    with recorded.record(tmp_path / "run.sqlite"):
        recorded.step(x, y, mse)
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(plain.parameters(), recorded.parameters()))


# ---- train_staggered() ----


@pytest.mark.parametrize("schedule, partitions", [("gpipe", 2), ("1f1b", 2), ("interleaved", 4), ("zero-bubble-h1", 2)])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_staggered_updates_equal_steps_bit_for_bit(schedule, partitions, optimizer):
    data = batches_of(5)
    models = [pipescope.GPipe(layers_of(), [4 // partitions] * partitions, devices=["cpu"] * 2, chunks=4,
                              checkpoint="never", schedule=schedule) for _ in range(2)]
    expected = []
    plain = optimizer(models[0].parameters(), lr=0.05)
    for x, y in data:
        plain.zero_grad()
        expected.append(models[0].step(x, y, mse))
        plain.step()
    lanes = [optimizer(models[1].lane_parameters(lane), lr=0.05) for lane in range(2)]
    threads = set()

    def update(lane: int) -> None:
        threads.add(threading.get_ident())
        lanes[lane].step()
        lanes[lane].zero_grad()

    losses: list[torch.Tensor] = []
    models[1].train_staggered(iter(data), mse, update, losses.append)
    assert [float(loss) for loss in losses] == [float(loss) for loss in expected]
    for one, other in zip(models[0].parameters(), models[1].parameters()):
        assert torch.equal(one, other)
    assert len(threads) == 2 and threading.get_ident() not in threads
    assert models[1].next_step == 5


def test_staggered_training_passes_exceptions_on():
    data = batches_of(4)

    def fails(*_):
        raise KeyError("mine")

    def broken():
        yield data[0]
        fails()

    for batches, loss, update, done in (
        (broken(), mse, lambda lane: None, lambda value: None),
        (data, fails, lambda lane: None, lambda value: None),
        (data, mse, fails, lambda value: None),
        (data, mse, lambda lane: None, fails),
    ):
        model = pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, chunks=2)
        with pytest.raises(KeyError, match="mine"):
            model.train_staggered(batches, loss, update, done)
        model.zero_grad()
        model.step(*data[0], mse)  # the model stays usable
    model = pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, chunks=2)
    for wrong in ([data[0][0]], [3], [(1, 2, 3)]):
        with pytest.raises(TypeError):
            model.train_staggered(wrong, mse, lambda lane: None)
    with pytest.raises(pipescope.UsageError, match="autograd"):
        pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, driver="autograd").train_staggered(
            data, mse, lambda lane: None)
    with torch.no_grad(), pytest.raises(pipescope.UsageError, match="no_grad"):
        model.train_staggered(data, mse, lambda lane: None)
    model.train_staggered([], mse, lambda lane: None)


def test_a_model_that_trains_staggered_is_not_called_by_its_own_functions():
    model = pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, chunks=2)
    data = batches_of(3)

    def calling():
        yield data[0]
        model(data[0][0])
        yield data[1]

    with pytest.raises(pipescope.UsageError, match="train_staggered"):
        model.train_staggered(calling(), mse, lambda lane: None)
    with pytest.raises(pipescope.UsageError, match="train_staggered"):
        model.train_staggered(data, mse, lambda lane: None, lambda loss: model.step(*data[0], mse))
    model.zero_grad()
    model.step(*data[0], mse)


def test_a_model_without_a_balance_is_balanced_and_then_knows_each_lanes_parameters(tmp_path):
    model = pipescope.GPipe(layers_of(), devices=["cpu"] * 2, chunks=2)
    with pytest.raises(pipescope.BalanceError, match="balance"):
        model.lane_parameters(0)
    with model.record(tmp_path / "run.sqlite"):
        model.step(*batches_of(1)[0], mse)
    assert pipescope.Trace.open(tmp_path / "run.sqlite").options["balance"] == model.balance
    losses: list[torch.Tensor] = []
    model.train_staggered(batches_of(2), mse, lambda lane: None, losses.append)
    assert len(losses) == 2
    every = model.lane_parameters(0) + model.lane_parameters(1)
    assert sorted(map(id, every)) == sorted(map(id, model.parameters()))
    assert model.lane_parameters(7) == []


def test_ctrl_c_ends_a_staggered_training():
    code = """
import sys, time, torch, pipescope
from torch import nn
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.02)
        return x * 1
model = pipescope.GPipe([nn.Linear(6, 6), Slow()], [1, 1], devices=["cpu"] * 2, chunks=4)
x = torch.randn(4, 6)
def forever():
    while True:
        yield x, x
print("ready", flush=True)
try:
    model.train_staggered(forever(), nn.functional.mse_loss, lambda lane: None)
except KeyboardInterrupt:
    print("interrupted")
model.zero_grad()
model.step(x, x, nn.functional.mse_loss)
print("usable")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert out.split() == ["interrupted", "usable"], err


def test_a_child_of_a_recording_process_may_end(tmp_path):
    model = pipescope.GPipe(layers_of(), [2, 2], devices=["cpu"] * 2, chunks=2)
    (x, y), = batches_of(1)
    with model.record(tmp_path / "run.sqlite"):
        model.step(x, y, mse)
        child = os.fork()
        if child == 0:
            own = pipescope.GPipe(layers_of(), [4], devices=["cpu"])  # not recorded, so not refused
            os._exit(7 if own.step(x, y, mse) > 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        model.step(x, y, mse)
    assert len(pipescope.Trace.open(tmp_path / "run.sqlite").steps) == 2
