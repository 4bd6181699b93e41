"""`DecisionJudge`: a judge over a decision model, with one request per sample."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, Unpack

from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.findings import Finding, Findings, Maker
from rag_eval_hooks.judges.asking import (
    Answers,
    check_count,
    findings_of,
    gathered,
    joined,
    parts,
    possible,
    remembered,
)
from rag_eval_hooks.judges.calls.context import Tally, in_call_context
from rag_eval_hooks.judges.calls.failures import RequestRefusedError, absence_of
from rag_eval_hooks.judges.decision_model import DecisionModel
from rag_eval_hooks.judges.heuristic.claims import claims
from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts import SPECS, Ask, Call, ReplyError
from rag_eval_hooks.prompts.prompt import data_block, numbered, sealed
from rag_eval_hooks.prompts.questions import Answer, Band, Question, questions
from rag_eval_hooks.prompts.specs import DECIDING, DECISIONS_VERSION
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.text.folding import collapse_runs
from rag_eval_hooks.usage import tokens

if TYPE_CHECKING:
    from rag_eval_hooks.judges.endpoint import EndpointKeywords

Found: TypeAlias = Mapping[Finding, Answers]
_MOST_QUESTIONS: Final = 400
"""Maximum number of questions per request in the Decisions API."""
_MOST_CHUNKS: Final = 300
"""Maximum number of chunks per request. Each claim needs a question about each chunk."""
_DECIDED: Final = frozenset(kind for kind, spec in SPECS.items() if spec.is_decision)
_BY_RULES: Final = frozenset(
    {Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS, Finding.ENTITIES, Finding.ENTITIES_FOUND}
)
_NOT_DECIDED: Final = NotScored(Cause.MISSING_INPUT, "a decision model generates no text")
_NO_ANSWER: Final = "the model rejected a question, or its answer is invalid"
_TOO_LONG: Final = "the contexts are rated as a whole but exceed one request"
_ABOUT_LENGTH: Final = re.compile(r"too (?:long|large)|max_tokens|context.length")


class _Item(NamedTuple):
    ask: Ask
    key: str
    questions: list[Question]


class DecisionJudge:
    """Makes findings from the probabilities of a decision model, in one request per sample.

    The model sees question, contexts, answer and reference as delimited data. Rules split texts
    into claims and find entities. The judge generates no questions, so metrics that need generated
    questions are `missing_input`.

    Args:
        model: `openai-decisions:<model>`, `systemone:<model or url>`, or a model object.
        band: Lower and upper probability between which a verdict is unsure.
        window: Maximum tokens of contexts per request, at three UTF-8 bytes per token. Longer
            contexts, or more than 400 questions, need several requests.
        memo: Stores answers for reuse, or None.
        prices: Adds costs to the usage, or None.
        **options: Fields of `ClientOptions`, such as `base_url` and `api_key`, if `model` is a
            name.

    Raises:
        ConfigError: A value is invalid.
    """

    annotator_kind = AnnotatorKind.LLM
    version = DECISIONS_VERSION
    one_call = True

    def __init__(
        self,
        model: str | DecisionModel,
        *,
        band: tuple[float, float] = (0.3, 0.7),
        window: int = 20_000,
        memo: Memo | None = None,
        prices: Prices | None = None,
        **options: Unpack[EndpointKeywords],
    ) -> None:
        if not 0 <= band[0] <= 0.5 <= band[1] <= 1:
            raise ConfigError("band", band, "a probability up to 0.5 and a probability from 0.5")
        check_count("window", window)
        if isinstance(model, str):
            from rag_eval_hooks.judges.decision_endpoint import DecisionEndpoint

            model = DecisionEndpoint(model, {**options})
        self.name, self.host = model.name, model.host
        self._model, self._band, self._window = model, Band(*band), window
        self._memo, self._prices = memo, prices or Prices()
        self._rules, self._secret = HeuristicJudge(), secrets.token_bytes(16)

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings.

        A finding is absent if it needs free text or if the sample lacks a text.
        """
        kinds, findings = possible(sample, wanted)
        by_rules = _BY_RULES.intersection(kinds)
        if by_rules:
            findings = findings.merged(await self._rules.make(sample, by_rules, known))
        findings = findings.merged(Findings.absent(wanted - _BY_RULES - _DECIDED, _NOT_DECIDED))
        asks = [Ask(kind, sample, known) for kind in kinds if kind in _DECIDED]
        found = await self._found(asks, self._window) if asks else {}
        for ask in asks:
            findings = findings.merged(findings_of(ask, found[ask.kind]))
        screened = by_rules & {Finding.ENTITIES_FOUND}
        return replace(findings, by=dict.fromkeys(screened, (Maker.of(self._rules),)))

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        """Return 1 if any finding needs the model, else 0. All decisions share one request."""
        return int(not wanted.isdisjoint(_DECIDED))

    async def aclose(self) -> None:
        await self._model.aclose()
        if self._memo is not None:
            await self._memo.aclose()

    async def _found(self, asks: Sequence[Ask], window: int) -> Found:
        chunks = asks[0].sample.contexts or ()
        groups = parts(asks[0].sample, window, _MOST_CHUNKS) or [()]
        by_group = [{ask.kind: Answers() for ask in asks} for _ in groups]
        try:
            await gathered(self._request(*one) for one in _requests(asks, groups, by_group))
        except RequestRefusedError as error:
            if len(groups) >= len(chunks):
                return {ask.kind: Answers(failure=absence_of(error)) for ask in asks}
            size = sum(tokens(chunk.text) for chunk in chunks)
            return await self._found(asks, max(1, min(window, size) // 2))
        kinds = [ask.kind for ask in asks]
        return {kind: joined(kind, [one[kind] for one in by_group], groups) for kind in kinds}

    async def _request(self, state: str, items: Sequence[_Item], found: Found) -> None:
        """Send one request. Add values and usage to the findings of its items."""
        total, tally = Answers(), Tally()
        try:
            with in_call_context(tally=tally):
                answers = iter(await self._decided(state, [q for one in items for q in one[2]]))
            for ask, key, asked in items:
                given = [one for one in islice(answers, len(asked)) if one is not None]
                if len(given) == len(asked):
                    found[ask.kind].values[key] = self._band.content(ask, given)
                else:
                    found[ask.kind].problem = _NO_ANSWER
        except ReplyError as error:
            total.problem = str(error)
        except JudgeError as error:
            if isinstance(error, RequestRefusedError) and _is_too_long(error):
                raise
            total.failure = absence_of(error)
        kinds = {one.ask.kind for one in items}
        total.usage = self._prices.priced(tally.usage, self.name).share(len(kinds))
        for kind in kinds:
            found[kind].absorb(total)

    async def _decided(self, state: str, asked: Sequence[Question]) -> list[Answer | None]:
        named = {str(number): one for number, one in enumerate(asked, start=1)}

        async def decide() -> str:
            text = sealed(state, self._secret)
            return json.dumps(await self._model.decide(DECIDING, text, named))

        key = memo_key(self.name, self._model.memo_scope, (self.version, state, asked))
        text, is_new = await remembered(self._memo, key, decide)
        answers: list[Answer | None] = json.loads(text)
        if self._memo is not None and is_new and None not in answers:
            self._memo.keep(key, text)
        return answers


def _requests(
    asks: Sequence[Ask], groups: Sequence[tuple[int, ...]], by_group: Sequence[Found]
) -> Iterator[tuple[str, list[_Item], Found]]:
    """Yield the data and items of each request. One request holds all questions about an item."""
    for group, found in zip(groups, by_group, strict=True):
        state, items = _state(asks[0], group), []
        for ask in asks:
            if ask.has_contexts:
                ask = replace(ask, shown=group, partial=len(groups) > 1)
            if ask.partial and ask.spec.call is Call.GRADE:
                found[ask.kind].problem = _TOO_LONG
            elif ask.has_contexts or group == groups[0]:
                items += [_Item(ask, key, questions(ask, key)) for key in ask.items()]
        while items:
            count = size = 0
            while count < len(items) and (size := size + len(items[count][2])) <= _MOST_QUESTIONS:
                count += 1
            yield state, items[: count or 1], found
            items = items[count or 1 :]


def _state(ask: Ask, group: tuple[int, ...]) -> str:
    """Return the sample as data.

    All questions share it, so that scores do not affect each other.
    """
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


def _is_too_long(error: RequestRefusedError) -> bool:
    return error.status == 413 or bool(_ABOUT_LENGTH.search(error.complaint))
