"""Nobody gets in without a token or a key that holds, and everybody gets exactly the rights that are theirs."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from assent.http.settings import HttpSettings
from assent.people.api_keys import create_api_key, revoke_api_key
from assent.refusals import codes_of
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SECRET, SETTINGS, bearer, claims, client_of, problem, token
from tests.http.doors import create_app
from tests.world import OTHER_ORG, grant

LIST = "/api/instances"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def pem(key) -> str:
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, public).decode()


def part(value) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, default=str).encode()).decode().rstrip("=")


def signed_by_hand(header, payload, secret: str) -> str:
    """What a library refuses to make: a token signed with a public key as if it were a secret."""
    text = f"{part(header)}.{part(payload)}"
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


async def answer(door, text: str):
    async with client_of(door, bearer(text)) as client:
        return await client.get(LIST)


async def refused(door, text: str, status: int = 401) -> dict:
    found = await answer(door, text)
    body = problem(found, status)
    if status == 401:
        assert found.headers["www-authenticate"].startswith("Bearer ")
        assert body["code"] in codes_of(401)
    return body


async def test_nobody_without_credentials(door):
    async with client_of(door) as client:
        assert problem(await client.get(LIST), 401)["code"] == "NOT_SIGNED_IN"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YWxpY2U6", "bearer", "Token x"])
async def test_another_scheme_is_nobody(door, header):
    async with client_of(door, {"Authorization": header}) as client:
        assert problem(await client.get(LIST), 401)["code"] == "NOT_SIGNED_IN"


async def test_a_good_token_signs_in(door, clock):
    assert (await answer(door, token(clock.now(), "alice"))).json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"aud": "somebody-else"}, "TOKEN_REFUSED"),
        ({"aud": None}, "TOKEN_REFUSED"),
        ({"iss": "https://evil.example.com"}, "TOKEN_REFUSED"),
        ({"iss": None}, "TOKEN_REFUSED"),
        ({"exp": None}, "TOKEN_REFUSED"),
        ({"exp": "tomorrow"}, "TOKEN_REFUSED"),
        ({"exp": True}, "TOKEN_REFUSED"),
        ({"exp": 1e300}, "TOKEN_REFUSED"),
        ({"org_id": None}, "TOKEN_REFUSED"),
        ({"org_id": ""}, "TOKEN_REFUSED"),
        ({"org_id": "*"}, "TOKEN_REFUSED"),
        ({"org_id": ["acme"]}, "TOKEN_REFUSED"),
        ({"org_id": "acme\n"}, "TOKEN_REFUSED"),
        ({"sub": None}, "TOKEN_REFUSED"),
        ({"sub": ""}, "TOKEN_REFUSED"),
        ({"sub": "system"}, "TOKEN_REFUSED"),
        ({"sub": "al\u0000ice"}, "TOKEN_REFUSED"),
        ({"sub": 7}, "TOKEN_REFUSED"),
        ({"roles": {"admin": True}}, "TOKEN_REFUSED"),
        ({"roles": [7]}, "TOKEN_REFUSED"),
        ({"partition_id": 7}, "TOKEN_REFUSED"),
    ],
)
async def test_a_token_that_says_something_else_is_refused(door, clock, changed, code):
    payload = claims(clock.now(), "alice") | changed
    text = jwt.api_jws.encode(
        json.dumps(
            {k: v for k, v in payload.items() if v is not None}, default=lambda t: t.timestamp()
        ).encode(),
        SECRET,
        algorithm="HS256",
    )
    assert (await refused(door, text))["code"] == code


async def test_an_expired_token_is_refused_and_says_so(door, clock):
    text = token(clock.now(), "alice")
    clock.advance("1h")
    assert (await answer(door, text)).status_code == 200  # within the leeway
    clock.advance("30s")
    assert (await refused(door, text))["code"] == "TOKEN_EXPIRED"


async def test_a_token_of_tomorrow_is_refused(door, clock):
    text = token(clock.now(), "alice", nbf=clock.now() + timedelta(minutes=1))
    assert (await refused(door, text))["code"] == "TOKEN_NOT_YET_VALID"


async def test_a_token_without_a_signature_is_refused(door, clock):
    payload = {**claims(clock.now(), "alice"), "exp": (clock.now() + timedelta(hours=1)).timestamp()}
    for algorithm in ("none", "None", "NONE", ""):
        await refused(door, f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(payload)}.")
    text = token(clock.now(), "alice")
    await refused(door, text.rpartition(".")[0] + ".")


async def test_a_changed_token_is_refused(door, clock):
    head, body, signature = token(clock.now(), "alice").split(".")
    other = token(clock.now(), "bob").split(".")[1]
    await refused(door, f"{head}.{other}.{signature}")
    await refused(door, f"{head}.{body}.{signature[:-4]}AAAA")


@pytest.mark.parametrize(
    "kid", ["../../dev/null", "' OR 1=1 --", "\x00", "", 7, None, ["a"], {"a": 1}, "k" * 5_000]
)
async def test_the_name_of_a_key_opens_nothing(door, clock, kid):
    """Whatever the header says of its key, it is the server's own that the signature is held against."""
    payload = {**claims(clock.now(), "alice"), "exp": (clock.now() + timedelta(hours=1)).timestamp()}
    for header in (
        {"alg": "HS256", "kid": kid},
        {"alg": "HS256", "kid": kid, "jwk": {"kty": "oct", "k": "AA"}},
    ):
        await refused(door, signed_by_hand(header, payload, ""))


async def test_claims_that_are_said_twice_sign_in_nobody_else(door, clock):
    """Of two the last counts, signed like everything else: whoever adds one breaks the signature."""
    head, body, signature = token(clock.now(), "alice").split(".")
    text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    twice = base64.urlsafe_b64encode((text[:-1] + ',"sub":"adam"}').encode()).decode().rstrip("=")
    await refused(door, f"{head}.{twice}.{signature}")


@pytest.mark.parametrize("text", ["x", "a.b", "a.b.c", "...", "é.é.é", "ey" + "A" * 5000])
async def test_what_is_no_token_is_refused(door, text):
    async with client_of(door) as client:
        headers = [(b"authorization", b"Bearer " + text.encode())]
        problem(await client.get(LIST, headers=headers), 401)


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", RSA), ("ES256", EC)])
async def test_a_public_key_is_no_secret(furnished, clock, algorithm, key):
    """Key confusion: whoever knows the public key signs with it as with a secret."""
    public = pem(key)
    settings = HttpSettings(jwt_key=public, jwt_algorithm=algorithm, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
    door = create_app(app, furnished, settings)
    good = jwt.encode(claims(clock.now(), "alice"), key, algorithm=algorithm)
    assert (await answer(door, good)).status_code == 200
    payload = {**claims(clock.now(), "alice"), "exp": (clock.now() + timedelta(hours=1)).timestamp()}
    await refused(door, signed_by_hand({"alg": "HS256", "typ": "JWT"}, payload, public))
    await refused(door, signed_by_hand({"alg": algorithm, "typ": "JWT"}, payload, public))
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    await refused(door, jwt.encode(claims(clock.now(), "alice"), stranger, algorithm="RS256"))


async def test_another_algorithm_of_the_same_family_is_refused(door, clock):
    text = jwt.encode(claims(clock.now(), "alice"), SECRET * 2, algorithm="HS512")
    await refused(door, text)


async def test_whoever_is_no_member_is_not_let_in(door, clock):
    assert (await refused(door, token(clock.now(), "mallory"), 403))["code"] == "NOT_A_MEMBER"
    assert (await refused(door, token(clock.now(), "alice", "initech"), 403))["code"] == "NOT_A_MEMBER"


async def test_a_role_lends_nothing_that_a_role_of_its_name_carries_in_another_org(door, furnished, clock):
    """Sign-in reads as the owner, whom row security lets see every org."""
    async with furnished.transaction(None) as connection:
        await grant(connection, {"clerk": ["audit:read"]}, OTHER_ORG)
        await connection.execute(
            "UPDATE assent.members SET roles = '{admin}', active = false WHERE org_id = $1 AND user_id = 'alice'",
            OTHER_ORG,
        )
    async with client_of(door, bearer(token(clock.now(), "alice"))) as client:
        assert (await client.get(LIST)).status_code == 200
        assert problem(await client.get("/api/audit"), 403)["code"] == "POLICY_DENIED"


async def test_whoever_leaves_is_out_at_once_whatever_their_token_says(furnished, clock):
    for roles_from in ("members", "token", "both"):
        door = create_app(app, furnished, _with(roles_from=roles_from))
        assert (await answer(door, token(clock.now(), "alice"))).status_code == 200
    await _set_active(furnished, "alice", active=False)
    for roles_from in ("members", "token", "both"):
        door = create_app(app, furnished, _with(roles_from=roles_from))
        assert (await refused(door, token(clock.now(), "alice"), 403))["code"] == "NOT_A_MEMBER"


EXPENSE = {"data": {"title": "Taxi", "total": 1000}}


@pytest.mark.parametrize(
    ("roles_from", "who", "status"),
    [
        ("members", {"user": "alice"}, 201),
        ("members", {"user": "bob", "roles": ["clerk"]}, 403),  # a token's word does not count
        ("token", {"user": "bob", "roles": ["clerk"]}, 201),
        ("token", {"user": "alice"}, 403),  # the member's roles do not count
        ("token", {"user": "stranger", "roles": ["clerk"]}, 201),
        ("both", {"user": "alice"}, 201),
        ("both", {"user": "bob", "roles": ["clerk"]}, 201),
        ("both", {"user": "stranger"}, 403),
    ],
)
async def test_roles_come_from_where_the_settings_say(furnished, clock, roles_from, who, status):
    door = create_app(app, furnished, _with(roles_from=roles_from))
    async with client_of(door, bearer(token(clock.now(), **who))) as client:
        assert (await client.post("/api/entities/expense", json=EXPENSE)).status_code == status


@pytest.mark.parametrize(
    ("roles_from", "who", "status"),
    [
        ("token", {"user": "bob", "roles": ["admin"]}, 200),
        ("token", {"user": "adam"}, 403),
        ("both", {"user": "stranger", "roles": ["admin"]}, 200),
        ("both", {"user": "adam"}, 200),
        ("members", {"user": "bob", "roles": ["admin"]}, 403),
    ],
)
async def test_rights_under_the_lock_of_grants_come_from_where_the_settings_say(
    furnished, clock, roles_from, who, status
):
    door = create_app(app, furnished, _with(roles_from=roles_from))
    async with client_of(door, bearer(token(clock.now(), **who))) as client:
        put = await client.put("/api/roles/reader", json={"capabilities": ["audit:read"]})
    assert put.status_code == status


async def test_claims_are_found_by_name_and_by_path(furnished, clock):
    settings = _with(claim_org="https://id.example.com/org", claim_roles="realm.roles", roles_from="token")
    door = create_app(app, furnished, settings)
    more = {"org_id": None, "https://id.example.com/org": "acme", "realm": {"roles": ["clerk"]}}
    async with client_of(door, bearer(token(clock.now(), "stranger", **more))) as client:
        assert (await client.post("/api/entities/expense", json=EXPENSE)).status_code == 201


async def test_a_server_without_a_key_takes_no_token(furnished, clock):
    door = create_app(app, furnished, HttpSettings())
    assert (await refused(door, token(clock.now(), "alice")))["code"] == "TOKEN_REFUSED"


def _with(**changes):
    return HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, **changes)


async def _set_active(database, user, *, active):
    async with database.transaction("acme") as connection:
        await connection.execute(
            "UPDATE assent.members SET active = $2 WHERE org_id = 'acme' AND user_id = $1", user, active
        )


async def _key(database, clock, user="robot", org="acme", **more) -> tuple[str, Any]:
    async with database.transaction(org) as connection:
        return await create_api_key(connection, org, user, "test", clock.now(), **more)


async def test_an_api_key_signs_its_member_in(furnished, door, clock):
    text, made = await _key(furnished, clock)
    async with client_of(door, bearer(text)) as client:
        created = await client.post("/api/entities/expense", json=EXPENSE)
        audit = (await client.get(created.headers["location"] + "/audit")).json()["items"]
    assert (audit[0]["actor_id"], audit[0]["actor_kind"]) == ("robot", "service_account")
    assert text.startswith(made.prefix)
    async with furnished.transaction(None) as connection:
        kept = await connection.fetchrow("SELECT * FROM assent.api_keys WHERE org_id = 'acme'")
    assert text not in str(dict(kept))
    assert kept["key_hash"] == hashlib.sha256(text.encode()).hexdigest()


async def test_a_key_has_the_capabilities_of_its_own_org_only(furnished, door, clock):
    """Two orgs with the same people and roles; only the other one lets its clerks read the audit log."""
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('globex', 'clerk', 'audit:read')"
        )
    for org, status in (("acme", 403), ("globex", 200)):
        text, _ = await _key(furnished, clock, "alice", org)
        async with client_of(door, bearer(text)) as client:
            assert (await client.get("/api/audit")).status_code == status


@pytest.mark.parametrize(
    "user",
    ["system", "System", "*", "alice ", "al ice", "alice\u200b", "\uff41lice", "\u202ealice", "a" * 201, 7],
)
async def test_a_token_of_a_user_whose_id_is_not_in_its_one_spelling_is_refused(furnished, clock, user):
    for roles_from in ("members", "token", "both"):
        door = create_app(app, furnished, _with(roles_from=roles_from))
        found = await refused(door, token(clock.now(), user, roles=["clerk"]))
        assert found["code"] == "TOKEN_REFUSED"


async def test_a_revoked_key_is_refused_at_once(furnished, door, clock):
    text, made = await _key(furnished, clock)
    assert (await answer(door, text)).status_code == 200
    async with furnished.transaction("acme") as connection:
        await revoke_api_key(connection, "acme", made.id, clock.now())
    assert (await refused(door, text))["code"] == "API_KEY_REFUSED"


async def test_an_expired_key_is_refused(furnished, door, clock):
    text, _ = await _key(furnished, clock, expires_at=clock.now() + timedelta(days=1))
    assert (await answer(door, text)).status_code == 200
    clock.advance("1d")
    assert (await refused(door, text))["code"] == "API_KEY_REFUSED"


async def test_an_unknown_key_is_refused(door):
    assert (await refused(door, "ak_" + "x" * 43))["code"] == "API_KEY_REFUSED"


async def test_the_key_of_a_member_who_left_is_refused(furnished, door, clock):
    text, _ = await _key(furnished, clock)
    await _set_active(furnished, "robot", active=False)
    assert (await refused(door, text, 403))["code"] == "NOT_A_MEMBER"


async def test_a_key_does_only_what_its_scopes_say(furnished, door, clock):
    text, _ = await _key(furnished, clock, scopes=("entities:*", "workflows:read"))
    async with client_of(door, bearer(text)) as client:
        assert (await client.post("/api/entities/expense", json=EXPENSE)).status_code == 201
        assert (await client.get(LIST)).status_code == 200
        refusals = [
            await client.post("/api/flows/survey/start", json={}),
            await client.get(f"/api/approvals/{uuid4()}"),
            await client.post("/api/events/paid", json={}),
        ]
    assert [problem(found, 403)["code"] for found in refusals] == ["SCOPE_MISSING"] * 3


async def test_scopes_do_not_widen_what_a_member_may_do(furnished, door, clock):
    text, _ = await _key(furnished, clock, user="bob", scopes=("*",))
    async with client_of(door, bearer(text)) as client:
        found = await client.post("/api/entities/expense", json=EXPENSE)
    assert problem(found, 403)["code"] == "POLICY_DENIED"


@pytest.mark.parametrize(
    "changes",
    [
        {"jwt_key": "short"},
        {"jwt_key": pem(RSA)},
        {"jwt_key": SECRET, "jwt_algorithm": "RS256"},
        {"jwt_audience": None},
        {"jwt_issuer": None},
        {"jwks": "keys.json"},
    ],
)
def test_settings_that_would_let_others_in_are_refused(changes):
    good = {"jwt_key": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    assert HttpSettings(**good) == SETTINGS
    with pytest.raises(Exception, match="BAD_SETTING"):
        HttpSettings(**good | changes)
