"""`rag-eval-hooks evaluate`: evaluates a data set, or a pipeline on its questions."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import at_least
from rag_eval_hooks.datasets.data_rows import COLUMNS, count_rows, data_rows
from rag_eval_hooks.model_providers import JUDGES

if TYPE_CHECKING:
    from rag_eval_hooks.config.settings import RagEvalConfig
    from rag_eval_hooks.datasets.run import DatasetRun
    from rag_eval_hooks.delivery import SinkSpec
    from rag_eval_hooks.judges import Judge

__all__ = ["register"]

_PATIENCE_S = 86_400.0
"""Seconds to wait for a row that workers evaluate."""
_EVERY_S = 10.0
"""Seconds between two lines where the output is no terminal."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "evaluate",
        help="evaluate a data set, or a pipeline on its questions",
        description="Evaluates a data set, or a pipeline on its questions. Exit code 1 where a row "
        "failed.",
    )
    parser.add_argument(
        "data", type=Path, help="JSON lines, CSV or Parquet, or a folder of Hugging Face datasets"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="results, appended; rows that it has are left out (default: <data>.results.jsonl)",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help=f"column of {', '.join(COLUMNS)} (repeatable)",
    )
    parser.add_argument(
        "--chain", metavar="MODULE:OBJECT", help="ask this pipeline instead of reading answers"
    )
    parser.add_argument(
        "--concurrency",
        type=at_least(1),
        default=4,
        metavar="N",
        help="questions at once (default: 4)",
    )
    parser.add_argument("--limit", type=at_least(1), metavar="N", help="the first N rows only")
    parser.add_argument("--metrics", metavar="IDS", help="suites or metrics, by commas")
    parser.add_argument("--judge", help=JUDGES.wanted)
    parser.add_argument(
        "--workers", choices=("celery",), help="let the workers of a fleet evaluate the rows"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.datasets.chain import asking, named_object
    from rag_eval_hooks.datasets.run import RunSink, rows_done, run_dataset
    from rag_eval_hooks.evals import RagEval

    data: Path = arguments.data
    if not data.exists():
        raise UsageError(f"{data}: no such file or folder")
    output = arguments.output or data.with_name(f"{data.stem}.results.jsonl")
    config = _config(arguments)
    rows = itertools.islice(data_rows(data, _mapped(arguments.map)), arguments.limit)
    pipeline = None if arguments.chain is None else named_object(arguments.chain)
    sink = RunSink(output)
    # The sinks of the settings are the workers', if there are any.
    sinks: list[SinkSpec] = [sink, *(config.sinks if arguments.workers is None else ())]
    total = arguments.limit or count_rows(data)
    judge = None if arguments.workers else _judge(config, output)
    started = time.monotonic()
    with (
        RagEval(sinks=sinks, config=config, judge=judge) as evals,
        _progress(total) as progress,
        nullcontext() if pipeline is None else asking(pipeline, evals) as ask,
    ):
        run = run_dataset(
            rows,
            evals,
            sink,
            done=rows_done(output),
            ask=ask,
            concurrency=arguments.concurrency,
            progress=progress,
        )
    _print_end(run, output, time.monotonic() - started)
    return 1 if run.failed or run.partial or run.unreadable else 0


def _config(arguments: argparse.Namespace) -> RagEvalConfig:
    from rag_eval_hooks.config.settings import RagEvalConfig

    given: dict[str, Any] = {"metrics": arguments.metrics, "judge": arguments.judge}
    chosen = {name: value for name, value in given.items() if value is not None}
    # Every row counts, whatever is drawn of live traffic.
    every: dict[str, Any] = {"sample_rate": 1.0, "rules": (), "rate_limit": {}}
    if arguments.workers is not None:
        every |= {"evaluator": arguments.workers, "results": "return", "hold_timeout": _PATIENCE_S}
    return RagEvalConfig(**every, **chosen)


def _judge(config: RagEvalConfig, output: Path) -> Judge | None:
    """Return a judge that remembers its replies on disk, so that none is paid for twice."""
    name, _, model = config.judge.partition(":")
    if name != "openai":
        return None
    from rag_eval_hooks.judges.choose import openai_judge
    from rag_eval_hooks.judges.memo import Memo

    memo = Memo(output.with_name(f"{output.name}.replies"))
    return openai_judge(config, model, None, memo=memo)


def _mapped(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for (field, sign, column), text in zip(pairs, texts, strict=True):
        if not (field and sign and column):
            raise UsageError(f"--map: got {text!r}; wants FIELD=COLUMN")
    return {field: column for field, _, column in pairs}


def _print_end(run: DatasetRun, output: Path, seconds: float) -> None:
    rate = run.evaluated / seconds if seconds else 0.0
    parts = [f"{run.evaluated} rows evaluated in {seconds:.1f} s ({rate:.0f} a second)"]
    if run.resumed:
        parts.append(f"{run.resumed} were there already")
    if run.unreadable:
        parts.append(f"{run.unreadable} cannot be read")
    if run.failed:
        parts.append(f"{run.failed} failed")
    if run.partial:
        parts.append(f"{run.partial} lack a score because a metric failed: run this again")
    if run.usage.cost is not None:
        parts.append(f"cost {run.usage.cost:.4f}")
    print(f"{output}: {', '.join(parts)}")
    for error in run.errors:
        print(f"  {error}", file=sys.stderr)
    if run.evaluated or run.resumed:
        print(f"see them: rag-eval-hooks report {output} -o report.html")


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[DatasetRun], None]]:
    """Give a function that shows counts: a bar in a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _LinePrinter(total).show
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, rate="", cost="")
        started = time.monotonic()

        def show(run: DatasetRun) -> None:
            rate = run.evaluated / max(1e-9, time.monotonic() - started)
            cost = "" if run.usage.cost is None else f"cost {run.usage.cost:.4f}"
            bar.update(
                task,
                completed=run.evaluated + run.resumed + run.unreadable,
                rate=f"{rate:.0f}/s",
                cost=cost,
            )

        yield show


class _LinePrinter:
    def __init__(self, total: int | None) -> None:
        self._total = "" if total is None else f" of {total}"
        self._started = self._shown = time.monotonic()

    def show(self, run: DatasetRun) -> None:
        now = time.monotonic()
        if now - self._shown < _EVERY_S:
            return
        self._shown = now
        rate = run.evaluated / (now - self._started)
        cost = "" if run.usage.cost is None else f", cost {run.usage.cost:.4f}"
        done = run.evaluated + run.resumed
        print(f"{done}{self._total} rows, {rate:.0f} a second{cost}", file=sys.stderr)
