"""Operators of any model that act otherwise in train mode than in eval mode, or in both alike, and buffers that one mode changes."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from torch import nn  # noqa: E402

functional = nn.functional


def squares(output, _batch=None):
    return output.square().mean()


def train_alike(make, draw, *, lanes=2, chunks=3, schedules=("1f1b", "gpipe"), checkpoint="except_last", rows=(6, 9), steps=2):
    """Asserts that steps, outputs in eval mode and buffers are those of the plain model, micro-batch by micro-batch."""
    for schedule in schedules:
        torch.manual_seed(1)
        model = make().double().train()
        plain = copy.deepcopy(model)
        torch.manual_seed(2)
        batches = [draw(count) for count in rows[:steps]]
        layers = pipescope.layers_of(model, batches[0])
        balance = [len(layers) // lanes + (k < len(layers) % lanes) for k in range(lanes)]
        pipe = pipescope.GPipe(
            layers, balance, devices=["cpu"] * lanes, chunks=chunks, schedule=schedule, checkpoint=checkpoint
        )
        for batch in batches:
            pipe.zero_grad()
            plain.zero_grad()
            loss = pipe.step(batch, loss=squares)
            expected = 0.0
            for part in batch.tensor_split(min(chunks, len(batch))):
                value = squares(plain(part)) * (len(part) / len(batch))
                value.backward()
                expected += float(value.detach())
            assert float(loss) == pytest.approx(expected, rel=1e-10), schedule
            for (name, one), other in zip(model.named_parameters(), plain.parameters()):
                assert torch.allclose(one.grad, other.grad, rtol=1e-9, atol=1e-11), (schedule, name)
            for (name, one), other in zip(model.named_buffers(), plain.buffers()):
                assert torch.allclose(one, other, rtol=1e-11, atol=0), (schedule, name)
            with torch.no_grad():
                for one, other in zip(model.parameters(), plain.parameters()):
                    one -= 0.1 * one.grad
                    other -= 0.1 * other.grad
        if schedule == "gpipe":
            pipe.eval()
            plain.eval()
            assert torch.allclose(pipe(batches[0]), torch.cat([plain(each) for each in batches[0].tensor_split(chunks)]))


class Norms(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(4))
        self.norms = nn.ModuleList(make(3) for _ in range(4))

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = functional.relu(norm(conv(x)))
        return x


@pytest.mark.parametrize(
    "make",
    [
        nn.InstanceNorm2d,
        lambda width: nn.InstanceNorm2d(width, affine=True, track_running_stats=True),
        lambda width: nn.BatchNorm2d(width, track_running_stats=False),
        lambda width: nn.BatchNorm2d(width, momentum=None),
    ],
    ids=["instance", "instance with statistics", "batch without statistics", "batch with cumulative statistics"],
)
def test_norms_in_both_modes(make, capfd):
    train_alike(lambda: Norms(make), lambda count: torch.randn(count, 3, 5, 5, dtype=torch.float64))
    assert "def forward" not in capfd.readouterr().err


class Keeps(nn.Module):
    """Two dropouts, of which one is on in eval mode, too."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(6, 6), nn.Linear(6, 6), nn.Dropout(0.5)

    def forward(self, x):
        return self.last(self.drop(functional.dropout(self.first(x), 0.5)))


def test_a_dropout_that_is_on_in_eval_mode():
    torch.manual_seed(1)
    model = Keeps().eval()
    x = torch.randn(4, 6)
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"], chunks=1)
    found = torch.stack([pipe(x) for _ in range(3)])
    assert not torch.equal(found[0], found[1])
    hidden = model.first(x)
    kept = [[each for each in (0.0, 2.0)]] * 6
    for row, value in zip(hidden, found[0]):  # each value is that of one of the 64 masks
        masks = torch.cartesian_prod(*[torch.tensor(each) for each in kept])
        assert (model.last(row * masks) - value).abs().amax(1).min() < 1e-5


class Differs(nn.Module):
    """Runs `compute`, with the same operators in both modes."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.average = copy.deepcopy(self.first).requires_grad_(False)

    def forward(self, x):
        return self.last(self.compute(self, x))


@pytest.mark.parametrize(
    "compute, has_draws",
    [
        (lambda model, x: (model.first if model.training else model.average)(x), False),
        (lambda model, x: functional.linear(x, model.first.weight if model.training else model.average.weight), False),
        (lambda model, x: torch.sub(model.first(x), x) if model.training else torch.sub(x, model.first(x)), False),
        (lambda model, x: model.first(x)[:, 0 if model.training else 1 :][:, :5].repeat(1, 6)[:, :6], False),
        (lambda model, x: model.first(x).to(torch.bfloat16 if model.training else torch.float32).to(x.dtype), False),
        (lambda model, x: functional.rrelu(model.first(x), 0.1 if model.training else 0.3, 0.4, training=model.training), False),
        (lambda model, x: functional.dropout(model.first(x), 0.9 if model.training else 0.5), True),
        (lambda model, x: functional.dropout(model.first(x), training=not model.training), True),
    ],
    ids=["modules", "weights", "order", "slices", "dtypes", "bounds", "rate of a dropout", "dropout in eval mode"],
)
def test_values_that_depend_on_the_mode(compute, has_draws):
    """Both modes run the same operators, with other tensors or numbers. Weights differ from each other only after the trace."""
    torch.manual_seed(1)
    model, x = Differs(compute), torch.randn(6, 6)
    layers = pipescope.layers_of(model, x)
    assert next(iter(layers.values())).has_two_modes
    pipe = pipescope.GPipe(layers, [len(layers)], devices=["cpu"], chunks=2)
    with torch.no_grad():
        model.first.weight.mul_(2)
    for training in (False,) if has_draws else (True, False):
        model.train(training)
        torch.manual_seed(2)
        expected = torch.cat([model(x[:3]), model(x[3:])])
        found = pipe(x)
        if has_draws:  # of other random numbers
            model.eval()
            draws = torch.stack([pipe(x) for _ in range(200)]).mean(0)
            assert (draws - model.last(model.first(x))).abs().mean() < 0.15 and not torch.equal(pipe(x), pipe(x))
        elif "rrelu" not in compute.__code__.co_names or not training:
            assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_dropout_whose_rate_is_read_in_train_mode_only_is_traced_once():
    model = Differs(lambda model, x: functional.dropout(model.first(x), 0.9 if model.training else 0.5, training=model.training))
    layers = pipescope.layers_of(model, torch.randn(6, 6), split=["last"])
    assert not next(iter(layers.values())).has_two_modes


class Attends(nn.Module):
    def __init__(self, dropout=0.0, is_kept=False, **options):
        super().__init__()
        self.first, self.last, self.dropout, self.is_kept, self.options = nn.Linear(6, 6), nn.Linear(6, 6), dropout, is_kept, options

    def forward(self, x):
        hidden = self.first(x)
        dropout = self.dropout if self.training or self.is_kept else 0.0
        return self.last(functional.scaled_dot_product_attention(hidden, hidden, hidden, dropout_p=dropout, **self.options))


class AttendsToPast(Attends):
    """Looks at later tokens in eval mode only."""

    def forward(self, x):
        hidden = self.first(x)
        return self.last(functional.scaled_dot_product_attention(hidden, hidden, hidden, is_causal=self.training))


@pytest.mark.parametrize("model, has_two", [
    (Attends(), False), (Attends(scale=0.5), False), (Attends(0.1, scale=0.5), False), (Attends(0.1, is_kept=True), True),
    (AttendsToPast(), True),
])
def test_attention_is_traced_twice_only_where_the_modes_differ(model, has_two):
    layers = pipescope.layers_of(model, torch.randn(4, 5, 6), split=["last"])
    assert [each.has_two_modes for each in layers.values()] == [has_two] * 2


class Anneals(nn.Module):
    """A counter that train mode moves, first, in the middle or last, and that each block reads."""

    def __init__(self, where, assigns=False):
        super().__init__()
        self.blocks, self.where, self.assigns = nn.ModuleList(nn.Linear(6, 6) for _ in range(8)), where, assigns
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        for k, block in enumerate(self.blocks):
            if k == self.where:
                self._count()
            x = torch.tanh(block(x) * torch.exp(-self.steps / 10)) + x
        if self.where == 8:
            self._count()
        return x

    def _count(self):
        if self.training and self.assigns:
            self.steps = self.steps + 1
        elif self.training:
            self.steps += 1


class AnnealsOnce(Anneals):
    """Reads its counter once, for all blocks."""

    def forward(self, x):
        self._count()
        temperature = torch.exp(-self.steps / 10)
        for block in self.blocks:
            x = torch.tanh(block(x) * temperature) + x
        return x


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble-h1"])
@pytest.mark.parametrize("assigns", [False, True])
def test_a_counter_of_steps_in_a_buffer(schedule, assigns):
    train_alike(
        lambda: AnnealsOnce(0, assigns), lambda count: torch.randn(count, 6, dtype=torch.float64), lanes=4, chunks=6,
        schedules=(schedule,), rows=(12, 14),
    )


@pytest.mark.parametrize("where", [0, 4, 8])
def test_a_counter_that_all_blocks_read_stays_in_one_layer(where):
    layers = pipescope.layers_of(Anneals(where), torch.randn(4, 6))
    assert sum("steps" in dict(layer.named_buffers()) for layer in layers.values()) == 1


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        one, other = self.last(torch.tanh(self.first(torch.cat([x, 2 * x])))).chunk(2)
        return one * other


class Padded(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.embed, self.last = nn.Embedding(9, 6, **options), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.embed(x).mean(1)))


class Doubles(Siamese):
    """Asks for the number of its samples."""

    def forward(self, x):
        hidden = self.first(x)
        return self.last(hidden * 2 if x.shape[0] > 1 else hidden)


@pytest.mark.parametrize(
    "make, draw",
    [
        (Siamese, lambda count: torch.randn(count, 6, dtype=torch.float64)),
        (lambda: Padded(padding_idx=0), lambda count: torch.randint(9, (count, 4))),
        (lambda: Padded(scale_grad_by_freq=True), lambda count: torch.randint(9, (count, 4))),
    ],
    ids=["siamese", "padding", "frequencies"],
)
def test_micro_batches_of_one_sample(make, draw):
    train_alike(make, draw, rows=(6, 4), lanes=1)


def test_a_model_that_asks_for_one_sample_is_refused_there():
    pipe = pipescope.GPipe(Doubles(), sample=torch.randn(6, 6), devices=["cpu"], chunks=3, schedule="1f1b")
    pipe.step(torch.randn(7, 6), loss=squares)
    with pytest.raises(pipescope.UsageError, match="one sample than with several, which its trace does not hold; use fewer chunks"):
        pipe.step(torch.randn(4, 6), loss=squares)


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def test_a_batch_norm_of_one_sample_is_refused_unless_it_is_frozen():
    model = Frozen()
    pipe = pipescope.GPipe(model, sample=torch.randn(6, 6), devices=["cpu"], chunks=3, schedule="1f1b")
    with pytest.raises(pipescope.UsageError, match="one sample.*Expected more than 1 value per channel"):
        pipe.step(torch.randn(4, 6), loss=squares)
    model.norm.eval()
    assert pipe.step(torch.randn(4, 6), loss=squares).isfinite()


def test_nothing_is_printed_where_an_export_fails(capfd):
    class Reads(Frozen):
        def forward(self, x):
            return self.last(x) / float(self.norm.num_batches_tracked + 1)

    pipescope.layers_of(Reads(), torch.randn(4, 6))
    assert capfd.readouterr().err == ""


class Choices:
    def __init__(self):
        self.kind = None


def test_nothing_is_printed_of_sizes_of_one_and_of_compiled_parts(capfd):
    class Scales(Frozen):
        twice = staticmethod(torch.compile(lambda x: x * 2, backend="eager"))

        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(torch.compile(nn.Linear(6, 6), backend="eager") for _ in range(4))

        def forward(self, x, mask):
            for block in self.blocks:
                x = torch.tanh(block(x))
            return self.last(self.twice(x * mask))

    pipescope.layers_of(Scales(), (torch.randn(4, 6), torch.rand(4, 1) > 0.5))
    assert capfd.readouterr().err == ""


class Prepares(nn.Module):
    """Sets a flag and a text in its first call. ``counts``: a number in each."""

    def __init__(self, counts):
        super().__init__()
        self.first, self.last, self.counts, self.calls = nn.Linear(6, 6), nn.Linear(6, 2), counts, 0
        self.choices = Choices()

    def forward(self, x):
        if not getattr(self, "is_ready", False):
            self.is_ready = True
        if self.choices.kind is None:  # as a configuration's kind of loss
            self.choices.kind = "regression" if x.is_floating_point() else "classes"
        if self.counts:
            self.calls += 1
        return self.last(self.first(x))


@pytest.mark.parametrize("counts", [False, True])
def test_a_flag_or_a_text_of_the_first_call_is_nothing_to_warn_of(counts, recwarn):
    pipescope.layers_of(Prepares(counts), torch.randn(4, 6), split=["last"])
    assert [str(each.message).split(";")[0] for each in recwarn] == ["the model's forward reads and changes calls"] * counts


def test_a_model_that_fails_on_its_sample_is_refused_with_what_it_says():
    class Fails(Frozen):
        def forward(self, x):
            return functional.grouped_mm(x, self.last.weight[None])

    with pytest.raises(pipescope.UsageError, match=r"itself fails on its sample, at the model \(test_any_model_modes.py, line \d+: return .*Error: .*; give a sample"):
        pipescope.layers_of(Fails().double(), torch.randn(4, 6).double())

    class HasNoBackward(Frozen):
        def forward(self, x):
            if x.device.type == "cpu" and torch.is_grad_enabled():
                raise NotImplementedError("no backward on this device")
            return self.last(x)

    with pytest.raises(pipescope.UsageError, match="itself fails on its sample, .* NotImplementedError: no backward on this device"):
        pipescope.layers_of(HasNoBackward(), torch.randn(4, 6))
