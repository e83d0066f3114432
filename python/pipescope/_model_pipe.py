"""A pipeline of a model as its author wrote it: GPipe(model, sample=..)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn

from pipescope import _mini_batch
from pipescope._any_model import ModelLayers, call_of, layers_of
from pipescope._gpipe import GPipe
from pipescope._layers import check_loss
from pipescope._mini_batch import CutTarget
from pipescope._scaled_loss import ScaledLoss
from pipescope._trace_model import leaves_of, with_tensors
from pipescope.errors import UsageError

__all__ = ["ModelPipe"]


class _LossOfOutput:
    """A loss function that gets the model's own output, made of the last layer's."""

    def __init__(self, loss: Callable[[Any, Any], Tensor], layers: ModelLayers, weights: Optional[Tensor]) -> None:
        self.loss = loss
        self._layers, self._weights = layers, weights

    def __call__(self, outputs: Any, target: Any) -> Tensor:
        return self.loss(self._layers.value(outputs, self._weights), target)


class ModelPipe(GPipe):
    """What GPipe makes of a model with a sample. Its parameters, buffers, state_dict() and modes are the model's."""

    def __init__(
        self,
        module: Union[nn.Module, ModelLayers],
        balance: Optional[Iterable[int]] = None,
        *,
        sample: Any = None,
        split: Union[Mapping[str, Any], Sequence[str], None] = None,
        **options: Any,
    ) -> None:
        if isinstance(module, ModelLayers) and (sample is not None or split is not None):
            raise UsageError("sample or split is given with what layers_of() returned, which has them; give them to layers_of()")
        layers = module if isinstance(module, ModelLayers) else layers_of(module, sample, split=split)
        nn.Module.__init__(self)
        self.__dict__["_found"] = layers
        if balance is None and not isinstance(split, Mapping) and split is not None:
            balance = [1] * len(layers)
        super().__init__(layers, balance, split=layers.split(True), **options)

    def _add_layers(self, layers: Mapping[str, nn.Module]) -> None:
        model = self._found.model
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[table] = getattr(model, table)  # the model's own, so that both have the same keys

    @property
    def _found(self) -> ModelLayers:
        found: ModelLayers = self.__dict__["_found"]
        return found

    @property
    def _layers(self) -> dict[str, nn.Module]:
        return self._found._layers

    @property
    def layers(self) -> ModelLayers:
        """The layers by name; ``print()`` shows what crosses between them."""
        return self._found

    @property
    def module(self) -> nn.Module:
        """The model itself."""
        return self._found.model

    def _why_few_layers(self) -> str:
        return self._found.why_whole or "name more modules that begin layers in split, or give fewer devices"

    def _shared_keys(self) -> list[list[str]]:
        return [keys for keys, *_ in self._found.shared_parameters()]

    def _check_keywords(self) -> None:
        """layers_of() has checked them."""

    def _drop_layers_elsewhere(self) -> None:
        """The model stays whole in each process."""

    def _build(self, balance: Optional[list[int]] = None) -> None:
        super()._build(balance)
        self._found.hand_over_buffers()

    # ---- Running ----

    def _model_for(self, input: Any, keywords: Mapping[str, Any] = {}) -> Any:
        found = self._found
        found.check_modes()
        found.check_state()
        found.use_current_tensors()
        found.check_dtypes()
        model = super()._model_for(input, keywords)
        if self.training != found.model.training:
            self._note_mode(found.model.training)
        return model

    def _sizes(self, tensors: Sequence[Tensor]) -> list[int]:
        """Samples of each micro-batch."""
        samples = _mini_batch.samples_of(tensors, range(len(tensors)), self._options["split"])
        count = max(1, min(samples, self.chunks))
        return [samples // count + (k < samples % count) for k in range(count)]

    def _given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The first layer's input."""
        tensors = self._found.flat(args, kwargs)
        if sum(self._sizes(tensors)) == 0 and any(isinstance(each.rule, int) for each in self._found.inputs):
            raise UsageError("the batch has no samples; a pipeline cuts it into micro-batches of at least one; leave it out")
        self._found.check_autocast(args, kwargs)
        self._found.check_sizes(tensors, self._sizes(tensors))
        return tensors if self._found.is_traced else tensors[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model with its own arguments, and returns its own type. A loss in it is the mean over micro-batches. In
        several processes, under no_grad: the output where the last partition is, else None."""
        self._check_call()
        given = self._given(args, kwargs)
        weights = self._micro_batch_weights(given, None)
        output = super().forward(given)
        return None if output is None else self._found.value(output, weights)  # None: another process has it

    def step(
        self, input: Any, target: Any = None, loss: Optional[Callable[[Any, Any], Tensor]] = None, **inputs: Any
    ) -> Tensor:
        """Runs forward, loss and backward inside the schedule. Adds to the parameters' .grad; returns the loss, detached.

        ``input``: a batch, which is a dict of the model's keywords, a tuple of its arguments, ``(args, kwargs)``, or one
        tensor; with ``inputs`` by keyword. ``loss(output, target)`` takes the model's own output. Default: the loss in it.
        Without a target the loss gets the batch, or a micro-batch's part of it, and so does the option ``weight``. In several
        processes, each is given the batch.
        """
        self._check_call()
        given, of_loss, call_loss = self._for_step(input, target, loss, inputs)
        return super().step(given, of_loss, call_loss)

    def _for_step(self, batch: Any, target: Any, loss: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        args, kwargs = call_of(batch)
        given = self._given(args, {**kwargs, **inputs})
        if loss is not None:
            check_loss(loss)
        is_own = target is None
        if is_own:
            target = self._as_target(batch, inputs, given)
        weights = self._micro_batch_weights(given, target)
        if isinstance(loss, ScaledLoss):
            inner = self._called_loss(loss.loss, weights)
            return given, target, ScaledLoss(inner, loss._scale, loss._factor)
        return given, target, self._called_loss(loss or self.own_loss, weights)

    def _as_target(self, batch: Any, inputs: Mapping[str, Any], given: Any) -> Any:
        """The batch, of which a loss for each micro-batch gets a part. Its tensors are cut as they are for the model."""
        found = self._found.inputs
        if isinstance(batch, Tensor) and not inputs and found[0].rule == 0:
            return batch
        args, kwargs = call_of(batch)
        if args and (kwargs or inputs):
            batch = (args, {**kwargs, **inputs})
        elif not args:
            batch = {**kwargs, **inputs}
        tensors = given if isinstance(given, (tuple, list)) else (given,)
        rules = {id(each): info.rule for info, each in reversed(list(zip(found, tensors)))}
        leaves, tree = leaves_of(batch)
        parts = tuple(each for each in leaves if isinstance(each, Tensor))
        rebuild = functools.partial(with_tensors, leaves, tree)
        return CutTarget(parts, tuple(rules.get(id(each)) if each.dim() else None for each in parts), rebuild)

    def own_loss(self, output: Any, batch: Any = None) -> Tensor:
        """The loss that the model computed, of its output."""
        loss = self._found.loss_of(output)
        if loss is None:
            raise UsageError(
                "the model's output has no loss; give the model what it needs for one, such as labels, or step() a loss function"
            )
        return loss

    def _called_loss(self, loss: Callable[[Any, Any], Tensor], weights: Optional[Tensor]) -> Callable[[Any, Any], Tensor]:
        return _LossOfOutput(loss, self._found, weights if self._is_whole_loss else None)

    def _check_reduction(self, model: Any, loss: Any, target: Any) -> None:
        inner = loss.loss if isinstance(loss, ScaledLoss) else loss
        super()._check_reduction(model, inner.loss if isinstance(inner, _LossOfOutput) else inner, target)

    @property
    def _is_whole_loss(self) -> bool:
        return bool(self._options["schedule"] == "gpipe")

    def _micro_batch_weights(self, given: Any, target: Any) -> Tensor:
        """By how much each micro-batch's loss counts where losses are joined."""
        sizes = self._sizes(given if isinstance(given, (tuple, list)) else (given,))
        weight = self._options["weight"]
        if self._options["reduction"] == "sum":
            return torch.ones(len(sizes))
        if weight is None or target is None or not self._is_whole_loss:
            weights = torch.tensor(sizes, dtype=torch.float64)
        else:
            parts, rules, rebuild = _mini_batch.flatten_target(target, self._target_rules(target), True)
            ends = [0, *itertools.accumulate(sizes)]
            weights = torch.tensor([
                float(weight(rebuild(iter([
                    _mini_batch.part_of(each, rule, first, end) if each.dim() else each
                    for each, rule in zip(parts, rules)
                ]))))
                for first, end in zip(ends, ends[1:])
            ], dtype=torch.float64)
        return weights / weights.sum()

    def _target_rules(self, target: Any) -> Any:
        """What is whole for the model is whole for the loss."""
        rules = {each.name: each.rule for each in self._found.inputs}
        return {name: rules[name] for name in target if name in rules} if isinstance(target, Mapping) else 0

    def _split_with(self, target: Any) -> Mapping[Any, Any]:
        split = self._found.split()
        return {**split, "target": self._target_rules(target)} if isinstance(target, Mapping) else split

    def train_staggered(
        self,
        batches: Iterable[Any],
        loss: Optional[Callable[[Any, Any], Tensor]],
        update: Callable[[int], None],
        done: Callable[[Tensor], None] = lambda loss: None,
    ) -> None:
        """As GPipe's, with batches as step() takes them. ``loss``: None for the model's own."""
        losses = self._called_loss(loss or self.own_loss, None)

        def mini_batches() -> Iterator[tuple[Any, Any]]:
            for batch in batches:
                yield self._for_step(batch, None, None, {})[:2]

        super().train_staggered(mini_batches(), losses, update, done)

    # ---- The model's own ----

    def train(self, mode: bool = True) -> ModelPipe:
        self._found.model.train(mode)
        self._note_mode(mode)
        return self

    def _note_mode(self, mode: bool) -> None:
        """The model has this mode; its modules may have others."""
        for layer in self._layers.values():
            layer.training = mode
        self.training = mode
        if self.__dict__.get("_model") is not None:
            self._model.train(mode)

    def _elsewhere(self, with_copies: bool = False) -> set[str]:
        """The names of the model's tensors that only other processes' lanes hold, and train; ``with_copies``: or use."""
        if not self._is_in_processes or self._model is None:
            return set()
        held = [{id(each) for each in self._found.tensors_of(layer, with_copies)} for layer in self._layers.values()]
        here: set[int] = set()
        for first, end, _lane, _device, is_here in self._model.partitions:
            here.update(*held[first:end] if is_here else ())
        others = set().union(*held) - here
        model = self._found.model
        named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
        return {name for name, each in named if id(each) in others}

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        elsewhere = self._elsewhere(with_copies=True)  # one that is only used here gets no gradient, and an optimizer is never empty
        prefix = args[0] if args else kwargs.get("prefix", "")
        for name, each in super().named_parameters(*args, **kwargs):
            if name.removeprefix(f"{prefix}.") not in elsewhere:
                yield name, each

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's. In several processes, what this one's lanes hold."""
        state = self._found.model.state_dict(*args, **kwargs)
        for name in self._elsewhere():
            state.pop(kwargs.get("prefix", "") + name, None)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Into the model. In several processes, a state of all its tensors or of this one's."""
        elsewhere = self._elsewhere() - state_dict.keys()
        if not elsewhere:
            return self._found.model.load_state_dict(state_dict, strict, assign)
        own = {name: each for name, each in self._found.model.state_dict().items() if name in elsewhere}
        return self._found.model.load_state_dict({**own, **state_dict}, strict, assign)
