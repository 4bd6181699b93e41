"""`LLMJudge`: a judge over any language model, with strict parsing and retries."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from functools import partial

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.asking import (
    Answers,
    Request,
    Stagger,
    check_count,
    findings_of,
    gathered,
    possible,
    remembered,
    verified,
)
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.calls.context import (
    Tally,
    in_call_context,
    observed_call,
)
from rag_eval_hooks.judges.calls.failures import absence_of
from rag_eval_hooks.judges.calls.limits import CallKeywords
from rag_eval_hooks.judges.chat import Chat, OutputMode
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts import (
    ABOUT,
    PROMPTS_VERSION,
    SPECS,
    TEMPLATES,
    Ask,
    Call,
    Prompt,
    Reading,
    ReplyError,
)
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.usage import Usage

_MADE_ELSEWHERE = NotScored(Cause.MISSING_INPUT, "no language model makes this finding")


class ModelOptions(CallKeywords, total=False):
    """Keywords of judges over a language model."""

    attempts: int
    stagger: bool
    verify_tokens: int
    memo: Memo | None
    prices: Prices | None


class LLMJudge:
    """Makes findings with a language model.

    Each finding has its own calls, which show the model only the texts that the finding's
    definition allows. So no verdict depends on another finding. All calls about a sample's contexts
    start with the same schema, system text and contexts. A provider's prompt cache can serve this
    prefix from the second call on.

    The judge parses a reply item by item. It asks again about invalid items and names the problem.
    An item that stays invalid has no verdict. A call covers at most ten claims. Contexts longer
    than `verify_tokens` are verified in groups. A claim is unsure if only several groups together
    state it. Calls for ratings always show all contexts.

    Args:
        chat: The model.
        attempts: Maximum number of requests for one item.
        stagger: Send the first call about a sample's contexts before the other calls. They wait up
            to five seconds for its reply, so that the prompt cache can serve them.
        verify_tokens: Maximum tokens of contexts per verification, at three UTF-8 bytes per token.
        memo: Stores valid replies for reuse, or None.
        prices: Adds costs to the usage, or None. A reply from the memo costs nothing.

    Raises:
        ConfigError: An option has an invalid value.
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
        check_count("attempts", attempts)
        check_count("verify_tokens", verify_tokens)
        self.name = chat.name
        self.host: str | None = getattr(chat, "host", None)
        self._chat = chat
        self._attempts = attempts
        self._prices = prices or Prices()
        self._stagger = Stagger() if stagger else None
        self._memo = memo
        self._secret = secrets.token_bytes(16)
        self._verify_tokens = verify_tokens

    @property
    def output_mode(self) -> OutputMode | None:
        """How the model returns structured output, or None for the user's own chat."""
        return getattr(self._chat, "output_mode", None)

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings. A finding whose text the sample lacks is absent as `missing_input`."""
        kinds, absent = possible(sample, wanted)
        findings = absent.merged(Findings.absent(wanted - SPECS.keys(), _MADE_ELSEWHERE))
        asks = [Ask(kind, sample, known) for kind in kinds]
        advice = getattr(self._chat, "advice", "")
        for ask, answers in zip(asks, await gathered(map(self._asked, asks)), strict=True):
            findings = findings.merged(findings_of(ask, answers, advice))
        return findings

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        """Return the number of calls for these findings if every reply is valid."""
        calls = [SPECS[kind].call for kind in wanted & SPECS.keys()]
        return sum(len(TEMPLATES) if call is Call.GRADE else 1 for call in calls)

    async def aclose(self) -> None:
        await self._chat.aclose()
        if self._memo is not None:
            await self._memo.aclose()

    async def _asked(self, ask: Ask) -> Answers:
        if ask.spec.call is Call.VERIFY:
            return await verified(ask, self.ask_all, self._verify_tokens)
        keys = tuple(ask.items())
        parts = [(key,) for key in keys] if ask.spec.call is Call.GRADE else [keys]
        return await self.ask_all([(ask, part) for part in parts])

    async def ask_all(self, calls: Iterable[Request]) -> Answers:
        """Make all calls about one finding in parallel, and merge the replies.

        The judge asks again about invalid items. It asks once more about an item with a warning,
        such as a quote that no chunk has, and then keeps the reply. After a truncated reply, it
        asks about the remaining items in two halves.
        """
        answers = Answers()
        await gathered(self._ask(ask, keys, self._attempts, answers) for ask, keys in calls)
        return answers

    async def _ask(self, ask: Ask, keys: Sequence[str], left: int, answers: Answers) -> None:
        problems: tuple[str, ...] = ()
        while left and (still := answers.open(keys)):
            left -= 1
            tally = Tally()
            try:
                with in_call_context(tally=tally):
                    reading = await self._turn(ask, still, problems)
            except ReplyError as error:
                reading = Reading({}, (str(error),))
            except JudgeError as error:
                answers.failure = absence_of(error)
                break
            finally:
                answers.usage += self._prices.priced(tally.usage, self._chat.name)
            answers.take(reading.values)
            still, problems = answers.open(keys), reading.problems
            answers.problem = next(iter(problems), answers.problem)
            if left and reading.cut and len(still) > 1:
                middle = (len(still) + 1) // 2
                halves = (still[:middle], still[middle:])
                await asyncio.gather(*(self._ask(ask, half, left, answers) for half in halves))
                break

    async def _turn(self, ask: Ask, keys: Sequence[str], problems: tuple[str, ...]) -> Reading:
        """Send one request and parse the reply. The memo stores a reply without problems."""
        prompt = ask.prompt(keys, problems).sealed(self._secret)
        key = memo_key(self._chat.name, getattr(self._chat, "memo_scope", ""), prompt.identity)
        text, is_new = await remembered(self._memo, key, partial(self._completed, prompt))
        reading = ask.read(keys, text)
        if self._memo is not None and is_new and not reading.problems:
            self._memo.keep(key, text)
        return reading

    async def _completed(self, prompt: Prompt) -> str:
        if self._stagger is None:
            return await self._chat.complete(prompt)
        return await self._stagger.run(prompt.prefix, partial(self._chat.complete, prompt))


class MeteredJudge:
    """Applies the budget and observation to a user's judge, without changing the judge.

    A `make` counts as one call, because the calls inside are invisible. Token counts come from the
    usage that the findings report.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.annotator_kind = judge.annotator_kind
        self.version = judge.version
        # Optional attributes and methods, such as `warm_up`.
        for name in ("host", "one_call", "screening", "warm_up"):
            if hasattr(judge, name):
                setattr(self, name, getattr(judge, name))

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        with observed_call(Caller(self.name), is_request=False) as meter:
            async with meter.sending():
                findings = await self._judge.make(sample, wanted, known)
            used = sum(findings.usage.values(), start=Usage())
            meter.replied(round(used.input_tokens), round(used.output_tokens))
            return findings

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        """Return one call for items, and one for verdicts about them."""
        judged = wanted & SPECS.keys()
        return len({kind in ABOUT for kind in judged})

    async def aclose(self) -> None:
        await self._judge.aclose()


def metered(judge: Judge) -> Judge:
    """Wrap a judge whose model calls are invisible. Return any other judge unchanged."""
    counts = hasattr(judge, "expected_calls") or judge.annotator_kind is not AnnotatorKind.LLM
    return judge if counts else MeteredJudge(judge)
