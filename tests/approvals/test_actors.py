"""The rights that people have now, read for a batch as the owner: of their own org and of no other."""

from assent.model.actor import Principal
from assent.people.directory import MembersDirectory
from assent.store.database import Database
from tests.rows import insert, insert_member


async def test_actors_hold_what_their_own_org_gives_them_and_nothing_else(database: Database) -> None:
    """The twin org has members and roles of the same names, with every right."""
    asked = [Principal("ann"), Principal("bob"), Principal("guest", roles=("clerk",)), Principal("gone")]
    async with database.transaction(None) as connection:
        await insert_member(connection, user_id="ann", roles=["clerk"])
        await insert_member(connection, user_id="bob", roles=["clerk"], active=False)
        await insert(connection, "role_capabilities", role="clerk", capability="invoice:update")
        found = await MembersDirectory().actors(connection, [("acme", one) for one in asked])
    rights = {user: (actor.roles, actor.capabilities) for (_, user), actor in found.items()}
    clerk = (frozenset({"clerk"}), frozenset({"invoice:update"}))
    nothing = (frozenset(), frozenset())
    assert rights == {"ann": clerk, "bob": nothing, "guest": clerk, "gone": nothing}
