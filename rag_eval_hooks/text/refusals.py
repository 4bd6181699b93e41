"""Refusals: what an answer comes to when it does not answer.

A sentence refuses when its main clause does: "I cannot determine ...", "the passages do not
mention ...". The "tomb of the unknown soldier" is no refusal, nor is "the author is unknown":
that is what is known about the author. An answer refuses when it opens so and goes on to no
answer, or when it is short and concludes so. In German, French and Spanish, where words stand in
freer order, a clause refuses by the kinds of its words: who does not know or say, what is lacking,
which source is silent. In Chinese, Japanese and Arabic, a short answer is looked up among usual
phrases.
"""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import takewhile
from typing import Final

from rag_eval_hooks.text.folding import fold, word_set
from rag_eval_hooks.text.sentences import sentences, strip_marker

__all__ = ["refusal"]

_TELL = (
    r"(?:answer|assist|calculate|conclude|confirm|determine|establish|find|generate|give|guess|"
    r"identify|know|locate|offer|provide|say|specify|tell|verify)"
)
_TOLD = r"(?:answered|calculated|confirmed|determined|established|found|provided|verified)"
_SOURCE = r"(?:articles?|contexts?|data|documents?|excerpts?|information|passages?|sources?|texts?)"
_SOURCES = (
    r"(?:(?:any|each|either|neither|none|all|both|of|the|these|those|this|my|your|given|provided|"
    rf"retrieved|available|above|supplied) ){{0,5}}{_SOURCE}(?: (?:given|provided|above))?"
)
_LACKED = (
    r"(?:address|answer|contain|cover|describe|disclose|explain|give|have|include|indicate|mention"
    r"|offer|provide|say|specify|state|tell)"
)
_FACTS = r"(?:answers?|context|data|details?|information|knowledge|mention|evidence(?! that))"
_NOT_KNOWN = r"(?:not (?:clear|known|certain|stated|specified)|unclear|unknown|uncertain)"
_GIVEN = (
    r"(?:available|provided|given|included|found|present|mentioned|stated|specified|contained|"
    r"covered|addressed|described|discussed)"
)
_SELF = r"(?:i|we)"
_BE = r"(?:am|'m|is|'s|are|'re|was|were)"
_REFUSES = re.compile(
    "|".join(
        (
            rf"(?:(?:{_SELF}|it) ?{_BE}? )?(?:unable|not able) to {_TELL}\b",
            rf"(?:(?:{_SELF}|it) )?(?:can|could) not (?:\w+ly )?{_TELL}\b",
            rf"(?:it|this|(?:the|that|this|your) (?:answer|question)\b[^,;]{{0,200}}) (?:can|could)"
            rf" not be {_TOLD}\b",
            rf"{_SELF} do not (?:\w+ly )?know\b",
            rf"{_SELF} do not have (?:access to )?(?:enough|sufficient|any|the|that|this|such) "
            rf"(?:\w+ )?{_FACTS}\b",
            rf"{_SELF} (?:have (?:no|insufficient)|lack) (?:(?!no )\w+ ){{0,2}}"
            rf"(?:{_FACTS}|idea|clue)\b",
            rf"{_SELF} (?:do|did|can|could) not (?:see|find) (?:\w+ ){{0,4}}(?:in|among) "
            rf"{_SOURCES}\b",
            rf"{_SELF} (?:can|could) not help (?:you )?with (?:that|this)\b",
            rf"[^,;]{{1,80}} (?:is|are|was|were) not (?:\w+ly )?{_GIVEN} (?:\w+ )?(?:in|by) "
            rf"(?=(?:any|the|these|those|this|my|your) ){_SOURCES}\b",
            rf"(?:this|that|such|the) (?:information|answer|data) is not {_GIVEN}\b",
            rf"(?:nothing|none|neither) (?:in|of) {_SOURCES} (?:\w+ly )?{_LACKED}s?\b",
            r"there(?: is|'s) nothing (?:\w+ )?(?:about|on|regarding) (?:this|that|it)\b",
            rf"(?:{_SELF} ?{_BE} )?(?:unsure|not (?:\w+ly |quite )?(?:sure|certain|familiar))\b",
            rf"it(?: ?{_BE}| remains) (?:{_NOT_KNOWN}|(?:not possible|impossible) to {_TELL})\b",
            rf"the answer\b[^,;]{{0,200}} (?:is|remains) (?:{_NOT_KNOWN}|not available)\b",
            rf"(?:there {_BE} )?(?:no|(?:not )?insufficient|not enough) (?:\w+ ){{0,2}}{_FACTS}\b",
            rf"there {_BE} not (?:any|enough|sufficient) (?:\w+ ){{0,2}}{_FACTS}\b",
            rf"{_SOURCES} (?:do|does|did) not (?:\w+ly )?{_LACKED}\b",
            rf"{_SOURCES} (?:{_LACKED}s? (?:nothing|no {_FACTS})|(?:is|are) silent)\b",
        )
    )
)
_NOT: Final = re.compile(r"\bcan(?:not|'t)\b|n't\b")
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

_PREAMBLE = re.compile(r"(?:sure|certainly|of course|hello|hi|thank you)\b.{0,40}[!.]|.{0,200}:")
_TURN = re.compile(
    r"(?:however|but|nevertheless|nonetheless|still|that said|here (?:is|are)|here's|aber|jedoch"
    r"|allerdings|mais|cependant|toutefois|pero|sin embargo)\b"
)
_CONCESSION = re.compile(
    r", (?:but|although|though|however|aber|jedoch|mais|cependant|pero|aunque|sino),? "
)
_ASIDE = re.compile(
    r"(?:please|could you|can you|would you|kindly|let me know|for more|more |additional|"
    r"if you (?:can|could|give|have|need|provide|share|specify|tell|want)|perhaps|maybe|they|"
    r"you (?:can|could|may|might|should|would)|i (?:may|might|hope|would)|"
    rf"some|{_SOURCES}|bitte|wenn (?:du|sie)|konnen sie|kannst du|gerne|falls|veuillez|pouvez"
    r"|si vous|n'hesitez|por favor|puede usted|si (?:me|tiene|necesita|puede)"
    r")\b"
)
# "However, ... is not mentioned" only names what an answer leaves open; these draw a conclusion.
_CONCLUSION = re.compile(r"(?:therefore|thus|hence|so|as a result|consequently|without)\b")
_WHOLE: Final = re.compile(
    r"(?:(?:很|非常)?(?:抱歉|对不起|遗憾)[,、\s]*|申し訳(?:ありません|ございません)が[,、\s]*)?"
    r"(?:(?:我|我们)?(?:暂时|目前)?(?:不知道|不清楚|不确定|无法回答|无法确定)"
    r"(?:答案|(?:这个|该|您的|你的)问题)?"
    r"|(?:(?:根据)?(?:所?提供的)?(?:资料|文档|文件|上下文|信息)[中里内]?[,、\s]*)?"
    r"(?:没有|缺乏|未提供|未提及)(?:足够的?|相关的?){0,3}(?:信息|内容|答案)"
    r"|(?:わかり|分かり)ません|(?:分から|わから)ない(?:です)?|不明です|情報が(?:ありません|足りません)"
    r"|(?:お?答え(?:でき|られ)ません)"
    r"|لا (?:اعرف|اعلم|ندري|ادري)(?: الجواب| الاجابة)?|(?:الجواب )?غير معروف"
    r"|لا توجد معلومات(?: كافية)?"
    r"|لا يمكن(?:ني)? (?:الاجابة|التحديد|تحديد ذلك))"
)


_KINDS: Final = tuple(
    {name: word_set(words) for name, words in kinds.items()}
    for kinds in tomllib.loads(
        files("rag_eval_hooks.text").joinpath("refusals.toml").read_text("utf-8")
    ).values()
)
"""Kinds of words, of German, French and Spanish."""
_LONGEST: Final = 300  # characters of a sentence that only refuses
_LONG: Final = 5  # sentences; in an answer of so many, a refusal at the end takes nothing back


@lru_cache(maxsize=64)  # several metrics ask about one answer
def refusal(answer: str) -> str | None:
    """Return the folded sentence of an answer that refuses, or None."""
    written = sentences(answer)
    said = [fold(strip_marker(sentence)) for sentence in written]
    lists = any(strip_marker(sentence) != sentence for sentence in written)
    while said and _PREAMBLE.fullmatch(said[0]):
        del said[0]
    if not said:
        return None
    if _refuses(said[0]):
        return None if _answers(said) else said[0]
    concludes = 1 < len(said) < _LONG and not lists and _CONCLUSION.match(said[-1])
    return said[-1] if concludes and _refuses(said[-1]) else None


def _refuses(sentence: str) -> bool:
    bare = sentence.strip(" .!。！*_\"'")
    if _SHORT_REFUSAL.fullmatch(bare) or _WHOLE.fullmatch(bare):
        return True
    if len(sentence) < _LONGEST and any(_denies(sentence, kinds) for kinds in _KINDS):
        return True
    plain = _NOT.sub(lambda match: "can not" if match[0][0] == "c" else " not", sentence)
    return any(_REFUSES.match(_opened(clause)) for clause in _SECOND_CLAUSE.split(plain))


def _denies(sentence: str, kinds: Mapping[str, frozenset[str]]) -> bool:
    """Return whether the first clause that is no opening refuses, by its kinds of words."""
    clauses = [re.findall(r"\w+", part) for part in re.split(r"[,;:]", sentence)]
    opens = kinds["sorry"] | kinds["cites"]
    while len(clauses) > 1 and (
        not clauses[0] or (clauses[0][0] in opens and kinds["denies"].isdisjoint(clauses[0]))
    ):
        del clauses[0]
    words = clauses[0]
    if words and words[0] in kinds["cites"]:
        source = next((at for at, word in enumerate(words) if word in kinds["sources"]), -1)
        words = words[source + 1 :]
    found = frozenset(takewhile(lambda word: word not in kinds["asks"], words))
    has = {name for name, kind in kinds.items() if found & kind}
    if "denies" not in has:
        return False
    if {"sources", "gives"} <= has or {"sources", "facts"} <= has or {"speaks", "tells"} <= has:
        return True
    # The other rules are weaker: beside their words nothing may stand that says something.
    says_only = found <= frozenset[str]().union(*kinds.values())
    return says_only and bool({"speaks", "knows"} <= has or has & {"facts", "known"})


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
    return not _refuses(text) and _ASIDE.match(_opened(text)) is None
