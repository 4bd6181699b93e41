"""Rules for e-mail addresses, and for secrets: API keys, tokens, private keys, passwords."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from rag_eval_hooks.redaction.rule import AFTER_ESCAPE, EAST, Match

__all__ = ["KEYS_BY_FORM", "Emails", "Keys"]

_WORD: Final = r"A-Za-z0-9_\-"
_UUID: Final = r"[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"

_FORMS: Final = {
    "OpenAI, Anthropic, Langfuse and others": (
        rf"sk-(?=[{_WORD}]*\d)(?:[a-z]{{2,12}}-)?[{_WORD}]{{20,}}+"
    ),
    "Langfuse, public": r"pk-lf-[a-f0-9-]{36}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_[A-Za-z0-9_]{22,}+",
    "GitLab": (
        rf"gl(?:pat|rt|dt|cbt|ptt|soat|ffct|imt|agent|oas|feed)-[{_WORD}.]{{20,}}+"
        rf"|GR1348941[{_WORD}]{{20,}}+"
    ),
    "Slack": r"xox[abeoprs]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+",
    "Slack, webhook": r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,}+",
    "Google": (
        rf"AIza[{_WORD}]{{35}}|ya29\.[{_WORD}]{{20,}}+|GOCSPX-[{_WORD}]{{28}}|1//0[{_WORD}]{{40,}}+"
    ),
    "Stripe": r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9]{24,}+",
    "AWS": r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])",
    "Azure, application": rf"[{_WORD}.~]{{3}}8Q~[{_WORD}.~]{{31,34}}",
    "Azure, storage": r"sig=[A-Za-z0-9%+/]{40,}+(?:%3D|=){0,2}",
    "Hugging Face": r"hf_[A-Za-z0-9]{30,}+|api_org_[A-Za-z0-9]{30,}+",
    "npm, PyPI, RubyGems": (
        rf"npm_[A-Za-z0-9]{{36,}}+|pypi-[{_WORD}]{{50,}}+|rubygems_[a-f0-9]{{48}}"
    ),
    "SendGrid": rf"SG\.[{_WORD}]{{16,}}+\.[{_WORD}]{{16,}}+",
    "Brevo": r"xkeysib-[a-f0-9]{64}(?:-[A-Za-z0-9]{16})?",
    "Twilio": r"(?:SK|AC)[a-f0-9]{32}(?![a-f0-9])",
    "Telegram": rf"\d{{8,10}}:[{_WORD}]{{35}}(?![{_WORD}])",
    "DigitalOcean": r"do[opr]_v1_[a-f0-9]{64}",
    "Shopify": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Groq, Fireworks": r"gsk_[A-Za-z0-9]{40,}+|fw_[A-Za-z0-9]{20,}+",
    "Atlassian, Bitbucket": (
        rf"ATATT3[{_WORD}=]{{50,}}+|ATBB[A-Za-z0-9]{{32}}|BBDC-[A-Za-z0-9+/@]{{40,}}+"
    ),
    "Databricks": r"dapi[a-f0-9]{32}(?:-\d)?",
    "LangSmith": r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|ls__[a-f0-9]{32}",
    "Pinecone, Replicate": r"pcsk_[A-Za-z0-9_]{40,}+|r8_[A-Za-z0-9]{37}",
    "Tavily, xAI, Perplexity": (
        r"tvly-[A-Za-z0-9-]{20,}+|xai-[A-Za-z0-9]{40,}+|pplx-[A-Za-z0-9]{40,}+"
    ),
    "Voyage": rf"pa-(?=[{_WORD}]*\d)[{_WORD}]{{40,}}+",
    "Vault": rf"hv[sbr]\.[{_WORD}]{{24,}}+",
    "Terraform": rf"[A-Za-z0-9]{{14}}\.atlasv1\.[{_WORD}]{{60,}}+",
    "Doppler": rf"dp\.(?:pt|st|ct|sa|scim|audit)\.[{_WORD}.]{{40,}}+",
    "Grafana": r"glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/]{32,}+={0,3}",
    "Sentry": r"sntry[su]_[A-Za-z0-9+/_-]{40,}+={0,2}",
    "Docker": rf"dckr_(?:pat|oat)_[{_WORD}]{{20,}}+",
    "Discord": (
        rf"discord(?:app)?\.com/api/webhooks/\d{{17,20}}/[{_WORD}]{{60,}}+"
        rf"|[MNO][A-Za-z0-9_-]{{23,27}}\.[{_WORD}]{{6}}\.[{_WORD}]{{27,40}}"
    ),
    "Notion, Figma, Linear": (
        rf"secret_[A-Za-z0-9]{{43}}|ntn_[A-Za-z0-9]{{40,}}+|figd_[{_WORD}]{{40,}}+"
        r"|lin_(?:api|oauth)_[A-Za-z0-9]{32,}+"
    ),
    "Airtable, Postman": rf"pat[A-Za-z0-9]{{14}}\.[a-f0-9]{{64}}|PMAK-[{_WORD}]{{50,}}+",
    "Square": rf"sq0(?:atp|csp)-[{_WORD}]{{22,}}+|EAAA[{_WORD}]{{56,}}+",
    "New Relic": r"NR(?:AK|JS|II|RA)-[A-Za-z0-9]{20,}+",
    "Mailgun, Mailchimp": r"key-[a-f0-9]{32}|[a-f0-9]{32}-us\d{1,2}",
    "Supabase, PlanetScale": (
        rf"sbp_[a-f0-9]{{40}}|sb_secret_[{_WORD}]{{20,}}+|pscale_(?:tkn|pw|oauth)_[{_WORD}.]{{32,}}+"
    ),
    "Fly.io, Heroku, Cloudflare": (
        rf"f[om][12]_[{_WORD}]{{40,}}+|HRKU-AA[{_WORD}]{{50,}}+|v1\.0-[a-f0-9]{{24}}-[a-f0-9]{{100,}}+"
    ),
    "Vercel, Resend": (
        r"vercel_blob_rw_[A-Za-z0-9]{16}_[A-Za-z0-9]{20,}+|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"
    ),
    "ElevenLabs, Cerebras": r"sk_[a-f0-9]{48}|csk-[a-z0-9]{40,}+",
    "Sonar, Pulumi, Buildkite": r"(?:sq[upa]_|pul-|bk[a-z]{2}_)[a-f0-9]{40}",
    "Honeycomb, Dynatrace": r"hc[abx]ik_[a-z0-9]{58}|dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
    "Artifactory, Trello": r"(?:AKCp|cmVmd)[A-Za-z0-9]{59,}+|ATTA[A-Za-z0-9]{60,}+",
    "Shippo, Lob, Inngest": r"(?:[a-z]+[_-])?(?:live|prod|secret|token)[_-][a-f0-9]{32,}+",
    "Render, Adafruit, ClickUp": r"(?:rnd|aio)_[A-Za-z0-9]{28}|pk_\d{6,9}_[A-Z0-9]{32}",
    "HubSpot, LaunchDarkly, Plaid": (
        rf"(?:pat-[a-z]{{2}}\d|sdk|mob|xaat|access-(?:sandbox|development|production))-{_UUID}"
    ),
    "PayPal, Flutterwave": (
        r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"
        r"|FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}+(?:-X)?"
    ),
    "Yandex, Alibaba, Tencent": (
        rf"AQVN[{_WORD}]{{35,}}+|LTAI[A-Za-z0-9]{{12,20}}(?![{_WORD}])|AKID[A-Za-z0-9]{{32}}"
    ),
    "Dropbox, Facebook, X": (
        rf"sl\.(?:u\.)?[{_WORD}]{{100,}}+|EAA[A-Za-z0-9]{{80,}}+|A{{20,}}[A-Za-z0-9%]{{40,}}+"
    ),
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "JSON Web Token": rf"eyJ[{_WORD}]{{8,}}+\.[{_WORD}]{{8,}}+(?:\.[{_WORD}]*+)?",
}

# The characters excluded before a match are those allowed within it, so that a long run of them is
# scanned once and not from each of its characters.
KEYS_BY_FORM: Final = re.compile(
    rf"(?:(?<![{_WORD}])|{AFTER_ESCAPE})(?:{'|'.join(_FORMS.values())})"
)
"""Any key that shows by its form whose it is."""
_PREFIXED: Final = re.compile(
    rf"(?:(?<![{_WORD}/])|{AFTER_ESCAPE})[A-Za-z][A-Za-z0-9]{{1,15}}[_-]([{_WORD}]{{30,}}+)"
)
"""Possible key of any other maker: a prefix, then letters and digits."""
_ONE_CASE: Final = re.compile(
    r"(?=[A-Z\d]{0,31}[G-Z]|[a-z\d]{0,31}[g-z])(?:[A-Z\d]{32,}|[a-z\d]{32,})"
)
"""Digits and letters of one case, other than a hash."""
_TURN: Final = re.compile(r"\d(?=[A-Za-z])|[A-Za-z](?=\d)")


# Vowel signs and the like, which stand within words of Indian languages and are no `\w`.
_MARKS = "".join(chr(c) for c in range(0x300, 0x1100) if unicodedata.category(chr(c))[0] == "M")
_MAX_LOCAL_PART = 64  # RFC 5321, section 4.5.3.1.1
_LOCAL = re.compile(rf"(?:(?![{EAST}])[\w{_MARKS}.!#%'*+~-])*+")
_LOCAL_EAST = re.compile(rf"[{EAST}\w.+-]*+")
_TRIM = "!#%'*~.-"
_LABEL = rf"(?![{EAST}])[^\W_](?:(?![{EAST}])[\w{_MARKS}-]){{0,62}}"
_LABEL_EAST = r"[^\W_][\w-]{0,62}"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,8}}")
_DOMAIN_EAST = re.compile(rf"{_LABEL_EAST}(?:\.{_LABEL_EAST}){{1,8}}")
_STARTS_EAST = re.compile(f"[{EAST}]")
_PASSWORD_BEFORE = re.compile(r"://[^\s/@]{0,64}:\Z")
_TOP_LEVEL = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{_MARKS}])+|xn--[\w-]+", re.IGNORECASE)
_REMOTE_PATH = re.compile(r":[\w~./-]")  # git@host:path is a repository


class Emails:
    """Finds e-mail addresses in any script."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield addresses; searches around each `@`, so time does not depend on other text."""
        last = 0
        at = text.find("@")
        while at >= 0:
            match = _match_around(text, at, last)
            if match is not None:
                yield match
                last = match.end
            at = text.find("@", at + 1)


def _match_around(text: str, at: int, earliest: int) -> Match | None:
    window = text[max(earliest, at - _MAX_LOCAL_PART) : at][::-1]
    local_part = (_LOCAL_EAST if _STARTS_EAST.match(window) else _LOCAL).match(window)
    length = len(local_part[0].rstrip(_TRIM)) if local_part else 0
    end = _domain_end(text, at + 1)
    if not length or end is None or text[at - 1] == ".":
        return None
    # Text between colon and `@` in a URL is a password, which the rule for keys finds.
    if text[at - length - 1 : at - length] == ":" and _PASSWORD_BEFORE.search(
        text[max(0, at - length - 72) : at - length]
    ):
        return None
    return Match(at - length, end, "EMAIL", text[at - length : end].casefold())


def _domain_end(text: str, start: int) -> int | None:
    """Return the index after the domain that begins at `start`, or None if none does."""
    pattern = _DOMAIN_EAST if _STARTS_EAST.match(text, start) else _DOMAIN
    found = pattern.match(text, start, start + 255)
    if found is None:
        return None
    end = found.end()
    while end > start:
        labels = text[start:end].rstrip("-_").split(".")
        if len(labels) < 2:
            return None
        if _TOP_LEVEL.fullmatch(labels[-1]):
            end = start + len(".".join(labels))
            return None if _REMOTE_PATH.match(text, end) else end
        end -= len(text[start:end].split(".")[-1]) + 1
    return None


_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_IN_URL = re.compile(r"://[^\s/:@]{0,64}:([^\s/@]{1,128})@")
_BEARER = re.compile(
    rf"(?:(?<!\w)|{AFTER_ESCAPE})"
    r"(?:Bearer|Basic|(?:(?<=Authorization: )|(?<=Authorization\": \"))[A-Za-z-]{3,20}+)"
    r"\s{1,3}([\w.~+/-]{16,}+={0,2})",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:api[\s_-]?key|access[\s_-]?key|secret(?:[\s_-]?key(?:_base)?|[\s_-]?access[\s_-]?key)?"
    r"|client[\s_-]?secret|(?<=[A-Za-z]_)(?:key|pass)|auth[\s_-]?token|access[\s_-]?token"
    r"|refresh[\s_-]?token|token|password|passcode|passwd|passphrase|pwd|account[\s_-]?key"
    r"|passwort|kennwort|contraseña|mot de passe|пароль|密码|パスワード)"
    r"(?:\\{0,3}[\"'])?(?:\s{1,3}(?:is|ist|lautet|es|est)(?![^\s:=]))?"
    r"(?:\s{0,3}(?::=|[:=\uff1a是は为]|=>)\s{0,3}|\s[\u2013\u2014-]\s"
    r"|(?:(?<=\sis)|(?<=\sist)|(?<=\slautet)|(?<=\ses)|(?<=\sest))\s{1,3})(?:\\{0,3}[\"'`])?"
    rf"([^\s\"'`,;<>(){{}}\[\]&\\{EAST}]{{8,256}}+)",
    re.IGNORECASE,
)
_VARIABLE_OR_KEYS = re.compile(r"\$[A-Z_][A-Z\d_]*|(?:(?:Ctrl|Alt|Shift|Cmd)\+)+\w+")
_DIGIT = re.compile(r"[\d+/=]")
_IN_PROSE = re.compile(r"[a-z]+(?:[_-][a-z\d]+)+")
_LETTER = re.compile(r"[A-Za-z]")
_SPECIAL = re.compile(r"[\d!@#$%^&*+=/]")


class Keys:
    """Finds secrets by their vendor's prefix, by their position, or by the name before them."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield keys, tokens, JWTs, passwords and private keys, incomplete ones included."""
        yield from (Match(m.start(), m.end(), "KEY") for m in KEYS_BY_FORM.finditer(text))
        yield from (Match(*m.span(), "KEY") for m in _PREFIXED.finditer(text) if _is_random(m[1]))
        yield from _private_keys(text)
        yield from (Match(m.start(1), m.end(1), "KEY") for m in _IN_URL.finditer(text))
        for found in _BEARER.finditer(text):
            if _DIGIT.search(found[1]) and not _IN_PROSE.fullmatch(found[1]):
                yield Match(found.start(1), found.end(1), "KEY")
        for found in _NAMED.finditer(text):
            if _is_secret(found[1]) and not _is_no_secret_of(found[0], found[1]):
                yield Match(found.start(1), found.end(1), "KEY")


def _private_keys(text: str) -> Iterator[Match]:
    at = 0
    while (begin := _PRIVATE_KEY.search(text, at)) is not None:
        end = _PRIVATE_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
        yield Match(begin.start(), at, "KEY")


def _is_random(text: str) -> bool:
    """Return True for letters and digits in disorder, unlike names, ids of records and hashes."""
    has_both_cases = not (text.islower() or text.isupper())
    return bool(has_both_cases or _ONE_CASE.search(text)) and _turns(text) >= max(4, len(text) / 10)


def _turns(text: str) -> int:
    """Return how often a digit follows a letter or a letter a digit: often in keys only."""
    return len(_TURN.findall(text))


def _is_no_secret_of(found: str, value: str) -> bool:
    """Return True for `token: 4096-wide` and `cache_key=user:17`: these names have other uses."""
    if found[:5].lower() == "token":
        return len(value) < 16
    return found[:3].lower() == "key" and _turns(value) < 2


def _is_secret(text: str) -> bool:
    """Return True for a text with a letter and a digit or sign, unlike prose or a path."""
    text = text.rstrip(".!?:")
    is_path = text.startswith(("/", "~/", "./", "${", "$(")) or "://" in text
    is_other = is_path or _VARIABLE_OR_KEYS.fullmatch(text)
    return not is_other and bool(_LETTER.search(text) and _SPECIAL.search(text))
