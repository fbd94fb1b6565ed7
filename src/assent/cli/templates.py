"""`assent templates`: the library of ready workflows — list them, read one, copy one."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Ready workflows: list them, read one, copy one.")

NameArgument = Annotated[str, typer.Argument(help="The name of a template, as `list` shows it.")]


def library() -> Path:
    """The folder that holds one folder per template."""
    return Path(str(files("assent.templates")))


def template_names() -> list[str]:
    return sorted(folder.name for folder in library().iterdir() if (folder / "README.md").is_file())


def template_folder(name: str) -> Path:
    if name not in template_names():
        known = ", ".join(template_names())
        raise typer.BadParameter(f"there is no template {name!r}; there are: {known}")
    return library() / name


@app.command("list")
def list_templates() -> None:
    """List the templates, one line each."""
    width = max(map(len, template_names()))
    for name in template_names():
        typer.echo(f"{name:<{width}}  {_first_sentence(library() / name)}")


@app.command("show")
def show_template(name: NameArgument) -> None:
    """Print a template's page and its files."""
    folder = template_folder(name)
    typer.echo((folder / "README.md").read_text(encoding="utf-8").rstrip())
    for file in sorted(folder.glob("*.yaml")):
        typer.echo(f"\n# {file.name}\n\n{file.read_text(encoding='utf-8').rstrip()}")


@app.command("copy")
def copy_template(
    name: NameArgument,
    folder: Annotated[Path, typer.Argument(help="The folder to copy into; it is made when missing.")],
) -> None:
    """Copy a template's files into a folder, to change them there. Nothing is overwritten."""
    sources = sorted(template_folder(name).iterdir())
    taken = [file.name for file in sources if (folder / file.name).exists()]
    if taken:
        raise typer.BadParameter(f"{folder} already holds {', '.join(taken)}; nothing was copied")
    folder.mkdir(parents=True, exist_ok=True)
    for file in sources:
        (folder / file.name).write_bytes(file.read_bytes())
        typer.echo(str(folder / file.name))


def _first_sentence(folder: Path) -> str:
    """The sentence under the title of a template's page."""
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    return next((line for line in lines[1:] if line.strip()), "")
