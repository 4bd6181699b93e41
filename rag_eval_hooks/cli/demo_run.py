"""Ask the questions, wait for the scores and check that nothing is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks import RagEval, setup_tracing
from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.framework import AskPipeline, Framework, PipelineSettings
from rag_eval_hooks.cli.results import ResultCollector
from rag_eval_hooks.cli.rows import Corpus, QuestionRow
from rag_eval_hooks.cli.viewer import SERVICE
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import SinkSpec
from rag_eval_hooks.delivery.backlog import RETRY
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.score import Cause, NotScored

if TYPE_CHECKING:
    from rag_eval_hooks import Stats
    from rag_eval_hooks.cli.demo_view import View

__all__ = ["Plan", "Report", "run_demo"]

_MOST_PENDING: Final = 32
"""Questions asked ahead of the scores; more would only make spans wait."""
_TICK: Final = 0.1
_GRACE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Arguments of one run of the demo.

    Attributes:
        corpus: Passages and questions.
        framework: Module that builds the pipeline.
        settings: Parts of the pipeline.
        config: Settings of the evaluation.
        output: Folder for the two files.
        otlp_endpoint: Receiver of spans besides the file, or None.
        console: Print the spans too.
        sinks: Destinations of scores besides the file, as in the setting.
    """

    corpus: Corpus
    framework: Framework
    settings: PipelineSettings
    config: RagEvalConfig
    output: Path
    otlp_endpoint: str | None = None
    console: bool = False
    sinks: tuple[str, ...] = ()

    @property
    def traces(self) -> Path:
        """File of the spans."""
        return self.output / "traces.jsonl"

    @property
    def results(self) -> Path:
        """File of the scores with their explanations."""
        return self.output / "results.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Results of one run.

    Attributes:
        results: Results by question id.
        stats: Statistics of the evaluator.
        problems: Failures, one sentence each.
        seconds: Wall time from the first question to the last score.
    """

    results: Mapping[str, ResultRow]
    stats: Stats
    problems: tuple[str, ...]
    seconds: float


def run_demo(plan: Plan, view: View) -> int:
    """Run the pipeline over all questions and show the results.

    Returns:
        0 when every question was answered and every sample scored, else 1.

    Raises:
        UsageError: The output folder cannot be written or a package is missing.
    """
    _prepare(plan)
    try:
        report = _traced(plan, view)
    except ImportError as error:
        # The text names the command that installs the package.
        raise UsageError(str(error)) from None
    view.report(plan, report)
    return 1 if report.problems else 0


def _traced(plan: Plan, view: View) -> Report:
    provider = setup_tracing(
        otlp_endpoint=plan.otlp_endpoint,
        console=plan.console,
        path=plan.traces,
        service_name=SERVICE,
    )
    results = ResultCollector()
    try:
        sinks: list[SinkSpec] = [results, f"jsonl:{plan.results}", *plan.sinks]
        with RagEval(sinks=sinks, config=plan.config) as evals:
            ask = plan.framework.build(evals, plan.corpus.passages, plan.settings)
            view.start(plan, results)
            return _ask_all(plan, evals, ask, results, view.tick)
    finally:
        view.stop()
        provider.shutdown()


def _prepare(plan: Plan) -> None:
    try:
        plan.output.mkdir(parents=True, exist_ok=True)
        for path in (plan.traces, plan.results):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"--output: {error}") from None


def _ask_all(
    plan: Plan, evals: RagEval, ask: AskPipeline, results: ResultCollector, tick: Callable[[], None]
) -> Report:
    started = time.monotonic()
    failures = []
    for row in plan.corpus.rows:
        _wait(evals, plan.config, _MOST_PENDING, tick)
        failure = _ask(ask, row)
        if failure is not None:
            failures.append(failure)
        tick()
    _wait(evals, plan.config, 1, tick)
    sent = evals.flush(_GRACE)
    tick()
    arrived, stats = results.snapshot(), evals.stats()
    problems = [*failures, *_unscored(plan.corpus, arrived), *_unbalanced(stats)]
    if not sent:
        problems.append(f"some scores were not sent within {_GRACE:g} s")
    return Report(
        results=arrived,
        stats=stats,
        problems=tuple(problems),
        seconds=time.monotonic() - started,
    )


def _ask(ask: AskPipeline, row: QuestionRow) -> str | None:
    """Ask one question, and return its failure or None."""
    metadata: dict[str, Any] = {"question_id": row.id}
    if row.reference is not None:
        metadata["reference"] = row.reference
    if row.labels:
        metadata["labels"] = dict(row.labels)
    try:
        ask(row.question, metadata)
    except Exception as error:  # noqa: BLE001 - one failing request must not end the host
        return f"{row.id}: the pipeline raised {type(error).__name__}"
    return None


def _wait(evals: RagEval, config: RagEvalConfig, fewer_than: int, tick: Callable[[], None]) -> None:
    """Wait until fewer samples are pending, or none was scored in the time that one may take."""
    pending = evals.stats().pending
    deadline = time.monotonic() + config.sample_timeout + _GRACE
    while pending >= fewer_than and time.monotonic() < deadline:
        tick()
        time.sleep(_TICK)
        now = evals.stats().pending
        if now < pending:
            deadline = time.monotonic() + config.sample_timeout + _GRACE
        pending = now


def _unscored(corpus: Corpus, results: Mapping[str, ResultRow]) -> list[str]:
    problems = []
    for row in corpus.rows:
        result = results.get(row.id)
        if result is None:
            problems.append(f"{row.id}: no result arrived")
        else:
            problems += [f"{row.id}: {text}" for text in _failed(result)]
    return problems


def _failed(result: ResultRow) -> list[str]:
    return [
        f"{metric} was not scored: {outcome.cause}"
        for metric, outcome in result.outcomes.items()
        if isinstance(outcome, NotScored) and outcome.cause.is_failure
    ]


def _unbalanced(stats: Stats) -> list[str]:
    """Report samples without a score for which some metric has a value."""
    undefined = sum(count for cause, count in stats.failed.items() if not Cause(cause).is_failure)
    accounted = stats.scored + stats.sampled_out + stats.pending
    accounted += sum(stats.dropped.values()) + sum(stats.failed.values())
    # A result that was sent again has arrived.
    faults = [kind for kind in stats.incidents if not kind.endswith(f": {RETRY}")]
    if accounted == stats.offered == stats.scored + undefined and not faults:
        return []
    return [f"of {stats.offered} samples offered, {stats.scored} were scored: {stats}"]
