"""Every pipeline shape, called in one of its ways; with `--long` in every way that it has."""

from __future__ import annotations

import pytest

from tests.matrix.check import check
from tests.matrix.frameworks import FRAMEWORKS, shapes
from tests.matrix.shape import Shape
from tests.support.size import size
from tests.support.variation import run_seed

# What frameworks call of their own that is deprecated is no concern of ours.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def ways_of(number: int, shape: Shape) -> list[str]:
    ways = list(shape.ways)
    return size([ways[(number + run_seed()) % len(ways)]], ways)


CASES = {
    f"{framework}-{shape.group}-{shape.name}-{way}".replace(" ", "_"): (shape, way)
    for framework in FRAMEWORKS
    for number, shape in enumerate(shapes(framework))
    for way in ways_of(number, shape)
}


# What a framework says of its own future is no concern of these tests.
@pytest.mark.filterwarnings("ignore:.*(deprecated|experimental|beta)")
@pytest.mark.parametrize(("shape", "way"), CASES.values(), ids=CASES)
def test_shape_is_captured_right(shape: Shape, way: str) -> None:
    """Question, contexts, answer, status and spans are right, nothing leaks, the books add up."""
    if shape.missing is not None:
        pytest.skip(shape.missing)
    wrong = check(shape, way)
    assert not wrong, "\n".join(f"{aspect}: {text}" for aspect, text in wrong.items())
