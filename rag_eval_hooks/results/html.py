"""Report as one HTML file that loads nothing: tables and lines drawn here, samples by a script."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rag_eval_hooks._version import __version__
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.results.estimate import Estimate
from rag_eval_hooks.results.ranking import FAITHFULNESS, badness
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.report import ReportPeriod, ResultReport
from rag_eval_hooks.results.summary import SCREENING, band_of
from rag_eval_hooks.results.tables import (
    absent_table,
    cost_table,
    label_table,
    label_tables,
    labelled_table,
)
from rag_eval_hooks.results.text_table import shown_number
from rag_eval_hooks.score import NotScored, outcome_to_dict

__all__ = ["as_html"]

_BLOCK: Final = 25
"""Samples that are unpacked together."""
_ASKED: Final = 220
"""Characters of a question in the list."""
_WIDTH, _HEIGHT = 130.0, 30.0


def as_html(report: ResultReport) -> str:
    """Return a report as a page of its own, for narrow and wide, light and dark.

    Question, scores and rules of every sample are in it as they are; texts and explanations are
    compressed, in blocks that the page unpacks when a sample is opened.
    """
    page = resources.files("rag_eval_hooks.results") / "page"
    style, script, source = (
        (page / name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js", "report.html.j2")
    )
    rows = _ordered(report)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.globals.update(number=shown_number, band=band_of)
    environment.globals["spark"] = lambda metric: _spark(report.periods, metric)
    problems = [each for each in report.diagnoses if each.rule.blame != "none"]
    good = [each for each in report.diagnoses if each.rule.blame == "none"]
    position = {id(row): number for number, row in enumerate(rows)}
    rules = [[position[id(row)] for row in each.rows] for each in (*problems, *good)]
    index = {
        "metrics": list(report.whole.metrics),
        "size": _BLOCK,
        "rules": rules,
        "samples": [_entry(row, list(report.whole.metrics)) for row in rows],
    }
    return environment.from_string(source).render(
        report=report,
        problems=problems,
        good=good,
        ranked="faithfulness first" if _has_faithfulness(report) else "all scores",
        label_tables=lambda key: label_tables(report, key),
        labelled_table=labelled_table(report),
        label_table=label_table(report),
        absent_table=absent_table(report),
        cost_table=cost_table(report),
        estimated=any(one.is_estimated for one in report.metrics),
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        index=Markup(_in_script(index)),
        blocks=[Markup(block) for block in _blocks(rows)],
    )


def _has_faithfulness(report: ResultReport) -> bool:
    return any(name in report.whole.metrics for name in FAITHFULNESS)


def _ordered(report: ResultReport) -> Sequence[ResultRow]:
    """Return all rows: the worst first, those without a score last."""
    scored = {id(row) for row in report.worst}
    return [*report.worst, *(row for row in report.whole.rows if id(row) not in scored)]


def _entry(row: ResultRow, metrics: Sequence[str]) -> dict[str, Any]:
    scores = [row.score(name) for name in metrics]
    key = badness(row)
    when = "" if row.when is None else f"{row.when:%Y-%m-%d %H:%M}"
    labels = (score.label for score in scores if score and score.label != SCREENING)
    is_faithful = key is not None and key[0] <= 1.0
    return {
        "q": row.sample.question[:_ASKED],
        "t": when,
        "g": next(filter(None, labels), None),
        "f": int(is_faithful),
        "l": None if key is None else round(key[0 if is_faithful else 1], 4),
        "s": [None if score is None else round(score.normalised, 4) for score in scores],
        "u": int(any(isinstance(one, NotScored) for one in row.outcomes.values())),
    }


def _blocks(rows: Sequence[ResultRow]) -> Iterator[str]:
    for start in range(0, len(rows), _BLOCK):
        plain = [_detail(row) for row in rows[start : start + _BLOCK]]
        data = json.dumps(plain, ensure_ascii=False, default=str).encode("utf-8", "replace")
        yield base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _detail(row: ResultRow) -> dict[str, Any]:
    sample = row.sample
    contexts = sample.to_dict().get("contexts")
    facts = {
        "id": sample.sample_id,
        "trace": sample.trace_id,
        "chosen": row.reason and f"{row.reason}, probability {row.probability}",
        "seconds": sample.latency and round(sample.latency, 3),
        "cut": ", ".join(sample.truncated),
        "tags": ", ".join(sample.tags),
        **sample.metadata,
    }
    return {
        "question": sample.question,
        "answer": sample.answer,
        "reference": sample.reference,
        "contexts": contexts,
        "facts": {key: value for key, value in facts.items() if value not in (None, "", ())},
        "outcomes": {name: outcome_to_dict(one) for name, one in row.outcomes.items()},
    }


def _in_script(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _spark(periods: Sequence[ReportPeriod], metric: str) -> Markup:
    """Return the line of a metric over time with its interval, drawn from worst to best."""
    known: list[tuple[int, Estimate]] = [
        (number, one.normalised)
        for number, period in enumerate(periods)
        if (one := period.group.metrics.get(metric)) is not None and one.normalised is not None
    ]
    if len(known) < 2:
        return Markup("")
    first, last = known[0][1], known[-1][1]
    line = " ".join(_point(number, one.mean, len(periods)) for number, one in known)
    ends = [(n, e.low, e.high) for n, e in known if e.low is not None and e.high is not None]
    upper = [_point(number, high, len(periods)) for number, _, high in ends]
    lower = [_point(number, low, len(periods)) for number, low, _ in reversed(ends)]
    words = f"from {first.mean:.2f} to {last.mean:.2f} of 1 in {len(known)} periods"
    return Markup(
        '<svg class="spark" viewBox="0 0 130 30" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><polygon points="{}"/><polyline points="{}"/></svg>'
    ).format(words, " ".join(upper + lower), line)


def _point(number: int, value: float, periods: int) -> str:
    return f"{_WIDTH * number / max(1, periods - 1):.1f},{_HEIGHT * (1 - value):.1f}"
