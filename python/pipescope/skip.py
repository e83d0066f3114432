"""Skip connections: a layer stashes a tensor, and a later layer pops it, past all layers between.

::

    @skippable(stash=["early"])
    class Stem(nn.Module):
        def forward(self, x):
            yield stash("early", x)
            return self.conv(x)

    @skippable(pop=["early"])
    class Head(nn.Module):
        def forward(self, x):
            early = yield pop("early")
            return self.conv(x) + early

In a GPipe the tensor goes straight to the lane that pops it. Several modules may pop one skip: it goes once to each lane, and the
gradients of a lane's modules come back as one. Outside of a GPipe, such modules run in a plain nn.Sequential too; if several pop
one skip, after ``verify_skippables(sequential)``, which a GPipe calls itself.
The names are those of torchgpipe (arXiv 2004.09910, section 3.3), where one module pops a skip.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Callable, ClassVar, Optional, Union

from torch import Tensor, nn

from pipescope._torch import engine

__all__ = ["Namespace", "Skippable", "pop", "skippable", "stash", "verify_skippables"]


class Namespace:
    """A space of names of its own: equal names in two spaces are different skips."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = uuid.uuid4()

    def __repr__(self) -> str:
        return f"<Namespace '{self.id}'>"

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self.id == other.id

    def __lt__(self, other: "Namespace") -> bool:
        return self.id < other.id if isinstance(other, Namespace) else False

    def __le__(self, other: "Namespace") -> bool:
        return self == other or self < other


class stash:
    """``yield stash(name, tensor)`` passes a tensor on; None for "nothing this time"."""

    __slots__ = ("name", "tensor")

    def __init__(self, name: str, tensor: Optional[Tensor]) -> None:
        self.name = name
        self.tensor = tensor


class pop:
    """``tensor = yield pop(name)`` takes what an earlier layer stashed."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Shelf(threading.local):
    """Skips on their way outside a pipeline."""

    def __init__(self) -> None:
        self.tensors: dict[tuple[str, str], Optional[Tensor]] = {}


_shelf = _Shelf()


@contextlib.contextmanager
def skips_on(shelf: dict[tuple[str, str], Optional[Tensor]]) -> Iterator[None]:
    """Skips outside a pipeline lie on this shelf."""
    before, _shelf.tensors = _shelf.tensors, shelf
    try:
        yield
    finally:
        _shelf.tensors = before


class Skippable(nn.Module):
    """Base of the classes that skippable() makes: runs the module and serves its stashes and pops."""

    module_cls: ClassVar[Callable[..., nn.Module]]
    stashable_names: ClassVar[frozenset[str]]
    poppable_names: ClassVar[frozenset[str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = self.module_cls(*args, **kwargs)
        self.namespaces: dict[str, Namespace] = {}
        self._names_in_engine: dict[str, str] = {}  # of the skips that a pipeline carries for this module
        self._popped_later: frozenset[str] = frozenset()  # names that a later module pops too

    def __repr__(self) -> str:
        return f"@skippable({self.module})"

    def isolate(self, ns: Namespace, *, only: Optional[Iterable[str]] = None) -> "Skippable":
        """Puts this module's names, or only some, into a namespace. Returns the module."""
        for name in self.stashable_names | self.poppable_names if only is None else set(only):
            self.namespaces[name] = ns
        return self

    def namespaced(self, name: str) -> tuple[Optional[Namespace], str]:
        return (self.namespaces.get(name), name)

    def stashable(self) -> Iterable[tuple[Optional[Namespace], str]]:
        return [self.namespaced(name) for name in sorted(self.stashable_names)]

    def poppable(self) -> Iterable[tuple[Optional[Namespace], str]]:
        return [self.namespaced(name) for name in sorted(self.poppable_names)]

    def skip_names(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """(space, name) of what it stashes and pops, for the engine."""
        return ([self._key(name) for _, name in self.stashable()], [self._key(name) for _, name in self.poppable()])

    def declare_skips(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """skip_names(), which the pipeline carries from now on."""
        self._names_in_engine = {name: name for name in self.stashable_names | self.poppable_names}
        return self.skip_names()

    def _key(self, name: str) -> tuple[str, str]:
        space = self.namespaces.get(name)
        return ("" if space is None else str(space.id), name)

    def forward(self, input: Any) -> Any:
        popped = {name: self._take(name) for name in sorted(self.poppable_names)}
        stashed: dict[str, Optional[Tensor]] = {}
        output = self.module(input)
        if isinstance(output, Generator):
            output = self._serve(output, popped, stashed)
        _check_none_left("stashed", self.stashable_names - stashed.keys())
        _check_none_left("popped", popped.keys())
        for name, tensor in stashed.items():
            self._put(name, tensor)
        return output

    def _serve(
        self,
        commands: Generator[Union[stash, pop], Optional[Tensor], Any],
        popped: dict[str, Optional[Tensor]],
        stashed: dict[str, Optional[Tensor]],
    ) -> Any:
        answer: Optional[Tensor] = None
        while True:
            try:
                command = commands.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = None
            if isinstance(command, stash):
                if command.name not in self.stashable_names:
                    raise RuntimeError(f"'{command.name}' has not been declared as stashable")
                stashed[command.name] = command.tensor
            elif isinstance(command, pop):
                if command.name not in self.poppable_names:
                    raise RuntimeError(f"'{command.name}' has not been declared as poppable")
                if command.name not in popped:
                    raise RuntimeError(f"'{command.name}' is popped twice")
                answer = popped.pop(command.name)
            else:
                raise TypeError(f"{command!r} is not a command from @skippable")

    def _take(self, name: str) -> Optional[Tensor]:
        if name in self._names_in_engine and engine.has_skips():
            tensor: Optional[Tensor] = engine.pop(self._names_in_engine[name])
            return tensor
        try:
            return _shelf.tensors[self._key(name)] if name in self._popped_later else _shelf.tensors.pop(self._key(name))
        except KeyError:
            raise RuntimeError(f"'{name}' has not been stashed") from None

    def _put(self, name: str, tensor: Optional[Tensor]) -> None:
        if name in self._names_in_engine and engine.has_skips():
            engine.stash(self._names_in_engine[name], tensor)
        else:
            _shelf.tensors[self._key(name)] = tensor


def skippable_in(layer: nn.Module) -> Optional[Skippable]:
    """The layer with skips that this one is, or that torch.compile() made it of; None for any other."""
    inner = getattr(layer, "_orig_mod", layer)
    return inner if isinstance(inner, Skippable) else None


def _check_none_left(verb: str, names: Iterable[str]) -> None:
    left = ", ".join(f"'{name}'" for name in sorted(names))
    if left:
        raise RuntimeError(f"{left} must be {verb} but have not")


def skippable(
    stash: Iterable[str] = (), pop: Iterable[str] = ()
) -> Callable[[Callable[..., nn.Module]], type[Skippable]]:
    """Declares the skips of a module class whose forward yields stash() and pop()."""
    stashable, poppable = frozenset(stash), frozenset(pop)

    def extend(module_cls: Any) -> type[Skippable]:
        members = {"module_cls": module_cls, "stashable_names": stashable, "poppable_names": poppable,
                   "__module__": module_cls.__module__, "__qualname__": module_cls.__qualname__}
        return type(module_cls.__name__, (Skippable,), members)

    return extend


def verify_skippables(module: Union[nn.Sequential, Mapping[str, nn.Module]], *, pops_once: bool = False) -> None:
    """Raises a TypeError that lists every stash without a pop, and every pop without its stash before it. Tells the modules which
    of their skips a later one pops too. ``pops_once``: as in torchgpipe, a second pop is a fault."""
    children = list(module.items() if isinstance(module, Mapping) else module.named_children())
    stashed: set[tuple[str, str]] = set()
    popped: set[tuple[str, str]] = set()
    faults: list[str] = []
    for layer_name, layer in children:
        own = skippable_in(layer)
        if own is None:
            continue
        both = own.stashable_names & own.poppable_names
        faults += [f"'{layer_name}' declared '{name}' both as stashable and as poppable" for name in sorted(both)]
        stashes, pops = own.skip_names()
        for key in stashes:
            if key[1] in both:
                continue
            if key in stashed:
                faults.append(f"'{layer_name}' redeclared '{key[1]}' as stashable but not isolated by namespace")
            stashed.add(key)
        for key in pops:
            if key[1] in both:
                continue
            if key in popped and pops_once:
                faults.append(f"'{layer_name}' redeclared '{key[1]}' as poppable but not isolated by namespace")
            elif key not in stashed:
                faults.append(f"'{layer_name}' declared '{key[1]}' as poppable but it was not stashed")
            else:
                popped.add(key)
    faults += [f"no module declared '{name}' as poppable but stashed" for _, name in sorted(stashed - popped)]
    if faults:
        raise TypeError("one or more pairs of stash and pop do not match:\n\n" + "\n".join(f"* {each}" for each in faults))
    later: set[tuple[str, str]] = set()
    for own in filter(None, (skippable_in(layer) for _, layer in reversed(children))):
        pops = own.skip_names()[1]
        own._popped_later = frozenset(name for space, name in pops if (space, name) in later)
        later |= set(pops)
