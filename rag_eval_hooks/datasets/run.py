"""Evaluation of a whole data set by the evaluator that live requests have."""

from __future__ import annotations

import json
import shutil
import threading
from array import array
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from rag_eval_hooks.datasets.data_rows import ROW_KEY, DataRow
from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.read import read
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored, Outcomes, Score
from rag_eval_hooks.usage import Usage

__all__ = ["Ask", "DatasetRun", "DoneRows", "RunSink", "rows_done", "run_dataset"]

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Asks the application's pipeline a question with metadata; its handler captures the sample."""
_WINDOW: Final = 256
"""Samples that are on their way at once: memory does not grow with the data set."""
_MOST_ERRORS: Final = 5


@dataclass(slots=True, kw_only=True)
class DatasetRun:
    """Counts of a run."""

    rows: int = 0  # read so far
    resumed: int = 0  # that the results file had already
    evaluated: int = 0  # evaluated and written
    unreadable: int = 0  # that are no sample
    failed: int = 0  # whose pipeline raised, or that the evaluator dropped
    partial: int = 0  # of which a metric failed; the next run tries them again
    errors: list[str] = field(default_factory=list)  # the first ones, for a person
    usage: Usage = field(default_factory=Usage)
    unscored: dict[str, str] = field(default_factory=dict)  # reason by metric without any value

    def note(self, error: str) -> None:
        """Remember one of the first errors."""
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(error)


class DoneRows:
    """Rows that a results file has, by number and digest, eight bytes a row.

    Attributes:
        reasons: Reason of the last absence by metric; empty for one that some row has a score of.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self._digests = array("Q")

    def add(self, number: int, digest: int) -> None:
        """Add a row."""
        missing = number + 1 - len(self._digests)
        if missing > 0:
            self._digests.extend([0] * missing)
        self._digests[number] = digest

    def has(self, row: DataRow) -> bool:
        """Return whether the row is there, with this very content."""
        return row.number < len(self._digests) and self._digests[row.number] == row.digest

    def see(self, outcomes: Outcomes) -> None:
        """Note which metrics have a score."""
        for metric, one in outcomes.items():
            if isinstance(one, Score):
                self.reasons[metric] = ""
            elif self.reasons.get(metric) != "":
                self.reasons[metric] = one.line


def rows_done(path: Path) -> DoneRows:
    """Return the rows of a results file that need not be evaluated again.

    Rows with a failed metric are taken out of the file. It is replaced at once: a process that is
    killed meanwhile leaves the earlier one.
    """
    done, failed = DoneRows(), set()
    for row in read(path) if path.exists() else ():
        key = row.sample.metadata.get(ROW_KEY)
        if _has_failed(row.outcomes):
            failed.add(key)
            continue
        done.see(row.outcomes)
        number, _, digest = str(key).partition("-")
        with suppress(ValueError):
            done.add(int(number), int(digest, 16))
    if failed - {None}:
        rest = path.with_name(f"{path.name}.rest")
        with path.open("rb") as file, rest.open("wb") as kept:
            shutil.copymode(path, rest)
            kept.writelines(line for line in file if _row_key(line) not in failed - {None})
        rest.replace(path)
    return done


def _has_failed(outcomes: Outcomes) -> bool:
    """Return whether another try may give a score; one that is undecided stays undecided."""
    return any(isinstance(one, NotScored) and one.cause.is_failure for one in outcomes.values())


def _row_key(line: bytes) -> object:
    try:
        return json.loads(line)["sample"]["metadata"][ROW_KEY]
    except (ValueError, KeyError, TypeError):
        return None


class RunSink(JsonlSink):
    """Results file that counts the lines that it has written."""

    is_watched = False
    """A line is waited for: a busy disk or a stopped process must not cost rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.delivered = self.partial = 0
        self.usage = Usage()
        self.done = DoneRows()
        self._changed = threading.Condition()

    def deliver(self, evaluation: Evaluation) -> None:
        """Append one line, and count it."""
        super().deliver(evaluation)
        with self._changed:
            self.delivered += 1
            self.partial += _has_failed(evaluation.outcomes)
            self.usage = sum((one.usage for one in evaluation.outcomes.values()), start=self.usage)
            self.done.see(evaluation.outcomes)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait for the next line; return whether there was one in time."""
        with self._changed:
            before = self.delivered
            return self._changed.wait_for(lambda: self.delivered > before, seconds)


def run_dataset(
    rows: Iterable[DataRow],
    evals: RagEval,
    sink: RunSink,
    *,
    done: DoneRows,
    ask: Ask | None = None,
    concurrency: int = 4,
    progress: Callable[[DatasetRun], object] = lambda _: None,
) -> DatasetRun:
    """Evaluate rows; those that a results file has already are left out.

    Args:
        rows: The rows; read one at a time.
        evals: The evaluator; `sink` is one of its sinks, its sample rate is 1.
        sink: The results file.
        done: Rows that the file has.
        ask: Asks a pipeline that `evals` observes; None evaluates the rows' own answers.
        concurrency: Questions that the pipeline is asked at once.
        progress: Called with the counts now and then.

    Returns:
        The counts. Rows on their way are finished first, also after an interrupt, which is raised
        again.
    """
    sink.done = done
    run = _Running(evals, sink, progress)
    try:
        with ThreadPoolExecutor(concurrency, "rag-eval-hooks-ask") as pool:
            asked: set[Future[object]] = set()
            for sample in run.samples(rows):
                if ask is None:
                    run.offer(sample)
                    continue
                if len(asked) >= concurrency:
                    finished, asked = wait(asked, return_when=FIRST_COMPLETED)
                    run.finish(finished)
                run.started()
                asked.add(pool.submit(ask, sample.question, _metadata(sample)))
            run.finish(wait(asked).done)
    finally:
        evals.flush()
        run.close()
    return run.counts


class _Running:
    def __init__(
        self, evals: RagEval, sink: RunSink, progress: Callable[[DatasetRun], object]
    ) -> None:
        self.counts = DatasetRun()
        self._evals = evals
        self._sink = sink
        self._progress = progress
        self._begun = self._raised = 0
        self._lost = 0
        """Rows, also of a pipeline that raised, for which nothing is waited any more."""

    def samples(self, rows: Iterable[DataRow]) -> Iterable[Sample]:
        for row in rows:
            self.counts.rows += 1
            if self._sink.done.has(row):
                self.counts.resumed += 1
            elif row.sample is None:
                self.counts.unreadable += 1
                self.counts.note(row.error)
            else:
                self._wait_for_slot()
                yield row.sample

    def offer(self, sample: Sample) -> None:
        # A refusal because of much text passes as soon as some of it is evaluated.
        while not self._evals.offer(sample):
            if not self._sink.wait(1.0) and self._evals.stats().pending == 0:
                self.counts.failed += 1
                self.counts.note(f"a row was refused: {self._evals.stats().dropped}")
                return
        self.started()

    def started(self) -> None:
        self._begun += 1
        if self._begun % 50 == 0:
            self._report()

    def finish(self, asked: Iterable[Future[object]]) -> None:
        for future in asked:
            if (error := future.exception()) is not None:
                # The handler has seen the failure: no sample will come.
                self.counts.failed += 1
                self._raised += 1
                self._lost += 1
                self.counts.note(f"the pipeline raised {type(error).__name__}: {error}")

    def close(self) -> None:
        missing = max(0, self._begun - self._raised - self._sink.delivered)
        if missing:
            self.counts.failed += missing
            self.counts.note(f"{missing} rows gave no result: {self._evals.stats().dropped}")
        self.counts.unscored = {
            name: text for name, text in self._sink.done.reasons.items() if text
        }
        self._report()

    def _wait_for_slot(self) -> None:
        while self._begun - self._lost - self._sink.delivered >= _WINDOW:
            idle = not self._sink.wait(1.0) and self._evals.stats().pending == 0
            if idle and self._evals.flush(1.0):
                self._lost = self._begun - self._sink.delivered
            self._report()

    def _report(self) -> None:
        sink, counts = self._sink, self.counts
        counts.evaluated, counts.partial, counts.usage = sink.delivered, sink.partial, sink.usage
        self._progress(counts)


def _metadata(sample: Sample) -> dict[str, Any]:
    known = {"question_id": sample.question_id, "reference": sample.reference}
    return {**sample.metadata, **{k: v for k, v in known.items() if v is not None}}
