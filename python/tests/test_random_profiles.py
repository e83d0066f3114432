"""What holds for every profile, pipeline and trace: files are read as they were written, answers keep their bounds, and the command
gives the same answer."""

import itertools
import json
import math
import pathlib
import pickle
import subprocess
import sys
import tempfile

import pipescope
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_inputs import TIME, balances, examples, machines, pipelines, profile_fields

pytestmark = pytest.mark.filterwarnings("ignore:a batch of .* samples is cut")
ANY_NUMBER = st.one_of(st.integers(-2, 10**19), st.floats(allow_nan=True), st.sampled_from([0, 1e308, 2**63, -0.0]))


# ---- Files ----


@given(profile_fields())
@examples(100)
def test_a_profile_is_read_as_it_was_written(fields):
    profile = pipescope.Profile.from_dict(fields)
    assert pipescope.Profile.from_json(profile.to_json()) == profile == pickle.loads(pickle.dumps(profile))
    assert pipescope.Profile.from_json(profile.to_json()).to_json() == profile.to_json()
    assert (profile.model, list(profile.samples)) == (fields["model"], fields["samples"])
    for layer, given_layer in zip(profile.layers, fields["layers"]):
        for name, value in given_layer.items():
            found = getattr(layer, name)
            assert (list(found) if isinstance(value, list) else found) == value, name


def samples_of(memory):
    """Those of each lane in their order; a trace has one lane after the other."""
    rows = zip(*memory.columns.values())
    return sorted(rows, key=lambda row: row[0])


@given(pipelines(), st.data())
@examples(20)
def test_a_simulated_step_is_read_as_it_was_written(pipeline, data):
    profile, options = pipeline
    options = {**options, **data.draw(machines(len(options["balance"])))}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.sqlite"
        step = profile.simulate(**options, trace=path)
        trace = pipescope.Trace.open(path)
    assert trace.simulated == step.timeline
    assert samples_of(trace.memory) == samples_of(step.memory)
    assert trace.profile == profile
    assert trace.options is not None
    assert profile.simulate(**trace.options).timeline == step.timeline


# ---- Bounds ----


@given(pipelines(), st.data())
@examples(80)
def test_a_step_keeps_its_bounds_and_its_waits(pipeline, data):
    profile, options = pipeline
    step = profile.simulate(**options, **data.draw(machines(len(options["balance"]))))
    assert step.step_ns >= max(lane.busy_ns for lane in step.lanes)
    assert step.lower_bound_ns is None or step.lower_bound_ns <= step.step_ns
    assert all(-1e-9 <= lane.bubble_fraction <= 1 for lane in step.lanes)
    assert math.isclose(step.utilization, 1 - step.bubble_fraction, abs_tol=1e-9)
    ends = dict.fromkeys(range(len(step.lanes)), 0)
    tasks = {}
    for task in sorted(step.timeline, key=lambda each: (each.start_ns, each.end_ns)):
        if "copy" not in task.kind:
            assert task.start_ns >= ends[task.lane], task
            ends[task.lane] = task.end_ns
            tasks[task.kind, task.partition, task.micro_batch] = task
    for (kind, partition, micro_batch), task in tasks.items():
        if kind == "forward" and partition:
            assert tasks["forward", partition - 1, micro_batch].end_ns <= task.start_ns
        if kind == "backward":
            assert tasks["forward", partition, micro_batch].end_ns <= task.start_ns
            if partition + 1 < len(step.balance):
                assert tasks["backward", partition + 1, micro_batch].end_ns <= task.start_ns
    assert {micro_batch for kind, _, micro_batch in tasks if kind == "forward"} == set(range(step.micro_batches))


@given(pipelines(), st.data())
@examples(60)
def test_a_slower_layer_or_link_makes_no_step_shorter(pipeline, data):
    profile, options = pipeline
    before = profile.simulate(**options).step_ns
    fields = profile.to_dict()
    layer = data.draw(st.sampled_from(fields["layers"]))
    name = data.draw(st.sampled_from(["forward_ns", "backward_ns"]))
    more = data.draw(TIME)  # the same at every size, since lines through sizes may fall where they are extended
    layer[name] = [value + more for value in layer[name]]
    assert pipescope.Profile.from_dict(fields).simulate(**options).step_ns >= before
    assert profile.simulate(**options, link_latency=f"{data.draw(TIME)}ns").step_ns >= before


@given(profile_fields(fewest=2, most=6), st.integers(1, 3), st.integers(1, 6), st.sampled_from(["gpipe", "1f1b"]))
@examples(40)
def test_no_other_balance_is_better_than_one_that_is_proved(fields, partitions, chunks, schedule):
    profile = pipescope.Profile.from_dict(fields)
    assume(partitions <= len(profile))
    options = {"batch": 16, "chunks": chunks, "schedule": schedule}
    found = profile.balance(partitions, **options)
    assert (sum(found.balance), len(found.balance)) == (len(profile), partitions)
    assert profile.simulate(**options, balance=found).step_ns == found.step_ns
    if found.optimal:
        for cuts in itertools.combinations(range(1, len(profile)), partitions - 1):
            other = [end - begin for begin, end in zip((0, *cuts), (*cuts, len(profile)))]
            assert profile.simulate(**options, balance=other).step_ns >= found.step_ns, other


@given(profile_fields(most=5), st.data())
@examples(25)
def test_planned_pipelines_are_what_they_say(fields, data):
    profile = pipescope.Profile.from_dict(fields)
    options = data.draw(machines(3))
    plan = profile.plan(batch=data.draw(st.integers(1, 32)), partitions="1..3", chunks=[1, 4], **options)
    feasible = [each for each in plan.candidates if each.feasible]
    assert (plan.best is None) == (not feasible)
    for each in plan.candidates[:6]:
        assert profile.simulate(**each.options).step_ns == each.step_ns
        if plan.best and each.feasible and each.step_ns:  # a step that takes no time has no rate
            assert plan.best.step_ns <= 1.001 * each.step_ns + 1  # 0.05 % is a tie


@given(profile_fields(most=4), st.data())
@examples(150)
def test_odd_numbers_give_an_answer_or_an_error(fields, data):
    """Never a crash, a hang, or another exception."""
    layer = data.draw(st.sampled_from(fields["layers"]))
    name = data.draw(st.sampled_from(sorted(set(layer) - {"name"})))
    layer[name] = data.draw(ANY_NUMBER) if name == "parameter_bytes" else [data.draw(ANY_NUMBER) for _ in layer[name]]
    options = {"batch": data.draw(st.one_of(st.integers(1, 20), ANY_NUMBER)), "chunks": data.draw(st.sampled_from([1, 2, 5, 0, 2**31]))}
    options |= data.draw(st.sampled_from([{}, {"link_bandwidth": data.draw(ANY_NUMBER)}, {"speed": data.draw(ANY_NUMBER)},
                                          {"memory_limit": data.draw(ANY_NUMBER)}, {"replicas": data.draw(ANY_NUMBER)}]))
    try:
        profile = pipescope.Profile.from_dict(fields)
        balance = data.draw(balances(len(profile), data.draw(st.integers(1, len(profile)))))
        step = profile.simulate(balance=balance, **options)
        assert step.step_ns >= 0
        profile.plan(**options)
    except pipescope.Error as error:
        assert str(error)


# ---- The command ----


def words_of(options):
    """The options as the words of a command."""
    words = []
    for name, value in options.items():
        text = ",".join(repr(each) if isinstance(each, float) else str(each) for each in value) if isinstance(value, list) else str(value)
        words.append(f"--{name.replace('_', '-')}={text}")
    return words


@given(pipelines(), st.data())
@examples(15)
def test_the_command_answers_as_python_does(pipeline, data):
    profile, options = pipeline
    options = {**options, **data.draw(machines(len(options["balance"])))}
    step = profile.simulate(**options)
    with tempfile.TemporaryDirectory() as folder:
        profile.save(pathlib.Path(folder) / "p.json")
        result = subprocess.run([sys.executable, "-m", "pipescope", "simulate", "p.json", *words_of(options), "--json"], cwd=folder,
                                capture_output=True, text=True, timeout=60, check=False)
    printed = json.loads(result.stdout)
    assert result.returncode == (0 if step.feasible else 3), result.stderr
    assert (printed["step_ns"], printed["feasible"], printed["checkpoint"]) == (step.step_ns, step.feasible, step.checkpoint)
    assert [(lane["busy_ns"], lane["peak_bytes"]) for lane in printed["lanes"]] == [(lane.busy_ns, lane.peak_bytes) for lane in step.lanes]
    again = profile.simulate(**step.options)
    assert again == step == profile.simulate(**step.pipeline, **step.hardware)
