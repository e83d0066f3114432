"""Orders of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Union

from pipescope import _core
from pipescope._values import Path, encoded, python_messages, values_of
from pipescope.errors import UsageError


class Schedule:
    """The order in which lanes run their tasks, as a table of lanes and time slots. It is checked as it is made: every
    task runs once, in an order without a deadlock. Immutable; use it from any thread.

    simulate(), balance() and plan() take the name of a schedule, the name of a CSV file, or a Schedule.
    """

    name: str
    lanes: int
    partitions: int
    micro_batches: int
    placement: tuple[int, ...]  #: the lane of each partition
    splits_backward: bool  #: the backward is split into gradients of inputs (I) and of weights (W)
    slots: int  #: length, if each task took one slot and copies none
    idle_fraction: float  #: share of the lanes' slots in which they run nothing, 0 to 1

    def __init__(
        self, name: str, *, lanes: int | None = None, chunks: int | None = None, partitions: int | None = None
    ) -> None:
        """A named schedule for that many lanes and micro-batches. `partitions` are placed on the lanes in turn; by default
        one per lane, or two for schedules that need several."""
        values = values_of({"lanes": lanes, "chunks": chunks, "partitions": partitions})
        with python_messages():
            self._take(name, _core.schedule(encoded(name), values))

    def _take(self, name: str, answer: tuple[str, str]) -> None:
        facts: dict[str, Any] = json.loads(answer[0])
        facts["placement"] = tuple(facts["placement"])
        self.__dict__.update(facts, name=name, _csv=answer[1])

    @classmethod
    def from_csv(cls, text: str, name: str = "schedule.csv") -> Schedule:
        """A schedule from the compute-only CSV of torch.distributed.pipelining: a row per lane, cells such as 3F0."""
        if not isinstance(text, (str, bytes)) or not isinstance(name, str):
            raise TypeError(f"from_csv() is given a {type(text).__name__} and a name that is a {type(name).__name__}; give texts")
        schedule = object.__new__(cls)
        with python_messages():
            schedule._take(name, _core.schedule_from_csv(name, text))
        return schedule

    @classmethod
    def load(cls, path: Path) -> Schedule:
        """A schedule from a CSV file. Its name must end in .csv."""
        schedule = object.__new__(cls)
        file = encoded(path)
        with python_messages():
            schedule._take(os.path.basename(os.fsdecode(file)), _core.schedule(file, []))
        return schedule

    @staticmethod
    def names(runnable: bool = False) -> tuple[str, ...]:
        """The names of all schedules; with `runnable`, of those that GPipe runs, and not only the simulator."""
        return tuple(_core.schedule_names(bool(runnable)))

    def to_csv(self) -> str:
        """The table as CSV, one row for each lane."""
        csv: str = self.__dict__["_csv"]
        return csv

    def save(self, path: Path, *, force: bool = False) -> None:
        """Writes the CSV. `force` replaces a file that exists."""
        with python_messages():
            _core.write_text(encoded(path), self.to_csv(), force)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The cells by lane: "0F0", or "" for a slot in which the lane is idle."""
        lines = [line for line in self.to_csv().splitlines() if not line.startswith("#")]  # which gives the placement
        return tuple(tuple(line.split(",")) for line in lines)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Schedule does not change; make another one to set {name}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if isinstance(other, Schedule) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self.to_csv()))

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, lanes={self.lanes}, chunks={self.micro_batches}, partitions={self.partitions})"


#: A schedule's name, the path of its CSV file, or a Schedule.
AnySchedule = Union[str, Schedule, "os.PathLike[str]"]


def schedules_in(schedule: Any) -> list[Any]:
    """The schedules that an argument names: names, paths and Schedules."""
    if schedule is None:
        return []
    if isinstance(schedule, str):
        return schedule.split(",")
    if isinstance(schedule, (Schedule, os.PathLike)) or not isinstance(schedule, Iterable):
        return [schedule]
    return [each for one in schedule for each in schedules_in(one)]


def check_one(schedule: Any) -> None:
    """Raises UsageError for several schedules where one is simulated."""
    names = [each.name if isinstance(each, Schedule) else str(each) for each in schedules_in(schedule)]
    if len(names) > 1:
        raise UsageError(f"schedule names {', '.join(names)}; this takes one; name one, or use plan() or compare_schedules()")


def asked_schedule(asked: Any, name: str) -> Any:
    """The schedule of that name among those of an argument: one from a file or a table cannot be named otherwise."""
    for each in schedules_in(asked):
        if (each.name if isinstance(each, Schedule) else os.path.basename(os.fspath(each))) == name:
            return each
    return name
