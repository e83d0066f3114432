"""Recorded and simulated runs in files."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union, overload

from pipescope import _core
from pipescope._profile import Profile
from pipescope._results import Comparison, Kernels, RunsComparison, built
from pipescope._schedule import Schedule
from pipescope._timeline import Lane, MemorySamples, Timeline
from pipescope._values import Path, encoded, encoded_all, imported_pandas, python_messages, text_of
from pipescope.errors import TraceFormatError, UsageError

if TYPE_CHECKING:
    import pandas

Paths = Union[Path, Iterable[Path]]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a recorded run. Times since the start of the recording. None: the training loop recorded no such thing."""

    step: int
    start_ns: int  #: of the first forward
    end_ns: int  #: of the last backward
    bubble_fraction: float | None  #: None: not known, as in compare(); see Trace.warnings
    wall_step_ns: int | None = None  #: of the whole step of the training loop
    training_loss: float | None = None
    warmup: bool = False
    whole: bool = True  #: False: tasks were not recorded, or recorded twice, so times and bubble are wrong
    timed: bool = True  #: False: step times are not known, as in compare(); see Trace.warnings

    #: Shares of the usable cores' time that other processes and the host of a virtual machine took, in the time
    #: ``load_over_ns`` up to the end of the step; at least a second of the cores' time.
    load_others: float | None = None
    load_stolen: float | None = None
    load_over_ns: int | None = None

    @property
    def step_ns(self) -> int | None:
        """None if step times are not known, for instance because ranks of the pipeline are missing."""
        return self.end_ns - self.start_ns if self.timed else None


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A profile measured from a run, and the pipeline that ran: ``run.profile.simulate(**run.options)`` is the run, and
    ``run.profile.simulate(**{**run.options, "chunks": 16})`` what it would have been."""

    profile: Profile
    options: dict[str, Any]
    notes: tuple[str, ...]  #: what the trace does not say, and what is taken instead


def _arguments(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """With the schedule's table in place of a name that stands for a file."""
    if options is None or "schedule_csv" not in options:
        return options
    csv = options.pop("schedule_csv")
    return {**options, "schedule": Schedule.from_csv(csv, name=options["schedule"])}


class Trace:
    """What a recording or simulation of a pipeline holds. Everything is read when it is opened, and no file stays open.
    Immutable; use it from any thread."""

    name: str
    #: What recorded the run, also if it was imported: such as "a PipeScope trace" or "a trace of PyTorch's profiler".
    origin: str
    model: str  #: empty if the trace does not say
    files: tuple[str, ...]
    steps: tuple[Step, ...]  #: measured, by number
    #: Of the pipeline that ran, as arguments of Profile.simulate(), without a links file; None: unknown.
    options: dict[str, Any] | None
    warnings: tuple[str, ...]
    dropped: int  #: lost records; if not 0, figures about idle time are wrong
    measured: Timeline  #: tasks that ran; may be empty
    simulated: Timeline  #: tasks of the simulated step; may be empty
    memory: MemorySamples

    def __init__(self) -> None:
        raise TypeError("open a Trace with Trace.open()")

    @classmethod
    def open(cls, path: Paths, *, task_rules: Path | None = None) -> Trace:
        """Opens a trace of PipeScope, of PyTorch's profiler, of nsys, or another one that the viewer opens; several
        files, or a folder of them, as one run's ranks. `task_rules` finds tasks in traces of other programs
        (docs/task-rules.md). Raises TraceFormatError for a file that is no trace."""
        paths = encoded_all(path)
        if not paths:
            raise UsageError("path is an empty list; name one trace or more")
        rules = b"" if task_rules is None else encoded(task_rules)
        with python_messages():
            text, files, profile, measured, simulated, memory = _core.open_trace(paths, rules)
        facts: dict[str, Any] = json.loads(text)
        trace = object.__new__(cls)
        if facts["origin"] == "a profile":
            raise TraceFormatError(f"{facts['name']} is a profile, and no trace; open it with Profile.load()")
        trace.__dict__.update(
            name=facts["name"],
            origin=facts["origin"],
            model=facts["model"],
            files=tuple(os.fsdecode(each) for each in files),
            steps=tuple(built(Step, each) for each in facts["steps"]),
            options=_arguments(facts["options"]),
            warnings=tuple(facts["warnings"]),
            dropped=facts["dropped"],
            measured=Timeline(measured),
            simulated=Timeline(simulated),
            memory=MemorySamples(memory),
            _profile_json=profile,
            _rules=rules,
        )
        return trace

    @property
    def tasks(self) -> Timeline:
        """The measured tasks, or the simulated ones of a trace that has no others."""
        return self.measured if len(self.measured) or not len(self.simulated) else self.simulated

    @property
    def lanes(self) -> tuple[Lane, ...]:
        return self.tasks.lanes

    @functools.cached_property
    def profile(self) -> Profile | None:
        """The profile that the trace holds. None for other programs' traces: see measured_run()."""
        text: str | None = self.__dict__["_profile_json"]
        return None if text is None else Profile.from_json(text)

    @functools.cached_property
    def kernels(self) -> Kernels:
        """Sums of the kernels, copies and fills on devices, by name, by task and by stream. Reads the files again."""
        with python_messages():
            found = json.loads(_core.kernels_of(self._paths(), self._rules_text()))
        return Kernels() if found is None else built(Kernels, found)

    @overload
    def compare(self, other: None = None) -> Comparison: ...
    @overload
    def compare(self, other: Trace | Paths) -> RunsComparison: ...
    def compare(self, other: Trace | Paths | None = None) -> Comparison | RunsComparison:
        """Without `other`: the run against its simulation, a Comparison. With it: this run, before, against the other,
        after, a RunsComparison. Raises TraceFormatError for a run that cannot be simulated."""
        with python_messages():
            if other is None:
                text = _core.compare_with_simulation(self._paths(), self._rules_text())
                return built(Comparison, json.loads(text))  # type: ignore[no-any-return]
            after = other if isinstance(other, Trace) else Trace.open(other)
            text = _core.compare_two(self._paths(), after._paths(), self._rules_text())
            return built(RunsComparison, json.loads(text))  # type: ignore[no-any-return]

    def measured_run(self, *, steps: Iterable[int] | None = None, micro_batch_size: int | None = None) -> MeasuredRun:
        """Measures a profile from the recorded tasks, as profile --from-trace does. `steps`: default all without
        warm-up. `micro_batch_size`: samples of a micro-batch in another program's trace; default as its messages show
        it, or 1. Raises TraceFormatError for a trace without whole steps."""
        numbers = text_of("steps", steps)
        if micro_batch_size is not None and not (isinstance(micro_batch_size, int) and abs(micro_batch_size) < 2**63):
            raise UsageError(f"micro_batch_size is {micro_batch_size!r}; it is a number of samples; write it as 4")
        with python_messages():
            profile, facts = _core.profile_of_run(self._paths(), self._rules_text(), numbers, micro_batch_size)
        found: dict[str, Any] = json.loads(facts)
        options = _arguments(found["options"]) or {}
        return MeasuredRun(profile=Profile.from_json(profile), options=options, notes=tuple(found["notes"]))

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each task, measured and simulated: source, kind, step, partition, micro_batch, lane, start_ns,
        end_ns, bytes, duration_ns."""
        parts = [each.to_pandas() for each in (self.measured, self.simulated) if len(each)]
        return imported_pandas().concat(parts, ignore_index=True) if parts else self.measured.to_pandas()

    def _paths(self) -> list[bytes]:
        return encoded_all(self.files)

    def _rules_text(self) -> bytes:
        rules: bytes = self.__dict__["_rules"]
        return rules

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Trace does not change; {name} cannot be set")

    def __repr__(self) -> str:
        return f"Trace({self.name}: {self.origin}, {len(self.steps)} steps, {len(self.lanes)} lanes, {len(self.tasks)} tasks)"

    def _repr_html_(self) -> str:
        return self.tasks._repr_html_()
