"""A judge over any language model: asks, reads strictly, and asks again what did not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.findings import Decompose, Finding, Findings, Verdict, Verify
from rag_eval_hooks.judges.chat import Chat
from rag_eval_hooks.judges.literal import stated
from rag_eval_hooks.prompts import PROMPTS_VERSION, Ask, DecomposeAsk, Items, Values, VerifyAsk
from rag_eval_hooks.prompts.ask import ReplyError
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored

__all__ = ["LLMJudge"]

_LITERALLY = "found literally"


class LLMJudge:
    """Makes findings by asking a language model.

    A reply is read item by item. Items whose content does not fit are asked for again, with what
    was wrong; the ones that never fit make their finding absent as `judge_failed`, and only
    theirs. Nothing is guessed from a reply that cannot be read.

    Args:
        chat: The model.
        attempts: How often one task may be asked in all.
    """

    annotator_kind = AnnotatorKind.LLM
    version = PROMPTS_VERSION

    def __init__(self, chat: Chat, *, attempts: int = 3) -> None:
        self._chat = chat
        self._attempts = attempts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """Kind and model."""
        return self._chat.name

    async def decompose(self, task: Decompose) -> Findings:
        """Claims, entities and questions; a text that the task lacks is `missing_input`."""
        ask = DecomposeAsk(task)
        lacking = {kind for kind in task.wanted if ask.text(kind) is None}
        return await self._findings(ask, task.wanted, lacking, {})

    async def verify(self, task: Verify) -> Findings:
        """Verdicts; an entity that a chunk holds literally is found without asking."""
        ask = VerifyAsk(task)
        lacking = {kind for kind in task.wanted if not ask.possible(kind)}
        return await self._findings(ask, task.wanted, lacking, _literal(task, ask.items()))

    async def aclose(self) -> None:
        """Closes the model's connections."""
        await self._chat.aclose()

    async def _findings(
        self, ask: Ask, wanted: frozenset[Finding], lacking: set[Finding], known: Values
    ) -> Findings:
        values, failure = await self._answers(ask, known)
        items = ask.items()
        contents: dict[str, Any] = {}
        for kind in wanted:
            if kind in lacking:
                contents[kind.value] = NotScored(Cause.MISSING_INPUT, "a text is missing")
            elif missing := set(items.get(kind, ())) - set(values.get(kind, {})):
                contents[kind.value] = _absence(failure, len(missing), len(items[kind]))
            else:
                contents[kind.value] = ask.content(kind, values.get(kind, {}))
        return Findings(**contents)

    async def _answers(self, ask: Ask, known: Values) -> tuple[Values, NotScored | None]:
        """All items that could be learned, and why asking ended early, if it did."""
        values = {kind: dict(found) for kind, found in known.items()}
        problems: tuple[str, ...] = ()
        for _ in range(self._attempts):
            items = _open(ask.items(), values)
            if not items:
                break
            try:
                reading = ask.read(items, await self._chat.complete(ask.prompt(items, problems)))
            except ReplyError as error:
                problems = (str(error),)
            except JudgeError as error:
                return values, _failure(error)
            else:
                problems = reading.problems
                for kind, found in reading.values.items():
                    values.setdefault(kind, {}).update(found)
        return values, None


def _open(items: Items, values: Values) -> Items:
    still = {
        kind: tuple(key for key in keys if key not in values.get(kind, {}))
        for kind, keys in items.items()
    }
    return {kind: keys for kind, keys in still.items() if keys}


def _failure(error: JudgeError) -> NotScored:
    cause = Cause.TIMEOUT if isinstance(error, JudgeTimeout) else Cause.JUDGE_FAILED
    return NotScored(cause, str(error))


def _absence(failure: NotScored | None, missing: int, asked: int) -> NotScored:
    detail = f"the judge gave no valid reply for {missing} of {asked} items"
    return failure or NotScored(Cause.JUDGE_FAILED, detail)


def _literal(task: Verify, items: Items) -> Mapping[Finding, Mapping[str, Verdict]]:
    keys = items.get(Finding.ENTITIES_FOUND, ())
    found = stated(task.entities, task.chunks) if keys else []
    verdicts = {key: Verdict(True, _LITERALLY) for key, hit in zip(keys, found, strict=True) if hit}
    return {Finding.ENTITIES_FOUND: verdicts}
