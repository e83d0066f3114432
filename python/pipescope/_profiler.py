"""Profiles of Python modules."""

from __future__ import annotations

import contextlib
import copy
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pipescope import _fx_tracing, _mini_batch
from pipescope._any_model import ModelLayers, call_of, is_any_model, layers_of
from pipescope._fused_attention import fused_attention_on_meta
from pipescope._graph_layers import TracedLayer
from pipescope._layers import Device, Layered, check_loss, described_layers, device_name, listed, named_layers, real, whole
from pipescope._parametrize_cache import keep_apart
from pipescope._profile import Profile
from pipescope._recording import refuse_beside_a_recording
from pipescope._samples import SizesChecked, copy_of, sample_of, target_sample, warn_of_mixed_samples
from pipescope._structure import tensors_in
from pipescope._torch import engine
from pipescope.errors import UsageError

__all__ = ["profile"]


def profile(
    module: Any,
    sample: Any,
    target: Any = None,
    loss: Optional[Callable[[Any, Any], Tensor]] = None,
    *,
    name: Optional[str] = None,
    samples: Union[int, str, Iterable[int], None] = None,
    batches: Iterable[int] = (),
    device: Device = "cpu",
    co_running_lanes: int = 2,
    time_limit_s: float = 30.0,
    target_cv: float = 0.02,
    one_layer_at_a_time: bool = False,
    tapes: bool = True,
    estimate_for: Optional[str] = None,
    program: Union[str, os.PathLike[str], None] = None,
    inputs: Optional[Mapping[str, Any]] = None,
    split: Optional[Mapping[Any, Any]] = None,
) -> Profile:
    """Measures what every layer costs: times, bytes, flops. Returns a Profile to balance, simulate and plan with.

    Works on copies of the layers: the module's parameters, gradients and running statistics stay as they are, and so do
    the generators of random numbers of torch, Python and numpy.

    Args:
        module: as for GPipe; also any model, whose sample is what it is called with, as for layers_of().
        sample: an input, of tensors; its first dimension is the samples. Other micro-batch sizes repeat or cut its rows.
        target: of the loss, with as many samples. Default: the loss takes the output only.
        loss: ``loss(output, target)``. Default: the mean of squares of the outputs.
        samples: micro-batch sizes to measure, ascending, or "1,2,4". Default: 1, 2 and 4; with batch norm, which cannot
            train on a single value, 2, 4 and 8.
        batches: additional mini-batch sizes at which to measure the loss.
        co_running_lanes: lanes that are busy at the same time, as in a training; their slowdown is part of the profile,
            and so is the GIL's.
        time_limit_s, target_cv, one_layer_at_a_time, tapes: as in ``pipescope-torch profile``.
        estimate_for: a device of the catalogue, such as "H100". The layers then run on torch's meta device, without
            values and almost without memory, and times are estimated for that device. The module may be on "meta" too.
        program: with estimate_for: how its kernels run, such as "torchtitan", or a file (docs/program-format.md): operators
            between products are fused, and the rates are the program's. Default: eager PyTorch, each operator by itself.
        inputs: what the first layer gets by keyword, such as ``{"mask": mask}``.
        split: as for GPipe: where the samples of inputs, target and outputs are, if not in the first dimension.

    The first call makes torch's host allocator count its bytes, for the rest of the process, and memory that the process
    has freed stays with it.

    Warns if a sample's output depends on the other samples, as it does where the first dimension is the sequence: a
    pipeline that cuts the mini-batch then computes something else, unless ``split`` says where the samples are.

    Raises UsageError for wrong options, and for outputs whose samples are not in the first dimension; and a layer's
    exception unchanged. Threading: while no model of the process trains.
    """
    refuse_beside_a_recording(None, "profile() is called")
    title = name if name is not None else type(module).__name__
    is_traced = isinstance(module, ModelLayers) or is_any_model(module) and not isinstance(module, Layered)
    if is_traced:
        module, sample, target, loss, inputs, split = _of_any_model(module, sample, target, loss, inputs, split)
        title = name if name is not None else type(module.model).__name__
    layers = named_layers(module)
    described = described_layers(layers)
    on_meta = estimate_for is not None
    if program is not None and not on_meta:
        raise UsageError(f"program is {program}, and times are measured; name a device in estimate_for, or leave program out")
    inputs, split = inputs or {}, _mini_batch.split_of(split)
    for what, value in (("sample", (sample, inputs) if inputs else sample), ("target", target)):
        if value is not None or what == "sample":
            _check_tensors(what, value)
    own = sample_of(sample, inputs, split)
    of_loss = own.first_cut() if target is None else target_sample(target, split)
    if loss is None:
        if target is not None:
            raise UsageError("a target is given without a loss; give the loss too")
        loss = _mean_of_squares
    check_loss(loss)
    if not on_meta and any(each.is_meta for layer in layers.values() for each in layer.parameters()):
        raise UsageError("the module is on the meta device, where nothing can be timed; name a device in estimate_for")
    modules = list(layers.values())
    keep_apart(modules)
    _fx_tracing.ask_own_thread()

    # Copied before torch's memory is redirected: deepcopy() would put some tensors here and some there.
    on_meta_device = [_on_meta(each) for each in modules] if on_meta else []
    if not on_meta:
        _refuse_what_cannot_be_measured(described)

    kernels = contextlib.ExitStack()

    def copy_layer(index: int) -> nn.Module:
        # Behind the engine's own kernels, which it registers before it asks for layers: the last ones count.
        if on_meta and index == 0:
            kernels.enter_context(fused_attention_on_meta())
        layer = on_meta_device[index] if on_meta else copy_of(modules[index]).train()
        return own.as_first(layer) if index == 0 else layer

    if on_meta:
        own, of_loss = own.on("meta"), of_loss.on("meta")
    sizes = _sizes(samples, modules)

    def make_batch(count: int, _seed: int) -> tuple[Any, Any]:
        # Of a larger mini-batch only the loss is measured, with repeated outputs.
        return own.part(min(count, max(sizes, default=count))), of_loss.part(count)

    where = device_name(device)
    options = {
        "samples": sizes,
        "batches": [whole(each, "batches") for each in listed(batches, "batches", "[32, 64]")],
        "output_dimensions": list(_mini_batch.output_dimensions(split)),
        "device": where,
        "co_running_lanes": whole(co_running_lanes, "co_running_lanes"),
        "time_limit_s": real(time_limit_s, "time_limit_s"),
        "target_cv": real(target_cv, "target_cv"),
        "one_layer_at_a_time": one_layer_at_a_time,
        "tapes": tapes,
        "estimate_for": estimate_for,
        "program": None if program is None else os.fspath(program),
        "shared": module.shared_parameters() if isinstance(module, ModelLayers) else [],
    }
    with _same_random_numbers(), kernels:
        if not on_meta and not is_traced:  # layers_of() has looked
            warn_of_mixed_samples(modules, own, where, _mini_batch.output_dimensions(split))
        if "output" not in split:
            loss = SizesChecked(loss)
        return Profile.from_json(engine.profile(title, described, copy_layer, make_batch, loss, options))


def _of_any_model(
    module: Any, sample: Any, target: Any, loss: Any, inputs: Optional[Mapping[str, Any]], split: Any
) -> tuple[Any, Any, Any, Any, None, dict[Any, Any]]:
    """(layers, sample, target, loss, inputs, split) of a model as its author wrote it."""
    args, kwargs = call_of(sample)
    kwargs = {**kwargs, **(inputs or {})}
    layers = module if isinstance(module, ModelLayers) else layers_of(module, (args, kwargs), split=split)
    given = layers.flat(args, kwargs)
    if loss is not None and target is None:
        target = dict(kwargs) if not args else args

    def call_loss(output: Any, part: Any) -> Tensor:
        value = layers.value(output, None, training=True)
        own = layers.loss_of(value)
        return loss(value, part) if loss is not None else own if own is not None else _mean_of_squares(value, None)

    return layers, given if layers.is_traced else given[0], target, call_loss, None, layers.split(True)


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


def _check_tensors(what: str, value: Any) -> None:
    if not tensors_in(value):
        raise TypeError(
            f"the {what} is a {type(value).__name__} without a tensor; give a tensor, or a tuple, list or dict of them"
        )


def _refuse_what_cannot_be_measured(described: Iterable[tuple[nn.Module, str, Any, Any]]) -> None:
    for number, (layer, name, _stashed, _popped) in enumerate(described):
        for part in layer.modules():
            if isinstance(part, torch.jit.ScriptModule):
                raise UsageError(
                    f"layer {number} ({name}) is scripted, and copies of it cannot be trained; profile the module it was made of"
                )
            of_traced = part.sparse if isinstance(part, TracedLayer) else []
            if of_traced or isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse:
                raise UsageError(
                    f"layer {number} ({of_traced[0] if of_traced else name}) has a sparse gradient, whose bytes depend on the "
                    "input, so its costs are not measured; give a balance to GPipe, or profile the model with sparse=False"
                )


def _sizes(samples: Union[int, str, Iterable[int], None], modules: Iterable[nn.Module]) -> list[int]:
    if samples is None:
        kinds = (nn.modules.batchnorm._BatchNorm,)
        has_batch_norm = any(isinstance(each, kinds) for module in modules for each in module.modules())
        return [2, 4, 8] if has_batch_norm else [1, 2, 4]
    if isinstance(samples, str):
        try:
            samples = [int(each) for each in samples.split(",")]
        except ValueError:
            raise UsageError(f"samples is {samples!r}; it lists micro-batch sizes; write it as '1,2,4' or [1, 2, 4]") from None
    return [whole(each, "samples") for each in ([samples] if isinstance(samples, int) else samples)]


def _on_meta(module: nn.Module) -> nn.Module:
    """A copy on the meta device, which takes no memory."""
    memo: dict[int, Any] = {}
    for part in module.modules():
        for tensor in tensors_in(dict(vars(part))):
            if id(tensor) in memo or is_lazy(tensor):
                continue
            made: Tensor = tensor.detach().to("meta").requires_grad_(tensor.requires_grad)
            memo[id(tensor)] = nn.Parameter(made, made.requires_grad) if isinstance(tensor, nn.Parameter) else made
    return copy.deepcopy(module, memo).to("meta").train()


def _mean_of_squares(output: Any, _target: Any) -> Tensor:
    tensors = [each for each in tensors_in(output) if each.is_floating_point() or each.is_complex()]
    if not tensors:
        return torch.zeros(())
    total: Tensor = sum(each.abs().float().pow(2).mean() for each in tensors)  # type: ignore[assignment]
    return total
