"""Texts with what must be found in them, and texts in which nothing must be found.

Every value is invented; numbers of cards and accounts are the published test numbers of their
issuers, keys are made up in the form of their makers.
"""

# ruff: noqa: RUF001 - texts of many languages; no key here opens anything

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """One text.

    Attributes:
        rule: The rule under test; all rules of `all`, and `ip`, are on.
        text: The text; what must be found stands between `[[` and `]]`.
    """

    rule: str
    text: str

    @property
    def plain(self) -> str:
        """The text without marks."""
        return self.text.replace("[[", "").replace("]]", "")

    @property
    def wanted(self) -> list[str]:
        """Texts that must be found."""
        return [part.split("]]")[0] for part in self.text.split("[[")[1:]]


_FOUND = {
    "email": """
Write to [[jane.doe@example.com]] today.
Mail: [[JANE@EXAMPLE.COM]], or call.
[[a.b+tag@sub.example.co.uk]]
[[राम@हिन्दी.भारत]] को लिखें
Contact <[[support@example.org]]>.
mailto:[[x@example.io]]?subject=hi
Schreiben Sie an [[müller@bücher.de]].
Escriba a [[jose.garcía@ejemplo.es]].
Пишите на [[иван@почта.рф]].
邮箱：[[wang_wei@example.cn]]。
メールは[[taro@example.jp]]へ
user=[[u-1@example.com]]&x=1
"[[o'neil@example.ie]]",
[[first@example.com]],[[second@example.com]];[[third@example.com]]
end of text cut [[john.doe@example.co]]
([[me@my-company.museum]])
[[123456@example.com]] is an address of digits
[[user_name@xn--bcher-kva.example]]
Email:[[test@example.photography]].
البريد [[ali@example.ae]] شكرا
이메일 [[kim@example.co.kr]] 입니다
""",
    "phone": """
电话[[+86 138 0013 8000]]
请拨打[[+86 138 0013 8000]]
電話は[[+81 3 1234 5678]]
Call [[+1 212 555 0123]] now
Call [[+49 30 901820]]
[[+49 (0) 30 901820]]
[[+44 20 7946 0958]]
[[+33 1 42 68 53 00]]
[[+34 912 345 678]]
[[+39 06 6982 1234]]
[[+7 495 123-45-67]]
[[+86 10 6552 9988]]
[[+81 3-3581-0101]]
[[+91 98765 43210]]
[[+971 50 123 4567]]
[[0049 30 901820]]
[[+4930901820]]
(tel: [[+12125550123]])
телефон: [[+7 (495) 123-45-67]]
هاتف [[+966 11 401 9187]]
WhatsApp: [[+55 11 91234-5678]]
""",
    "card": """
Visa [[4111 1111 1111 1111]]
[[4111111111111111]]
order [[4111111111111111]]
invoice no. [[5555555555554444]]
Bestellnummer: [[4012888888881881]]
id=[[4111111111111111]]
[[4111 1111 1111 1111]]
card 4012-8888 is no card but [[4012-8888-8888-1881]] is
Mastercard [[5555 5555 5555 4444]], valid
[[5105105105105100]]
[[2223003122003222]]
Amex [[378282246310005]]
Amex [[3782 822463 10005]]
Diners [[30569309025904]]
Discover [[6011111111111117]]
JCB [[3530111333300000]]
UnionPay [[6200000000000005]]
Maestro [[6759649826438453]]
Kartennummer: [[4111-1111-1111-1111]].
Número de tarjeta [[5555555555554444]]
卡号[[4111 1111 1111 1111]]，谢谢
12 [[4111 1111 1111 1111]] 03/27
2023 [[4111 1111 1111 1111]]
карта [[2200000000000053]]
""",
    "iban": """
IBANは[[DE89370400440532013000]]
口座は[[DE89370400440532013000]]です
账号[[DE89 3704 0044 0532 0130 00]]
[[DE89 3704 0044 0532 0130 00]]
IBAN [[DE89 3704 0044 0532 0130 00]] BIC COBADEFFXXX
[[DE89370400440532013000]]
[[GB29 NWBK 6016 1331 9268 19]]
[[FR14 2004 1010 0505 0001 3M02 606]]
[[NL91ABNA0417164300]].
[[ES91 2100 0418 4502 0005 1332]]
[[IT60 X054 2811 1010 0000 0123 456]]
[[CH93 0076 2011 6238 5295 7]]
[[AT61 1904 3002 3457 3201]]
[[BE68 5390 0754 7034]]
[[PL61 1090 1014 0000 0712 1981 2874]]
[[SE45 5000 0000 0583 9825 7466]]
[[NO93 8601 1117 947]]
[[DK50 0040 0440 1162 43]]
[[SA03 8000 0000 6080 1016 7519]]
[[AE07 0331 2345 6789 0123 456]]
[[TR33 0006 1005 1978 6457 8413 26]]
счёт [[UA21 3223 1300 0002 6007 2335 6600 1]]
[[de89370400440532013000]]
""",
    "key": """
[[fo1_MTX6T5bC6O3hDpHJanr4VjXiMha2mn82r7HQm6Q73sw]]
[[HRKU-AAkjesLaQutYDtDRd8bU0bWwJacl7mU56vvGWgUX1c6fvL4v5HttlejQ9kd9]]
[[v1.0-8639d760e07d2bfac162d47f-df77b74626ffa7514cd5ccbac5b47cb4fa9084a7dac5abd5ddbff882de7bbb2c9a69cab027a3aa07302523076993e06461d5091859fd6da5299ff95e01992ae6634f6fe94f765f7471]]
[[re_MBsWZaHq_5Wpqj9sLDNLUhVsHusGCwUKc]]
[[vercel_blob_rw_pC43HaWAJRND4xy0_msZeZRArW4iDIEujKYeoYXPbS89Rd0]]
[[jina_3afb24e29629016109be26597f50b2a8WwGzQhU9d_ONbByJBJKzSYxNBbn]]
[[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]]
token of a maker nobody knows: [[zzq9_Db5w6QPD6hPsPTkmboey8wtDrTSkoP6OA8ad]]
key [[sk-proj-abcdefghijklmnopqrstuvwxyz0123]]
[[sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123]]
[[ghp_abcdefghijklmnopqrstuvwxyz0123456789]]
[[github_pat_11ABCDEFG0abcdefghijkl_mnop]]
[[glpat-abcdefghij0123456789]]
[[xoxb-123456789012-abcdefghijkl]]
[[AIzaSyA-abcdefghijklmnopqrstuvwxyz01234]]
[[sk_live_abcdefghijklmnop0123]]
[[AKIAIOSFODNN7EXAMPLE]]
[[hf_abcdefghijklmnopqrstuvwxyzABCDEFGH]]
[[npm_abcdefghijklmnopqrstuvwxyz0123456789]]
[[SG.abcdefghijklmnop0123.abcdefghijklmnop0123]]
[[eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl]]
Authorization: Bearer [[abcdefghijklmnop0123456789]]
[[hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnop01234567]]
[[sig=aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nab%3D]]
[[abc8Q~aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3h]]
[[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]]
[[glrt-aB3dE6gH9jK2mN5pQ8sT]]
[[GR1348941aB3dE6gH9jK2mN5pQ8sT]]
[[ATATT3aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9naB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n=1A2B3C4D]]
[[ATBBaB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF]]
[[dapi0123456789abcdef0123456789abcdef]]
[[lsv2_pt_0123456789abcdef0123456789abcdef_0123456789]]
[[pcsk_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nxyz]]
[[r8_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6k]]
[[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]]
[[xai-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9naB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[pplx-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[pa-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nxyz]]
[[hvs.aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[aB3dE6gH9jK2mN.atlasv1.aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9naB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[dp.pt.aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nxyz]]
[[glsa_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF_0a1b2c3d]]
[[sntrys_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9naB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[dckr_pat_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7]]
[[discord.com/api/webhooks/123456789012345678/aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9naB3dE6gH9jK2mN5pQ8sT1vW4yZ7b]]
[[ntn_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n123456]]
[[figd_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[lin_api_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[pataB3dE6gH9jK2mN.0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef]]
[[sq0atp-aB3dE6gH9jK2mN5pQ8sT1v]]
[[NRAK-AB3DE6GH9JK2MN5PQ8ST1VW4YZ7]]
[[key-0123456789abcdef0123456789abcdef]]
[[0123456789abcdef0123456789abcdef-us12]]
[[sbp_0123456789abcdef0123456789abcdef01234567]]
[[pscale_tkn_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n]]
[[AGE-SECRET-KEY-1AB3DE6GH9JK2MN5PQ8ST1VW4YZ7BC0EF3HI6KL9NAB3DE6GH9JK2MN5PQ8]]
[[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]]
[[llx-lwBVLuOJm5ug1dTorWLN3phv7lsDbcwSf599sVR9ubusu9jX]]
[[quay_0esm2siqykvaxc3kxxsg2n1nhdddkjc85puch7s0m4mp]]
[[ZK-205CO02P1N5MCCQQP7NO0QJUDUHZC5YF1NKVS4U0]]
[[sk_68acf2861c4815efcc6065083cc7165afe0213f841b209b2]]
[[csk-f83yntyo5zgehx6102emt41h9kxklju5vq8akath8h547e7p]]
[[ferry_live_d9b7501ae9eec48ba4d2459b6b22c5aba59002b3]]
[[pat-na1-0f8fad5b-d9cb-469f-a165-70867728950e]]
[[dt0c01.KL5EHL4OTZP5OTXOU872Z6ZU.S20AQL839XZYBJ6E3WTFQ4O4EJPETIDKZ98QB7PKGNCUFHRDSLJ0IF9XA9J60JNT]]
[[bkua_f2c558c9ca5c1d080942530770f5eca563fb9d16]]
[[access_token$production$qt4vfpugcu74wflc$f7162a4930278010f46b7b9cc15df299]]
Authorization: SSWS [[00YnTTBulnbE4B7rvW6A8O71AuWNnqrGfbzqMsR6]]
SMTP_PASS=[[PiNWuf7YkNfS7]]
Das Passwort lautet: [[Kai343715!]]
密码是[[aDKnkfpH48]]。
パスワードは[[1ghZus3KL7]]です
la contraseña es [[muelle-2120!]]
secret_key_base: [[5681aab55611518f364cffabdc1154b797b6bcb376b5600369af19c54cebb0e4]]
Your API key: [[Zx81kQ93mNp4]]
The API key is [[Zx81kQ93mNp4]]
the password is: [[hunter2!!hunter2]]
passcode: [[93ab-77zk]]
OPENAI_KEY=[[Zx81kQ93mNp4rT]]
Authorization: token [[abcdefghijklmnop0123456789]]
https://api.example.com/v1?api_key=[[Zx81kQ93mNp4rT]]&q=1
password=[[Ab=12345xY]]
password: [[$ecret99word]]
aws_secret_access_key = [[wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY]]
password: [[hunter2!hunter2]]
Passwort = '[[Geheim12345]]'
"api_key": "[[abcd1234efgh5678]]"
密码：[[abc12345xyz]]
пароль: [[Qwerty12345]]
postgres://app:[[s3cretpass]]@db.internal/prod
[[-----BEGIN RSA PRIVATE KEY-----MIIEabc-----END RSA PRIVATE KEY-----]] end
cut [[-----BEGIN PRIVATE KEY-----MIIEvgIBADANBg]]
[[123456789:AAabcdefghijklmnopqrstuvwxyz0123456]]
""",
    "ip": """
host [[192.168.1.10]] is down
from [[8.8.8.8]], twice
[[2001:db8::8a2e:370:7334]]
at [[10.0.0.1]]:8080
[[::1]] is local
addresses: [[172.16.254.1]]/24
[[fe80::1]] on eth0
Server [[203.0.113.7]].
""",
}

_LEFT = {
    "email": """
@mention in a chat
price 5 @ 3 euros
pkg@1.2.3
git@github.com:org/repo.git
user@localhost
a@b
@decorator.method
left@
5@10
x @ y.com
foo@bar..com
ssh root@host:~/dir
""",
    "phone": """
On 2023-10-15 it opened.
Founded 15.10.2023, closed 01.02.2024
1990-2020
from 1990 to 2020
ISBN 978-3-16-148410-0
ISBN 0-306-40615-2
ISBN-10: 3-16-148410-X
It costs 1,234,567.89 euros
12 345 678 inhabitants
3.14159265358979
version 1.2.3.4567
v10.15.7
order 4915112345678
Order no. 0301234567
invoice 2023-000123-4567
ticket #0123456789
id: 0171234567
Section 10.2.3.4
GDP rose by 12345678 dollars
1700000000
1700000000000
the year 2024 and 2025
98765432109876
room 0123
PI 3.1415 926535
5 000 000 000
1 000 000 people
10-20-30
2001:0db8:85a3
ratio 4:3, 16:9
12.5 % of 80 000
$212-555 per unit
from 100-200 to 300-400
tables 1-2-3
page 030-045
§ 30-31
born 03.04.1985 in Rome
1984-01-01T10:00:00Z
at 10:30:00 on 01/02/2023
12/31/2023
ZIP 10115-1234
DOI 10.1000/182
CAS 7732-18-5
coordinates 52.520008, 13.404954
0.123456789
+5 points, -3 points
+12 %
5+7=12
RFC 2616
serial 030-1234-5678-90
Artikelnummer 030 901820
account 0123 456 789
UTC+02:00
0xdeadbeef12345678
100-yard dash in 00:09.58
Call 911 or 112
In 2024, 212 people, 555 cars and 123 bikes
1,2,3,4,5,6,7,8,9,10
Phone plans cost 30 000 000 dollars
0.1 0.2 0.3 0.4 0.5
Article 0201 345 678
NDC 0777-3105-02
FY 2024: 212.736.5000 units
In the phone survey 1234567 people answered
Call option 1234567 of 2020
the cell count was 1234567890
barcode 0301 2345 678
Aktenzeichen 030 1234/22
GPS 40.7128 -74.0060
( 2016 - 01 - 22 ) 1.33 5 5
2016-02-05 ) 1.34 7 7
Smith (2019) 45 6789
arXiv:2005.11401
""",
    "card": """
4111 1111 1111 1112
1234567890123456
ISBN 9783161484100
1700000000000
0000 0000 0000 0000
3.141592653589793238
9007199254740993
trace 00000000000000004111111111111111
2023 2024 2025 2026
1000 2000 3000 4000
UUID 123e4567-e89b-12d3-a456-426614174000
row-4676002274784316434
row--6333085104023663146
""",
    "iban": """
DE89 3704 0044 0532 0130 01
GB00 NWBK 6016 1331 9268 19
XX89 3704 0044 0532 0130 00
AB12 is a room
ISO12 345
BE68 5390 0754
MT940 files
de89 is no account
DE123456789 is a VAT number
""",
    "key": """
export API_KEY=$OTHER_KEY
access key: Alt+Shift+5
cache_key=user:73060:profile
sort_key=created_at_2024
harbour-service-canary-7d9f8c6b5d-x2k4z restarted
app-sha1-e0d63a912f5157a00cd7414597dab5bb8a14b6ff
run-0f8fad5b-d9cb-469f-a165-70867728950e
https://example.org/d/a1-1he4OMmkjJTiM1dI0w38fT8dY1MjIlqNdsE43rnPEW/edit
thread_WzcI9Gvfe3E6dpdydpzsdc8l has resp_8681518e9d308796abe47d3141cd521316930b0345165c8e
user_2OVJBYO7TRqYxiekqPrdVIbdiw1 wrote
test_ThatTheSecondRequest2OfThreeWorksInAllBrowsers passed
report_FinalVersionOfTheHarbourTable20240517.pdf
the token is a string of characters
password: at least eight characters
sk-learn and sk-image are libraries
api_key: required
token: string
The secret of success: practice
Basic training takes weeks
Bearer bonds are rare
ghp_short
AKIA is a prefix
password: ${DB_PASSWORD}
pwd: /home/user1/project
sk-learn-is-a-great-library-for-you
basic mathematics_2024_edition
a task-oriented-dialogue-system-for-2023-users
eyJ is how a JWT begins
Token: max_tokens=4096
a basic misunderstanding of the case
token: 4096-wide
https://example.com:8080/path@here
commit 3f786850e387550fdab836ed7e6dc881de23001b
sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
""",
    "ip": """
version 1.2.3.4
v4.18.0.1
1.2.3
256.1.1.1
std::vector
12:30:45
section 1.2.3.4.5
dead::beef
""",
}


def _cases(texts: dict[str, str]) -> list[Case]:
    return [Case(rule, line) for rule, block in texts.items() for line in block.strip().split("\n")]


CASES = (*_cases(_FOUND), *_cases(_LEFT))
