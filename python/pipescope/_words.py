"""Arguments of Python as words of a command line, which the commands' own parsers read."""

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

FLAGS = frozenset({"master_weights", "expandable_segments", "force", "sequence_parallel"})


def _text(name: str, value: Any) -> str:
    """One value as a command line has it."""
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


def words_of(options: Mapping[str, Any]) -> list[bytes]:
    """The options that are not None: {"link_bandwidth": "12GB/s"} as [b"--link-bandwidth=12GB/s"]."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None:
            continue
        if name in FLAGS:
            if not isinstance(value, bool):
                raise UsageError(f"{name} is {value!r}; it is True or False")
            words += [os.fsencode(option)] if value else []
            continue
        text = _text(name, value)
        if "\0" in text:
            raise UsageError(f"{name} has a NUL character, which no option can have; leave it out")
        try:
            words.append(os.fsencode(f"{option}={text}"))
        except UnicodeEncodeError:
            raise UsageError(f"{name} is {text!r}, which is no valid text; change it") from None
    return words


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


#: What Python has instead of the commands that messages name.
_FUNCTIONS = {
    "'pipescope run --trace'": "GPipe.record(profile=..) or 'pipescope run --trace'",
    "'pipescope balance'": "balance=None or Profile.balance()",
    "'pipescope profile'": "pipescope.profile() or 'pipescope profile'",
    "use --force": "use force=True",
}


def in_python(message: str, n: str = "partitions") -> str:
    """The message of a command with the names that Python has for its options. `n`: what -n is."""
    for command, function in _FUNCTIONS.items():
        message = message.replace(command, function)
    # A quoted command keeps its flags.
    return "".join(
        part if part.startswith("'pipescope ") else _options_in_python(part, n)
        for part in re.split(r"('pipescope [^']*')", message)
    )


def _options_in_python(message: str, n: str) -> str:
    message = re.sub(r"(?<![\w-])--([a-z][a-z-]*[a-z])", lambda match: match[1].replace("-", "_"), message)
    for option, long in (("-m", "chunks"), ("-n", n)):
        message = re.sub(rf"(?<![\w-]){option} (?=\d)", f"{long}=", message)
        message = re.sub(rf"(?<![\w-]){option}(?= )", long, message)
    return message


@contextlib.contextmanager
def python_messages(n: str = "partitions") -> Iterator[None]:
    """Errors in the block name options as Python does."""
    try:
        yield
    except Error as error:
        raise type(error)(in_python(str(error), n)) from None
