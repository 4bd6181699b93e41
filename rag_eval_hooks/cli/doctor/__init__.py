"""`rag-eval-hooks doctor`: checks everything that evaluation needs, and explains traces."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import url
from rag_eval_hooks.cli.doctor.check_environment import (
    check_clock,
    check_exporter,
    check_extras,
    check_python,
)
from rag_eval_hooks.cli.doctor.check_models import check_embedder, check_judge, check_token_scorer
from rag_eval_hooks.cli.doctor.check_settings import (
    check_budget,
    check_metrics,
    check_prices,
    check_redaction,
    check_references,
    check_sampling,
    check_sinks,
)
from rag_eval_hooks.cli.doctor.check_waiting import check_fleet, check_spool_files
from rag_eval_hooks.cli.doctor.check_zero_code import check_zero_code
from rag_eval_hooks.cli.doctor.explain_trace import explain_trace
from rag_eval_hooks.cli.doctor.result import Check, CheckResult, CheckStatus, Setup, advice_for
from rag_eval_hooks.cli.doctor_capture import show_capture
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts, merged, otlp_endpoint, traces_at
from rag_eval_hooks.errors import ConfigError, RedactionError, masked

__all__ = ["register"]

_DESCRIPTION: Final = """\
Checks settings, packages, judge, embedder, token scorer, the receiver of spans, sinks, spool,
golden questions, budget, redaction and clock, by small real calls. The exit code is 0 when nothing
has failed, 1 when something has. With --trace it says instead why a trace has no score, with
--capture what is captured of a question to a pipeline."""

_CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("versions", check_python),
    ("extras", check_extras),
    ("metrics", check_metrics),
    ("sampling", check_sampling),
    ("judge_prices", check_prices),
    ("redaction", check_redaction),
    ("judge", check_judge),
    ("embedder", check_embedder),
    ("token scorer", check_token_scorer),
    ("exporter", check_exporter),
    ("zero-code", check_zero_code),
    ("sinks", check_sinks),
    ("spool", check_spool_files),
    ("references", check_references),
    ("budget", check_budget),
    ("clock", check_clock),
    ("fleet", check_fleet),
)
"""Checks in their order. To add one: a function, and a line here."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "doctor", help="check the installation and explain traces", description=_DESCRIPTION
    )
    parser.add_argument("--trace", metavar="ID", help="why has this trace no score?")
    parser.add_argument(
        "--spans", metavar="FILE", type=Path, help="OTLP/JSON lines to look the trace up in"
    )
    parser.add_argument(
        "--capture", metavar="MODULE:OBJECT", help="show what is captured of this pipeline"
    )
    parser.add_argument("--question", metavar="TEXT", help="asked with --capture")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting; repeatable"
    )
    parser.add_argument(
        "--otlp-endpoint",
        type=url,
        metavar="URL",
        help="receiver of spans, such as http://localhost:4318",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=15.0, help="seconds a call (default: 15)"
    )
    parser.add_argument("--fleet", action="store_true", help="check broker and workers alone")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.capture is not None:
        given = dict(_pairs(arguments.set))
        return show_capture(arguments.capture, arguments.question, given, as_json=arguments.json)
    settings: list[dict[str, Any]] = []
    try:
        setup = _setup(arguments)
    except ConfigError as error:
        results: Iterable[CheckResult] = [_failure("settings", error)]
    else:
        settings = [*_settings(setup.config, setup.origins)]
        trace = arguments.trace
        checks = [one for one in _CHECKS if one[0] == "fleet" or not arguments.fleet]
        results = _run_checks(setup, checks)
        if trace is not None:
            results = explain_trace(setup, trace.strip())
    shown = _as_json(results, settings) if arguments.json else _as_lines(results, settings)
    if arguments.trace is not None and settings:
        return 0
    return int(any(result.status is CheckStatus.FAILED for result in shown))


def _setup(arguments: argparse.Namespace) -> Setup:
    if arguments.spans is not None and not arguments.spans.is_file():
        raise UsageError(f"--spans: {arguments.spans} is no file")
    if not 0 < arguments.timeout < 3600:
        raise UsageError(f"--timeout: got {arguments.timeout}; wants seconds, above 0")
    given = given_texts(RagEvalConfig, dict(_pairs(arguments.set)))
    base = arguments.otlp_endpoint
    return Setup(
        config=RagEvalConfig(**given),
        origins=merged(RagEvalConfig, given)[1],
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


def _run_checks(setup: Setup, checks: Iterable[tuple[str, Check]]) -> Iterator[CheckResult]:
    """Yield the results of checks; after one that raises, the others still run."""
    for name, check in checks:
        try:
            for result in check(setup):
                yield result if result.check else replace(result, check=name)
        except (ConfigError, ImportError, RedactionError) as error:
            yield _failure(name, error)
        except Exception as error:  # noqa: BLE001 - a check runs the user's models and files
            text = f"the check ended with {type(error).__name__}"
            yield CheckResult(CheckStatus.FAILED, text, "report this", check=name)


def _failure(check: str, error: Exception) -> CheckResult:
    return CheckResult(CheckStatus.FAILED, str(error), advice_for(error), check=check)


def _settings(config: RagEvalConfig, origins: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield name, value and source of each setting; secrets are masked."""
    for name in RagEvalConfig.model_fields:
        value = _printable(getattr(config, name))
        yield {"name": name, "value": value, "source": origins.get(name, "default")}


def _printable(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "**********"
    if isinstance(value, str):
        # A sink refuses an address with a key in it, but it is printed here before that.
        return masked(value)
    if isinstance(value, Mapping):
        return {key: _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, tuple | list) else value


def _as_json(results: Iterable[CheckResult], settings: list[dict[str, Any]]) -> list[CheckResult]:
    complete = [*results]
    rows = [asdict(replace(result, figures=dict(result.figures))) for result in complete]
    good = not any(result.status is CheckStatus.FAILED for result in complete)
    print(json.dumps({"ok": good, "results": rows, "settings": settings}, indent=2, default=dict))
    return complete


def _as_lines(results: Iterable[CheckResult], settings: list[dict[str, Any]]) -> list[CheckResult]:
    print("Settings")
    width = max((len(row["name"]) for row in settings), default=0)
    for row in settings:
        print(f"  {row['name'].ljust(width)}  {row['value']}  ({row['source']})")
    print("\nChecks")
    shown: list[CheckResult] = []
    for result in results:
        shown.append(result)
        print(f"  {result.status.value.ljust(7)}  {result.check}: {result.text}", flush=True)
        if result.advice:
            print(f"           -> {result.advice}")
    statuses = [result.status for result in shown]
    failed, warnings = statuses.count(CheckStatus.FAILED), statuses.count(CheckStatus.WARNING)
    print(f"\n{failed} failed, {warnings} warning{'' if warnings == 1 else 's'}")
    return shown
