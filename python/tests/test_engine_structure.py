"""How far values are apart."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from pipescope._structure import error_of  # noqa: E402


def of(*values):
    return [torch.tensor(values)]


def test_errors_are_relative_to_the_largest_expected_value():
    assert error_of(of(1.0, 4.5), of(1.0, 4.0)) == 0.125
    assert error_of([*of(0.5), *of(4.0)], [*of(0.0), *of(4.0)]) == 0.125
    assert error_of(of(0.5), of(0.0)) == 0.5
    assert error_of(of(1 + 2j), of(1 + 1j)) == pytest.approx(1 / math.sqrt(2))


def test_what_is_not_finite_agrees_with_itself_only():
    assert error_of(of(math.nan, math.inf, 1.0), of(math.nan, math.inf, 1.0)) == 0
    assert math.isnan(error_of(of(math.nan, 1.0), of(0.0, 1.0)))
    assert math.isnan(error_of(of(0.0, 1.0), of(math.nan, 1.0)))
    assert error_of(of(math.inf), of(1.0)) == math.inf
    assert error_of(of(math.inf), of(-math.inf)) == math.inf


def test_whole_numbers_and_shapes_agree_or_not():
    assert error_of(of(1, 2), of(1, 2)) == 0
    assert error_of(of(1, 3), of(1, 2)) == math.inf
    assert error_of(of(True), of(False)) == math.inf
    assert error_of(of(1.0), of(1.0, 1.0)) == math.inf
    assert error_of([], []) == 0
