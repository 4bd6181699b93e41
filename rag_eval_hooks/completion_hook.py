"""Captures model calls of any client through OpenTelemetry's GenAI instrumentations.

To select this hook, set `OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=rag_eval_hooks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from opentelemetry.trace import Span

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.facts import facts_of
from rag_eval_hooks.capture.records import Origin, Others, Run, RunKind
from rag_eval_hooks.capture.rows import rows_in
from rag_eval_hooks.evals import RagEval, checked
from rag_eval_hooks.incidents import host_edge

_CAPTURED: Final = ("langchain", "llama")
_OPERATIONS: Final = ("chat", "text_completion", "generate_content")


class RagEvalCompletionHook:
    """Records each completion as a model call.

    Inside `evals.interaction(...)`, the completion belongs to the block's request. The reply is the
    default answer. Elsewhere, only a completion whose prompt contains retrieved text is a request.
    Retrieved text is a tool result of the same turn, or a document of a captured retriever.
    """

    def __init__(self, evals: RagEval) -> None:
        self._recorder = checked(evals).recorder
        self._incidents = evals.incidents

    @host_edge
    def on_completion(
        self,
        *,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        system_instruction: Sequence[Any],
        span: Span | None = None,
        **_: Any,
    ) -> None:
        """Record a finished completion. `opentelemetry-util-genai` calls this method."""
        around = self._recorder.around(None)
        if not _is_completion(span) or not (around is None or around.by_hand):
            return
        turn = _parts_of_this_turn(inputs)
        results = [part for part in turn if _is_result(part)]
        # An agent's earlier completions belong to the same request.
        root = self._start(RunKind.CHAIN, "completion", None) if results else None
        run = self._start(RunKind.MODEL, "chat", root)
        if run is None:
            return
        began = getattr(span, "start_time", None) or run.start
        run.facts = facts_of(dict(getattr(span, "attributes", None) or {}))
        given = [*inputs], [*outputs], [*system_instruction]
        self._recorder.defer(run, "completion", self._read, run, *given)
        names = {part.id: str(part.name) for part in turn if _kind(part) == "tool_call"}
        for part in results:
            tool = self._start(RunKind.TOOL, names.get(part.id, "tool"), root)
            if tool is not None:
                self._recorder.defer(tool, "completion", self._found, tool, part.response)
                self._recorder.end(tool)
        for begun in filter(None, (run, root)):
            begun.start = min(begun.start, began)
            self._recorder.end(begun)

    def _start(self, kind: RunKind, name: str, root: Run | None) -> Run | None:
        run = self._recorder.start(object(), None if root is None else root.id, kind, name)
        if run is not None:
            interaction = run.interaction
            interaction.is_joinable = True
            # Write no span, because the completion already has a span.
            interaction.others = interaction.others or Others(active=True)
        return run

    def _read(self, run: Run, inputs: list[Any], outputs: list[Any], system: list[Any]) -> None:
        shown = [("system", text) for text in _texts(system)]
        shown += [(_role(one), text) for one in inputs for text in _texts(one.parts)]
        self._recorder.prompt(run, [text for _, text in shown], [role for role, _ in shown])
        said = "\n".join(text for one in outputs[:1] for text in _texts(one.parts)) or None
        self._recorder.answer(run, said)
        if run.parent is not None and run.parent.kind is RunKind.CHAIN:
            self._recorder.answer(run.parent, said)
            self._recorder.question(run.parent, run.user_text or None)

    def _found(self, tool: Run, response: Any) -> None:
        for contexts in rows_in(response):
            self._recorder.documents(tool, contexts, Origin.TEXT)


def completion_hook() -> RagEvalCompletionHook:
    """Return this process's hook. The first call creates the evaluator.

    Raises:
        ConfigError: A setting is invalid.
    """
    from rag_eval_hooks.instrumentor import RagEvalInstrumentor

    instrumentor = RagEvalInstrumentor()
    if instrumentor.evals is None:
        instrumentor.evals = RagEval()
    return RagEvalCompletionHook(instrumentor.evals)


def _is_completion(span: Span | None) -> bool:
    scope = getattr(getattr(span, "instrumentation_scope", None), "name", "") or ""
    attributes = getattr(span, "attributes", None) or {}
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME, _OPERATIONS[0])
    return operation in _OPERATIONS and not any(name in scope for name in _CAPTURED)


def _parts_of_this_turn(inputs: Sequence[Any]) -> list[Any]:
    asked = [place for place, one in enumerate(inputs) if _role(one) == "user"]
    return [part for one in inputs[asked[-1] if asked else 0 :] for part in one.parts]


def _role(message: Any) -> str:
    return str(getattr(message.role, "value", message.role))


def _kind(part: Any) -> object:
    return getattr(part, "type", None)


def _is_result(part: Any) -> bool:
    return _kind(part) == "tool_call_response" and part.response is not None


def _texts(parts: Sequence[Any]) -> Iterator[str]:
    for part in parts:
        if _is_result(part):
            yield str(part.response)
        elif _kind(part) == "text" and part.content is not None:
            yield str(part.content)
