"""Judge over any language model: one question for each finding, read strictly, asked again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.asking import ItemLoop, Stagger, findings_of, gathered
from rag_eval_hooks.judges.chat import Chat, ChatAdapter, OutputMode
from rag_eval_hooks.judges.memo import Memo, MemoChat
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.judges.verifying import verified
from rag_eval_hooks.prompts import PROMPTS_VERSION, SPECS, TEMPLATES, Ask, Call
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored

__all__ = ["LLMJudge", "LLMOptions"]

_NO_TEXT = NotScored(Cause.MISSING_INPUT, "a text is missing")
_MADE_ELSEWHERE = NotScored(Cause.MISSING_INPUT, "no language model makes this finding")


class LLMOptions(TypedDict, total=False):
    """Keywords of `LLMJudge`, which every judge over a language model takes."""

    attempts: int
    stagger: bool
    verify_tokens: int
    memo: Memo | None
    prices: Prices | None


class LLMJudge:
    """Makes findings by asking a language model.

    Each finding has calls of its own, which show only what the finding's definition allows. So a
    verdict does not depend on what else is asked about the sample. All calls about a sample's
    contexts begin with the same schema, system text and contexts, which a provider's prompt cache
    serves from the second call on.

    A reply is read item by item. Items that do not fit are asked for again, with what was wrong;
    an item that never fits has no verdict. Nothing is guessed. No call is about more than ten
    claims. Contexts longer than `verify_tokens` are verified in parts, and a claim that several
    parts state together is asked about once more by these chunks alone. Grades are about the
    contexts as a whole and are never split.

    Args:
        chat: The model.
        attempts: Times that one item may be asked for in all.
        stagger: Whether the first call about a sample's contexts goes ahead and the others wait
            for its reply, for at most five seconds, so that the prompt cache can serve them.
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
        stagger: bool = True,
        verify_tokens: int = 12_000,
        memo: Memo | None = None,
        prices: Prices | None = None,
    ) -> None:
        _check_count("attempts", attempts)
        _check_count("verify_tokens", verify_tokens)
        self._model = chat
        scope = chat.memo_scope if isinstance(chat, ChatAdapter) else ""
        self._chat = chat if memo is None else MemoChat(chat, memo, scope=scope)
        first = Stagger() if stagger else None
        self._loop = ItemLoop(self._chat, attempts, prices or Prices(), first)
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

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings; one whose text the sample lacks is absent as `missing_input`."""
        lacking = Field.lacking(sample)
        absent = Findings.absent(wanted - SPECS.keys(), _MADE_ELSEWHERE)
        possible = {kind for kind in wanted & SPECS.keys() if not SPECS[kind].needs & lacking}
        absent = absent.merged(Findings.absent((wanted & SPECS.keys()) - possible, _NO_TEXT))
        asks = [
            Ask(kinds, sample, known, unwanted=frozenset(kinds) - wanted)
            for kinds in _prompts(possible)
        ]
        for found in await gathered(self._asked(ask, wanted) for ask in asks):
            absent = absent.merged(found)
        return absent

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        """Return the calls that findings take if every reply can be read at once."""
        prompts = _prompts(wanted & SPECS.keys())
        return sum(len(TEMPLATES) if SPECS[kinds[0]].call is Call.GRADE else 1 for kinds in prompts)

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self._chat.aclose()

    async def _asked(self, ask: Ask, wanted: frozenset[Finding]) -> Findings:
        call = SPECS[ask.kinds[0]].call
        if call is Call.VERIFY:
            answers = await verified(ask, self._loop, self._verify_tokens)
        elif call is Call.GRADE:
            (kind,) = ask.kinds
            answers = await self._loop.ask_all([(ask, {kind: (one,)}) for one in TEMPLATES])
        else:
            answers = await self._loop.ask_all([(ask, ask.items())])
        return findings_of(ask, wanted & frozenset(ask.kinds), answers)


def _prompts(kinds: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """Return the findings that each prompt asks for, in the order of the calls.

    A finding that shares a call with another is asked for with it even where that is not wanted:
    what a prompt shows must not depend on the metrics that were chosen.
    """
    asked = {kind: {kind, SPECS[kind].asked_with} for kind in kinds}
    prompts = (tuple(filter(asked[kind].__contains__, SPECS)) for kind in SPECS if kind in asked)
    return list(dict.fromkeys(prompts))


def _check_count(field: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(field, value, "a whole number, 1 or more")
