"""Table of the attacks that reach a judge that obeys everything outside the delimiters.

    python -m tests.injection.table

prints a row for each class of attacks: with delimiters that are always the same, and with ours;
then the same for a judge that takes what looks like a delimiter for one.
"""

from __future__ import annotations

from tests.injection.attacks import ATTACKS
from tests.injection.mounting import Result, mount, mount_embedded

__all__: list[str] = []

_HEADER = (
    "class",
    "attacks",
    "fixed delimiters",
    "ours",
    "ours, scores raised",
    "embedded judge",
    "fixed, read kindly",
    "ours, read kindly",
)


def main() -> None:
    """Prints the table."""
    fixed = mount(ATTACKS, fixed_delimiters=True)
    ours = mount(ATTACKS)
    embedded = mount_embedded(ATTACKS)
    kindly = [mount(ATTACKS, fixed_delimiters=fix, lenient=True) for fix in (True, False)]
    kinds = [*dict.fromkeys(attack.kind for attack in ATTACKS), "all"]
    print("|", " | ".join(_HEADER), "|")
    print("|---|" + "---:|" * (len(_HEADER) - 1))
    for kind in kinds:
        rows = [[r for r in results if kind in (r.attack.kind, "all")] for results in (ours, fixed)]
        own = [r for r in embedded if kind in (r.attack.kind, "all")]
        told = [[r for r in results if kind in (r.attack.kind, "all")] for results in kindly]
        cells = (
            len(rows[0]),
            _obeyed(rows[1]),
            _obeyed(rows[0]),
            _raised(rows[0]),
            _raised(own),
            *map(_obeyed, told),
        )
        print(f"| {kind} |", " | ".join(map(str, cells)), "|")


def _obeyed(results: list[Result]) -> int:
    return sum(result.obeyed > 0 for result in results)


def _raised(results: list[Result]) -> int:
    return sum(bool(result.raised) for result in results)


if __name__ == "__main__":
    main()
