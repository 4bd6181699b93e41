"""Events of a framework, one of which is lost, doubled, late or malformed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from rag_eval_hooks import Sample

Spoil = Callable[[str, Callable[..., None], Any, dict[str, Any]], None]
"""Passes an event on with a fault of the framework's own: its name, the event, its arguments."""


class Unreadable(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


class Faults:
    def __init__(self, number: int, fault: str, spoil: Spoil) -> None:
        self.left = number
        self.late: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.kinds: list[str] = []
        self._fault = fault
        self._spoil = spoil

    def pass_on(self, kind: str, event: Callable[..., None], /, *args: Any, **more: Any) -> None:
        self.kinds.append(kind)
        self.left -= 1
        if self.left == -1:
            self._break(event, args, more)
            return
        event(*args, **more)
        while self.late:
            self.late.pop()()

    def _break(self, event: Callable[..., None], args: Any, more: dict[str, Any]) -> None:
        if self._fault == "doubled":
            event(*args, **more)
            event(*args, **more)
        elif self._fault == "late":
            self.late.append(lambda: event(*args, **more))
        elif self._fault == "after the end":
            self.after.append(lambda: event(*args, **more))
        elif self._fault != "lost":
            self._spoil(self._fault, event, args, more)


def judged(
    sample: Sample,
    question: str,
    contexts: Sequence[str],
    answers: Collection[str | None],
    *,
    in_any_order: bool = False,
) -> str:
    if sample.status != "ok":
        return "absent"
    if sample.cut_parts:
        return "marked"
    texts = None if sample.contexts is None else [one.text for one in sample.contexts]
    if in_any_order and texts is not None and set(texts) == set(contexts):
        texts = list(contexts)
    # Without the retriever's events, the text that a step made of its documents is the context.
    is_found = texts in (None, list(contexts), ["\n\n".join(contexts)])
    is_right = sample.question in ("", question) and is_found and sample.answer in answers
    return "right" if is_right else "false"
