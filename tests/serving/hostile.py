"""Requests to throw at a sentiment endpoint, made from a seed: valid ones in every format, and hostile ones.

Each says what must come back. What TorchServe's own front end answers, before any code of ours, is in FRONT_END.
"""

from __future__ import annotations

import codecs
import contextlib
import http.client
import json
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

JSON, LINES, TEXT = "application/json", "application/jsonlines", "text/plain"
MAX_TEXTS = 32  # what the tests' server is started with
Header = tuple[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request. `statuses`: what may come back; `labels`: with 200, the best label of each text, in order."""

    name: str
    body: bytes
    headers: Sequence[Header]
    statuses: frozenset[int]
    labels: list[str] = field(default_factory=list)
    top_k: int | None = None
    answer: str = JSON
    pieces: int = 0
    """The body goes in this many chunks; 0: whole, with its length."""


@dataclass(frozen=True)
class Reply:
    """What came back over HTTP; status 0: the connection ended without an answer."""

    status: int
    kind: str
    body: bytes


def kind_of(value: str | bytes, name: bytes = b"Content-Type") -> Header:
    return name, value.encode() if isinstance(value, str) else value


def send(url: str, case: Case) -> Reply:
    """One request on a connection of its own."""
    if case.pieces:
        size = max(1, -(-len(case.body) // case.pieces))
        parts = [case.body[at : at + size] for at in range(0, len(case.body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        length: Header = (b"Transfer-Encoding", b"chunked")
    else:
        body, length = case.body, (b"Content-Length", b"%d" % len(case.body))
    lines = [b"%s: %s\r\n" % header for header in [(b"Host", b"endpoint"), *case.headers, length]]
    return send_raw(url, b"POST /invocations HTTP/1.1\r\n%s\r\n%s" % (b"".join(lines), body))


def send_raw(url: str, request: bytes, *, timeout: float = 30) -> Reply:
    """Bytes as they are; a server that hangs up while we still send may have answered all the same."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=timeout) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
            return Reply(response.status, response.headers.get("Content-Type", ""), response.read())
        except (ConnectionError, http.client.HTTPException):
            return Reply(0, "", b"")


class Requests:
    """A seeded source of requests. `known`: text → its best label by the model that is served."""

    def __init__(self, known: dict[str, str], *, seed: int) -> None:
        self.known = known
        self.chance = random.Random(seed)
        self.hostile: list[Callable[[], Case]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.startswith("hostile_")
        ]

    def make(self, count: int) -> list[Case]:
        """Half valid, half hostile, every kind of hostile request among them, in random order."""
        hostile = [self.hostile[number % len(self.hostile)]() for number in range(count // 2)]
        cases = [*hostile, *(self.valid() for _ in range(count - len(hostile)))]
        self.chance.shuffle(cases)
        return cases

    def valid(self) -> Case:
        kind = self.chance.choice([JSON, JSON, LINES, TEXT])
        texts = self.chance.choices(list(self.known), k=1 if kind == TEXT else self.chance.randint(1, MAX_TEXTS))
        top_k = self.chance.choice([None, 1, 2, 99]) if kind == JSON else None
        if kind == JSON:
            document: dict[str, object] = {"inputs": texts if len(texts) > 1 else texts[0]}
            if top_k:
                document["parameters"] = {"top_k": top_k}
            body = json.dumps(document, ensure_ascii=self.chance.random() < 0.5)
        elif kind == LINES:
            body = "\n".join(json.dumps(self.chance.choice([text, {"inputs": text}])) for text in texts)
            body += self.chance.choice(["", "\n"])
        else:
            body = texts[0]
        accept = self.chance.choice([None, "*/*", JSON, LINES, f"{LINES};q=0.5, {JSON}"])
        headers = [kind_of(kind + self.chance.choice(["", "; charset=utf-8"]), self.any_case(b"Content-Type"))]
        headers += [(self.any_case(b"Accept"), accept.encode())] if accept else []
        headers += self.chance.choice([[], [], [(b"Content-Type-Options", b"text/csv")], [(b"X-Odd", b"\xff\xc3")]])
        self.chance.shuffle(headers)
        own = LINES if kind == LINES else JSON
        return Case(
            name="valid", body=body.encode(), headers=headers, statuses=frozenset({200}),
            labels=[self.known[text] for text in texts], top_k=top_k,
            answer={None: own, "*/*": own, LINES: LINES}.get(accept, JSON), pieces=self.chance.choice([0, 0, 0, 1, 7]),
        )  # fmt: skip

    def any_case(self, name: bytes) -> bytes:
        return self.chance.choice([name, name.lower(), name.upper()])

    def refused(
        self, name: str, body: bytes, *statuses: int, kind: str | bytes = JSON, more: Sequence[Header] = ()
    ) -> Case:
        return Case(
            name=name, body=body, headers=[kind_of(kind), *more], statuses=frozenset(statuses or {400}),
            labels=[], pieces=self.chance.choice([0, 0, 3]),
        )  # fmt: skip

    def document(self) -> bytes:
        return json.dumps({"inputs": self.chance.choices(list(self.known), k=3)}).encode()

    def junk(self, size: int) -> bytes:
        return self.chance.randbytes(size)

    # Bodies.

    def hostile_truncated(self) -> Case:
        whole = self.document()
        return self.refused("truncated", whole[: self.chance.randint(1, len(whole) - 1)])

    def hostile_mutated(self) -> Case:
        """Valid but for some bytes: what it is now is for the server to say, politely."""
        body = bytearray(self.document())
        for _ in range(self.chance.randint(1, 4)):
            body[self.chance.randrange(len(body))] = self.chance.randrange(256)
        kind = self.chance.choice([JSON, LINES, TEXT])
        return self.refused("mutated", bytes(body), 200, 400, kind=kind)

    def hostile_deep(self) -> Case:
        depth = self.chance.choice([1_000, 100_000, 300_000])
        opening = self.chance.choice([b"[", b'{"inputs":', b'{"inputs": ['])
        return self.refused("deep", (opening * depth)[:999_999], kind=self.chance.choice([JSON, LINES]))

    def hostile_type(self) -> Case:
        value: object = self.chance.choice([None, 1, 1.5, True, {}, {"a": 1}, [[]], [None], ["good", 3], []])
        return self.refused("type", json.dumps({"inputs": value}).encode())

    def hostile_root(self) -> Case:
        return self.refused("root", self.chance.choice([b"null", b"1", b'"good"', b'["good"]', b"true", b"-0", b"{}"]))

    def hostile_parameter(self) -> Case:
        value = self.chance.choice(
            ["0", "-1", "1.5", "true", '"1"', "[1]", "NaN", "1e999", "9" * 5_000, '{"a": 1}', "-Infinity"]
        )
        return self.refused("parameter", b'{"inputs": "good", "parameters": {"top_k": %s}}' % value.encode())

    def hostile_constant(self) -> Case:
        value = self.chance.choice([b"NaN", b"Infinity", b"-Infinity", b"1e999999", b"9" * 100_000, b"0x10"])
        return self.refused("constant", b'{"inputs": %s}' % value)

    def hostile_twice(self) -> Case:
        return self.refused("twice", b'{"inputs": "good", "inputs": "bad"}', kind=self.chance.choice([JSON, LINES]))

    def hostile_field(self) -> Case:
        name = self.chance.choice(["x", "__class__", "\u0000", "inputs ", "\ud800", "a" * 10_000, "\U0001f600\n"])
        return self.refused("field", json.dumps({"inputs": "good", name: 1}).encode())

    def hostile_utf8(self) -> Case:
        broken = self.chance.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf8\x88\x80\x80\x80"])
        kind = self.chance.choice([JSON, LINES, TEXT])
        return self.refused("utf8", b'{"inputs": "good %s"}' % broken, kind=kind)

    def hostile_surrogate(self) -> Case:
        half = self.chance.choice([b"\\ud800", b"\\udfff", b"\\udc00\\ud800", b"a\\ud83d"])
        return self.refused("surrogate", b'{"inputs": "%s"}' % half, kind=self.chance.choice([JSON, LINES]))

    def hostile_nul(self) -> Case:
        return self.refused("nul", self.chance.choice([b'{"inputs": "a\x00b"}', b"\x00" * 100, b'\x00{"inputs": "a"}']))

    def hostile_bom(self) -> Case:
        mark = self.chance.choice([codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE])
        return self.refused("bom", mark + self.document(), kind=self.chance.choice([JSON, LINES]))

    def hostile_utf16(self) -> Case:
        return self.refused("utf16", '{"inputs": "good"}'.encode("utf-16"), kind=JSON)

    def hostile_binary(self) -> Case:
        return self.refused("binary", b"\x80" + self.junk(self.chance.randint(1, 20_000)), kind=self.any_kind())

    def any_kind(self) -> str:
        return self.chance.choice([JSON, LINES, TEXT])

    def hostile_empty(self) -> Case:
        body = self.chance.choice([b"", b" ", b"\n", b"\r\n\t "])
        return self.refused("empty", body, kind=self.any_kind())

    def hostile_empty_text(self) -> Case:
        body = self.chance.choice([b'{"inputs": ""}', b'{"inputs": " \\n"}', b'{"inputs": ["good", "\\u2003"]}'])
        return self.refused("empty text", body)

    def hostile_lines(self) -> Case:
        body = self.chance.choice(
            [b'"a"\n\n"b"', b'"a"\nb', b'"a" "b"', b"[]", b'{"inputs": "a", "top_k": 1}', b"1\n2"]
        )
        return self.refused("lines", body, kind=LINES)

    # Sizes.

    def hostile_many(self) -> Case:
        count = self.chance.choice([MAX_TEXTS + 1, 1_000, 100_000])
        if self.chance.random() < 0.5:
            return self.refused("many", json.dumps({"inputs": ["a"] * count}).encode(), 413)
        return self.refused("many", b'"a"\n' * count, 413, kind=LINES)

    def hostile_long(self) -> Case:
        text = self.chance.choice(["a", "\u00e9", "\U0001f600", "good "]) * 10_001
        kind = self.any_kind()
        body = text if kind == TEXT else json.dumps({"inputs": text}, ensure_ascii=False)
        return self.refused("long", body.encode(), 413, kind=kind)

    def hostile_longest(self) -> Case:
        """At the limit: valid, and the most work that a request can be."""
        text = self.chance.choice(["good ", "bad! ", "\u4f60\u597d\u4e16\u754c ", "?" * 4 + " "]) * 2_000
        return self.refused("longest", json.dumps({"inputs": [text] * self.chance.choice([1, 2])}).encode(), 200)

    def hostile_big(self) -> Case:
        size = self.chance.choice([1_000_001, 1_200_000, 3_000_000])
        return self.refused("big", b" " * size, 413, kind=self.any_kind())

    def hostile_limit(self) -> Case:
        return self.refused("limit", b"x" * 1_000_000, 400, 413, kind=self.any_kind())

    # Headers.

    def hostile_kind(self) -> Case:
        kind = self.chance.choice(
            [
                b"text/csv", b"application/x-npy", b"application/octet-stream", b"application/xml", b"", b"/", b";",
                b"application/json, text/plain", b"application/jsonx", b"application/json\xff", b"\xff\xfe",
                b"a" * 5_000, b"application/json; charset=latin-1", b"text/plain; charset=\xc3\xa9",
                b"application/json; charset=", b"multipart/form-data", b"${jndi:ldap://127.0.0.1:1/a}",
                b"application/json\t; charset=utf-16",
            ]
        )  # fmt: skip
        return self.refused("kind", b'{"inputs": "good"}', 415, kind=kind)

    def hostile_form(self) -> Case:
        form = (
            b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\ngood\r\n--x--\r\n'
            % self.chance.choice([b"body", b"Content-Type", b"Accept", b"inputs"])
        )  # fmt: skip
        if self.chance.random() < 0.5:
            return self.refused("form", form, 415, kind="multipart/form-data; boundary=x")
        return self.refused("form", b"body=good&Content-Type=x", 415, kind="application/x-www-form-urlencoded")

    def hostile_no_kind(self) -> Case:
        headers = self.chance.choice([[], [kind_of(JSON, b"Content-Type-Options")], [kind_of(JSON, b"ContentType")]])
        return Case(name="no kind", body=b'{"inputs": "good"}', headers=headers, statuses=frozenset({415}))

    def hostile_two_kinds(self) -> Case:
        """Which of the two counts is TorchServe's choice; what comes back is not."""
        more = [kind_of("text/csv", self.any_case(b"Content-Type"))]
        return self.refused("two kinds", b'{"inputs": "good"}', 200, 415, more=more)

    def hostile_accept(self) -> Case:
        accept = self.chance.choice(
            [
                b"text/csv",
                b"application/json;q=0",
                b"\xff\xff",
                b"a" * 5_000,
                b"*/*;q=0",
                b";;;,,,",
                b"*/*;q=nan",
                b"q=1",
            ]
        )
        return self.refused("accept", b'{"inputs": "good"}', 406, more=[(self.any_case(b"Accept"), accept)])


def raw(*lines: bytes, body: bytes = b'{"inputs": "good"}', length: bytes | None = None) -> bytes:
    """A POST of JSON with further header lines."""
    own = [b"Host: endpoint", b"Content-Length: %s" % (length or b"%d" % len(body))]
    return b"\r\n".join([b"POST /invocations HTTP/1.1", *own, *lines, b"", body])


INVALID = b'{\n  "code": 400,\n  "type": "BadRequestException",\n  "message": "Invalid HTTP message."\n}\n'
KIND = b"Content-Type: application/json"
FRONT_END: dict[str, tuple[bytes, int, bytes]] = {
    "header name beyond ASCII": (raw(KIND, b"X-\xff: a"), 400, INVALID),
    "NUL in a header": (raw(KIND, b"X-A: a\x00b"), 400, INVALID),
    "header without a colon": (raw(KIND, b"nonsense"), 400, INVALID),
    "headers beyond 8 KiB": (raw(KIND, b"X-A: " + b"a" * 20_000), 400, INVALID),
    "length that is no number": (raw(KIND, length=b"abc"), 400, INVALID),
    "expectation": (raw(KIND, b"Expect: miracle"), 417, b""),
    # 6,553,500 bytes is TorchServe's limit; SageMaker takes no more than 6,291,456 (BodyBlob in its API model).
    "body that SageMaker lets nobody send": (raw(KIND, body=b" " * 6_553_501), 413, b""),
    "multipart without a name": (
        raw(b"Content-Type: multipart/form-data; boundary=x", body=b"--x\r\n\r\n"), 500, b"ErrorDataDecoderException",
    ),
    "form that cannot be decoded": (
        raw(b"Content-Type: application/x-www-form-urlencoded", body=b"body=%zz"), 500, b"ErrorDataDecoderException",
    ),
}  # fmt: skip
"""Name → (request, status, what the body holds; b"": it is empty). Nothing configures any of these away."""
