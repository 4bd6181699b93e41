"""Values that can be read once, or that do something when they are read."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st


class OneShot:
    """A value, and whether somebody has read from it."""

    def __init__(self, make: Callable[[OneShot, list[Any]], Any], items: list[Any]) -> None:
        self.was_read = False
        self.value = make(self, items)

    def __repr__(self) -> str:
        return f"OneShot({type(self.value).__name__})"

    def read(self, item: Any) -> Any:
        self.was_read = True
        return item


class _Items:
    def __init__(self, shot: OneShot, items: list[Any]) -> None:
        self._shot, self._items = shot, iter(items)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._shot.read(next(self._items))


class _LazyMapping(Mapping[str, Any]):
    def __init__(self, shot: OneShot, items: list[Any]) -> None:
        self._shot, self._items = shot, {str(n): item for n, item in enumerate(items)}

    def __getitem__(self, key: str) -> Any:
        return self._shot.read(self._items[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class _File(io.StringIO):
    def __init__(self, shot: OneShot, items: list[Any]) -> None:
        super().__init__("\n".join(map(str, items)))
        self._shot = shot

    def read(self, size: int | None = -1) -> str:
        return str(self._shot.read(super().read(size)))

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        return str(self._shot.read(super().readline(size)))


def _generator(shot: OneShot, items: list[Any]) -> Iterator[Any]:
    return (shot.read(item) for item in items)


async def _async_generator(shot: OneShot, items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield shot.read(item)


_MAKERS: tuple[Callable[[OneShot, list[Any]], Any], ...] = (
    _Items,
    _LazyMapping,
    _File,
    _generator,
    _async_generator,
    lambda shot, items: map(shot.read, items),
    lambda shot, items: filter(lambda item: shot.read(item) is not None, items),
    lambda shot, items: zip(_Items(shot, items), items, strict=False),
    lambda shot, items: enumerate(_Items(shot, items)),
)

ONE_SHOT = st.builds(
    lambda make, texts: lambda of: OneShot(make, [of(text) for text in texts]),
    st.sampled_from(_MAKERS),
    st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=3),
)
"""Draws functions that make such a value of items, given what makes an item of a text."""
