"""Laws of prices: the user's table, then the list of the endpoint's provider, else none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.prices import Price, Prices, prices_of
from rag_eval_hooks.usage import Usage

USED = Usage(calls=2, input_tokens=1_000_000, output_tokens=500_000)


def prices(**models: tuple[float, float]) -> Prices:
    table = {name: {"input": i, "output": o} for name, (i, o) in models.items()}
    return Prices({"currency": "EUR", "models": table})


def test_cost_is_tokens_times_prices_of_a_million_unless_nobody_counted() -> None:
    table = prices(m=(2.0, 8.0))
    assert table.priced(USED, "openai:m").cost == pytest.approx(2.0 + 4.0)
    assert table.priced(Usage(calls=1), "m").cost is None
    assert table.priced(Usage(), "m").cost == 0.0


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("openai:small-1", Price(1, 1)),
        ("openai:small-2", Price(2, 2)),
        ("small-2", Price(2, 2)),
        ("langchain:large", Price(3, 3)),
        ("openai:large", Price(4, 4)),
        ("openai:Small-1", None),
    ],
)
def test_the_exact_name_wins_then_the_first_pattern(model: str, price: Price | None) -> None:
    table = {
        "small-*": {"input": 2, "output": 2},
        "small-1": {"input": 1, "output": 1},
        "*:large": {"input": 3, "output": 3},
        "openai:large": {"input": 4, "output": 4},
    }
    assert Prices({"models": table}).of(model) == price


OPENAI = "https://api.openai.com/v1"


def test_table_stands_over_the_list_of_the_provider() -> None:
    genai = pytest.importorskip("genai_prices")
    found = Prices({"models": {"gpt-4o": {"input": 3.5, "output": 7}}}, base_url=OPENAI)
    call = genai.Usage(input_tokens=12_345, output_tokens=678)
    wanted = genai.calc_price(call, "gpt-4o-mini", provider_id="openai").total_price
    cost = found.priced(Usage(1, 12_345, 678), "openai:gpt-4o-mini").cost
    assert cost == pytest.approx(float(wanted))
    assert found.of("openai:gpt-4o") == Price(3.5, 7)


@pytest.mark.parametrize(
    ("model", "table", "address"),
    [
        ("openai:gpt-4o", {}, "http://localhost:8000/v1"),
        ("openai:gpt-4o", {"currency": "EUR"}, OPENAI),
        ("openai:of-nobody", {}, OPENAI),
        ("langchain:gpt-4o", {}, OPENAI),
    ],
)
def test_no_price_is_taken_from_another_offer(model: str, table: Any, address: str) -> None:
    assert Prices(table, base_url=address).of(model) is None


AZURE = {"judge": "azure:gpt-4o", "judge_base_url": "https://we.openai.azure.com"}
VLLM = {"judge": "openai:gpt-4o", "judge_base_url": "http://vllm:8000/v1"}


@pytest.mark.parametrize(
    ("settings", "model", "is_known"),
    [
        ({"judge": "openai:gpt-4o"}, "openai:gpt-4o", True),
        (AZURE, "openai:gpt-4o", True),
        ({"embedder": "openai:text-embedding-3-small"}, "openai:text-embedding-3-small", True),
        ({"judge": "ollama:gpt-4o"}, "openai:gpt-4o", False),
        (VLLM, "openai:gpt-4o", False),
    ],
)
def test_settings_decide_whose_list_counts(
    settings: dict[str, Any], model: str, is_known: bool
) -> None:
    pytest.importorskip("genai_prices")
    assert (prices_of(RagEvalConfig(**settings)).of(model) is not None) is is_known


BAD: list[tuple[dict[str, Any], str]] = [
    ({"currency": 3}, "prices.currency"),
    ({"model": {}}, "prices.model"),
    ({"models": {"m": 3}}, "prices.models.m"),
    ({"models": {"m": {"input": 1}}}, "prices.models.m.output"),
    ({"models": {"m": {"input": 1, "output": 1, "cached": 1}}}, "prices.models.m.cached"),
    *(
        ({"models": {"m": {"input": one, "output": 1}}}, "prices.models.m.input")
        for one in (-1, "2", float("nan"), True)
    ),
]


@pytest.mark.parametrize(("table", "field"), BAD)
def test_a_bad_table_names_its_entry(table: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Prices(table)
    assert caught.value.field == field


@pytest.mark.parametrize("content", [None, b"models = [", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "prices.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"prices\.toml"):
        Prices.read(path)
