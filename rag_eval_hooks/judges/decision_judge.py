"""`DecisionJudge`: a judge that sends one request per sample to a decision model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import mul
from typing import Any, Final, TypeAlias

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Finding,
    Findings,
    GEval,
    Maker,
    Support,
    Verdict,
    is_close,
)
from rag_eval_hooks.judges.decision_model import Answer, DecisionEndpoint, DecisionModel, Question
from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
from rag_eval_hooks.judges.heuristic.reference import claims
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.judges.model_judge import (
    Answers,
    ModelJudge,
    about_group,
    gathered,
    without_missing_texts,
)
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts.ask import Ask, Reading
from rag_eval_hooks.prompts.elements import AgreementElement, GEvalElement, View, content_of
from rag_eval_hooks.prompts.prompt import data_block, numbered, sealed
from rag_eval_hooks.prompts.specs import SPECS, WORDING, Unit
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.text.folding import collapse_runs

_MOST_QUESTIONS: Final = 400  # maximum number of questions per request in the Decisions API
_DECIDED: Final = frozenset(kind for kind, spec in SPECS.items() if spec.is_decision)
_BY_RULES: Final = frozenset(
    {Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS, Finding.ENTITIES, Finding.ENTITIES_FOUND}
)
_Item: TypeAlias = tuple[Answers, str, list[Question]]  # an item's finding, key and questions
_VERDICTS: Final = (ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
_HALF: Final = 0.5
_NO_ANSWER: Final = "the model rejected a question or gave an invalid answer"
_NOT_MADE: Final = NotScored(Cause.MISSING_INPUT, "a decision model cannot generate questions")


class DecisionJudge(ModelJudge):
    """Judges samples with a decision model, which answers questions with probabilities.

    The judge usually sends one request per sample, with its question, contexts, answer and
    reference. The heuristic judge's rules split texts into claims, and find entities. The judge
    generates no questions from the answer. Metrics that need these questions get no score, with
    the cause `missing_input`.

    Args:
        model: `openai-decisions:<model>`, `systemone:<model or url>`, or a model object.
        window: Maximum number of context tokens per request. Three UTF-8 bytes count as one token.
            The judge divides longer contexts, or more than 400 decisions, among several requests.
        memo: Stores the model's answers, and reuses them for identical requests. The default None
            disables the reuse.
        prices: Token prices, from which scores show their cost. None omits the cost.
        **options: Fields of `ClientOptions`, such as `base_url` and `api_key`. Pass options only if
            `model` is a name.
    """

    version: str = WORDING["decisions_version"]
    one_call = True
    most_chunks = 300  # each claim has a question about each chunk

    def __init__(
        self,
        model: str | DecisionModel,
        *,
        window: int = 20_000,
        memo: Memo | None = None,
        prices: Prices | None = None,
        **options: Any,
    ) -> None:
        if isinstance(model, str):
            model = DecisionEndpoint(model, options)
        elif options:
            wants = "empty, because `model` is an object with its own options"
            raise ConfigError("options", sorted(options), wants)
        super().__init__(model, window, memo, prices)
        self._rules = HeuristicJudge()

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        by_rules = without_missing_texts(wanted & _BY_RULES, sample)
        decided = (wanted & _DECIDED) | (wanted & _BY_RULES) - by_rules
        findings = await super().make(sample, decided, known)
        findings = findings.merged(Findings.absent(wanted - decided - by_rules, _NOT_MADE))
        if by_rules:
            findings = findings.merged(await self._rules.make(sample, by_rules, known))
        screened = by_rules & {Finding.ENTITIES_FOUND}
        return replace(findings, by=dict.fromkeys(screened, (Maker.of(self._rules),)))

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        return int(not wanted.isdisjoint(_DECIDED))

    async def _about(self, asks: Sequence[Ask], group: tuple[int, ...]) -> list[Answers]:
        answers, state = about_group(asks, group), _state(asks[0], group)
        await gathered(self._decide(state, items) for items in _requests(answers))
        return answers

    async def _decide(self, state: str, items: Sequence[_Item]) -> None:
        asked = [question for _, _, some in items for question in some]
        text = sealed(state, self._secret)
        complete = partial(self._model.complete, WORDING["deciding"], text, asked)
        charged = [*{answers.ask.kind: answers for answers, _, _ in items}.values()]
        identity = (self.version, state, asked)
        await self._request(identity, complete, partial(self._read, items), charged)

    def _read(self, items: Sequence[_Item], text: str) -> Reading:
        given = iter(json.loads(text))
        problems: tuple[str, ...] = ()
        for answers, key, asked in items:
            probabilities = [*islice(given, len(asked))]
            if None in probabilities:
                problems = (_NO_ANSWER,)
            else:
                answers.values[key] = self._content(answers.ask, probabilities)
        return Reading({}, problems)

    def _content(self, ask: Ask, answers: Sequence[Answer]) -> Any:
        spec, first = ask.spec, answers[0]
        if ask.kind is Finding.GEVAL:
            return GEval(*(sum(map(mul, spec.levels, one)) / sum(one) for one in answers))
        if spec.levels:
            level = spec.levels[first.index(max(first))]
            value = level if spec.unit is Unit.TEMPLATE else {"value": level}
            return content_of(spec.element, value, View({}))
        probability, reason = first[0], f"probability {first[0]:.2f}"
        holds, sure = probability >= _HALF, not is_close(probability)
        if ask.kind is Finding.STANCE:
            return holds
        if spec.unit is Unit.CHUNK:
            return ChunkRelevance(holds, 100 * probability, reason, sure)
        verdict = Verdict(holds, reason, sure, probability)
        is_support = ask.has_contexts and spec.unit is Unit.ITEM
        return _support(ask, verdict, answers) if is_support else verdict


def _requests(parts: Iterable[Answers]) -> list[list[_Item]]:
    items = [(one, key, _questions(one.ask, key)) for one in parts for key in one.ask.items()]
    counts = [len(asked) for _, _, asked in items]
    if sum(counts) <= _MOST_QUESTIONS:
        return [items] if items else []
    most = _MOST_QUESTIONS // max(counts)
    return [items[at : at + most] for at in range(0, len(items), most)]


def _state(ask: Ask, group: tuple[int, ...]) -> str:
    sample, known = ask.sample, ask.known
    told: dict[str, Any] = {}
    for name, text, base in (
        ("answer", sample.answer, known.answer_claims),
        ("reference", sample.reference, known.reference_claims),
    ):
        if text is not None:
            items = claims(collapse_runs(text)) if isinstance(base, NotScored) else base
            listed = numbered(name[0], items)
            is_whole = " ".join(items) == " ".join(text.split())
            told |= {name: listed} if is_whole else {name: text, f"{name}_claims": listed}
    chunks = replace(ask, shown=group).chunks()
    blocks = [{"question": sample.question, "chunks": chunks}, *([told] if told else [])]
    return "\n".join(map(data_block, blocks))


def _questions(ask: Ask, key: str) -> list[Question]:
    spec, text = ask.spec, ask.question(key)
    levels = [f"{level:g}" for level in spec.levels]
    if ask.kind is Finding.GEVAL:
        names = GEvalElement.model_fields
        return [_question("score", f"Score {name} alone: {text}", levels) for name in names]
    if levels:
        return [_question("score", text, levels)]
    if not issubclass(spec.element, AgreementElement):
        return [_question("noul", text)]
    chunks = ask.chunks() if ask.has_contexts else {}
    told = [f"Chunk {number} states all of {key}." for number in chunks if len(chunks) > 1]
    verdict = _question("choice", text, dict.fromkeys(_VERDICTS))
    return [verdict, *(_question("noul", one) for one in told)]


def _question(kind: str, text: str, options: Any = None) -> Question:
    asked = {"type": kind, "instructions": text}
    return asked if options is None else {**asked, "criteria": options}


def _support(ask: Ask, verdict: Verdict, answers: Sequence[Answer]) -> Support:
    against, others = answers[0][1:], answers[1:]
    chunks = [int(number) for number in ask.chunks()]
    stating = {n for n, (p,) in zip(chunks, others, strict=False) if p >= _HALF}
    supporting = {*chunks} if len(chunks) == 1 else stating
    word = _VERDICTS[0] if verdict.holds else _VERDICTS[1 + against.index(max(against))]
    supports = verdict.holds and verdict.sure
    numbers = range(1, len(ask.sample.contexts or ()) + 1)
    return Support(
        by_chunk=tuple(supports and number in supporting for number in numbers),
        together=supports and not supporting,
        reason=verdict.reason,
        verdict=word if verdict.sure else ClaimVerdict.UNSURE,
        probability=verdict.probability,
    )
