"""Show a run of the demo: live on a terminal, line by line elsewhere, and a report at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rag_eval_hooks.cli.demo_tables import (
    ASCII_STYLE,
    UNICODE_STYLE,
    scores,
    summary,
    worst_sample,
)
from rag_eval_hooks.cli.results import FAITHFULNESS, ResultCollector
from rag_eval_hooks.cli.rows import Corpus
from rag_eval_hooks.cli.viewer import JAEGER
from rag_eval_hooks.results.ranking import worst
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.text_table import one_line
from rag_eval_hooks.score import Score

if TYPE_CHECKING:
    from rag_eval_hooks.cli.demo_run import Plan, Report

__all__ = ["View"]

_MOST_ROWS: Final = 40
"""Questions that a table of single scores is still readable for."""
_PIPED_WIDTH: Final = 120
_ADVICE: Final[Mapping[str, str]] = {
    "langchain": """\
from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler

chain.invoke(question, config={"callbacks": [RagEvalCallbackHandler(RagEval())]})""",
    "llama-index": """\
from rag_eval_hooks import RagEval
from rag_eval_hooks_llama_index import enable

evals = RagEval()
enable(evals)
query_engine.query(question)""",
}
"""Code by which an application of each framework is captured."""
_DEFAULT_FRAMEWORK: Final = "langchain"
_COMMAND: Final = "rag-eval-hooks demo"
_JAEGER_PAGE: Final = "and open http://localhost:16686"


class View:
    """Display of the demo on a terminal or in a file.

    Args:
        corpus: Passages and questions.
        plain: ASCII, no colours, no live display.
        live: Redraw scores in place on a terminal.
        framework: Name of the framework, as in the argument.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        plain: bool,
        live: bool,
        framework: str,
    ) -> None:
        self._corpus = corpus
        self._framework = framework.replace("_", "-")
        self._console = _console(plain)
        ascii_only = plain or not self._console.encoding.startswith("utf")
        self._style = ASCII_STYLE if ascii_only else UNICODE_STYLE
        self._redraw = live and not plain and self._console.is_terminal
        self._live: Live | None = None
        self._results = ResultCollector()
        self._printed = 0

    def start(self, plan: Plan, results: ResultCollector) -> None:
        """Print what is run, and begin the live display on a terminal."""
        self._results = results
        corpus, model = self._corpus, plan.settings.model or "extractive, quotes the passages"
        self._print(f"{corpus.name}: {len(corpus.passages)} passages, {len(corpus.rows)} questions")
        self._print(f"model: {model}; judge: {plan.config.judge}")
        if self._redraw:
            self._live = Live(get_renderable=self._progress, console=self._console, transient=True)
            self._live.start()

    def tick(self) -> None:
        """Print one line for each new result, unless scores are redrawn in place."""
        if self._live is not None:
            return
        arrived = list(self._results.snapshot().items())
        for number, (row_id, result) in enumerate(
            arrived[self._printed :], start=self._printed + 1
        ):
            self._print(f"scored {number}/{len(self._corpus.rows)}  {_line(row_id, result)}")
        self._printed = len(arrived)

    def stop(self) -> None:
        """End the live display."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def report(self, plan: Plan, report: Report) -> None:
        """Print scores, summary, worst sample, statistics, files and next steps."""
        self._print()
        if len(self._corpus.rows) <= _MOST_ROWS:
            self._show(self._scores(report.results))
        self._show(summary(report.results, self._style))
        self._report_worst(report)
        self._report_mistakes(report)
        self._report_accounts(plan, report)
        self._report_next(plan)
        for problem in report.problems:
            self._console.print(Text(f"problem: {one_line(problem, 300)}", style="bold red"))

    def _progress(self) -> RenderableType:
        results = self._results.snapshot()
        count = Text(f"scored {len(results)} of {len(self._corpus.rows)}", style="bold")
        if len(self._corpus.rows) <= _MOST_ROWS:
            return Group(self._scores(results), count)
        return Group(summary(results, self._style), count)

    def _scores(self, results: Mapping[str, ResultRow]) -> RenderableType:
        return scores(self._corpus.rows, results, self._style, self._console.width)

    def _report_worst(self, report: Report) -> None:
        result = next(iter(worst(report.results.values())), None)
        rows = {row.id: row for row in self._corpus.rows}
        row = rows.get(result.sample.question_id or "") if result else None
        if result is not None and row is not None:
            self._show(worst_sample(row, result, self._style))
            self._print()

    def _report_mistakes(self, report: Report) -> None:
        """Print the faithfulness of the answers that were made wrong, and of the others."""
        if not self._corpus.mistakes:
            return
        wrong = {row.id for row in self._corpus.rows if row.mistake and row.mistake.is_unfaithful}
        spoiled = _faithfulness(result for key, result in report.results.items() if key in wrong)
        others = _faithfulness(result for key, result in report.results.items() if key not in wrong)
        self._print(f"mean {FAITHFULNESS}: {spoiled} where the model was told to change what the")
        self._print(f"passages say, {others} elsewhere (an off-topic quotation is faithful; other")
        self._print("metrics find it)")
        self._print()

    def _report_accounts(self, plan: Plan, report: Report) -> None:
        stats = report.stats
        parts = {"offered": stats.offered, "scored": stats.scored, "sampled out": stats.sampled_out}
        parts |= {"dropped": sum(stats.dropped.values()), "failed": sum(stats.failed.values())}
        parts["pending"] = stats.pending
        counts = ", ".join(f"{name} {count}" for name, count in parts.items())
        self._print(f"samples  {counts}; {report.seconds:.1f} s")
        self._print(f"traces   {plan.traces}  (OTLP JSON; the RAG spans carry their scores)")
        self._print(f"results  {plan.results}  (every score with its explanation)")
        self._print()

    def _report_next(self, plan: Plan) -> None:
        default = self._framework == _DEFAULT_FRAMEWORK
        demo = _COMMAND if default else f"{_COMMAND} --framework {self._framework}"
        lines = ["next", f"  your own questions: {demo} --data FILE.jsonl"]
        if (advice := _ADVICE.get(self._framework)) is not None:
            lines += ["  your own pipeline:", *(f"    {line}" for line in advice.splitlines())]
        if plan.otlp_endpoint is None:
            steps = (JAEGER, f"{demo} --otlp-endpoint http://localhost:4318", _JAEGER_PAGE)
            lines += ["  see the traces in Jaeger:", *(f"    {step}" for step in steps)]
        for line in lines:
            self._print(line)

    def _print(self, line: str = "") -> None:
        self._console.print(Text(line), soft_wrap=True)

    def _show(self, renderable: RenderableType) -> None:
        self._console.print(renderable)


def _console(plain: bool) -> Console:
    if plain:
        return Console(width=_PIPED_WIDTH, no_color=True, force_terminal=False, highlight=False)
    console = Console(highlight=False)
    # Without a terminal Rich takes 80 columns, too few for a table of scores.
    return console if console.is_terminal else Console(width=_PIPED_WIDTH, highlight=False)


def _line(row_id: str, result: ResultRow) -> str:
    score = result.score(FAITHFULNESS)
    if score is not None:
        return f"{one_line(row_id)}  {FAITHFULNESS} {score.value:.2f}"
    values = [one.normalised for one in result.outcomes.values() if isinstance(one, Score)]
    return f"{one_line(row_id)}  overall {fmean(values):.2f}" if values else one_line(row_id)


def _faithfulness(results: Iterable[ResultRow]) -> str:
    scored = (result.score(FAITHFULNESS) for result in results)
    values = [score.value for score in scored if score is not None]
    return f"{fmean(values):.2f}" if values else "not scored"
