"""Finds the question and the answer of a request, and the model calls that produced the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from rag_eval_hooks.capture.passages import Prompts, distinct
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.rows import texts_in
from rag_eval_hooks.capture.text_forms import contains_word, fold, is_distinctive

_PREFIX = 160
"""Number of characters. A prompt with this prefix of an output quotes the output."""
_MAX_CALLS = 200
"""Maximum number of model calls per request whose replies we look for in prompts."""
_MIN_OUTPUT = 3


_MAX_QUERIES = 8
_LABEL_ENDS = (":", "\uff1a", ">", "\n")


@dataclass(frozen=True, slots=True)
class AnsweringCalls:
    # prompts of the answering calls, then prompts of the calls that they quote
    calls: Sequence[Run]
    prompts: Sequence[str]
    # the same prompts without the model's texts from earlier turns
    fresh: Sequence[str]
    # prompts of all other successful calls outside retrievers and rerankers
    others: Sequence[str]


def answering_calls(
    interaction: Interaction, answer: str, retrieved: Sequence[str]
) -> AnsweringCalls:
    calls = [run for run in interaction.models if run.prompt]
    calls = [r for r in calls if not (r.within(RunKind.RETRIEVER) or r.within(RunKind.RERANKER))]
    folded = {text: fold(text) for text in {text for run in calls for text in run.prompt}}
    prompts = {run: " ".join([folded[text] for text in run.prompt]) for run in calls}
    distinctive = [text for text in retrieved if is_distinctive(text)]
    answering = _last_calls(fold(answer), prompts)
    made = _Quotes(prompts, distinctive).calls_behind(answering)
    fresh = [
        " ".join([folded[text] for n, text in enumerate(run.prompt) if n not in run.earlier])
        for run in made
    ]
    others = [p for run, p in prompts.items() if run not in made and run.error_type is None]
    return AnsweringCalls(made, [prompts[run] for run in made], fresh, others)


class _Quotes:
    def __init__(self, prompts: Mapping[Run, str], retrieved: Sequence[str]) -> None:
        self._prompts = prompts
        self._retrieved = retrieved
        self._bare: dict[Run, str] = {}
        self._outputs = {call: _outputs(call) for call in list(prompts)[-_MAX_CALLS:]}

    def calls_behind(self, answering: Sequence[Run]) -> list[Run]:
        made = self._with_siblings(answering)
        waiting = list(made)
        while waiting:
            call = waiting.pop(0)
            for one in self._with_siblings(self._quoted_by(call)):
                if one not in made:
                    # A refined answer comes before the call that refined the answer.
                    made.insert(made.index(call) if _are_alike(one, call) else len(made), one)
                    waiting.append(one)
        return made

    def _with_siblings(self, calls: Sequence[Run]) -> list[Run]:
        families = {family for call in calls for family in _families(call)}
        more = {call for call in self._prompts if not families.isdisjoint(_families(call))}
        if more.issubset(calls):
            return list(calls)
        return [call for call in self._prompts if call in calls or call in more]

    def _quoted_by(self, reader: Run) -> list[Run]:
        places = {
            call: min(at)
            for call, outputs in self._outputs.items()
            if call is not reader
            and (at := [n for said in outputs if (n := self._place(said, call, reader)) >= 0])
        }
        return sorted(places, key=places.__getitem__)

    def _place(self, said: str, call: Run, reader: Run) -> int:
        """Return the position at which the reader's prompt quotes the call's output, or -1."""
        prompt = self._prompts[reader]
        if is_distinctive(said):
            said = said[:_PREFIX]
            place = prompt.find(said)
        else:
            # A cheap test first, because most prompts do not contain the output.
            place = contains_word(self._bare_prompt(reader), said) if said in prompt else -1
        # A text from the call's own instructions, such as a fixed refusal, is not a quote.
        is_own = place >= 0 and said in self._prompts[call] and said in self._bare_prompt(call)
        return -1 if is_own else place

    def _bare_prompt(self, call: Run) -> str:
        if call not in self._bare:
            self._bare[call] = _without(self._prompts[call], self._retrieved)
        return self._bare[call]


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
    texts = map(fold, texts_in(call.text or ""))
    return [
        text
        for place, text in enumerate(texts)
        if (is_distinctive(text) if place else _can_be_quoted(text))
    ]


def _can_be_quoted(text: str) -> bool:
    return any(map(str.isalpha, text)) and len(text) + (not text.isascii()) >= _MIN_OUTPUT


def _without(text: str, parts: Sequence[str]) -> str:
    for part in parts:
        text = text.replace(part, " ")
    return text


def _last_calls(answer: str, prompts: Mapping[Run, str]) -> list[Run]:
    """Return the calls whose replies form the answer, or else the last call.

    Failed attempts may have returned equal replies. If the answer contains a reply n times, return
    only the last n calls with this reply.
    """
    outputs = {call: fold(call.text or "") for call in prompts}
    if answer:
        whole = [call for call, output in outputs.items() if answer in output]
        whole = [call for call in whole if outputs[call] == answer] or whole
        if whole:
            return whole[-1:]
        parts: dict[str, list[Run]] = {}
        made_of = _parts_of(answer, set(outputs.values()))
        for call, output in outputs.items():
            if output in made_of:
                parts.setdefault(output, []).append(call)
        if parts:
            said = sorted(parts, key=answer.find)
            return [call for output in said for call in parts[output][-answer.count(output) :]]
    spoke = [call for call in prompts if call.text]
    return spoke[-1:] or list(prompts)[-1:]


def _parts_of(answer: str, outputs: Set[str]) -> Set[str]:
    long = {output for output in outputs if is_distinctive(output) and output in answer}
    rest = _without(answer, sorted(long, key=len, reverse=True)).strip()
    sayable = {output for output in outputs - long if _can_be_quoted(output)}
    short = {output for output in sayable if contains_word(rest, output) >= 0}
    left = _without(rest, sorted(short, key=len, reverse=True)).strip()
    return long | short if short and 2 * len(left) <= len(rest) else long


def question_of(interaction: Interaction) -> tuple[str, str]:
    """Return the question and its source: `recorded`, `input`, `prompt` or `query`.

    If the question is unknown, return "".
    """
    root = interaction.root
    asked = queries(interaction)
    if root.query:
        return root.query, "recorded" if root.kind is RunKind.MANUAL else "input"
    if interaction.asked:
        return _used_input(interaction, asked)
    if left := _left_in_state(interaction, asked):
        # Any of several texts could be the question, so the question is unknown.
        return left[0] if len(left) == 1 else "", "input"
    return next(iter(asked), ""), "query"


def queries(interaction: Interaction) -> list[str]:
    asked = dict.fromkeys(run.query for run in _outer_retrievers(interaction) if run.query)
    return list(asked)[:_MAX_QUERIES]


def _outer_retrievers(interaction: Interaction) -> list[Run]:
    runs = (run for run in interaction.runs[1:] if run.kind is RunKind.RETRIEVER)
    return [run for run in runs if not run.within(RunKind.RETRIEVER)]


def _used_input(interaction: Interaction, asked: Sequence[str]) -> tuple[str, str]:
    if used := _used(interaction, interaction.asked, asked):
        return max(used, key=len), "prompt"
    longest = max(interaction.asked, key=len)
    if asked and not is_distinctive(fold(longest)):
        return asked[0], "query"
    return longest, "input"


def _used(interaction: Interaction, texts: Iterable[str], asked: Sequence[str]) -> list[str]:
    folded = {text: fold(text) for text in texts}
    places = list(map(fold, asked))
    long = {text: one for text, one in folded.items() if is_distinctive(one)}
    if exact := [text for text, one in folded.items() if one in places]:
        return exact
    if part := [text for text, one in long.items() if any(one in place for place in places)]:
        return part
    prompts = [fold("\n".join(run.prompt)) for run in interaction.runs if run.prompt]
    return [text for text, one in long.items() if any(one in prompt for prompt in prompts)]


def _left_in_state(interaction: Interaction, asked: Sequence[str]) -> list[str]:
    if not interaction.kept:
        return []
    lists = interaction.lists_of(Origin.DOCUMENTS)
    documents = {fold(context.text) for found in lists for context in found.contexts}
    documents = set(filter(is_distinctive, documents))
    texts = [text for text in interaction.kept if not any(d in fold(text) for d in documents)]
    return _used(interaction, texts, asked) or texts


def condensed_question(interaction: Interaction, question: str) -> str | None:
    asked = _outer_retrievers(interaction)
    query = next((run.query for run in asked if run.query), "")
    is_alone = all(run.query in (query, "", None) for run in asked)
    if query in ("", question) or not is_alone or any(run.within(RunKind.TOOL) for run in asked):
        return None
    return query


def answer_of(interaction: Interaction) -> str | None:
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
    root = interaction.root
    calls = [run for run in interaction.models if (run.text or "").strip()]
    if root.text and any(holds_reply(root.text, c) or root.text in (c.text or "") for c in calls):
        return root.text
    texts = [text for text in interaction.candidates if text.strip()]
    said = [(c, text) for c in reversed(calls) for text in texts if _is_last_part(text, c)]
    # The root may return a reply twice: with a label and without the label.
    labeled = (text for c, text in said if any(holds_reply(one, c) for one in texts))
    if (parsed := next(labeled, None)) is not None:
        return parsed
    said += [(c, text) for c in reversed(calls) for text in texts if holds_reply(text, c)]
    if len(said) > 1:
        said.sort(key=lambda one: -calls.index(one[0]))
        said = [(c, text) for c, text in said if _is_grounded(c, interaction, calls)] or said
        said = [(c, text) for c, text in said if text in interaction.written] or said
    return said[0][1] if said else None


def holds_reply(text: str, call: Run) -> bool:
    return bool(call.text and call.text in text)


def _is_last_part(text: str, call: Run) -> bool:
    before, found, after = (call.text or "").rpartition(text)
    is_behind = bool(found and before) and not after.strip()
    return is_behind and before.rstrip(" *_").endswith(_LABEL_ENDS)


def _is_grounded(call: Run, interaction: Interaction, calls: Sequence[Run]) -> bool:
    prompt = fold(" ".join(call.prompt))
    for said in filter(is_distinctive, (fold(one.text or "") for one in calls if one is not call)):
        prompt = prompt.replace(said, " ")
    return bool(Prompts([prompt]).place(distinct(interaction.lists)))
