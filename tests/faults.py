"""Print the faults that reviews found in pipelines which others wrote, and run the tests of each.

    python -m tests.faults [REVIEW ...] [--apps] [--long]

A row has the class of shape, how it was before, the tests that hold it, and how many of their
cases pass now. `--apps` adds the rows of `make apps`, whose environments it makes. The tests under
`zero_code` need the environment of `make servers`. The exit status is 1 where anything fails or
has no case.
"""

from __future__ import annotations

import argparse
import random
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from tests.apps.__main__ import GROUPS, environment, rows_of

HERE: Final = Path(__file__).parent
Fault = Mapping[str, Any]


class Results:
    """Cases of the wanted tests alone, and how each ended; a plugin of pytest.

    Args:
        wanted: Names of tests, with a text of their cases in brackets or without.

    Attributes:
        outcomes: By case: `passed`, `failed` or `skipped`.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self.outcomes: dict[str, str] = {}
        self._wanted = frozenset(wanted)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out all other cases."""
        items[:] = [one for one in items if any(_is_of(one.nodeid, name) for name in self._wanted)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst of set-up, call and end."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome

    def of(self, names: Iterable[str]) -> list[str]:
        """Return how the cases of some tests ended."""
        wanted = list(names)
        known = self.outcomes.items()
        return [end for case, end in known if any(_is_of(case, name) for name in wanted)]


def faults() -> dict[str, dict[str, Fault]]:
    """Return the faults by review and name."""
    return tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))


def _is_of(case: str, name: str) -> bool:
    test, _, parameters = case.removeprefix("tests/").partition("[")
    wanted, _, part = name.removesuffix("]").partition("[")
    return test == wanted and part in parameters


def _run(chosen: Iterable[Fault], options: Sequence[str]) -> Results:
    names = {name for fault in chosen for name in fault["tests"]}
    results = Results(names)
    files = sorted({str(HERE / name.partition("::")[0]) for name in names})
    with redirect_stdout(sys.stderr):
        pytest.main(["-q", *options, *files], plugins=[results])
    return results


def _run_apps(seed: int) -> dict[str, list[str]]:
    ends = defaultdict(list)
    for group in GROUPS:
        for row in rows_of(group, environment(group, newest=False), seed):
            ends[row["name"]].append("failed" if row["wrong"] else "passed")
    return ends


def _now(ends: Sequence[str]) -> str:
    ran = [end for end in ends if end != "skipped"]
    skipped = f", {len(ends) - len(ran)} skipped" if len(ran) < len(ends) else ""
    return f"{ran.count('passed')} of {len(ran)}{skipped}"


def _row(name: str, fault: Fault, results: Results, apps: Mapping[str, list[str]]) -> bool:
    """Print a row, and return whether all that it names ran without a failure."""
    ends = [(test.rpartition("::")[2], results.of([test])) for test in fault["tests"]]
    ends += [(f"`make apps`: {app}", apps.get(app, [])) for app in fault.get("apps", []) if apps]
    held = "; ".join(test for test, _ in ends)
    after = "; ".join(_now(one) for _, one in ends)
    print(f"| {name} | {fault['shape']} | {fault['before']} | {held} | {after} |")
    return all(one and "failed" not in one for _, one in ends)


def main() -> int:
    """Print a table for each review."""
    known = faults()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("reviews", nargs="*", metavar="REVIEW", help=f"of {', '.join(known)}")
    parser.add_argument("--apps", action="store_true", help="run the applications, too")
    parser.add_argument("--long", action="store_true", help="run the tests at full size")
    options = parser.parse_args()
    if unknown := set(options.reviews) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    chosen = {name: known[name] for name in options.reviews or known}
    seed = random.randrange(10**6)
    apps = _run_apps(seed) if options.apps else {}
    every = [fault for review in chosen.values() for fault in review.values()]
    results = _run(every, ["--long"] if options.long else [])
    right = True
    for review, found in chosen.items():
        print(f"\n{review}\n\n| fault | class of shape | before | held by | now |")
        print("|---|---|---|---|---|")
        for name, fault in found.items():
            right &= _row(name, fault, results, apps)
    if apps:
        print(f"\nseed of the applications: {seed}")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
