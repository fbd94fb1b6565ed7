"""`assent templates`: the library of ready workflows — list them, read one, copy one."""

from pathlib import Path
from typing import Annotated

import typer

from assent.templates import first_sentence, library, template_names

app = typer.Typer(no_args_is_help=True, help="Ready workflows: list them, read one, copy one.")

NameArgument = Annotated[str, typer.Argument(help="The name of a template, as `list` shows it.")]


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
        page = (library() / name / "README.md").read_text(encoding="utf-8")
        typer.echo(f"{name:<{width}}  {first_sentence(page)}")


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
    """Copy a template with its schemas into a folder, to change it there. Nothing is overwritten."""
    files = copied_files(name)
    taken = [file for file in files if (folder / file).exists()]
    if taken:
        raise typer.BadParameter(f"{folder} already holds {', '.join(taken)}; nothing was copied")
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
        typer.echo(str(folder / file))


def copied_files(name: str) -> dict[str, str]:
    """Return what a copy of a template consists of: file → text, with the schemas inside the same folder."""
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(template_folder(name).iterdir())}
    used = [file for file in sorted((library() / "schema").iterdir()) if f"{file.stem}.yaml" in texts]
    moved = {file: text.replace("$schema=../schema/", "$schema=schema/") for file, text in texts.items()}
    return moved | {f"schema/{file.name}": file.read_text(encoding="utf-8") for file in used}
