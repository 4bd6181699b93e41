"""Findings as questions to a language model: items, prompt, reading, content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, create_model

from rag_eval_hooks.findings import (
    UNREAD,
    ChunkRelevance,
    ClaimVerdict,
    Finding,
    Findings,
    Stance,
    Support,
    Verdict,
)
from rag_eval_hooks.prompts.elements import (
    ChunkSupport,
    RelevanceElement,
    ReplyElement,
    SupportElement,
    View,
)
from rag_eval_hooks.prompts.prompt import (
    Items,
    Prompt,
    data_block,
    example_of,
    numbered,
    schema_of,
)
from rag_eval_hooks.prompts.reading import (
    Group,
    Reading,
    item_of,
    parse,
    read_group,
    read_reply,
)
from rag_eval_hooks.prompts.specs import SPECS, Spec, Unit
from rag_eval_hooks.prompts.wording import INSTRUCTIONS, LEADS, SYSTEM_TEXTS
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.text.sentences import sentences

WHOLE: Final = "whole"
"""The one key of a finding that is given as a whole or not at all."""
TEMPLATES: Final = ("1", "2")
"""Keys of the two templates of a grade."""
_MOST_PROBLEMS: Final = 6


@dataclass(frozen=True, slots=True)
class Ask:
    """Findings of one sample as one question, of which any part can be asked for.

    Items are sentences by their numbers, `a1`... for answer claims, `r1`... for reference claims,
    `e1`... for entities, and plain numbers for chunks, each counted from 1. A list or a rating is
    one item, as half of it is none. A grade has an item for each of its two templates, and a
    prompt is for one of them.

    Attributes:
        kinds: The findings, in the order of `SPECS`; findings that see the same fields.
        sample: The sample, of which only the fields in the findings' rows are shown.
        known: Holds the items to judge.
        shown: Numbers of the chunks to show; all where it is None. They keep their numbers.
        partial: Whether the other chunks are shown elsewhere: then the judge also says which
            chunks state a part of a claim.
        unwanted: Findings that share the prompt and are not asked for again.
    """

    kinds: tuple[Finding, ...]
    sample: Sample
    known: Findings
    shown: tuple[int, ...] | None = None
    partial: bool = False
    unwanted: frozenset[Finding] = frozenset()

    @property
    def has_contexts(self) -> bool:
        """Whether the prompt shows the contexts."""
        return any(Field.CONTEXTS in SPECS[kind].shows for kind in self.kinds)

    def items(self) -> Items:
        """Return all items that a judge has to be asked for."""
        every = {kind: tuple(self._keys(kind)) for kind in self.kinds}
        return {kind: keys for kind, keys in every.items() if keys}

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for a part of the items.

        Args:
            items: A part of `items()`; of a grade, one template.
            problems: Problems of the last reply.
        """
        spec = SPECS[next(iter(items))]
        contexts = ""
        if self.has_contexts:
            # It stands first and is equal in every prompt with contexts.
            contexts = data_block({"question": self.sample.question, "chunks": self._chunks()})
        document = self._document(items)
        lines = [contexts] if contexts else []
        lines += [data_block(document)] if document else []
        lines += ["", LEADS[spec.call]]
        lines += [f"- {kind.value}: {self._instruction(kind, items[kind])}" for kind in items]
        lines += self._restrictions(items)
        if problems:
            listed = "; ".join(problems[:_MOST_PROBLEMS])
            lines += ["", f"Your last reply could not be used: {listed}. {_AGAIN}"]
        model = _reply_model(_WITH_CONTEXTS if contexts else tuple(items))
        example = example_of(schema_of(_reply_model(tuple(items))))
        name = "verdicts" if contexts else spec.call.value
        system = SYSTEM_TEXTS[spec.system]
        return Prompt(system, "\n".join(lines), name, model, example, len(contexts))

    def read(self, items: Items, reply: str) -> Reading:
        """Read the contents that fit, by item.

        Raises:
            ReplyError: The reply holds no JSON object.
        """
        inner = [name for kind in items for name in _inner_names(SPECS[kind].element)]
        return read_reply(items, reply, self._group, inner)

    def _group(self, kind: Finding, group: Any, asked: tuple[str, ...]) -> Group:
        spec = SPECS[kind]
        if spec.unit is Unit.TEMPLATE:
            return dict.fromkeys(asked, item_of(parse(spec.element, group)))
        view = self._view(spec)
        if spec.unit.key is None:
            return {WHOLE: item_of(parse(spec.element, group).content(view))}
        return read_group(
            group, spec.unit.key, asked, lambda one: parse(spec.element, one).content(view)
        )

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Any:
        """Make the finding from the contents of its items; an item without one is unsure."""
        spec = SPECS[kind]
        if spec.unit is Unit.TEMPLATE:
            return tuple(map(values.get, TEMPLATES))
        if spec.unit is Unit.TEXT:
            # A blank text is indistinct, an absent one is not, and neither is asked about.
            names = (Field.ANSWER, spec.text)
            return Stance(*(bool(values.get(n, self._text(n) is not None)) for n in names))
        if spec.unit is Unit.SENTENCE:
            claims = [claim for key in self._keys(kind) for claim in values.get(key, ())]
            return tuple(dict.fromkeys(claims))
        if spec.unit is Unit.WHOLE:
            return values[WHOLE]
        return tuple(self._verdict(spec, values.get(key)) for key in self._keys(kind))

    def _verdict(self, spec: Spec, content: Any) -> Support | Verdict | ChunkRelevance:
        chunks = len(self.sample.contexts or ())
        if isinstance(content, ChunkSupport):
            return content.support(chunks)
        if isinstance(content, Verdict | ChunkRelevance):
            return content
        if spec.element is SupportElement:
            return Support((False,) * chunks, reason=UNREAD, verdict=ClaimVerdict.UNSURE)
        if spec.element is RelevanceElement:
            return ChunkRelevance(False, 0.0, UNREAD, sure=False)
        return Verdict(False, UNREAD, sure=False)

    def _keys(self, kind: Finding) -> Sequence[str]:
        spec = SPECS[kind]
        if spec.unit is Unit.SENTENCE:
            return tuple(_sentences_of(self._text(spec.text) or ""))
        if spec.unit is Unit.TEXT:
            names = (Field.ANSWER, spec.text)
            return tuple(name for name in names if (self._text(name) or "").strip())
        if spec.unit is Unit.TEMPLATE:
            return TEMPLATES
        if spec.unit is Unit.WHOLE:
            return (WHOLE,)
        return tuple(self._chunks() if spec.unit is Unit.CHUNK else self._items(spec))

    def _items(self, spec: Spec) -> Mapping[str, str]:
        """Return the items that a finding judges, by their ids."""
        assert spec.about is not None
        found = getattr(self.known, spec.about)
        return {} if isinstance(found, NotScored) else numbered(spec.about.value[0], found)

    def _chunks(self) -> dict[str, str]:
        """Return the chunks to show, by number."""
        every = numbered("", [context.text for context in self.sample.contexts or ()])
        return {n: every[n] for n in (every if self.shown is None else map(str, self.shown))}

    def _text(self, name: Field) -> str | None:
        text: str | None = getattr(self.sample, name)
        return text

    def _view(self, spec: Spec) -> View:
        """Return the texts that a verdict may quote."""
        if Field.CONTEXTS in spec.shows:
            return View({int(n): text for n, text in self._chunks().items()}, self.partial)
        return View({1: self._text(spec.text) or ""} if spec.about else {})

    def _document(self, items: Items) -> dict[str, Any]:
        """Return the texts that these items need, without the contexts and their question."""
        document: dict[str, Any] = {}
        apart = {Field.CONTEXTS, Field.QUESTION} if self.has_contexts else {Field.CONTEXTS}
        for kind, keys in items.items():
            spec = SPECS[kind]
            for name in spec.shows:
                is_open = spec.unit is not Unit.TEXT or name in (Field.QUESTION, *keys)
                if name not in apart and is_open and (text := self._text(name)) is not None:
                    document.setdefault(name.value, text)
            if spec.unit is Unit.SENTENCE:
                document[spec.text.value] = _sentences_of(self._text(spec.text) or "")
            elif spec.about is not None:
                shown = {key: text for key, text in self._items(spec).items() if key in keys}
                document[spec.about.value] = document.get(spec.about.value, {}) | shown
        if Finding.ACCURACY_RATINGS in items:
            return self._anonymous(swapped=items[Finding.ACCURACY_RATINGS] == TEMPLATES[1:])
        return document

    def _anonymous(self, *, swapped: bool) -> dict[str, Any]:
        """Name answer and reference neutrally; the second template swaps them."""
        texts = [self.sample.answer, self.sample.reference]
        candidate, standard = reversed(texts) if swapped else texts
        return {"question": self.sample.question, "candidate": candidate, "standard": standard}

    def _instruction(self, kind: Finding, keys: tuple[str, ...]) -> str:
        spec, text = SPECS[kind], INSTRUCTIONS[kind]
        if spec.unit is Unit.TEMPLATE:
            return str(text[TEMPLATES.index(keys[0])])
        if spec.unit is Unit.CHUNK:
            seen = [name.value for name in spec.shows[2:] if self._text(name) is not None]
            purpose = f"arrive at the {seen[0]}" if seen else "answer the question"
            return str(text).replace("{purpose}", purpose)
        is_partial = self.partial and spec.element is SupportElement
        return f"{text} {INSTRUCTIONS['elsewhere']}" if is_partial else str(text)

    def _restrictions(self, items: Items) -> list[str]:
        """Make a line for each finding of which only some items are asked for."""
        return [
            f"- {kind.value}: only for {', '.join(keys)}."
            for kind, keys in items.items()
            if len(keys) < len(self._keys(kind)) and SPECS[kind].unit is not Unit.TEMPLATE
        ]


_AGAIN: Final = "Give all that is asked for above."
_WITH_CONTEXTS: Final = tuple(kind for kind, spec in SPECS.items() if Field.CONTEXTS in spec.shows)
"""All prompts with contexts share one schema: a provider may put it before the system text."""


@lru_cache(maxsize=64)
def _reply_model(kinds: tuple[Finding, ...]) -> type[BaseModel]:
    """Return the model of a reply about these findings: a list of elements for each, or one."""
    fields: dict[str, Any] = {}
    for kind in kinds:
        spec = SPECS[kind]
        kept = list[spec.element] if spec.unit.key else spec.element  # type: ignore[name-defined]
        is_optional = kinds == _WITH_CONTEXTS and not spec.unit.key
        fields[kind.value] = (kept | None if is_optional else kept, ...)
    return create_model("Reply", __base__=ReplyElement, **fields)


def _inner_names(element: Any) -> frozenset[str]:
    """Return the names of other findings that are also keys within an element."""
    is_model = isinstance(element, type) and issubclass(element, BaseModel)
    return frozenset(element.model_fields if is_model else ()) & {kind.value for kind in Finding}


@lru_cache(maxsize=64)  # items, prompt and contents are all made by sentence
def _sentences_of(text: str) -> Mapping[str, str]:
    return numbered("", sentences(text)) if text.strip() else {}
