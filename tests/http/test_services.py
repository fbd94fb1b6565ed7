"""The services that steps may call, for those who write or publish definitions."""

import pytest

from tests.http.callers import problem


async def test_services_are_listed_with_their_operations_and_without_their_credentials(people):
    async with people("adam") as client:
        found = await client.get("/api/services")
    assert found.json() == {
        "items": [
            {
                "name": name,
                "base_url": f"https://{name}.example/v1",
                "operations": ["check"],
                "capability": f"service:{name}:use",
            }
            for name in ("register", "sanctions")
        ],
        "next": None,
    }
    assert "token-of" not in found.text


@pytest.mark.parametrize("user", ["alice", "olga", "max"])
async def test_services_are_for_those_who_work_on_definitions(people, user):
    async with people(user) as client:
        assert problem(await client.get("/api/services"), 403)["code"] == "POLICY_DENIED"
