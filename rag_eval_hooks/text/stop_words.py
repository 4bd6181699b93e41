"""Words that say nothing by themselves, in English and German.

German words that are English content words ("die", "war") are left out: a missed stop word
costs little, a lost content word costs a verdict.
"""

from __future__ import annotations

__all__ = ["STOP_WORDS", "word_set"]


def word_set(words: str) -> frozenset[str]:
    """Return the words of a list that is separated by white space."""
    return frozenset(words.split())


_ENGLISH = """
a about above additionally after again against all almost along also alternatively although am
among an and another any anyone anything are aren't around as at away be became because become
becomes been before being below between both but by came can can't cannot come consequently could
couldn't did didn't do does doesn't doing don't done down during each either else enough etc ever
every finally for from further gave get gets give given gives go goes going gone got had hadn't
has hasn't have haven't having he he'd he'll hence her here hers herself him himself his how
however i i'd i'll i'm i've if in indeed instead into is isn't it it'd it'll its itself just let
like likewise made make makes making many may maybe me might more moreover most mostly much must
mustn't my myself neither never no none nor not nothing now of off often on once one only onto or
other others otherwise ought our ours ourselves out over overall own per perhaps quite rather
really said same say says shall she she'd she'll should shouldn't similarly since so some someone
something sometimes specifically still such than that that'll the their theirs them themselves
then there therefore these they they'd they'll they're they've this those though through thus to
together too toward towards under until up upon us use used uses using usually various very via
was wasn't way we we'd we'll we're we've well went were weren't what whatever when where whereas
whether which while who who'd who'll whom whose why will with within without won't would wouldn't
yes yet you you'd you'll you're you've your yours yourself yourselves
"""
_GERMAN = """
aber alle allem allen aller alles als andere anderen auch auf aus bei beim bereits bis bzw da
dabei dadurch dafur daher damit danach dann daran darauf darin darum das dass davon dazu dem den
denn der deren des dessen dich dies diese diesem diesen dieser dieses dir doch dort du durch ein
eine einem einen einer eines einige er es etwa etwas euch euer fur gegen haben hatte hatten ich
ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer ist jede jedem jeden jeder jedes jedoch kann
kein keine keinem keinen keiner konnen konnte machen mehr mein meine mich mir mit mussen nach
nicht nichts noch nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind sollte
sondern sowie uber um und uns unser unter viel viele vom von vor wahrend waren weil welche welcher
welches wenn werden wie wieder wir wird wo wurde wurden zu zum zur zwischen
"""

STOP_WORDS: frozenset[str] = word_set(_ENGLISH + _GERMAN)
"""Folded words."""
