"""Root runs that the application called by hand: which retrieval a model's prompt shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from rag_eval_hooks.capture.places import Nearness, Place
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.replies import texts_in
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, is_distinctive_text
from rag_eval_hooks.sample import Status

__all__ = [
    "HandCall",
    "answers",
    "asks_nothing",
    "is_step",
    "picks_tool",
    "retrievals_shown",
    "stands_in",
]

_STEPS = (RunKind.RETRIEVER, RunKind.RERANKER, RunKind.EMBEDDING, RunKind.TOOL)
_BEGINNING = 240
"""Characters of a document that a prompt must hold where its end was cut."""
_MOST_ADDED = 0.2
"""Share of a text beside documents that a formatter adds."""


class HandCall:
    """One ended root run that is no interaction by itself: a retrieval, or calls of a model.

    Args:
        interaction: What was recorded below it.
        place: Its caller.
    """

    def __init__(self, interaction: Interaction, place: Place) -> None:
        self.interaction = interaction
        self.place = place
        self.root = interaction.root
        self.retrieves = interaction.retrieves is not False and is_step(interaction)
        self.retrievals: tuple[HandCall, ...] = ()

    @property
    def end(self) -> int:
        """Nanoseconds since the epoch; 0 while it is open."""
        return self.root.end or 0

    @property
    def models(self) -> list[Run]:
        """Calls of models, but for those of a retriever."""
        return [
            run
            for run in self.interaction.runs
            if run.kind is RunKind.MODEL and run.prompt and not run.within(RunKind.RETRIEVER)
        ]

    @cached_property
    def prompt(self) -> str:
        """All that its models were given, folded."""
        return fold("\n".join(text for run in self.models for text in run.prompt))

    @cached_property
    def query(self) -> str:
        """Question to its retriever, folded."""
        return fold(self.root.query or "")

    @property
    def text(self) -> str:
        """Output of the root, or of its last model."""
        models = self.models
        text = self.root.text if self.root.text is not None or not models else models[-1].text
        return text or ""

    @cached_property
    def documents(self) -> frozenset[str]:
        """Texts that a retrieval gave."""
        lists = self.interaction.lists
        return frozenset(context.text for found in lists for context in found.contexts)

    def nearness(self, other: HandCall) -> Nearness:
        """Return how surely two calls belong to one request, by span, task and thread."""
        return self.place.nearness(other.place)


def is_step(interaction: Interaction) -> bool:
    """Return whether a root is a step of something larger that the application does by hand.

    A retriever, a reranker, a tool without a model, or a chain that only formats documents, which
    is an extractive answer where the application asked for its capture by itself.
    """
    root = interaction.root
    if root.kind in (RunKind.RETRIEVER, RunKind.RERANKER, RunKind.EMBEDDING):
        return True
    if any(run.kind is RunKind.MODEL for run in interaction.runs):
        return False
    formats = root.kind is RunKind.CHAIN and not interaction.passed and _only_formats(interaction)
    return root.kind in _STEPS or formats


def answers(interaction: Interaction) -> bool:
    """Return whether a model spoke in a root that ended well."""
    spoke = any(run.kind is RunKind.MODEL and run.text for run in interaction.runs)
    return spoke and interaction.status is Status.OK and not is_step(interaction)


def asks_nothing(interaction: Interaction) -> bool:
    """Return whether a root has no question, no model and no retriever, as one that indexes."""
    kinds = (RunKind.RETRIEVER, RunKind.MODEL)
    root, ended_well = interaction.root, interaction.status is Status.OK
    return ended_well and not root.query and not any(r.kind in kinds for r in interaction.runs)


def _only_formats(interaction: Interaction) -> bool:
    """Return whether the output consists of documents, put together as one text."""
    if not interaction.root.text or interaction.chosen is not None:
        return False
    text = rest = fold(interaction.root.text)
    for found in interaction.lists:
        for context in found.contexts:
            rest = rest.replace(fold(context.text), "")
    return len(rest) <= _MOST_ADDED * len(text)


def retrievals_shown(call: HandCall, retrievals: Sequence[HandCall]) -> tuple[HandCall, ...]:
    """Return the retrievals whose documents a call was shown, in their order.

    Of several that gave one document it is the one whose question stands in the prompt, then the
    nearest, then the latest. Where that leaves two questions, it is none of them.
    """
    # A chain may call its retriever itself, without a word of where it stands.
    began = max((run.start for run in call.models), default=call.root.start)
    before = [one for one in retrievals if one.end <= began and call.nearness(one) >= 0]
    chosen = {id(one): one for one in _of_short_texts(call, before)}
    for text in {text for one in before for text in one.documents if stands_in(text, call.prompt)}:
        giver = _giver(call, [one for one in before if text in one.documents])
        if giver is not None:
            chosen[id(giver)] = giver
    return tuple(one for one in before if id(one) in chosen)


def picks_tool(call: HandCall, retrievals: Sequence[HandCall]) -> bool:
    """Return whether a model gave one of the tools that retrieved its arguments."""
    tools = [one.query for one in retrievals if one.root.kind is RunKind.TOOL]
    given = [
        [fold(text) for text in texts_in(arguments) if text[:1] not in ("{", "[")]
        for run in call.models
        for arguments in run.tool_arguments
    ]
    return any(texts and all(text in tool for text in texts) for texts in given for tool in tools)


def stands_in(text: str, prompt: str) -> bool:
    """Return whether a prompt holds a document, or a long beginning of it, in any form.

    Stricter than the search for contexts: a few equal words must not join two requests.

    Args:
        text: Of the document.
        prompt: Folded.
    """
    if not is_distinctive_text(text):
        return False
    return fold(text)[:_BEGINNING] in prompt


def _giver(call: HandCall, givers: Sequence[HandCall]) -> HandCall | None:
    def asked(one: HandCall) -> bool:
        return bool(one.query) and one.query in call.prompt

    best = max(givers, key=lambda one: (asked(one), call.nearness(one), one.end), default=None)
    if best is None or asked(best) or call.nearness(best) is Nearness.LINE:
        return best
    later = (one for one in givers if one.end >= best.end and one.query != best.query)
    return None if next(later, None) is not None else best


def _of_short_texts(call: HandCall, retrievals: Sequence[HandCall]) -> Iterator[HandCall]:
    """Yield near retrievals of texts too short to be searched, or of none, by their question."""
    for one in retrievals:
        if one.query and one.query in call.prompt and call.nearness(one) > 0:
            texts = set(map(fold, one.documents))
            if not any(map(is_distinctive, texts)) and all(text in call.prompt for text in texts):
                yield one
