"""Paths on the command line become sources."""

from pathlib import Path

import pytest
import typer

from assent.cli.sources import files_at, sources_at


def test_a_folder_means_its_yaml_files_in_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "sub/c.yaml", "schema.json", "notes.md", ".git/x.yaml", ".hidden.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("flow: x\n")
    found = [str(file.relative_to(tmp_path)) for file in files_at(tmp_path)]
    assert found == ["a.yml", "b.yaml", "sub/c.yaml"]


def test_every_document_of_every_file_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("contract: a\n---\npatch: b\n")
    sources = sources_at([file, tmp_path])
    assert [source.data for source in sources] == [{"contract": "a"}, {"patch": "b"}]
    assert {source.name for source in sources} == {str(file)}


def test_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="no file or folder"):
        files_at(tmp_path / "nowhere")


def test_a_folder_without_files_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"no .yaml, .yml file"):
        files_at(tmp_path)


def test_a_huge_file_is_refused_without_being_loaded(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as stream:
        stream.truncate(10 << 30)
    (source,) = sources_at([file])
    assert [problem.code for problem in source.problems] == ["TOO_LARGE"]
