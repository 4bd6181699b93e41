"""Evaluates the answers in a data set, or a pipeline's answers, with a `RagEval`."""

from __future__ import annotations

import asyncio
import inspect
import json
import pkgutil
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.datasets.data_rows import ROW_KEY, DataRow
from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.incidents import place_in_application
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.read import read
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Score

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Asks the pipeline a question with metadata. The pipeline's handler captures the sample."""
_WINDOW: Final = 256  # samples in flight, to limit the memory
_PAUSE_S: Final = 0.5
_MOST_ERRORS: Final = 5
_FRAMEWORKS: Final = {
    "langchain_core": "rag_eval_hooks_langchain",
    "llama_index.core": "rag_eval_hooks_llama_index",
}
_INPUTS: Final = ("question", "input", "query", "user_input", "messages")
_OUTPUTS: Final = ("answer", "output", "result")


class DatasetRun(JsonlSink):
    def __init__(self, path: Path, *, is_asked: bool = False) -> None:
        super().__init__(path)
        self._is_asked = is_asked  # a pipeline answers, so rows without an answer run again
        self.metric_limits: list[tuple[str, str, float]] = []  # `RagEval` checks these limits
        self.resumed = 0  # rows that were in the file at the start
        self.started = 0  # rows that the evaluator received, or whose pipeline raised
        self.evaluated = 0  # rows evaluated and written
        self.unreadable = 0  # rows that are not valid samples
        self.failed = 0  # rows that started but will have no result
        self.partial = 0  # rows with a failed metric; the next run retries these rows
        self.unanswered = 0  # rows without an answer; the next run retries these rows
        self.returned: set[str] = set()  # types that the pipeline returned
        self.errors: list[str] = []  # the first errors, to show to the user
        self.usage = Usage()
        self._reasons: dict[str, str] = {}  # by metric; empty if the metric has a score
        self._done: set[int] = set()  # hashes, which need less memory than a million keys
        if path.exists():
            self._resume(path)

    def _resume(self, path: Path) -> None:
        again, rows = set[str](), read(path)
        for row in rows:
            key = str(row.sample.metadata.get(ROW_KEY))
            if _has_failed(row) or (self._is_asked and row.sample.answer is None):
                again.add(key)
            else:
                self._see(row)
                self._done.add(hash(key))
        if rows.skipped["unreadable"] and not (again or self._done):
            wants = "a new file, or a file with the results of an earlier run"
            raise ConfigError("output", str(path), wants)
        if again - {"None"}:
            rest = path.with_name(f"{path.name}.rest")
            with path.open("rb") as file, rest.open("wb") as kept:
                shutil.copymode(path, rest)
                kept.writelines(line for line in file if _row_key(line) not in again)
            rest.replace(path)

    def has(self, sample: Sample) -> bool:
        return hash(sample.metadata[ROW_KEY]) in self._done

    @property
    def unscored(self) -> dict[str, str]:
        return {metric: reason for metric, reason in self._reasons.items() if reason}

    @property
    def pending(self) -> int:
        return self.started - self.failed - self.evaluated

    def fail(self, error: str, rows: int = 1) -> None:
        self.failed += rows
        self.errors = [*self.errors, error][:_MOST_ERRORS]

    def deliver(self, evaluation: Evaluation) -> None:
        super().deliver(evaluation)
        self.partial += _has_failed(evaluation)
        self.unanswered += self._is_asked and evaluation.sample.answer is None
        self.usage = sum((one.usage for one in evaluation.outcomes.values()), start=self.usage)
        self._see(evaluation)
        self.evaluated += 1

    def _see(self, row: Evaluation) -> None:
        for metric, one in row.outcomes.items():
            if isinstance(one, Score):
                self._reasons[metric] = ""
            elif self._reasons.get(metric) != "":
                self._reasons[metric] = one.line


def _has_failed(row: Evaluation) -> bool:
    return any(one.cause.is_failure for one in row.unscored.values())


def _row_key(line: bytes) -> object:
    try:
        return json.loads(line)["sample"]["metadata"][ROW_KEY]
    except (ValueError, KeyError, TypeError):
        return None


def run_dataset(
    rows: Iterable[DataRow],
    evals: RagEval,
    run: DatasetRun,
    *,
    ask: Ask | None = None,
    concurrency: int = 4,
    progress: Callable[[DatasetRun], object] = lambda _: None,
) -> None:
    """Evaluate the rows. `evals` must have the sink `run` and the sample rate 1."""
    asked: dict[Future[object], int] = {}
    try:
        with ThreadPoolExecutor(concurrency, "rag-eval-hooks-ask") as pool:
            for row in rows:
                progress(run)
                if row.sample is None:
                    run.unreadable += 1
                    run.fail(row.error, 0)
                    continue
                if run.has(row.sample):
                    run.resumed += 1
                    continue
                while run.pending >= _WINDOW:
                    if evals.flush(_PAUSE_S):
                        _fail_pending(evals, run)
                    progress(run)
                if ask is None:
                    _submit(row.sample, evals, run)
                    continue
                if len(asked) >= concurrency:
                    _finish(asked, run, FIRST_COMPLETED)
                future = pool.submit(ask, row.sample.question, _metadata(row.sample))
                asked[future] = row.number
            _finish(asked, run, ALL_COMPLETED)
    finally:
        evals.flush()
        _fail_pending(evals, run)
        progress(run)


def _submit(sample: Sample, evals: RagEval, run: DatasetRun) -> None:
    run.started += 1
    is_idle = False
    # A full queue rejects the sample.
    while not evals.submit(sample) and not is_idle:
        is_idle = evals.flush(_PAUSE_S)


def _fail_pending(evals: RagEval, run: DatasetRun) -> None:
    if (rows := run.pending) > 0:
        run.fail(f"{rows} rows have no result. Dropped samples: {evals.stats().dropped}", rows)


def _finish(asked: dict[Future[object], int], run: DatasetRun, when: str) -> None:
    for future in wait(asked, return_when=when).done:
        number = asked.pop(future)
        run.started += 1
        if (error := future.exception()) is not None:
            # The handler recorded the failure, so no sample will arrive.
            run.fail(f"row {number + 1}: the pipeline raised {_told(error)}")
        else:
            result = future.result()
            run.returned.add("None" if result is None else type(result).__name__)


def _told(error: BaseException) -> str:
    place = place_in_application(error)
    return f"{type(error).__name__}{f' at {place}' if place else ''}: {error}"


def _metadata(sample: Sample) -> dict[str, Any]:
    known = {
        "question_id": sample.question_id,
        "reference": sample.reference,
        "reference_ids": sample.reference_ids and list(sample.reference_ids),
    }
    return {**sample.metadata, **{k: v for k, v in known.items() if v is not None}}


def named_object(name: str, option: str = "chain") -> Any:
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ConfigError(option, name, "module:object, such as app:chain")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import may raise anything
        wants = f"an object that Python can import ({_told(error)})"
        raise ConfigError(option, name, wants) from None


@contextmanager
def asking(pipeline: Any, evals: RagEval, option: str = "chain") -> Iterator[Ask]:
    """Yield a function that asks the pipeline. Until the block ends, capture records its runs."""
    if callable(getattr(pipeline, "invoke", None)):
        yield _runnable(pipeline, evals)
        return
    method: Any = getattr(pipeline, "query", None) or getattr(pipeline, "chat", None)
    is_engine = callable(method)
    function = method if is_engine else pipeline
    if not callable(function):
        wants = "a LangChain runnable, a LlamaIndex engine, or a function that takes the question"
        raise ConfigError(option, type(function).__name__, wants)
    with ExitStack() as stack:
        for framework, module in _FRAMEWORKS.items():
            if framework in sys.modules and not (is_engine and framework == "langchain_core"):
                package = import_module(module)
                package.enable(evals)
                stack.callback(package.disable)
        yield _called(function, evals, is_captured=is_engine)


def _runnable(pipeline: Any, evals: RagEval) -> Ask:
    handler = import_module("rag_eval_hooks_langchain").RagEvalCallbackHandler(evals)
    names = _input_names(pipeline)
    key = next((name for name in _INPUTS if name in names), names[0] if len(names) == 1 else None)

    def ask(question: str, metadata: Mapping[str, Any]) -> object:
        given = question if key is None else {key: question}
        config: dict[str, Any] = {"callbacks": [handler], "metadata": dict(metadata)}
        if getattr(pipeline, "checkpointer", None):
            config["configurable"] = {"thread_id": uuid.uuid4().hex}
        return pipeline.invoke(given, config=config)

    return ask


def _input_names(pipeline: Any) -> list[str]:
    try:
        schema = pipeline.get_input_jsonschema()
    except Exception:  # noqa: BLE001 - a runnable may raise anything
        # Before Python 3.12, a graph with a `typing.TypedDict` state has no input schema.
        graph = getattr(pipeline, "builder", None)
        state = getattr(graph, "input_schema", None) or getattr(graph, "input", None)
        return list(getattr(state, "__annotations__", ()))
    return list(schema.get("required") or schema.get("properties") or ())


def _called(function: Callable[[str], Any], evals: RagEval, *, is_captured: bool) -> Ask:
    def ask(question: str, metadata: Mapping[str, Any]) -> object:
        with evals.interaction(question, metadata=metadata) as interaction:
            answer = function(question)
            if inspect.iscoroutine(answer):
                answer = asyncio.run(answer)
            if not is_captured or isinstance(answer, str):
                text = answer
                if isinstance(answer, Mapping):
                    text = next((answer[key] for key in _OUTPUTS if key in answer), None)
                interaction.answer(None if text is None else str(text))
        return answer

    return ask
