"""Secrets that are found and ordinary texts that are left, by maker, beside two other finders.

    pip install ".[privacy]" detect-secrets presidio-analyzer
    python -m benchmarks.key_recall [--seed 1] [--missed]

makes secrets in the forms that their makers document, written independently of our rules, each in
one of eight surroundings, and ordinary texts. A secret counts as found where at most four of its
characters in a row would remain; an ordinary text counts as taken where anything would be removed.
"""

# ruff: noqa: RUF001 - texts of several languages; no key here opens anything

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import logging
import random
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.redaction import choose_redactor
from rag_eval_hooks.redaction.rule import merge_matches

Spans: TypeAlias = Iterable[tuple[int, int]]
Finder: TypeAlias = Callable[[str], Spans]

_EACH: Final = 4
_REMAIN: Final = 4
_ALNUM: Final = string.ascii_letters + string.digits

# A maker's form: text, and in braces the number of characters and their kind.
_KINDS: Final = {
    "a": _ALNUM,
    "b": string.ascii_uppercase + "234567",
    "d": string.digits,
    "h": "0123456789abcdef",
    "u": _ALNUM + "-_",
    "U": string.ascii_uppercase + string.digits,
}
_FORMS: Final[Mapping[str, str]] = {
    "OpenAI": "sk-proj-{74u}T3BlbkFJ{74u}",
    "OpenAI, old": "sk-{20a}T3BlbkFJ{20a}",
    "Anthropic": "sk-ant-api03-{93u}AA",
    "OpenRouter": "sk-or-v1-{64h}",
    "DeepSeek": "sk-{32h}",
    "Google": "AIzaSy{33u}",
    "Google, client": "GOCSPX-{28u}",
    "AWS, id": "AKIA{16b}",
    "Azure, application": "{3a}8Q~{34u}",
    "Azure, SAS": "sv=2023-11-03&sig={43a}%3D",
    "GitHub": "ghp_{36a}",
    "GitHub, fine-grained": "github_pat_{22a}_{59a}",
    "GitLab": "glpat-{20u}",
    "GitLab, runner": "glrt-{20u}",
    "Bitbucket": "ATBB{32a}",
    "Atlassian": "ATATT3xFfGF0{175u}={8U}",
    "Slack, bot": "xoxb-{12d}-{13d}-{24a}",
    "Slack, webhook": "https://hooks.slack.com/services/T{8U}/B{10U}/{24a}",
    "Discord": "M{25a}.{6u}.{38u}",
    "Telegram": "{10d}:AA{33u}",
    "Twilio": "SK{32h}",
    "SendGrid": "SG.{22u}.{43u}",
    "Mailgun": "key-{32h}",
    "Mailchimp": "{32h}-us{2d}",
    "Brevo": "xkeysib-{64h}-{16a}",
    "Stripe": "sk_live_{24a}",
    "Stripe, restricted": "rk_live_{99a}",
    "Square": "sq0atp-{22u}",
    "Shopify": "shpat_{32h}",
    "Hugging Face": "hf_{34a}",
    "Replicate": "r8_{37a}",
    "Groq": "gsk_{52a}",
    "Perplexity": "pplx-{48a}",
    "xAI": "xai-{80a}",
    "Tavily": "tvly-dev-{32a}",
    "Pinecone": "pcsk_{6a}_{63a}",
    "LangSmith": "lsv2_pt_{32h}_{10h}",
    "Databricks": "dapi{32h}",
    "npm": "npm_{36a}",
    "PyPI": "pypi-AgEIcHlwaS5vcmc{150u}",
    "Docker": "dckr_pat_{27u}",
    "DigitalOcean": "dop_v1_{64h}",
    "Vault": "hvs.{90u}",
    "Terraform": "{14a}.atlasv1.{67u}",
    "Doppler": "dp.st.dev.{43a}",
    "Grafana": "glsa_{32a}_{8h}",
    "Sentry": "sntrys_{120a}",
    "New Relic": "NRAK-{27U}",
    "Notion": "ntn_{46a}",
    "Figma": "figd_{43u}",
    "Linear": "lin_api_{40a}",
    "Airtable": "pat{14a}.{64h}",
    "Supabase": "sbp_{40h}",
    "PlanetScale": "pscale_tkn_{43u}",
    "age": "AGE-SECRET-KEY-1{58U}",
    "RubyGems": "rubygems_{48h}",
    "Postman": "PMAK-{24h}-{34h}",
    "Fly.io": "fo1_{43u}",
    "Heroku": "HRKU-AA{58u}",
    "Cloudflare": "v1.0-{24h}-{146h}",
    "Netlify": "nfp_{36a}",
    "Vercel": "vercel_blob_rw_{16a}_{30a}",
    "Resend": "re_{8a}_{24a}",
    "Clerk": "sk_test_{42a}",
    "Jina": "jina_{32h}{28u}",
}
# The secret stands between brackets.
_NAMED: Final = (
    "Your API key: [{24a}]",
    "The password is: [{12a}!2]",
    "OPENAI_KEY=[{40a}]",
    "Authorization: token [{40h}]",
    "Authorization: Bearer [{40a}]",
    "AccountName=shop;AccountKey=[{86a}==]",
    "https://example.com/v1?api_key=[{32a}]&q=ferries",
    "postgres://app:[{16a}9]@db.example.com:5432/app",
    "aws_secret_access_key = [{40a}]",
)
_SURROUNDINGS: Final = (
    "{}",
    "I use {} for this, is that right?",
    "KEY={}\n",
    '{{"key": "{}", "note": "old"}}',
    "密钥是{}，请保密。",
    "キーは{}です",
    "| prod | {} | 2024-05-01 |",
    "curl -H 'X-Auth: {}' https://example.com",
)
_ORDINARY: Final = (
    "commit {40h} fixes the ferry's timetable",
    "The build {8h}-{4h}-4{3h}-a{3h}-{12h} took 12 minutes.",
    "sha256:{64h}  harbour.tar.gz",
    "Order no. {7d} of 3 May arrives on Tuesday.",
    "ISBN 978-0-306-40615-7 and ISSN 0317-8471",
    "Version 2.{2d}.{1d}-rc.1 was released on 2024-05-17 at 08:30:12.",
    "Invoice 2024-{4d}: 1,{3d}.50 EUR, 19 % VAT included",
    "It measures 0.1 0.2 0.3 0.4 0.5 and 1024x768.",
    "Article 0201 345 678 is sold out until week {2d}.",
    "https://example.com/articles/2024/05/17/ferries-between-the-islands-{5d}.html",
    "The token count is {4d}, and the password must have 12 characters.",
    "sk-learn-is-a-great-library-for-you and pk-means-primary-key",
    "basic mathematics_2024_edition, chapter {2d}",
    "pwd: /home/user{1d}/project/data",
    "def token_count(text: str) -> int: return len(text.split())",
    "key = lambda row: row['name'].casefold()",
    "api_key=os.environ['API_KEY'] is read at start-up",
    "The file IMG_{8d}_123456.jpg was taken at 48.8584 N, 2.2945 E.",
    "Die Fähre legt um {2d}:40 Uhr ab; Tarif 7B, Zone {1d}.",
    "営業時間は9:00から17:00まで、料金は{4d}円です。",
    "NDC 0777-3105-02, lot A{6d}",
    "FY 2024: 212.736.5000 units",
    "doi:10.1000/xyz{3d}-{2d} and arXiv:2405.{5d}",
    "The gene BRCA1 c.{4d}delAG and protein P{5d}",
    "thread_{24a} ended, and resp_{48h} was read by user_2{26a}.",
    "test_ThatTheSecondRequest2OfThreeWorksInAllBrowsers passed",
    "See report_FinalVersionOfTheHarbourTable20240517.pdf, page {2d}.",
    "Temperature rose from 11.{1d} to 14.{1d} degrees between 1998 and 2024.",
)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--missed", action="store_true", help="print what we miss and take")
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    logging.disable(logging.WARNING)
    secrets, ordinary = [*_secrets(source)], [*_ordinary_texts(source)]
    finders = {"ours": _ours(), **_others()}
    found = {name: _found(find, secrets) for name, find in finders.items()}
    print(f"seed {arguments.seed}; {len(secrets)} secrets, {len(ordinary)} ordinary texts")
    print("| maker | secrets |", " | ".join(finders), "|")
    print("|---|" + "---:|" * (1 + len(finders)))
    makers = Counter(maker for maker, _, _ in secrets)
    for maker, count in makers.items():
        row = [str(found[name][maker]) for name in finders]
        print(f"| {maker} | {count} |", " | ".join(row), "|")
    totals = [f"{sum(found[name].values()) / len(secrets):.1%}" for name in finders]
    print("| found |", len(secrets), "|", " | ".join(totals), "|")
    taken = {name: [text for text in ordinary if [*find(text)]] for name, find in finders.items()}
    shares = [f"{len(texts) / len(ordinary):.1%}" for texts in taken.values()]
    print("| ordinary texts changed |", len(ordinary), "|", " | ".join(shares), "|")
    if arguments.missed:
        print("\ntaken by ours:", *taken["ours"], sep="\n  ")
        missed = [text for maker, text, key in secrets if not _is_found(finders["ours"], text, key)]
        print("\nmissed by ours:", *missed, sep="\n  ")


def _secrets(source: random.Random) -> Iterable[tuple[str, str, str]]:
    """Yield maker, text and secret."""
    places = 0
    for maker, form in _FORMS.items():
        for _ in range(_EACH):
            secret = _drawn(source, form)
            text = _SURROUNDINGS[places % len(_SURROUNDINGS)].format(secret)
            places += 1
            yield maker, text, secret
    for form in _NAMED:
        for _ in range(_EACH):
            before, _, rest = form.partition("[")
            inner, _, after = rest.partition("]")
            secret = _drawn(source, inner)
            yield "by name", f"Note: {before}{secret}{after}", secret


def _ordinary_texts(source: random.Random) -> Iterable[str]:
    for form in _ORDINARY:
        for _ in range(_EACH):
            yield _drawn(source, form)
    for _ in range(_EACH):
        picture = base64.b64encode(source.randbytes(60)).decode()
        yield f"![dot](data:image/png;base64,{picture})"
        yield json.dumps({"id": source.randrange(10**9), "score": source.random(), "tags": ["a"]})


def _drawn(source: random.Random, form: str) -> str:
    first, *parts = form.split("{")
    text = first
    for part in parts:
        size, rest = part.split("}", 1)
        text += "".join(source.choices(_KINDS[size[-1]], k=int(size[:-1]))) + rest
    return text


def _found(find: Finder, secrets: Iterable[tuple[str, str, str]]) -> Counter[str]:
    return Counter(maker for maker, text, key in secrets if _is_found(find, text, key))


def _is_found(find: Finder, text: str, secret: str) -> bool:
    begin = text.index(secret)
    covered = {place for start, end in find(text) for place in range(start, end)}
    run = longest = 0
    for place in range(begin, begin + len(secret)):
        run = 0 if place in covered else run + 1
        longest = max(longest, run)
    # A prefix that only names the maker may remain.
    return longest <= _REMAIN or (longest < len(secret) // 3 and begin not in covered)


def _ours() -> Finder:
    rules = choose_redactor(RagEvalConfig(), ["all"]).rules

    def find(text: str) -> Spans:
        matches = merge_matches(text, [tuple(rule.matches(text)) for rule in rules])
        return [(match.start, match.end) for match in matches]

    return find


def _others() -> Mapping[str, Finder]:
    """Return the finders that are installed."""
    finders: dict[str, Finder] = {}
    if importlib.util.find_spec("detect_secrets") is not None:
        finders["detect-secrets"] = _detect_secrets(("HighEntropy",))
        finders["with entropy"] = _detect_secrets(())
    if importlib.util.find_spec("presidio_analyzer") is not None:
        finders["Presidio"] = _presidio()
    return finders


def _detect_secrets(left_out: Sequence[str]) -> Finder:
    """Return all its plugins but those whose class name holds one of the words."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import transient_settings

    names = [kind.__name__ for kind in get_mapping_from_secret_type_to_class().values()]
    chosen = [name for name in names if not any(word in name for word in left_out)]
    settings = {"plugins_used": [{"name": name} for name in chosen]}

    def find(text: str) -> Spans:
        with transient_settings(settings):
            values = [one.secret_value for line in text.splitlines() for one in scan_line(line)]
        begins = [(text.find(value), value) for value in values if value]
        return [(begin, begin + len(value)) for begin, value in begins if begin >= 0]

    return find


def _presidio() -> Finder:
    """Return its recognisers of patterns: names of people need a model."""
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine = SpacyNlpEngine()
    engine.nlp = {"en": spacy.blank("en")}
    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(nlp_engine=engine)
    analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine)
    return lambda text: [(one.start, one.end) for one in analyzer.analyze(text, language="en")]


if __name__ == "__main__":
    main()
