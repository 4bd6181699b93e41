"""Builds the redacted sample of a finished request, outside the application's thread."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from opentelemetry import context as otel_context

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.answering import answer_of, holds_reply, queries, question_of
from rag_eval_hooks.capture.attributes import Contents
from rag_eval_hooks.capture.contexts import find_contexts
from rag_eval_hooks.capture.options import OWN_KEYS, SESSION_KEYS, text_of
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.text_forms import words
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Traits
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import MARGIN, Redactor, Session
from rag_eval_hooks.redaction.redactor import CutText
from rag_eval_hooks.sample import Context, Sample, Status

_FRAMEWORK_KEY = re.compile(
    "ls_(provider|model_name|model_type|temperature|max_tokens|stop|method|integration"
    "|integration_version|agent_type|structured_output_format|invocation_params|modality"
    "|vector_store_provider|embedding_provider|retriever_name|run_depth)"
    "|lc_(agent_name|versions|source)|checkpoint_(id|ns|map)"
    "|langgraph_(step|node|triggers|path|checkpoint_ns|version|plan|host|api_url|request_id"
    "|auth_user|auth_user_id|auth_permissions)"
)
_MOST_IDS = 1000
Golden: TypeAlias = Callable[[Sample], Sample]


class Assembler:
    def __init__(
        self,
        config: RagEvalConfig,
        redactor: Redactor,
        incidents: Incidents,
        with_golden: Golden | None = None,
    ) -> None:
        self._max_chars = config.max_text_chars
        self._redactor, self.session = redactor, redactor.session
        self._incidents = incidents
        # Redact the reference together with its sample.
        self._with_golden: Golden = with_golden or (lambda sample: sample)
        self.redacts = redactor.active
        self.changes = redactor.active or with_golden is not None  # whether `own` has an effect
        # Like `SampleTexts`, read `MARGIN` characters beyond the limit.
        self.text_chars = config.max_text_chars + MARGIN * redactor.active

    def sample(
        self,
        interaction: Interaction,
        session: Session,
        trace_id: str | None = None,
        span_id: str | None = None,
    ) -> Sample:
        """Raise `RedactionError` if the redaction fails."""
        texts = SampleTexts(self._max_chars, session, redacts=self.redacts)
        root, given = interaction.root, interaction.metadata
        answer = answer_of(interaction)
        question, question_source = question_of(interaction)
        contexts, source = find_contexts(interaction, answer)
        golden = self._with_golden(_with_reference(question, given))
        metadata = _queries(texts, interaction, question)
        missing = interaction.left_out | _to_come(interaction, answer)
        return Sample(
            question=texts.text("question", question),
            contexts=texts.contexts(contexts, answer or "", interaction.lists),
            answer=texts.optional("answer", answer),
            reference=texts.optional("reference", golden.reference),
            reference_ids=texts.ids("reference_ids", golden.reference_ids),
            question_id=texts.optional("question_id", golden.question_id),
            status=interaction.status,
            error_type=root.error_type,
            session_id=texts.optional("session_id", text_of(given, *SESSION_KEYS)),
            user_id=texts.optional("user_id", text_of(given, "user_id")),
            tags=tuple(session.text("tags", str(tag)) for tag in interaction.tags),
            metadata={**metadata, **texts.metadata("metadata", golden.metadata)},
            latency=_seconds(root),
            truncated=texts.truncated(sorted(missing)),
            context_source=source,
            question_source=question_source,
            trace_id=trace_id,
            span_id=span_id,
            workflow=root.name,
            response_id=_response_id(interaction, answer),
            ended_at=root.end,
        )

    def own(self, sample: Sample, session: Session | None = None) -> Sample:
        return self._redactor.sample(self._with_golden(sample), session)

    def reference(self, text: str | None) -> str | None:
        if isinstance(text, str) and self._redactor.holds(text[: self.text_chars]):
            raise RedactionError("the reference contains text that `redact` removes")
        return text[: self._max_chars] if isinstance(text, str) else text

    def label(self, text: str | None) -> str | None:
        if not isinstance(text, str):
            return text
        return self.session().text("answer", text[: self.text_chars])[: self._max_chars]

    def attributes(self, session: Session, values: Contents) -> Contents:
        if not self.redacts:
            return values
        try:
            return session.attributes(values)
        except RedactionError as error:
            self._incidents.report("span redaction", error)
            return {}


def _with_reference(question: str, given: Mapping[str, Any]) -> Sample:
    ids = given.get("reference_ids")
    return Sample(
        question=question,
        reference=text_of(given, "reference"),
        reference_ids=tuple(ids) if isinstance(ids, list | tuple) else None,
        question_id=text_of(given, "question_id"),
        metadata={
            key: value
            for key, value in given.items()
            if not (key in OWN_KEYS or _FRAMEWORK_KEY.fullmatch(str(key)))
        },
    )


def _queries(texts: SampleTexts, interaction: Interaction, question: str) -> dict[str, Any]:
    others = [query for query in queries(interaction) if query != question]
    field = "metadata.retrieval_queries"
    return {"retrieval_queries": [texts.text(field, query) for query in others]} if others else {}


def _to_come(interaction: Interaction, answer: str | None) -> set[str]:
    ended = interaction.status is Status.OK and answer is None and interaction.resumable
    return {"answer"} if ended and interaction.metadata.get("thread_id") is not None else set()


def _response_id(interaction: Interaction, answer: str | None) -> str | None:
    calls = interaction.models
    if len(calls) > 1:
        calls = [call for call in reversed(calls) if holds_reply(answer or "", call)]
    value = calls[0].facts.get(semconv.GEN_AI_RESPONSE_ID) if calls else None
    return value if isinstance(value, str) else None


def traits_of_interaction(interaction: Interaction) -> Traits:
    session = text_of(interaction.metadata, *SESSION_KEYS)
    return Traits(
        # If the root has no question, use its retriever's query, as the sample does.
        question=question_of(interaction)[0],
        # Find the answer only once for all rules, because the search reads all model texts.
        answer=functools.cache(lambda: answer_of(interaction)),
        tags=interaction.tags,
        metadata={**interaction.metadata, **({"session_id": session} if session else {})},
        error_type=interaction.root.error_type,
        latency=_seconds(interaction.root),
    )


def _seconds(root: Run) -> float | None:
    # The wall clock may have been set back between the two readings.
    return None if root.end is None else max(0.0, (root.end - root.start) / 1e9)


def interaction_of(sample: Sample) -> Interaction:
    end = sample.ended_at or time.time_ns()
    start = end - int((sample.latency or 0.0) * 1e9)
    interaction = Interaction(
        otel_context.get_current(),
        metadata=dict(Traits.of(sample).metadata),
        tags=sample.tags,
        status=sample.status,
        kept_chars=sample.chars,
    )
    name = sample.workflow or "sample"
    root = Run(sample.sample_id, RunKind.MANUAL, name, None, interaction, start)
    root.query, root.text, root.error_type = sample.question, sample.answer, sample.error_type
    root.end = end
    interaction.runs.append(root)
    if sample.contexts is not None:
        kind = RunKind.RETRIEVER
        retrieval = Run(object(), kind, "contexts", root, interaction, start)
        retrieval.query, retrieval.end = sample.question, start
        interaction.runs.append(retrieval)
        interaction.lists.append(DocumentList(retrieval, sample.contexts, Origin.STATED))
    return interaction


class SampleTexts:
    def __init__(self, limit: int, session: Session, *, redacts: bool) -> None:
        self._limit = limit
        self._session = session
        self._redacts = redacts
        # Redaction needs more text to recognize a secret that `limit` cuts.
        self._read = limit + MARGIN * redacts
        self._cut_fields: list[str] = []

    def text(self, field: str, text: str) -> str:
        is_cut = len(text) > self._read or isinstance(text, CutText)
        text = text[: self._read]
        if self._redacts:
            text = (self._session.cut_text if is_cut else self._session.text)(field, text)
        if is_cut or len(text) > self._limit:
            self._cut_fields.append(field)
        return text[: self._limit]

    def optional(self, field: str, text: str | None) -> str | None:
        return None if text is None else self.text(field, text)

    def contexts(
        self, contexts: tuple[Context, ...] | None, answer: str, lists: Iterable[DocumentList]
    ) -> tuple[Context, ...] | None:
        if contexts is None:
            return None
        if len(contexts) > limits.CONTEXTS:
            contexts = _likeliest(contexts, answer, limits.CONTEXTS, lists)
            self._cut_fields.append("contexts")
        return tuple(
            replace(
                context,
                text=self.text(f"contexts[{index}].text", context.text),
                id=self._session.value(f"contexts[{index}].id", context.id),
                metadata=self.metadata(f"contexts[{index}].metadata", context.metadata),
            )
            for index, context in enumerate(contexts)
        )

    def metadata(self, field: str, values: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in values.items():
            name = f"{field}.{key}"
            if is_text := isinstance(value, str):
                value = self.text(name, value)
            elif self._redacts and _is_small(value, self._read):
                value = self._session.value(name, value)
            if is_text or _is_small(value, self._limit):
                kept[self._session.text(field, str(key)) if self._redacts else key] = value
            else:
                self._cut_fields.append(name)
        return kept

    def ids(self, field: str, ids: Sequence[str] | None) -> tuple[str, ...] | None:
        return None if ids is None else tuple(self.text(field, one) for one in ids[:_MOST_IDS])

    def truncated(self, more: Iterable[str]) -> tuple[str, ...]:
        names = dict.fromkeys((*self._cut_fields, *more))
        return tuple(self._session.text("truncated", name) for name in names)


def _is_small(value: Any, most: int) -> bool:
    if isinstance(value, int | float | bool | None):
        return True
    try:
        return len(repr(value)) <= most
    except Exception:  # noqa: BLE001 - the application's object may raise anything
        return False


def _likeliest(
    contexts: tuple[Context, ...], answer: str, most: int, lists: Iterable[DocumentList]
) -> tuple[Context, ...]:
    texts = [context.text.lower() for context in contexts]
    weights = [0.0] * len(texts)
    for word in dict.fromkeys(words(answer)):
        holders = [n for n, text in enumerate(texts) if word in text]
        for n in holders:
            weights[n] += 1 / len(holders)
    searches = [found.contexts for found in lists if found.origin is not Origin.SOURCES]
    ranks = {one.text: rank for found in searches for rank, one in enumerate(found)}
    order = [(-weights[n], ranks.get(one.text, n), n) for n, one in enumerate(contexts)]
    return tuple(contexts[n] for n in sorted(n for *_, n in sorted(order)[:most]))
