"""The report in a real browser: narrow and wide, light and dark, by keyboard and mouse."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.calls import Usage
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import read
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import Cause
from tests.support.optional import require
from tests.support.results import evaluation, write_results
from tests.viewers.browser import page, screenshot

require("playwright", "jinja2")

if TYPE_CHECKING:
    from playwright.sync_api import Page

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
TEXTS = (
    "When does the first ferry leave, and may I take my dog along? " * 4,
    "第一班渡轮几点开可以带狗吗" * 12,
    "متى تغادر العبارة الأولى وهل يمكنني اصطحاب كلبي " * 6,
    "W" * 500,
    "<script>document.title = 'broken'</script>",
    "short",
)
QUOTE = "leaves at 06:40"


def row_of(number: int, metrics: int, chance: random.Random) -> Evaluation:
    text = chance.choice(TEXTS)
    values = [chance.random() for _ in range(metrics)]
    claims = [
        {"claim": text[:80], "verdict": verdict, "quote": QUOTE, "chunks": [2]}
        for verdict in ("supported", "contradicted", "not_stated", "unsure")
    ]
    scored = {
        "ragas.faithfulness" if not k else f"suite.a_metric_with_a_long_name_{k}": Score(
            value=value,
            normalized=value,
            label=None if k else chance.choice(["CORRECT", "WRONG"]),
            explanation={} if k else {"claims": claims},
            usage=Usage(1, 100, 10, 0.001),
        )
        for k, value in enumerate(values)
    }
    sample = Sample(
        question=f"{text} {number}",
        contexts=(Context(text=text * 3), Context(text=f"The first ferry {QUOTE} every day.")),
        answer=text,
        metadata={"method": chance.choice(["local", "混合", "بحث"])},
        ended_at=1_770_000_000_000_000_000 + number * 10**12,
    )
    return evaluation(sample, scored | {"suite.absent": NotScored(Cause.TIMEOUT, text[:40])})


def report(folder: Path, samples: int, metrics: int) -> str:
    from rag_eval_hooks.results.render import as_html
    from rag_eval_hooks.results.report import ResultReport

    chance = random.Random(SEED)
    made = (row_of(number, metrics, chance) for number in range(samples))
    rows = list(read(write_results(folder / "r.jsonl", made)))
    labels = {(row.sample.sample_id, "ragas.faithfulness"): 1.0 for row in rows[:9]}
    out = folder / "report.html"
    out.write_text(as_html(ResultReport(rows, labels=labels)), encoding="utf-8", errors="replace")
    return out.as_uri()


def axe() -> str | None:
    path = Path(os.environ.get("RAGEVAL_AXE", "node_modules/axe-core/axe.min.js"))
    return path.read_text("utf-8") if path.is_file() else None


@pytest.mark.parametrize(
    ("width", "scheme", "metrics"),
    [(390, "light", 30), (390, "dark", 1), (1600, "light", 1), (1600, "dark", 30)],
)
def test_the_page_is_fit_to_show(tmp_path: Path, width: int, scheme: str, metrics: int) -> None:
    source = axe()
    if source is None:
        pytest.skip("axe-core is not installed: npm install axe-core")
    with page() as opened:
        opened.set_viewport_size({"width": width, "height": 900})
        opened.emulate_media(color_scheme=scheme)
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("console", lambda message: errors.append(message.text))
        # Before the page sets its policy, so that the policy does not keep the checker out.
        opened.add_init_script(source)
        opened.goto(report(tmp_path, 20, metrics))
        opened.locator("#list button.row").first.click()
        opened.wait_for_selector(".detail")
        opened.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tags = ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]
        found = opened.evaluate(f"axe.run(document, {{runOnly: {json.dumps(tags)}}})")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
        assert errors == []
        assert opened.title() == "RAG evaluation"
        screenshot(opened, f"report-{scheme}-{width}-{metrics}", tmp_path)


def test_the_page_works_by_keyboard(tmp_path: Path) -> None:
    """Search, open a sample, go from a claim to its quote: without a mouse."""
    with page() as opened:
        opened.goto(report(tmp_path, 120, 2))
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.className") == "skip"
        opened.keyboard.press("Enter")
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.id") == "search"
        opened.keyboard.type("ferry leave")
        shown = opened.locator("#list button.row")
        assert all("ferry" in text for text in shown.all_inner_texts())
        for _ in range(3):
            opened.keyboard.press("Tab")
        opened.keyboard.press("Enter")
        opened.wait_for_selector(".detail")
        assert shown.first.get_attribute("aria-expanded") == "true"
        _tab_to(opened, "Chunk 2")
        opened.keyboard.press("Enter")
        lit = opened.locator(".chunk.lit")
        assert lit.locator("mark").inner_text() == QUOTE
        assert opened.evaluate("document.activeElement.className").startswith("chunk")


def _tab_to(opened: Page, text: str) -> None:
    for _ in range(20):
        if opened.evaluate("document.activeElement.textContent") == text:
            return
        opened.keyboard.press("Tab")
    raise AssertionError(f"no way to {text!r} by Tab")


def test_pages_and_ranking_by_mouse(tmp_path: Path) -> None:
    with page() as opened:
        opened.goto(report(tmp_path, 120, 3))
        assert opened.locator("#list > li").count() == 50
        opened.select_option("#rank", label="suite.a_metric_with_a_long_name_1")
        values = [*map(float, opened.locator("#list .chip").all_inner_texts())]
        while not opened.locator("#next").is_disabled():
            opened.click("#next")
            values += map(float, opened.locator("#list .chip").all_inner_texts())
        assert len(values) == 120
        assert values == sorted(values)
