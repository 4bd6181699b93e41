"""Finds the role and the parent run of each LlamaIndex span."""

from __future__ import annotations

import functools
import itertools
import traceback
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from inspect import BoundArguments
from typing import Any, NamedTuple, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.indices.document_summary.base import DEFAULT_SUMMARY_QUERY
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined, unused-ignore]
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import QueryBundle, TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Event, Workflow
from opentelemetry.trace import Span

from rag_eval_hooks import semconv
from rag_eval_hooks.capture import Recorder, Run
from rag_eval_hooks.capture.attributes import facts_of, field, first, request_facts
from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.capture.records import Facts, RunKind
from rag_eval_hooks.own_requests import is_suppressed
from rag_eval_hooks_llama_index.streams import current_stream, is_subclass
from rag_eval_hooks_llama_index.workflows import FlowState

# Every span id ends with a dash and a UUID.
_ID_CHARS = 37
# Maximum number of remembered spans that are not requests. A new span evicts the oldest.
_MAX_IGNORED = 10_000
_CORE = "llama_index.core."


class Role(Enum):
    CHAIN = 1, RunKind.CHAIN
    ENGINE = 2, RunKind.CHAIN
    RETRIEVAL = 3, RunKind.RETRIEVER
    EMBEDDING = 4, RunKind.EMBEDDING
    POSTPROCESSING = 5, RunKind.RERANKER
    TOOL = 6, RunKind.TOOL
    # The run gets the kind `MODEL` when the model is called.
    MODEL = 7, RunKind.CHAIN
    # A span that reads a chat's stream on a separate thread or task.
    WRITER = 8, RunKind.CHAIN
    WORKFLOW = 9, RunKind.CHAIN
    SYNTHESIS = 10, RunKind.CHAIN
    # A span without texts: a step of an embedding, or the preparation of a query or document.
    PART = 11, RunKind.CHAIN

    def __init__(self, _number: int, kind: RunKind) -> None:
        self.kind = kind


# Roles whose object `start_facts` reads.
DESCRIBED = (Role.MODEL, Role.RETRIEVAL, Role.TOOL, Role.EMBEDDING, Role.WORKFLOW)
_EMBEDDING = tuple(
    f"{prefix}{name}"
    for prefix in ("get_", "aget_")
    for name in ("query_embedding", "text_embedding", "text_embedding_batch")
)
_WRITING = ("write_response_to_history", "awrite_response_to_history")
# The first matching row decides the role. A row without methods matches all methods.
_METHODS: Sequence[tuple[type, Role, tuple[str, ...]]] = (
    (BaseRetriever, Role.RETRIEVAL, ("retrieve", "aretrieve")),
    (BaseRetriever, Role.PART, ("_retrieve", "_aretrieve")),
    (BaseQueryEngine, Role.ENGINE, ("query", "aquery")),
    (BaseChatEngine, Role.ENGINE, ("chat", "achat")),
    (BaseQueryEngine, Role.PART, ("_query", "_aquery")),
    (BaseLLM, Role.PART, ("predict", "apredict", "_prepare_chat_with_tools")),
    (BaseEmbedding, Role.EMBEDDING, _EMBEDDING),
    (StreamingAgentChatResponse, Role.WRITER, _WRITING),
    (BaseNodePostprocessor, Role.POSTPROCESSING, ()),
    (BaseTool, Role.TOOL, ()),
    (BaseLLM, Role.MODEL, ()),
    (Workflow, Role.WORKFLOW, ("run",)),
    (BaseSynthesizer, Role.SYNTHESIS, ()),
    (BaseEmbedding, Role.PART, ()),
    (TransformComponent, Role.PART, ()),
)


class SpanCall(NamedTuple):
    id: str
    method: str
    role: Role
    arguments: Mapping[str, Any]
    instance: Any
    parent_id: str | None

    @classmethod
    def of(
        cls, span_id: str, given: BoundArguments, instance: Any, parent: str | None = None
    ) -> Self:
        method = span_id[:-_ID_CHARS].rpartition(".")[2]
        role = _role_of(method, instance.__class__)
        return cls(span_id, method, role, given.arguments, instance, parent)

    @property
    def name(self) -> str:
        named = field(self.instance.metadata, "name") if self.role is Role.TOOL else None
        if isinstance(named, str):
            return named
        if self.instance is None or self.role is Role.PART:
            return self.method
        return type(self.instance).__name__

    @property
    def event(self) -> Any:
        event: Any = self.arguments.get("ev")
        return event if is_subclass(event.__class__, (Event,)) else None


def start_facts(run: Run, role: Role, instance: Any, event: Any) -> Facts:
    if role is Role.MODEL:
        return request_facts([instance])
    facts: dict[str, Any] = {}
    if role is Role.RETRIEVAL:
        facts[semconv.GEN_AI_DATA_SOURCE_ID] = type(instance).__name__
        facts[semconv.GEN_AI_RETRIEVAL_TOP_K] = getattr(instance, "similarity_top_k", None)
    elif role is Role.TOOL:
        facts[semconv.GEN_AI_TOOL_NAME] = field(instance.metadata, "name")
        facts[semconv.GEN_AI_TOOL_TYPE] = "function"
    elif role is Role.EMBEDDING:
        facts[semconv.GEN_AI_REQUEST_MODEL] = instance.model_name
    elif role is Role.WORKFLOW:
        # The first agent of a team names the run.
        facts[semconv.GEN_AI_AGENT_NAME] = first([instance], ("name", "root_agent"))
    call_id = getattr(event, "tool_id", None)
    if run.kind is RunKind.TOOL:
        # The enclosing step of the agent has the id.
        steps = itertools.takewhile(lambda outer: outer.kind is not RunKind.TOOL, run.ancestors())
        ids = (outer.facts.get(semconv.GEN_AI_TOOL_CALL_ID) for outer in steps)
        call_id = next(filter(None, ids), None)
    return facts_of({**facts, semconv.GEN_AI_TOOL_CALL_ID: call_id})


@functools.lru_cache(maxsize=4096)
def _role_of(method: str, owner: type) -> Role:
    for base, role, methods in _METHODS:
        if issubclass(owner, base) and (not methods or method in methods):
            return role
    return Role.CHAIN


class SpanParents:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Spans of offline tools, steps that outlive a workflow, and spans whose start was lost.
        self._ignored: dict[str, None] = {}

    def current(self) -> Hashable | None:
        known = active_span_id.get()
        # Ignore the span of a workflow, which old versions leave current in the calling code.
        nearest = self._nearest(None if self._is_workflow(known) else known)
        if nearest is None:
            return None
        run = self._recorder.of_open_request(nearest)
        runs = () if run is None else (run, *run.ancestors())
        return next((one.id for one in runs if one.end is None), None)

    def of(self, call: SpanCall) -> tuple[Hashable | None, Run | None]:
        known, run = call.parent_id, self._recorder.get(call.parent_id)
        if run is None:
            known = known if self._recorder.knows(known) else None
        elif isinstance(run.state, FlowState) and _stands_alone(call):
            known = run = None
        if current_stream() is None:
            return known, run
        nearest = self._nearest(known)
        return nearest, self._recorder.get(nearest)

    def _nearest(self, known: str | None) -> Hashable | None:
        streaming = current_stream()
        if streaming is None or not self._recorder.knows(streaming.id):
            return known
        inner = None if known is None else self._recorder.of_open_request(known)
        is_inside = inner is not None and inner.interaction is streaming.interaction
        # A stream is nearer to the call than a span around the stream.
        if is_inside and all(outer.id != known for outer in streaming.ancestors()):
            return known
        return streaming.id

    def _is_workflow(self, span_id: str | None) -> bool:
        run = None if span_id is None else self._recorder.get(span_id)
        return run is not None and isinstance(run.state, FlowState)

    def ignores(self, call: SpanCall) -> bool:
        # Ignore calls by offline tools, such as evaluators. Also ignore steps of a cancelled
        # workflow, because old versions continue these steps.
        recorder, parent = self._recorder, call.parent_id
        has_parent = parent is not None and not recorder.is_unknown(parent)
        is_late = has_parent and call.event is not None and not recorder.knows(parent)
        is_ignored = is_late or parent in self._ignored
        if not is_ignored and recorder.around(None) is None:
            # An enclosing manual block is always a parent, because the application opened it.
            is_ignored = _is_offline(call)
        if is_ignored:
            self._ignore(call.id)
        return is_ignored

    def lost(self, span_id: str, parent_id: str | None, *, is_step: bool = False) -> bool:
        # Only steps belong to a workflow's run. In old versions, the run's span stays current in
        # the code that started the workflow, perhaps before capture was enabled. An application's
        # function may also have started before `enable`.
        if parent_id is None or parent_id in self._ignored or is_suppressed():
            return False
        owner, _, method = parent_id[:-_ID_CHARS].rpartition(".")
        may_be_older = not is_step and (not owner or method == "run")
        if may_be_older or not self._recorder.is_unknown(parent_id):
            return False
        self.lose(span_id, parent_id)
        return True

    def lose(self, span_id: str, parent_id: str | None) -> None:
        self._recorder.lost(span_id, parent_id)
        for lost in (span_id, parent_id):
            if lost is not None and not self._recorder.knows(lost):
                self._ignore(lost)

    def _ignore(self, span_id: str) -> None:
        remember(self._ignored, span_id, None, _MAX_IGNORED)


def _stands_alone(call: SpanCall) -> bool:
    # In old versions, a workflow's span stays current in the code that started the workflow.
    own_step = call.instance is None or isinstance(call.instance, Workflow)
    return call.role is Role.WORKFLOW or not own_step


# Modules of evaluators, dataset generators and summary building.
_TOOLS = (f"{_CORE}evaluation.", f"{_CORE}llama_dataset.", f"{_CORE}indices.document_summary.base")
# A few stack frames suffice, because only a call without a captured parent is checked.
_NEAR = 25
# Part of the dataset generators' prompt template.
_GENERATING = "generate only questions based on the below query"


def _is_offline(call: SpanCall) -> bool:
    # A tool may run its calls in tasks, whose stack does not contain the tool. The query or the
    # template then decides.
    query = call.arguments.get("query")
    if (query.query_str if isinstance(query, QueryBundle) else query) == DEFAULT_SUMMARY_QUERY:
        return True
    synthesizer = getattr(call.instance, "_response_synthesizer", None)
    template = getattr(getattr(synthesizer, "_text_qa_template", None), "template", None)
    if isinstance(template, str) and _GENERATING in template:
        return True
    frames = itertools.islice(traceback.walk_stack(None), _NEAR)
    return any(str(f.f_globals.get("__name__")).startswith(_TOOLS) for f, _ in frames)


def openinference_span(root: Run) -> tuple[bool, Span | None]:
    # OpenInference's map of open spans is private. Without the map, scores appear only on the
    # evaluation span.
    for handler in get_dispatcher().span_handlers:
        if type(handler).__module__.startswith("openinference.instrumentation.llama_index."):
            spans: Any = getattr(handler, "open_spans", {})
            span = getattr(spans.get(root.id), "_otel_span", None)
            return True, span if isinstance(span, Span) else None
    return False, None
