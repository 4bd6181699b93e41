"""The promises of docs/privacy.md: values found between any punctuation, ordinary text left."""

# ruff: noqa: RUF001 - texts of many languages; no key here opens anything

from __future__ import annotations

import re
import string
import sysconfig
from pathlib import Path
from typing import Final

import phonenumbers
from hypothesis import example, given
from hypothesis import strategies as st
from stdnum import luhn, numdb
from stdnum.iso7064 import mod_97_10

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.redaction import choose_redactor
from tests.redaction import RULES, found
from tests.support.size import size

_REGIONS = "AT AU BE BR CH CN DE DK EG ES FI FR GB GR IN IT JP KR MX NL NO PL PT SE US"
REGIONS = _REGIONS.split()

SURROUNDINGS: Final = (
    "{}", "Use {} for this, please.", "It is {}.", "Jane Doe,{},09/27", "{},Jane",
    '"Jane","{}","x"', "Jane;{};x", "a\t{}\tb", "a\n{}\nb", '{{"v": "{}", "n": 3}}',
    '{{"v":["{}","x"]}}', '{{"v":[{},7]}}', '{{"t": "a\\n{}\\nb"}}', '[{{\\"v\\": \\"{}\\"}}]',
    "value: {}\n", "NAME={}\n", "https://example.com/v1?id={}&q=1",
    "https://example.com/v1?q=1&id={}", "x/{}/y", "({})", "[{}]", "<{}>", "{{{}}}", "`{}`",
    "**{}**", "_{}_", "~{}~", "|prod|{}|x|", "| prod | {} | 2024-05-01 |", "<td>{}</td>", "'{}'",
    "“{}”", "«{}»", "{}!", "{}?", "#{}", "no:{}", "Yes.{} is it", "— {} —", "号码是{}，请保密。",
    "番号は{}です", "（{}）", "1) {}", "{}…", "@ {}", "-> {}", '<a v="{}"/>',
    "2024-05-17 08:30:12 INFO {} done", "x|{}", "v={};", "My secret is value: {}",
    "Your token: https://app.example/{}"
)  # fmt: skip
_ALNUM: Final = string.ascii_letters + string.digits


def _of(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


def _with_check_digit(number: str) -> str:
    return number + luhn.calc_check_digit(number)


_ISSUERS: Final = {
    "4": 16, "51": 16, "55": 16, "2221": 16, "34": 15, "37": 15, "6011": 16, "65": 16, "3530": 16,
    "62": 16, "36": 14, "2200": 16
}  # fmt: skip
PLAIN_CARDS = st.sampled_from(sorted(_ISSUERS)).flatmap(
    lambda p: _of(string.digits, _ISSUERS[p] - len(p) - 1).map(lambda d: _with_check_digit(p + d))
)
CARDS = st.tuples(PLAIN_CARDS, st.sampled_from(["", " ", "-", "\u00a0", "\u202f"])).map(
    lambda c: c[1].join(c[0][n : n + 4] for n in range(0, 16, 4)) if len(c[0]) == 16 else c[0]
)


_COUNTRIES: Final = "DE GB FR ES IT NL BE AT CH PL SE NO FI PT SA TR UA BR MT LC".split()  # noqa: SIM905


def _account(country: str) -> st.SearchStrategy[str]:
    form = re.findall(r"(\d+)!?([nac])", numdb.get("iban").info(country)[0][1]["bban"])
    kinds = {"n": string.digits, "a": string.ascii_uppercase, "c": string.digits + "ABC"}
    parts = st.tuples(*(_of(kinds[kind], int(size)) for size, kind in form)).map("".join)
    return parts.map(lambda bban: country + mod_97_10.calc_check_digits(bban + country) + bban)


IBANS = st.tuples(st.sampled_from(_COUNTRIES).flatmap(_account), st.sampled_from(["", " "])).map(
    lambda i: i[1].join(i[0][n : n + 4] for n in range(0, len(i[0]), 4))
)


def _example(region: str, kind: int, form: int) -> str:
    number = phonenumbers.example_number_for_type(region, kind)
    assert number is not None
    return str(phonenumbers.format_number(number, form))


_KINDS = st.sampled_from(
    [phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE]
)
PHONES = st.builds(
    _example,
    st.sampled_from(REGIONS),
    _KINDS,
    st.sampled_from(
        [phonenumbers.PhoneNumberFormat.E164, phonenumbers.PhoneNumberFormat.INTERNATIONAL]
    ),
).flatmap(
    lambda n: st.sampled_from([n, n.replace(" ", "-"), n.replace(" ", "."), n.replace("+", "%2B")])
)
EMAILS = st.sampled_from(
    ["jane.doe@example.com", "JANE@EXAMPLE.COM", "a.b+tag@sub.example.co.uk", "müller@bücher.de",
     "иван@почта.рф", "wang_wei@example.cn", "o'neil@example.ie", "1234@example.photography"]
)  # fmt: skip
KEYS = st.one_of(
    *(
        st.tuples(st.just(prefix), _of(alphabet, size), st.just("7aB9")).map("".join)
        for prefix, alphabet, size in (
            ("sk-proj-", _ALNUM + "_-", 70), ("sk-ant-api03-", _ALNUM + "_-", 90),
            ("ghp_", _ALNUM, 36), ("github_pat_", _ALNUM + "_", 60),
            ("glpat-", _ALNUM + "_-", 20), ("AIza", _ALNUM + "_-", 31), ("sk_live_", _ALNUM, 20),
            ("rk_test_", _ALNUM, 95), ("sk_org_live_", _ALNUM, 30), ("whsec_", _ALNUM + "+/", 32),
            ("xoxb-", string.digits + "-", 24), ("hf_", _ALNUM, 30), ("npm_", _ALNUM, 32),
            ("SG." + "a1" * 11 + ".", _ALNUM + "_-", 39), ("dop_v1_", "0123456789abcdef", 60),
            ("gsk_", _ALNUM, 48), ("hvs.", _ALNUM + "_-", 86), ("lin_api_", _ALNUM, 36),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.", _ALNUM + "_-", 39)
        )
    )
).filter(lambda key: "--" not in key)  # fmt: skip
PASSWORDS = st.tuples(_of(_ALNUM, 10), st.sampled_from(["!2", "#1", "9", "=4"])).map("a7".join)

NAMED = st.sampled_from(
    ["password={}", "password: {}", "passwd := {}", "client_secret={}", "api_key={}", "secret: {}",
     "pwd={}", "DB_PASS={}", "https://app:{}@db.example/x", "redis://:{}@host:6379/0",
     "My secret is password: {}", "webhook secret: https://h/x?token=d4e5f6{}",
     "secret=/etc/app?api_key={}", "token: see password={}", "https://h/x?key=a1b2c3d4{}"]
)  # fmt: skip

PROMISED = st.one_of(CARDS, IBANS, PHONES, EMAILS, KEYS)


def test_rules_find_the_marked_values_and_nothing_else() -> None:
    lines = Path(__file__).with_name("cases.txt").read_text("utf-8").splitlines()
    for line in (each for each in lines if not each.startswith("# ")):
        marked = [part.split("]]")[0] for part in line.split("[[")[1:]]
        assert found(RULES, re.sub(r"\[\[|\]\]", "", line)) == marked, line


@given(secret=PROMISED, surrounding=st.sampled_from(SURROUNDINGS))
def test_a_value_between_any_punctuation_is_found_whole(secret: str, surrounding: str) -> None:
    text = surrounding.format(secret)
    assert secret not in RULES.session().text("answer", text)
    covered = "".join(found(RULES, text))
    assert secret.strip("_-~!/") in covered


@example([f"dop_v1_{'0' * 60}7aB9", "2200000000000004"], ",")
@given(
    st.lists(PROMISED, min_size=2, max_size=4), st.sampled_from([",", ";", "\t", "|", '","', "\\n"])
)
def test_values_side_by_side_are_all_found(secrets: list[str], between: str) -> None:
    text = RULES.session().text("answer", between.join(["Jane Doe", *secrets, "09/27"]))
    assert not [secret for secret in secrets if secret in text]


@given(PASSWORDS, NAMED, st.sampled_from(SURROUNDINGS))
def test_a_named_secret_between_any_punctuation_is_found(
    secret: str, named: str, surrounding: str
) -> None:
    text = RULES.session().text("answer", surrounding.format(named.format(secret)))
    assert secret not in text


@given(
    st.sampled_from(REGIONS), _KINDS, st.sampled_from(SURROUNDINGS), st.sampled_from([" ", "-", ""])
)
def test_a_national_number_of_a_named_region_is_found(
    region: str, kind: int, surrounding: str, separator: str
) -> None:
    number = _example(region, kind, phonenumbers.PhoneNumberFormat.NATIONAL)
    written = re.sub(r"[ -]+", separator, number)
    config = RagEvalConfig(redact_regions=region)
    text = choose_redactor(config, "phone").session().text("answer", surrounding.format(written))
    assert written not in text


def test_ordinary_text_holds_nothing() -> None:
    """Sources and licenses have at most one wrong match in a million characters.

    E-mail addresses in them are real, and so are passwords in URLs and in calls.
    """
    rules = choose_redactor(RagEvalConfig(), ["card", "iban", "phone", "key"])
    paths = [*Path(sysconfig.get_paths()["stdlib"]).glob("*.py"), *Path("docs").glob("*.md")]
    files = sorted(paths)[:: size(8, 1)]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files][:150]
    hits = [match for text in texts for match in found(rules, text) if "password" not in match]
    assert sum(map(len, texts)) > size(200_000, 2_000_000)
    assert len(hits) <= max(1, sum(map(len, texts)) / 1_000_000), hits
