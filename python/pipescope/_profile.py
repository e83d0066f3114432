"""What the layers of a model cost, and what follows from it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from pipescope import _core
from pipescope._keywords import LaneOptions, takes_lane_options
from pipescope._results import FoundBalance, Plan, PlanCandidate, ScheduleComparison, SimulatedStep, Simulation, built
from pipescope._schedule import AnySchedule, Schedule, check_one, schedules_in
from pipescope._timeline import MemorySamples, Timeline
from pipescope._values import Names, Numbers, Path, Quantity, encoded, imported_pandas, python_messages, values_of
from pipescope.errors import ProfileError, UsageError

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Unpack


def _warn_of_few_samples(batch: object, chunks: object) -> None:
    """As the command does."""
    if isinstance(batch, int) and isinstance(chunks, int) and 0 < batch < chunks:
        warnings.warn(
            f"a batch of {batch} samples is cut into {batch} micro-batches, one sample each, and not into {chunks}; a larger "
            "batch has more. If the profile is that of a trace, its batch is known only if the trace shows messages' sizes",
            stacklevel=4,  # of the decorated method's caller
        )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Costs of one layer. Tuples run along Profile.samples; times are ns, sizes bytes. docs/profile-format.md has more
    fields, which Profile.to_dict() shows."""

    name: str
    forward_ns: tuple[float, ...]
    backward_ns: tuple[float, ...]
    output_bytes: tuple[float, ...]
    recompute_ns: tuple[float, ...] = ()  #: empty: as forward_ns
    saved_bytes: tuple[float, ...] = ()  #: kept by autograd besides input and output
    transient_bytes: tuple[float, ...] = ()
    flops: tuple[float, ...] = ()
    parameter_bytes: int = 0
    gradient_bytes: int = 0
    buffer_bytes: int = 0


class Profile:
    """What each layer of a model costs in time and memory, by micro-batch size. ``pipescope.profile()`` measures one.

    Immutable: edit ``to_dict()`` and make another one with ``from_dict()``. Threading: use it from any thread; long calls
    release the GIL. Errors: UsageError and BalanceError for options, with the message of the command.
    """

    _handle: _core.Profile
    _file: bytes

    def __init__(self) -> None:
        raise TypeError("make a Profile with Profile.load(), from_json(), from_dict() or pipescope.profile()")

    @classmethod
    def _of(cls, handle: _core.Profile, file: bytes = b"profile.json") -> Profile:
        profile = object.__new__(cls)
        profile.__dict__.update(_handle=handle, _file=file)
        return profile

    @classmethod
    def load(cls, path: Path) -> Profile:
        """Reads a profile file. Raises ProfileError that names the fault."""
        file = encoded(path)
        return cls._of(_core.load_profile(file), file)

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Reads the text of a profile file."""
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; it must be the text of a profile file")
        try:
            return cls._of(_core.parse_profile(text.encode()))
        except UnicodeEncodeError as error:
            raise ProfileError(f"the text is no profile: {error}") from None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Profile:
        """Makes a profile of the fields of a profile file. Numbers and arrays of numpy are taken too."""
        try:
            text = json.dumps(fields, default=_plain, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ProfileError(f"the fields are no profile: {error}") from None
        return cls.from_json(text)

    def save(self, path: Path, *, force: bool = False) -> None:
        """Writes the profile file. `force` replaces a file that exists."""
        with python_messages():
            _core.write_text(encoded(path), self.to_json(), force)

    def to_json(self) -> str:
        """The text of the profile file."""
        return _core.profile_json(self._handle)

    def to_dict(self) -> dict[str, Any]:
        """The fields of the profile file."""
        fields: dict[str, Any] = json.loads(self.to_json())
        return fields

    @functools.cached_property
    def _fields(self) -> dict[str, Any]:
        return self.to_dict()

    @property
    def model(self) -> str:
        return str(self._fields.get("model", ""))

    @property
    def device(self) -> str:
        """Where it was measured: "cpu", "cuda:0", or a device type."""
        return str(self._fields["device"])

    @property
    def dtype(self) -> str:
        """Of parameters and activations."""
        return str(self._fields["dtype"])

    @property
    def samples(self) -> tuple[int, ...]:
        """The micro-batch sizes that were measured, ascending."""
        return tuple(self._fields["samples"])

    @functools.cached_property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(built(Layer, each) for each in self._fields["layers"])

    def __len__(self) -> int:
        """The number of layers."""
        return len(self._fields["layers"])

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self._handle == other._handle if isinstance(other, Profile) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Profile does not change; edit to_dict() and use from_dict() to set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.to_json(), self._file)

    def __copy__(self) -> Profile:
        return self

    def __deepcopy__(self, memo: object) -> Profile:
        return self

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.samples))
        return f"Profile({self.model or 'no model'}: {len(self)} layers on {self.device}, micro-batches of {sizes} samples)"

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer and measured micro-batch size: layer, name, samples, and the costs, in ns and bytes."""
        rows = []
        for number, layer in enumerate(self.layers):
            for place, samples in enumerate(self.samples):
                row = {"layer": number, "name": layer.name, "samples": samples}
                for name in ("forward_ns", "recompute_ns", "backward_ns", "output_bytes", "saved_bytes", "transient_bytes"):
                    values = getattr(layer, name)
                    row[name] = values[place] if values else layer.forward_ns[place] if name == "recompute_ns" else 0
                row["parameter_bytes"] = layer.parameter_bytes
                rows.append(row)
        return imported_pandas().DataFrame(rows)

    @takes_lane_options
    def balance(
        self,
        partitions: int | None = None,
        *,
        batch: int,
        chunks: int | None = None,
        checkpoint: str | None = None,
        algorithm: str | None = None,
        schedule: AnySchedule | None = None,
        replicas: int | None = None,
        **options: Unpack[LaneOptions],
    ) -> FoundBalance:
        """Finds where to cut the model for that many partitions, one lane each. docs/cli/balance.md describes the options;
        None is the command's default. `partitions` and `chunks` are required unless the schedule is a file.

        An answer that is not feasible says what would be."""
        arguments = kept(locals())
        check_one(arguments["schedule"])
        _warn_of_few_samples(batch, chunks)
        return built(FoundBalance, json.loads(self._ask(_core.balance, arguments)))  # type: ignore[no-any-return]

    @takes_lane_options
    def simulate(
        self,
        *,
        balance: Numbers,
        batch: int,
        chunks: int | None = None,
        checkpoint: str | None = None,
        schedule: AnySchedule | None = None,
        placement: Numbers | None = None,
        replicas: int | None = None,
        expandable_segments: bool = False,
        in_flight: int | None = None,
        pair_overlap: float | None = None,
        backward: str | None = None,
        recompute: str | None = None,
        trace: Path | None = None,
        schedule_output: Path | None = None,
        force: bool = False,
        **options: Unpack[LaneOptions],
    ) -> Simulation:
        """Predicts step time, bubble, memory and timeline of one pipeline. docs/cli/simulate.md describes the options;
        None is the command's default. `balance`: layers of each partition. `chunks` is required unless the schedule is a
        file. `trace` and `schedule_output` name files to write; `force` replaces them."""
        arguments = kept(locals())
        _warn_of_few_samples(batch, chunks)
        check_one(arguments["schedule"])
        if schedule == "all":
            raise UsageError("schedule is 'all'; simulate() simulates one; use compare_schedules()")
        text, tasks, memory = self._ask(_core.simulate, arguments)
        fields = json.loads(text)
        step = built(SimulatedStep, {**fields, "_asked": asked_of(arguments, Profile.simulate)})
        return Simulation(
            **vars(step), assumed=fields["assumed"], timeline=Timeline(tasks), memory=MemorySamples(memory)
        )

    @takes_lane_options
    def compare_schedules(
        self,
        *,
        balance: Numbers,
        batch: int,
        chunks: int | None = None,
        checkpoint: str | None = None,
        in_flight: int | None = None,
        pair_overlap: float | None = None,
        recompute: str | None = None,
        **options: Unpack[LaneOptions],
    ) -> ScheduleComparison:
        """What the same lanes do with one mini-batch under each schedule: ``simulate --schedule all``."""
        arguments = kept(locals())
        text, *_ = self._ask(_core.simulate, {**arguments, "schedule": "all"})
        fields = json.loads(text)
        asked = asked_of(arguments, Profile.simulate)
        fields["schedules"] = [{**each, "_asked": asked} for each in fields["schedules"]]
        return built(ScheduleComparison, fields)  # type: ignore[no-any-return]

    @takes_lane_options
    def plan(
        self,
        *,
        batch: int,
        partitions: Numbers | None = None,
        chunks: Numbers | None = None,
        checkpoint: Names | None = None,
        schedule: AnySchedule | Iterable[AnySchedule] | None = None,
        replicas: Numbers | None = None,
        algorithm: str | None = None,
        pair_overlap: float | None = None,
        price_per_lane_hour: str | float | Mapping[str, float] | None = None,
        rank_by: str | None = None,
        most: int | None = None,
        progress: Callable[[float], object] | None = None,
        **options: Unpack[LaneOptions],
    ) -> Plan:
        """Simulates many pipelines, each with its best balance, and ranks them. docs/cli/plan.md describes the options;
        None is the command's default. `partitions`, `chunks` and `replicas` are lists, or texts such as "1..8".
        `progress` is called with the share that is done, 0 to 1, in the calling thread. Ctrl-C, and an exception of
        `progress`, end the search."""
        arguments = kept(locals())
        del arguments["progress"]
        asked = asked_of(arguments, Profile.simulate)
        if isinstance(price_per_lane_hour, Mapping):
            arguments["price_per_lane_hour"] = [f"{name}={price}" for name, price in price_per_lane_hour.items()]
        text, notes = self._ask(_core.plan, arguments, progress)
        fields = json.loads(text)
        best = fields.pop("best")
        candidates = tuple(built(PlanCandidate, {**each, "_asked": asked}) for each in fields["candidates"])
        fields |= {"candidates": (), "best": None, "notes": notes}
        plan = built(Plan, fields)
        object.__setattr__(plan, "candidates", candidates)
        object.__setattr__(plan, "best", None if best is None else candidates[best])
        return plan  # type: ignore[no-any-return]

    def _ask(self, function: Callable[..., Any], arguments: Mapping[str, Any], *more: Any) -> Any:
        return ask(function, self._handle, self._file, arguments, *more)


def kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with those of **options among them, and iterables as tuples, so that they can be read again."""
    options = {**arguments, **arguments.get("options", {})}
    return {name: _as_tuple(value) for name, value in options.items() if name != "options"}


def _as_tuple(value: Any) -> Any:
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping)):
        with contextlib.suppress(TypeError):  # an array without dimensions
            return tuple(value)
    return value


def asked_of(arguments: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Those that were given, and that the function takes too, besides what it asks about and files to write."""
    taken = set(inspect.signature(function).parameters) - {"self", "model", "cluster", "trace", "schedule_output", "force"}
    return {name: value for name, value in arguments.items() if name in taken and value is not None and value is not False}


def ask(
    function: Callable[..., Any],
    handle: _core.Profile | None,
    name: bytes,
    arguments: Mapping[str, Any],
    *more: Any,
) -> Any:
    """Calls a function of _core. `name`: of the profile's file, or a model. `arguments`: the options, by name."""
    options = {name: value for name, value in arguments.items() if name not in ("self", "model", "schedule")}
    names, tables = _schedules(arguments.get("schedule"))
    with python_messages():
        return function(handle, name, values_of({**options, "schedule": names}), tables, *more)


def _schedules(schedule: Any) -> tuple[list[Any] | None, list[tuple[bytes, str]]]:
    """Schedules to name, and those to pass as tables."""
    if schedule is None:
        return None, []
    each = schedules_in(schedule)
    names = [one for one in each if not isinstance(one, Schedule)]
    tables = [(os.fsencode(one.name), one.to_csv()) for one in each if isinstance(one, Schedule)]
    called = [os.path.basename(os.fspath(one)) if isinstance(one, (str, os.PathLike)) else "" for one in names]
    for name, _ in tables:
        if [os.fsencode(one) for one in called].count(name) + [one for one, _ in tables].count(name) > 1:
            raise UsageError(f"schedule has {os.fsdecode(name)!r} twice, and answers name it; give the tables names of their own")
    return names if names or not tables else None, tables


def _plain(value: Any) -> Any:
    """For json: numbers and arrays of numpy and the like."""
    for name in ("tolist", "__index__", "__float__"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"a {type(value).__name__} is no value of a profile")


def _unpickled(text: str, file: bytes) -> Profile:
    return Profile._of(_core.parse_profile(text), file)
