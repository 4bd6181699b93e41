"""Texts that a postprocessor masks do not come back, in whatever field or span."""

from __future__ import annotations

import json

import pytest

from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.kit import Draw
from tests.matrix.llama_index.retrieval import masked_passages
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import seeds

world = fixtures.world
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("seed", seeds(size(8, 40)))
def test_masked_text_is_in_no_field_of_the_sample_and_on_no_span(seed: int, world: World) -> None:
    asked, secret = masked_passages(Draw(seed, "query", world))
    asked.run()
    (seen,) = world.seen()
    spans = [dict(span.attributes or {}) for span in world.exporter.get_finished_spans()]
    shown = json.dumps([seen.sample.to_dict(), spans], ensure_ascii=False)
    assert secret not in shown
