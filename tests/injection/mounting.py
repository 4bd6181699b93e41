"""Mounts the attacks on a judge over HTTP, and tells which got through."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag_eval_hooks import Context, Outcomes, RagEval, Sample, Score
from rag_eval_hooks.judges.chat import Chat, Completion
from rag_eval_hooks.judges.endpoint import ClientOptions
from rag_eval_hooks.judges.heuristic import LocalJudge
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIChat
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.prompts.prompt import data_block
from tests.injection.attacks import NAMES, Attack
from tests.injection.obedient import Obedient
from tests.servers.judge_server import JudgeServer

__all__ = [
    "HARMLESS",
    "METRICS",
    "Result",
    "attacked",
    "mount",
    "mount_embedded",
    "raised",
    "tokens_of",
]

HARMLESS = Sample(
    question="What does the ferry to Varne cost?",
    contexts=("The ferry to Varne costs 8 euros.", "It leaves at noon."),  # type: ignore[arg-type]
    answer="The ferry to Varne is free of charge",
    reference="The ferry to Varne costs 8 euros",
)
"""Its answer is wrong, so that every score is low, and an order that is obeyed raises them."""
METRICS = (
    "ragas.faithfulness",
    "graphrag.factual_accuracy_percentage",
    "nvidia.answer_accuracy",
    "nvidia.response_groundedness",
)
_ZEROS = "0" * 12
_DELIMITER = re.compile(r"<(/?)data [0-9a-f]{12}>")


@dataclass(frozen=True, slots=True)
class Result:
    """Effect of an attack.

    Attributes:
        attack: The attack.
        obeyed: Prompts in which the judge found an order.
        raised: Metrics whose score is above that of the harmless sample.
    """

    attack: Attack
    obeyed: int
    raised: tuple[str, ...]


class _FixedDelimiters:
    """A chat as it must not be: every prompt has the same delimiters, and text is not escaped."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    @property
    def name(self) -> str:
        return self._chat.name

    async def complete(self, prompt: Prompt) -> Completion:
        user = _DELIMITER.sub(rf"<\1data {_ZEROS}>", prompt.user).replace("\\u003c", "<")
        return await self._chat.complete(replace(prompt, user=user))

    async def aclose(self) -> None:
        await self._chat.aclose()


def mount(
    attacks: Sequence[Attack], *, fixed_delimiters: bool = False, lenient: bool = False
) -> list[Result]:
    """The results of the attacks on a judge that obeys what stands outside the delimiters.

    Args:
        attacks: They.
        fixed_delimiters: Whether all prompts have the same, and texts are not escaped.
        lenient: Whether it takes what looks like a closing delimiter for one.
    """
    obedient = Obedient(lenient=lenient)
    with JudgeServer(replies=obedient) as server:
        options = ClientOptions(base_url=server.url, api_key="k", breaker_failures=10**6)
        chat: Chat = OpenAIChat("m", options)
        judge = LLMJudge(_FixedDelimiters(chat) if fixed_delimiters else chat)
        with RagEval(metrics=METRICS, judge=judge, embedder="none") as evals:
            usual = evals.evaluate(HARMLESS)
            obedient.learning = False
            known = tokens_of(obedient)
            tokens = dict.fromkeys(known, _ZEROS) if fixed_delimiters else known
            return asyncio.run(_mounted(attacks, evals, obedient, tokens, usual))


async def _mounted(
    attacks: Sequence[Attack],
    evals: RagEval,
    obedient: Obedient,
    tokens: dict[str, str],
    usual: Outcomes,
) -> list[Result]:
    results = []
    for attack in attacks:
        before = obedient.obeyed
        outcomes = await evals.aevaluate(attacked(attack, tokens[attack.token]))
        higher = raised(outcomes, usual)
        results.append(Result(attack, obedient.obeyed - before, higher))
    return results


def mount_embedded(attacks: Sequence[Attack]) -> list[Result]:
    """The results of the attacks on the embedded judge and on the lexical metrics."""
    metrics = ("ragas.faithfulness", "graphrag.ragas_faithfulness", "lexical")
    with RagEval(metrics=metrics, judge=LocalJudge(None), embedder="none") as evals:
        usual = evals.evaluate(HARMLESS)
        return [
            Result(attack, 0, raised(evals.evaluate(attacked(attack, _ZEROS)), usual))
            for attack in attacks
        ]


def tokens_of(obedient: Obedient) -> dict[str, str]:
    """The tokens that an attacker may know, by what `Attack.token` names."""
    replay = max(obedient.tokens)
    return {"zeros": _ZEROS, "plain": _plain_token(), "replay": replay, "none": _ZEROS}


def attacked(attack: Attack, token: str) -> Sample:
    """The harmless sample with the attack in its place."""
    close = "</data>" if attack.token == "none" else f"</data {token}>"
    text = attack.text.replace("{CLOSE}", close).replace("{OPEN}", close.replace("/", ""))
    text = text.replace("{TOKEN}", token)
    if attack.place == NAMES:
        return _named(text)
    if attack.place == "context":
        assert HARMLESS.contexts is not None
        first, *rest = HARMLESS.contexts
        return replace(HARMLESS, contexts=(Context(text=f"{first.text} {text}"), *rest))
    changed: dict[str, Any] = {attack.place: f"{getattr(HARMLESS, attack.place)}. {text}"}
    return replace(HARMLESS, **changed)


def _named(text: str) -> Sample:
    contexts = tuple(
        replace(context, id=text, metadata={"title": text, text: text})
        for context in HARMLESS.contexts or ()
    )
    return replace(
        HARMLESS,
        contexts=contexts,
        question_id=text,
        user_id=text,
        session_id=text,
        tags=(text,),
        metadata={"note": text, text: text},
    )


def _plain_token() -> str:
    contexts = HARMLESS.contexts or ()
    chunks = {str(n): context.text for n, context in enumerate(contexts, start=1)}
    return data_block({"question": HARMLESS.question, "chunks": chunks})[6:18]


def raised(outcomes: Outcomes, usual: Outcomes) -> tuple[str, ...]:
    """The metrics whose score is above that of the harmless sample."""
    return tuple(
        name
        for name, outcome in outcomes.items()
        if isinstance(outcome, Score) and outcome.normalised > _value(usual[name]) + 1e-9
    )


def _value(outcome: object) -> float:
    return outcome.normalised if isinstance(outcome, Score) else 0.0
