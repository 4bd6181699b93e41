"""Draw the report for docs/images, from the demo's passages and questions.

    python -m docs.report_images [--keep FOLDER]

The report compares two retrieval methods over a week. The heuristic judge scores the answers. The
model sometimes errs, and errs less often after a release. Needs the extra `report`, playwright and
Debian's Chromium.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from examples.demo.handbook import QUESTIONS, Question, nearest
from rag_eval_hooks import JsonlSink, RagEval, Sample
from rag_eval_hooks.cli.main import main as command
from rag_eval_hooks.sample import Context

IMAGES = Path(__file__).parent / "images"
METRICS = [
    "ragas.faithfulness",
    "ragas.context_precision",
    "ragas.context_recall",
    "ragas.noise_sensitivity",
    "graphrag.answer_class",
    "lexical.keyword_coverage",
    "lexical.number_match",
]
BEGIN, DAYS, RELEASE = 1_788_000_000, 7, 4


def samples() -> Iterator[Sample]:
    """Yield a week's requests. Each question occurs twice a day."""
    chance = random.Random(7)
    for day in range(DAYS):
        for method in ("vector", "hybrid"):
            for one in QUESTIONS:
                yield _sample(one, day, method, chance)


def _sample(one: Question, day: int, method: str, chance: random.Random) -> Sample:
    release = "2.4" if day >= RELEASE else "2.3"
    is_wrong = chance.random() < (0.3 if release == "2.3" else 0.1)
    # A vector index of few dimensions misses the passage now and then.
    begin = 1 if method == "vector" and chance.random() < 0.25 else 0
    texts = nearest(one.question, 4)[begin : begin + (3 if method == "hybrid" else 2)]
    return Sample(
        question=one.question,
        contexts=tuple(Context(text=text) for text in texts),
        answer=chance.choice(QUESTIONS).answer if is_wrong else one.answer,
        reference=one.reference,
        latency=chance.uniform(0.4, 2.5),
        metadata={"retrieval": method, "release": release},
        ended_at=(BEGIN + day * 86_400 + chance.randrange(60_000)) * 1_000_000_000,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="results and page, too")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results, page = folder / "results.jsonl", folder / "report.html"
        results.unlink(missing_ok=True)
        thresholds = {"ragas.faithfulness": 0.8}
        sinks = [JsonlSink(results)]
        with RagEval(METRICS, "heuristic", sinks=sinks, thresholds=thresholds) as evals:
            for sample in samples():
                evals.submit(sample)
            evals.flush()
        command(["report", str(results), "-o", str(page)])
        _pictures(page, arguments.chromium)


def _pictures(path: Path, chromium: str) -> None:
    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="light")
        page.goto(path.as_uri())
        page.screenshot(path=IMAGES / "report.png")
        page = browser.new_page(viewport={"width": 1200, "height": 760}, color_scheme="dark")
        page.goto(path.as_uri())
        page.locator("#list button.row").first.click()
        page.wait_for_selector(".detail")
        page.locator("#samples").scroll_into_view_if_needed()
        page.evaluate("document.querySelector('#samples').scrollIntoView()")
        page.screenshot(path=IMAGES / "report-sample.png")
        browser.close()


if __name__ == "__main__":
    main()
