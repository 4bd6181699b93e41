"""Size of the report's page and its time to first paint, over real or made samples.

    python -m benchmarks.report_page [--data FILE] [--screenshots FOLDER]

Evaluates the rows of a data set by the embedded judge, or reads results, and opens the page in
Debian's Chromium.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from rag_eval_hooks.cli.main import main as command

VIEWS = (("light", 1600, 1000), ("dark", 1600, 1000), ("light", 390, 844), ("dark", 390, 844))


def main() -> None:
    """Print size and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/open/ragtruth_qa.jsonl"))
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results, page = Path(folder, "results.jsonl"), Path(folder, "report.html")
        command(["evaluate", str(arguments.data), "-o", str(results), "--metrics", "ragas,lexical"])
        began = time.monotonic()
        command(["report", str(results), "-o", str(page)])
        print(f"made in {time.monotonic() - began:.1f} s, {page.stat().st_size / 1e6:.2f} MB")
        _open(page, arguments.chromium, arguments.screenshots)


def _open(path: Path, chromium: str, screenshots: Path | None) -> None:
    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        for scheme, width, height in VIEWS:
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page.goto(path.as_uri())
            paint = page.evaluate(
                "new Promise(done => new PerformanceObserver(list => done("
                "list.getEntriesByName('first-contentful-paint')[0]?.startTime))"
                ".observe({type: 'paint', buffered: true}))"
            )
            print(f"{scheme:5} {width:5}: first paint after {paint:.0f} ms")
            if screenshots is not None:
                screenshots.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=screenshots / f"report-{scheme}-{width}.png")
        browser.close()


if __name__ == "__main__":
    main()
