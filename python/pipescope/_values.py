"""Arguments of Python as values of options, which the table of the question's options reads."""

from __future__ import annotations

import contextlib
import numbers
import operator
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex, Union

from pipescope.errors import Error, UsageError

#: A number, or a text with a unit such as "12GB/s".
Quantity = Union[str, float]
#: A list of numbers, or a text such as "4,4".
Numbers = Union[str, int, float, Iterable[SupportsIndex], Iterable[float]]
Path = Union[str, "os.PathLike[str]"]
#: Names: a list, or a text such as "A100,H100".
Names = Union[str, Iterable[str]]
#: What _core takes of an option: a flag, a text, or the items of a list.
Value = Union[bool, bytes, "list[bytes]"]

def _text(name: str, value: Any) -> str:
    """One value as a person writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise UsageError(f"{name} is {value}; it takes a number or a text; leave it out for its default")
    with contextlib.suppress(TypeError):  # arrays have __index__ too, and refuse
        return str(operator.index(value))
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, Mapping)):
        with contextlib.suppress(TypeError):  # an array without dimensions
            return ",".join(_text(f"{name}[{place}]", each) for place, each in enumerate(value))
    raise UsageError(f"{name} is a {type(value).__name__}; it takes a number, a text or a list of them")


def _encoded_text(name: str, value: Any) -> bytes:
    text = _text(name, value)
    if "\0" in text:
        raise UsageError(f"{name} has a NUL character, which no option can have; leave it out")
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        raise UsageError(f"{name} is {text!r}, which is no valid text; change it") from None


def values_of(options: Mapping[str, Any]) -> list[tuple[str, Value]]:
    """The options that are not None, with a bool, a text, or the texts of a list's items."""
    values: list[tuple[str, Value]] = []
    for name, value in options.items():
        if isinstance(value, bool):
            values.append((name, value))
        elif isinstance(value, (list, tuple)):
            values.append((name, [_encoded_text(f"{name}[{place}]", each) for place, each in enumerate(value)]))
        elif value is not None:
            values.append((name, _encoded_text(name, value)))
    return values


def encoded(path: Path | bytes) -> bytes:
    """The name of a file as the system has it."""
    try:
        name = os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        raise UsageError(f"{path!r} is no name; names are texts or paths; write it as 'run.sqlite'") from None
    if b"\0" in name:
        raise UsageError(f"{os.fsdecode(name)!r} is no name of a file, since it has a NUL character; correct it")
    return name


def encoded_all(paths: Path | Iterable[Path]) -> list[bytes]:
    """Those of one file or several."""
    if isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable):
        return [encoded(paths)]
    return [encoded(each) for each in paths]


def text_of(name: str, value: Any) -> str:
    """The text of one option; empty for None."""
    return "" if value is None else _text(name, value)


#: What Python has instead of commands and their options in messages about traces and files.
_IN_PYTHON = {
    "'pipescope run --trace'": "GPipe.record(profile=..) or 'pipescope run --trace'",
    "'pipescope balance'": "balance=None or Profile.balance()",
    "'pipescope profile'": "pipescope.profile() or 'pipescope profile'",
    "use --force": "use force=True",
    "or --force": "or force=True",
    "with --task-rules": "with task_rules",
}


def in_python(message: str) -> str:
    """The message of a command with what Python has instead."""
    for command, function in _IN_PYTHON.items():
        message = message.replace(command, function)
    parts = re.split(r"('pipescope [^']*')", message)  # commands stay as they are
    parts[::2] = [re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda found: found[1].replace("-", "_"), each) for each in parts[::2]]
    return "".join(parts)


@contextlib.contextmanager
def python_messages() -> Iterator[None]:
    """Errors in the block name what Python has."""
    try:
        yield
    except Error as error:
        raise type(error)(in_python(str(error))) from None


def imported_pandas() -> Any:
    """The module pandas, which only to_pandas() needs."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas; install it: pip install pandas") from error
    return pandas
