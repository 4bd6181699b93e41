"""Judge over any language model: asks, reads strictly, and asks again for misfits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypedDict

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.asking import Answers, Asker, Call, Stagger, findings_of
from rag_eval_hooks.judges.chat import Chat, ChatAdapter, OutputMode
from rag_eval_hooks.judges.memo import Memo, MemoChat
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.judges.verifying import verify
from rag_eval_hooks.prompts import PROMPTS_VERSION, Ask, DecomposeAsk, GradeAsk, Items, RateAsk
from rag_eval_hooks.prompts.grade import TEMPLATES, WITHOUT_CHUNKS
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Verify

__all__ = ["LLMJudge", "LLMOptions"]

Calls: TypeAlias = Literal["fused", "single"]
NvidiaCalls: TypeAlias = Literal["independent", "paired"]


class LLMOptions(TypedDict, total=False):
    """Keywords of `LLMJudge`, which every judge over a language model takes."""

    attempts: int
    calls: Calls
    nvidia_calls: NvidiaCalls
    stagger: bool
    verify_tokens: int
    memo: Memo | None
    prices: Prices | None


class LLMJudge:
    """Makes findings by asking a language model.

    A reply is read item by item. Items whose content does not fit are asked for again, with what
    was wrong; the ones that never fit make their finding absent as `judge_failed`, and only
    theirs. Nothing is guessed from a reply that cannot be read. Calls of which none needs
    another's reply are made at the same time. No call is about more than ten claims, and claims
    that are held against another text than the contexts have a call of their own.

    Contexts that are longer than `verify_tokens` are verified in parts. A claim that no part
    supports, but of which chunks in several parts state something, is then asked about once more
    by these chunks together, so its verdict is as if all chunks had been seen at once. Grades
    are about the contexts as a whole and are never split.

    Args:
        chat: The model.
        attempts: Times that one item may be asked for in all.
        calls: `fused`: one call for each task, verification in parts aside. `single`: one for
            each finding, for models that cannot do several things at a time.
        nvidia_calls: `paired`: one call for the first templates of the grades about the contexts,
            one for the second; grades without contexts alone. `independent`: a call for each
            template of each grade. No call ever holds both templates of a grade.
        stagger: Whether the first call about a sample's contexts goes ahead, and the others
            follow when its reply is there, or after five seconds: so a provider's prompt cache
            can serve them.
        verify_tokens: Tokens of contexts in one verification, at three bytes of UTF-8 a token.
        memo: Keeps valid replies and serves them again, or None.
        prices: Puts costs on the usage, or None. A reply from the memo costs nothing.

    Raises:
        ConfigError: An option has a value that cannot be used.
    """

    annotator_kind = AnnotatorKind.LLM
    version = PROMPTS_VERSION

    def __init__(
        self,
        chat: Chat,
        *,
        attempts: int = 3,
        calls: Calls = "fused",
        nvidia_calls: NvidiaCalls = "paired",
        stagger: bool = True,
        verify_tokens: int = 12_000,
        memo: Memo | None = None,
        prices: Prices | None = None,
    ) -> None:
        _check_count("attempts", attempts)
        _check_count("verify_tokens", verify_tokens)
        _check_name("calls", calls, ("fused", "single"))
        _check_name("nvidia_calls", nvidia_calls, ("independent", "paired"))
        self._model = chat
        scope = chat.memo_scope if isinstance(chat, ChatAdapter) else ""
        self._chat = chat if memo is None else MemoChat(chat, memo, scope=scope)
        self._asker = Asker(
            self._chat, attempts, prices or Prices(), Stagger() if stagger else None
        )
        self._fused = calls == "fused"
        self._paired = nvidia_calls == "paired"
        self._verify_tokens = verify_tokens

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """Kind and model."""
        return self._chat.name

    @property
    def host(self) -> str | None:
        """Host of the model's endpoint, if it is known."""
        return getattr(self._model, "host", None)

    @property
    def output_mode(self) -> OutputMode | None:
        """Way in which the shape of replies is asked for; None for a chat of a user's."""
        return self._model.output_mode if isinstance(self._model, ChatAdapter) else None

    async def decompose(self, task: Decompose) -> Findings:
        """Make claims, entities, questions and stance; without their text, `missing_input`."""
        return await self._asked(DecomposeAsk(task), task.wanted)

    async def verify(self, task: Verify) -> Findings:
        """Make verdicts; an entity that a chunk holds literally is found without asking."""
        return await verify(task, self._asker, self._calls, self._verify_tokens)

    async def rate(self, task: Rate) -> Findings:
        """Make ratings by rubrics."""
        return await self._asked(RateAsk(task), task.wanted)

    async def grade(self, task: Grade) -> Findings:
        """Make ratings by two templates each; one valid rating of the two is enough."""
        ask = GradeAsk(task)
        answers = await self._asker.ask_all(self._grade_calls(ask))
        return findings_of(ask, task.wanted, _one_is_enough(answers))

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self._chat.aclose()

    async def _asked(self, ask: Ask, wanted: frozenset[Finding]) -> Findings:
        answers = await self._asker.ask_all(self._calls(ask, ask.items()))
        return findings_of(ask, wanted, answers)

    def _calls(self, ask: Ask, items: Items) -> list[Call]:
        return [(ask, items)] if self._fused else [(ask, {k: keys}) for k, keys in items.items()]

    def _grade_calls(self, ask: GradeAsk) -> list[Call]:
        calls: list[Call] = []
        for template in TEMPLATES:
            items = dict.fromkeys(ask.items(), (template,))
            alone = [kind for kind in items if not self._paired or kind in WITHOUT_CHUNKS]
            together = {kind: keys for kind, keys in items.items() if kind not in alone}
            calls += [(ask, {kind: items[kind]}) for kind in alone] + [(ask, together)]
        return [call for call in calls if call[1]]


def _one_is_enough(answers: Answers) -> Answers:
    values: Mapping[Any, Mapping[str, Any]] = {
        kind: dict.fromkeys(TEMPLATES) | dict(valid)
        for kind, valid in answers.values.items()
        if valid
    }
    return replace(answers, values=values)


def _check_count(field: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(field, value, "a whole number, 1 or more")


def _check_name(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(field, value, " or ".join(map(repr, known)))
