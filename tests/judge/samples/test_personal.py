"""What is secret or personal is found, what only looks like it stays, and a text of any shape takes linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.samples.personal import findings, keys, kinds
from judge.samples.personal.findings import Finding
from judge.samples.personal.kinds import Wanted
from judge.samples.personal.search import find

KEY_BLOCK = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nq8vYmIIEpAIBAAKCq8vYmIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----"
)

HELD = [  # (text, kind, what of it is to go)
    ("Write to ana@example.com.", "email", "ana@example.com"),
    ("ben.o'neil+work@mail.example.co.uk!", "email", "ben.o'neil+work@mail.example.co.uk"),
    ("contact: josé@exämple.de", "email", "josé@exämple.de"),
    ("call +1 415 555 2671 now", "phone", "+1 415 555 2671"),
    ("my phone is 555-123-4567 ok", "phone", "555-123-4567"),
    ("(415) 555-2671", "phone", "(415) 555-2671"),
    ("415.555.2671", "phone", "415.555.2671"),
    ("Call me at 4155552671", "phone", "4155552671"),
    ("tel: 030 12345678", "phone", "030 12345678"),
    ("07911 123456", "phone", "07911 123456"),
    ("+49 170 1234567", "phone", "+49 170 1234567"),
    ("+44 20 7946 0958", "phone", "+44 20 7946 0958"),
    ("01 42 68 53 00", "phone", "01 42 68 53 00"),
    ("whatsapp +55 11 91234-5678", "phone", "+55 11 91234-5678"),
    ("4111 1111 1111 1111", "card", "4111 1111 1111 1111"),
    ("card 5555555555554444, thanks", "card", "5555555555554444"),
    ("3782-822463-10005", "card", "3782-822463-10005"),
    ("DE89 3704 0044 0532 0130 00 THANKS", "iban", "DE89 3704 0044 0532 0130 00"),
    ("GB29NWBK60161331926819", "iban", "GB29NWBK60161331926819"),
    ("key sk-proj-abcDEF1234567890abcdefGHIJ end", "key", "sk-proj-abcDEF1234567890abcdefGHIJ"),
    ("sk-ant-api03-aB3dE6gH9jK2mN5pQ8sT1vW4xY7z", "key", "sk-ant-api03-aB3dE6gH9jK2mN5pQ8sT1vW4xY7z"),
    ("ghp_aB3dE6gH9jK2mN5pQ8sT1vW4xY7z0123456789", "key", "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4xY7z0123456789"),
    ("glpat-aB3dE6gH9jK2mN5pQ8sT", "key", "glpat-aB3dE6gH9jK2mN5pQ8sT"),
    ("id AKIAIOSFODNN7EXAMPLE.", "key", "AKIAIOSFODNN7EXAMPLE"),
    ("xoxb-1234567890-abcdefghij", "key", "xoxb-1234567890-abcdefghij"),
    ("sk_live_51H8xYz2eZvKYlo2C", "key", "sk_live_51H8xYz2eZvKYlo2C"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "key", "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
    ("hf_abcdefghijklmnopqrstuvwxyz012345", "key", "hf_abcdefghijklmnopqrstuvwxyz012345"),
    ("tb-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefg", "key", "tb-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefg"),
    (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "key",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    ),
    ("Authorization: Bearer abcdef1234567890abcdef", "key", "abcdef1234567890abcdef"),
    ("Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l", "key", "YWxhZGRpbjpvcGVuc2VzYW1l"),
    ('{"authorization": "basic Ym9iOmh1bnRlcjI="}', "key", "Ym9iOmh1bnRlcjI="),
    (f"Here: {KEY_BLOCK} Bye.", "key", KEY_BLOCK),
    (KEY_BLOCK[:70], "key", KEY_BLOCK[:70]),
    ("postgres://bob:s3cr3t@db.example.com/x", "password", "s3cr3t"),
    ("password=hunter2", "password", "hunter2"),
    ('password: "correct horse"', "password", "correct horse"),
    ("DB_PASSWORD=letmein99", "password", "letmein99"),
    ("My password is hunter2.", "password", "hunter2"),
    ('{"password": "swordfish"}', "password", "swordfish"),
    ("API_KEY=9f86d081884c7d659a2feaa0c55ad015", "password", "9f86d081884c7d659a2feaa0c55ad015"),
    (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "password",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
]

INNOCENT = r"""Version 1.24.0, Python 3.11.9, Django 5.2.19 and 10.0.0.1-rc2
On 2026-11-20 at 14:35:07, or 20.11.2026, or 11/20/2026 14:35
commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
550e8400-e29b-41d4-a716-446655440000
Order 4815162342, invoice 2026-000123, ticket #1234567
1 + 1 = 2, 12 * 12 = 144, 1,250,000.00 and 3.14159265358979
It costs $1,299.99 or 1.299,99 € or £12.50
x = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
password = request.POST["password"]
password=form.cleaned_data
login(user, password=password)
The password is required.
password: str = ""
Enter your password: it must have at least 8 characters.
max_tokens=4096, token: str, tokens: 1234567890
max_token=200000tokens12
"max_completion_token": "200000tokens12"
Authorization: Basic authentication is what it asks for
secret = get_secret()
api_key = os.environ["OPENAI_API_KEY"]
api_key=YOUR_API_KEY_HERE
export API_KEY=<your key>
sk-learn is scikit-learn-extra-package
npm install lodash@4.17.21 @types/node@20
git clone git@github.com:org/repo.git
actions/checkout@v4
icon@2x.png
@property and @staticmethod
ISBN 978-3-16-148410-0
1234567812345678
1795202794777946
0.4111111111111111
The sum of 100 200 300 and 400 500 6000
123-456-7890 is an order
192.168.0.1 and 8.8.8.8
The years 1939-1945 and 2020-2024
(2019) 123-145
Smith (2020) 1234, 55-67
call 911
Add +100 000 000 to it
17 November 2026, room 0412
lat 52.520008, lon 13.404954
def f(a: int, token: Token) -> None: pass
Base64: aGVsbG8gd29ybGQgdGhpcyBpcyBhIHRlc3Q=
127.0.0.1:8000 /v1/chat/completions
The token is a small piece of text.
key: value, secret: the cake is a lie
ALL CAPS TEXT IS FINE AB12 CDEF GHIJ KLMN
GB82 WEST is not an account
http://localhost:8000/a@b
1e10, 6.02214076e23, 0xDEADBEEF
mobile: 2024-01-15, phone 15 has 2 cameras
0.1 0.2 0.3 0.4 0.5
01.02.2024 12:30
00:11:22:33:44:55
Password reset is done under Settings
SELECT * FROM users WHERE password IS NULL
const token = await getToken();
"token": "string"
matrix [[1, 0, 0], [0, 1, 0]]
fingerprint 43:51:43:a1:b5:fc:8b:b7:0a:3a:a9:b1:0f:66:73:a8
tracking 1Z999AA10123456784
EAN 4006381333931
VIN 1HGCM82633A004352
[email 1] wrote to [phone 2], password=[password 1]"""


@pytest.mark.parametrize(("text", "kind", "secret"), HELD)
def test_what_is_secret_or_personal_is_found(text, kind, secret):
    assert [(one.kind, text[one.start : one.end]) for one in find(text)] == [(kind, secret)]


DRAWN = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fG3hJ6kL9n" * 2
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TOKENS = [
    f"sk-or-v1-{DRAWN[:40]}",
    f"tb-{DRAWN[:43]}",
    f"github_pat_{DRAWN[:22]}_{DRAWN[:59]}",
    f"xoxe-1-{DRAWN[:40]}",
    f"xapp-1-A0123456789-{DRAWN[:30]}",
    f"pk_test_{DRAWN[:24]}",
    f"whsec_{DRAWN[:32]}",
    f"AIza{DRAWN[:35]}",
    f"GOCSPX-{DRAWN[:28]}",
    f"ya29.{DRAWN[:60]}",
    f"hf_{DRAWN[:34]}",
    f"npm_{DRAWN[:36]}",
    f"dop_v1_{HEX}",
    f"shpat_{HEX[:32]}",
    f"ghs_{DRAWN[:36]}",  # from here on detect-secrets knows them
    f"glpat-{DRAWN[:20]}",
    f"glagent-{DRAWN[:60]}",
    f"glcbt-64_{DRAWN[:20]}",
    f"xoxb-123456789012-{DRAWN[:24]}",
    f"https://hooks.slack.com/services/T0123ABCD/B0123ABCD/{DRAWN[:24]}",
    f"SG.{DRAWN[:22]}.{DRAWN[:43]}",
    f"pypi-AgEIcHlwaS5vcmc{DRAWN[:75]}",
    f"sq0csp-{DRAWN[:43]}",
    f"123456789:{DRAWN[:35]}",
    f"SK{HEX[:32]}",
    f"{HEX[:32]}-us12",
    f"AccountKey={DRAWN}{DRAWN[:6]}==",
    "ASIAIOSFODNN7EXAMPLE",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_found_whole_and_its_form_is_listed_once(token):
    assert [token[one.start : one.end] for one in find(token, Wanted(("key",)))] == [token]
    assert sum(findings.compile_pattern(form).search(token) is not None for form in keys.tokens()) == 1


def test_every_form_of_our_own_has_a_token_above():
    ours = keys.tokens()[: len(keys.LACKING)]
    assert all(any(findings.compile_pattern(form).search(token) for token in TOKENS) for form in ours)


@pytest.mark.parametrize("text", INNOCENT.splitlines())
def test_versions_dates_hashes_numbers_and_code_stay(text):
    assert find(text) == []


@pytest.mark.parametrize(("text", "secret"), [(text, secret) for text, _, secret in HELD])
def test_it_is_found_in_the_middle_of_other_text_too(text, secret):
    around = f"Bitte schön, {text}\nAnd then, on 2026-11-20, we went on."
    (one,) = find(around)
    assert around[one.start : one.end] == secret


def test_addresses_of_machines_are_found_on_request_alone():
    assert find("at 8.8.8.8 and 192.168.0.1") == []
    assert find("at 8.8.8.8 and 192.168.0.1", Wanted(("ip",))) == [Finding(3, 10, "ip")]  # the other one is no person's


def test_a_kind_that_is_not_wanted_stays():
    assert find("ana@example.com, 4111111111111111", Wanted(("card",))) == [Finding(17, 33, "card")]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [({"kinds": ("address",)}, "'address' is no kind"), ({"patterns": (("x", "(?=a)"),)}, "not one that RE2 takes")],
)
def test_what_cannot_be_looked_for_is_refused_in_a_sentence(wanted, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        Wanted(**wanted)


@given(st.text(max_size=200))
def test_findings_are_apart_in_order_and_within_the_text(text):
    found = find(text, Wanted(kinds.KINDS))
    edges = [edge for one in found for edge in (one.start, one.end)]
    assert edges == sorted(edges)
    assert all(one.start < one.end <= len(text) for one in found)


SHAPES = [
    "a",
    "a@",
    "1",
    "+1 ",
    "+1 415 555 2671 ",
    "a.b@c.",
    "password=",
    "password: '",
    "eyJ",
    " ",
    "://",
    "01 ",
    "(",
]
SHAPES += [
    "-----BEGIN PRIVATE KEY-----",
    "DE89 3704 0044 ",
    "AA11 ",
    "xoxb-",
    "a.b@example.com, ",
    "secret_",
    "1.",
    "ä@",
]


@pytest.mark.parametrize("piece", SHAPES)
def test_a_hundred_kilobytes_of_any_shape_take_a_moment(piece):
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    find(text, Wanted(kinds.KINDS))
    assert time.process_time() - started < 10  # 0.02 to 1.2 s here; a pattern that backtracks takes hours
