"""Table of what the ready rules find and leave.

    python -m tests.redaction.table

prints a row for each rule: texts in which something must be found, and texts in which nothing may
be, all with every rule on.
"""

from __future__ import annotations

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.redaction import Redactor, choose_redactor
from rag_eval_hooks.redaction.rule import merge_matches
from tests.redaction.cases import CASES, Case

__all__ = ["all_rules", "found"]


def all_rules() -> Redactor:
    """Every ready rule that needs no model."""
    return choose_redactor(RagEvalConfig(), ["all", "ip"])


def found(redactor: Redactor, text: str) -> list[str]:
    """Return the texts that the rules find, in order."""
    matches = merge_matches(text, [tuple(rule(text)) for rule in redactor.rules])
    return [text[match.start : match.end] for match in matches]


def main() -> None:
    """Prints the table."""
    redactor = all_rules()
    print("| rule | to find | found exactly | to leave | left |")
    print("|---|---:|---:|---:|---:|")
    for rule in [*dict.fromkeys(case.rule for case in CASES), "all"]:
        cases = [case for case in CASES if rule in (case.rule, "all")]
        finds = [case for case in cases if case.wanted]
        leaves = [case for case in cases if not case.wanted]
        right = [_right(redactor, finds), _right(redactor, leaves)]
        print(f"| {rule} | {len(finds)} | {right[0]} | {len(leaves)} | {right[1]} |")


def _right(redactor: Redactor, cases: list[Case]) -> int:
    return sum(found(redactor, case.plain) == case.wanted for case in cases)


if __name__ == "__main__":
    main()
