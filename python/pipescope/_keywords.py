"""Keyword arguments that several functions take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

if TYPE_CHECKING:
    from pipescope._values import Names, Numbers, Path, Quantity

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
