"""Finds the question and the answer of a request, and the model calls that produced the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rag_eval_hooks.capture.copied import json_in, texts_in
from rag_eval_hooks.capture.passages import Prompts, distinct
from rag_eval_hooks.capture.readings import named_answer
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.text_forms import (
    can_answer,
    contains_word,
    fold,
    is_distinctive,
    is_translation,
)

_PREFIX = 160
"""A prompt quotes an output if the prompt contains this many leading characters of the output."""
_MAX_CALLS = 200
"""Number of a request's last model calls whose replies capture looks for in prompts."""
_LABEL_ENDS = (":", "\uff1a", ">", "\n")
_MIN_OUTPUT = 3
_MAX_QUERIES = 8


class AnsweringCalls:
    def __init__(self, interaction: Interaction, answer: str, retrieved: Sequence[str]) -> None:
        asked = [run for run in interaction.models if run.prompt]
        calls = [r for r in asked if not r.within(RunKind.RETRIEVER, RunKind.RERANKER)]
        self._folded = {text: fold(text) for text in {t for run in calls for t in run.prompt}}
        self._prompts = {run: " ".join([self._folded[t] for t in run.prompt]) for run in calls}
        self._retrieved = [text for text in retrieved if is_distinctive(text)]
        # by output: the retrieved texts that contain the output
        self._containing: dict[str, list[str]] = {}
        self._outputs = {call: _outputs(call) for call in calls[-_MAX_CALLS:]}
        # Calls whose replies are the answer, and calls whose replies the prompts quote.
        self.calls = self._with_quoted(_last_calls(fold(answer), self._prompts))
        self.prompts = [self._prompts[run] for run in self.calls]
        # prompts of all other successful calls
        self.others = [
            prompt
            for run, prompt in self._prompts.items()
            if run not in self.calls and run.error_type is None
        ]

    def fresh_prompts(self) -> list[str]:
        parts = ((run.prompt, run.earlier) for run in self.calls)
        return [
            " ".join([self._folded[text] for n, text in enumerate(prompt) if n not in earlier])
            for prompt, earlier in parts
        ]

    def _with_quoted(self, answering: Sequence[Run]) -> list[Run]:
        made = self._with_siblings(answering)
        waiting = list(made)
        while waiting:
            call = waiting.pop(0)
            quoted = self._quoted_by(call)
            for one in self._with_siblings(quoted):
                if one not in made:
                    # A draft comes before the call that refines the draft.
                    is_draft = quoted == [one] and _are_alike(one, call)
                    made.insert(made.index(call) if is_draft else len(made), one)
                    waiting.append(one)
        return made

    def _with_siblings(self, calls: Sequence[Run]) -> list[Run]:
        families = {family for call in calls for family in _families(call)}
        more = {call for call in self._prompts if not families.isdisjoint(_families(call))}
        return [call for call in self._prompts if call in calls or call in more]

    def _quoted_by(self, reader: Run) -> list[Run]:
        places = {
            call: min(at)
            for call, outputs in self._outputs.items()
            if call is not reader
            and (at := [n for said in outputs if (n := self._find_quote(said, call, reader)) >= 0])
        }
        return sorted(places, key=places.__getitem__)

    def _find_quote(self, said: str, call: Run, reader: Run) -> int:
        prompt = self._prompts[reader]
        if is_distinctive(said):
            said = said[:_PREFIX]
            place = prompt.find(said)
        else:
            place = contains_word(self._without_retrieved(prompt, said), said)
        # A text from the call's own instructions, such as a fixed refusal, is not a quote.
        is_own = place >= 0 and said in self._without_retrieved(self._prompts[call], said)
        return -1 if is_own else place

    def _without_retrieved(self, prompt: str, said: str) -> str:
        if said not in prompt:
            return prompt
        if said not in self._containing:
            self._containing[said] = [text for text in self._retrieved if said in text]
        for text in self._containing[said]:
            prompt = prompt.replace(text, " ")
        return prompt


def _families(call: Run) -> Iterator[object]:
    for outer in call.ancestors():
        if outer.joins:
            yield outer
        if outer.batch is not None:
            yield outer.parent, outer.batch


def _are_alike(one: Run, other: Run) -> bool:
    if one.name != other.name or one.parent is None or other.parent is None:
        return False
    outer, others = one.parent, other.parent
    return outer is others or (outer.name == others.name and outer.parent is others.parent)


def _outputs(call: Run) -> list[str]:
    first, *others = [*map(fold, texts_in(call.text or ""))]
    # An application may add entries to an object, such as the question of a JSON answer.
    first = first.removeprefix("{").removesuffix("}").strip()
    can_be_quoted = (
        any(map(str.isalpha, first)) and len(first) + (not first.isascii()) >= _MIN_OUTPUT
    )
    return [*([first] if can_be_quoted else ()), *filter(is_distinctive, others)]


def _last_calls(answer: str, prompts: Mapping[Run, str]) -> list[Run]:
    outputs = {call: fold(call.text or "") for call in prompts}
    whole = [call for call, output in outputs.items() if answer and answer in output]
    if whole:
        return ([call for call in whole if outputs[call] == answer] or whole)[-1:]
    parts: dict[str, list[Run]] = {}
    said = {output for output in outputs.values() if is_distinctive(output) and output in answer}
    if not said:
        short = {one for one in outputs.values() if one and contains_word(answer, one) >= 0}
        said = short if 2 * sum(map(len, short)) >= len(answer) else said
    for call, output in outputs.items():
        if output in said:
            parts.setdefault(output, []).append(call)
    if parts:
        # A retry may repeat a reply that the answer contains only once.
        listed = sorted(parts, key=answer.find)
        return [call for output in listed for call in parts[output][-answer.count(output) :]]
    return ([call for call in prompts if call.text] or list(prompts))[-1:]


def question_of(interaction: Interaction) -> tuple[str, str]:
    """Return the question or an empty text, and the value of `Sample.question_source`."""
    root = interaction.root
    asked = queries(interaction)
    if root.query:
        return root.query, "recorded" if root.kind is RunKind.MANUAL else "input"
    if texts := interaction.asked:
        longest = max(texts, key=len)
        if used := _used(interaction, texts, asked):
            return max(used, key=len), "prompt"
        is_query = asked and not is_distinctive(fold(longest))
        return (asked[0], "query") if is_query else (longest, "input")
    if left := interaction.kept:
        # If there are several texts, each could be the question, so the question is unknown.
        return left[0] if len(left) == 1 else "", "input"
    return next(iter(asked), ""), "query"


def queries(interaction: Interaction) -> list[str]:
    searches = [run for run in interaction.runs[1:] if run.kind is RunKind.RETRIEVER and run.query]
    found = [run.query or "" for run in searches if not run.within(RunKind.RETRIEVER)]
    return list(dict.fromkeys(found))[:_MAX_QUERIES]


def _used(interaction: Interaction, texts: Sequence[str], asked: Sequence[str]) -> list[str]:
    prompts = ["\n".join(run.prompt) for run in interaction.runs if run.prompt]
    for places in (asked, prompts):
        folded = list(map(fold, places))
        if used := [text for text in texts if _is_in(fold(text), folded)]:
            return used
    return []


def _is_in(text: str, places: Sequence[str]) -> bool:
    return text in places or (is_distinctive(text) and any(text in place for place in places))


def answer_of(interaction: Interaction) -> str | None:
    root = interaction.root
    if root.text is not None and not interaction.candidates:
        return root.text
    if root.kind is RunKind.MANUAL:
        gave = [run for run in interaction.runs if run.parent is root]
        gave = [run for run in gave if run.text is not None or run.text_unknown]
        # Check the last calls first, because a check reads all earlier replies.
        answering = (run for run in reversed(gave) if may_answer(run, gave))
        last = next(answering, gave[-1] if gave else None)
        answer = None if last is None else last.text
    else:
        answer = _said(interaction)
    return next((text for text in (answer, root.text) if text is not None), interaction.structured)


def _said(interaction: Interaction) -> str | None:
    calls = [run for run in interaction.models if (run.text or "").strip()]
    texts = [text for text in interaction.candidates if text.strip()]
    pairs = [(call, text) for call in reversed(calls) for text in texts]
    # A parser may have removed the text before the answer.
    said = [(c, text) for c, text in pairs if holds_reply(text, c)]
    said = said or [(c, text) for c, text in pairs if (c.text or "").rstrip().endswith(text)]
    if len(said) > 1:
        told = [text for _, text in said]
        said = [
            (c, text)
            for c, text in said
            if _is_grounded(c, interaction, calls) or _translates(c, text, told)
        ] or said
        said = [(c, t) for c, t in said if can_answer(c.text or "", _quoted(c, told))] or said
        said = [(c, text) for c, text in said if text in interaction.written] or said
    answer = said[0][1] if said else _answer_in_object(interaction, texts)
    # If the root returns the reply with and without its label, use the text without the label.
    return next((text for text in texts if answer and _is_labeled(text, answer, calls)), answer)


def _is_labeled(text: str, reply: str, calls: Sequence[Run]) -> bool:
    before, found, after = reply.rpartition(text)
    # In a report, the text before the last section contains other replies.
    if any(can_answer(call.text or "") and holds_reply(before, call) for call in calls):
        return False
    return bool(found) and not after.strip() and before.rstrip(" *_").endswith(_LABEL_ENDS)


def _translates(call: Run, text: str, told: Sequence[str]) -> bool:
    quoted = (one for one in _quoted(call, told) if one != text)
    return any(is_translation(text, one) for one in quoted)


def _answer_in_object(interaction: Interaction, texts: Sequence[str]) -> str | None:
    models = interaction.models if interaction.structured is None else []
    objects = {call: [json_in(call.text or ""), *call.tool_arguments] for call in models}
    parts = {call: set(texts_in(held)).intersection(texts) for call, held in objects.items()}
    for call, said in reversed(parts.items()):
        # A later step may have replaced the reply, for example with a fixed refusal.
        is_last = not interaction.written or not said.isdisjoint(interaction.written)
        if is_last and any(map(can_answer, said)) and _is_grounded(call, interaction, models):
            others = (text for one, more in parts.items() if one is not call for text in more)
            if _quoted(call, others):
                return None  # The reply may be a check of another reply.
            return said.pop() if len(said) == 1 else named_answer(next(filter(None, objects[call])))
    return None


def holds_reply(text: str, call: Run) -> bool:
    return bool(call.text and call.text in text)


def may_answer(run: Run, gave: Sequence[Run]) -> bool:
    before = [one.text or "" for one in gave if one.start < run.start]
    if run.kind is not RunKind.MODEL or not before:
        return True
    if quoted := _quoted(run, before):
        # A call that only checks an earlier reply does not answer the question.
        return can_answer(run.text or "", quoted)
    interaction = run.interaction
    return not interaction.lists or _is_grounded(run, interaction, interaction.models)


def _quoted(call: Run, texts: Iterable[str]) -> list[str]:
    prompt = fold(" ".join(call.prompt))
    return [text for text in texts if is_distinctive(said := fold(text)) and said in prompt]


def _is_grounded(call: Run, interaction: Interaction, calls: Sequence[Run]) -> bool:
    prompt = fold(" ".join(call.prompt))
    for said in filter(is_distinctive, (fold(one.text or "") for one in calls if one is not call)):
        prompt = prompt.replace(said, " ")
    return bool(Prompts([prompt]).place(distinct(interaction.lists)))
