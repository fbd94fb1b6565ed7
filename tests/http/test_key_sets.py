"""Key sets: read from a file or a URL, kept, read again when keys change, and used on when they cannot be read."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from assent.http.auth.key_sets import KEY_SET_BYTES_MAX, KeySet, keys_of
from assent.http.settings import HttpSettings
from assent.model.mutation import Rejection
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SECRET, bearer, claims, client_of, problem
from tests.http.doors import create_app

OLD = rsa.generate_private_key(public_exponent=65537, key_size=2048)
NEW = ec.generate_private_key(ec.SECP256R1())


def entry(key, kid, **more):
    kinds = (jwt.algorithms.RSAAlgorithm, jwt.algorithms.ECAlgorithm)
    algorithm = kinds[0] if isinstance(key, rsa.RSAPrivateKey) else kinds[1]
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, **more}


def key_set(*entries) -> bytes:
    return json.dumps({"keys": list(entries)}).encode()


def key_set_at(place, clock) -> KeySet:
    return KeySet(str(place), clock, keep=timedelta(minutes=10), retry=timedelta(seconds=30))


def door_with(database, place):
    return create_app(app, database, HttpSettings(jwks=str(place), jwt_issuer=ISSUER, jwt_audience=AUDIENCE))


def signed(clock, key, kid, algorithm="RS256"):
    return jwt.encode(claims(clock.now(), "alice"), key, algorithm=algorithm, headers={"kid": kid})


async def status(door, text) -> int:
    async with client_of(door, bearer(text)) as client:
        return (await client.get("/api/instances")).status_code


async def test_keys_change_and_nobody_restarts_the_server(furnished, clock, tmp_path):
    place = tmp_path / "keys.json"
    place.write_bytes(key_set(entry(OLD, "old")))
    door = door_with(furnished, place)
    assert await status(door, signed(clock, OLD, "old")) == 200
    assert await status(door, signed(clock, NEW, "new", "ES256")) == 401
    place.write_bytes(key_set(entry(OLD, "old"), entry(NEW, "new")))
    clock.advance("30s")
    assert await status(door, signed(clock, NEW, "new", "ES256")) == 200
    place.write_bytes(key_set(entry(NEW, "new")))
    assert await status(door, signed(clock, OLD, "old")) == 200  # until the set is read again
    clock.advance("10m")
    assert await status(door, signed(clock, OLD, "old")) == 401


async def test_the_key_says_which_algorithm_it_is_for(furnished, clock, tmp_path):
    place = tmp_path / "keys.json"
    place.write_bytes(key_set(entry(OLD, "old", alg="RS256")))
    door = door_with(furnished, place)
    assert await status(door, signed(clock, OLD, "old", "RS512")) == 401
    assert await status(door, signed(clock, OLD, "old", "PS256")) == 401


async def test_a_secret_in_a_set_is_no_key(clock, tmp_path):
    text = jwt.utils.base64url_encode(SECRET.encode()).decode()
    assert keys_of(key_set({"kty": "oct", "k": text, "kid": "s"})) == {}


async def test_keys_for_other_uses_and_of_unknown_kinds_are_passed_over():
    others = [
        entry(OLD, "enc", use="enc"),
        {"kty": "alien", "kid": "x"},
        {"kty": "RSA", "kid": "y"},
        "text",
        7,
    ]
    assert set(keys_of(key_set(*others, entry(NEW, "new")))) == {"new", None}


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": {}}', b"no json"])
async def test_what_is_no_set_makes_the_keys_unavailable(clock, tmp_path, text):
    place = tmp_path / "keys.json"
    place.write_bytes(text)
    found = await key_set_at(place, clock).find("old")
    assert isinstance(found, Rejection)
    assert found.code == "KEYS_UNAVAILABLE"


async def test_without_any_key_the_server_says_so_and_blames_nobody(furnished, clock, tmp_path):
    door = door_with(furnished, tmp_path / "not there")
    async with client_of(door, bearer(signed(clock, OLD, "old"))) as client:
        assert problem(await client.get("/api/instances"), 503)["code"] == "KEYS_UNAVAILABLE"


class Issuer:
    """A small web server that hands out a key set, and counts how often."""

    def __init__(self) -> None:
        self.answer = b""
        self.asked = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def issuer():
    found = Issuer()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    async with server:
        yield found


def http_answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


async def test_a_set_at_a_url_is_kept_and_made_up_keys_do_not_ask_for_it_again(clock):
    async with issuer() as found:
        found.answer = http_answer(key_set(entry(OLD, "old")))
        keys = key_set_at(found.url, clock)
        results = await asyncio.gather(*(keys.find("old") for _ in range(20)))
        assert {key.algorithm for key in results} == {"RS256"}
        for number in range(20):
            assert isinstance(await keys.find(f"made-up-{number}"), Rejection)
        assert found.asked == 1
        clock.advance("30s")
        await keys.find("made-up")
        assert found.asked == 2


@pytest.mark.parametrize(
    "answer",
    [
        http_answer(b"", "500 Oops"),
        http_answer(b"x" * (KEY_SET_BYTES_MAX + 1)),
        http_answer(b"{}"),
        b"no http\r\n\r\n",
    ],
)
async def test_an_issuer_that_fails_does_not_sign_everybody_out(clock, answer):
    async with issuer() as found:
        found.answer = http_answer(key_set(entry(OLD, "old")))
        keys = key_set_at(found.url, clock)
        await keys.find("old")
        found.answer = answer
        clock.advance("10m")
        assert (await keys.find("old")).algorithm == "RS256"
        assert found.asked == 2


async def test_proxies_of_the_environment_are_not_asked_for_keys(clock, monkeypatch):
    async with issuer() as found, issuer() as proxy:
        found.answer = http_answer(key_set(entry(OLD, "old")))
        proxy.answer = http_answer(key_set(entry(NEW, "new")))
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert not isinstance(await key_set_at(found.url, clock).find("old"), Rejection)
        assert (found.asked, proxy.asked) == (1, 0)
