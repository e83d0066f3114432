"""Compares a model that runs micro-batch by micro-batch with the plain model on the whole mini-batch."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn

from pipescope._any_model import ModelLayers, call_of, is_any_model, layers_of
from pipescope._gpipe import GPipe
from pipescope._layers import Layered, Tensors, check_loss, named_layers
from pipescope._mini_batch import inputs_of
from pipescope._structure import copied, error_of, tensors_in
from pipescope._trace_model import Output
from pipescope.errors import Error, UsageError

__all__ = ["Check", "check"]

_FAILURES = (Error, RuntimeError, ValueError, TypeError, IndexError)  #: of a layer that got its micro-batch


@dataclasses.dataclass(frozen=True)
class Check:
    """What check() found. True if everything agrees.

    The errors are the largest difference from the plain model's values, relative to the largest of these values. They are
    infinite for values of another shape or where micro-batches fail, and nan where only one of the two is nan. Values that
    are nan in both agree.
    """

    output_error: float
    loss_error: float
    gradient_error: float
    explanation: str  #: what explains a difference, and what to do; empty if everything agrees

    def __bool__(self) -> bool:
        return not self.explanation

    def __str__(self) -> str:
        errors = f"outputs {self.output_error:.1e}, loss {self.loss_error:.1e}, gradients {self.gradient_error:.1e}"
        return f"differences from the plain model: {errors}\n{self.explanation or 'micro-batches compute what the model does'}"


@dataclasses.dataclass(frozen=True)
class _Values:
    outputs: list[Tensor]
    loss: Tensor
    gradients: list[Tensor]


def check(
    module: Union[nn.Module, Sequence[nn.Module], Mapping[str, nn.Module]],
    input: Union[Tensors, Mapping[str, Any]],
    target: Any = None,
    loss: Optional[Callable[[Any, Any], Tensor]] = None,
    *,
    chunks: int = 4,
    reduction: str = "mean",
    weight: Optional[Callable[[Any], Any]] = None,
    split: Optional[Mapping[Any, Any]] = None,
    **inputs: Any,
) -> Check:
    """Trains copies of a model for one step, plain and micro-batch by micro-batch, and explains a difference.

    ::

        print(pipescope.check(layers, x, y, loss, chunks=8))

    The module is what GPipe takes, a GPipe, or any module, as one layer. The options are those of GPipe; a schedule is not
    among them, since the micro-batches of all schedules compute the same. The micro-batched copy computes the loss of each
    micro-batch. Both run in eval mode, where they must agree, and then in the modes that the modules have.

    A pipeline of a traced model, layers_of() it, or the model itself with a dict, is called as step() is: with a batch, and with
    no target or loss if the model has its own.
    """
    options: dict[str, Any] = {"reduction": reduction, "weight": weight}
    call: _Trial
    if (found := _traced(module, input)) is not None:
        if split is not None:
            raise UsageError("split is given with a traced model, which has one; give it to layers_of() or to its pipeline")
        call = _ModelTrial(found, input, inputs, target, loss, chunks)
    else:
        check_loss(loss)
        options["split"] = split
        call = _Trial(_modules_of(module), input, inputs, target, loss, chunks)
    plain = call.plain(training=False)
    try:
        errors = _errors(plain, call.pipelined(False, **options))
    except _FAILURES as error:
        causes = _state(call, training=False) or _other_split(call, plain, options)
        explanation = "\n".join([f"micro-batches fail: {error}", *causes])
        return Check(float("inf"), float("inf"), float("inf"), explanation)
    if _agree(errors, plain):
        plain = call.plain(training=True)  # as they are, so a norm in eval mode stays in it
        in_train = _errors(plain, call.pipelined(True, **options))
        if _agree(in_train, plain):
            return Check(*in_train, "")
        return Check(*in_train, _explain_training(call, plain))
    if state := _state(call, training=False):
        return Check(*errors, *state)
    if error_of(call.plain(training=False, seed=1).outputs, plain.outputs) != 0:
        return Check(*errors, "the model draws random numbers in eval mode, too, and micro-batches draw others; leave them out to compare")
    if _is_small(errors[0], plain):
        return Check(*errors, _explain_loss(call, plain, options, is_loss_small=_is_small(errors[1], plain)))
    return Check(*errors, _explain_outputs(call, plain, options))


def _traced(module: Any, input: Any) -> Optional[ModelLayers]:
    """The layers of a traced model, and of one that is called with keywords."""
    if isinstance(module, Layered):
        module = getattr(module, "layers", None)
    elif is_any_model(module) and isinstance(input, Mapping):
        module = layers_of(module, input)
    return module if isinstance(module, ModelLayers) else None


def _modules_of(module: Any) -> list[nn.Module]:
    if isinstance(module, Layered):
        return list(module._layers.values())
    if isinstance(module, nn.Module) and not isinstance(module, (nn.Sequential, nn.ModuleList)):
        return [module]
    return list(named_layers(module).values())


class _Trial:
    def __init__(
        self, modules: list[nn.Module], input: Any, inputs: dict[str, Any], target: Any, loss: Any, chunks: int
    ) -> None:
        self._modules, self._input, self._keywords = modules, input, inputs
        self._target, self._loss, self.chunks = target, loss, chunks

    @property
    def _device(self) -> str:
        return next((str(each.device) for layer in self._modules for each in layer.parameters()), "cpu")

    def copies(self, training: bool) -> Any:
        copies = copy.deepcopy(nn.ModuleList(self._modules))
        for each in copies.parameters():
            each.grad = None
        return copies if training else copies.eval()

    def plain(self, training: bool, seed: int = 0) -> _Values:
        return self.run(self.copies(training), seed)

    def run(self, layers: Any, seed: int = 0) -> _Values:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            input, keywords, target = copied((self._input, self._keywords, self._target))
            value = layers[0](input, **keywords)
            for layer in list(layers)[1:]:
                value = layer(value)
            loss = self._loss(value, target)
            loss.backward()
        return _values(value, loss, layers)

    def pipelined(self, training: bool, **options: Any) -> _Values:
        layers, others = self.copies(training), self.copies(training)
        common = {"devices": [self._device], "chunks": self.chunks, "schedule": "1f1b", **options}
        model = GPipe(list(layers), [len(layers)], **common)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            input, keywords = copied((self._input, self._keywords))
            value = GPipe(list(others), [len(others)], **common)(input, **keywords)
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            input, keywords, target = copied((self._input, self._keywords, self._target))
            loss = model.step(input, target, self._loss, **keywords)
        return _values(value, loss, layers)

    def other_splits(self, split: Mapping[Any, Any]) -> list[dict[Any, Any]]:
        """Ways to cut the inputs that may be meant instead: one of them whole, or all along dimension 1."""
        tensors, names, _ = inputs_of(self._input, self._keywords)
        batch = tensors[0].shape[0] if tensors[0].dim() else 0
        whole = [
            {**split, name: None} for name, each in list(zip(names, tensors))[1:] if each.dim() and each.shape[0] == batch
        ]
        along = {name: 1 for name, each in zip(names, tensors) if each.dim() > 1}
        return [*whole, {**along, "target": 1, "output": 1}]


class _ModelTrial(_Trial):
    """Of a traced model, which is called as its author wrote it."""

    def __init__(self, found: ModelLayers, input: Any, inputs: dict[str, Any], target: Any, loss: Any, chunks: int) -> None:
        super().__init__([found.model], input, inputs, target, loss, chunks)
        self._found = found
        self._pipe: Any = GPipe(found, [len(found)], devices=[self._device])

    def copies(self, training: bool) -> Any:
        (model,) = super().copies(training)
        return model

    def run(self, layers: Any, seed: int = 0) -> _Values:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            input, keywords, target = copied((self._input, self._keywords, self._target))
            args, kwargs = call_of(input)
            value = layers(*args, **kwargs, **keywords)
            loss = self._loss(value, input if target is None else target) if self._loss else self._pipe.own_loss(value)
            loss.backward()
        return _values(self._with_samples(value, layers), loss, layers)

    def pipelined(self, training: bool, **options: Any) -> _Values:
        copies = [copy.deepcopy(self._found) for _ in range(2)]
        for each in copies:
            each.model.zero_grad()
            if not training:
                each.model.eval()
        step, forward = (
            GPipe(each, [len(each)], devices=[self._device], chunks=self.chunks, schedule=schedule, **options)
            for each, schedule in zip(copies, ("1f1b", "gpipe"))
        )
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            input, keywords = copied((self._input, self._keywords))
            args, kwargs = call_of(input)
            value = forward(*args, **kwargs, **keywords)
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            input, keywords, target = copied((self._input, self._keywords, self._target))
            loss = step.step(input, target, self._loss, **keywords)
        return _values(self._with_samples(value, copies[0].model), loss, copies[0].model)

    def _with_samples(self, value: Any, model: nn.Module) -> list[Tensor]:
        """Without a loss in the output, which is a mean."""
        tensors = Output(value).tensors
        dimensions = self._found.output(model.training).dimensions if self._found.is_traced else [0] * len(tensors)
        return [each for each, dimension in zip(tensors, dimensions) if dimension is not None]

    def other_splits(self, split: Mapping[Any, Any]) -> list[dict[Any, Any]]:
        return []


def _values(value: Any, loss: Tensor, layers: nn.Module) -> _Values:
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in layers.parameters()]
    return _Values([each.detach() for each in tensors_in(value)], loss.detach(), gradients)


def _errors(plain: _Values, found: _Values) -> tuple[float, float, float]:
    return (
        error_of(found.outputs, plain.outputs),
        error_of([found.loss], [plain.loss.reshape(found.loss.shape)]),
        error_of(found.gradients, plain.gradients),
    )


def _is_small(error: float, plain: _Values) -> bool:
    """Sums in another order differ in the last digits, and parts of a model may compute in float32 whatever the loss has."""
    return bool(error <= max(torch.finfo(plain.loss.dtype).eps, torch.finfo(torch.float32).eps) ** 0.75)


def _agree(errors: tuple[float, float, float], plain: _Values) -> bool:
    return all(_is_small(each, plain) for each in errors)


def _state(call: _Trial, training: bool) -> list[str]:
    """Says so if values depend on the calls before, of which a pipeline makes one for each micro-batch."""
    layers = call.copies(training)
    before = {name: each.clone() for name, each in layers.named_buffers()}
    first: Optional[_Values] = None
    try:
        for _ in range(max(call.chunks, 2)):
            values = call.run(layers)
            first = first or values
            if not _agree(_errors(first, values), first):
                break
            layers.zero_grad()
        else:
            return []
    except _FAILURES:
        if first is None:
            return []
    changed = [name for name, each in layers.named_buffers() if name not in before or not torch.equal(each, before[name])]
    named = f" (buffers that change: {', '.join(changed[:5])})" if changed else ""
    return [
        f"calls with the same input give different values: the model carries state from call to call{named}, or draws random "
        "numbers that are not torch's; a pipeline calls it once for each micro-batch, the plain model once for each mini-batch; "
        "change such state once a step, outside the layers, or accept it"
    ]


def _explain_training(call: _Trial, plain: _Values) -> str:
    for explanation in _state(call, training=True):
        return explanation
    again = call.plain(training=True, seed=1)
    if error_of(again.outputs, plain.outputs) == 0:
        return (
            "in eval mode everything agrees, in train mode it does not: a layer computes with statistics of the mini-batch, as "
            "batch norm does, and sees those of micro-batches instead; use a norm of each sample, eval() for that layer, or "
            "accept it"
        )
    return "in eval mode everything agrees; in train mode the model draws random numbers, such as dropout, and draws others"


def _explain_loss(call: _Trial, plain: _Values, options: dict[str, Any], is_loss_small: bool) -> str:
    if is_loss_small:
        return (
            "outputs and losses agree, and gradients do not: a backward depends on the other samples of its mini-batch, as that of an "
            "autograd.Function or a hook may; or the losses agree by chance, and are means over something else than samples, such as "
            "targets that cross_entropy() does not ignore: give the pipeline their number, as weight=lambda y: (y != -100).sum()"
        )
    if options["reduction"] == "mean" and options["weight"] is None:
        with_sum = _errors(plain, call.pipelined(False, **{**options, "reduction": "sum"}))
        if _agree(with_sum, plain):
            return "outputs agree, and the loss is a sum over samples, not their mean; give the pipeline reduction='sum'"
    if options["reduction"] == "sum":
        return "outputs agree, and the loss is no sum over samples; give the pipeline reduction='mean', with a weight if needed"
    return (
        "outputs agree, but the loss of the mini-batch is not the mean of its micro-batches' losses; if it is a mean over "
        "something else than samples, such as targets that cross_entropy() does not ignore, give the pipeline their number, as "
        "weight=lambda y: (y != -100).sum(); if it compares samples with one another, use the schedule gpipe"
    )


def _other_split(call: _Trial, plain: _Values, options: dict[str, Any]) -> list[str]:
    """Names a split with which the outputs agree, if one is found."""
    for split in call.other_splits(options.get("split") or {}):
        try:
            found = _errors(plain, call.pipelined(False, **{**options, "split": split}))
        except _FAILURES:
            continue
        if _is_small(found[0], plain):
            return [f"an input is not cut along the dimension of its samples; with split={split} the outputs agree"]
    return []


def _explain_outputs(call: _Trial, plain: _Values, options: dict[str, Any]) -> str:
    for explanation in _other_split(call, plain, options):
        return explanation
    return (
        "micro-batches compute other outputs than the mini-batch: the samples are not the first dimension of some input, or "
        "the model mixes samples; say in split how inputs are cut"
    )
