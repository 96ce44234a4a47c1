import base64
import html
import json
import os
import shlex
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.analysis.patterns import field_kind
from geode.analysis.secrets import Redactor, known_secrets

KNOWN = "S3ntinel/+v%lue=zzz:9"
plain = Redactor()
knowing = Redactor([KNOWN])


def made(prefix: str, length: int, alphabet: str = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z") -> str:
    """A token of a vendor's form, put together here so that no scanner takes this file for a leak."""
    return prefix + (alphabet * 20)[:length]


PEM = "\n".join(
    [
        "-----BEGIN " + "PRIVATE KEY-----",
        *("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ" for _ in range(4)),
        "abc=",
        "-----END " + "PRIVATE KEY-----",
    ]
)

TOKENS = {
    "aws": made("AKIA", 16, "ABCDEFGH234567"),
    "github": made("ghp_", 36),
    "github fine": made("github_pat_", 82),
    "gitlab": made("glpat-", 20),
    "openai": made("sk-", 48),
    "openai project": made("sk-proj-", 60),
    "anthropic": made("sk-ant-api03-", 80),
    "slack": made("xoxb-", 40),
    "slack hook": "hooks.slack.com/services/" + made("T", 8) + "/" + made("B", 8) + "/" + made("", 24),
    "google": made("AIza", 35),
    "stripe": made("sk_live_", 24),
    "npm": made("npm_", 36),
    "pypi": made("pypi-AgE", 60),
    "huggingface": made("hf_", 34),
    "sendgrid": made("SG.", 22) + "." + made("", 43),
    "telegram": "123456789:AA" + made("", 33),
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + made("eyJ", 30) + "." + made("", 43),
    "vault": made("hvs.", 30),
    "groq": made("gsk_", 52),
    "digitalocean": made("dop_v1_", 64, "0123456789abcdef"),
}


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "x {} y",
        "key={}",
        '{{"a": "{}"}}',
        "line\\n{}\\nline",
        "({})",
        "`{}`",
        "Bad key: {}.",
        "a,{},b",
        "u={}&v=1",
    ],
)
def test_vendor_formats_are_found_in_any_surroundings(name: str, frame: str) -> None:
    token = TOKENS[name]
    shown = plain.text(frame.format(token))
    assert token not in shown
    assert token[8:-2] not in shown
    assert "[redacted:" in shown


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef123456",
        "authorization: Basic dXNlcjpodW50ZXIy",
        "'Authorization': 'Token abcdef0123456789'",
        '{"authorization": "abcdef0123456789xyz"}',
        "curl -H 'X-Api-Key: abc123def456'",
        "Cookie: sid=abc123; theme=dark",
        "Set-Cookie: sid=abc123; HttpOnly",
        "password=hunter22",
        "password: hunter22",
        "DB_PASSWORD=correcthorsebattery",
        "export API_TOKEN=abcdefgh",
        'token = "abc.def.ghi"',
        "'client_secret': 'abc-def1'",
        '{\\"password\\": \\"abc123\\"}',
        '"{\\\\\\"api_key\\\\\\": \\\\\\"abc123\\\\\\"}"',
        "--password hunter22",
        "--api-key=abc123",
        "https://h/p?access_token=abcdefgh&x=1",
        "https://h/p?X-Amz-Signature=abcdef0123456789abcdef&x=1",
        "postgresql://user:hunter22@db/x",
        "redis://:hunter22@db",
        "https://abcdefghijklmnopqrstuvwx@git.example.org/x",
        "postgres://u:p@ss:w0rd@host/db",
        "secretAccessKey: wJalrXUtnFEMI/K7MDENG",
        "AccountKey=abcdefghijklmnopqrstuvwxyz0123456789==;",
        "PASSWORD => 'hunter22'",
        "error: login failed with api_key=abc123def for user x",
        "passphrase: 'correct horse 7 battery'",
    ],
)
def test_values_after_telling_names_are_removed(text: str) -> None:
    shown = plain.text(text)
    assert "[redacted:" in shown
    for value in ("abc", "hunter22", "dXNl", "wJal", "correct", "w0rd"):
        assert value not in shown
    assert plain.text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "commit 1f0c9b2c4a5d6e7f8091a2b3c4d5e6f708192a3b",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha512-9/u6bgY2+JDlb7vzKD5STG+jIErimDgtYkdB0NxmODJuKCxBvl5CVNiCB3LFUYosWowMf37aGVlKfrU5RT4e1w==",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        '"integrity": "sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"',
        "The token expired and the password is wrong.",
        "max_tokens: 100, total_tokens=2048, token_count: 12",
        "next_token: abc123def, page_token=xyz123abc",
        "password: str = Field(...)",
        "def login(user: str, password: str) -> Token:",
        "token = request.token",
        "password = os.environ['DB_PASSWORD']",
        "api_key=${API_KEY}",
        'api_key: "<your key here>"',
        'password: "Enter your password"',
        'label: "Password:"',
        '"input_token": "next_token"',
        "Authorization: Bearer TOKEN",
        "use `Authorization: Bearer <token>`",
        "https://example.org/a:b@c",
        "http://localhost:8080/x",
        "git@github.com:owner/repo.git",
        "postgresql://USER:PASSWORD@HOST/DB",
        "mailto:user@example.org",
        "arn:aws:secretsmanager:eu:1:secret:name1",
        "task-0190a8b2-risk-assessment-of-the-desk-lamp-1",
        "<div class='sk-estimator-doc-link-fitted sk-toggleable__content'>",
        "primary_key=42 sort_key=name1 idempotency_key=abc123",
        "the key '-----BEGIN " + "PRIVATE KEY-----' starts it",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHFq1Wq1Wq1Wq1Wq1Wq1Wq1Wq1Wq1Wq1Wq1Wq1W me@host",
        "cookie: str | None = None",
        'Token: "#dcdccc"',
        "[redacted:token]",
    ],
)
def test_what_is_no_secret_survives(text: str) -> None:
    assert plain.text(text) == text


def test_images_and_random_data_survive() -> None:
    for seed in range(5):
        raw = bytes((i * 7919 + seed * 104729 + (i * i) % 251) % 256 for i in range(60_000))
        image = "data:image/png;base64," + base64.b64encode(raw).decode()
        assert plain.text(image) == image
    block: dict[str, Any] = {"type": "image", "data": base64.b64encode(os.urandom(100_000)).decode(), "mime_type": "x"}
    assert plain.json(block) == block


# ---------------------------------------------------------------- known values


@pytest.mark.parametrize(
    "form",
    [
        KNOWN,
        quote(KNOWN),
        quote(KNOWN, safe=""),
        quote(KNOWN, safe="").lower().replace("s3ntinel", "S3ntinel"),
        quote_plus(KNOWN),
        quote(quote(KNOWN, safe=""), safe=""),
        json.dumps(KNOWN),
        json.dumps(json.dumps(KNOWN)),
        html.escape(KNOWN),
        shlex.quote(KNOWN),
        KNOWN.encode().hex(),
        KNOWN.encode().hex().upper(),
        base64.b64encode(KNOWN.encode()).decode(),
        base64.urlsafe_b64encode(KNOWN.encode()).decode(),
        base64.b64encode(f"user:{KNOWN}".encode()).decode(),
        base64.b64encode(f"u:{KNOWN}".encode()).decode(),
        base64.b64encode(f"us:{KNOWN}:tail".encode()).decode(),
        quote(base64.b64encode(KNOWN.encode()).decode(), safe=""),
    ],
)
def test_R65_a_known_secret_is_found_in_every_spelling(form: str) -> None:
    shown = knowing.text(f"before {form} after")
    assert "[redacted:known]" in shown
    assert KNOWN not in shown
    assert len(shown) <= len("before  after[redacted:known]") + 12  # what encodes the text around it may stay
    assert shown.startswith("before ")
    assert shown.endswith(" after")


def test_a_known_secret_that_is_multi_line_is_found_line_by_line() -> None:
    redactor = Redactor([PEM])
    line = PEM.splitlines()[1]
    assert redactor.text(f"got {line} here") == "got [redacted:known] here"
    assert redactor.text(json.dumps({"x": PEM})) == '{"x": "[redacted:known]"}'


def test_overlapping_known_secrets_leave_nothing() -> None:
    redactor = Redactor(["abcdefgh", "efghijkl", "abcdefghijkl"])
    for text in ("abcdefghijkl", "abcdefghxx", "xxefghijkl"):
        shown = redactor.text(text)
        assert "efgh" not in shown


@pytest.mark.parametrize("value", ["", "abc", "password", "aaaaaaaaaa", "  ", "localhost"])
def test_short_and_common_values_are_not_taken_for_secrets(value: str) -> None:
    text = f"abc password localhost aaaaaaaaaaaa {value}"
    assert Redactor([value]).text(text) == text


def test_secrets_of_the_environment_are_those_with_telling_names() -> None:
    env = {
        "OPENAI_API_KEY": "k" * 3 + "123456",
        "GH_TOKEN": "t0k3n-value",
        "db_password": "hunter22",
        "DATABASE_DSN": "postgres://u:p@h",
        "PATH": "/usr/bin",
        "PWD": "/home/u",
        "SSH_KEY": "/home/u/.ssh/id_rsa",
        "MAX_TOKENS": "1000",
        "TOKENIZERS_PARALLELISM": "false",
        "KEYBOARD": "german-keyboard",
    }
    assert set(known_secrets(env)) == {"kkk123456", "t0k3n-value", "hunter22", "postgres://u:p@h"}


# ---------------------------------------------------------------- JSON


def test_R65_odd_field_names_and_nesting() -> None:
    value = {
        "authorization": "x1",
        "x-api-key": "x2",
        "X_API_KEY": "x2b",
        "nested": {"password": "x3", "list": [{"clientSecret": "x4"}, {"accessToken": ["x5", {"a": "x6"}]}]},
        "Set-Cookie": "x7",
        "proxy-authorization": "x8",
        "refresh_token": "x9",
        "privateKey": "x10",
        "credentials": {"user": "x11", "n": 12345},
        "pin": 1234,
        "headers": [["Authorization", "x12"], {"name": "X-Auth-Token", "value": "x13"}],
        "argv": ["curl", "--token", "x14", "-H", "X-Api-Key: x15abc99"],
        "text": '{"password": "x16abc"}',
    }
    text = json.dumps(knowing.json(value))
    assert not [n for n in range(1, 17) if f"x{n}" in text]
    assert "1234" not in text


def test_what_is_no_secret_survives_in_json() -> None:
    value = {
        "max_tokens": 5,
        "total_tokens": 17,
        "next_token": "abc",
        "token_type": "bearer",
        "has_password": True,
        "password": None,
        "token": "",
        "key": "value",
        "primary_key": "id",
        "public_key": "AAAA",
        "properties": {"password": {"type": "string", "description": "the password"}, "token": True},
        "ids": [1, 2.5, None, "da39a3ee5e6b4b0d3255bfef95601890afd80709"],
    }
    assert plain.json(value) == value


def test_secrets_in_keys_are_removed_and_no_entry_is_lost() -> None:
    shown = knowing.json({KNOWN: 1, f"{KNOWN}{KNOWN}": 2, "a": 3})
    assert len(shown) == 3
    assert KNOWN not in json.dumps(shown)


def test_redacting_twice_changes_nothing_more() -> None:
    value = {"password": "abc", "t": f"{TOKENS['github']} {KNOWN} password=hunter22", "credentials": {"a": "b"}}
    once = knowing.json(value)
    assert knowing.json(once) == once


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("password", "password"),
        ("userPassword", "password"),
        ("PGPASSWORD", "password"),
        ("X-Api-Key", "key"),
        ("apikey", "key"),
        ("aws_secret_access_key", "key"),
        ("Authorization", "authorization"),
        ("reset_token", "token"),
        ("token_count", ""),
        ("tokens", ""),
        ("max_tokens", ""),
        ("nextToken", ""),
        ("key", ""),
        ("monkey", ""),
        ("compass", ""),
        ("secretary", ""),
        ("author", ""),
        ("", ""),
        ("日本語", ""),
    ],
)
def test_names_of_fields(name: str, kind: str) -> None:
    assert field_kind(name) == kind


# ---------------------------------------------------------------- private keys and streams


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_private_keys_are_removed_whole(kind: str) -> None:
    key = PEM.replace("PRIVATE", f"{kind}PRIVATE")
    assert plain.text(f"a\n{key}\nb") == "a\n[redacted:private-key]\nb"
    assert plain.text(json.dumps({"k": key})) == '{"k": "[redacted:private-key]"}'
    diff = "\n".join(f"+{line}" for line in key.splitlines())
    assert "MIIE" not in plain.text(diff)


def test_a_cut_private_key_is_removed_as_far_as_it_goes() -> None:
    lines = PEM.splitlines()
    assert "MIIE" not in plain.text("\n".join(["x", *lines[:-1]]))
    assert "MIIE" not in plain.text("\n".join([*lines[1:], "x"]))
    assert plain.text("\n".join(["x", *lines[:3], "", "done"])).endswith("done")


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_stream_shows_what_the_whole_text_would(size: int) -> None:
    text = f"start\npassword=hunter22\n{PEM}\nkey {TOKENS['github']} {KNOWN}\nend without newline {KNOWN}"
    stream = knowing.stream()
    pieces = [stream.feed(text[i : i + size]) for i in range(0, len(text), size)]
    assert "".join(pieces) + stream.close() == knowing.text(text)


def test_a_stream_lets_whole_lines_through_at_once_and_holds_the_rest() -> None:
    stream = plain.stream()
    assert stream.feed("one\ntwo") == "one\n"
    assert stream.feed(" three\n") == "two three\n"
    assert stream.feed(PEM.splitlines()[0] + "\n") == ""
    assert stream.close() != ""


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize(
    "piece",
    [
        "token ",
        "password=",
        '"token":"',
        'password="\\"',
        "eyJ",
        "sk-",
        "AKIA",
        "ghp_",
        "://a:",
        "://",
        "SG.a",
        "-----BEGIN RSA " + "PRIVATE KEY-----\n",
        "-----END RSA " + "PRIVATE KEY-----\n",
        "Bearer ",
        "authorization: ",
        "Cookie: a=",
        "a",
        "A1b2" * 8,
        "\\",
        "\n",
        "é",
        "İ token=",
        "1:AA",
        "https://x?token=",
    ],
)
@pytest.mark.timeout(30)  # a step that is not linear takes minutes here
def test_a_megabyte_of_anything_ends(piece: str) -> None:
    knowing.text(piece * (1_000_000 // len(piece)))


def test_an_ordinary_log_of_megabytes_comes_back_as_it_is() -> None:
    text = "2024-01-01T00:00:00Z INFO request GET /a/b?page=2 200 user=abc size=123 id=550e8400\n" * 25_000
    assert plain.text(text) == text


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_handled_and_a_known_secret_never_stays(text: str) -> None:
    shown = knowing.text(f"{text}{KNOWN}{text}")
    assert KNOWN not in shown
    json.dumps(knowing.json({text: text, "password": text}))


def test_positions_hold_when_lower_case_is_longer() -> None:
    assert plain.text("İİİİ password=hunter22 ok") == "İİİİ password=[redacted:password] ok"


def test_remembered_clean_texts_change_nothing_and_do_not_pile_up() -> None:
    redactor = Redactor(["hunter2-hunter2"])
    for number in range(10_000):
        assert redactor.text(f"plain text {number}") == f"plain text {number}"
        assert redactor.text("it is hunter2-hunter2") == "it is [redacted:known]"
    assert len(redactor._clean) <= 4096
    assert not any("hunter2" in text for text in redactor._clean)
