"""Calls judges and embedders, and checks their results."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from rag_eval_hooks.calls import Caller, Usage
from rag_eval_hooks.errors import InputError, JudgeError, wrong_type
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.judges import Embedder, Judge
from rag_eval_hooks.judges.calls.call_context import Tally, in_call_context, observed_call
from rag_eval_hooks.prompts.specs import ABOUT, SPECS
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind


async def findings_by(
    judge: Judge, sample: Sample, wanted: frozenset[Finding], known: Findings
) -> Findings:
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
    with in_call_context(tally=(tally := Tally())):
        vectors = await embedder.embed(texts)
    return checked_vectors(embedder.name, vectors, len(texts)), tally.usage


def checked_vectors(name: str, vectors: list[list[float]], count: int) -> list[list[float]]:
    if len(vectors) != count or len(set(map(len, vectors))) > 1:
        raise JudgeError(f"{name} returned {len(vectors)} vectors for {count} texts")
    if not all(len(vector) and all(map(math.isfinite, vector)) for vector in vectors):
        raise JudgeError(f"{name} returned a vector with NaN or infinity")
    return vectors
