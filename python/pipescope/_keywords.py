"""Keyword arguments that several functions take."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

if TYPE_CHECKING:
    from typing_extensions import Self

    from pipescope._schedule import AnySchedule
    from pipescope._values import Names, Numbers, Path, Quantity

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Given = TypeVar("_Given", bound="_Keywords")


class LaneOptions(TypedDict, total=False):
    """What the lanes of a pipeline run on, and what its parameters take. None is the command's default."""

    update: str | None
    devices: Names | None
    cores: int | None
    link_bandwidth: Quantity | None
    link_latency: Quantity | None
    links: Path | None
    link_sharing: str | None
    link_protocol: str | None
    processes: int | None
    speed: Numbers | None
    memory_limit: Quantity | Numbers | Names | None
    device_types: Names | None
    device_catalogue: Path | None
    headroom: Quantity | None
    optimizer: str | float | None
    master_weights: bool
    dtype: str | None


def takes_lane_options(function: _Function) -> _Function:
    """Shows the LaneOptions among the function's parameters, and refuses other keywords."""
    signature = inspect.signature(function)
    named = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    for name, hint in LaneOptions.__annotations__.items():
        annotation = getattr(hint, "__forward_arg__", hint)
        default = False if annotation == "bool" else None
        named.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    signature = signature.replace(parameters=named)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        signature.bind(*args, **kwargs)  # raises TypeError
        return function(*args, **kwargs)

    checked.__signature__ = signature  # type: ignore[attr-defined]
    return cast(_Function, checked)


class _Keywords(Mapping[str, Any]):
    """A value whose fields are keyword arguments. ``**value`` gives those that are set."""

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields. Raises TypeError for a field that it does not have."""
        return cast("Self", dataclasses.replace(cast(Any, self), **changes))

    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}

    def __getitem__(self, name: str) -> Any:
        return self._given()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given())

    def __len__(self) -> int:
        return len(self._given())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._given().items())})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Pipeline(_Keywords):
    """How a model is trained: a pipeline without the machine that it runs on. None is the command's default.

    ``profile.simulate(**pipeline, **hardware)`` simulates it."""

    balance: Numbers | None = None  #: layers of each partition
    batch: int | None = None  #: samples of a mini-batch
    chunks: int | None = None  #: micro-batches
    checkpoint: str | None = None
    schedule: AnySchedule | None = None
    placement: Numbers | None = None
    replicas: int | None = None
    in_flight: int | None = None
    pair_overlap: float | None = None
    backward: str | None = None
    recompute: str | None = None
    update: str | None = None
    optimizer: str | float | None = None
    master_weights: bool = False
    dtype: str | None = None
    expandable_segments: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class Hardware(_Keywords):
    """The machine that a pipeline runs on. None is the command's default. ``profile.plan(batch=64, **hardware)`` plans
    for it."""

    devices: Names | None = None
    cores: int | None = None
    speed: Numbers | None = None
    link_bandwidth: Quantity | None = None
    link_latency: Quantity | None = None
    links: Path | None = None
    link_sharing: str | None = None
    link_protocol: str | None = None
    processes: int | None = None
    memory_limit: Quantity | Numbers | Names | None = None
    headroom: Quantity | None = None
    device_types: Names | None = None
    device_catalogue: Path | None = None


def given_to(value_type: type[_Given], options: Mapping[str, Any]) -> _Given:
    """The options that are fields of that type, as its value."""
    fields = {field.name for field in dataclasses.fields(cast(Any, value_type))}
    return value_type(**{name: value for name, value in options.items() if name in fields})
