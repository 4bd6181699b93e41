"""Requests of their own below a root that asks several questions, such as a loop over users."""

from __future__ import annotations

from rag_eval_hooks.capture.records import Interaction, Others, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold
from rag_eval_hooks.sample import Status

__all__ = ["split_requests"]


def split_requests(interaction: Interaction) -> list[Interaction]:
    """Return the requests below a root that has neither a question nor an answer of its own.

    Below it two runs or more have both, and where the root was given texts, these are their
    questions. What is returned is left out of the root, which then is no interaction.

    Args:
        interaction: One whose root is about to end.
    """
    root, runs = interaction.root, interaction.runs
    if root.kind is RunKind.MANUAL:
        return []
    requests = [run for run in runs[1:] if _is_request(run)]
    requests = [run for run in requests if not any(map(_is_request, run.ancestors()))]
    if root.query or root.text is not None or len(requests) < 2 or interaction.chosen is not None:
        return []
    asked = {fold(text) for text in interaction.asked}
    if asked and not all(fold(run.query or "") in asked for run in requests):
        return []
    made = [_own(interaction, run, len(requests)) for run in requests]
    for run in runs[1:]:
        run.kind = RunKind.CHAIN
    interaction.lists, interaction.asked, interaction.attempted = [], (), False
    return made


def _is_request(run: Run) -> bool:
    has_ended = run.text is not None or run.error_type is not None
    return run.kind is RunKind.CHAIN and run.query is not None and has_ended


def _own(interaction: Interaction, request: Run, share: int) -> Interaction:
    """Return a request as an interaction, with copies of its runs."""
    runs = [run for run in interaction.runs if run is request or request in run.ancestors()]
    own = interaction.part(runs)
    own.root.outermost = True
    own.opened = request.start
    own.others = Others(active=interaction.others is not None and interaction.others.active)
    own.status = Status.OK if request.error_type is None else Status.ERROR
    own.kept_chars = interaction.kept_chars // share
    own.asked, own.attempted = (), any(run.kind is RunKind.RETRIEVER for run in runs)
    return own
