"""Samples that are not English: judged over real HTTP, text for text as it was written."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import pytest

from rag_eval_hooks import Outcomes, RagEval, Sample, Score
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from tests.servers.judge_server import JudgeServer

SAMPLES = {
    "chinese": Sample(
        question="瓦尔讷灯塔什么时候开放？",
        contexts=("记录显示，瓦尔讷灯塔于1841年开放。", "岛上种植郁金香，春天卖到各地。"),  # type: ignore[arg-type]
        answer="瓦尔讷灯塔于1841年开放。灯塔用油照明。",
        reference="瓦尔讷灯塔于1841年开放。",
    ),
    "japanese": Sample(
        question="「ヴァルネ灯台」はいつ開業しましたか？",
        contexts=(  # type: ignore[arg-type]
            "記録によると、「ヴァルネ灯台」は1841年に開業した。",
            "島ではチューリップが栽培されている。",
        ),
        answer="「ヴァルネ灯台」は1841年に開業した。その灯りは油で光る。",
        reference="「ヴァルネ灯台」は1841年に開業した。",
    ),
    "arabic": Sample(
        question="متى افتتحت منارة فارن؟",
        contexts=("تقول السجلات إن منارة فارن افتتحت عام 1841.", "تزرع الزنابق في الجزيرة."),  # type: ignore[arg-type]
        answer="منارة فارن افتتحت عام 1841. مصباحها يعمل بالزيت.",
        reference="منارة فارن افتتحت عام 1841.",
    ),
    "german": Sample(
        question="Wann wurde der Leuchtturm von Värne eröffnet?",
        contexts=(  # type: ignore[arg-type]
            "Den Akten nach gilt: Der Leuchtturm von Värne wurde 1841 eröffnet.",
            "Auf der Insel werden Tulpen gezüchtet.",
        ),
        answer="Der Leuchtturm von Värne wurde 1841 eröffnet. Seine Lampe brennt mit Öl.",
        reference="Der Leuchtturm von Värne wurde 1841 eröffnet.",
    ),
}
EXPECTED = {
    "ragas.faithfulness": 0.5,
    "ragas.context_precision": 1.0,
    "ragas.context_recall": 1.0,
    "ragas.context_entity_recall": 1.0,
    "ragas.noise_sensitivity": 0.5,
    "nvidia.answer_accuracy": 0.75,
    "nvidia.context_relevance": 1.0,
    "nvidia.response_groundedness": 0.5,
    "graphrag.factual_accuracy_percentage": 75.0,
    "whitepaper.correctness": 4.0,
}


def evaluated(sample: Sample, server: JudgeServer, verify_tokens: int = 12_000) -> Outcomes:
    judge = OpenAIJudge("m", base_url=server.url, api_key="k", verify_tokens=verify_tokens)
    embedder = OpenAIEmbedder("e", base_url=server.url, api_key="k")
    with RagEval(metrics=[*EXPECTED, "ragas"], judge=judge, embedder=embedder) as evals:
        return evals.evaluate(sample)


def sent(server: JudgeServer) -> list[str]:
    """The user texts of all chat requests."""
    bodies = [request.body for request in server.calls()]
    return [m["content"] for body in bodies for m in body["messages"] if m["role"] == "user"]


@pytest.mark.parametrize("verify_tokens", [12_000, 30])
@pytest.mark.parametrize("language", SAMPLES)
def test_text_in_any_language_is_scored(language: str, verify_tokens: int) -> None:
    with JudgeServer() as server:
        outcomes = evaluated(SAMPLES[language], server, verify_tokens)
    scores = {name: o.value for name, o in outcomes.items() if isinstance(o, Score)}
    assert {name: scores.get(name) for name in EXPECTED} == EXPECTED
