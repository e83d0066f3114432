"""What holds for every schedule, whatever its lanes and micro-batches: it is written and read alike, and it comes to its end."""

import itertools
import re

import pipescope
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_inputs import balances, csv_of, ends, examples, profile_fields, tables, waits_of

_CELL = re.compile(r"(\d+)([FBIW])(\d+)")
_ANY_SHAPE = ("gpipe", "1f1b", "zero-bubble-h1", "zero-bubble-2p", "model-parallel")  # one partition on each lane, any micro-batches


def tasks_of(schedule):
    """The rows as tasks. A cell of two tasks has them in their order."""
    return [[(int(partition), kind, int(number)) for partition, kind, number in _CELL.findall(",".join(row))] for row in schedule.rows]


@given(tables())
@examples(100)
def test_a_table_is_read_as_it_was_written(table):
    rows, splits = table
    schedule = pipescope.Schedule.from_csv(csv_of(rows))
    assert tasks_of(schedule) == rows
    assert schedule.lanes == len(rows)
    assert schedule.splits_backward == splits
    for lane, row in enumerate(rows):
        assert {schedule.placement[task[0]] for task in row} == {lane}
    assert pipescope.Schedule.from_csv(schedule.to_csv()) == schedule


@given(tables(), st.data())
@examples(150)
def test_a_table_in_another_order_is_taken_only_if_it_ends(table, data):
    rows, splits = table
    row = data.draw(st.sampled_from(rows))
    for _ in range(data.draw(st.integers(1, 3))):
        one, other = (data.draw(st.integers(0, len(row) - 1)) for _ in range(2))
        row[one], row[other] = row[other], row[one]
    if ends(rows, splits):
        assert tasks_of(pipescope.Schedule.from_csv(csv_of(rows))) == rows
    else:
        with pytest.raises(pipescope.Error):
            pipescope.Schedule.from_csv(csv_of(rows))


@given(tables(), st.data())
@examples(50)
def test_a_table_with_a_missing_or_repeated_task_is_refused(table, data):
    rows, _ = table
    row = data.draw(st.sampled_from(rows))
    place = data.draw(st.integers(0, len(row) - 1))
    if data.draw(st.booleans()):
        row.insert(data.draw(st.integers(0, len(row))), row[place])
    else:
        partition, kind, number = row.pop(place)
        others = [each for each in itertools.chain(*rows) if each[0] == partition or each[2] == number]
        if not any(each[0] == partition for each in others) or not any(each[2] == number for each in others):
            return  # nothing else shows that there is such a partition or micro-batch
    with pytest.raises(pipescope.Error):
        pipescope.Schedule.from_csv(csv_of(rows))


@given(st.sampled_from(pipescope.Schedule.names()), st.integers(1, 8), st.integers(1, 24), st.integers(1, 3))
@examples(150)
def test_a_named_schedule_runs_each_task_once_and_ends(name, lanes, chunks, each):
    try:
        schedule = pipescope.Schedule(name, lanes=lanes, chunks=chunks, partitions=None if each == 1 else lanes * each)
    except pipescope.UsageError:
        assert name not in _ANY_SHAPE or each > 1
        return
    rows = tasks_of(schedule)
    kinds = ("F", "I", "W") if schedule.splits_backward else ("F", "B")
    tasks = [(partition, kind, number) for partition in range(schedule.partitions) for kind in kinds for number in range(chunks)]
    found = sorted(itertools.chain(*rows))
    if schedule.splits_backward:  # a B is its I and then its W
        rows = [[half for partition, kind, number in row
                 for half in ([(partition, "I", number), (partition, "W", number)] if kind == "B" else [(partition, kind, number)])]
                for row in rows]
        found = sorted(itertools.chain(*rows))
    assert found == sorted(tasks)
    assert ends(rows, schedule.splits_backward)
    if name not in ("dualpipe", "pipedream"):  # which have two lanes for a partition, and a step that overlaps the next one
        for lane, row in enumerate(rows):
            assert {schedule.placement[task[0]] for task in row} <= {lane}
    again = pipescope.Schedule.from_csv(schedule.to_csv(), name)
    assert again == schedule


@given(tables(), st.data())
@examples(60)
def test_a_simulated_table_keeps_its_order_and_its_waits(table, data):
    rows, splits = table
    schedule = pipescope.Schedule.from_csv(csv_of(rows))
    profile = pipescope.Profile.from_dict(data.draw(profile_fields(fewest=schedule.partitions)))
    balance = data.draw(balances(len(profile), schedule.partitions))
    step = profile.simulate(balance=balance, batch=16, schedule=schedule, checkpoint="never")
    letters = {"forward": "F", "backward": "I" if splits else "B", "backward_weight": "W"}
    times = {}
    ran = [[] for _ in rows]
    for task in sorted(step.timeline, key=lambda each: (each.start_ns, each.end_ns)):
        if task.kind in letters:
            key = (task.partition, letters[task.kind], task.micro_batch)
            times[key] = task
            ran[task.lane].append(key)
    assert ran == rows
    for key, task in times.items():
        for other in waits_of(*key, schedule.partitions - 1, splits):
            assert times[other].end_ns <= task.start_ns, (other, key)

