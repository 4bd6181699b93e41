"""The subcommand: its arguments, the settings it goes by, and its exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.cli.doctor.checks import run_checks
from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.cli.doctor.settings import described
from rag_eval_hooks.cli.doctor.trace import explain_trace
from rag_eval_hooks.cli.errors import UsageError
from rag_eval_hooks.config.env_and_file import otlp_endpoint, traces_at
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError

__all__ = ["register"]

_DESCRIPTION: Final = """\
Checks settings, packages, judge, embedder, token scorer, the receiver of spans, sinks, spool,
golden questions, budget, redaction and clock, by small real calls. The exit code is 0 when nothing
has failed, 1 when something has. With --trace it tells instead why a trace has no score."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the subcommand."""
    parser = subparsers.add_parser(
        "doctor", help="check the installation and explain traces", description=_DESCRIPTION
    )
    parser.add_argument("--trace", metavar="ID", help="why has this trace no score?")
    parser.add_argument(
        "--spans", metavar="FILE", type=Path, help="OTLP/JSON lines to look the trace up in"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting; repeatable"
    )
    parser.add_argument(
        "--otlp-endpoint", metavar="URL", help="receiver of spans, such as http://localhost:4318"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=15.0, help="seconds a call (default: 15)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings: list[dict[str, Any]] = []
    try:
        setup = _setup(arguments)
    except ConfigError as error:
        results: Iterable[Result] = [_unusable(error)]
    else:
        settings = [*described(setup.config, setup.origins)]
        results = _results(setup, arguments)
    shown = _as_json(results, settings) if arguments.json else _as_lines(results, settings)
    if arguments.trace is not None and settings:
        return 0
    return int(any(result.status is Status.FAILED for result in shown))


def _results(setup: Setup, arguments: argparse.Namespace) -> Iterable[Result]:
    if arguments.trace is None:
        return run_checks(setup)
    return explain_trace(setup, arguments.trace.strip())


def _setup(arguments: argparse.Namespace) -> Setup:
    if arguments.spans is not None and not arguments.spans.is_file():
        raise UsageError(f"--spans: {arguments.spans} is no file")
    if not 0 < arguments.timeout < 3600:
        raise UsageError(f"--timeout: got {arguments.timeout}; wants seconds, above 0")
    config, origins = RagEvalConfig.load_with_origins(dict(_pairs(arguments.set)))
    base = arguments.otlp_endpoint
    return Setup(
        config=config,
        origins=origins,
        otlp_endpoint=traces_at(base) if base else otlp_endpoint(),
        timeout=arguments.timeout,
        spans=arguments.spans,
    )


def _pairs(given: Iterable[str]) -> Iterator[tuple[str, str]]:
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError("--set: wants NAME=VALUE")
        yield name.strip(), value


def _unusable(error: ConfigError) -> Result:
    advice = f"set {error.field}: {error.wants}"
    return Result(check="settings", status=Status.FAILED, text=str(error), advice=advice)


def _as_json(results: Iterable[Result], settings: list[dict[str, Any]]) -> list[Result]:
    made = [*results]
    rows = [{f.name: getattr(result, f.name) for f in fields(result)} for result in made]
    good = not any(result.status is Status.FAILED for result in made)
    print(json.dumps({"ok": good, "results": rows, "settings": settings}, indent=2, default=dict))
    return made


def _as_lines(results: Iterable[Result], settings: list[dict[str, Any]]) -> list[Result]:
    print("Settings")
    width = max((len(row["name"]) for row in settings), default=0)
    for row in settings:
        print(f"  {row['name'].ljust(width)}  {row['value']}  ({row['source']})")
    print("\nChecks")
    made: list[Result] = []
    for result in results:
        made.append(result)
        print(f"  {result.status.value.ljust(7)}  {result.check}: {result.text}", flush=True)
        if result.advice:
            print(f"           -> {result.advice}")
    failed, warnings = (
        sum(result.status is status for result in made)
        for status in (Status.FAILED, Status.WARNING)
    )
    print(f"\n{failed} failed, {warnings} warning{'' if warnings == 1 else 's'}")
    return made
