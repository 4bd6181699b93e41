"""Run the frameworks' own tests without and with capture; fail on any difference.

`make conformance` runs all suites at pinned versions, `SUITES=langchain-core` one of them,
`ARGS=--newest` the newest versions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.conformance.archives import SUITES, Suite, environment, unpacked

HERE: Final = Path(__file__).parent
# Never sent anywhere: without these, an account of the developer's would trace the tests.
TRACING: Final = ("LANGCHAIN_", "LANGSMITH_", "RAG_EVAL_", "OTEL_")


@dataclass
class Run:
    outcomes: dict[str, str]
    warnings: list[str]
    books: dict[str, int] = field(default_factory=dict)
    incidents: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> set[str]:
        return {test for test, outcome in self.outcomes.items() if outcome == "passed"}


def run(suite: Suite, python: Path, source: Path, *only: str, captured: bool) -> Run:
    name = "with" if captured else "without"
    report = source.parent / f"{name}.json"
    report.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(TRACING)}
    env |= {"PYTHONPATH": str(HERE), "NO_DOCKER": "true", "LANGGRAPH_TEST_FAST": "1"}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "capture_plugin"]
    command += ["--continue-on-collection-errors", f"--capture-report={report}"]
    command += ["--captured"] if captured else []
    if not suite.sockets:
        command += ["--disable-socket", "--allow-unix-socket", "--benchmark-disable"]
    log = source.parent / f"{name}.log"
    with log.open("w") as output:
        called = [*command, *(only or (suite.tests,))]
        subprocess.run(called, cwd=source, env=env, stdout=output, stderr=output, check=False)
    if not report.exists():
        raise SystemExit(f"{suite.name}: pytest wrote no report, see {log}")
    return Run(**json.loads(report.read_text()))


def differences(suite: Suite, without: Run, with_capture: Run, lost: set[str]) -> list[str]:
    books = with_capture.books
    differing = {f"passes without us: {test}" for test in lost}
    differing |= {f"incident: {kind}" for kind in with_capture.incidents}
    differing |= {f"warning of ours: {text}" for text in with_capture.warnings}
    if books["settled"] != books["offered"]:
        differing.add(f"statistics do not add up: {books}")
    if not without.passed:
        differing.add("no test passes without us: see without.log")
    allowed = tomllib.loads((HERE / "allowed.toml").read_text()).get(suite.name, {})
    new = sorted(text for text in differing if not text.startswith(tuple(allowed)))
    vain = [start for start in allowed if not any(text.startswith(start) for text in differing)]
    found = [*new, *(f"allowed, but does not differ: {start}" for start in vain)]
    return [f"{suite.name}: {text}" for text in found]


def compare(suite: Suite, *, newest: bool, jobs: int) -> list[str]:
    try:
        source = unpacked(suite, newest=newest)
        python = environment(suite, source, newest=newest)
    except subprocess.CalledProcessError as error:
        reasons = [line for line in (error.stderr or "").splitlines() if line.startswith("ERROR")]
        why = reasons[-1] if reasons else " ".join(map(str, error.cmd))
        return [f"{suite.name}: cannot be installed: {why}"]

    def both(*only: str) -> list[Run]:
        with ThreadPoolExecutor(jobs) as pool:
            ways = (False, True)
            return list(pool.map(lambda on: run(suite, python, source, *only, captured=on), ways))

    without, with_capture = both()
    lost = without.passed - with_capture.passed
    if lost:
        # What comes out once only is no difference.
        again = both(*sorted({test.split("::")[0] for test in lost}))
        lost &= again[0].passed - again[1].passed
    counts = [len(without.passed), len(with_capture.passed), with_capture.books["offered"]]
    cells = [source.name, *counts, sum(with_capture.incidents.values())]
    print("|", " | ".join(map(str, cells)), "|", flush=True)
    return differences(suite, without, with_capture, lost)


def main() -> int:
    """Compare the chosen suites; return 1 where anything differs."""
    by_name = {suite.name: suite for suite in SUITES}
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("suites", nargs="*", help="names of packages; all without")
    parser.add_argument("--newest", action="store_true", help="newest versions, not the pinned")
    parser.add_argument("--jobs", type=int, default=1, help="runs of one suite side by side")
    options = parser.parse_args()
    print("| suite | passed without | passed with | requests | incidents |\n|---|---|---|---|---|")
    chosen: Sequence[Suite] = [by_name[name] for name in options.suites or by_name]
    found = [text for s in chosen for text in compare(s, newest=options.newest, jobs=options.jobs)]
    print("\n".join(found) or "Nothing differs.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
