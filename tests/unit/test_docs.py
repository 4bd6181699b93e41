"""The documents say what the code does."""

from __future__ import annotations

import ast
import math
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import semconv
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.sampling.selection import Selection
from rag_eval_hooks.semconv import EvalStatus

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="not in a source tree")


def test_every_setting_is_documented() -> None:
    """The page of settings lists all settings and no others, in the words of the code."""
    page = (ROOT / "docs/configuration.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == list(RagEvalConfig.model_fields)
    script = runpy.run_path(str(ROOT / "docs/settings_table.py"))
    assert script["page"]() == page, "run `python docs/settings_table.py`"


def test_every_metric_is_documented() -> None:
    """The page of metrics lists and calculates all and no others."""
    listed = re.findall(r"^\| `(\w+\.\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.M)
    assert sorted(listed) == sorted(metric.id for metric in ALL_METRICS)
    script = runpy.run_path(str(ROOT / "docs/metric_pages.py"))
    page = (ROOT / "docs/metrics.md").read_text()
    assert script["page"]() == page, "run `python docs/metric_pages.py`"


def test_every_formula_gives_the_value_of_its_example() -> None:
    """Each metric has a formula, and its numbers come to the value that is printed below them."""
    sections = (ROOT / "docs/metrics.md").read_text().split("\n### ")[1:]
    assert len(sections) == len(ALL_METRICS)
    for section in sections:
        (formula,) = re.findall(r"^Formula: (.+)\.$", section, re.M)
        value = float(re.search(r"^value = ([0-9.]+)", section, re.M)[1])  # type: ignore[index]
        for numbers in re.findall(r", here ([0-9.x+/() ]+)$", formula):
            assert math.isclose(eval(numbers.replace("x", "*")), value, rel_tol=1e-3), section


def test_the_map_of_the_rooms_is_current() -> None:
    """The page on the architecture shows the imports between rooms as they are."""
    script = runpy.run_path(str(ROOT / "docs/rooms.py"))
    page = (ROOT / "docs/architecture.md").read_text()
    assert script["page"]() == page, "run `python docs/rooms.py`"


def test_the_picture_of_the_held_span_is_current() -> None:
    """The picture shows the names and the time limit that the code has."""
    script = runpy.run_path(str(ROOT / "docs/held_span.py"))
    drawn = (ROOT / "docs/images/held-span.svg").read_text(encoding="utf-8")
    assert script["picture"]() == drawn, "run `python docs/held_span.py`"


def test_the_table_of_shapes_is_current() -> None:
    """The page on capture names every shape of LangChain's matrix, and what it takes."""
    pytest.importorskip("langchain_core")
    script = runpy.run_path(str(ROOT / "docs/shapes_table.py"))
    page = (ROOT / "docs/capture.md").read_text()
    assert script["page"]() == page, "run `python docs/shapes_table.py`"


def test_the_index_of_the_tests_is_current() -> None:
    """Every file that the index names exists, and every test file is named."""
    tests = ROOT / "tests"
    patterns = re.findall(r"`([\w/*]+/test_[\w*]*\.py)`", (tests / "README.md").read_text())
    named = {pattern: set(tests.glob(pattern)) for pattern in patterns}
    assert sorted(pattern for pattern, files in named.items() if not files) == []
    missing = set(tests.glob("*/test_*.py")).difference(*named.values())
    assert sorted(str(file.relative_to(tests)) for file in missing) == []


def test_every_fault_of_the_reviews_is_held_by_tests() -> None:
    """Each has tests, and each that is named for one exists."""
    reviews = tomllib.loads((ROOT / "tests/faults.toml").read_text(encoding="utf-8"))
    assert len(reviews) == 6
    for fault in (fault for review in reviews.values() for fault in review.values()):
        assert fault["tests"]
        for name in fault["tests"]:
            file, _, test = name.partition("[")[0].partition("::")
            source = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert re.search(rf"^(async )?def {test}\(", source, re.M), name


def test_every_attribute_event_and_metric_is_documented() -> None:
    """The page on telemetry names every name that we emit."""
    page = (ROOT / "docs/telemetry.md").read_text()
    names = {
        value
        for name, value in vars(semconv).items()
        if name.isupper()
        if isinstance(value, str) and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", value)
    }
    assert len(names) > 40
    prefixes = {semconv.RETRIEVAL_DOCUMENTS}
    assert sorted(name for name in names - prefixes if f"`{name}" not in page) == []
    fields = ("name", "score", "label", "explanation", "annotator_kind", "identifier", "metadata")
    assert all(f"`evaluations.N.evaluation.{field}`" in page for field in fields)


def test_every_status_is_documented() -> None:
    """The page on telemetry explains every status."""
    page = (ROOT / "docs/telemetry.md").read_text()
    assert all(f"`{status.value}`" in page for status in EvalStatus)


def _examples(page: str) -> list[dict[str, Any]]:
    if not (ROOT / page).is_file():
        return []
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.S)
    return [tomllib.loads(block) for block in blocks]


@pytest.mark.parametrize("told", _examples("docs/sampling.md"))
def test_examples_of_sampling_are_accepted(told: dict[str, Any]) -> None:
    """Every table on the page on sampling is one that a file of settings may hold."""
    config = RagEvalConfig(**told)
    Selection(config, ALL_METRICS, ALL_METRICS, Incidents())


def test_viewer_pages_name_what_is_emitted() -> None:
    """Every attribute, event and metric that a page on a viewer names is one that we emit."""
    emitted = {value for value in vars(semconv).values() if isinstance(value, str)}
    own = r"rag\.eval\.(<suite>\.<metric>|[a-z]+\.[a-z_]+)\.(score|label|pass|reason|normalised)"
    for page in sorted((ROOT / "docs" / "viewers").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`((?:rag\.eval|gen_ai)\.[\w.<>]+)", text):
            known = name in emitted or (re.fullmatch(own, name) and _is_metric(name))
            assert known, f"{page.name}: {name}"


def _is_metric(name: str) -> bool:
    metric_id = name.removeprefix("rag.eval.").rpartition(".")[0]
    return metric_id == "<suite>.<metric>" or metric_id in {one.id for one in ALL_METRICS}


_WORDS = (
    r"\b(told(?! apart)|course of|(?<!`)carriers?|errands?|utili[sz]\w+|simply|easily|obviously"
    r"|seamless\w*|robust\w*|powerful|please|in order to"
    r"|(?P<twice>the|a|an|is|of|to|in) (?P=twice))\b"
)
"""Words of our own where the field has better ones, words that say nothing, and words doubled."""


def _texts() -> Iterator[tuple[Path, str]]:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    yield from ((page, page.read_text(encoding="utf-8")) for page in pages)
    folders = ("rag_eval_hooks", "integrations", "benchmarks", "examples", "docs")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, documented):
                yield path, ast.get_docstring(node) or ""


def test_documents_and_docstrings_use_the_words_of_the_field() -> None:
    """No page and no docstring explains itself in words of our own, or in empty ones."""
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in _texts()
        for match in re.finditer(_WORDS, text, re.I)
    ]
    assert found == []


_GENERATED = r"<!-- Written by.*?<!-- End of|<!-- The rest is written.*"


def test_the_documents_are_short() -> None:
    """All pages together are at most 12,000 words, but for what is made from the code."""
    words = 0
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        if page.name not in ("configuration.md", "benchmarks.md"):
            # Not the bars of tables.
            words += len(re.findall(r"\S*\w\S*", re.sub(_GENERATED, "", text, flags=re.S)))
    assert words <= 12_000, words
