"""Protocols of judges, embedders and token scorers, and functions that create and call them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

from rag_eval_hooks.calls import Caller, Usage
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError, InputError, JudgeError, wrong_type
from rag_eval_hooks.findings import Finding, Findings, TokenScore
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.judges.model_calls import Tally, in_call_context, observed_call
from rag_eval_hooks.prompts.specs import ABOUT, SPECS
from rag_eval_hooks.providers import EMBEDDERS, JUDGES
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind

_MINILM: Final = "sentence-transformers/all-MiniLM-L6-v2"
_OLLAMA: Final = "http://localhost:11434/v1"
_OLLAMA_WINDOW: Final = 2_000  # Ollama cuts prompts that exceed its default window of 4,096 tokens
_OPENAI_EMBEDDER: Final = "text-embedding-3-small"


@runtime_checkable
class Judge(Protocol):
    """Finds the facts about a sample that metrics need, such as claims and verdicts.

    The evaluator calls the methods in its own event loop. Each score shows the judge's `name`, such
    as `openai:gpt-4o-mini`. Scores with different values of `version` are not comparable.

    Two class attributes are optional:

    - `screening = True`: The scores only suggest which samples a person should review.
    - `one_call = True`: The judge finds claims and entities without a model call. The evaluator
      requests claims, entities and questions about the answer before all other findings.
    """

    @property
    def name(self) -> str: ...

    @property
    def annotator_kind(self) -> AnnotatorKind: ...

    @property
    def version(self) -> str: ...

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make the findings in `wanted` about a sample.

        The evaluator calls `make` at most three times per sample. The first call requests findings
        that need no other finding, such as claims. The second call requests verdicts on claims and
        entities. The third call requests findings that depend on verdicts. `known` contains the
        findings of the earlier calls.

        Returns:
            All requested findings. If the judge could not make a finding, its value is a
            `NotScored`. A tuple of verdicts has one verdict per claim, entity or context, in order.

        Raises:
            JudgeError: The judge could make none of the findings.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and models. The evaluator calls `aclose` once at shutdown."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Converts texts to vectors. Metrics compare two texts by the cosine of their vectors."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order. Raise `JudgeError` if the embedder fails."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class TokenScorer(Protocol):
    """Compares two texts token by token, as BERTScore does."""

    @property
    def name(self) -> str: ...

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Return precision, recall and F1 of tokens. Raise `JudgeError` if the scorer fails."""
        ...

    async def aclose(self) -> None: ...


def choose_judge(config: RagEvalConfig, **options: Any) -> Judge:
    name, model = JUDGES.parts(config.judge)
    if name in ("heuristic", "nli"):
        from rag_eval_hooks.judges.heuristic.entailment import Entailer
        from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge

        return HeuristicJudge(Entailer(model) if model else None)
    from rag_eval_hooks.judges.memo import Memo

    if window := config.judge_window or (_OLLAMA_WINDOW if name == "ollama" else None):
        options = {"window": window, **options}
    options = {"memo": Memo(), **_endpoint(config, name, model), **options}
    if name in ("openai-decisions", "systemone"):
        from rag_eval_hooks.judges.decision_judge import DecisionJudge

        return DecisionJudge(config.judge, **options)
    from rag_eval_hooks.judges.openai import OpenAIJudge

    return OpenAIJudge(model, **options)


def choose_embedder(config: RagEvalConfig) -> Embedder | None:
    name, model = EMBEDDERS.parts(config.embedder)
    if name == "auto":
        judge, _ = JUDGES.parts(config.judge)
        if judge in ("openai", "openai-decisions"):
            name, model = "openai", _OPENAI_EMBEDDER
    if name in ("auto", "none"):
        return None
    if name == "sentence-transformers":
        from rag_eval_hooks.judges.hugging_face import SentenceEmbedder

        return SentenceEmbedder(model or _MINILM)
    from rag_eval_hooks.judges.openai import OpenAIEmbedder

    return OpenAIEmbedder(model, **_endpoint(config, name, model))


def _endpoint(config: RagEvalConfig, name: str, model: str) -> dict[str, Any]:
    from rag_eval_hooks.judges.prices import prices_of

    address, key = config.judge_base_url, config.judge_api_key
    if name == "azure":
        if address is None:
            wants = "the Azure endpoint's URL (RAG_EVAL_JUDGE_BASE_URL or AZURE_OPENAI_ENDPOINT)"
            raise ConfigError("judge_base_url", None, wants)
        address = f"{address.rstrip('/').removesuffix('/openai/v1')}/openai/v1"
    elif name == "ollama":
        address = address or _OLLAMA
    elif "://" in model:
        address = model
    if key is None and address is None:
        variable = "TYPESAFE_API_KEY" if name == "systemone" else "OPENAI_API_KEY"
        wants = f"a key (set RAG_EVAL_JUDGE_API_KEY or {variable}), unless judge_base_url is set"
        raise ConfigError("judge_api_key", None, wants)
    return {
        "base_url": address,
        "api_key": None if key is None else key.get_secret_value(),
        "headers": {k: v.get_secret_value() for k, v in config.judge_headers.items()},
        "timeout": config.judge_timeout,
        "retries": limits.JUDGE_RETRIES,
        "concurrency": config.judge_concurrency,
        "prices": prices_of(config),
    }


async def findings_by(
    judge: Judge, sample: Sample, wanted: frozenset[Finding], known: Findings
) -> Findings:
    # If the judge does not report its model calls, each `make` counts as one call.
    if not _hides_calls(judge):
        return await _made(judge, sample, wanted, known)
    with observed_call(Caller(judge.name), is_request=False) as meter:
        async with meter.sending():
            findings = await _made(judge, sample, wanted, known)
        used = sum(findings.usage.values(), start=Usage())
        meter.replied(round(used.input_tokens), round(used.output_tokens))
        return findings


async def _made(judge: Judge, *asked: Any) -> Findings:
    reply: Any = judge.make(*asked)
    if not inspect.isawaitable(reply):
        stated = f"make() of judge {judge.name} must be async and return Findings."
        raise InputError(stated + place_of(judge.make))
    findings = await reply
    if not isinstance(findings, Findings):
        name = f"the result of make() of judge {judge.name}"
        raise wrong_type(name, "Findings", findings, place_of(judge.make).strip())
    return findings


def expected_calls(judge: Judge, wanted: frozenset[Finding]) -> int:
    if _hides_calls(judge):
        # One call for items, and one call for verdicts about the items.
        return len({kind in ABOUT for kind in wanted & SPECS.keys()})
    count: int = judge.expected_calls(wanted) if hasattr(judge, "expected_calls") else 0
    return count


def _hides_calls(judge: Judge) -> bool:
    return not hasattr(judge, "expected_calls") and judge.annotator_kind is AnnotatorKind.LLM


async def embedded(embedder: Embedder, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
    tally = Tally()
    with in_call_context(tally=tally):
        vectors = await embedder.embed(texts)
    return checked_vectors(embedder.name, vectors, len(texts)), tally.usage


def checked_vectors(name: str, vectors: list[list[float]], count: int) -> list[list[float]]:
    if len(vectors) != count or len(set(map(len, vectors))) > 1:
        raise JudgeError(f"{name} returned {len(vectors)} vectors for {count} texts")
    if not all(len(vector) and all(map(math.isfinite, vector)) for vector in vectors):
        raise JudgeError(f"{name} returned a vector with NaN or infinity")
    return vectors
