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
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.conformance.archives import SUITES, Suite, environment, unpacked

HERE: Final = Path(__file__).parent
MODES: Final = ("instrumentor", "hook")
# Never sent anywhere: without these, an account of the developer's would trace the tests.
TRACING: Final = ("LANGCHAIN_", "LANGSMITH_", "RAG_EVAL_", "OTEL_")


@dataclass
class Run:
    """One run of a suite: outcome by test, statistics and warnings of ours."""

    seconds: float
    outcomes: dict[str, str]
    warnings: list[str]
    books: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> set[str]:
        """Ids of the tests that passed."""
        return {test for test, outcome in self.outcomes.items() if outcome == "passed"}


def run(suite: Suite, source: Path, python: Path, mode: str, only: Sequence[str] = ()) -> Run:
    """Run a suite's tests, or some files of it, under one way of capturing."""
    report = source.parent / f"{mode}.json"
    report.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(TRACING)}
    env |= {"PYTHONPATH": str(HERE), "NO_DOCKER": "true", "LANGGRAPH_TEST_FAST": "1"}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "capture_plugin"]
    command += [
        "--continue-on-collection-errors",
        f"--captured-by={mode}",
        f"--capture-report={report}",
        *(only or (suite.tests,)),
    ]
    if not suite.sockets:
        command += ["--disable-socket", "--allow-unix-socket", "--benchmark-disable"]
    log = source.parent / f"{mode}.log"
    began = time.monotonic()
    with log.open("w") as output:
        subprocess.run(command, cwd=source, env=env, stdout=output, stderr=output, check=False)
    if not report.exists():
        raise SystemExit(f"{suite.name}: pytest wrote no report, see {log}")
    return Run(seconds=time.monotonic() - began, **json.loads(report.read_text()))


def differences(suite: Suite, mode: str, without: Run, with_capture: Run) -> list[str]:
    """Return what differs and is not allowed, and what is allowed but does not differ."""
    books = with_capture.books
    lost = [f"passes without us: {test}" for test in without.passed - with_capture.passed]
    incidents = [f"incident: {kind}" for kind in books["incidents"]]
    warned = [f"warning of ours: {text}" for text in with_capture.warnings]
    columns = [books["scored"], books["sampled_out"], books["pending"]]
    columns += [*books["dropped"].values(), *books["failed"].values()]
    sums = [] if sum(columns) == books["offered"] else [f"statistics do not add up: {books}"]
    lists = tomllib.loads((HERE / "allowed.toml").read_text())
    allowed, hints = lists.get(suite.name, {}), lists.get(mode, {})
    none = [] if without.passed else ["no test passes without us: see nothing.log"]
    differing = {*lost, *incidents, *warned, *sums, *none}
    known = (*allowed, *hints)
    new = sorted(text for text in differing if not text.startswith(known))
    vain = [start for start in allowed if not any(text.startswith(start) for text in differing)]
    found = [*new, *(f"allowed, but does not differ: {start}" for start in vain)]
    return [f"{suite.name} ({mode}): {text}" for text in found]


def confirmed(suite: Suite, source: Path, python: Path, runs: dict[str, Run]) -> None:
    """Run the files of differences again, and let what comes out once only be no difference."""
    for mode in MODES:
        lost = runs["nothing"].passed - runs[mode].passed
        if not lost:
            continue
        files = sorted({test.split("::")[0] for test in lost})
        again = {way: run(suite, source, python, way, files) for way in ("nothing", mode)}
        for test in lost - (again["nothing"].passed - again[mode].passed):
            runs[mode].outcomes[test] = "passed"


def compare(suite: Suite, *, newest: bool, jobs: int) -> list[str]:
    """Run one suite all ways, print its row, and return the differences."""
    try:
        source = unpacked(suite, newest=newest)
        python = environment(suite, source, newest=newest)
    except subprocess.CalledProcessError as error:
        reasons = [line for line in (error.stderr or "").splitlines() if line.startswith("ERROR")]
        why = reasons[-1] if reasons else " ".join(map(str, error.cmd))
        return [f"{suite.name}: cannot be installed: {why}"]
    ways = ("nothing", *MODES)
    with ThreadPoolExecutor(jobs) as pool:
        done = pool.map(lambda mode: run(suite, source, python, mode), ways)
        runs = dict(zip(ways, done, strict=True))
    confirmed(suite, source, python, runs)
    for mode in MODES:
        row(source.name, mode, runs["nothing"], runs[mode])
    return [
        text for mode in MODES for text in differences(suite, mode, runs["nothing"], runs[mode])
    ]


def row(name: str, mode: str, without: Run, with_capture: Run) -> None:
    """Print what a suite gave without and with capture."""
    cells = [name, mode, len(without.passed), len(with_capture.passed)]
    cells += [with_capture.books["offered"], sum(with_capture.books["incidents"].values())]
    cells += [f"{without.seconds:.0f}", f"{with_capture.seconds:.0f}"]
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def main() -> int:
    """Compare the chosen suites; return 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("suites", nargs="*", help="names of packages; all without")
    parser.add_argument("--newest", action="store_true", help="newest versions, not the pinned")
    parser.add_argument("--jobs", type=int, default=1, help="runs of one suite side by side")
    options = parser.parse_args()
    by_name = {suite.name: suite for suite in SUITES}
    if unknown := set(options.suites) - set(by_name):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(by_name)}")
    print("| suite | capture by | passed without | passed with | requests | incidents ", end="")
    print("| seconds without | with |\n|---|---|---|---|---|---|---|---|")
    chosen = [by_name[name] for name in options.suites or by_name]
    found: list[str] = []
    for suite in chosen:
        found += compare(suite, newest=options.newest, jobs=options.jobs)
    print("\n".join(found) or "Nothing differs.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
