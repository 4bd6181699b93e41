"""Units, currencies and months by name, and parts of units in words, in four languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

__all__ = ["CODES", "LOOSE", "MONTHS", "UNITS", "may_hold_part", "part_spans"]


_DATA: Final = tomllib.loads(files("rag_eval_hooks.text").joinpath("units.toml").read_text("utf-8"))
UNITS: Final[Mapping[str, tuple[str, float]]] = {
    name: (base, float(factor))
    for base, sizes in _DATA["units"].items()
    for factor, names in sizes.items()
    for name in names.split("|")
}
"""For each name of a unit its base unit, and how many of those it is."""
LOOSE: Final[Mapping[str, Mapping[str, float]]] = _DATA["loose"]
"""For each name of several units what one of it is in each."""
CODES: Final = ("usd", "eur", "gbp", "cad", "aud", "chf", "nok", "sek", "dkk", "jpy")
"""Codes of currencies, which may stand before a sum."""
MONTHS: Final = {
    name: int(number) for number, names in _DATA["months"].items() for name in names.split("|")
}
"""For each name of a month its number."""


_SHARES: Final = (
    (50.0, "half|die hälfte|la moitié|la mitad"),
    (100 / 3, "(?:a|one)[ -]third|ein drittel|un tiers|un tercio"),
    (200 / 3, "two[ -]thirds|zwei drittel|deux tiers|dos tercios"),
    (25.0, "(?:a|one)[ -]quarter|ein viertel|un quart|un cuarto|la cuarta parte"),
    (75.0, "three[ -]quarters|drei viertel|trois quarts|tres cuartos"),
)
_SHARE: Final = re.compile(
    "|".join(rf"(?P<s{at}>\b(?:{words}))" for at, (_, words) in enumerate(_SHARES)).join(
        ("(?:", r")(?=\s(?:of|der|des|von|de|du|d'|del)\b)(?!\s(?:of\s)?(?:an\s|d')?(?:de\s)?h)")
    ),
    re.IGNORECASE,
)
_ONE: Final = r"(?:an?|one|eine?r?|une?|una?)"
_HALVES: Final = tuple(
    (number, re.compile(pattern, re.IGNORECASE))
    for number, pattern in (
        (0.5, r"\b(?:half an?|(?:eine[mnr]? )?halbe[nsr]?|une? demi-|demi-|medi[oa])\s?"
              r"(?P<u>\w+)"),
        (1.5, r"\b(?:one and a half|anderthalb|eineinhalb)\s(?P<u>\w+)"),
        (1.5, rf"\b{_ONE}\s(?P<u>\w+)\s(?:and a half|et demie?|y medi[oa])\b"),
        (0.25, r"\b(?:a quarter of an|un quart d'|un cuarto de)\s?(?P<u>heure|hour|hora)\b"),
        (0.75, r"\b(?:three quarters of an|trois quarts d'|tres cuartos de)\s?"
               r"(?P<u>heure|hour|hora)\b"),
    )
)  # fmt: skip
_OF_PARTS: Final = (
    "half", "halb", "hälfte", "third", "drittel", "quart", "viertel", "moitié", "tiers", "demi",
    "mitad", "tercio", "cuart", "medi",
)  # fmt: skip


def may_hold_part(lower: str) -> bool:
    """Return whether a text in lower case may state a part of a unit or a share."""
    return any(part in lower for part in _OF_PARTS)


def part_spans(text: str) -> Iterator[tuple[int, int, float, str]]:
    """Yield start, end, number and name of the unit of each part that words state.

    Shares of something, "half of the staff", are percentages.
    """
    if not may_hold_part(text.lower()):
        return
    for number, pattern in _HALVES:
        for match in pattern.finditer(text):
            if (name := match["u"].lower()) in UNITS:
                yield *match.span(), number, name
    for match in _SHARE.finditer(text):
        at = next(at for at in range(len(_SHARES)) if match[f"s{at}"])
        yield *match.span(), _SHARES[at][0], "%"
