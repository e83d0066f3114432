"""Names for the tasks of torch.distributed.pipelining."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.autograd import profiler as _profiler
from torch.distributed.pipelining import schedules as _schedules
from torch.distributed.pipelining.stage import _PipelineStageBase
from torch.profiler import record_function

__all__ = ["annotate"]

# Costs 0.7 us where record_function costs 11. Kineto shows only the latter's ranges on a GPU.
_range_on_host = getattr(torch._C._profiler, "_RecordFunctionFast", record_function)

_MESSAGES = {"get_fwd_send_ops": "SEND_F", "get_fwd_recv_ops": "RECV_F", "get_bwd_send_ops": "SEND_B",
             "get_bwd_recv_ops": "RECV_B"}
_METHODS = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")


def annotate(schedule_or_stage: Any = None) -> None:
    """Names the tasks of torch.distributed.pipelining in torch's profiler: ``PP:2F5`` is the forward of micro-batch 5 on
    stage 2, and B, I and W are the backward, its gradients of inputs and those of weights.

    Messages on the host get names too: ``PP:2SEND_F5``. Schedule1F1B names nothing, and the ranges of other schedules hold the wait for a message; these hold the computation
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
    stage = None if isinstance(target, type) else target
    for method, kind in _MESSAGES.items():
        original = getattr(target, method)
        if not getattr(original, "_is_annotated", False):
            setattr(target, method, _noting(original, kind, stage))
    if not getattr(_schedules._batch_p2p, "_is_annotated", False):
        setattr(_schedules, "_batch_p2p", _named_batch(_schedules._batch_p2p))
    for method in _METHODS:
        original = getattr(target, method)
        if getattr(original, "_is_annotated", False):
            continue
        named = _named(original, method, stage)
        setattr(target, method, named)


def _noting(original: Any, kind: str, stage: Any) -> Any:
    """Notes the message's name in each operation that the stage gives to the schedule."""

    def noted(*args: Any) -> Any:
        operations = original(*args)
        if _profiler._is_profiler_enabled:
            of = args[0] if stage is None else stage
            for each in operations:
                each.pipescope_name = f"PP:{of.stage_index}{kind}{args[-1]}"
        return operations

    noted._is_annotated = True  # type: ignore[attr-defined]
    return noted


def _named_batch(original: Any) -> Any:
    """Starts the messages of a batch one by one, each in its range. On the host a batch does so anyway; on a GPU it is one
    operation, and stays it."""

    def name_of(operation: Any) -> Any:
        return getattr(operation, "pipescope_name", None)

    def named(operations: Any, desc: Any = None) -> Any:
        if not _profiler._is_profiler_enabled or any(
            name_of(each) is None or each.tensor.device.type != "cpu" for each in operations
        ):
            return original(operations, desc)
        works = []
        for name, some in itertools.groupby(operations, name_of):
            with _range_on_host(name):
                works += original(list(some), desc)
        return works

    named._is_annotated = True  # type: ignore[attr-defined]
    return named


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
