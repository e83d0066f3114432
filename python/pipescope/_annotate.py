"""Names for the tasks of torch.distributed.pipelining."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import profiler as _profiler
from torch.distributed.pipelining.stage import _PipelineStageBase
from torch.profiler import record_function

__all__ = ["annotate"]

# Costs 0.7 us where record_function costs 11. Kineto shows only the latter's ranges on a GPU.
_range_on_host = getattr(torch._C._profiler, "_RecordFunctionFast", record_function)

_METHODS = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")


def annotate(schedule_or_stage: Any = None) -> None:
    """Names the tasks of torch.distributed.pipelining in torch's profiler: ``PP:2F5`` is the forward of micro-batch 5 on
    stage 2, and B, I and W are the backward, its gradients of inputs and those of weights.

    Schedule1F1B names nothing, and the ranges of other schedules hold the wait for a message; these hold the computation
    alone. Call it once, before training, with a schedule, a stage, or nothing for all stages of the process. Calling it
    again changes nothing. A task on the host costs less than 2 µs more, also while the profiler runs; a task on a GPU
    that is being profiled costs 10 to 15 µs more.

    ::

        schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=loss)
        pipescope.annotate(schedule)
    """
    if schedule_or_stage is None:
        _annotate(_PipelineStageBase)
        return
    if isinstance(schedule_or_stage, type) and issubclass(schedule_or_stage, _PipelineStageBase):
        _annotate(schedule_or_stage)
        return
    stages = getattr(schedule_or_stage, "_stages", None) or [getattr(schedule_or_stage, "_stage", schedule_or_stage)]
    for stage in stages:
        if not isinstance(stage, _PipelineStageBase):
            raise TypeError(f"annotate() is given a {type(stage).__name__}; it takes a schedule or a stage of "
                            "torch.distributed.pipelining")
        _annotate(stage)


def _annotate(target: Any) -> None:
    """`target` is a stage, or a class of stages."""
    for method in _METHODS:
        original = getattr(target, method)
        if getattr(original, "_is_annotated", False):
            continue
        named = _named(original, method, None if isinstance(target, type) else target)
        setattr(target, method, named)


def _named(original: Any, method: str, stage: Any) -> Any:
    names: dict[tuple[int, str, int], str] = {}  # made once, since making one costs more than the rest
    ranges: dict[bool, Any] = {True: _range_on_host, False: record_function}

    def name_of(of: Any, letter: str, chunk: int) -> str:
        key = (of.stage_index, letter, chunk)
        name = names.get(key)
        if name is None:
            name = names[key] = f"PP:{of.stage_index}{letter}{chunk}"
        return name

    def letter_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if method == "forward_one_chunk":
            return "F"
        if method == "backward_weight_one_chunk":
            return "W"
        return "B" if kwargs.get("full_backward", args[1] if len(args) > 1 else True) else "I"

    if stage is None:

        def named(self: Any, chunk: int, *args: Any, **kwargs: Any) -> Any:
            if not _profiler._is_profiler_enabled:
                return original(self, chunk, *args, **kwargs)
            with ranges[self.device.type == "cpu"](name_of(self, letter_of(args, kwargs), chunk)):
                return original(self, chunk, *args, **kwargs)
    else:
        range_of_stage = ranges[stage.device.type == "cpu"]

        def named(chunk: int, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            if not _profiler._is_profiler_enabled:
                return original(chunk, *args, **kwargs)
            with range_of_stage(name_of(stage, letter_of(args, kwargs), chunk)):
                return original(chunk, *args, **kwargs)

    named._is_annotated = True  # type: ignore[attr-defined]
    return named
