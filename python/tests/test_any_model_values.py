"""Models whose sizes depend on values, and models that keep or read something outside of their tensors, as layers."""

from __future__ import annotations

import copy
import functools

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from pipescope import _trace_model  # noqa: E402
from torch import nn  # noqa: E402

functional = nn.functional


class Labelled(nn.Module):
    """Like a classification of DeBERTa: the loss picks the samples that have a label."""

    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Linear(4, 6), nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x, labels):
        x = self.first(x)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        chosen = (labels >= 0).nonzero()
        if chosen.size(0) > 0:
            return functional.cross_entropy(torch.gather(x, 0, chosen.expand(chosen.size(0), x.size(1))), labels[labels >= 0])
        return x.sum()


class Masked(nn.Module):
    """Works on some positions only, and puts the results back in place."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x, labels):
        x = self.first(x)
        found = torch.zeros_like(x)
        found[labels > 0] = self.inner(x[labels > 0])
        return self.last(torch.tanh(found + x))


class Routed(nn.Module):
    """Experts with the rows that a router gives them."""

    def __init__(self):
        super().__init__()
        self.first, self.router, self.last = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 2)
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x, labels):
        x = self.first(x)
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        found = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == k)
            found.index_add_(0, rows, torch.tanh(expert(x[rows])) * weights[rows, places, None])
        return self.last(found)


class Ctc(nn.Module):
    """A loss whose tables depend on the lengths of the labels, as that of Wav2Vec2."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 6), nn.Linear(6, 7)

    def forward(self, x, labels):
        scores = self.last(torch.tanh(self.first(x[:, :, None]))).log_softmax(-1).transpose(0, 1)
        targets = labels[:, None].expand(-1, 2) + 2
        is_label = targets > 1
        lengths = torch.full((x.shape[0],), x.shape[1])
        return functional.ctc_loss(scores, targets.masked_select(is_label), lengths, is_label.sum(-1))


def batch_of(rows=7, dtype=torch.float64):
    torch.manual_seed(3)
    return {"x": torch.randn(rows, 4).to(dtype), "labels": torch.tensor([1, 3, 0, -1, 2, -1, 4])[:rows]}


def own_or_squares(output, _target=None):
    return output if output.dim() == 0 else output.square().mean()


def plain_gradients(model, batch, chunks):
    model.zero_grad()
    rows, first = len(batch["x"]), 0
    for size in [rows // chunks + (k < rows % chunks) for k in range(chunks)]:
        output = model(**{name: each[first : first + size] for name, each in batch.items()})
        (own_or_squares(output) * size / rows).backward()
        first += size
    return {name: each.grad.clone() for name, each in model.named_parameters()}


def train_as_plain(model, batch, loss=own_or_squares, chunks=3, **options):
    layers = pipescope.layers_of(model, batch)
    expected = plain_gradients(model, batch, chunks)
    model.zero_grad()
    half = len(layers) // 2
    pipe = pipescope.GPipe(layers, [half, len(layers) - half], devices=["cpu"] * 2, chunks=chunks, **options)
    pipe.step(batch, loss=loss)
    assert max(float((each.grad - expected[name]).abs().max()) for name, each in model.named_parameters()) < 1e-12
    return pipe


@pytest.mark.parametrize("schedule, checkpoint", [("gpipe", "except_last"), ("1f1b", "never"), ("zero-bubble-h1", "always")])
@pytest.mark.parametrize("model", [Labelled, Masked, Routed, Ctc])
def test_sizes_that_depend_on_values_stay_within_a_layer(model, schedule, checkpoint):
    torch.manual_seed(0)
    made = model().double()
    pipe = train_as_plain(made, batch_of(), schedule=schedule, checkpoint=checkpoint)
    assert len(pipe.layers) > 1


class Packed(nn.Module):
    """An RNN that skips padding: its states, and its outputs padded to the longest sequence or to the input's length."""

    def __init__(self, kind, **options):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        self.rnn = getattr(nn, kind)(6, 6, batch_first=True, **options)

    def forward(self, x, lengths, whole=True):
        packed = nn.utils.rnn.pack_padded_sequence(torch.tanh(self.first(x)), lengths, batch_first=True, enforce_sorted=False)
        output, state = self.rnn(packed)
        output, found = nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=x.size(1) if whole else None)
        output = output.sum(1) / found[:, None]
        state = state[0] if isinstance(state, tuple) else state
        output = torch.cat([output, output], 1)[:, :6]
        return self.last(output + torch.cat([state, state], 2).mean(0)[:, :6])


def packed_batch(rows=7, length=5):
    torch.manual_seed(4)
    return {"x": torch.randn(rows, length, 4).double(), "lengths": torch.tensor([2, 5, 3, 1, 4, 2, 3])[:rows]}


@pytest.mark.parametrize(
    "kind, options, schedule",
    [("LSTM", {"num_layers": 2, "bidirectional": True}, "zero-bubble-h1"), ("LSTM", {"proj_size": 3}, "gpipe"),
     ("GRU", {"bias": False}, "1f1b"), ("RNN", {"nonlinearity": "relu"}, "gpipe")],
)
@pytest.mark.parametrize("whole", [True, False])
def test_packed_sequences_train_as_in_the_plain_model(kind, options, schedule, whole):
    torch.manual_seed(0)
    model = Packed(kind, **options).double()
    batch = {**packed_batch(), "whole": whole}
    layers = pipescope.layers_of(model, batch)
    assert len(layers) > 1
    for rows, length in ((7, 5), (5, 9)):
        batch = {**packed_batch(rows, length), "whole": whole}
        model.zero_grad()
        for first, size in (((0, 3), (3, 2), (5, 2)) if rows == 7 else ((0, 2), (2, 2), (4, 1))):
            part = {name: each[first : first + size] if name != "whole" else each for name, each in batch.items()}
            (own_or_squares(model(**part)) * size / rows).backward()
        expected = {name: each.grad.clone() for name, each in model.named_parameters()}
        model.zero_grad()
        half = len(layers) // 2
        pipe = pipescope.GPipe(layers, [half, len(layers) - half], devices=["cpu"] * 2, chunks=3, schedule=schedule)
        pipe.step(batch, loss=own_or_squares)
        assert max(float((each.grad - expected[name]).abs().max()) for name, each in model.named_parameters()) < 1e-12


def test_dropout_of_a_packed_rnn_follows_the_mode():
    torch.manual_seed(0)
    model = Packed("LSTM", num_layers=2, dropout=0.5).double()
    batch = packed_batch()
    pipe = pipescope.GPipe(model, sample=batch, devices=["cpu"] * 2, chunks=2)
    found = [pipe(**batch), pipe(**batch)]
    assert not torch.equal(*found)
    model.eval()
    assert float((pipe(**batch) - model(**batch)).detach().abs().max()) < 1e-12


class PackedByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rnn = nn.Linear(4, 6), nn.GRU(6, 6)

    def forward(self, x):
        packed = nn.utils.rnn.PackedSequence(self.first(x), torch.tensor([6], device=x.device))
        return self.rnn(packed)[1][0]


def test_a_packed_sequence_made_by_hand_is_refused_with_its_line():
    with pytest.raises(pipescope.UsageError, match=r"makes a packed sequence by hand, at .*test_any_model_values.py, line \d+: return self.rnn"):
        pipescope.layers_of(PackedByHand(), torch.randn(6, 4))


def test_a_micro_batch_with_another_size_that_a_branch_relies_on_is_refused():
    torch.manual_seed(0)
    batch = batch_of()
    pipe = train_as_plain(Labelled().double(), batch, schedule="1f1b")
    batch["labels"] = torch.tensor([1, 3, 0, 2, 1, -1, -1])  # the last micro-batch has none
    with pytest.raises(pipescope.UsageError, match=r"depends on the values of an input, at .*test_any_model_values.py.*, and u\d .* is not true here"):
        pipe.step(batch, loss=own_or_squares)
    batch["labels"] = batch_of()["labels"]
    pipe.step(batch, loss=own_or_squares)


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x, labels):
        x = self.first(x)
        for each in labels.unique():
            x = x * (each + 1)
        return self.last(x)


def test_a_loop_over_values_is_that_of_the_sample_or_refused():
    torch.manual_seed(0)
    model, x = Loops().double(), torch.randn(6, 4).double()
    with pytest.raises(pipescope.UsageError, match="depends on the values of an input"):
        pipescope.layers_of(model, {"x": x, "labels": torch.tensor([2, 0, 0, 1, 1, 0])})  # three values, and two without the first sample


def test_without_values_such_sizes_are_refused():
    with torch.device("meta"):
        model = Masked()
    with pytest.raises(pipescope.UsageError, match="there are none on the meta device"):
        pipescope.layers_of(model, {name: each.float() if name == "x" else each for name, each in batch_of().items()})


def test_such_sizes_are_measured_and_not_estimated():
    torch.manual_seed(0)
    batch = {name: each.float() if name == "x" else each for name, each in batch_of().items()}
    profile = pipescope.profile(Masked(), sample=batch, loss=own_or_squares, samples=[2])
    assert not profile.balance(2, batch=4, chunks=2).estimated
    with pytest.raises(pipescope.UsageError, match="needs values, which the meta device does not have, at aten.index"):
        pipescope.profile(Masked(), sample=batch, loss=own_or_squares, estimate_for="H100", samples=[2])


class Attends(nn.Module):
    """Masks what lies behind the longest sequence's length, as encoders of speech do."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        self.attention = nn.MultiheadAttention(6, 2)

    def forward(self, x, labels):
        x = self.first(x).transpose(0, 1)
        mask = torch.arange(int(labels.max())).expand(labels.shape[0], int(labels.max())) >= labels[:, None]
        return self.last(self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0].transpose(0, 1))


def test_views_do_not_hold_on_to_the_samples_sizes():
    torch.manual_seed(0)
    batch = {"x": torch.randn(6, 5, 4).double(), "labels": torch.tensor([5, 3, 4, 5, 5, 2])}
    pipe = train_as_plain(Attends().double(), batch, schedule="1f1b")
    assert pipe.layers.inputs[0].shape[0] == "batch"


class ReadsBuffer(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute, self.first, self.last = compute, nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return self.compute(self, self.first(x))


def times(model, x):
    return model.last(x) * (int(model.steps) + 1)


def doubles(model, x):
    if model.steps > 0:
        x = x * 2
    return model.last(x)


@pytest.mark.parametrize("compute, text", [
    (times, r"depends on the value of the buffer steps, at .*test_any_model_values.py.*; build the pipeline again where the buffer steps has changed"),
    (doubles, r"branches on a value that is True and was False .*, which the buffer steps decides on; .* build the pipeline again"),
])
def test_a_buffer_that_python_reads_is_named(compute, text):
    torch.manual_seed(0)
    model, x = ReadsBuffer(compute).double(), torch.randn(6, 4).double()
    pipe = pipescope.GPipe(model, [1, 1], sample=x, split=["last"], devices=["cpu"] * 2, chunks=2)
    assert torch.allclose(pipe(x), torch.cat([model(x[:3]), model(x[3:])]))
    model.steps += 1
    with pytest.raises(pipescope.UsageError, match=text):
        pipe(x)


def halves(model, x):
    one, other = x.chunk(2)
    return model.last(torch.cat([other, one]))


def test_a_branch_on_sizes_is_refused_with_its_line():
    pipe = pipescope.GPipe(ReadsBuffer(halves), sample=torch.randn(8, 4), devices=["cpu"], chunks=2)
    with pytest.raises(pipescope.UsageError, match=r"another branch, at the model \(test_any_model_values.py, line \d+: one, other = x.chunk"):
        pipe(torch.randn(4, 4))


def pairs(model, x):
    one, other = x.chunk(2)
    return model.last(one * other)


def test_a_model_of_some_numbers_of_samples_is_refused_with_its_line():
    with pytest.raises(pipescope.UsageError, match=r"takes some numbers of samples only, at aten.mul .*test_any_model_values.py"):
        pipescope.layers_of(ReadsBuffer(pairs), torch.randn(6, 4))


# ---- Outputs and gradients that layers cannot have ----


class Runs(nn.Module):
    """Runs `compute` between two layers."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x, labels=None):
        return self.compute(self, self.first(x), labels)


def dual(x):
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(torch.autograd.forward_ad.make_dual(x, x).sin()).tangent


@pytest.mark.parametrize("compute, text", [
    (lambda model, x, labels: {"y": model.last(x), "count": x.shape[0]}, "output count is a number that depends on the sizes"),
    (lambda model, x, labels: (model.last(x), [x.shape[0] / 2]), "output 1.0 is a number that depends on the sizes"),
    (lambda model, x, labels: model.last(x + torch.func.grad(lambda y: y.sin().sum())(x)), r"computes gradients .* test_any_model_values.py"),
    (lambda model, x, labels: model.last(x + torch.autograd.grad(x.sin().sum(), x)[0]), r"computes gradients .*test_any_model_values.py"),
    (lambda model, x, labels: model.last(torch.func.jvp(torch.sin, (x,), (x,))[1]), r"computes gradients .*test_any_model_values.py"),
    (lambda model, x, labels: model.last(dual(x)), r"computes gradients .*test_any_model_values.py"),
    (lambda model, x, labels: model.last(torch.vmap(lambda row: row * row.sum())(x)), r"calls torch.vmap\(\), .*test_any_model_values.py"),
    (lambda model, x, labels: model.last(torch.vmap(torch.func.jacrev(torch.sin))(x).sum(-1)), r"calls torch.vmap\(\), "),
    (lambda model, x, labels: model.last(torch.func.functionalize(torch.sin)(x)), r"calls torch.func.functionalize\(\), "),
    (lambda model, x, labels: model.last(torch.stack([each * 2 for each in x])), "holds on to the sample's 6 samples"),
])
def test_numbers_inner_gradients_and_vmap_are_refused(compute, text):
    with pytest.raises(pipescope.UsageError, match=text):
        pipescope.layers_of(Runs(compute), {"x": torch.randn(6, 4)})


def test_the_parameters_of_a_functional_call_get_their_gradients():
    torch.manual_seed(0)

    def call(model, x, labels):
        given = {"weight": 2 * model.last.weight, "bias": model.last.bias}
        return torch.func.functional_call(model.last, given, (x,))

    train_as_plain(Runs(call).double(), {"x": torch.randn(6, 4).double()})


def test_an_argument_that_the_sample_lacks_is_named():
    class Scaled(Runs):
        def forward(self, x, scale=1.0):
            return super().forward(x) * scale

    x = torch.randn(6, 4)
    pipe = pipescope.GPipe(Scaled(lambda model, x, labels: model.last(x)), sample={"x": x}, split=["last"], devices=["cpu"] * 2, chunks=3)
    with pytest.raises(pipescope.UsageError, match="other inputs than its sample has: scale is new"):
        pipe.step({"x": x, "scale": 2.0}, loss=own_or_squares)


def test_a_loop_over_the_samples_of_one_input_is_refused():
    class Pictures(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, images):
            features = torch.cat([self.second(each) for each in images])
            return self.first(x) + features.view(len(features), -1)[: x.shape[0]]

    with pytest.raises(pipescope.UsageError, match="holds on to the sample's 6 samples of the input images"):
        pipescope.layers_of(Pictures(), {"x": torch.randn(6, 4), "images": torch.randn(6, 1, 4)})


def test_a_loop_over_samples_is_refused_if_the_input_that_is_cut_changes_nothing():
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, weight):
            return torch.stack([self.second(torch.tanh(self.first(each))) for each in x])

    with pytest.raises(pipescope.UsageError, match="holds on to the sample's 6 samples of the input x"):
        pipescope.layers_of(Rows(), {"x": torch.randn(6, 4), "weight": torch.ones(6)})


# ---- What a model keeps ----


def test_a_cache_of_tensors_survives_a_trace():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        @functools.lru_cache(maxsize=4)
        def positions(self, length):
            return torch.arange(length).double()

        def forward(self, x, labels):
            return self.last(torch.tanh(self.first(x) + self.positions(x.shape[1])))

    torch.manual_seed(0)
    model, batch = Table().double(), batch_of()
    train_as_plain(model, batch, schedule="1f1b")
    assert type(model(**batch)) is torch.Tensor
    train_as_plain(model, batch, schedule="1f1b")


def averaged(model, x, labels):
    model.mean.data.mul_(0.9).add_(0.1 * x.data.mean(0))
    return model.last(torch.tanh(x - model.mean))


@pytest.mark.filterwarnings("ignore:a sample's output")
def test_buffers_may_be_changed_by_their_data():
    torch.manual_seed(0)
    model, batch = Runs(averaged).double(), batch_of()
    plain = copy.deepcopy(model)
    plain_gradients(plain, batch, 3)
    pipe = pipescope.GPipe(model, [1, 1], sample=batch, split=["last"], devices=["cpu"] * 2, chunks=3, schedule="1f1b")
    assert not model.mean.any()
    pipe.step(batch, loss=own_or_squares)
    assert (model.mean - plain.mean).abs().max() < 1e-12


@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated")
def test_attributes_that_the_forward_sets_before_it_reads_them():
    torch.manual_seed(0)
    model, batch = Runs(lambda model, x, labels: model.last(torch.tanh(x))).double(), batch_of()
    torch.nn.utils.weight_norm(model.last)  # whose hook sets `weight` before each forward
    pipe = train_as_plain(model, batch, schedule="1f1b")
    model(**batch)
    pipe.step(batch, loss=own_or_squares)


def test_padding_of_torchs_encoder():
    """Its fast path, for calls without gradients, sets padding to 0; the layers do what it does in training."""

    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2)

        def forward(self, x, labels):
            return self.encoder(x[:, :, None].expand(-1, -1, 4), src_key_padding_mask=torch.arange(x.shape[1]) > labels[:, None] + 1)

    torch.manual_seed(0)
    train_as_plain(Padded().double(), batch_of(), schedule="1f1b")


def test_a_branch_on_a_random_number_says_so():
    def dropping(model, x, labels):
        return model.last(x) if not model.training or torch.rand([]) > 0.5 else model.last(2 * x)

    torch.manual_seed(0)
    batch = batch_of()
    try:
        pipe = pipescope.GPipe(Runs(dropping).double(), [1, 1], sample=batch, split=["last"], devices=["cpu"] * 2, chunks=7)
        with pytest.raises(pipescope.UsageError, match="branches on a random number, at .*as layer drop does"):
            for _ in range(20):
                pipe.step(batch, loss=own_or_squares)
    except pipescope.UsageError as error:
        assert "branches on a random number" in str(error)


@pytest.mark.parametrize("limit, most", [("_MOST_PARTS", 2), ("_MOST_SECONDS", 0.0)])
def test_sizes_of_images_that_take_torch_too_long_stay_the_samples(monkeypatch, limit, most):
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Linear(4, 2)

        def forward(self, x):
            x = self.first(x)
            rows, columns = x.shape[2] // 2, x.shape[3] // 2
            return self.last(x.reshape(-1, 4, rows, 2, columns, 2).mean((2, 3, 4, 5)))

    torch.manual_seed(0)
    x = torch.randn(6, 3, 8, 8)
    monkeypatch.setattr(_trace_model, limit, most)
    assert [type(each) for each in pipescope.layers_of(Halves(), x).inputs[0].shape] == [str, int, int, int]


class Converted(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype, self.body, self.router, self.head = dtype, nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        self.router = self.router.to(self.dtype)  # as routers of experts do
        hidden = self.body(x)
        return self.head(torch.relu(self.router(hidden.to(self.dtype)).to(hidden.dtype)))


def test_a_module_that_is_converted_to_what_it_is_trains_as_in_the_plain_model():
    torch.manual_seed(0)
    model = Converted(torch.float64).double()
    x = torch.randn(6, 4, dtype=torch.float64)
    model(x).square().mean().backward()
    expected = {name: each.grad.clone() for name, each in model.named_parameters()}
    model.zero_grad()
    pipe = pipescope.GPipe(model, sample=x, devices=["cpu"] * 2, chunks=3)
    pipe.step(x, loss=lambda output, _=None: output.square().mean())
    assert max(float((each.grad - expected[name]).abs().max()) for name, each in model.named_parameters()) < 1e-12


def test_a_conversion_to_another_type_is_refused_with_its_line():
    model = Converted(torch.float64)
    with pytest.raises(pipescope.UsageError, match=r"self\.router\.to\(self\.dtype\)"):
        pipescope.GPipe(model, sample=torch.randn(6, 4), devices=["cpu"] * 2, chunks=3)


DRAWS = {
    "rand": lambda sizes, **more: torch.rand(sizes, **more),
    "randn": lambda sizes, **more: torch.randn(*sizes, **more),
    "randint": lambda sizes, **more: torch.randint(3, sizes, **more),
    "randint_low": lambda sizes, **more: torch.randint(1, 3, sizes, **more),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_draw_that_names_no_generator_is_one_of_torchs(draw):
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    first, last, losses = nn.Linear(4, 4), nn.Linear(4, 2), []
    for more in ({}, {"generator": None}):
        model = Runs(lambda model, x, labels, more=more: model.last(x + draw((x.shape[0], 4), **more)))
        model.first, model.last = first, last
        pipe = pipescope.GPipe(model, sample=x, balance=[2, 2], devices=["cpu"] * 2, chunks=3, seed=5)
        losses.append([float(pipe.step(x, loss=lambda output, _=None: output.square().mean()).detach()) for _ in range(2)])
    assert losses[0] == losses[1] and losses[0][0] != losses[0][1]


class MaskOfHeads(nn.Module):
    """Repeats a mask for each head, and counts the samples of another input to give them back their dimension."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x, mask):
        q = torch.tanh(self.first(x)).unflatten(-1, (2, 3)).transpose(1, 2)
        bias = (1 - mask.to(q.dtype)).mul(-9.0)[:, None].repeat_interleave(2, dim=0).view(x.shape[0], -1, 1, mask.shape[-1])
        return self.last(functional.scaled_dot_product_attention(q, q, q, bias).transpose(1, 2).flatten(2))


def test_inputs_that_count_the_samples_each_are_cut_together():
    torch.manual_seed(0)
    train_as_plain(MaskOfHeads().double(), {"x": torch.randn(7, 5, 4).double(), "mask": torch.rand(7, 5) > 0.3})


class WithPadding(nn.Module):
    """Computes its own loss, over the labels that are no padding, if it gets labels."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 5)

    def forward(self, x, labels=None):
        scores = self.last(torch.tanh(self.first(x)))
        return {"loss": None if labels is None else functional.cross_entropy(scores, labels, ignore_index=-1), "scores": scores}


def test_check_takes_traced_models():
    torch.manual_seed(0)
    model, batch = WithPadding().double(), batch_of()
    pipe = pipescope.GPipe(model, sample=batch, devices=["cpu"] * 2, chunks=3, schedule="1f1b")
    for module in (model, pipe, pipe.layers):
        found = pipescope.check(module, batch, chunks=3)
        assert not found and "weight=lambda" in found.explanation and found.output_error < 1e-12 and found.loss_error > 1e-3
        assert pipescope.check(module, batch, chunks=3, weight=lambda batch: (batch["labels"] != -1).sum())
    x, y = {"x": batch["x"]}, batch["labels"].clamp(min=0)
    assert pipescope.check(model, x, y, lambda output, target: functional.cross_entropy(output["scores"], target))
    assert all(each.grad is None for each in model.parameters()) and model.training
    with pytest.raises(pipescope.UsageError, match="split is given with a traced model"):
        pipescope.check(pipe, batch, split={"x": None})


class Does(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.first, self.last, self.compute = nn.Linear(4, 6), nn.Linear(6, 2), compute

    def forward(self, x, labels):
        return self.last(self.compute(self, torch.tanh(self.first(x)), labels))


def put_at_labels(_model, x, labels):
    return x.index_put((torch.arange(len(x)), labels % 6), torch.ones(len(labels)).to(x), accumulate=True).view(len(x), -1)


def test_the_length_of_a_tensor_is_no_number_of_the_sample():
    torch.manual_seed(0)
    pipe = train_as_plain(Does(put_at_labels).double(), batch_of())
    expected = plain_gradients(pipe.layers.model, batch_of(5), 3)
    pipe.zero_grad()
    pipe.step(batch_of(5), loss=own_or_squares)
    assert max(float((each.grad - expected[name]).abs().max()) for name, each in pipe.named_parameters()) < 1e-12


def test_a_number_of_the_sample_is_refused_with_what_to_write():
    with pytest.raises(pipescope.UsageError, match=r"line \d+: .*, as a loop over samples or a number of Python such as int"):
        pipescope.layers_of(Does(lambda model, x, labels: x.view(int(x.shape[0]), -1)), batch_of(6, torch.float32))


@pytest.mark.parametrize("compute", [
    lambda model, x, labels: torch.stack([x[k, :count].sum() + x[k] for k, count in enumerate((labels % 3 + 1).tolist())]),
    lambda model, x, labels: torch.stack([each.mean(0) for each in x.repeat(2, 1).split((labels * 0 + 2).tolist())]),
])
def test_a_loop_over_numbers_that_are_values_is_refused_with_its_line(compute):
    with pytest.raises(pipescope.UsageError, match=r"test_any_model_values.py\", line \d+: .*self.compute.*instead of Python's numbers"):
        pipescope.layers_of(Does(compute), batch_of(6, torch.float32))


def without_gradients(model, x):
    with torch.no_grad():
        target = model(x)
    return x - target


@pytest.mark.parametrize("is_frozen, compute, is_refused", [
    (False, lambda model, x: model(x), True),
    (True, lambda model, x: model(x), False),
    (False, lambda model, x: x - functional.linear(x, model.weight.detach()), False),
    (False, without_gradients, False),
])
def test_a_module_in_a_list_is_refused_if_it_trains(is_frozen, compute, is_refused):
    hidden = [nn.Linear(6, 6).double().requires_grad_(not is_frozen)]
    model = Does(lambda model, x, labels: compute(hidden[0], x)).double()
    if not is_refused:
        train_as_plain(model, batch_of())
        return
    text = r"a tensor of the shape \(6, 6\) that requires a gradient and is no parameter of it, at aten.linear .*line \d+.* nn.ModuleList"
    with pytest.raises(pipescope.UsageError, match=text):
        pipescope.layers_of(model, batch_of())


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        self.register_buffer("table", None)

    def forward(self, x):
        if self.table is None or len(self.table) < x.shape[1]:
            self.table = torch.arange(6.0 * x.shape[1]).view(-1, 6).to(x)
        return self.last(torch.tanh(self.first(x)) * self.table[: x.shape[1]])


def test_a_buffer_that_the_first_call_makes_is_refused_with_what_to_do():
    model = Positions()
    with pytest.raises(pipescope.UsageError, match="replaces the buffer table .* which was None; .* call the model once on the longest sample"):
        pipescope.layers_of(model, torch.randn(6, 5, 4))
    assert model.table is None
    model(torch.randn(2, 9, 4))
    pipe = pipescope.GPipe(model, sample=torch.randn(6, 5, 4), devices=["cpu"], chunks=3)
    x = torch.randn(6, 8, 4)
    assert torch.allclose(pipe(x), model(x))
