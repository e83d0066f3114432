"""Profiles of Python modules."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn

from pipescope._gpipe import GPipe, Tensors, _check_loss, _device_name, _named_layers
from pipescope._parametrize_cache import keep_apart
from pipescope._profile import Profile
from pipescope._torch import engine
from pipescope.errors import UsageError
from pipescope.skip import Skippable, verify_skippables

__all__ = ["profile"]


def profile(
    module: Any,
    sample: Tensors,
    target: Optional[Tensors] = None,
    loss: Optional[Callable[[Any, Any], Tensor]] = None,
    *,
    name: Optional[str] = None,
    samples: Union[int, Iterable[int]] = (1, 2, 4),
    batches: Iterable[int] = (),
    device: str = "cpu",
    co_running_lanes: int = 2,
    time_limit_s: float = 30.0,
    target_cv: float = 0.02,
    one_layer_at_a_time: bool = False,
    tapes: bool = True,
    estimate_for: Optional[str] = None,
) -> Profile:
    """Measures what every layer costs: times, bytes, flops. Returns a Profile to balance, simulate and plan with.

    Works on copies of the layers: the module's parameters, gradients and running statistics stay as they are, and so do
    the generators of random numbers of torch, Python and numpy.

    Args:
        module: as for GPipe.
        sample: an input; its first dimension is the samples. Other micro-batch sizes repeat or cut its rows.
        target: of the loss, with as many samples. Default: the loss takes the output only.
        loss: ``loss(output, target)``. Default: the mean of squares of the outputs.
        samples: micro-batch sizes to measure, ascending.
        batches: additional mini-batch sizes at which to measure the loss.
        co_running_lanes: lanes that are busy at the same time, as in a training; their slowdown is part of the profile,
            and so is the GIL's.
        time_limit_s, target_cv, one_layer_at_a_time, tapes: as in ``pipescope-torch profile``.
        estimate_for: a device of the catalogue, such as "H100". The layers then run on torch's meta device, without
            values and almost without memory, and times are estimated for that device. The module may be on "meta" too.

    The first call makes torch's host allocator count its bytes, for the rest of the process, and memory that the process
    has freed stays with it.

    Raises UsageError for wrong options, and a layer's exception unchanged. Threading: while no model of the process
    trains.
    """
    layers = module._layers if isinstance(module, GPipe) else _named_layers(module)
    verify_skippables(layers)
    on_meta = estimate_for is not None
    if loss is None:
        if target is not None:
            raise UsageError("a target is given without a loss; give the loss too")
        loss = _mean_of_squares
    _check_loss(loss)
    if not on_meta and any(each.is_meta for layer in layers.values() for each in layer.parameters()):
        raise UsageError("the module is on the meta device, where nothing can be timed; name a device in estimate_for")
    modules = list(layers.values())
    keep_apart(modules)

    def copy_layer(index: int) -> nn.Module:
        layer = copy.deepcopy(modules[index]).train()
        return layer.to("meta") if on_meta else layer

    def make_batch(count: int) -> tuple[Any, Any]:
        rows = _rows(sample, count)
        return (rows, _rows(target, count) if target is not None else _rows(_first(sample), count))

    described = []
    for key, layer in layers.items():
        stashed, popped = layer.declare_skips() if isinstance(layer, Skippable) else ([], [])
        described.append((layer, type(layer).__name__ if key.isdigit() else key, stashed, popped))
    options = {
        "samples": [samples] if isinstance(samples, int) else list(samples),
        "batches": list(batches),
        "device": _device_name(device),
        "co_running_lanes": co_running_lanes,
        "time_limit_s": time_limit_s,
        "target_cv": target_cv,
        "one_layer_at_a_time": one_layer_at_a_time,
        "tapes": tapes,
        "estimate_for": estimate_for,
    }
    title = name if name is not None else type(module).__name__
    with _same_random_numbers():
        return Profile.from_json(engine.profile(title, described, copy_layer, make_batch, loss, options))


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Leaves the generators of torch, Python and numpy as it found them, which layers and losses may draw from."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    numpy = sys.modules.get("numpy")
    of_python, of_numpy = random.getstate(), numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(of_python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)


def _first(tensors: Tensors) -> Tensor:
    return tensors if isinstance(tensors, Tensor) else tensors[0]


def _rows(tensors: Tensors, count: int) -> Any:
    """That many rows of each, again from the start if there are too few."""
    if not isinstance(tensors, Tensor):
        return type(tensors)(_rows(each, count) for each in tensors)
    if tensors.dim() == 0 or tensors.shape[0] == 0:
        raise UsageError(f"a sample has the shape {tuple(tensors.shape)}; its first dimension is the samples; give at least 1")
    if tensors.is_meta:
        return torch.empty((count, *tensors.shape[1:]), dtype=tensors.dtype, device="meta")
    return tensors.detach()[torch.arange(count) % tensors.shape[0]]


def _mean_of_squares(output: Any, _target: Any) -> Tensor:
    tensors = [output] if isinstance(output, Tensor) else list(output)
    total: Tensor = sum(each.float().pow(2).mean() for each in tensors if each.is_floating_point())  # type: ignore[assignment]
    return total
