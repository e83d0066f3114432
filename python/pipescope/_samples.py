"""Samples lie in the first dimension, where a pipeline cuts mini-batches and joins outputs. What does otherwise is found here."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from pipescope._mini_batch import Call, Rule, flatten_target, inputs_of, samples_of
from pipescope._structure import tensors_in
from pipescope.errors import UsageError
from pipescope.skip import skips_on

__all__ = ["Sample", "SizesChecked", "copy_of", "sample_of", "target_sample", "warn_of_mixed_samples"]

_MOST_DIFFERENCE = 0.02  # float16 and other orders of summation stay below


class Sample:
    """A value with samples, of which others with any number of samples are made: again from the start if it has too few."""

    def __init__(self, tensors: Sequence[Tensor], rules: Sequence[Rule], rebuild: Callable[[Iterator[Tensor]], Any]) -> None:
        self._tensors, self._rules, self._rebuild = tensors, rules, rebuild
        self.call: Optional[Call] = None  #: how the first layer gets it, if that is not its one argument
        self.samples = next(
            (int(each.shape[rule]) for each, rule in zip(tensors, rules) if isinstance(rule, int) and _is_cut(each, rule)), 0
        )

    def part(self, count: int, first: int = 0) -> Any:
        return self._rebuild(iter([self._part(*each, first, count) for each in zip(self._tensors, self._rules)]))

    def first_cut(self) -> Sample:
        """One that is the first tensor that holds samples, or the first of all."""
        pairs = list(zip(self._tensors, self._rules))
        tensor, rule = next((pair for pair in pairs if isinstance(pair[1], int)), pairs[0])
        return Sample([tensor], [rule], next)

    def as_first(self, layer: nn.Module) -> nn.Module:
        """The layer as a model's first one, which takes what part() returns."""
        return layer if self.call is None else _Called(layer, self.call)

    def on(self, device: str) -> Sample:
        moved = Sample([each.to(device, copy=True) for each in self._tensors], self._rules, self._rebuild)
        moved.call = self.call
        return moved

    def _part(self, tensor: Tensor, rule: Rule, first: int, count: int) -> Tensor:
        if rule is None:
            return tensor.detach()
        if not isinstance(rule, int):
            if first + count > self.samples:
                raise UsageError(
                    f"{count} samples are measured, and a function of split makes an input of the sample's {self.samples}; it "
                    "cannot repeat them; give a sample with more, or smaller sizes in samples"
                )
            return rule(tensor.detach(), first, first + count)
        if not _is_cut(tensor, rule) or tensor.shape[rule] == 0:
            where = "its first dimension is the samples" if rule == 0 else f"split says that dimension {rule} is the samples"
            raise UsageError(f"a sample has the shape {tuple(tensor.shape)}; {where}; give at least 1")
        if tensor.is_meta:
            shape = list(tensor.shape)
            shape[rule] = count
            return torch.empty(shape, dtype=tensor.dtype, device="meta")
        return tensor.detach().index_select(rule, torch.arange(first, first + count, device=tensor.device) % tensor.shape[rule])


class _Called(nn.Module):
    """A first layer, as a call of the pipeline with such inputs runs it."""

    def __init__(self, layer: nn.Module, call: Call) -> None:
        super().__init__()
        self.layer, self._call = layer, call

    def forward(self, tensors: tuple[Tensor, ...]) -> Any:
        return self._call.run_first_layer(self.layer, tensors)


def _is_cut(tensor: Tensor, rule: Rule) -> bool:
    return isinstance(rule, int) and -tensor.dim() <= rule < tensor.dim()


def sample_of(value: Any, inputs: Mapping[str, Any], split: Mapping[Any, Any]) -> Sample:
    """An input of a model, with those by keyword. The first layer gets it through the Sample's call, if it has one."""
    if not inputs and not split:
        return _plain(value)
    tensors, names, others = inputs_of(value, inputs)
    samples_of(tensors, names, split)  # refuses what a pipeline does
    sample = Sample(tensors, [split.get(name, 0) for name in names], tuple)
    sample.call = Call(type(value), tuple(name for name in names if isinstance(name, str)), others, None)
    return sample


def target_sample(value: Any, split: Mapping[Any, Any]) -> Sample:
    return Sample(*flatten_target(value, split["target"], True)) if "target" in split else _plain(value)


def _plain(value: Any) -> Sample:
    leaves, tree = _pytree.tree_flatten(value)
    tensors = [each for each in leaves if isinstance(each, Tensor)]

    def rebuild(parts: Iterator[Tensor]) -> Any:
        return _pytree.tree_unflatten([next(parts) if isinstance(each, Tensor) else each for each in leaves], tree)

    return Sample(tensors, [0] * len(tensors), rebuild)


def copy_of(module: nn.Module) -> nn.Module:
    """A copy of a layer, also of one that keeps a computed weight, as the older weight_norm and prune do."""
    computed = {
        id(tensor): tensor.detach().clone()
        for part in module.modules()
        for tensor in tensors_in(dict(vars(part)))
        if tensor.grad_fn is not None
    }
    return copy.deepcopy(module, computed)


class SizesChecked:
    """A loss that refuses outputs whose samples are not in the first dimension, where the engine would join them."""

    def __init__(self, loss: Callable[[Any, Any], Tensor]) -> None:
        self._loss = loss
        self._first: Optional[tuple[int, list[torch.Size]]] = None  # samples, and shapes of the outputs

    def __call__(self, output: Any, target: Any) -> Tensor:
        samples, shapes = tensors_in(target)[0].shape[0], [each.shape for each in tensors_in(output)]
        first = self._first = self._first or (samples, shapes)
        for before, now in zip(first[1], shapes):
            if samples == first[0] or len(before) != len(now) or not now or before[0] != now[0]:
                continue
            follows = [k for k in range(1, len(now)) if (before[k], now[k]) == (first[0], samples)]
            if follows:
                raise UsageError(
                    f"an output has the shape {tuple(before)} for {first[0]} samples and {tuple(now)} for {samples}; its "
                    f"samples are in dimension {follows[0]}, and a pipeline joins micro-batches in the first one; use "
                    "batch_first=True, transpose the output in the last layer, or name the dimension in split['output']"
                )
        value = self._loss(output, target)
        if isinstance(value, Tensor) and value.numel() != 1:
            raise UsageError(
                f"the loss function returned {value.numel()} values; a backward begins at one; reduce it by mean or sum"
            )
        return value


def warn_of_mixed_samples(
    modules: Iterable[nn.Module], sample: Sample, device: str = "cpu", output: Sequence[int] = ()
) -> None:
    """Warns if the outputs of two samples together are not those of each alone. Runs copies of the layers, in eval mode
    and without gradients. Says nothing about layers that fail, or that return something else each time. ``output``: the
    dimensions of the outputs' samples, where they are not the first ones."""
    try:
        sample = sample.on(device)
        together, again, *alone = _outputs(modules, sample, [(2, 0), (2, 0), (1, 0), (1, 1)], device)
        dimensions = [*output, *[0] * len(together)]
        worst = max((_difference(*each) for each in zip(together, *alone, dimensions)), default=0.0)
        if worst <= _MOST_DIFFERENCE or any(not torch.equal(one, other) for one, other in zip(together, again)):
            return
    except Exception:  # the caller runs the layers too, and meets it there
        return
    warnings.warn(
        f"a sample's output depends on the other samples of its mini-batch, by {worst:.2g} of the largest output; a pipeline "
        "cuts mini-batches along the first dimension, so it computes something else than the whole model. If that is the "
        "sequence, use batch_first=True, or say where the samples are, as by split={0: 1, 'target': 1, 'output': 1}",
        stacklevel=3,
    )


def _outputs(
    modules: Iterable[nn.Module], sample: Sample, parts: Sequence[tuple[int, int]], device: str
) -> list[list[Tensor]]:
    """The outputs for each of the parts (count, first) of the sample."""
    shelves: list[dict[Any, Any]] = [{} for _ in parts]
    values = [sample.part(*each) for each in parts]
    with torch.no_grad():
        for number, module in enumerate(modules):
            layer: Any = copy_of(module).to(device).eval()
            layer = sample.as_first(layer) if number == 0 else layer
            for k, shelf in enumerate(shelves):
                with skips_on(shelf):
                    values[k] = layer(values[k])
    return [tensors_in(value) for value in values]


def _difference(together: Tensor, first: Tensor, second: Tensor, dimension: int) -> float:
    """The largest difference, as a share of the largest value. 0: not comparable."""
    if not _is_cut(together, dimension) or not together.is_floating_point():
        return 0.0
    if together.shape[dimension] != first.shape[dimension] + second.shape[dimension]:
        return 0.0
    alone = torch.cat([first, second], dimension).double()
    largest = float(alone.abs().max())
    return float((together.double() - alone).abs().max()) / largest if largest > 0 else 0.0
