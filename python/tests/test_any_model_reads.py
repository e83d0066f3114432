"""What a model's forward reads besides tensors, and what it is called with: changes are refused, not ignored."""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import enum
import functools
import pickle
import threading
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
    "TABLE has": lambda model: (lambda: TABLE.update(more=3.0), lambda: TABLE.pop("more")),
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


OFFSET = 1.0


def shifted(x, factor=1.0):
    return factor * x + OFFSET


def shifting(factor):
    return lambda x: shifted(x) if factor is None else factor * x + OFFSET


def shifting_inside(factor):
    inner = shifting(factor)
    return lambda x: inner(x)


class Shifting:
    def __init__(self):
        self.act = shifting(1.0)

    def __call__(self, x):
        return x + OFFSET

    def moved(self, x):
        return x + OFFSET

    def by_attribute(self, x):
        return self.act(x)

    def outer(self, x):
        return self.moved(x)


class Nested:
    def __init__(self):
        self.inner = Shifting()

    def __call__(self, x):
        return self.inner.outer(x)


def made():
    return Shifting()


def by_default(x, act=shifted):
    return act(x)


class Holding(nn.Module):
    """Calls a function that an attribute holds."""

    def __init__(self, held, call):
        super().__init__()
        self.first, self.last, self.held, self.call = nn.Linear(4, 4), nn.Linear(4, 4), held, call

    def forward(self, x):
        return self.last(torch.tanh(self.call(self.held, self.first(x))))


def called(held, x):
    return held(x)


SHIFTS, HELPER, HELPERS = [shifting(1.0)], Shifting(), {"a": [Nested()]}
ACT = contextvars.ContextVar("act", default=shifted)
MERGES = {k: [(k, j) for j in range(10)] for k in range(4096)}
HELD = {
    "a function": (shifted, called),
    "a closure": (shifting(1.0), called),
    "a closure that calls a function": (shifting(None), called),
    "a closure in a closure": (shifting_inside(1.0), called),
    "a partial": (functools.partial(shifted, factor=1.0), called),
    "a partial of a closure": (functools.partial(shifting(1.0)), called),
    "a list": ([shifting(1.0)], lambda held, x: held[0](x)),
    "a dict of tuples": ({"act": (shifted,)}, lambda held, x: held["act"][0](x)),
    "a method of a helper": (Shifting().moved, called),
    "a method that a helper is asked for": (Shifting(), lambda held, x: held.moved(x)),
    "a closure of a helper": (Shifting().by_attribute, called),
    "a helper": (Shifting(), called),
    "a namespace": (types.SimpleNamespace(act=shifting(1.0)), lambda held, x: held.act(x)),
    "a list that is a global": (None, lambda held, x: SHIFTS[0](x)),
    "a helper that is a global": (None, lambda held, x: HELPER.moved(x)),
    "a helper's method by another": (None, lambda held, x: HELPER.outer(x)),
    "helpers in a container": (None, lambda held, x: HELPERS["a"][0].inner.moved(x)),
    "a helper that a function makes": (None, lambda held, x: made()(x)),
    "a helper's helper": (Nested(), called),
    "a default": (by_default, called),
    "a variable of a context": (None, lambda held, x: ACT.get()(x)),
    "a function beside a large table": (None, lambda held, x: shifted(x) if MERGES[3] else x),
    "a helper that the forward makes": (None, lambda held, x: Shifting().moved(x)),
}


@pytest.mark.parametrize("how", HELD)
def test_globals_are_watched_however_their_function_is_held(how):
    model, x = Holding(*HELD[how]), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    first = float(pipe.step(x, loss=squares))
    globals()["OFFSET"] = 2.0
    try:
        is_refused(lambda: pipe.step(x, loss=squares), "OFFSET has changed")
    finally:
        globals()["OFFSET"] = 1.0
    assert float(pipe.step(x, loss=squares)) == first


def test_a_package_may_add_to_its_tables(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "packaged.py").write_text("TABLE = {'gain': 2.0}\n\n\ndef scaled(x):\n    return x * TABLE['gain']\n")
    monkeypatch.syspath_prepend(str(folder))
    import packaged

    model, x = Holding(packaged.scaled, called), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    packaged.TABLE["of another model"] = 3.0
    pipe.step(x, loss=squares)
    packaged.TABLE["gain"] = 3.0
    is_refused(lambda: pipe.step(x, loss=squares), "packaged.TABLE has changed")


TEMPERATURE = torch.tensor(2.0)
SCALE = contextvars.ContextVar("scale", default=2.0)
LOCAL = threading.local()
LOCAL.scale = 2.0
VALUES = {  # what gives a number, and what changes it
    "item": (lambda model: model.temperature.item(), lambda model: model.temperature.mul_(3)),
    "int": (lambda model: int(model.temperature), lambda model: model.temperature.mul_(3)),
    "tolist": (lambda model: model.table["all"][0].tolist()[1], lambda model: model.table["all"][0].fill_(6.0)),
    "many": (lambda model: model.many.sum().item() + model.many.tolist()[0], lambda model: model.many.mul_(3)),
    "global": (lambda model: TEMPERATURE.item(), lambda model: TEMPERATURE.mul_(3)),
    "context": (lambda model: SCALE.get(), lambda model: SCALE.set(3.0)),
    "thread": (lambda model: LOCAL.scale, lambda model: setattr(LOCAL, "scale", 3.0)),
}


class OfValues(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.temperature, self.many = torch.tensor(2.0), torch.ones(5000)
        self.table = {"all": [torch.tensor([1.0, 2.0])]}
        self.read = [read]

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) * self.read[0](self))


@pytest.mark.parametrize("how", VALUES)
def test_values_of_tensors_that_python_reads_are_watched(how):
    read, change = VALUES[how]
    model, x = OfValues(read), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    copied = copy.deepcopy(pipe)
    first = float(pipe.step(x, loss=squares))
    assert float(copied.step(x, loss=squares)) == first
    try:
        change(model)
        is_refused(lambda: pipe.step(x, loss=squares), "ha(s|ve) changed")
        if how in ("global", "context", "thread"):
            is_refused(lambda: copied.step(x, loss=squares), "ha(s|ve) changed")
        else:
            copied.step(x, loss=squares)
    finally:
        TEMPERATURE.fill_(2.0)
        SCALE.set(2.0)
        LOCAL.scale = 2.0


def test_what_only_eval_mode_reads_is_watched():
    model, x = OfValues(lambda model: model.in_train if model.training else model.in_eval), torch.randn(6, 4)
    model.in_train = model.in_eval = 2.0
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    model.in_eval = 5.0
    pipe.eval()
    is_refused(lambda: pipe(x), "in_eval has changed")


def test_tensors_that_are_used_as_tensors_may_change():
    class Uses(OfValues):
        def forward(self, x):
            return self.last(torch.tanh(self.first(x)) * self.temperature * TEMPERATURE)

    model, x = Uses(None), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    model.temperature.mul_(3)
    assert float(pipe.step(x, loss=squares)) == pytest.approx(float(squares(model(x), x).detach()), rel=1e-6)


def test_another_default_dtype_is_refused():
    model, x = OfValues(lambda model: 2.0), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    torch.set_default_dtype(torch.float64)
    try:
        is_refused(lambda: pipe.step(x, loss=squares), "default dtype is torch.float64, and was torch.float32")
    finally:
        torch.set_default_dtype(torch.float32)
    model.forward = lambda x: x
    is_refused(lambda: pipe.step(x, loss=squares), "^the model has another class or forward")


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


# ---- Arguments ----


class Context:
    def __init__(self, mask):
        self.mask = mask


class Takes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, context=None, options=None, entries=None, extra=None):
        if context is not None:
            x = x * context.mask
        if options is not None:
            x = x * options.gain
        if entries is not None:
            x = x * entries["a"] - entries["b"]
        if extra is not None:
            x = x + sum(extra)
        return self.last(torch.tanh(self.first(x)))


@dataclasses.dataclass
class Held:
    mask: torch.Tensor


def taken(batch, **options):
    options = {"devices": ["cpu"] * 2, "chunks": 3, "schedule": "1f1b", "split": ["last"], **options}
    torch.manual_seed(0)
    return pipescope.GPipe(Takes(), sample=batch, **options)


@pytest.mark.parametrize("context, text", [
    (Context(torch.ones(6, 1)), "argument context is of the class Context.*mask.*register_pytree_node"),
    (Held(torch.ones(6, 1)), "argument context is of the class Held.*register_dataclass"),
    (types.SimpleNamespace(mask=torch.ones(6, 1)), "argument context is of the class SimpleNamespace"),
])
def test_objects_that_hold_tensors_are_refused(context, text):
    with pytest.raises(pipescope.UsageError, match=text):
        pipescope.layers_of(Takes(), {"x": torch.randn(6, 4), "context": context})


def test_arrays_are_refused_as_arguments():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(pipescope.UsageError, match=r"argument extra\[0\] is of the class ndarray.*as_tensor"):
        pipescope.layers_of(Takes(), {"x": torch.randn(6, 4), "extra": [numpy.ones(4)]})


def test_objects_of_numbers_are_those_of_the_sample():
    options = Options()
    batch = {"x": torch.randn(6, 4), "options": options}
    pipe = taken(batch)
    pipe.step({**batch, "options": Options()}, loss=squares)
    is_refused(lambda: pipe.step({**batch, "options": Options(3.0)}, loss=squares), "options is")
    options.gain = 3.0
    is_refused(lambda: pipe.step(batch, loss=squares), "options has changed")


def test_dicts_of_other_kinds_and_orders():
    a, b = torch.randn(6, 4), torch.randn(6, 4)
    batch = {"x": torch.randn(6, 4), "entries": collections.UserDict(a=a, b=b)}
    pipe = taken(batch)
    one = pipe.step(batch, loss=squares)
    assert float(pipe.step({**batch, "entries": {"a": a, "b": b}}, loss=squares)) == float(one)
    is_refused(lambda: pipe.step({**batch, "entries": {"b": b, "a": a}}, loss=squares), "keys of entries have another order")


def test_a_list_as_a_batch_says_what_it_is():
    pipe = taken(torch.randn(6, 4))
    with pytest.raises(TypeError, match=r"takes \(x, context, .*step\(x, y, loss\)"):
        pipe.step([torch.randn(6, 4)] * 9, loss=squares)


# ---- The batch as the loss's target ----


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, images, more, targets):
        x = sum(images) * more[0]["w"][:, None] + more[1]
        return functional.mse_loss(self.last(torch.tanh(self.first(x))), targets[0])


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_nested_arguments_are_cut_for_the_loss_as_for_the_model(schedule):
    torch.manual_seed(0)
    batch = {
        "images": [torch.randn(6, 6) for _ in range(6)],
        "more": [{"w": torch.randn(6)}, torch.randn(6, 6)],
        "targets": (torch.randn(6, 6),),
    }
    model = Images()
    pipe = pipescope.GPipe(model, sample=batch, devices=["cpu"] * 2, chunks=3, schedule=schedule, split=["last"])
    total = 0.0
    for k in range(0, 6, 2):
        part = torch.utils._pytree.tree_map(lambda each, k=k: each[k:k + 2], batch)
        loss = model(**part) / 3
        loss.backward()
        total += float(loss)
    expected = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    assert abs(float(pipe.step(batch)) - total) < 1e-6
    assert all(torch.allclose(each.grad, other, atol=1e-6) for each, other in zip(model.parameters(), expected))
    seen = []
    pipe.step(batch, loss=lambda output, part: seen.append(part) or output)
    rows = 6 if schedule == "gpipe" else 2
    assert all(type(part["images"]) is list and [len(each) for each in part["images"]] == [rows] * 6 for part in seen)
    assert all(part["more"][0]["w"].shape == (rows,) and type(part["targets"]) is tuple for part in seen)


class SequenceFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.GRU(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.inner(x)[0])


def test_a_batch_of_one_argument_is_cut_as_split_says():
    batch = (torch.randn(5, 6, 4),)
    pipe = pipescope.GPipe(
        SequenceFirst(), sample=batch, devices=["cpu"], chunks=3, schedule="1f1b", balance=[1], split={"x": 1, "layers": []}
    )
    shapes = []
    pipe.step(batch, loss=lambda output, part: shapes.append(part[0].shape) or squares(output, None))
    assert shapes == [(5, 2, 4)] * 3


# ---- What cannot be cut, and what to do about it ----


class Rounds(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, steps):
        return torch.round(x * steps) / steps

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Does(nn.Module):
    """Runs `compute` on its layers, which are no modules' own operators."""

    def __init__(self, compute, **state):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.compute = compute
        self.__dict__.update(state)

    def forward(self, x):
        return self.compute(self, x)


class OwnHooks(nn.Module):
    """Has names that end as those of torch's tables of hooks do: a method, and values."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.num_hooks, self.my_hooks = 2.0, [torch.tanh]

    def run_hooks(self, x):
        for hook in self.my_hooks:
            x = hook(x)
        return x * self.num_hooks

    def forward(self, x):
        for block in self.blocks:
            x = self.run_hooks(block(x))
        return x


def test_what_a_model_names_hooks_is_read_as_anything_else():
    torch.manual_seed(0)
    model, x = OwnHooks(), torch.randn(6, 4)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["blocks.1"])
    expected = plain_step(model, {"x": x}, squares, 3)[1]
    model.zero_grad()
    pipe.step(x, loss=squares)
    assert worst(model, expected) < 1e-5
    model.num_hooks = 3.0
    is_refused(lambda: pipe.step(x, loss=squares), "num_hooks has changed from 2.0 to 3.0")
    model.num_hooks = 2.0
    model.my_hooks.append(torch.sin)
    is_refused(lambda: pipe.step(x, loss=squares), "my_hooks")


def rounded(model, x):
    for block in model.blocks:
        x = torch.tanh(functional.linear(x, Rounds.apply(block.weight, 8.0), block.bias))
    return x


def test_functions_of_parameters_do_not_hinder_cuts():
    x = torch.randn(6, 6)
    assert len(pipescope.layers_of(Does(rounded), x)) > 1


def collected(model, x):
    out = torch.zeros(x.shape[0], 4, 6)
    for k, block in enumerate(model.blocks):
        x = torch.tanh(block(x))
        out[:, k] = x
    return out


def test_a_model_that_is_not_cut_says_why():
    x = torch.randn(6, 6)
    layers = pipescope.layers_of(Does(collected), x)
    assert len(layers) == 1 and "not cut: a value is changed in place from" in str(layers) and "aten.zeros in the model" in str(layers)
    pipe = pipescope.GPipe(layers, devices=["cpu"] * 2, chunks=3, schedule="1f1b")
    with pytest.warns(UserWarning, match="2 devices are given, and the model has 1 layer, so 1 of them runs: a value is changed in place"):
        pipe.step(x, loss=squares)


def stacked(model, x):
    for block in model.blocks:
        x = torch.tanh(block(x))
    return x


def test_more_devices_than_layers_are_told():
    x = torch.randn(6, 6)
    layers = pipescope.layers_of(Does(stacked), x, split=["blocks.2"])
    pipe = pipescope.GPipe(layers, devices=["cpu"] * 3, chunks=3, schedule="1f1b")
    with pytest.warns(UserWarning, match="3 devices are given, and the model has 2 layers, so 2 of them run: name more modules"):
        pipe.step(x, loss=squares)


def test_a_schedule_that_is_none_is_refused_at_once():
    with pytest.raises(pipescope.UsageError, match="schedule is '1f1b-x'; a model runs"):
        pipescope.GPipe([nn.Linear(4, 4)], schedule="1f1b-x")


def with_grad_mode(model, x):
    x = stacked(model, x)
    return 2 * x if torch.is_grad_enabled() else 3 * x


def with_seed(model, x):
    torch.manual_seed(5)
    return stacked(model, x + torch.randn(x.shape))


def with_generator(model, x):
    return stacked(model, x + torch.randn(x.shape, generator=model.own))


def with_sparse(model, x):
    return stacked(model, torch.sparse.mm(model.graph, x.t()).t())


@pytest.mark.parametrize("compute, text", [
    (with_grad_mode, "branch on torch.is_grad_enabled"),
    (with_seed, r"seeds torch's random numbers, at the model \(test_any_model_reads.py, line .*seed of the pipeline"),
    (with_generator, "torch.Generator of its own, own"),
    (with_sparse, "graph is a sparse tensor"),
])
def test_what_cannot_be_traced_is_named(compute, text):
    model = Does(compute, own=torch.Generator())
    model.register_buffer("graph", torch.eye(6).to_sparse() if compute is with_sparse else torch.eye(6))
    with pytest.raises(pipescope.UsageError, match=text):
        pipescope.layers_of(model, torch.randn(6, 6))


class Long(nn.Module):
    of_class: dict[int, torch.Tensor] = {}

    def __init__(self, compute):
        super().__init__()
        self.embedding, self.last, self.compute, self.masks = nn.Embedding(9, 6), nn.Linear(6, 6), compute, {}
        self.tables = Tables()

    def forward(self, tokens):
        return self.last(self.compute(self, self.embedding(tokens)))


def mask_of(length):
    return torch.tril(torch.ones(length, length)) / length


def with_cache(model, x):
    length = x.shape[1]
    if length not in model.masks:
        model.masks[length] = mask_of(length)
    return model.masks[length] @ x


def with_new_cache(model, x):
    if not hasattr(model, "cache"):
        model.cache = {}
    key = (x.shape[1], x.dtype)
    if key not in model.cache:
        model.cache[key] = mask_of(x.shape[1])
    return model.cache[key] @ x


def with_last(model, x):
    if getattr(model, "length", None) != x.shape[1]:
        model.length, model.mask = x.shape[1], mask_of(x.shape[1])
    return model.mask @ x


def with_flag(model, x):
    if not getattr(model, "has_scale", False):
        model.scale, model.has_scale = torch.arange(6.0), True
    return model.scale * x


class Tables:
    def __init__(self):
        self.longest, self.mask = 0, None

    def of(self, length):
        if self.longest != length:
            self.longest, self.mask = length, mask_of(length)
        return self.mask


def with_object(model, x):
    return model.tables.of(x.shape[1]) @ x


global_masks: dict[int, torch.Tensor] = {}


def with_global_cache(_model, x):
    length = x.shape[1]
    if length not in global_masks:
        global_masks[length] = mask_of(length)
    return global_masks[length] @ x


def with_cache_of_class(model, x):
    length = x.shape[1]
    if length not in model.of_class:
        model.of_class[length] = mask_of(length)
    return model.of_class[length] @ x


def cached():
    masks = {}

    def with_closure(_model, x):
        length = x.shape[1]
        if length not in masks:
            masks[length] = mask_of(length)
        return masks[length] @ x

    return with_closure


@pytest.mark.filterwarnings("ignore:the model's forward")
@pytest.mark.parametrize("compute, is_called", [
    (with_cache, False), (with_cache, True), (with_new_cache, False), (with_new_cache, True), (with_last, False), (with_flag, False),
    (with_flag, True), (with_object, False), (with_global_cache, False), (with_global_cache, True), (with_cache_of_class, False),
    (with_cache_of_class, True), (cached(), False), (cached(), True),
])
def test_caches_are_right_for_all_lengths_and_keep_nothing_of_a_trace(compute, is_called):
    torch.manual_seed(0)
    global_masks.clear()
    Long.of_class.clear()
    model, tokens = Long(compute), torch.randint(9, (6, 5))
    if is_called:
        model(tokens)
    pipe = pipescope.GPipe(model, sample=tokens, devices=["cpu"] * 2, chunks=3, schedule="1f1b", split=["last"])
    copy.deepcopy(model)  # as no copy of a tensor of a trace can be made
    for length in (5, 7, 3):
        tokens = torch.randint(9, (6, length))
        total, expected = plain_step(model, {"tokens": tokens}, squares, 3)
        model.zero_grad()
        assert abs(float(pipe.step(tokens, loss=squares)) - total) < 1e-5 and worst(model, expected) < 1e-5


def test_what_caches_is_told():
    with pytest.warns(UserWarning, match="reads and changes masks"):
        pipescope.layers_of(Long(with_cache), torch.randint(9, (6, 5)))
    global_masks.clear()
    with pytest.warns(UserWarning, match="reads and changes global .*global_masks"):
        pipescope.layers_of(Long(with_global_cache), torch.randint(9, (6, 5)))


def test_a_length_that_the_forward_holds_on_to_is_named_with_its_line():
    pipe = pipescope.GPipe(
        Long(lambda model, x: x * torch.linspace(0, 1, x.shape[1])[:, None]), sample=torch.randint(9, (6, 5)), devices=["cpu"] * 2
    )
    text = r"dimension 1 of the input tokens is 7, .* for 5 only, .* at the model \(test_any_model_reads.py, line \d+: .*linspace.*; give 5"
    is_refused(lambda: pipe.step(torch.randint(9, (6, 7)), loss=squares), text)


def with_branch(model, x):
    return x * 2 if x.shape[1] <= 6 else x


def test_a_size_that_takes_another_branch_is_named():
    pipe = pipescope.GPipe(Long(with_branch), sample=torch.randint(9, (6, 5)), devices=["cpu"] * 2, chunks=3, schedule="1f1b",
                           split=["last"])
    with pytest.raises(pipescope.UsageError) as raised:
        pipe.step(torch.randint(9, (6, 9)), loss=squares)
    assert "traced where dimension 1 of the input tokens <= 6, at the model (test_any_model_reads.py" in str(raised.value)
    assert "), and here dimension 1 of the input tokens is 9" in str(raised.value)
    assert "sample in which dimension 1 of the input tokens is 9" in str(raised.value)
