"""A pytest plugin with the fixture `rag_eval` and a report of all evaluated samples.

```python
def test_opening_hours(rag_eval):
    answer, chunks = ask(question := "When does the first ferry leave?")
    sample = {"question": question, "contexts": chunks, "answer": answer}
    rag_eval.assert_scores(sample, faithfulness=0.8)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rag_eval_hooks_pytest.scores_in_tests import ScoresInTests

_OPTION, _MARKER = "--rag-eval-report", "rag_eval"


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "Write a report of all evaluated samples to FILE (.html, .md, .json or .txt)."
    parser.getgroup("rag-eval-hooks").addoption(_OPTION, metavar="FILE", help=told)


def _results(config: pytest.Config) -> Path | None:
    report = config.getoption(_OPTION)
    return None if report is None else Path(f"{report}.jsonl").absolute()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARKER}: the test uses the fixture {_MARKER}")
    if (results := _results(config)) and not hasattr(config, "workerinput"):
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # `-m "not rag_eval"` deselects tests with the marker.
    for item in items:
        if _MARKER in getattr(item, "fixturenames", ()):
            item.add_marker(_MARKER)


def pytest_sessionfinish(session: pytest.Session) -> None:
    results = _results(session.config)
    if results and results.exists() and not hasattr(session.config, "workerinput"):
        from rag_eval_hooks.cli.main import main

        main(["report", str(results), "-o", str(session.config.getoption(_OPTION))])


@pytest.fixture(scope="session")
def rag_eval(request: pytest.FixtureRequest) -> Iterator[ScoresInTests]:
    """The test session's evaluator. Environment variables and the settings file configure it."""
    from rag_eval_hooks_pytest.scores_in_tests import ScoresInTests

    scores = ScoresInTests(_results(request.config))
    yield scores
    scores.close()
