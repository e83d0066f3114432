"""What a model's forward read besides its parameters and buffers, and whether it has changed since.

A trace holds on to all of that. Reads are noted while it is made:

- attributes of the model's modules, and of the plain objects that these reach through attributes, lists, dicts and closures;
- attributes and methods of their classes, unless the class is torch's or of Python's library;
- globals that the code of these methods names, and the code of all functions that they can reach: by a global name, and in what is
  read, through lists, dicts, closures, partials, bound methods, and the methods of plain objects;
- values of tensors that Python reads, as by item(), and torch's default dtype.

An object whose class cannot tell which attributes are read, as SimpleNamespace, counts as a whole. What a forward gets in other
ways, as from a file or from the environment, is not noted.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import contextvars
import copy
import dataclasses
import dis
import enum
import functools
import itertools
import os
import sys
import threading
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from pipescope.errors import UsageError

__all__ = ["Absent", "HeldState", "Reads", "frozen", "held_tensor", "hooks_of_all_modules"]


class Absent:
    """Stands for an attribute that is not there."""


# ---- Values ----


@dataclasses.dataclass(frozen=True, eq=False)
class _Same:
    """Equals what holds the same object."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = object.__hash__


@dataclasses.dataclass(frozen=True)
class _OfFunction:
    """A function and what its closure holds. Copies of a model share their functions."""

    parts: tuple[Any, ...]

    def __deepcopy__(self, memo: Any) -> _OfFunction:
        return self


_ATOMS = frozenset((
    bool, int, float, complex, str, bytes, type(None), range, type, types.ModuleType, types.BuiltinFunctionType, torch.dtype,
    torch.device, torch.layout, torch.memory_format, torch.Size, torch.nn.Parameter, Tensor,
))
_BY_IDENTITY = (Tensor, nn.Module, type, types.ModuleType, enum.Enum, types.BuiltinFunctionType)
_MOST_ITEMS = 4096  #: of a list, dict or set, and of an array's values: of more, only these are compared
_DEEPEST = 6


def frozen(value: Any, watched: frozenset[type] = frozenset(), depth: int = _DEEPEST) -> Any:
    """What equals the frozen value of the same object later unless it has changed. ``watched``: classes whose objects' attributes
    are compared one by one elsewhere."""
    kind = type(value)
    if isinstance(value, _BY_IDENTITY) or value is Absent or kind in watched:
        return _Same(value)
    if kind.__module__ == "numpy":
        return _frozen_array(value)
    if isinstance(value, (bool, int, float, complex, str, bytes, range)) or kind in _ATOMS:
        return kind, value
    if depth == 0:
        return _Same(value)
    below = functools.partial(frozen, watched=watched, depth=depth - 1)
    if isinstance(value, (dict, types.MappingProxyType)):
        items = dict.items(value) if isinstance(value, dict) else value.items()
        return kind, len(value), tuple((key, below(each)) for key, each in itertools.islice(items, _MOST_ITEMS))
    if isinstance(value, (list, tuple, collections.deque)):
        return kind, len(value), tuple(below(each) for each in itertools.islice(value, _MOST_ITEMS))
    if isinstance(value, (set, builtins.frozenset)):
        return kind, builtins.frozenset(value)
    if isinstance(value, bytearray):
        return kind, bytes(value)
    if isinstance(value, functools.partial):
        return kind, below(value.func), below(value.args), below(value.keywords)
    if isinstance(value, types.MethodType):
        return kind, _Same(value.__func__), below(value.__self__)
    if isinstance(value, types.FunctionType):
        return _OfFunction((_Same(value), *(below(each) for _, each in _parts_of(value))))
    if isinstance(value, (contextvars.ContextVar, threading.local)):
        return _Same(value), tuple((name, below(each)) for name, each in _parts_of(value))
    state = _state_of(value) if _is_whole(kind) else None
    if not state:
        return _Same(value)
    return _Same(kind), tuple((name, below(each)) for name, each in state.items())


def _frozen_array(value: Any) -> Any:
    """Of NumPy's arrays and numbers; its other objects are themselves."""
    if not hasattr(value, "tobytes") or value.dtype.hasobject:
        return _Same(value)
    if value.size > _MOST_ITEMS:
        some = value.reshape(-1)[:: value.size // _MOST_ITEMS] if value.flags.c_contiguous else value[:1]
        return _Same(value), value.dtype.str, value.shape, some.tobytes()
    return type(value), value.dtype.str, value.shape, value.tobytes()


def held_tensor(value: Any, title: str = "", depth: int = _DEEPEST) -> str:
    """The name of a tensor or an array that an object holds; empty if it holds none."""
    if isinstance(value, Tensor) or type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        return title or "values"
    if depth == 0 or isinstance(value, (*_BY_IDENTITY, str, bytes)):
        return ""
    return next((found for name, each in _parts_of(value, title) if (found := held_tensor(each, name, depth - 1))), "")


def _parts_of(value: Any, title: str = "") -> list[tuple[str, Any]]:
    """What a container, a function or a plain object holds, with titles."""
    parts: Any = ()
    if isinstance(value, (dict, types.MappingProxyType)):
        items = dict.items(value) if isinstance(value, dict) else value.items()
        parts = ((f"{title}[{key!r}]", each) for key, each in items)
    elif isinstance(value, (list, tuple, set, builtins.frozenset, collections.deque)):
        parts = ((f"{title}[{k}]", each) for k, each in enumerate(value))
    elif isinstance(value, functools.partial):
        parts = [(title, value.func), (title, value.args), (title, value.keywords)]
    elif isinstance(value, types.MethodType):
        parts = [(title, value.__func__), (title, value.__self__)]
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or ())
        defaults = (*zip(itertools.count(), value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items())
        parts = [
            *((_joined(title, name), _content(cell)) for name, cell in cells),
            *((_joined(title, f"default {name}"), each) for name, each in defaults),
        ]
    elif isinstance(value, contextvars.ContextVar):
        with contextlib.suppress(LookupError):  # it has no value
            parts = [(title, value.get())]
    elif isinstance(value, threading.local):
        parts = [(_joined(title, name), each) for name, each in vars(value).items()]
    elif _is_whole(type(value)):
        parts = ((_joined(title, key), each) for key, each in _state_of(value).items())
    return list(itertools.islice(parts, _MOST_ITEMS))


#: What holds other values in another way than by attributes.
_CONTAINERS = (
    dict, types.MappingProxyType, list, tuple, set, builtins.frozenset, collections.deque, functools.partial, types.MethodType,
    types.FunctionType, contextvars.ContextVar, threading.local,
)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return Absent


def _is_atom(value: Any, watched: frozenset[type]) -> bool:
    """True for what is the same as long as it is the same object."""
    kind = type(value)
    if kind in _ATOMS or kind in watched or isinstance(value, _BY_IDENTITY) or value is Absent:
        return True
    return isinstance(value, types.FunctionType) and not (value.__closure__ or value.__defaults__ or value.__kwdefaults__)


_OF_LIBRARY = (sys.stdlib_module_names | {"torch", "numpy", "sympy", "pipescope"}) - {"types", "argparse", "collections", "__main__"}


def _is_of_library(name: Optional[str]) -> bool:
    """Of a module of torch, NumPy or Python, whose objects a training does not change."""
    return str(name).partition(".")[0] in _OF_LIBRARY


def _is_whole(kind: type) -> bool:
    """True if all attributes of such an object count."""
    return not _is_of_library(kind.__module__)


def _state_of(value: Any) -> dict[str, Any]:
    """An object's attributes."""
    state: dict[str, Any] = {}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if isinstance(cls.__dict__.get(name), types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    state[name] = cls.__dict__[name].__get__(value)
    state.update(_dict_of(value))
    return state


def _of_class(kind: type, name: str) -> Any:
    """(what a class or its bases have by this name, the class that has it); Absent if none has."""
    for cls in kind.__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name], cls
    return Absent, None


# ---- Reads ----


def _joined(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


_OF_TORCH = frozenset((
    "training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook",
))
_HOOKS = frozenset(name for name in vars(nn.Module()) if name.endswith("_hooks"))  #: a module's tables of hooks


class Reads:
    """What a forward reads, while ``noted()`` lasts and ``is_running()`` is true."""

    def __init__(self, model: nn.Module) -> None:
        self.own: dict[tuple[int, str], tuple[Any, str, str]] = {}  #: attributes of objects: (object, name, title)
        self.of_classes: dict[tuple[type, str], str] = {}  #: attributes of classes, with a title
        self.counted: list[str] = []  #: attributes that the forward both reads and changes
        self.flags: set[str] = set()  #: of these, those that are now true or a text, and were nothing
        self.of_tensors: dict[Any, tuple[Tensor, Any, str]] = {}  #: tensors whose values Python read, with these, and the place
        self._changed: list[tuple[Any, str]] = []
        self._first: dict[tuple[int, str], Any] = {}
        self._contents: dict[int, tuple[Any, Any, str]] = {}  #: lists, dicts and sets that the forward read, with copies and titles
        self._seen: set[tuple[int, str]] = set()
        self._written: set[tuple[int, str]] = set()  #: so that the forward reads its own value
        self._replaced: dict[tuple[int, str], tuple[Any, str, Any]] = {}  #: attributes that the forward set, with what they were
        self._titles: dict[int, tuple[Any, str]] = {id(module): (module, name) for name, module in model.named_modules()}
        self.watched: frozenset[type] = frozenset()
        for module, name in list(self._titles.values()):
            for key, value in vars(module).items():
                if key not in _OF_TORCH and key not in _HOOKS:
                    self._reach(value, _joined(name, key), 8)

    def _reach(self, value: Any, title: str, depth: int) -> None:
        """Notes the plain objects in a value."""
        if depth == 0 or _is_atom(value, frozenset()) and not isinstance(value, types.FunctionType) or id(value) in self._titles:
            return
        if not isinstance(value, _CONTAINERS) and _is_whole(type(value)) and _state_of(value):
            self._titles[id(value)] = value, title
        for name, each in _parts_of(value, title):
            self._reach(each, name, depth - 1)

    @contextlib.contextmanager
    def noted(self, is_running: Any) -> Iterator[None]:
        """Of the plain objects. Who watches modules calls note() and note_written()."""
        before: list[tuple[Any, str, Any]] = []
        watched = set()
        for kind in {type(each) for each, _ in self._titles.values() if not isinstance(each, nn.Module)}:
            with contextlib.suppress(TypeError, AttributeError):  # a class that cannot be changed
                self._watch(kind, is_running, before)
                watched.add(kind)
        self.watched = frozenset(watched)
        self._note_globals()
        try:
            yield
        finally:
            self.put_back()
            self._put_back_attributes()
            self._contents.clear()
            for kind, name, value in reversed(before):
                if value is Absent:
                    delattr(kind, name)
                else:
                    setattr(kind, name, value)

    def _watch(self, kind: Any, is_running: Any, before: list[tuple[Any, str, Any]]) -> None:
        get, put = kind.__getattribute__, kind.__setattr__

        def noting_get(owner: Any, name: str) -> Any:
            if is_running():
                self.note(owner, name)
            return get(owner, name)

        def noting_put(owner: Any, name: str, value: Any) -> None:
            if is_running():
                self.note_written(owner, name, value)
            put(owner, name, value)

        for name, function in (("__getattribute__", noting_get), ("__setattr__", noting_put)):
            old = kind.__dict__.get(name, Absent)
            setattr(kind, name, function)
            before.append((kind, name, old))

    def note(self, owner: Any, name: str) -> None:
        """Of an attribute that is read."""
        key = id(owner), name
        if key in self._seen or name in _OF_TORCH:
            return
        held, title = self._titles.get(id(owner), (None, ""))
        if held is not owner:
            return
        self._seen.add(key)
        is_module = isinstance(owner, nn.Module)
        if name == "__dict__" and not is_module:
            for each in _state_of(owner):
                self.note(owner, each)
        if name.startswith("__") or key in self._written:
            return
        if is_module and any(name in _dict_of(owner)[table] for table in ("_parameters", "_buffers", "_modules")):
            return
        value, cls = _of_class(type(owner), name)
        is_own = cls is None or isinstance(value, types.MemberDescriptorType)
        if not is_own and not hasattr(type(value), "__set__"):
            is_own = name in _dict_of(owner) or not _is_of_library(cls.__module__)
        if cls is not None and not _is_of_library(cls.__module__) and not isinstance(value, types.MemberDescriptorType):
            self.of_classes.setdefault((type(owner), name), _joined(title, name))
        own = _own_value(owner, name) if is_own else Absent
        if is_own:
            self.own[key] = owner, name, _joined(title, name)
            self._first[key] = frozen(own, self.watched)
        if name not in _HOOKS:
            self._note_contents(*((value, _joined(title, name)) if own is Absent else (own, "")))

    def note_values(self, tensor: Tensor, place: str) -> None:
        """Of a tensor outside of the trace whose values Python reads."""
        if (key := _place_of(tensor)) not in self.of_tensors:
            self.of_tensors[key] = tensor, _values_of(tensor), place

    def _note_contents(self, value: Any, title: str = "") -> None:
        """Of containers, which a forward may put tensors of the trace into, as into a cache of masks. ``title``: of those that are no
        attributes of an object, whose changes are noted elsewhere."""
        is_container = type(value) in (list, dict, set, tuple, collections.OrderedDict)
        is_function = isinstance(value, types.FunctionType) and not _is_of_library(value.__module__)
        if id(value) in self._contents or not (is_container or is_function or isinstance(value, (functools.partial, types.MethodType))):
            return
        self._contents[id(value)] = value, copy.copy(value) if is_container else None, title
        parts = (value.values() if isinstance(value, dict) else value) if is_container else (each for _, each in _parts_of(value))
        for each in list(itertools.islice(parts, _MOST_ITEMS)):
            self._note_contents(each, title)

    def _note_globals(self) -> None:
        """Of the containers among the globals that the code of the modules' classes and functions names."""
        owners = [owner for owner, _ in self._titles.values()]
        classes = {cls for owner in owners for cls in type(owner).__mro__ if not _is_of_library(cls.__module__)}
        values = [each for cls in classes for each in vars(cls).values()]
        values += [each for owner in owners for each in _dict_of(owner).values()]
        for names, name, title in _globals_of(values, frozenset(), of_packages=False).values():
            self._note_contents(names.get(name), title)

    def put_back(self) -> None:
        """At the end of a forward: notes which attributes the forward has changed, and gives containers their contents again."""
        for key, (owner, name, title) in self.own.items():
            if title not in self.counted and name not in _HOOKS:
                if frozen(_own_value(owner, name), self.watched) != self._first[key]:
                    self._changed.append((owner, title))
        for value, before, title in self._contents.values():
            if not isinstance(value, (list, dict, set)) or _has_same_items(value, before):
                continue
            if title and title not in self.counted:
                self.counted.append(title)
            if isinstance(value, list):
                value[:] = before
            else:
                value.clear()
                value.update(before)

    def _put_back_attributes(self) -> None:
        """If the forward kept something of the trace, all attributes that it set are again what they were, also a flag that says that
        it is kept. Else its flags stay, as of hooks that are in place."""
        of_trace = {key for key, (owner, name, _) in self._replaced.items() if _is_of_trace(_own_value(owner, name))}
        keeps = any(not _is_of_library(type(self._replaced[key][0]).__module__) for key in of_trace)
        for key, (owner, name, value) in self._replaced.items():
            if not keeps and key not in of_trace:
                continue
            state = _dict_of(owner)
            if value is Absent:
                state.pop(name, None)
            elif name in state:
                state[name] = value
            else:  # of slots
                object.__setattr__(owner, name, value)
        self._replaced.clear()

    def note_written(self, owner: Any, name: str, value: Any) -> None:
        """Of an attribute that is set."""
        if self._titles.get(id(owner), (None, ""))[0] is not owner:
            return
        key = id(owner), name
        self._replaced.setdefault(key, (owner, name, _own_value(owner, name)))
        if key not in self.own:
            self._written.add(key)
        elif frozen(value, self.watched) != self._first[key]:
            title = self.own[key][2]
            if _is_of_library(type(owner).__module__):
                self._changed.append((owner, title))  # as an RNN's lists of its weights
            else:
                self.counted.append(title)
                if (value is True or type(value) is str) and _own_value(owner, name) in (Absent, None, False):
                    self.flags.add(title)

    def finish(self, kept: Any = ()) -> None:
        """Forgets what the forward changes itself. ``kept``: titles to forget."""
        self.counted += [title for owner, title in self._changed if title not in kept and not _is_of_library(type(owner).__module__)]
        forgotten = {*self.counted, *kept, *(title for _, title in self._changed)}
        self.own = {key: each for key, each in self.own.items() if each[2] not in forgotten}
        self._first.clear()

    def of_generators(self) -> list[str]:
        """Attributes that are generators of random numbers."""
        return [title for owner, name, title in self.own.values() if isinstance(_own_value(owner, name), torch.Generator)]

    def joined(self, other: Optional[Reads]) -> Reads:
        """With those of another call of the same model, which finds its caches as the first one left them."""
        if other is not None:
            self.own = {**self.own, **{key: each for key, each in other.own.items() if each[2] not in self.counted}}
            self.of_classes = {**self.of_classes, **other.of_classes}
            self.of_tensors = {**self.of_tensors, **other.of_tensors}
            self.watched = self.watched & other.watched
        return self


def _has_same_items(value: Any, before: Any) -> bool:
    """Of a list, dict or set, and its earlier copy."""
    if len(value) != len(before):
        return False
    if isinstance(value, dict):
        return all(value.get(key, Absent) is each for key, each in before.items())
    return before <= value if isinstance(value, set) else all(one is other for one, other in zip(value, before))


def _is_of_trace(value: Any, depth: int = _DEEPEST) -> bool:
    """True for a tensor or an unknown size, and what holds one."""
    if isinstance(value, (Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return True
    if depth == 0 or isinstance(value, (*_BY_IDENTITY, str, bytes)):
        return False
    keys = list(value) if isinstance(value, dict) else []
    return any(_is_of_trace(each, depth - 1) for each in (*keys, *(each for _, each in _parts_of(value))))


def _place_of(tensor: Tensor) -> tuple[Any, ...]:
    """Where a tensor has its values, which a trace may give another name."""
    if tensor.layout != torch.strided:
        return (id(tensor),)
    return tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _values_of(tensor: Tensor) -> Any:
    """What is equal as long as a tensor holds the same values. Of many values, and on a device, changes in place are counted."""
    if tensor.numel() > _MOST_ITEMS or tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return 0 if tensor.is_inference() else tensor._version
    with _disable_current_modes():  # a trace would take part
        read = torch._C.TensorBase.tolist  # and be asked for the values of this
        return tensor.shape, tensor.dtype, read(tensor.detach().contiguous().view(-1).view(torch.uint8))


def _dict_of(owner: Any) -> dict[str, Any]:
    """Its attributes, without its class's rules; empty for an object of slots."""
    try:
        state: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return state


def _own_value(owner: Any, name: str) -> Any:
    """An object's attribute; its class's names do not count. A class may have attributes by other rules, such as names that stand for
    others."""
    state = _dict_of(owner)
    if name in state:
        return state[name]
    if isinstance(owner, nn.Module):
        return Absent
    value, cls = _of_class(type(owner), name)
    if cls is not None and not isinstance(value, types.MemberDescriptorType):
        return Absent
    try:
        return getattr(owner, name, Absent)
    except Exception:  # of the class's own rules
        return Absent


# ---- Globals ----


class _Names:
    """The names of a module, or of a class. Copies of a model share them."""

    def __init__(self, owner: Any, names: Any) -> None:
        self.owner, self.names = owner, names

    def get(self, name: str) -> Any:
        return _of_class(self.owner, name)[0] if isinstance(self.owner, type) else self.names.get(name, Absent)

    @property
    def is_installed(self) -> bool:
        """True for the names of an installed package's module."""
        parts = str(self.names.get("__file__") or "").replace("\\", "/").split("/") if isinstance(self.names, dict) else ()
        return "site-packages" in parts or "dist-packages" in parts


_MOST_VALUES = 20_000


def _globals_of(
    values: list[Any], watched: frozenset[type], of_packages: bool = True
) -> dict[tuple[int, str], tuple[_Names, str, str]]:
    """What the code of all functions names that these values and these names lead to: (names, name, title). ``of_packages``: also the
    code of installed packages."""
    found: dict[tuple[int, str], tuple[_Names, str, str]] = {}
    functions: list[Any] = []  # first, since there may be very many other values
    others: list[Any] = []
    seen: dict[int, Any] = {}
    classes: dict[type, bool] = {}  # of objects that a function may have; whether it may call methods of all names that code has
    named: set[str] = set()

    def add(reached: Iterable[Any]) -> None:
        for each in reached:
            (functions if isinstance(each, _METHODS) else others).append(each)

    add(values)
    while functions or others or (more := _called(classes, named, seen)):
        if not functions and not others:
            add(more)
        function = (functions or others).pop()
        if id(function) in seen or len(seen) >= _MOST_VALUES and not isinstance(function, _METHODS):
            continue
        seen[id(function)] = function
        add(_within(function, watched, classes))
        if not isinstance(function, types.FunctionType) or _is_of_library(function.__module__):
            continue
        if not of_packages and _Names(None, function.__globals__).is_installed:
            continue
        named |= _names_in(function.__code__)
        classes.update((each, True) for _, each in _parts_of(function) if isinstance(each, type))
        for path in _paths_of(function.__code__):
            owner: Any = None
            names: Any = function.__globals__
            for name in path:
                holder = _Names(owner, names)
                value = holder.get(name)
                if value is Absent:
                    break
                title = f"global {getattr(owner, '__name__', function.__module__)}"
                found.setdefault((id(names), name), (holder, name, f"{title}.{name}"))
                add([value])
                if not isinstance(value, _CONTAINERS):
                    classes[value if isinstance(value, type) else type(value)] = True
                if isinstance(value, types.ModuleType) and not _is_of_library(value.__name__):
                    owner, names = value, vars(value)
                elif isinstance(value, type) and not isinstance(value, enum.EnumMeta) and not _is_of_library(value.__module__):
                    owner, names = value, value.__dict__
                    names = owner
                else:
                    break
    return found


#: Methods with special names that no operator calls.
_NO_OPERATORS = frozenset((
    "__new__", "__init__", "__post_init__", "__init_subclass__", "__class_getitem__", "__del__", "__repr__", "__str__", "__format__",
    "__dir__", "__sizeof__", "__setattr__", "__delattr__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__",
    "__setstate__",
))
_METHODS = (types.FunctionType, property, staticmethod, classmethod, functools.cached_property)
#: Classes of which a forward makes no objects whose methods it calls, or which layers call as they are.
_NOT_MADE = (nn.Module, torch.autograd.Function, enum.Enum, BaseException)


def _called(classes: Mapping[type, bool], named: Collection[str], seen: Collection[int]) -> list[Any]:
    """Of the objects of classes that no library has: their operators and calls, and the methods of these names, unless seen.
    ``classes``: false for those whose methods of other names are noted where they are read."""
    found = []
    for kind, takes_names in classes.items():
        own: dict[str, Any] = {}
        for cls in () if issubclass(kind, _NOT_MADE) else reversed(kind.__mro__):
            own.update({} if _is_of_library(cls.__module__) else vars(cls))
        found += [
            each for name, each in own.items()
            if isinstance(each, _METHODS) and id(each) not in seen
            and (takes_names and name in named or name.startswith("__") and name not in _NO_OPERATORS)
        ]
    return found


def _within(value: Any, watched: frozenset[type], classes: dict[type, bool]) -> list[Any]:
    """What may hold or be a function that a forward calls where it has this value, whose class is added to ``classes``. ``watched``:
    classes whose attributes and methods are noted where they are read, operators and calls apart."""
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, (staticmethod, classmethod)) or type(value).__name__ == "_lru_cache_wrapper":
        return [value.__wrapped__]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, types.FunctionType) and _is_of_library(value.__module__) or isinstance(value, (*_BY_IDENTITY, str, bytes)):
        return []
    if not isinstance(value, _CONTAINERS) and _is_whole(type(value)):
        classes[type(value)] = classes.get(type(value), False) or type(value) not in watched
    parts = () if type(value) in watched else (each for _, each in _parts_of(value))
    return [each for each in parts if isinstance(each, types.FunctionType) or not _is_atom(each, frozenset())]


def _names_in(code: Any) -> set[str]:
    """All names of globals and attributes."""
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def _paths_of(code: Any) -> Iterator[list[str]]:
    """Globals that code names, with the attributes that it reads of them."""
    path: list[str] = []
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and path:
            path.append(each.argval)
        elif each.opname not in ("PRECALL", "CACHE", "PUSH_NULL"):
            if path:
                yield path
            path = [each.argval] if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") else []
    if path:
        yield path
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _paths_of(constant)


# ---- Whether it has changed ----


def hooks_of_all_modules() -> tuple[Any, ...]:
    """The keys of hooks of all modules, as register_module_forward_hook() adds them, by kind; without those of torch's tools, which
    only watch. Keys are those of this process."""
    kinds: Any = nn.modules.module
    tables = (kinds._global_forward_pre_hooks, kinds._global_forward_hooks, kinds._global_backward_pre_hooks, kinds._global_backward_hooks)
    return os.getpid(), *(tuple(key for key, hook in table.items() if not _is_of_torch(hook)) for table in tables)


def _is_of_torch(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torch.")


class HeldState:
    """What a model's forward read besides its parameters and buffers, which its layers keep as it was. A copy of the model
    and of this object is about the copied model."""

    def __init__(self, model: nn.Module, reads: Optional[Reads] = None) -> None:
        self._model = model
        self._modules = self._modules_now()
        self._of_all = hooks_of_all_modules()
        self._dtype = torch.get_default_dtype()
        self._of_tensors = [] if reads is None else list(reads.of_tensors.values())
        self._watched = frozenset() if reads is None else reads.watched
        self._own, self._hooks = [], []
        absent: dict[int, tuple[Any, str, set[str]]] = {}
        for owner, name, title in () if reads is None else reads.own.values():
            raw = _own_value(owner, name)
            if name in _HOOKS and isinstance(owner, nn.Module):
                self._hooks.append((owner, name, title, _hooks_in(raw)))
            elif raw is Absent and isinstance(owner, nn.Module):
                absent.setdefault(id(owner), (owner, title.rpartition(".")[0], set()))[2].add(name)
            else:
                held = None if _is_atom(raw, self._watched) else frozen(raw, self._watched)
                self._own.append((owner, name, title, raw if held is None else None, held))
        self._absent = [(owner, title, frozenset(names)) for owner, title, names in absent.values()]
        self._missing = [
            (module, table, name, _joined(path, name))
            for path, module in model.named_modules()
            for table in ("_parameters", "_buffers")
            for name, each in getattr(module, table).items()
            if each is None
        ]
        self._outside = [] if reads is None else self._outside_of(reads)

    def _outside_of(self, reads: Reads) -> list[tuple[_Names, str, str, Any, Any]]:
        """Of classes and globals: (names, name, title, value, its frozen value unless it is an atom)."""
        places = [(_Names(kind, None), name, title) for (kind, name), title in reads.of_classes.items()]
        values = [names.get(name) for names, name, _ in places]
        values += [_own_value(owner, name) for owner, name, *_ in self._own]
        values += [each for *_, hooks in self._hooks for each in hooks]
        places += _globals_of(values, self._watched).values()
        found = []
        for names, name, title in places:
            if title in reads.counted:
                continue
            raw = names.get(name)
            held = None if _is_atom(raw, self._watched) or isinstance(raw, property) else frozen(raw, self._watched)
            found.append((names, name, title, raw if held is None else None, held))
        return found

    def __deepcopy__(self, memo: Any) -> HeldState:
        made = object.__new__(HeldState)
        memo[id(self)] = made
        own = {_place_of(each)[0] for each in self._own_tensors()}
        memo.update({id(tensor): tensor for tensor, *_ in self._of_tensors if _place_of(tensor)[0] not in own})
        state = {key: copy.deepcopy(value, memo) for key, value in self.__dict__.items() if key not in ("_outside", "_watched")}
        made.__dict__.update(state, _outside=self._outside, _watched=self._watched)
        made._count_anew()
        return made

    def _own_tensors(self) -> list[Tensor]:
        """Those that the model's attributes reach, of which a copy of the model has copies."""
        waiting, found, seen = [vars(module) for module, *_ in self._modules.values()], [], set()
        while waiting:
            value: Any = waiting.pop()
            if isinstance(value, Tensor):
                found.append(value)
            elif id(value) not in seen and not isinstance(value, (*_BY_IDENTITY, types.FunctionType, str, bytes)):
                seen.add(id(value))
                waiting += [each for _, each in _parts_of(value)]
        return found

    def _count_anew(self) -> None:
        """A copied tensor counts its changes from 0 on."""
        self._of_tensors = [
            (tensor, _values_of(tensor) if isinstance(values, int) else values, place) for tensor, values, place in self._of_tensors
        ]

    def __getstate__(self) -> dict[str, Any]:
        """In a file, numbers and texts of classes and globals only."""
        outside = [
            (names.owner if isinstance(names.owner, type) else names.names.get("__name__"), name, title, raw)
            for names, name, title, raw, held in self._outside
            if held is None and type(raw) in (bool, int, float, str)
        ]
        return {**self.__dict__, "_outside": outside}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._count_anew()
        self._outside = []
        for owner, name, title, raw in state["_outside"]:
            names = _Names(owner, None) if isinstance(owner, type) else _Names(None, vars(sys.modules.get(owner, types.ModuleType(""))))
            if names.get(name) is not Absent:
                self._outside.append((names, name, title, raw, None))

    def _modules_now(self) -> dict[str, tuple[nn.Module, type, Any]]:
        return {
            path: (module, type(module), vars(module).get("forward"))
            for path, module in self._model.named_modules(remove_duplicate=False)
        }

    def check(self) -> None:
        """Raises UsageError if a value is another one now, or a module."""
        now = self._modules_now()
        for path in () if now == self._modules else (*self._modules, *now):
            before, after = self._modules.get(path), now.get(path)
            if before != after:
                is_same = before is not None and after is not None and before[0] is after[0]
                what = "has another class or forward" if is_same else "is another one" if before and after else (
                    "was added" if after else "was removed")
                title = f"'s module {path}" if path else ""
                raise UsageError(
                    f"the model{title} {what} since it was traced, and the pipeline's layers do what they saw "
                    "then; build the pipeline again"
                )
        of_all = hooks_of_all_modules()
        if of_all != self._of_all and of_all[0] == self._of_all[0]:
            raise UsageError(
                "hooks of all modules were added or removed since the model was traced, and the pipeline's layers keep what they saw "
                "then; build the pipeline again"
            )
        for module, name, title, hooks in self._hooks:
            if _hooks_in(vars(module).get(name)) != hooks:
                self._refuse(f"hooks were added or removed at {title.rpartition('.')[0] or 'the model'}")
        for owner, name, title, raw, held in self._own:
            self._compare(_own_value(owner, name), raw, held, title)
        for owner, title, absent in self._absent:
            if not absent.isdisjoint(vars(owner)):
                self._refuse(f"{_joined(title, min(absent & vars(owner).keys()))} has changed")
        for names, name, title, raw, held in self._outside:
            self._compare(_without_new(names, names.get(name), held), raw, held, title)
        for tensor, values, place in self._of_tensors:
            if _values_of(tensor) != values:
                self._refuse(f"forward reads the values of a tensor{place}, which have changed")
        if torch.get_default_dtype() != self._dtype:
            raise UsageError(
                f"torch's default dtype is {torch.get_default_dtype()}, and was {self._dtype} when the model was traced; build the "
                "pipeline again"
            )
        for module, table, name, title in self._missing:
            if getattr(module, table).get(name) is not None:
                raise UsageError(f"the model's {title} was None when it was traced; build the pipeline again")

    def _compare(self, now: Any, raw: Any, held: Any, title: str) -> None:
        if held is None and now is raw:
            return
        if frozen(now, self._watched) != (frozen(raw, self._watched) if held is None else held):
            is_short = held is None and all(isinstance(each, (bool, int, float, str, type(None))) for each in (raw, now))
            self._refuse(f"{title} has changed" + (f" from {raw!r} to {now!r}" if is_short else ""))

    @staticmethod
    def _refuse(what: str) -> None:
        raise UsageError(
            f"the model's {what} since it was traced, and the pipeline's layers keep what they saw then; build the pipeline again"
        )


def _without_new(names: _Names, value: Any, held: Any) -> Any:
    """A global, without the entries that a package has added to a table of its own since, as it does for each class of models."""
    if held is None or type(value) is not dict or held[0] is not dict or len(value) <= held[1] or not names.is_installed:
        return value
    before = {key for key, _ in held[2]}
    return {key: each for key, each in value.items() if key in before}


def _hooks_in(table: Optional[Mapping[int, Any]]) -> tuple[Any, ...]:
    """Hooks' keys and functions."""
    return tuple(table.items()) if table else ()
