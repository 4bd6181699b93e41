"""Run the frameworks' own tests without and with capture; fail on any difference."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
# Never sent anywhere: without these, an account of the developer's would trace the tests.
TRACING: Final = ("LANGCHAIN_", "LANGSMITH_", "RAG_EVAL_", "OTEL_")
ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / "build" / "conformance"


@dataclass(frozen=True)
class Suite:
    name: str
    version: str
    tests: str = "tests/unit_tests"
    sockets: bool = False


SUITES: Final = (
    Suite("langchain-core", "1.7.2"),
    Suite("langchain", "1.4.7"),
    Suite("langchain-classic", "1.0.8"),
    Suite("langgraph", "1.2.22", tests="tests", sockets=True),
)
PINNED: Final = [f"{suite.name}=={suite.version}" for suite in SUITES]


def unpacked(suite: Suite, *, newest: bool) -> Path:
    wanted = suite.name if newest else f"{suite.name}=={suite.version}"
    folder = CACHE / ("newest" if newest else "pinned") / suite.name
    if not (archives := list(folder.glob("*.tar.gz"))) or newest:
        for old in archives:
            old.unlink()
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps"]
        checked([*pip, "--no-binary", suite.name, "--dest", str(folder), wanted])
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def environment(suite: Suite, source: Path, *, newest: bool) -> Path:
    """Make a virtual environment for a suite, once, and return its Python.

    What the tests want has the version of their authors' lock file: snapshots depend on it.
    """
    venv = source.parent / "venv"
    python = venv / "bin" / "python"
    pins = source.parent / "constraints.txt"
    others = [] if newest else PINNED
    pins.write_text("\n".join([*locked(source, leave={s.name for s in SUITES}), *others]) + "\n")
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    done = venv / hashlib.sha256(f"{pins.read_text()}{ours}".encode()).hexdigest()
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq"]
        checked([*pip, "--upgrade", "pip"])
        wanted = [f"{suite.name}=={source.name.rsplit('-', 1)[1]}", "--group"]
        wanted += [f"{source / 'pyproject.toml'}:test", "--editable", f"{ROOT}[instrument]"]
        try:
            checked([*pip, "--no-compile", "--constraint", str(pins), *wanted])
        except subprocess.CalledProcessError:
            if not newest:
                raise
            # A lock file may name what an index does not have yet, or has no more.
            checked([*pip, "--no-compile", *wanted])
        done.touch()
    return python


def checked(command: list[str]) -> None:
    subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)


def locked(source: Path, leave: set[str]) -> list[str]:
    """Return the locked versions of the packages that the framework and its tests need."""
    project = tomllib.loads((source / "pyproject.toml").read_text())
    dependencies = names(project["project"]["dependencies"])
    wanted = names(project["dependency-groups"]["test"])
    wanted |= set() if dependencies & leave else dependencies
    lock = tomllib.loads((source / "uv.lock").read_text())
    found: dict[str, list[str]] = {}
    for package in lock["package"]:
        if "registry" in package["source"] and package["name"] in wanted - leave:
            found.setdefault(package["name"], []).append(package["version"])
    # Several versions depend on the Python that runs.
    return [f"{name}=={versions[0]}" for name, versions in found.items() if len(versions) == 1]


def names(requirements: Sequence[object]) -> set[str]:
    found = (re.match(r"[\w.-]+", text) for text in requirements if isinstance(text, str))
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


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
        # It fails on a busy machine, because it measures time.
        command += ["--ignore-glob=*test_benchmark.py"]
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
