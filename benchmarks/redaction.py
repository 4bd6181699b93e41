"""What redaction costs, and that its time grows as the text does.

    python benchmarks/redaction.py

prints milliseconds for a text of 10,000 characters of prose with a few things to find, and for
hostile texts how much longer one takes that is twice as long: 2 is linear, 4 quadratic.
"""

from __future__ import annotations

import time

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.redaction import Redactor, choose_redactor

_PROSE = (
    "The harbour of Varne opened on 15.10.1923 with 1,200 members and 25 boats. Its master, Ada "
    "Lorne, answers letters to ada@varne.example, or calls on +49 30 901820 from 8:00 to 17:00. "
    "Fees of 12.50 euros go to DE89 3704 0044 0532 0130 00; in 2024 they were 3 % lower. "
)
_HOSTILE = ("a@", "@", "0 ", "+1 ", "tel 1234567 ", "4111 ", "DE89 ", "eyJ", "-eyJaaaaaaaa", "://a:",
            "password=", "-----BEGIN ", "a:1", "1.1.")  # fmt: skip
_SIZE = 250_000


def seconds(redactor: Redactor, text: str) -> float:
    """The least of three runs."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        redactor.session().text("question", text)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Prints both tables."""
    prose = (_PROSE * 50)[:10_000]
    print("10,000 characters of prose, by rule, in milliseconds")
    for name in ("email", "phone", "card", "iban", "key", "ip", "all"):
        print(f"  {name:6} {1000 * seconds(choose_redactor(RagEvalConfig(), name), prose):.2f}")
    redactor = choose_redactor(RagEvalConfig(), ["all", "ip"])
    print("hostile texts: seconds for 500,000 characters, and how much longer than for 250,000")
    for unit in _HOSTILE:
        half = seconds(redactor, unit * (_SIZE // len(unit)))
        whole = seconds(redactor, unit * (2 * _SIZE // len(unit)))
        print(f"  {unit!r:16} {whole:.2f} s, x {whole / half:.2f}")


if __name__ == "__main__":
    main()
