"""Refusals in English: what an answer comes to when it does not answer.

A sentence refuses when its main clause does: "I cannot determine ...", "the passages do not
mention ...". The "tomb of the unknown soldier" is no refusal, nor is "the author is unknown":
that is what is known about the author. An answer refuses when it opens so and goes on to no
answer, or when it is short and concludes so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.text.sentences import sentences, strip_marker

__all__ = ["refusal"]

_TELL = (
    r"(?:answer|assist|calculate|conclude|confirm|determine|establish|find|generate|give|guess|"
    r"identify|know|locate|offer|provide|say|specify|tell|verify)"
)
_TOLD = r"(?:answered|calculated|confirmed|determined|established|found|provided|verified)"
_SOURCE = r"(?:articles?|contexts?|data|documents?|excerpts?|information|passages?|sources?|texts?)"
_SOURCES = (
    r"(?:(?:any|each|either|neither|none|all|both|of|the|these|those|this|your|given|provided|"
    rf"retrieved|available|above|supplied) )*{_SOURCE}(?: (?:given|provided|above))?"
)
_LACKED = (
    r"(?:address|answer|contain|describe|disclose|explain|give|have|include|indicate|mention|offer|"
    r"provide|say|specify|state)"
)
_FACTS = r"(?:answers?|context|data|details?|information|knowledge|mention|evidence(?! that))"
_NOT_KNOWN = r"(?:not (?:clear|known|certain|stated|specified)|unclear|unknown|uncertain)"
_GIVEN = (
    r"(?:available|provided|given|included|found|present|mentioned|stated|specified|contained|"
    r"covered|addressed|described|discussed)"
)
_SELF = r"(?:i|we)"
_CANNOT = r"(?:cannot|can not|can't|couldn't|could not)"

_REFUSES = re.compile(
    "|".join(
        (
            rf"(?:(?:{_SELF}|it)(?: am|'m| are|'re| is)? )?(?:unable|not able) to {_TELL}\b",
            rf"(?:(?:{_SELF}|it) )?{_CANNOT} (?:\w+ly )?{_TELL}\b",
            rf"(?:it|this|the (?:answer|question)\b[^,;]*) {_CANNOT} be {_TOLD}\b",
            rf"{_SELF} (?:do not|don't) (?:\w+ly )?know\b",
            rf"{_SELF} (?:do not|don't) have (?:enough|sufficient|any|the|that|this) "
            rf"(?:\w+ )?{_FACTS}\b",
            rf"{_SELF} have no (?:\w+ )?{_FACTS}\b",
            rf"{_SELF} {_CANNOT} help (?:you )?with (?:that|this)\b",
            rf"(?:this|that|such|the) (?:information|answer|data) (?:is not|isn't) {_GIVEN}\b",
            rf"(?:this|that|it) (?:is not|isn't) (?:\w+ly )?{_GIVEN} (?:in|by) {_SOURCES}\b",
            r"there(?: is|'s) nothing (?:\w+ )?(?:about|on|regarding) (?:this|that|it)\b",
            rf"(?:{_SELF}(?: am|'m| are|'re) )?not (?:\w+ly |quite )?(?:sure|certain|familiar)\b",
            rf"(?:it is|it's|it remains) (?:{_NOT_KNOWN}|(?:not possible|impossible) to {_TELL})\b",
            rf"the answer\b[^,;]* (?:is|remains) (?:{_NOT_KNOWN}|not available|inconclusive)\b",
            rf"(?:there (?:is|are) )?(?:no|not enough|insufficient) (?:\w+ ){{0,2}}{_FACTS}\b",
            rf"{_SOURCES} (?:does not|doesn't|do not|don't|did not|didn't) (?:\w+ly )?{_LACKED}\b",
            rf"(?:none|neither) of {_SOURCES} (?:\w+ly )?{_LACKED}s?\b",
        )
    )
)
_SHORT_REFUSAL = re.compile(
    r"(?:(?:the answer|it) is |it's |answer: )?(?:unknown|n/?a|none|null|nil|unclear|no idea|"
    r"no answer|not (?:available|known|sure)|(?:no|insufficient) (?:data|information))"
    r"(?: available| found| given)?"
)
# What may stand before the clause that counts, and ends in a comma or before it.
_OPENING = re.compile(
    r"(?:(?:i'm|i am|we are) (?:\w+ )?(?:sorry|afraid)|(?:i|we) apologi[sz]e|sorry|apologies"
    r"|unfortunately|regrettably|therefore|thus|hence|so|however|but|and"
    r"|(?:based on|according to|given|from|in|as|without|while|since|although) [^,;:]{1,160}?)"
    rf"(?:[,!:;] ?|(?= {_SELF} )|(?= there ))\s?(?:(?:but|that) )?"
)
_SECOND_CLAUSE = re.compile(
    rf"(?:,? (?:and|so)(?: therefore)?|,? therefore|, but|;) (?={_SELF}|it )"
)

_PREAMBLE = re.compile(r"(?:sure|certainly|of course|hello|hi|thank you)\b.{0,40}[!.]|.*:")
_TURN = re.compile(
    r"(?:however|but|nevertheless|nonetheless|still|that said|here (?:is|are)|here's)\b"
)
_CONCESSION = re.compile(r", (?:but|although|though|however),? ")
_ASIDE = re.compile(
    r"(?:please|could you|can you|would you|kindly|let me know|for more|more |additional|"
    r"if you (?:can|could|give|have|need|provide|share|specify|tell|want)|perhaps|maybe|they|"
    r"you (?:can|could|may|might|should|would)|i (?:may|might|hope|would)|"
    rf"some|{_SOURCES})\b"
)
# "However, ... is not mentioned" only names what an answer leaves open; these draw a conclusion.
_CONCLUSION = re.compile(r"(?:therefore|thus|hence|so|as a result|consequently|without)\b")
_LONG: Final = 5  # sentences; in an answer of so many, a refusal at the end takes nothing back


def refusal(answer: str) -> str | None:
    """Return the words by which an answer refuses, or None if it does not."""
    written = sentences(answer)
    said = [fold(strip_marker(sentence)) for sentence in written]
    lists = any(strip_marker(sentence) != sentence for sentence in written)
    while said and _PREAMBLE.fullmatch(said[0]):
        del said[0]
    if not said:
        return None
    opens = _refusing(said[0])
    if opens is not None:
        return None if _answers(said) else opens
    concludes = 1 < len(said) < _LONG and not lists and _CONCLUSION.match(said[-1])
    return _refusing(said[-1]) if concludes else None


def _refusing(sentence: str) -> str | None:
    """Return the words by which one folded sentence refuses, or None."""
    bare = _SHORT_REFUSAL.fullmatch(sentence.strip(" .!*_\"'"))
    if bare is not None:
        return bare[0]
    for clause in _SECOND_CLAUSE.split(sentence):
        found = _REFUSES.match(_opened(clause))
        if found is not None:
            return found[0]
    return None


def _opened(clause: str) -> str:
    opening = _OPENING.match(clause)
    while opening is not None:
        clause = clause[opening.end() :]
        opening = _OPENING.match(clause)
    return clause


def _answers(said: Sequence[str]) -> bool:
    """Return whether an answer that opens with a refusal goes on to answer all the same."""
    conceded = _CONCESSION.split(said[0])[1:]
    if any(_tells(clause) for clause in conceded):
        return True
    statements = [sentence for sentence in said[1:] if _tells(_TURN.sub("", sentence).lstrip(" ,"))]
    return len(statements) > 1 or any(_TURN.match(sentence) for sentence in statements)


def _tells(text: str) -> bool:
    """Return whether a folded sentence is about the matter: neither a refusal nor an aside."""
    return _refusing(text) is None and _ASIDE.match(_opened(text)) is None
