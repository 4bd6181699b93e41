"""Imports a pipeline named `module:object`, and captures its runs."""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Final

from rag_eval_hooks.datasets.run import Ask
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evals import RagEval

_FRAMEWORKS: Final = {
    "langchain_core": "rag_eval_hooks_langchain",
    "llama_index.core": "rag_eval_hooks_llama_index",
}
_INPUTS: Final = ("question", "input", "query", "user_input", "messages")
_OUTPUTS: Final = ("answer", "output", "result")


def named_object(name: str, option: str = "chain") -> Any:
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ConfigError(option, name, "module:object, such as app:chain")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raised = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        is_own = frame.filename == pkgutil.__file__ or getattr(error, "name", None) == module
        wants = f"an object that Python can import ({error if is_own else raised})"
        raise ConfigError(option, name, wants) from None


@contextmanager
def asking(pipeline: Any, evals: RagEval, option: str = "chain") -> Iterator[Ask]:
    """Yield a function that asks the pipeline. Inside the block, handlers capture the runs."""
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
