"""Copies of what passes by: equal, bounded, and made without the application's code."""

from __future__ import annotations

import copy
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


@given(VALUES)
def test_copy_of_values_equals_them_and_does_not_change_with_them(value: Any) -> None:
    """What an application changes after an event is not read as part of the event."""
    before = copy.deepcopy(value)
    taken = copier(nodes=LATE_NODES).of(value)
    if isinstance(value, list):
        value.append("changed")
    elif isinstance(value, dict):
        value["changed"] = True
    assert taken == before


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


@given(st.integers(0, 100), st.integers(1, 60))
def test_copy_says_what_it_leaves_out_for_its_depth(levels: int, most: int) -> None:
    """On the request's thread it is then copied again later, with more levels."""
    value: Any = ["text"]
    for _ in range(levels):
        value = [value]
    made = copier(nodes=LATE_NODES)
    taken = made.of(value, most)
    assert made.is_shallow == (levels >= most)
    assert made.is_shallow or taken == value


def _entries(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value
    return 1 + sum(map(_entries, parts)) if isinstance(value, dict | list) else 1


@given(st.integers(1, 400))
def test_copy_of_many_framework_objects_holds_them_all_or_says_so(size: int) -> None:
    """A form that takes one node for each object must not lose the last objects in silence."""

    class Part:
        pass

    def form_of(kind: type) -> Any:
        def form(copier: Copier, value: Any, depth: int) -> Any:
            copier.room(0, depth)
            return value

        return form if kind is Part else None

    made = Copier(Snapshots(), form_of, {}, None, 10**9)
    taken = made.of([Part() for _ in range(size)])
    assert made.is_cut or len(taken) == size
