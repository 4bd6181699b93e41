"""Pairs of passage and claim whose label is known because code made the claim.

Each maker takes a sentence of a passage and returns a claim with its label, or None where the
sentence does not lend itself to it. Labels: 0 entailment, 1 neutral, 2 contradiction.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

__all__ = ["CONTRADICTION", "ENTAILMENT", "NEUTRAL", "made_pairs"]

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
Made = tuple[str, int] | None

WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
MONTHS = (
    "January February March April May June July August September October November December"
).split()
ANTONYMS = [
    pair.split("/")
    for pair in (
        "increase/decrease increases/decreases increased/decreased higher/lower high/low "
        "more/less most/least maximum/minimum before/after first/last hot/cold warm/cool "
        "above/below always/never all/none large/small larger/smaller long/short longer/shorter "
        "early/late open/closed inside/outside positive/negative strong/weak safe/dangerous "
        "allowed/forbidden legal/illegal public/private add/remove fast/slow faster/slower "
        "wet/dry raise/lower begin/end begins/ends buy/sell north/south east/west "
        "day/night male/female men/women rich/poor young/old success/failure winter/summer "
        "internal/external easy/difficult common/rare expensive/cheap possible/impossible "
        "required/optional upper/lower heavy/light gain/loss win/lose won/lost "
        "accept/reject accepted/rejected full/empty dead/alive"
    ).split()
]
SYNONYMS = [
    pair.split("/")
    for pair in (
        "begin/start begins/starts buy/purchase bought/purchased big/large car/automobile "
        "help/assist children/kids approximately/about doctor/physician get/obtain "
        "show/demonstrate use/utilize near/close_to usually/typically many/numerous "
        "quickly/rapidly important/significant required/necessary reduce/decrease "
        "increase/raise film/movie cost/price job/occupation illness/disease "
        "several/multiple difficult/hard end/finish choose/select remove/eliminate "
        "because/since also/additionally often/frequently build/construct built/constructed "
        "called/named located/situated contains/includes causes/produces allows/permits"
    ).split()
]
UNITS = {
    "hours": ("minutes", 60), "hour": ("minutes", 60), "minutes": ("seconds", 60),
    "days": ("hours", 24), "weeks": ("days", 7), "years": ("months", 12), "feet": ("inches", 12),
    "kilograms": ("grams", 1000), "kg": ("g", 1000), "km": ("metres", 1000),
    "miles": ("feet", 5280), "pounds": ("ounces", 16), "meters": ("centimeters", 100),
    "liters": ("milliliters", 1000), "dollars": ("cents", 100),
}  # fmt: skip
WRONG_UNITS = [
    "hours minutes days weeks months years seconds".split(),
    "feet meters miles inches kilometers yards".split(),
    "dollars euros pounds yen".split(),
    "grams kilograms ounces tons milligrams".split(),
    "percent degrees".split(),
    "teaspoons tablespoons cups liters".split(),
]
AUXILIARY = re.compile(r"\b(is|are|was|were|can|will|should|does|has|may|must|could)\b(?! not\b)")
NUMBER = re.compile(r"(?<![\w.,$-])\d{1,4}(?![\w,%-]|\.\d)")
NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")


def _swap(sentence: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new.replace("_", " "), sentence, count=1)


def copied(rng: random.Random, sentence: str, other: str) -> Made:
    """Copy the sentence, or all of it before a comma, or small and without its full stop."""
    cut = sentence.find(", ", len(sentence) // 2)
    if cut > 30 and rng.random() < 0.4:
        return sentence[:cut] + ".", ENTAILMENT
    return (sentence if rng.random() < 0.7 else sentence.lower().rstrip(".")), ENTAILMENT


def numbered(rng: random.Random, sentence: str, other: str) -> Made:
    """Change a number, or write it another way."""
    found = list(NUMBER.finditer(sentence))
    if not found:
        return None
    match = rng.choice(found)
    value = int(match[0])
    head, tail = sentence[: match.start()], sentence[match.end() :]
    kind = rng.random()
    unit = re.match(r"\s(\w+)", tail)
    if unit and unit[1] in UNITS and value <= 100 and kind < 0.5:
        name, factor = UNITS[unit[1]]
        wrong = rng.random() < 0.4
        shown = value * factor * (rng.choice((2, 3, 10)) if wrong else 1)
        label = CONTRADICTION if wrong else ENTAILMENT
        return f"{head}{shown} {name}{tail[unit.end() :]}", label
    if value <= 20 and kind < 0.35:
        return f"{head}{WORDS[value]}{tail}", ENTAILMENT
    near = rng.choice([value + 1, value * 2, value + 10, max(value - 1, 0), value + 5, value * 10])
    if near == value:
        return None
    text = WORDS[near] if near <= 20 and rng.random() < 0.3 else str(near)
    return f"{head}{text}{tail}", CONTRADICTION


def spelled(rng: random.Random, sentence: str, other: str) -> Made:
    """Change a number that is a word, or write it in digits."""
    found = list(re.finditer(rf"\b({'|'.join(WORDS[2:])})\b", sentence))
    if not found:
        return None
    match = rng.choice(found)
    value = WORDS.index(match[0])
    same = rng.random() < 0.4
    wrong = rng.choice([n for n in range(2, 20) if n != value])
    new = str(value) if same else rng.choice((WORDS[wrong], str(wrong)))
    return _swap(sentence, match[0], new), ENTAILMENT if same else CONTRADICTION


def with_unit(rng: random.Random, sentence: str, other: str) -> Made:
    """Put another unit behind a number."""
    for group in WRONG_UNITS:
        for unit in group:
            if re.search(rf"\d {unit}\b", sentence):
                wrong = rng.choice([u for u in group if u != unit])
                return re.sub(rf"(\d) {unit}\b", rf"\1 {wrong}", sentence, count=1), CONTRADICTION
    return None


def dated(rng: random.Random, sentence: str, other: str) -> Made:
    """Change a month or a year, or write a date another way."""
    full = re.search(rf"\b({'|'.join(MONTHS)}) (\d{{1,2}}), (\d{{4}})", sentence)
    if full and rng.random() < 0.6:
        month, day, year = MONTHS.index(full[1]) + 1, int(full[2]), full[3]
        forms = (f"{day} {full[1]} {year}", f"{year}-{month:02}-{day:02}")
        return sentence.replace(full[0], rng.choice(forms)), ENTAILMENT
    found = re.findall(rf"\b(?:{'|'.join(MONTHS)})\b", sentence)
    if found:
        old = rng.choice(found)
        return _swap(sentence, old, rng.choice([m for m in MONTHS if m != old])), CONTRADICTION
    return None


def negated(rng: random.Random, sentence: str, other: str) -> Made:
    """Deny the sentence, or take its negation out."""
    if re.search(r"\b(?:not|n't|never|no)\b", sentence):
        if " not " in sentence:
            return sentence.replace(" not ", " ", 1), CONTRADICTION
        return None
    found = AUXILIARY.findall(sentence)
    if not found:
        return None
    word = rng.choice((" not", " never", " no longer"))
    return AUXILIARY.sub(rf"\1{word}", sentence, count=1), CONTRADICTION


def opposed(rng: random.Random, sentence: str, other: str) -> Made:
    """Put an antonym for a word."""
    return _paired(rng, sentence, ANTONYMS, CONTRADICTION)


def reworded(rng: random.Random, sentence: str, other: str) -> Made:
    """Put a synonym for a word."""
    return _paired(rng, sentence, SYNONYMS, ENTAILMENT)


def _paired(rng: random.Random, sentence: str, pairs: Sequence[Sequence[str]], label: int) -> Made:
    words = set(re.findall(r"[a-z]+", sentence))
    found = [(a, b) for one, two in pairs for a, b in ((one, two), (two, one)) if a in words]
    return (_swap(sentence, *rng.choice(found)), label) if found else None


def renamed(rng: random.Random, sentence: str, other: str) -> Made:
    """Exchange two names of the sentence, or put a name of another text for one."""
    names = list(dict.fromkeys(NAME.findall(sentence)))
    if len(names) > 1 and rng.random() < 0.5:
        one, two = rng.sample(names, 2)
        text = sentence.replace(one, "\0").replace(two, one).replace("\0", two)
        joined = re.search(rf"{re.escape(one)},? (?:and|or|,) {re.escape(two)}", sentence)
        return (text, ENTAILMENT) if joined else (text, CONTRADICTION)
    foreign = [name for name in NAME.findall(other) if name not in sentence]
    if not names or not foreign:
        return None
    return sentence.replace(rng.choice(names), rng.choice(foreign)), CONTRADICTION


def extended(rng: random.Random, sentence: str, other: str) -> Made:
    """Add what the passage does not say."""
    words = other.rstrip(".").split()
    if not 4 <= len(words) <= 18:
        return None
    tail = " ".join(words)
    tail = tail[0].lower() + tail[1:]
    return f"{sentence.rstrip('.')}, {rng.choice(('and', 'and', 'because', 'so'))} {tail}.", NEUTRAL


def foreign(rng: random.Random, sentence: str, other: str) -> Made:
    """Claim what another passage says."""
    return other, NEUTRAL


def strengthened(rng: random.Random, sentence: str, other: str) -> Made:
    """Make a possibility a fact or a part the whole, or the reverse."""
    up = (("may", "will"), ("might", "will"), ("can", "always"), ("some", "all"),
          ("Some", "All"), ("many", "all"), ("Many", "All"), ("most", "all"), ("Most", "All"),
          ("often", "always"), ("usually", "always"), ("could", "will"), ("sometimes", "always"),
          ("likely", "certainly"), ("possible", "certain"))  # fmt: skip
    down = (("all", "some"), ("All", "Some"), ("always", "sometimes"), ("every", "some"))
    words = set(sentence.split())
    found = [(a, b, NEUTRAL) for a, b in up if a in words]
    found += [(a, b, ENTAILMENT) for a, b in down if a in words]
    if not found:
        return None
    old, new, label = rng.choice(found)
    return _swap(sentence, old, new), label


MAKERS: dict[Callable[[random.Random, str, str], Made], float] = {
    copied: 5, numbered: 3, spelled: 2, with_unit: 1.5, dated: 1.5, negated: 2.5, opposed: 2.5,
    reworded: 2.5, renamed: 2, extended: 2, foreign: 2.5, strengthened: 1.5,
}  # fmt: skip

FIRMS = "Acme Norvik Lumen Tarsis Quill Bexley Orbix Halden Corvo Pinecrest Zenta Marlow".split()
PEOPLE = "Anna Boris Clara David Elena Farid Greta Hugo Ines Jonas Karla Luis Mona Nils".split()
ACTIVE = [
    ("acquired", "was acquired by", "bought"), ("sued", "was sued by", "took legal action against"),
    ("hired", "was hired by", "gave a job to"), ("defeated", "was defeated by", "beat"),
    ("founded", "was founded by", "established"), ("taught", "was taught by", "gave lessons to"),
    ("paid", "was paid by", "gave money to"), ("invited", "was invited by", "asked to come"),
    ("replaced", "was replaced by", "took over from"),
    ("followed", "was followed by", "came after"),
    ("praised", "was praised by", "spoke well of"), ("owns", "is owned by", "possesses"),
]  # fmt: skip
COLUMNS = {
    "Price": ("costs {} dollars", (5, 400)), "Storage": ("has {} GB of storage", (8, 999)),
    "Weight": ("weighs {} kg", (1, 90)), "Users": ("allows {} users", (1, 200)),
    "Height": ("is {} metres high", (2, 900)), "Opened": ("was opened in {}", (1850, 2022)),
    "Battery": ("runs {} hours on battery", (2, 60)), "Seats": ("has {} seats", (2, 500)),
}  # fmt: skip


def role_pair(rng: random.Random) -> tuple[str, str, int]:
    """Make pairs about roles: active, passive and in other words."""
    pool = PEOPLE if rng.random() < 0.5 else FIRMS
    one, two, three = rng.sample(pool, 3)
    active, passive, other = rng.choice(ACTIVE)
    when = rng.choice(("", " in 2019", " last spring", " after long talks", " in March"))
    premise = rng.choice((f"{one} {active} {two}{when}.", f"{two} {passive} {one}{when}."))
    tail = rng.choice(("", f" {three} was not involved.", f" {three} watched.", " It made news."))
    right = [f"{one} {active} {two}.", f"{two} {passive} {one}.", f"{one} {other} {two}."]
    wrong = [f"{two} {active} {one}.", f"{one} {passive} {two}.", f"{two} {other} {one}.",
             f"{three} {active} {two}."]  # fmt: skip
    if rng.random() < 0.45:
        return premise + tail, rng.choice(right), ENTAILMENT
    return premise + tail, rng.choice(wrong), CONTRADICTION


def table_pair(rng: random.Random) -> tuple[str, str, int]:
    """A cell of a table or list, of the right row or of another."""
    names = rng.sample([*FIRMS, *("Basic Team Pro Max Mini Solo".split())], rng.randint(2, 5))
    columns = rng.sample(sorted(COLUMNS), rng.randint(1, min(3, len(COLUMNS))))
    cells = {(n, c): rng.randint(*COLUMNS[c][1]) for n in names for c in columns}
    style = rng.random()
    if style < 0.4:
        rows = [" | ".join(["Name", *columns])]
        rows += [" | ".join([n, *(str(cells[n, c]) for c in columns)]) for n in names]
    elif style < 0.7:
        rows = [f"- {n}: " + ", ".join(f"{c} {cells[n, c]}" for c in columns) for n in names]
    else:
        rows = [
            f"{n} " + " and ".join(COLUMNS[c][0].format(cells[n, c]) for c in columns) + "."
            for n in names
        ]
    name, column = rng.choice(names), rng.choice(columns)
    value = cells[name, column]
    label = ENTAILMENT
    if rng.random() < 0.6:
        others = [cells[n, column] for n in names if cells[n, column] != value]
        value = rng.choice(others) if others else value + 3
        label = CONTRADICTION
    elif rng.random() < 0.15:
        column = rng.choice([c for c in COLUMNS if c not in columns])
        value, label = rng.randint(*COLUMNS[column][1]), NEUTRAL
    return "\n".join(rows), f"{name} {COLUMNS[column][0].format(value)}.", label


def made_pairs(
    windows: Sequence[Sequence[str]], rng: random.Random, count: int
) -> Iterator[tuple[str, str, int]]:
    """Yield `count` pairs of premise, claim and label.

    Args:
        windows: Sentences that follow each other in a passage; claims are made of one of them.
        rng: Source of chance.
        count: Number of pairs.
    """
    makers, weights = list(MAKERS), list(MAKERS.values())
    made = 0
    while made < count:
        kind = rng.random()
        if kind < 0.12:
            yield role_pair(rng) if kind < 0.06 else table_pair(rng)
            made += 1
            continue
        maker = rng.choices(makers, weights)[0]
        for _ in range(30):  # sentences, until one lends itself to it
            window, elsewhere = rng.choice(windows), rng.choice(rng.choice(windows))
            sentence = rng.choice(window)
            found = maker(rng, sentence, elsewhere) if 5 <= len(sentence.split()) <= 40 else None
            if found is not None and (found[0] != sentence or found[1] == ENTAILMENT):
                yield " ".join(window), *found
                made += 1
                break
