"""What a model's forward reads besides tensors, and what it is called with: changes are refused, not ignored."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import pickle
import time
import types

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from test_any_model import plain_step, squares, worst  # noqa: E402
from torch import nn  # noqa: E402

functional = nn.functional


class Kind(enum.Enum):
    SOFT = 1
    HARD = 2


@dataclasses.dataclass
class Options:
    gain: float = 2.0
    unread: float = 0.0


class Slots:
    __slots__ = ("gain",)

    def __init__(self):
        self.gain = 2.0


class Helper:
    shift = 0.5

    def __init__(self):
        self.factor, self.calls = 2.0, 0

    def __call__(self, x):
        return self.moved(x * self.factor)

    def moved(self, x):
        return x + self.shift


class Renamed:
    """An attribute has another name, as in configurations of Hugging Face."""

    def __init__(self):
        self.n_embd = 2.0

    def __getattribute__(self, name):
        return object.__getattribute__(self, "n_embd" if name == "width" else name)


GAIN = 2.0
TABLE = {"gain": 2.0}


class Settings:
    gain = 2.0


def outer(x):
    return x * GAIN * TABLE["gain"] * Settings.gain


def scaled_by(factor):
    return lambda x: x * factor


class Reader(nn.Module):
    """Reads numbers from everywhere."""

    scale = 2.0

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.options, self.space, self.slots, self.helper = Options(), types.SimpleNamespace(gain=2.0), Slots(), Helper()
        self.renamed = Renamed()
        self.nested = {"options": [Options()]}
        self.activation, self.kind, self.names = torch.relu, Kind.SOFT, {"a"}
        self.part = functools.partial(torch.mul, other=2.0)
        self.closure = scaled_by(2.0)
        self.queue = collections.deque([2.0])

    def before(self, x):
        numbers = self.options.gain * self.space.gain * self.slots.gain * self.nested["options"][0].gain * self.renamed.width
        x = self.helper(self.activation(x)) * numbers * self.scale * self.queue[0]
        x = self.closure(self.part(x) if self.kind is Kind.SOFT else x)
        return outer(x if "a" in self.names else -x) / 1000

    def forward(self, x):
        x = self.before(x)
        for block in self.blocks:
            x = torch.tanh(block(x))
        return x


def is_refused(step, text):
    with pytest.raises(pipescope.UsageError, match=text):
        step()


def swap(owner, name, value):
    """(change, undo) of an attribute."""
    was = vars(owner).get(name, is_refused) if hasattr(owner, "__dict__") else getattr(owner, name)
    return lambda: setattr(owner, name, value), lambda: delattr(owner, name) if was is is_refused else setattr(owner, name, was)


@pytest.fixture(scope="module")
def reader():
    torch.manual_seed(0)
    model, x = Reader(), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["blocks.1"])
    return model, pipe, lambda: pipe.step(x, loss=squares)


CHANGES = {
    "options.gain": lambda model: swap(model.options, "gain", 3.0),
    "space": lambda model: swap(model.space, "gain", 3.0),
    "slots.gain": lambda model: swap(model.slots, "gain", 3.0),
    "nested.*gain": lambda model: swap(model.nested["options"][0], "gain", 3.0),
    "renamed.*has changed": lambda model: swap(model.renamed, "n_embd", 3.0),
    "activation": lambda model: swap(model, "activation", torch.tanh),
    "kind": lambda model: swap(model, "kind", Kind.HARD),
    "names": lambda model: (model.names.clear, lambda: model.names.add("a")),
    "part": lambda model: swap(model, "part", functools.partial(torch.mul, other=3.0)),
    "closure": lambda model: swap(model, "closure", scaled_by(3.0)),
    "queue": lambda model: (lambda: model.queue.appendleft(3.0), model.queue.popleft),
    "helper.factor": lambda model: swap(model.helper, "factor", 3.0),
    "helper.moved": lambda model: swap(Helper, "moved", lambda self, x: x),
    "helper.shift": lambda model: swap(model.helper, "shift", 3.0),
    "before": lambda model: swap(model, "before", lambda x: x),
    "before has": lambda model: swap(Reader, "before", lambda self, x: x),
    "scale": lambda model: swap(Reader, "scale", 3.0),
    "GAIN": lambda model: (lambda: globals().update(GAIN=3.0), lambda: globals().update(GAIN=2.0)),
    "TABLE": lambda model: (lambda: TABLE.update(gain=3.0), lambda: TABLE.update(gain=2.0)),
    "Settings.gain": lambda model: swap(Settings, "gain", 3.0),
    "outer": lambda model: (lambda now=outer: globals().update(outer=lambda x: x), lambda was=outer: globals().update(outer=was)),
}


@pytest.mark.parametrize("text", CHANGES)
def test_what_a_forward_reads_is_noticed(reader, text):
    model, _, step = reader
    first = float(step())
    change, undo = CHANGES[text](model)
    change()
    try:
        is_refused(step, text)
    finally:
        undo()
    assert float(step()) == first


def test_what_no_forward_reads_may_change(reader):
    model, _, step = reader
    model.options.unread, model.helper.calls, model.epoch = 1.0, 5, 3
    step()


def test_hooks_of_all_modules_are_noticed(reader):
    _, _, step = reader
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: 2 * output)
    try:
        is_refused(step, "hooks of all modules")
    finally:
        handle.remove()
    step()


def test_arrays_are_noticed():
    numpy = pytest.importorskip("numpy")

    class Arrays(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
            self.number, self.array = numpy.float32(2), numpy.ones(4, dtype=numpy.float32)

        def forward(self, x):
            return self.last(torch.tanh(self.first(x)) * float(self.number) * float(self.array[0]))

    model, x = Arrays(), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    step = lambda: pipe.step(x, loss=squares)  # noqa: E731
    step()
    model.number = numpy.float32(3)
    is_refused(step, "number has changed")
    model.number = numpy.float32(2)
    step()
    model.array[0] = 5
    is_refused(step, "array has changed")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pipe: pickle.loads(pickle.dumps(pipe))])
def test_copies_watch_what_their_own_model_reads(copied):
    class_model, x = Copied(), torch.randn(6, 4)
    pipe = pipescope.GPipe(class_model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    other = copied(pipe)
    assert float(other.step(x, loss=squares)) == float(pipe.step(x, loss=squares))
    other.module.options.gain = 3.0
    pipe.step(x, loss=squares)
    is_refused(lambda: other.step(x, loss=squares), "options.gain has changed")
    other.module.options.gain = 2.0
    globals()["GAIN"] = 3.0
    try:
        is_refused(lambda: other.step(x, loss=squares), "GAIN has changed")
    finally:
        globals()["GAIN"] = 2.0


class Copied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.options = nn.Linear(4, 4), nn.Linear(4, 4), Options()

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) * self.options.gain * GAIN)


def test_the_check_is_cheap(reader):
    model, pipe, _ = reader
    state = pipe.layers._held_state
    state.check()
    before = time.process_time()
    for _ in range(20):
        state.check()
    assert (time.process_time() - before) / 20 < 10e-3  # about 0.1 ms
