"""The wheel holds the whole package, and works with nothing but the dependencies that it declares."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import assent

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel and its declared dependencies: no extras, no source tree."""

    folder: Path

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        command = [str(self.folder / "bin" / program), *arguments]
        found = subprocess.run(
            command, env={**kept, **variables}, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    installer = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install"]
    if shutil.which("uv"):  # which makes environments without pip, as the Makefile does
        installer = ["uv", "pip", "install", "--python", python]
    subprocess.run([*installer, "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in sorted(declared_dependencies()):
        link_distribution(name, packages)
    return Environment(folder)


def declared_dependencies() -> set[str]:
    """Return the names of the dependencies without extras, and of theirs, for this interpreter."""
    names: set[str] = set()
    waiting = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    while waiting:
        requirement = waiting.pop()
        markers = [{"extra": extra} for extra in requirement.extras or {""}]
        if canonicalize_name(requirement.name) in names:
            continue
        names.add(canonicalize_name(requirement.name))
        for text in distribution(requirement.name).requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate(marker) for marker in markers):
                waiting.append(inner)
    return names


def link_distribution(name: str, packages: Path) -> None:
    """Make an installed distribution importable from another environment."""
    installed = distribution(name)
    for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(installed.locate_file(top))))


def files_of_the_package() -> Iterator[str]:
    for path in (ROOT / "src").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(ROOT / "src"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == set(files_of_the_package())
    assert {Path(name).suffix for name in packed} >= {
        ".py",
        ".sql",
        ".lark",
        ".json",
        ".yaml",
        ".md",
        ".typed",
    }
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_metadata_says_version_licence_and_description(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    assert metadata["Version"] == assent.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_the_installed_package_is_the_one_in_its_environment(environment: Environment) -> None:
    place = environment.run("python", "-c", "import assent; print(assent.__file__)")
    assert place.startswith(str(environment.folder))
    missing = "import importlib.util as u; print([n for n in ('fastapi', 'pytest') if u.find_spec(n)])"
    assert environment.run("python", "-c", missing) == "[]\n"


def test_the_installed_command_copies_and_checks_a_template(environment: Environment) -> None:
    assert environment.run("assent", "--version") == f"assent {assent.__version__}\n"
    assert "invoice_approval" in environment.run("assent", "templates", "list")
    environment.run("assent", "templates", "copy", "invoice_approval", "invoices")
    assert "✓ 2 documents, 1 workflow" in environment.run("assent", "check", "invoices")


def test_the_installed_command_migrates_a_database(environment: Environment, empty_database_url: str) -> None:
    environment.run("assent", "migrate", ASSENT_DATABASE_URL=empty_database_url)


LOCKS = {
    "run": (("http",), ("build",)),
    "dev": (("http", "telemetry", "sentry"), ("build", "dev")),
    "bench": (("http",), ("build", "bench")),
}
"""Lock file → the extras and the dependency groups that `make lock` resolves into it."""


def locked_versions(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    lines = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", text, re.MULTILINE)
    return {canonicalize_name(package): Version(version) for package, version in lines}


@pytest.mark.parametrize("name", LOCKS)
def test_every_declared_dependency_is_locked_in_a_version_that_it_allows(name: str) -> None:
    extras, groups = LOCKS[name]
    project = PROJECT["project"]
    texts = [*project["dependencies"]]
    texts += [text for extra in extras for text in project["optional-dependencies"][extra]]
    texts += [text for group in groups for text in PROJECT["dependency-groups"][group]]
    locked = locked_versions(name)
    wrong = []
    for requirement in map(Requirement, texts):
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or version not in requirement.specifier:
            wrong.append(f"{requirement}: locked is {version}")
    assert wrong == []


@pytest.mark.parametrize("name", ["dev", "bench"])
def test_what_two_lock_files_share_has_one_version(name: str) -> None:
    run, other = locked_versions("run"), locked_versions(name)
    assert {package: other.get(package) for package in run} == run
