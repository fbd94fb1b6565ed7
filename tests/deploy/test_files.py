"""The files in deploy/ fit the product: commands parse, variables exist, probes answer, the image can be built."""

import asyncio
import configparser
import fnmatch
import importlib
import json
import os
import pkgutil
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml

import assent
from assent.cli.main import app as command_line
from assent.http.settings import HttpSettings
from assent.store.database import Database
from assent.store.embedded.programs import wheel_programs
from assent.store.environment import EnvironmentSettings
from assent.store.settings import Settings
from assent.worker.options import Options
from assent.worker.probes import Probes, ProbeSettings
from tests.cli.test_guide import parsed
from tests.postgres import own_server_in
from tests.settings import read_from

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DEPLOYMENT_PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
PROGRAM = "/opt/assent/bin/assent"
URL = "postgresql://assent@database/assent"


# What the product knows


def parse(arguments: Sequence[str]) -> str:
    """Return the name of the command; raise a usage error where the command line refuses the arguments."""
    return str(parsed(shlex.join(["assent", *arguments])).info_name)


def settings_classes() -> list[type[EnvironmentSettings]]:
    for module in pkgutil.walk_packages(assent.__path__, "assent."):
        if module.name != "assent.__main__":
            importlib.import_module(module.name)
    found = EnvironmentSettings.__subclasses__()
    for each in found:  # and theirs, which come to the end of the list
        found += each.__subclasses__()
    return found


def known_variables() -> set[str]:
    """Return the variables of all settings and of all options of the command line."""
    known = {each.variable(name) for each in settings_classes() for name in each.model_fields}
    waiting: list[Any] = [typer.main.get_command(command_line)]
    while waiting:
        command = waiting.pop()
        known |= {str(each.envvar) for each in command.params if getattr(each, "envvar", None)}
        waiting += getattr(command, "commands", {}).values()
    return known


def require_environment(variables: Mapping[str, str]) -> None:
    """Fail unless every variable exists and every settings class accepts the values."""
    ours = {name: text for name, text in variables.items() if name.startswith("ASSENT_")}
    assert set(ours) - known_variables() == set()
    if ours.get("ASSENT_DATABASE_URL", "").startswith("@"):
        ours["ASSENT_DATABASE_URL"] = URL
    for each in settings_classes():
        read_from(each, ours)


def test_a_command_line_that_does_not_exist_is_noticed() -> None:
    assert parse(["serve", "--port", "8000"]) == "serve"
    for wrong in (["server"], ["serve", "--prot", "1"], ["worker", "--only"], ["serve", "--port", "http"]):
        with pytest.raises(Exception, match=r"(?i)no such|requires an argument|valid integer"):
            parse(wrong)


def test_a_variable_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(AssertionError):
        require_environment({"ASSENT_HTTP_PORT": "8000"})


# The image


Instruction = tuple[str, str]


def stages() -> dict[str, list[Instruction]]:
    """Return the instructions of the Containerfile by stage; the last stage is called `image`."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found: dict[str, list[Instruction]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            _, _, name = rest.partition(" AS ")
            found[name.strip() or "image"] = []
        elif found:
            list(found.values())[-1].append((word, " ".join(rest.split())))
    return found


def of_image(word: str) -> list[str]:
    return [rest for each, rest in stages()["image"] if each == word]


def variables_of_image() -> dict[str, str]:
    return dict(part.split("=", 1) for line in of_image("ENV") for part in shlex.split(line))


def copied(stage: str) -> list[tuple[list[str], str]]:
    """Return the sources in the build context, and the target, of the COPY instructions of a stage."""
    parts = [rest.split() for word, rest in stages()[stage] if word == "COPY"]
    return [(each[:-1], each[-1]) for each in parts if not each[0].startswith("--from=")]


def test_the_image_runs_as_a_numbered_user_who_is_not_root() -> None:
    (user,) = of_image("USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    last_words = [word for word, _ in stages()["image"]]
    assert last_words.index("USER") > last_words.index("COPY")


def test_the_last_stage_installs_nothing_and_copies_only_from_a_stage() -> None:
    run = " ".join(of_image("RUN"))
    assert not re.search(r"\b(pip|apt|apt-get|gcc|curl|hatchling)\b", run)
    assert copied("image") == []
    sources = [re.match(r"--from=(\w+) (\S+)", rest) for rest in of_image("COPY")]
    assert [(each[1], each[2]) for each in sources if each] == [("packages", "/opt/assent")]
    assert "python -m venv --without-pip /opt/assent" in [rest for _, rest in stages()["packages"]]


def test_the_command_and_the_variables_of_the_image_are_ours() -> None:
    (entrypoint,), (command,) = of_image("ENTRYPOINT"), of_image("CMD")
    assert json.loads(entrypoint) == ["assent"]
    assert parse(json.loads(command)) == "serve"
    require_environment(variables_of_image())
    require_environment({"ASSENT_APP": "shop.main:app"})


def test_the_image_names_the_ports_that_it_serves() -> None:
    variables = variables_of_image()
    (exposed,) = of_image("EXPOSE")
    assert exposed.split() == [variables["ASSENT_PORT"], variables["ASSENT_METRICS_PORT"]]
    assert variables["ASSENT_HOST"] == variables["ASSENT_METRICS_HOST"] == "0.0.0.0"  # noqa: S104


async def test_the_health_check_of_the_image_asks_a_path_that_is_served(database: Database) -> None:
    (check,) = of_image("HEALTHCHECK")
    program = json.loads(check.partition(" CMD ")[2])
    assert f"127.0.0.1:{variables_of_image()['ASSENT_METRICS_PORT']}/" in program[-1]
    async with Probes(database).serving(ProbeSettings(port=0)) as port:
        here = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", program[-1])
        assert await ends_with([sys.executable, *program[1:-1], here]) == 0
        assert await ends_with([sys.executable, *program[1:-1], here.replace("/healthz", "/health")]) == 1
    assert await ends_with([sys.executable, *program[1:-1], here]) == 1


async def ends_with(command: Sequence[str]) -> int:
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    return await process.wait()


def is_ignored(path: str) -> bool:
    """Return whether .dockerignore keeps a file out of the build; the last pattern that matches decides."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = [path, *map(str, Path(path).parents)]
        anywhere = line.startswith("**/") and pattern in Path(path).parts
        if (
            line
            and not line.startswith("#")
            and (anywhere or any(fnmatch.fnmatch(each, pattern) for each in parts))
        ):
            ignored = not line.startswith("!")
    return ignored


def test_what_the_image_copies_is_in_the_repository_and_not_ignored() -> None:
    sources = [source for stage in stages() for group, _ in copied(stage) for source in group]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if is_ignored(source)] == []
    assert is_ignored("docs/index.md")
    assert is_ignored("src/assent/__pycache__/app.cpython-311.pyc")


@pytest.mark.long
def test_the_wheel_is_built_from_the_files_that_the_image_copies(tmp_path: Path) -> None:
    place, wheels = tmp_path / "source", tmp_path / "wheels"
    place.mkdir()
    for sources, target in copied("wheel"):
        for source in sources:
            copy_into(place, ROOT / source, target)
    *_, build = [rest for word, rest in stages()["wheel"] if word == "RUN"]
    program, *arguments = shlex.split(build.replace("/wheels", str(wheels)))
    command = [str(Path(sys.executable).parent / program), *arguments]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    installs = [rest for word, rest in stages()["packages"] if word == "RUN"]
    assert installs[-1].split()[-1] == "/wheels/*.whl"
    assert [each.name for each in wheels.glob("*.whl")] == [f"assent-{assent.__version__}-py3-none-any.whl"]


def copy_into(place: Path, source: Path, target: str) -> None:
    """Copy as COPY does: a folder's content into the target, a file into a target that ends with a slash."""
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(source, place / target, ignore=ignored)
    else:
        (place / target).mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place / target / source.name)


def test_every_requirement_file_of_the_image_is_installed_by_its_hashes() -> None:
    installs = [
        rest for stage in stages().values() for word, rest in stage if word == "RUN" and " -r " in rest
    ]
    files = [line.split(" -r ")[1] for line in installs]
    assert files == ["requirements/build.txt", "requirements/web.txt", "requirements/image.txt"]
    assert [line for line in installs if "--require-hashes" not in line] == []


# Compose


COMPOSE = DEPLOY / "compose"


def compose() -> dict[str, Any]:
    """Return the compose file with the defaults of its variables."""
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    filled = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    assert "${" not in filled
    found: dict[str, Any] = yaml.safe_load(filled)
    return found


def our_services() -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose()["services"].items() if name != "database"}


@pytest.mark.parametrize("name", ["migrate", "serve", "worker"])
def test_a_service_of_the_compose_file_runs_a_command_of_ours(name: str) -> None:
    service = our_services()[name]
    assert parse(service["command"]) == name
    require_environment(service["environment"])
    assert (COMPOSE / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert set(service["secrets"]) <= set(compose()["secrets"])
    named = service["environment"]["ASSENT_DATABASE_URL"].removeprefix("@/run/secrets/")
    assert named in service["secrets"]
    assert seconds(service["stop_grace_period"]) > grace_period_s()


def test_the_services_start_after_the_migration_and_it_after_the_database() -> None:
    services = compose()["services"]
    assert set(our_services()) == {"migrate", "serve", "worker"}
    assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    after = {"migrate": {"condition": "service_completed_successfully"}}
    assert services["serve"]["depends_on"] == services["worker"]["depends_on"] == after


def test_the_default_application_of_the_compose_file_is_there() -> None:
    service = our_services()["serve"]
    module, _, name = service["environment"]["ASSENT_APP"].partition(":")
    folder, target, _ = service["volumes"][0].split(":")
    assert target == of_image("WORKDIR")[0]
    text = ((COMPOSE / folder).resolve() / f"{module}.py").read_text(encoding="utf-8")
    assert re.search(rf"^{name} = assent\.App\(", text, re.MULTILINE)


def test_the_port_of_the_compose_file_is_that_of_the_image_and_of_this_machine_alone() -> None:
    (mapping,) = our_services()["serve"]["ports"]
    assert mapping == f"127.0.0.1:8000:{variables_of_image()['ASSENT_PORT']}"


@pytest.mark.long
def test_the_script_for_secrets_makes_them_once(tmp_path: Path) -> None:
    shutil.copy(COMPOSE / "make-secrets.sh", tmp_path)
    run_script(tmp_path / "make-secrets.sh")
    secrets = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert set(secrets) == set(compose()["secrets"])
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert len(set(secrets.values())) == 3
    assert len(secrets["owner_password"]) == 48
    assert secrets["database_url"] == f"postgresql://assent:{secrets['owner_password']}@database/assent"
    run_script(tmp_path / "make-secrets.sh")
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == secrets


@pytest.mark.long
def test_the_script_for_the_database_makes_an_owner_who_can_migrate(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "owner_password").write_text("it's secret")
    text = (COMPOSE / "make-owner.sh").read_text(encoding="utf-8").replace("/run/secrets", str(tmp_path))
    # The test's server has a role `assent` already.
    text = text.replace("ROLE assent", "ROLE composed").replace(
        "assent OWNER assent", "composed OWNER composed"
    )
    (tmp_path / "make-owner.sh").write_text(text)
    with own_server_in(run_dir) as server:
        there = server.postmaster
        path = f"{wheel_programs()}:{os.environ['PATH']}"
        run_script(
            tmp_path / "make-owner.sh", PATH=path, PGHOST=str(there.socket_dir), PGPORT=str(there.port)
        )
        url = server.url("composed", role="composed")
        migrate = [sys.executable, "-m", "assent", "migrate"]
        subprocess.run(
            migrate, check=True, env={**os.environ, "ASSENT_DATABASE_URL": url}, capture_output=True
        )
        attributes = "SELECT rolsuper, rolcreaterole FROM pg_roles WHERE rolname = 'composed'"
        asked = ["psql", "--tuples-only", "--no-align", f"--dbname={url}", f"--command={attributes}"]
        found = subprocess.run(
            asked, check=True, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert found.stdout.strip() == "f|t"


def run_script(script: Path, **variables: str) -> None:
    done = subprocess.run(
        ["sh", script], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def grace_period_s() -> float:
    worker_s = Options.defaults().grace_period_ms / 1000
    return max(worker_s, HttpSettings.defaults().grace_period_s)


# systemd


UNITS = ("assent-migrate.service", "assent-serve.service", "assent-worker@.service")
CREDENTIAL = re.compile(r"LoadCredential=(\w+):(\S+)")


def unit(name: str) -> dict[str, list[tuple[str, str]]]:
    """Return the settings of a unit by section, in their order; a name may be there twice."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (DEPLOY / "systemd" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            list(found.values())[-1].append((key, value))
    return found


def environment_of(name: str) -> dict[str, str]:
    own = dict(value.split("=", 1) for key, value in unit(name)["Service"] if key == "Environment")
    lines = (DEPLOY / "systemd" / "assent.env").read_text(encoding="utf-8").splitlines()
    shared = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {key: value.replace("%i", "1") for key, value in (shared | own).items()}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_runs_a_command_of_ours_as_the_user_assent(name: str) -> None:
    service = dict(unit(name)["Service"])
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == PROGRAM
    assert parse(arguments) == re.split(r"[-@.]", name)[1]
    assert (service["User"], service["Group"]) == ("assent", "assent")
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_sets_variables_that_exist_and_loads_the_secret_that_it_names(name: str) -> None:
    variables = environment_of(name)
    credential, _, _ = dict(unit(name)["Service"])["LoadCredential"].partition(":")
    assert variables["ASSENT_DATABASE_URL"] == f"@%d/{credential}"
    require_environment(variables)


def test_variables_that_the_file_for_systemd_leaves_out_exist_too() -> None:
    lines = (DEPLOY / "systemd" / "assent.env").read_text(encoding="utf-8").splitlines()
    hidden = dict(line.removeprefix("# ").split("=", 1) for line in lines if line.startswith("# ASSENT_"))
    assert len(hidden) > 3
    require_environment(hidden)


@pytest.mark.parametrize("name", UNITS[1:])
def test_a_unit_waits_for_the_migration_and_for_the_grace_period(name: str) -> None:
    found = unit(name)
    assert ("Requires", UNITS[0]) in found["Unit"]
    assert ("After", UNITS[0]) in found["Unit"]
    assert int(dict(found["Service"])["TimeoutStopSec"]) > grace_period_s()


def test_the_migration_is_a_oneshot_with_more_time_than_it_may_wait_for_locks() -> None:
    service = dict(unit(UNITS[0])["Service"])
    assert service["Type"] == "oneshot"
    wait_max_min = Settings.defaults().migration_wait_max_ms / 60_000
    assert int(service["TimeoutStartSec"].removesuffix("min")) > wait_max_min


def test_each_unit_has_a_port_of_its_own_for_its_metrics() -> None:
    ports = [
        dict(unit(name)["Service"]) and environment_of(name).get("ASSENT_METRICS_PORT") for name in UNITS
    ]
    assert ports == [None, "9460", "9461"]


@pytest.mark.parametrize("name", UNITS)
def test_the_units_are_read_by_their_readers(name: str, tmp_path: Path) -> None:
    """Every reader knows the format; systemd, where it is installed, knows every setting too."""
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    configparser.ConfigParser(strict=False, interpolation=None).read_string(text)
    if (program := shutil.which("systemd-analyze")) is None:
        return
    for each in UNITS:
        other = (DEPLOY / "systemd" / each).read_text(encoding="utf-8")
        (tmp_path / each.replace("@", "@1")).write_text(other.replace(PROGRAM, sys.executable))
    command = [program, "verify", "--man=no", str(tmp_path / name.replace("@", "@1"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "assent" in line]
    assert (done.returncode, ours) == (0, [])


# Kubernetes


KUBERNETES = DEPLOY / "kubernetes"


def objects() -> Iterator[dict[str, Any]]:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    for name in listed:
        yield from yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8"))


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    return found


def workloads() -> dict[str, dict[str, Any]]:
    kinds = ("Deployment", "Job")
    return {each["metadata"]["name"]: each for each in objects() if each["kind"] in kinds}


def container_of(workload: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(found)


WORKLOADS = ("assent-migrate", "assent-serve", "assent-worker")


def test_the_kustomization_lists_every_file_and_the_present_version() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization()["resources"]) == files
    assert kustomization()["images"][0]["newTag"] == assent.__version__
    names = [(each["kind"], each["metadata"]["name"]) for each in objects()]
    assert sorted(names) == [
        ("Deployment", "assent-serve"),
        ("Deployment", "assent-worker"),
        ("Job", "assent-migrate"),
        ("PodDisruptionBudget", "assent-serve"),
        ("PodDisruptionBudget", "assent-worker"),
        ("Service", "assent"),
    ]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_runs_a_command_of_ours_with_variables_that_exist(name: str) -> None:
    container = container_of(workloads()[name])
    assert parse(container["args"]) == name.removeprefix("assent-")
    assert container["image"] == kustomization()["images"][0]["name"]
    (map_,) = kustomization()["configMapGenerator"]
    assert container["envFrom"] == [{"configMapRef": {"name": map_["name"]}}]
    variables = dict(line.split("=", 1) for line in map_["literals"])
    require_environment(variables)
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert variables["ASSENT_DATABASE_URL"] == f"@{mounts['secrets']}/database_url"


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_has_the_user_of_the_image_and_limits(name: str) -> None:
    pod = workloads()[name]["spec"]["template"]["spec"]
    container = container_of(workloads()[name])
    context = pod["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == of_image("USER")[0]
    assert context["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", WORKLOADS[1:])
async def test_the_probes_of_a_workload_ask_paths_and_ports_that_are_served(
    name: str, database: Database
) -> None:
    container = container_of(workloads()[name])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == int(variables_of_image()["ASSENT_METRICS_PORT"])
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} == {"metrics"}
    assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
    annotations = workloads()[name]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])
    paths = {*(probe["path"] for probe in probes), annotations["prometheus.io/path"]}
    async with Probes(database).serving(ProbeSettings(port=0)) as port, httpx.AsyncClient() as client:
        replies = {path: (await client.get(f"http://127.0.0.1:{port}{path}")).status_code for path in paths}
    assert replies == dict.fromkeys(paths, 200)


def test_the_service_and_the_budgets_choose_the_pods_that_they_mean() -> None:
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in workloads().items()}
    for each in objects():
        spec, name = each["spec"], each["metadata"]["name"]
        if each["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert spec["selector"]["matchLabels"] == labels[name]
        if each["kind"] == "Service":
            assert spec["selector"] == labels["assent-serve"]
            ports = {port["name"]: port for port in container_of(workloads()["assent-serve"])["ports"]}
            target = ports[spec["ports"][0]["targetPort"]]
            assert target["containerPort"] == int(variables_of_image()["ASSENT_PORT"])


@pytest.mark.parametrize("name", WORKLOADS[1:])
def test_a_pod_has_more_time_to_end_than_the_grace_period(name: str) -> None:
    workload = workloads()[name]
    pause = (
        container_of(workload).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [0])[-1]
    )
    time_s = workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert time_s > grace_period_s() + int(pause)


OVERLAY = re.search(r"```yaml\n# kustomization.yaml\n(.*?)```", DEPLOYMENT_PAGE, re.DOTALL)


def test_the_overlay_of_the_page_is_one_of_the_base(tmp_path: Path) -> None:
    """Every overlay names what the base has; kubectl, where it is installed, builds both."""
    assert OVERLAY is not None
    written = yaml.safe_load(OVERLAY[1])
    assert [image["name"] for image in written["images"]] == [kustomization()["images"][0]["name"]]
    (map_,) = written["configMapGenerator"]
    assert map_["name"] == kustomization()["configMapGenerator"][0]["name"]
    require_environment(dict(line.split("=", 1) for line in map_["literals"]))
    if (program := shutil.which("kubectl")) is None:
        return
    shutil.copytree(KUBERNETES, tmp_path / "assent" / "deploy" / "kubernetes")
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "kustomization.yaml").write_text(OVERLAY[1])
    for folder in (KUBERNETES, tmp_path / "overlay"):
        done = subprocess.run([program, "kustomize", folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        built = [each["kind"] for each in yaml.safe_load_all(done.stdout)]
        assert sorted(built) == sorted([*(each["kind"] for each in objects()), "ConfigMap"])


COMMANDS = [
    line[line.index("assent ") :]
    for block in re.findall(r"```(?:\w*)\n(.*?)```", DEPLOYMENT_PAGE, re.DOTALL)
    for line in block.splitlines()
    if re.search(r"(?:^|run .*| exec \w+ )assent (migrate|serve|worker|health)", line)
]


@pytest.mark.parametrize("line", [*COMMANDS, *re.findall(r"`(assent [a-z].*?)`", DEPLOYMENT_PAGE)])
def test_a_command_of_the_page_is_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENT_APP", "shop.main:app")
    arguments = line.partition("assent ")[2] if " run " in line else line.removeprefix("assent ")
    assert parsed(f"assent {arguments}").params is not None


def test_every_file_and_variable_of_the_page_is_there() -> None:
    assert len(COMMANDS) == 4
    named = re.findall(r"(?<!/)\bdeploy/[\w./@-]*\w", DEPLOYMENT_PAGE)
    assert [name for name in named if not (ROOT / name).exists() and name != "deploy/compose/secrets"] == []
    assert set(re.findall(r"\bASSENT_[A-Z_]+\b", DEPLOYMENT_PAGE)) - known_variables() == set()


def test_the_numbers_of_the_page_are_those_of_the_readme_and_the_settings() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sizing = DEPLOYMENT_PAGE.partition("## Sizing")[2].partition("**Connections.**")[0]
    measured = re.findall(r"\b\d+(?:[.,]\d+)* ?(?:ms|a second|approvals|finished)", sizing)
    numbers = {re.match(r"[\d.,]+", each)[0] for each in measured}  # type: ignore[index]
    assert len(numbers) > 6
    assert [number for number in numbers if number not in readme] == []
    pool = Settings.defaults().pool_connections_max
    assert f"`ASSENT_POOL_CONNECTIONS_MAX` ({pool})" in DEPLOYMENT_PAGE
    assert f"{4 * (pool + 1)} of PostgreSQL's `max_connections`" in " ".join(DEPLOYMENT_PAGE.split())
