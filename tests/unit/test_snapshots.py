"""Copies of what passes by: equal, bounded, and made without the application's code."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.capture.snapshots import LATE_NODES, Copier, Snapshots

ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.dates())
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
        st.tuples(inner, inner),
    ),
    max_leaves=30,
)


def copier(snapshots: Snapshots | None = None, **limits: int) -> Copier:
    made = Snapshots() if snapshots is None else snapshots
    return Copier(made, lambda kind: None, {}, None, 10**9, **limits)


@given(VALUES, VALUES)
def test_copy_is_the_same_object_until_the_value_changes(value: Any, added: Any) -> None:
    """Readers tell by identity what a step hands on."""
    snapshots, held = Snapshots(), {"before": value, "list": [value]}
    first = copier(snapshots, nodes=LATE_NODES).of(held)
    assert copier(snapshots, nodes=LATE_NODES).of(held) is first
    held["list"].append(added)
    second = copier(snapshots, nodes=LATE_NODES).of(held)
    assert second is not first
    assert second["before"] is first["before"]
    assert second["list"] == [value, added]


@given(st.integers(200, 20_000), st.sampled_from(["rows", "numbers", "nested", "cycle"]))
def test_copy_on_the_request_thread_is_bounded_and_says_so(size: int, shape: str) -> None:
    cycle: list[Any] = []
    cycle.extend([cycle] * (20 * size))
    value: Any = {
        "rows": [{"name": str(n), "price": n} for n in range(size)],
        "numbers": {str(n): n for n in range(20 * size)},
        "nested": [[[n]] for n in range(size)],
        "cycle": cycle,
    }[shape]
    made = copier()
    taken = made.of({"value": value, "question": "q"})
    assert made.is_cut
    assert taken["question"] == "q"
    assert _entries(taken) < 4000


def _entries(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value
    return 1 + sum(map(_entries, parts)) if isinstance(value, dict | list) else 1
