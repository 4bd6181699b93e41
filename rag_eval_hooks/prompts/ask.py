"""Builds the prompt for one finding, and parses the language model's reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, create_model

from rag_eval_hooks.findings import Finding, Findings, Stance
from rag_eval_hooks.prompts.elements import (
    ReplyElement,
    SpoiledGroupError,
    View,
    content_of,
    number_of,
)
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError, data_block, numbered, reply_json
from rag_eval_hooks.prompts.specs import PROMPTS_VERSION, SPECS, SYSTEM_TEXTS, WORDING, Spec, Unit
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.text.sentences import sentences

TEMPLATES: Final = ("1", "2")
_WHOLE: Final = "whole"
_ROLES: Final = ("answer", "reference")  # candidate and standard; the second template swaps them
_MOST_PROBLEMS: Final = 6
# These findings share one reply schema, because a cached prefix may start with the schema.
WITH_CONTEXTS: Final = tuple(kind for kind, spec in SPECS.items() if Field.CONTEXTS in spec.shows)
_Group: TypeAlias = dict[str, Any]  # an item's value by key, or a `ReplyError` to ask again


class Reading(NamedTuple):
    values: Mapping[Any, Any]
    problems: tuple[str, ...] = ()  # never quote the sample's texts


@dataclass(frozen=True)
class Ask:
    kind: Finding
    sample: Sample
    known: Findings
    shown: tuple[int, ...] | None = None  # numbers of the chunks in the prompt; None means all

    @cached_property
    def spec(self) -> Spec:
        return SPECS[self.kind]

    @cached_property
    def has_contexts(self) -> bool:
        return Field.CONTEXTS in self.spec.shows

    @cached_property
    def texts(self) -> Mapping[Field, Any]:
        shown = ((name, getattr(self.sample, name)) for name in self.spec.shows)
        return {name: value for name, value in shown if value is not None}

    def items(self) -> Mapping[str, str]:
        spec = self.spec
        match spec.unit:
            case Unit.WHOLE:
                return {_WHOLE: ""}
            case Unit.TEMPLATE:
                return dict.fromkeys(TEMPLATES, "")
            case Unit.CHUNK:
                return self.chunks()
            case Unit.SENTENCE:
                return _sentences_of(self.texts.get(spec.text, ""))
            case Unit.TEXT:
                texts = ((name.value, self.texts.get(name, "")) for name in spec.shows[-2:])
                return {name: text for name, text in texts if text.strip()}
        # `a1` is the first claim of the answer, `r1` of the reference, and `e1` the first entity.
        assert spec.about is not None
        found = getattr(self.known, spec.about)
        return {} if isinstance(found, NotScored) else numbered(spec.about.value[0], found)

    def chunks(self) -> dict[str, str]:
        every = numbered("", [context.text for context in self.sample.contexts or ()])
        return {n: every[n] for n in (every if self.shown is None else map(str, self.shown))}

    def question(self, key: str) -> str:
        text = self._purposed(self.spec.question or self._instruction([key]))
        if self.kind is Finding.ACCURACY_RATINGS:
            candidate, standard = _ROLES[:: 1 if key == TEMPLATES[0] else -1]
            return f"Candidate: the {candidate}; standard: the {standard}. {text}"
        return text.replace("{key}", key)

    def prompt(
        self, keys: Sequence[str], problems: Sequence[str] = (), examples: str = ""
    ) -> Prompt:
        kind, spec = self.kind, self.spec
        # The contexts come first in every prompt, so that the prompts share a prefix.
        blocks = [{"question": self.sample.question, "chunks": self.chunks()}]
        documents = [*(blocks if self.has_contexts else ()), self._document(keys)]
        lines = [data_block(document) for document in documents if document]
        lines += ["", WORDING["leads"][spec.call], f"- {kind.value}: {self._instruction(keys)}"]
        if len(keys) < len(self.items()) and spec.unit is not Unit.TEMPLATE:
            lines.append(f"- {kind.value}: only for {', '.join(keys)}.")
        if problems:
            listed = "; ".join(problems[:_MOST_PROBLEMS])
            again = "Give every requested item."
            lines += ["", f"Your last reply could not be used: {listed}. {again}"]
        return Prompt(
            system=f"{SYSTEM_TEXTS[spec.system]}\n\n{examples}".rstrip(),
            user="\n".join(lines),
            name="verdicts" if self.has_contexts else spec.call.value,
            model=_reply_model(WITH_CONTEXTS if self.has_contexts else (kind,)),
            shape=_reply_model((kind,)),
            version=PROMPTS_VERSION,
        )

    def read(self, keys: Sequence[str], reply: str) -> Reading:
        objects, cut = reply_json(reply, self.kind.value)
        drafts = [one for one in objects if self.kind in one] or objects[-1:]
        *earlier, last = [self._group(one.get(self.kind), keys) for one in drafts]
        found = {key: _unless_differing(key, last, earlier) for key in keys}
        values = {key: one for key, one in found.items() if not isinstance(one, ReplyError)}
        problems = [str(one) for one in found.values() if isinstance(one, ReplyError)]
        flaws = ((key, getattr(one, "warning", "")) for key, one in values.items())
        problems += [f"{key}: {flaw}" for key, flaw in flaws if flaw]
        listed = tuple(f"{self.kind.value}: {one}" for one in dict.fromkeys(problems))
        return Reading(values, ("the reply was cut off",) if cut else listed)

    def content(self, values: Mapping[str, Any]) -> Any:
        spec = self.spec
        if spec.unit is Unit.TEMPLATE:
            return tuple(map(values.get, TEMPLATES))
        if spec.unit is Unit.TEXT:
            # A blank text counts as indistinct, but an absent text does not. Neither needs a call.
            return Stance(*(bool(values.get(n, n in self.texts)) for n in spec.shows[-2:]))
        if spec.unit is Unit.SENTENCE:
            claims = [claim for key in self.items() for claim in values.get(key, ())]
            return tuple(dict.fromkeys(claims))
        if spec.unit is Unit.WHOLE:
            return values[_WHOLE]
        unread = spec.element.unread(len(self.sample.contexts or ()))
        return tuple(values.get(key, unread) for key in self.items())

    def _group(self, group: Any, keys: Sequence[str]) -> _Group:
        view = self._view()
        try:
            if (id_key := self.spec.unit.key) is None:
                return dict.fromkeys(keys, content_of(self.spec.element, group, view))
            if not isinstance(group, list):
                raise ReplyError("the value is missing or not a list")
            named: _Group = {}
            for element in group:
                if isinstance(element, Mapping) and id_key in element:
                    name = number_of(element[id_key])
                    if str(name) not in keys:
                        raise SpoiledGroupError(f"the list has an unknown {id_key}")
                    if str(name) in named:
                        raise SpoiledGroupError(f"{name} occurs twice")
                    named[str(name)] = element
            return {key: self._one(key, named, view) for key in keys}
        except ReplyError as error:
            return dict.fromkeys(keys, error)

    def _one(self, key: str, named: _Group, view: View) -> Any:
        if key not in named:
            return ReplyError(f"{key} is missing")
        try:
            return content_of(self.spec.element, named[key], view)
        except SpoiledGroupError:
            raise
        except ReplyError as error:
            return ReplyError(f"{key}: {error}")

    def _view(self) -> View:
        if not self.has_contexts:
            return View({1: self.texts.get(self.spec.text, "")})
        texts = {int(number): text for number, text in self.chunks().items()}
        return View(texts, len(self.sample.contexts or ()))

    def _document(self, keys: Sequence[str]) -> dict[str, Any]:
        spec, items = self.spec, self.items()
        hidden = (Field.CONTEXTS, Field.QUESTION) if self.has_contexts else ()
        names = [name for name in self.texts if name not in hidden]
        if spec.unit is Unit.TEXT:
            names = [name for name in names if name in (Field.QUESTION, *keys)]
        document: dict[str, Any] = {name.value: self.texts[name] for name in names}
        if spec.unit is Unit.SENTENCE:
            document[spec.text.value] = items
        elif spec.about is not None:
            document[spec.about.value] = {key: items[key] for key in items if key in keys}
        elif self.kind is Finding.ACCURACY_RATINGS:
            # The names are neutral. The second template swaps the two texts.
            question, *texts = document.values()
            candidate, standard = reversed(texts) if keys[0] == TEMPLATES[1] else texts
            return {"question": question, "candidate": candidate, "standard": standard}
        return document

    def _instruction(self, keys: Sequence[str]) -> str:
        text = self.spec.instruction
        if isinstance(text, list):
            return text[TEMPLATES.index(keys[0])]
        return self._purposed(text)

    def _purposed(self, text: str) -> str:
        seen = [name.value for name in self.spec.shows[2:] if name in self.texts]
        purpose = f"arrive at the {seen[0]}" if seen else "answer the question"
        return text.replace("{purpose}", purpose)


def _unless_differing(key: str, group: _Group, earlier: Iterable[_Group]) -> Any:
    content = group[key]
    said = [one for other in earlier if not isinstance(one := other[key], ReplyError)]
    if isinstance(content, ReplyError) or all(one == content for one in said):
        return content
    return ReplyError(f"{key} has two different verdicts")


@lru_cache(maxsize=64)
def _reply_model(kinds: tuple[Finding, ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for kind in kinds:
        spec = SPECS[kind]
        kept = list[spec.element] if spec.unit.key else spec.element  # type: ignore[name-defined]
        is_optional = kinds == WITH_CONTEXTS and not spec.unit.key
        fields[kind.value] = (kept | None if is_optional else kept, ...)
    return create_model("Reply", __base__=ReplyElement, **fields)


@lru_cache(maxsize=64)  # `items` and `content` split the same text
def _sentences_of(text: str) -> Mapping[str, str]:
    return numbered("", sentences(text)) if text.strip() else {}
