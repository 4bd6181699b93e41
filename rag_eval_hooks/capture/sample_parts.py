"""Builds the sample of an ended interaction, within the content limits. Off the request path."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_eval_hooks.capture.contexts.retrieval_stages import condensed, queries, stages
from rag_eval_hooks.capture.contexts.search import Finder, shown_in
from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling
from rag_eval_hooks.capture.conversation import OWN_KEYS, session_of
from rag_eval_hooks.capture.interaction import Interaction, Run, RunKind
from rag_eval_hooks.decision import Traits
from rag_eval_hooks.redaction.truncated import Truncated, drop_margin, truncate
from rag_eval_hooks.sample import Context, Sample

__all__ = ["assemble", "shortened", "traits_of_interaction"]

_OURS = ("condensed_question", "retrieval_queries", "retrieved")
_FRAMEWORK_KEYS = frozenset(
    f"{owner}_{key}"
    for owner, keys in {
        "ls": "provider model_name model_type temperature max_tokens stop method integration "
        "integration_version agent_type structured_output_format invocation_params modality "
        "vector_store_provider embedding_provider retriever_name run_depth",
        "lc": "agent_name versions source",
        "langgraph": "step node triggers path checkpoint_ns version plan host api_url request_id "
        "auth_user auth_user_id auth_permissions",
        "checkpoint": "id ns map",
    }.items()
    for key in keys.split()
)
"""What LangChain, LangGraph and their servers put into metadata themselves."""


def assemble(
    interaction: Interaction,
    *,
    trace_id: str | None,
    span_id: str | None,
    max_contexts: int,
    max_text_chars: int,
    to_redact: bool = False,
) -> Sample:
    """The sample of an interaction.

    Args:
        interaction: An ended one.
        trace_id: Of the RAG span, where one is recorded.
        span_id: Of the RAG span.
        max_contexts: Contexts kept.
        max_text_chars: Characters kept of each text: question, answer, reference, contexts,
            values of metadata.
        to_redact: Whether it is redacted next, so that its texts are to know where they were cut.
    """
    told = interaction.metadata
    cut = _Cut(max_text_chars, to_redact=to_redact)
    answer = answer_of(interaction)
    asked = queries(interaction)
    question = interaction.root.query or next(iter(asked), "")
    contexts = Finder(interaction, answer).contexts()
    return Sample(
        question=cut.text("question", question),
        contexts=cut.contexts("contexts", contexts, max_contexts),
        answer=cut.optional("answer", answer),
        reference=cut.optional("reference", _text(told, "reference")),
        question_id=cut.optional("question_id", _text(told, "question_id")),
        status=interaction.status,
        error_type=interaction.root.error_type,
        session_id=cut.optional("session_id", session_of(told)),
        user_id=cut.optional("user_id", _text(told, "user_id")),
        tags=interaction.tags,
        metadata={
            **cut.rewritten(
                [query for query in asked if query != question], condensed(interaction, question)
            ),
            **cut.stages(stages(interaction, contexts), max_contexts),
            **cut.metadata("metadata", {k: v for k, v in told.items() if _is_free(k)}),
        },
        latency=seconds(interaction.root),
        truncated=(*cut.fields, *(["interaction"] if interaction.full else [])),
        trace_id=trace_id,
        span_id=span_id,
        workflow=interaction.root.name,
    )


def answer_of(interaction: Interaction) -> str | None:
    """What the root gave out; inside one opened by hand, what the last call in it did."""
    root = interaction.root
    if root.text is not None and not interaction.candidates:
        return root.text
    if root.kind is RunKind.MANUAL:
        gave = (run for run in reversed(interaction.runs) if run.parent is root)
        last = next((run for run in gave if run.text is not None or run.text_unknown), None)
        answer = None if last is None else last.text
    else:
        answer = _said(interaction)
    return next((text for text in (answer, root.text) if text is not None), interaction.structured)


def _said(interaction: Interaction) -> str | None:
    """Of texts that the root gave out, the one that holds what a model said.

    What it gave as its answer comes first. Of the others that of the last model counts which was
    given retrieved text: a later one may have made a title.
    """
    root = interaction.root
    calls = [r for r in interaction.runs if r.kind is RunKind.MODEL and (r.text or "").strip()]
    if root.text and any(_holds(root.text, c) or root.text in (c.text or "") for c in calls):
        return root.text
    told = [
        (c, text) for c in reversed(calls) for text in interaction.candidates if _holds(text, c)
    ]
    if len(told) > 1:
        told = [(c, text) for c, text in told if _is_grounded(c, interaction, calls)] or told
    return told[0][1] if told else None


def _holds(text: str, call: Run) -> bool:
    return bool(call.text and call.text in text)


def _is_grounded(call: Run, interaction: Interaction, calls: Sequence[Run]) -> bool:
    """Whether retrieved text stands in the prompt, but for what other calls said of it."""
    prompt = fold(" ".join(call.prompt))
    for other in calls:
        said = fold(other.text or "")
        if other is not call and is_telling(said):
            prompt = prompt.replace(said, " ")
    return bool(shown_in(prompt, interaction.lists))


def traits_of_interaction(interaction: Interaction) -> Traits:
    """Return what sampling rules compare of an interaction."""
    root = interaction.root
    session = session_of(interaction.metadata)
    return Traits(
        # As in the sample: a root may show no question where its retriever was asked one.
        question=root.query or next(iter(queries(interaction)), ""),
        # Once, whatever number of rules asks: it is searched in all that models said.
        answer=functools.cache(lambda: answer_of(interaction)),
        tags=interaction.tags,
        metadata={**interaction.metadata, **({"session_id": session} if session else {})},
        error_type=root.error_type,
        latency=seconds(root),
    )


def seconds(root: Run) -> float | None:
    """Seconds that a run took, or None while it is open."""
    # Two readings of the wall clock, which may have been set back in between.
    return None if root.end is None else max(0.0, (root.end - root.start) / 1e9)


def shortened(sample: Sample, *, max_text_chars: int) -> Sample:
    """A redacted sample within the content limits.

    Args:
        sample: One that was assembled with `MARGIN` characters more than the limit, and redacted.
        max_text_chars: Characters kept of each text. Those that were cut lose their ends.
    """
    cut = _Cut(max_text_chars, redacted=True)
    contexts = cut.contexts("contexts", sample.contexts, len(sample.contexts or ()))
    told = replace(
        sample,
        question=cut.text("question", sample.question),
        contexts=contexts,
        answer=cut.optional("answer", sample.answer),
        reference=cut.optional("reference", sample.reference),
        question_id=cut.optional("question_id", sample.question_id),
        session_id=cut.optional("session_id", sample.session_id),
        user_id=cut.optional("user_id", sample.user_id),
        metadata=cut.metadata("metadata", sample.metadata),
    )
    return replace(told, truncated=tuple(dict.fromkeys((*sample.truncated, *cut.fields))))


def _text(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    return value if value is None or isinstance(value, str) else str(value)


def _is_free(key: str) -> bool:
    return key not in OWN_KEYS and key not in _FRAMEWORK_KEYS


class _Cut:
    """Cuts texts to a limit and notes which fields were cut."""

    def __init__(self, limit: int, *, to_redact: bool = False, redacted: bool = False) -> None:
        self._limit = limit
        self._to_redact = to_redact
        self._redacted = redacted
        self.fields: list[str] = []

    def text(self, field: str, text: str) -> str:
        cut = truncate(drop_margin(text) if self._redacted else text, self._limit)
        if isinstance(text, Truncated) or isinstance(cut, Truncated):
            self.fields.append(field)
        return cut if self._to_redact else str(cut)

    def contexts(
        self, field: str, contexts: tuple[Context, ...] | None, most: int
    ) -> tuple[Context, ...] | None:
        if contexts is None:
            return None
        if len(contexts) > most:
            self.fields.append(field)
        return tuple(
            replace(
                context,
                text=self.text(f"{field}[{place}].text", context.text),
                metadata=self.metadata(f"{field}[{place}].metadata", context.metadata),
            )
            for place, context in enumerate(contexts[:most])
        )

    def rewritten(self, asked: list[str], condensed: str | None) -> dict[str, Any]:
        """What retrievers were asked where it is not the question."""
        if condensed is not None:
            return {"condensed_question": self.text("metadata.condensed_question", condensed)}
        texts = [self.text("metadata.retrieval_queries", text) for text in asked]
        return {"retrieval_queries": texts} if texts else {}

    def stages(self, found: list[tuple[str, tuple[Context, ...]]], most: int) -> dict[str, Any]:
        """What stood at earlier stages, such as before a reranker."""
        plain = []
        for source, contexts in found:
            kept = self.contexts("metadata.retrieved", contexts, most) or ()
            documents = [{"id": c.id, "score": c.score, "text": c.text} for c in kept]
            plain.append({"source": source, "documents": documents})
        return {"retrieved": plain} if plain else {}

    def optional(self, field: str, text: str | None) -> str | None:
        return None if text is None else self.text(field, text)

    def metadata(self, field: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Texts cut to the limit; a value that is larger in writing is left out.

        What was put there by us is cut text by text.
        """
        kept: dict[str, Any] = {}
        for key, value in values.items():
            name = f"{field}.{key}"
            if self._redacted and field == "metadata" and key in _OURS:
                kept[key] = self._nested(name, value)
            elif isinstance(value, str):
                kept[key] = self.text(name, value)
            elif isinstance(value, int | float | bool | None) or self._is_small(value):
                kept[key] = value
            else:
                self.fields.append(name)
        return kept

    def _nested(self, field: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(field, value)
        if isinstance(value, Mapping):
            return {key: self._nested(field, item) for key, item in value.items()}
        return [self._nested(field, item) for item in value] if isinstance(value, list) else value

    def _is_small(self, value: Any) -> bool:
        try:
            return len(repr(value)) <= self._limit
        except Exception:  # noqa: BLE001 - the host's edge: an object of its own, left out and noted
            return False
