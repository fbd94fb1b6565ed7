"""On whose behalf a token moves: who is first, who is last, and who has no rights."""

from collections.abc import Collection

import pytest

from assent.engine.instance import Originators, Token
from assent.model.actor import NO_AUTHORITY, SYSTEM, Actor, Authority, Principal


def authority(*ids: str) -> Authority:
    first, *others = ids
    return Authority((Principal(first),)).joined_by(Principal(one) for one in others)


def test_requester_stays_first_and_the_last_who_acted_is_last() -> None:
    found = authority("bob", "olga", "fin", "olga")
    assert (found.requester.id, found.principal.id) == ("bob", "olga")
    assert found.ids == ("bob", "fin", "olga")


def test_requester_who_acts_again_is_first_and_last() -> None:
    found = authority("bob", "olga", "bob")
    assert (found.requester.id, found.principal.id, found.ids) == ("bob", "bob", ("olga", "bob"))
    assert authority("bob", "olga", "bob", "olga") == authority("bob", "olga")


def test_authority_is_read_as_it_was_written() -> None:
    bot = Actor("bot", "service_account", frozenset({"clerk"}), maker_id="dual")
    found = Authority.of(bot, "submit").joined_by([Principal("ann")])
    assert Authority.from_json(found.to_json()) == found
    assert found.people == ("bot", "dual", "ann")


def test_token_that_nobody_sent_has_no_rights() -> None:
    token = Token("0", "review", 1)
    assert token.authority == NO_AUTHORITY
    actor = token.authority.principal.without_rights()
    assert (actor.capabilities, actor.roles, actor.kind) == (frozenset(), frozenset(), "user")


@pytest.mark.parametrize(
    ("id", "kind"), [("system", "user"), ("system", "service_account"), ("ann", "system")]
)
def test_nobody_but_the_system_has_its_id(id: str, kind: str) -> None:
    with pytest.raises(ValueError, match="the id of the system alone"):
        Actor(id, kind)  # type: ignore[arg-type]


def test_system_is_no_originator() -> None:
    originators = Originators()
    originators.add([SYSTEM.id, "ann", "ann"])
    assert originators.ids == ("ann",)


def test_originators_begin_again_only_after_an_approval_was_consumed() -> None:
    originators = Originators(("ann",))
    originators.begin_again_if_approved()
    assert originators.ids == ("ann",)
    originators.approved = True
    originators.begin_again_if_approved()
    assert (originators.ids, originators.approved) == ((), False)


@pytest.mark.parametrize(
    "names", [["clerk"], ("clerk",), {"clerk"}, frozenset({"clerk"}), {"clerk": 1}.keys()]
)
def test_actor_takes_any_collection_of_roles_and_capabilities(names: Collection[str]) -> None:
    actor = Actor("ann", roles=names, capabilities=names)
    assert actor.has_role(["boss", "clerk"])
    assert not actor.has_role(["boss"])
    assert actor.can("clerk")
    assert actor == Actor("ann", roles=frozenset({"clerk"}), capabilities=frozenset({"clerk"}))
    assert len({actor, Actor("ann", roles=["clerk"], capabilities=["clerk"])}) == 1


@pytest.mark.parametrize("name", ["roles", "capabilities"])
def test_one_text_is_no_collection_of_names(name: str) -> None:
    with pytest.raises(TypeError, match=rf"expected a collection of {name}, such as \['clerk'\]"):
        Actor("ann", **{name: "clerk"})  # type: ignore[arg-type]
