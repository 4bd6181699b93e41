"""Units, currencies and months by name, and parts of units in words, in four languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["CODES", "LOOSE", "MONTHS", "UNITS", "may_hold_part", "part_spans"]


def _units(*rows: str) -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}
    for row in rows:
        base, factor, names = row.split(maxsplit=2)
        found.update((name, (base, float(factor))) for name in names.split())
    return found


UNITS: Final = _units(
    "m 1 m metre metres meter meters metern mètre mètres metro metros",
    "m 1000 km kilometre kilometres kilometer kilometers kilometern kilomètre kilomètres "
    "kilómetro kilómetros",
    "m 0.01 cm centimetre centimetres centimeter centimeters zentimeter centimètre centimètres "
    "centímetro centímetros",
    "m 0.001 mm millimetre millimetres millimeter millimeters millimètres milímetros",
    "m 1609.344 mile miles mi meile meilen milla millas",
    "m 0.3048 foot feet ft fuß pied pieds pie pies",
    "m 0.0254 inch inches zoll pouce pouces pulgada pulgadas",
    "m 0.9144 yard yards yd yds",
    "g 1 g gram grams gramm gramme grammes gramo gramos",
    "g 1000 kg kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramo kilogramos",
    "g 0.001 mg milligram milligrams milligramm milligrammes miligramos",
    "g 1000000 tonne tonnes ton tons tonnen tonelada toneladas",
    "g 28.3495 ounce ounces oz",
    "s 1 second seconds sec secs sekunde sekunden seconde secondes segundo segundos",
    "s 60 minute minutes min mins minuten minuto minutos",
    "s 3600 hour hours hr hrs h stunde stunden heure heures hora horas",
    "s 86400 day days tag tage tagen jour jours día días",
    "s 604800 week weeks woche wochen semaine semaines semana semanas",
    "month 1 month months monat monate monaten mois mes meses",
    "month 12 year years yr yrs jahr jahre jahren an ans année années año años",
    "month 120 decade decades jahrzehnt jahrzehnte décennie décennies década décadas",
    "month 1200 century centuries jahrhundert jahrhunderte siècle siècles siglo siglos",
    "l 1 litre litres liter liters litern litro litros",
    "l 0.001 ml millilitre millilitres milliliter milliliters mililitros",
    "l 3.785 gallon gallons",
    "b 1e3 kb kilobyte kilobytes",
    "b 1e6 mb megabyte megabytes",
    "b 1e9 gb gigabyte gigabytes",
    "b 1e12 tb terabyte terabytes",
    "usd 1 usd",
    "cad 1 cad",
    "aud 1 aud",
    "dollar 1 $ dollar dollars dólar dólares",
    "euro 1 € euro euros eur",
    "gbp 1 £ gbp",
    "g 453.592 lb lbs",
    "pound 1 pound pounds pfund livre livres libra libras",
    "yen 1 ¥ yen jpy",
    "krone 1 krone kroner kronen kronor krona",
    "nok 1 nok",
    "sek 1 sek",
    "dkk 1 dkk",
    "chf 1 chf",
    "franc 1 franc francs franken franco francos",
    "cent 1 cent cents centime centimes céntimos",
    "% 1 % percent prozent percentage",
    "°c 1 °c celsius",
    "°f 1 °f fahrenheit",
    "volt 1 volt volts",
    "watt 1 w watt watts",
    "watt 1000 kw kilowatt kilowatts",
)
"""For each name of a unit its base unit, and how many of those it is."""
LOOSE: Final = {
    "dollar": {"usd": 1.0, "cad": 1.0, "aud": 1.0},
    "pound": {"gbp": 1.0, "g": 453.592},
    "krone": {"nok": 1.0, "sek": 1.0, "dkk": 1.0},
    "franc": {"chf": 1.0},
}
"""For each name of several units what one of it is in each."""
CODES: Final = ("usd", "eur", "gbp", "cad", "aud", "chf", "nok", "sek", "dkk", "jpy")
"""Codes of currencies, which may stand before a sum."""
MONTHS: Final = {
    name: at
    for at, names in enumerate(
        (
            "january januar janvier enero jan", "february februar février febrero feb",
            "march märz mars marzo mar", "april avril abril apr", "may mai mayo",
            "june juni juin junio jun", "july juli juillet julio jul",
            "august août agosto aug", "september septembre septiembre sep sept",
            "october oktober octobre octubre oct okt", "november novembre noviembre nov",
            "december dezember décembre diciembre dec dez",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
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
