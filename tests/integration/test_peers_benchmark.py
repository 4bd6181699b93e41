"""The comparison with other libraries: its page, and the driver on our own part."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from benchmarks.peers.environments import BUILD, IMPORTS, OURS, PEERS, run, version
from benchmarks.peers.measure import CONDITIONS, JUDGES, WATCHERS, judged
from benchmarks.peers.page import peers_do_better, tables

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
MIGRATION = PAGE.with_name("migration.md")
PLACES = {
    "ragas": ("ragas.metrics.collections", "ragas.metrics", "ragas.SingleTurnSample"),
    "DeepEval": ("deepeval", "deepeval.metrics", "deepeval.test_case.LLMTestCase"),
    "TruLens": (
        "trulens.core",
        "trulens.core.Selector",
        "trulens.feedback",
        "trulens.providers.openai.OpenAI",
    ),
}
"""Modules and classes where the names of the page on migration stand."""
LOOK_UP = """
import inspect, pydoc, sys, warnings
warnings.simplefilter("ignore")
places, names = (argument.split() for argument in sys.argv[1:])
known = set()
for place in map(pydoc.locate, places):
    known |= set(dir(place)) | set(inspect.signature(place).parameters if callable(place) else ())
print(*sorted(set(names) - known))
"""


@pytest.mark.parametrize("peer", PLACES)
def test_migration_names_what_the_pinned_libraries_have(peer: str) -> None:
    """Law: each name of another library that the page on migration shows is one of that library.

    Looked up in the environments that `make bench` makes.
    """
    python = BUILD / peer.lower() / "bin" / "python"
    if not python.exists():
        pytest.skip("make bench makes the environment")
    rows = [line.split("|")[1:-1] for line in MIGRATION.read_text().splitlines() if "|" in line]
    column = [cell.strip() for cell in rows[0]].index(peer)
    names = [name for row in rows[2:] for name in re.findall(r"`(\w+)`", row[column])]
    assert len(names) > 7
    missing = run([str(python), "-c", LOOK_UP, " ".join(PLACES[peer]), " ".join(names)])
    assert missing.split() == []


def test_the_page_names_every_library_with_its_pinned_version() -> None:
    """Law: what is pinned stands on the page, with that version, and is measured."""
    text = PAGE.read_text(encoding="utf-8")
    assert PEERS
    for peer in PEERS:
        assert f"| {peer} | {version(peer)} |" in text
        assert peer in IMPORTS
    assert set(WATCHERS) | set(JUDGES) == set(PEERS)


def test_every_library_scores_all_samples_of_an_honest_judge() -> None:
    """Law: on the page, no library fails for want of a right reply to its prompts."""
    rows = re.findall(r"^\| as sent \| (\S+) \|.*\| (\d+) of (\d+) \|", PAGE.read_text(), re.M)
    assert [peer for peer, _, _ in rows] == [OURS, *JUDGES]
    assert all(scored == count for _, scored, count in rows)


def test_our_part_has_a_score_or_none_for_each_sample() -> None:
    """Law: a corrupted reply or a failed call never changes a score that is given."""
    seed = random.randrange(10**6)
    print("seed", seed)  # noqa: T201
    draw = random.Random(seed)
    count = draw.randint(3, 6)
    (clean,) = judged(OURS, Path(sys.executable), CONDITIONS[0], count)
    (row,) = judged(OURS, Path(sys.executable), draw.choice(CONDITIONS[1:]), count)
    assert len(row["scores"]) == row["samples"] == count
    assert clean["scored"] == count
    for score, right in zip(row["scores"], clean["scores"], strict=True):
        assert score is None or score == right
    assert row["calls"] >= 1
    assert row["chars"] > 0
    assert row["wall_s"] > 0
    assert row["cpu_s"] > 0


def test_what_peers_do_better_is_what_the_figures_say() -> None:
    """Law: a peer that is ahead is named with that measurement, and one behind is not."""
    own = {"peer": OURS, "version": "1", "size_mb": 50.0, "import_s": 0.5}
    ahead = {"peer": "first", "version": "1", "size_mb": 40.0, "import_s": 0.6}
    behind = {"peer": "second", "version": "1", "size_mb": 60.0, "import_s": 0.6}
    results = {"requests": [], "memory": [], "judging": [], "install": [own, ahead, behind]}
    assert peers_do_better(results) == ["first: smaller installation."]
    assert list(tables(results)) == ["install"]
