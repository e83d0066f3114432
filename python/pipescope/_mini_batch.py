"""What a call of GPipe is given: tensors that the engine cuts, and how the first layer and the loss get their parts."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from pipescope.errors import EngineError, UsageError

__all__ = ["Call", "CutTarget", "Rule", "Split", "flatten_target", "inputs_of", "make_call", "output_dimensions", "samples_of", "split_of"]

# A dimension; None: each micro-batch gets the whole tensor; a function (whole, first, end) -> tensor makes its part.
Rule = Union[int, None, Callable[[Tensor, int, int], Tensor]]

_OF_MODEL = ("target", "output")  # keys of split that name no input


class Split(NamedTuple):
    """How the tensors of one call are cut, by position."""

    input: tuple[Rule, ...] = ()
    target: tuple[Rule, ...] = ()
    output: tuple[int, ...] = ()


def part_of(tensor: Tensor, rule: Rule, first: int, end: int) -> Tensor:
    """The samples from ``first`` to before ``end``, as a micro-batch gets them."""
    if rule is None:
        return tensor
    return tensor.narrow(rule, first, end - first) if isinstance(rule, int) else rule(tensor, first, end)


def _rule(value: Any, name: str) -> Rule:
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(
            f"split[{name}] is {value!r}; it is the dimension of the samples, None for a tensor that each micro-batch gets "
            "whole, or a function (whole, first, end) that makes a micro-batch's part; give one of these"
        )
    return value


def split_of(split: Optional[Mapping[Any, Any]]) -> dict[Any, Any]:
    """The option ``split``, checked."""
    if split is None:
        return {}
    if not isinstance(split, Mapping):
        raise UsageError(f"split is a {type(split).__name__}; it names inputs; write it as {{'mask': None, 'positions': 1}}")
    for key, value in split.items():
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            raise UsageError(f"split has the key {key!r}; keys are keywords and positions of inputs; use one")
        if key == "output":
            for each in _dimensions(value):
                if isinstance(each, bool) or not isinstance(each, int):
                    raise UsageError(f"split['output'] is {value!r}; outputs are joined along a dimension; give its number")
        elif key == "target" and isinstance(value, Mapping):
            for name, inner in value.items():
                _rule(inner, f"'target'][{name!r}")
        else:
            _rule(value, repr(key))
    return dict(split)


def _dimensions(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def output_dimensions(split: Mapping[Any, Any]) -> tuple[int, ...]:
    """Those along which the outputs are joined; of further outputs it is the first one."""
    return _dimensions(split["output"]) if "output" in split else ()


class Call:
    """What one call of the model has besides tensors. The engine keeps it for the lanes, until its backward."""

    def __init__(self, kind: Any, names: tuple[str, ...], others: dict[str, Any], rebuild: Any) -> None:
        self._kind = kind  # of the input: Tensor, tuple or list
        self._names = names  # of the tensors given by keyword
        self._others = others  # given by keyword
        self._rebuild = rebuild  # of the target

    def run_first_layer(self, module: Any, tensors: tuple[Tensor, ...]) -> Any:
        count = len(tensors) - len(self._names)
        own = tensors[0] if issubclass(self._kind, Tensor) else self._kind(tensors[:count])
        return module(own, **dict(zip(self._names, tensors[count:])), **self._others)

    def target(self, tensors: tuple[Tensor, ...]) -> Any:
        return self._rebuild(iter(tensors))


def inputs_of(input: Any, keywords: Mapping[str, Any]) -> tuple[list[Tensor], list[Union[int, str]], dict[str, Any]]:
    """(tensors, their positions or keywords, what else is given by keyword)."""
    if not isinstance(input, (Tensor, type(None))) and type(input) not in (tuple, list):
        raise TypeError(f"the model is given {type(input).__name__}; it takes a tensor, or a tuple or list of tensors")
    tensors = [] if input is None else [input] if isinstance(input, Tensor) else list(input)
    names: list[Union[int, str]] = list(range(len(tensors)))
    others = {}
    for name, value in keywords.items():
        if isinstance(value, Tensor):
            tensors.append(value)
            names.append(name)
        elif value is None or isinstance(value, (bool, int, float, complex, str)):
            others[name] = value
        else:
            raise TypeError(
                f"the input '{name}' is a {type(value).__name__}; by keyword the model takes tensors, and numbers, texts and "
                "None, which each micro-batch gets; give each tensor its own keyword"
            )
    return tensors, names, others


def samples_of(tensors: Sequence[Tensor], names: Sequence[Union[int, str]], split: Mapping[Any, Any]) -> int:
    """Number of samples of a mini-batch. Raises EngineError where the tensors cannot be cut."""
    batch, first = 0, None
    for tensor, name in zip(tensors, names):
        rule = split.get(name, 0)
        if not isinstance(rule, int):
            continue
        shown = f"input {name}" if isinstance(name, int) else f"input '{name}'"
        remedies = (
            f"split={{{name!r}: None}} gives each micro-batch the whole tensor, and a number instead of None is the dimension "
            "along which it is cut"
        )
        if not -tensor.dim() <= rule < tensor.dim():
            raise EngineError(
                f"{shown} has the shape {tuple(tensor.shape)}, so it cannot be cut along dimension {rule}; the samples are "
                f"its first dimension, unless split says otherwise; {remedies}"
            )
        size = int(tensor.shape[rule])
        if first is None:
            batch, first = size, shown
        elif size != batch:
            raise EngineError(
                f"{shown} holds {size} samples and {first} holds {batch}; all inputs are cut alike, so they must agree; "
                f"make their first dimensions equal, or say how it is cut: {remedies}"
            )
    return batch


# ---- Targets ----

_WHOLE = (bool, int, float, complex, str, bytes, type(None))


class _Tree:
    """Takes the tensors out of a target, and knows how to put their parts back."""

    def __init__(self, is_cut: bool) -> None:
        self.is_cut = is_cut  # into micro-batches
        self.tensors: list[Tensor] = []
        self.rules: list[Rule] = []

    def take(self, value: Any, rule: Rule, where: str) -> Callable[[Iterator[Tensor]], Any]:
        if isinstance(value, Tensor):
            self.tensors.append(value)
            self.rules.append(rule)
            return next
        if isinstance(value, Mapping):
            return self._take_mapping(value, [rule] * len(value), where)
        if isinstance(value, tuple):
            return self._take_entries(value, [rule] * len(value), where)
        if isinstance(value, list):
            if self.is_cut and rule is not None and self._holds_samples(value, where):
                return self._take_samples(value)
            return self._take_entries(value, [rule] * len(value), where)
        if self.is_cut and rule is not None and not isinstance(value, _WHOLE):
            raise TypeError(
                f"{where} is a {type(value).__name__}; a loss for each micro-batch cuts tensors, lists of one entry for each "
                "sample, and dicts and tuples of them; convert it, or use the schedule gpipe"
            )
        return lambda parts: value

    def take_top(self, value: Any, rule: Any) -> Callable[[Iterator[Tensor]], Any]:
        if not isinstance(rule, Mapping):
            return self.take(value, rule, "the target")
        keys = list(value) if isinstance(value, Mapping) else range(len(value)) if isinstance(value, (tuple, list)) else []
        unknown = [key for key in rule if key not in keys]
        if unknown:
            raise UsageError(f"split['target'] names {unknown[0]!r}, which the target does not have; name one of its entries")
        rules = [rule.get(key, 0) for key in keys]
        if isinstance(value, Mapping):
            return self._take_mapping(value, rules, "the target")
        return self._take_entries(value, rules, "the target")

    def _take_mapping(self, value: Any, rules: list[Rule], where: str) -> Callable[[Iterator[Tensor]], Any]:
        entries = [(key, self.take(value[key], rule, f"{where}[{key!r}]")) for key, rule in zip(value, rules)]

        def rebuild(parts: Iterator[Tensor]) -> Any:
            made = copy.copy(value)
            for key, entry in entries:
                made[key] = entry(parts)
            return made

        return rebuild

    def _take_entries(self, value: Any, rules: list[Rule], where: str) -> Callable[[Iterator[Tensor]], Any]:
        entries = [self.take(each, rule, f"{where}[{k}]") for k, (each, rule) in enumerate(zip(value, rules))]
        make = type(value)._make if hasattr(value, "_make") else type(value)
        return lambda parts: make([entry(parts) for entry in entries])

    def _holds_samples(self, value: list[Any], where: str) -> bool:
        """False if it is a list of tensors that are cut themselves."""
        if not value:
            return False
        if not all(isinstance(each, Tensor) and each.dim() > 0 for each in value):
            return True
        sizes = {each.shape[0] for each in value}
        if len(sizes) > 1:
            return True
        if sizes == {len(value)} and len(value) > 1:
            raise EngineError(
                f"{where} is a list of {len(value)} tensors that hold {len(value)} rows each, which may be a tensor for each "
                "sample or tensors to cut; give a tuple if they are to be cut, or a list of dicts or tuples, one for each "
                "sample"
            )
        return False

    def _take_samples(self, value: list[Any]) -> Callable[[Iterator[Tensor]], Any]:
        self.tensors.append(torch.arange(len(value)))  # is cut as a tensor of the samples is
        self.rules.append(0)

        def rebuild(parts: Iterator[Tensor]) -> Any:
            part = next(parts)
            return [_on(value[k], part.device) for k in part.tolist()]

        return rebuild


def _on(value: Any, device: torch.device) -> Any:
    """A sample's own tensors, where the loss is computed."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        made: Any = copy.copy(value)
        for key in value:
            made[key] = _on(value[key], device)
        return made
    if isinstance(value, (tuple, list)):
        entries = [_on(each, device) for each in value]
        return type(value)._make(entries) if hasattr(value, "_make") else type(value)(entries)
    return value


@dataclasses.dataclass(frozen=True)
class CutTarget:
    """A target of tensors that are cut as said, and what the loss gets of their parts."""

    tensors: tuple[Tensor, ...]
    rules: tuple[Rule, ...]
    rebuild: Callable[[Iterator[Tensor]], Any]


def flatten_target(target: Any, rule: Any, is_cut: bool) -> tuple[list[Tensor], list[Rule], Any]:
    """(tensors, their rules, how the loss gets its part of them)."""
    if isinstance(target, CutTarget):
        return list(target.tensors), list(target.rules), target.rebuild
    tree = _Tree(is_cut)
    rebuild = tree.take_top(target, rule)
    return tree.tensors, tree.rules, rebuild


def _is_plain(target: Any) -> bool:
    """True for what the engine cuts and gives back by itself."""
    if type(target) is list and len(target) > 1:
        return False  # perhaps one entry for each sample
    return target is None or isinstance(target, Tensor) or (
        type(target) in (tuple, list) and bool(target) and all(isinstance(each, Tensor) for each in target)
    )


def make_call(
    tensors: list[Tensor],
    names: list[Union[int, str]],
    others: dict[str, Any],
    kind: Any,
    target: Any,
    split: Mapping[Any, Any],
    cuts_target: bool,
    always: bool = False,
) -> tuple[Any, Optional[Call], Split]:
    """(the target's tensors for the engine, the call if it needs one, how it is cut). ``always``: it needs one."""
    input_rules = tuple(split.get(name, 0) for name in names)
    output = output_dimensions(split)
    has_keywords = bool(others) or any(isinstance(name, str) for name in names)
    if not has_keywords and not always and _is_plain(target) and "target" not in split:
        return target, None, Split(_shortened(input_rules), (), output)
    parts, rules, rebuild = flatten_target(target, split.get("target", 0), cuts_target)
    keywords = tuple(name for name in names if isinstance(name, str))
    return parts, Call(kind, keywords, others, rebuild), Split(_shortened(input_rules), _shortened(tuple(rules)), output)


def _shortened(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Without the rules at the end that hold anyway, so that equal splits are equal."""
    count = len(rules)
    while count and rules[count - 1] == 0:
        count -= 1
    return rules[:count]
