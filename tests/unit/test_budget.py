"""A budget is never passed by more than the calls in flight, in one process or in several."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import ConfigError, RagEvalConfig
from rag_eval_hooks.errors import BudgetError, JudgeError
from rag_eval_hooks.evaluation.finding_sources import Sources
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.base import MeteredEmbedder
from rag_eval_hooks.judges.calls.budget import Budget, BudgetStore, budget_of
from rag_eval_hooks.judges.calls.budget_store import MemoryStore, SqliteStore
from rag_eval_hooks.judges.calls.context import in_call_context
from rag_eval_hooks.judges.calls.metered_judge import allowed, metered
from rag_eval_hooks.judges.calls.requests import Meter
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.judges.prices import Price
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.testing import Finding, Findings, ScriptedJudge
from rag_eval_hooks.usage import Usage
from tests.support.judge_task import JudgeTask

HOUR = 3600


class Own(ScriptedJudge):
    """A judge of somebody's own, over a language model."""

    annotator_kind = AnnotatorKind.LLM


def budget(limits: dict[str, float], store: BudgetStore | None = None, **options: Any) -> Budget:
    options.setdefault("now", lambda: 1_000_000.0)
    return Budget(limits, store or MemoryStore(), incidents=Incidents(), **options)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Makes stores over one file, as several processes would."""
    made: list[SqliteStore] = []

    def make() -> SqliteStore:
        made.append(SqliteStore(tmp_path / "budget.db"))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, file: Callable[[], SqliteStore]) -> BudgetStore:
    return MemoryStore() if request.param == "memory" else file()


def test_calls_are_exact(store: BudgetStore) -> None:
    """As many calls as the limit go through, in flight or settled, and not one more."""
    limited = budget({"calls_per_hour": 3}, store)
    limited.reserve(10).settle(5, 5)
    limited.reserve(10).fail()
    limited.reserve(10)
    with pytest.raises(BudgetError, match="hour"):
        limited.reserve(10)
    assert limited.spent()["hour"].calls == 3


def test_the_true_amount_takes_the_place_of_the_reserved(store: BudgetStore) -> None:
    """A reply that took less gives room back; one that nobody counted keeps its estimate."""
    limited = budget({"tokens_per_hour": 1000}, store)
    first = limited.reserve(100)
    assert limited.spent()["hour"].tokens == 356
    first.settle(80, 20)
    assert limited.spent()["hour"].tokens == 100
    uncounted = limited.reserve(100)
    uncounted.settle(0, 0)
    assert limited.spent()["hour"].tokens == 220
    limited.reserve(100).fail()
    assert limited.spent()["hour"].tokens == 220


def test_room_is_taken_before_the_call(store: BudgetStore) -> None:
    """Calls in flight count: a second one is refused before the first has ended."""
    limited = budget({"tokens_per_day": 500}, store)
    limited.reserve(200)
    with pytest.raises(BudgetError, match="day"):
        limited.reserve(200)


def test_money_is_counted_by_price(store: BudgetStore) -> None:
    """Cost is tokens by the price of a million, for prompt and reply apart."""
    limited = budget({"cost_per_day": 1.0}, store, price=Price(2.0, 8.0))
    limited.reserve(10_000).settle(100_000, 50_000)
    assert limited.spent()["day"].cost == pytest.approx(0.6)
    with pytest.raises(BudgetError):
        limited.reserve(100_000)


def test_hour_and_day_are_kept_apart(store: BudgetStore) -> None:
    """A new hour has new room, within that of the day; a late reply counts where it was taken."""
    now = [0.0]
    limited = budget({"calls_per_hour": 1, "calls_per_day": 2}, store, now=lambda: now[0])
    late = limited.reserve(0)
    with pytest.raises(BudgetError, match="hour"):
        limited.reserve(0)
    now[0] = HOUR
    late.settle(9, 9)
    assert limited.spent()["hour"].calls == 0
    limited.reserve(0)
    now[0] = 2 * HOUR
    with pytest.raises(BudgetError, match="day"):
        limited.reserve(0)
    now[0] = 24 * HOUR
    limited.reserve(0)


def test_a_refusal_takes_nothing(store: BudgetStore) -> None:
    """A call that one period refuses is not charged to the other."""
    limited = budget({"calls_per_hour": 5, "tokens_per_day": 100}, store)
    with pytest.raises(BudgetError):
        limited.reserve(1000)
    assert limited.spent()["hour"].calls == 0


Step = tuple[int, int, bool]
steps = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.booleans()), max_size=60)


@given(st.integers(0, 5000), st.integers(1, 6), steps)
def test_tokens_pass_the_limit_by_calls_in_flight_at_most(
    limit: int, in_flight: int, steps: list[Step]
) -> None:
    """Spend stays within the limit and the calls in flight, however long replies are."""
    limited = budget({"tokens_per_hour": limit})
    open_calls: list[tuple[Any, Step]] = []
    most = 500 + 500
    for step in steps:
        with contextlib.suppress(BudgetError):
            open_calls.append((limited.reserve(step[0]), step))
        if len(open_calls) >= in_flight or (open_calls and step[2]):
            call, (prompt, reply, _) = open_calls.pop(0)
            call.settle(prompt, reply)
        assert limited.spent()["hour"].tokens <= limit + in_flight * most
    for call, (prompt, reply, _) in open_calls:
        call.settle(prompt, reply)
    assert limited.spent()["hour"].tokens <= limit + in_flight * most


def test_threads_share_one_budget(store: BudgetStore) -> None:
    """Calls let through are the limit, however many threads reserve at once."""
    limited = budget({"calls_per_hour": 100}, store)
    let_through: list[int] = []

    def call() -> None:
        for _ in range(50):
            try:
                limited.reserve(1).settle(1, 1)
            except BudgetError:
                continue
            let_through.append(1)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_through) == limited.spent()["hour"].calls == 100


def test_a_file_that_fails_lets_nothing_through(tmp_path: Path) -> None:
    """Without its file nobody knows what was spent: calls are refused, and it is counted."""
    path = tmp_path / "budget.db"
    path.write_bytes(b"no database, and long enough to be seen as none" * 50)
    incidents = Incidents()
    limited = Budget({"calls_per_hour": 9}, SqliteStore(path), incidents=incidents)
    with pytest.raises(BudgetError, match="file"):
        limited.reserve(1)
    assert incidents.counts() == {"budget: OSError": 1}


def test_what_a_killed_process_had_reserved_stays_spent(
    file: Callable[[], SqliteStore], tmp_path: Path
) -> None:
    """A reservation that nobody settles is not given back by forgetting it."""
    budget({"calls_per_hour": 2}, file()).reserve(1)
    other = budget({"calls_per_hour": 2}, file())
    other.reserve(1)
    with pytest.raises(BudgetError):
        other.reserve(1)
    connection = sqlite3.connect(tmp_path / "budget.db")
    with contextlib.closing(connection):
        assert connection.execute("SELECT calls FROM rag_eval_budget").fetchall() == [(2.0,)]


async def test_every_try_of_a_question_asks_first() -> None:
    """Retries are calls too; a try that is refused is not counted as sent."""
    limited = budget({"calls_per_hour": 2})
    meter = Meter()

    def tries() -> None:
        with in_call_context(budget=limited), meter.charging():
            for _ in range(3):
                with meter.sending():
                    pass

    with pytest.raises(BudgetError) as caught:
        tries()
    assert caught.value.usage.calls == 2
    assert limited.spent()["hour"].calls == 2


@pytest.mark.parametrize(
    ("error", "tokens"),
    [(TimeoutError, 256), (asyncio.CancelledError, 256), (ConnectionError, 0), (JudgeError, 0)],
)
async def test_a_request_without_a_reply_in_time_is_charged_its_estimate(
    error: type[BaseException], tokens: float
) -> None:
    """A request without a reply in time is charged its estimate; a refused one nothing."""
    limited = budget({"tokens_per_hour": 1000})
    meter = Meter()

    def send() -> None:
        with meter.sending():
            raise error

    with in_call_context(budget=limited), meter.charging():
        for _ in range(2):
            with pytest.raises(error):
                send()
    spent = limited.spent()["hour"]
    assert (spent.calls, spent.tokens) == (2, 2 * tokens)


async def test_tasks_begun_in_an_evaluation_share_its_budget() -> None:
    """Calls that run beside one another ask the same budget."""
    limited = budget({"calls_per_hour": 3})

    async def ask() -> bool:
        meter = Meter()
        try:
            with meter.charging():
                with meter.sending():
                    await asyncio.sleep(0)
                meter.replied(5, 5)
        except BudgetError:
            return False
        return True

    with in_call_context(budget=limited):
        told = await asyncio.gather(*(ask() for _ in range(5)))
    assert sorted(told) == [False, False, True, True, True]
    assert await ask()


async def test_a_judge_of_ones_own_is_asked_within_the_budget() -> None:
    """A task of a judge that counts nothing itself is a call; the embedded judge makes none."""
    own = Own(Findings(answer_claims=("a",), usage={Finding.ANSWER_CLAIMS: Usage(1, 30, 12)}))
    judge = metered(own)
    task = JudgeTask(wanted=frozenset({Finding.ANSWER_CLAIMS}), question="q", answer="a")
    limited = budget({"calls_per_hour": 1, "tokens_per_hour": 900})
    with in_call_context(budget=limited):
        assert (await task.by(judge)).answer_claims == ("a",)
        with pytest.raises(BudgetError):
            await task.by(judge)
    assert len(own.calls) == limited.spent()["hour"].calls == 1
    local = LocalJudge()
    assert metered(local) is local


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"budget": {"calls_per_week": 3}}, "budget"),
        ({"budget": {"calls_per_day": -1}}, "budget"),
        ({"budget": {"calls_per_day": True}}, "budget"),
        ({"budget": {"cost_per_day": 3}}, "budget"),
        ({"budget": {"calls_per_day": 3, "path": "/no/such/folder/b.db"}}, "budget.path"),
    ],
)
def test_a_wrong_budget_is_refused_at_start(settings: dict[str, Any], field: str) -> None:
    """Unknown limits, a cost without a price and a path without a folder are errors."""
    with pytest.raises(ConfigError) as caught:
        budget_of(RagEvalConfig(**settings), Own(), None, Incidents())
    assert caught.value.field == field


class Free:
    """An embedder of somebody's own that tells nothing."""

    name = "free"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0]] * len(texts)

    async def aclose(self) -> None:
        """Holds nothing."""


class Paid:
    """An embedder of somebody's own that tells what it takes."""

    name = "mine:vectors"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return (await self.embed_metered(texts))[0]

    async def embed_metered(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        return [[1.0]] * len(texts), Usage(input_tokens=7.0 * len(texts))

    async def aclose(self) -> None:
        """Holds nothing."""


async def test_an_embedder_of_ones_own_is_asked_within_the_budget() -> None:
    """One that tells its tokens is charged; one that tells none costs nothing."""
    limited = budget({"calls_per_hour": 1, "tokens_per_hour": 100})
    embedder = allowed(Paid())
    assert isinstance(embedder, MeteredEmbedder)
    with in_call_context(budget=limited):
        _vectors, used = await embedder.embed_metered(["a", "b"])
        with pytest.raises(BudgetError):
            await embedder.embed(["c"])
    assert used == Usage(input_tokens=14)
    assert (limited.spent()["hour"].calls, limited.spent()["hour"].tokens) == (1, 14)
    free = Free()
    assert allowed(free) is free


def test_embeddings_have_a_price_of_their_own(store: BudgetStore) -> None:
    """Vectors are charged by the embedder's price, and no reply is expected of them."""
    limits = {"cost_per_day": 10, "tokens_per_day": 1e6}
    limited = budget(limits, store, price=Price(9, 9), embedding_price=Price(2, 0))
    open_call = limited.reserve(1e5, embedding=True)
    assert limited.spent()["day"].cost == pytest.approx(0.2)
    assert limited.spent()["day"].tokens == 1e5
    open_call.settle(5e4, 0)
    assert limited.spent()["day"].cost == pytest.approx(0.1)
    limited.reserve(0)
    assert limited.spent()["day"].tokens == 5e4 + 256


@pytest.mark.parametrize(
    ("judge", "embedder", "missing"),
    [(LocalJudge(), None, None), (LocalJudge(), Paid(), "mine:vectors")],
)
def test_a_limit_of_cost_wants_the_price_of_what_costs(
    judge: LocalJudge, embedder: Paid | None, missing: str | None
) -> None:
    """The embedded judge has no price and wants none; a paid embedder wants one."""
    config = RagEvalConfig(budget={"cost_per_day": 3})
    sources = Sources(judge=judge, embedder=embedder)
    if missing is None:
        assert budget_of(config, sources.judge, sources.embedder, Incidents()) is not None
        return
    with pytest.raises(ConfigError, match=missing):
        budget_of(config, sources.judge, sources.embedder, Incidents())


def test_a_budget_may_stand_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are written as pairs."""
    monkeypatch.setenv("RAG_EVAL_BUDGET", "calls_per_hour=50,tokens_per_day=1e6")
    assert RagEvalConfig().budget == {"calls_per_hour": 50.0, "tokens_per_day": 1e6}
