"""`rag-eval-hooks evaluate`: evaluates the answers of a data set or of a pipeline."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.cli.arguments import UNSCORED, UsageError
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts
from rag_eval_hooks.datasets.data_rows import count_rows, data_rows
from rag_eval_hooks.datasets.run import DatasetRun, asking, named_object, run_dataset
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.judges import choose_embedder, choose_judge
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.results import failed_conditions, read, summarise
from rag_eval_hooks.results.read import without_texts

_TERMINAL_S: Final = 0.5
_REPLIES: Final = 200_000  # maximum number of replies on disk
_FILE_S: Final = 10.0  # seconds between progress lines if the output is not a terminal


def run(arguments: argparse.Namespace) -> int:
    data: Path = arguments.data
    if not data.exists():
        raise UsageError(f"There is no file or folder {data}.")
    place = data if data.name else data.resolve()
    # Data files that differ only in the extension get different results files.
    name = place.stem if place.suffix == ".jsonl" else place.name
    output = arguments.output or place.with_name(f"{name}.results.jsonl")
    config = _config(arguments)
    rows = itertools.islice(data_rows(data, dict(arguments.map)), arguments.limit)
    pipeline = None if arguments.chain is None else named_object(arguments.chain)
    run = DatasetRun(output, is_asked=pipeline is not None)
    gates = (*arguments.fail_on, *arguments.fail_on_point)
    run.metric_limits = [("fail-on", one.metric, one.limit) for one in gates]
    # In a fleet, only the workers write to the configured sinks.
    parts: dict[str, Any] = {"sinks": [run, *(() if arguments.workers else config.sinks)]}
    if config.judge.startswith("openai:") and not arguments.workers:
        # Replies on disk make a repeated command cheaper.
        memo = Memo(output.with_name(f"{output.name}.replies"), size=_REPLIES)
        parts |= {"judge": choose_judge(config, memo=memo), "embedder": choose_embedder(config)}
    started = time.monotonic()
    with (
        RagEval(config=config, **parts) as evals,
        nullcontext() if pipeline is None else asking(pipeline, evals) as ask,
    ):
        shown = _progress(arguments.limit or count_rows(data))
        run_dataset(rows, evals, run, ask=ask, concurrency=arguments.concurrency, progress=shown)
    if not run.started + run.resumed + run.unreadable:
        raise UsageError(f"{data} has no rows. Add at least one row.")
    _print_end(run, output, time.monotonic() - started)
    if run.unanswered:
        kinds = ", ".join(sorted(run.returned))
        told = f"{run.unanswered} rows have no answer: {arguments.chain} returned {kinds}"
        print(f"  {told}. The pipeline must return the answer's text.", file=sys.stderr)
    failures = _failures(output, arguments)
    for failure in failures:
        print(f"FAILED {failure}")
    if failures or run.failed or run.partial or run.unreadable or run.unanswered:
        return 1
    return UNSCORED if run.unscored else 0


def _config(arguments: argparse.Namespace) -> RagEvalConfig:
    given = {"metrics": arguments.metrics, "judge": arguments.judge, "run_on": arguments.workers}
    chosen = given_texts(RagEvalConfig, {k: v for k, v in given.items() if v is not None})
    # Every row counts, so sampling is off.
    every: dict[str, Any] = {"sample_rate": 1.0, "rules": (), "rate_limit": {}}
    return RagEvalConfig(**every, **chosen)


def _failures(output: Path, arguments: argparse.Namespace) -> list[str]:
    conditions, points = arguments.fail_on, arguments.fail_on_point
    if not (conditions or points) or not output.exists():
        return []
    whole = summarise(map(without_texts, read(output)))[None]
    return failed_conditions(conditions, whole.metrics, by_point=points)


def _print_end(run: DatasetRun, output: Path, seconds: float) -> None:
    rate = run.evaluated / seconds if seconds else 0.0
    told = {
        f"{run.evaluated} rows were evaluated in {seconds:.1f} s ({rate:.0f} a second)": True,
        f"{run.resumed} rows were already in the file": run.resumed,
        f"{run.unreadable} rows were unreadable": run.unreadable,
        f"{run.failed} rows failed": run.failed,
        f"the judge cost {run.usage.cost or 0.0:.4f}": run.usage.cost is not None,
        f"{run.partial} rows lack a score, because a metric failed. To score these rows, run the "
        "command again": run.partial,
    }
    print(f"{output}: {', '.join(text for text, shown in told.items() if shown)}")
    unscored = (f"{metric} has no score: {why}" for metric, why in run.unscored.items())
    for error in (*unscored, *run.errors):
        print(f"  {error}", file=sys.stderr)
    if run.resumed and not (run.evaluated or run.failed):
        print(f"  All rows are in {output}. To evaluate the rows again, remove this file.")
    if run.evaluated or run.resumed:
        print(f"to see the scores: rag-eval-hooks report {output} -o report.html")


def _progress(total: int | None) -> Callable[[DatasetRun], None]:
    is_terminal, started = sys.stderr.isatty(), time.monotonic()
    pause, end = (_TERMINAL_S, "\x1b[K\r") if is_terminal else (_FILE_S, "\n")
    due = started + pause

    def show(run: DatasetRun) -> None:
        nonlocal due
        if (now := time.monotonic()) < due:
            return
        due = now + pause
        done, rate = run.evaluated + run.resumed + run.unreadable, run.evaluated / (now - started)
        parts = [f"{done}{f' of {total}' if total and rate else ''} rows", f"{rate:.0f} a second"]
        parts += [f"{max(0, total - done) / rate:.0f} s left"] if total and rate else []
        parts += [] if run.usage.cost is None else [f"cost {run.usage.cost:.4f}"]
        print(", ".join(parts), end=end, file=sys.stderr, flush=True)

    return show
