"""`assent profiles`: servers and keys by name, in a file of the user."""

from typing import Annotated, Any

import typer

from assent.cli.options import JsonOption, named, read_secret
from assent.cli.output import console, print_body, print_change, print_table, table
from assent.cli.remote import (
    Profiles,
    Server,
    checked_key,
    checked_url,
    profiles_file,
    read_profiles,
    write_profiles,
)

app = typer.Typer(no_args_is_help=True, help="Servers by name: add, list, remove and use them.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The profile.", callback=named)]


@app.command()
def add(
    name: NameArgument,
    server: Annotated[
        str, typer.Option("--server", metavar="URL", help="Such as https://assent.example.com.")
    ],
    json: JsonOption = False,
) -> None:
    """Keep a server under a name, in place of the one before. Its key comes from standard input or a prompt."""
    url = checked_url(server)
    kept = read_profiles()
    added = Server(url, checked_key(read_secret("Key")))
    write_profiles(Profiles({**kept.profiles, name: added}, kept.current))
    _say(f"kept {name} in {profiles_file()}", _shown(name, added, kept.current), json)


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """List the profiles; keys are shown by their first characters."""
    kept = read_profiles()
    items = [_shown(name, one, kept.current) for name, one in sorted(kept.profiles.items())]
    if json:
        print_body({"items": items, "next": None})
    elif items:
        rows = ([one["name"], one["server"], one["key"], "in use" if one["in_use"] else ""] for one in items)
        print_table(table(("profile", "server", "key", ""), rows))
    else:
        console().print("There is no profile.", style="dim")


@app.command()
def remove(name: NameArgument, json: JsonOption = False) -> None:
    """Forget a profile with its key; the key stays valid until it is revoked."""
    kept = read_profiles()
    gone = _found(kept, name)
    others = {other: one for other, one in kept.profiles.items() if other != name}
    write_profiles(Profiles(others, None if kept.current == name else kept.current))
    _say(f"removed {name}", _shown(name, gone, None), json)


@app.command()
def use(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The profile; none is in use without it.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Have all commands call a server, unless ASSENT_DATABASE_URL or an option says otherwise."""
    kept = read_profiles()
    used = _found(kept, name) if name is not None else None
    write_profiles(Profiles(kept.profiles, name))
    shown = _shown(name, used, name) if name is not None and used is not None else None
    _say(f"commands call {used.url}" if used else "no profile is in use", shown, json)


def _found(kept: Profiles, name: str) -> Server:
    found = kept.profiles.get(name)
    if found is None:
        known = ", ".join(sorted(kept.profiles)) or "none"
        raise typer.BadParameter(f"no profile {name!r}; there are: {known}")
    return found


def _shown(name: str, server: Server, current: str | None) -> dict[str, Any]:
    return {"name": name, "server": server.url, "key": f"{server.key[:11]}…", "in_use": name == current}


def _say(done: str, shown: Any, json: bool) -> None:
    print_change(shown, done, json=json)
