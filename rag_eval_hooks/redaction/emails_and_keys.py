"""Rules for e-mail addresses, and for secrets: API keys, tokens, private keys, passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.rule import AFTER_ESCAPE, Match

__all__ = ["Emails", "Keys"]

_MAX_LOCAL_PART = 64  # RFC 5321, section 4.5.3.1.1
# Chinese, Japanese and Korean put no spaces around an address and rarely use their own letters in
# one.
_EAST = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_LOCAL = re.compile(rf"(?:(?![{_EAST}])[\w.!#%'*+~-])*+")
_LOCAL_EAST = re.compile(rf"[{_EAST}\w.+-]*+")
_TRIM = "!#%'*~.-"
_LABEL = rf"(?![{_EAST}])[^\W_](?:(?![{_EAST}])[\w-]){{0,62}}"
_LABEL_EAST = r"[^\W_][\w-]{0,62}"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,8}}")
_DOMAIN_EAST = re.compile(rf"{_LABEL_EAST}(?:\.{_LABEL_EAST}){{1,8}}")
_IS_EAST = re.compile(f"[{_EAST}]")
_PASSWORD_BEFORE = re.compile(r"://[^\s/@]{0,64}:\Z")
_TOP_LEVEL = re.compile(r"[^\W\d_]{2,}|xn--[\w-]+", re.IGNORECASE)
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
    local_part = (_LOCAL_EAST if _IS_EAST.match(window) else _LOCAL).match(window)
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
    pattern = _DOMAIN_EAST if _IS_EAST.match(text, start) else _DOMAIN
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


_TOKEN = "A-Za-z0-9_-"
# The characters excluded before a match are those allowed within it, so that a long run of them is
# scanned once and not from each of its characters.
_PREFIXED = re.compile(
    rf"(?:(?<![{_TOKEN}])|{AFTER_ESCAPE})(?:"
    r"sk-(?:[a-z]{2,12}-)?[A-Za-z0-9_-]{20,}+"  # OpenAI, Anthropic and others
    r"|gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_[A-Za-z0-9_]{22,}+"
    r"|glpat-[A-Za-z0-9_-]{20,}+"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+"
    r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}+"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9]{24,}+"
    r"|(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])"
    r"|hf_[A-Za-z0-9]{30,}+|npm_[A-Za-z0-9]{36,}+|pypi-[A-Za-z0-9_-]{50,}+"
    r"|SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"
    r"|(?:SK|AC)[a-f0-9]{32}(?![a-f0-9])"  # Twilio
    r"|\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"  # Telegram
    r"|dop_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|gsk_[A-Za-z0-9]{40,}+"
    r"|eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"  # JWT
    r")"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_IN_URL = re.compile(r"://[^\s/:@]{0,64}:([^\s/@]{1,128})@")
_BEARER = re.compile(
    rf"(?:(?<!\w)|{AFTER_ESCAPE})(?:Bearer|Basic)\s{{1,3}}([\w.~+/-]{{16,}}+={{0,2}})",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:api[_-]?key|access[_-]?key|secret(?:[_-]?key|[_-]?access[_-]?key)?|client[_-]?secret|"
    r"auth[_-]?token|access[_-]?token|refresh[_-]?token|token|password|passwd|passphrase|pwd|"
    r"account[_-]?key|passwort|kennwort|contraseña|mot de passe|пароль|密码|パスワード)"
    r"\\?[\"']?\s{0,3}(?::=|[:=\uff1a]|=>)\s{0,3}\\?[\"'`]?([^\s\"'`,;<>(){}\[\]]{8,256}+)",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[A-Za-z]")
_SPECIAL = re.compile(r"[\d!@#$%^&*+=/]")


class Keys:
    """Finds secrets by their vendor's prefix, by their position, or by the name before them."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield keys, tokens, JWTs, passwords and private keys, incomplete ones included."""
        yield from (Match(m.start(), m.end(), "KEY") for m in _PREFIXED.finditer(text))
        yield from _private_keys(text)
        yield from (Match(m.start(1), m.end(1), "KEY") for m in _IN_URL.finditer(text))
        for found in _BEARER.finditer(text):
            if _SPECIAL.search(found[1]):
                yield Match(found.start(1), found.end(1), "KEY")
        for found in _NAMED.finditer(text):
            if _is_secret(found[1]) and not _counts_tokens(found):
                yield Match(found.start(1), found.end(1), "KEY")


def _private_keys(text: str) -> Iterator[Match]:
    at = 0
    while (begin := _PRIVATE_KEY.search(text, at)) is not None:
        end = _PRIVATE_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
        yield Match(begin.start(), at, "KEY")


def _counts_tokens(found: re.Match[str]) -> bool:
    """Return True for `token: 4096-wide`: after `token` alone, only a long text is a secret."""
    return found[0][:5].lower() == "token" and len(found[1]) < 16


def _is_secret(text: str) -> bool:
    """Return True for a text with a letter and a digit or sign, unlike a word in prose."""
    if text.startswith("$") or "=" in text.rstrip("="):
        return False
    return bool(_LETTER.search(text) and _SPECIAL.search(text))
