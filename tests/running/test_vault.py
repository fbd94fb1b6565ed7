"""examples/vault: containers go in and come out byte for byte, the index is made again, and tricks are refused."""

import asyncio
import hashlib
import io
import json
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import hypothesis
import pytest
from hypothesis import strategies as st
from PIL import Image

import assent
from assent.testing import Sandbox
from tests.processes.spawn import ROOT
from tests.receiver import Receiver, ReceiverReply, reply_json

sys.path.append(str(ROOT / "examples"))
vault: Any = import_module("vault")
containers: Any = import_module("vault.containers")
store: Any = import_module("vault.store")

SCHEMA = ROOT / "examples" / "vault" / "schema.sql"
TEXT = b"The invoice of the carpenter is overdue. The carpenter sends a reminder.\n"
INDEX = """
SELECT (SELECT jsonb_agg(to_jsonb(c) ORDER BY sha256) FROM public.vault_containers AS c),
       (SELECT jsonb_agg(to_jsonb(f) ORDER BY container, place) FROM public.vault_files AS f),
       (SELECT jsonb_agg(to_jsonb(e) ORDER BY sha256) FROM public.vault_entries AS e)
"""


def photo() -> bytes:
    image, target = Image.new("RGB", (64, 48), "red"), io.BytesIO()
    notes = image.getexif()
    notes[271], notes[272] = "Acme", "Pinhole 7"
    image.save(target, "JPEG", exif=notes)
    return target.getvalue()


def song() -> bytes:
    """Return an MP3 file with the tags of ID3v2.3, and one frame of silence."""
    frames = b""
    for name, value in (("TIT2", "Sägewerk"), ("TPE1", "The Carpenters of Ulm")):
        text = b"\x01" + value.encode("utf-16")
        frames += name.encode() + struct.pack(">IH", len(text), 0) + text
    size = bytes(len(frames) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\x00\x00" + size + frames + b"\xff\xfb\x90\x00" + bytes(413)


FILES = {
    "letters/2026/rechnung größe ✉.txt": TEXT,
    "letters/copy of it.txt": TEXT,
    "letters/empty.txt": b"",
    "pictures/hut.jpg": photo(),
    "music/song.mp3": song(),
    "big.bin": bytes(range(256)) * 8_192,
}


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.mkdir("letters")
        for name, content in files.items():
            archive.writestr(name, content)
        archive.comment = b"packed for the vault"
    return target.getvalue()


def streamed(files: Mapping[str, bytes]) -> bytes:
    """Return a zip that was written to a pipe: its sizes stand behind the files."""

    class Pipe(io.RawIOBase):
        content = b""

        def writable(self) -> bool:
            return True

        def write(self, part: Any) -> int:
            self.content += bytes(part)
            return len(part)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return pipe.content


def tarred(files: Mapping[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=format) as archive:
        folder = tarfile.TarInfo("letters")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


CONTAINERS = {
    "packed.zip": zipped(FILES),
    "stored.zip": zipped(FILES, zipfile.ZIP_STORED),
    "streamed.zip": streamed(FILES),
    "pax.tar": tarred(FILES),
    "gnu.tar": tarred(
        {f"{'long/' * 40}{name}": content for name, content in FILES.items()}, tarfile.GNU_FORMAT
    ),
    "empty.zip": zipped({}),
}


@dataclass
class Vault:
    """The example in a sandbox, with its folders."""

    sandbox: Sandbox
    folder: Path

    async def run(self, type: str, **input: Any) -> Any:
        """Submit a task, do all that is due, and return the task."""
        tasks = self.sandbox.runtime.org(self.sandbox.org_id).tasks
        task = await tasks.submit(type, input)
        await self.sandbox.drain()
        return await tasks.get(task.id)

    async def ingest(self, name: str, content: bytes) -> Any:
        (self.folder / "inbox" / name).write_bytes(content)
        return await self.run("ingest.container", source=name)

    async def index(self) -> list[Any]:
        async with self.sandbox.database.transaction(None) as connection:
            return list(await connection.fetchrow(INDEX))

    async def counted(self) -> Counter[tuple[str, str]]:
        found = (await self.sandbox.runtime.org(self.sandbox.org_id).tasks.list(limit=200)).items
        return Counter((task.type, task.status) for task in found)

    def kept(self, kind: str) -> list[Path]:
        return list((self.folder / "store").glob(f"vault/acme/{kind}/*/*"))


@pytest.fixture
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Vault]:
    for name in ("inbox", "outbox", "store"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("VAULT_INBOX", str(tmp_path / "inbox"))
    monkeypatch.setenv("VAULT_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setenv("ASSENT_BLOBS", (tmp_path / "store").as_uri())
    monkeypatch.setattr(store, "blobs", assent.Blobs())  # opened once, at the first use
    async with Sandbox(vault.app) as sandbox:
        await sandbox.sql(SCHEMA)
        yield Vault(sandbox, tmp_path)


async def test_container_comes_out_as_it_went_in(opened: Vault) -> None:
    for name, content in CONTAINERS.items():
        task = await opened.ingest(name, content)
        assert task.status == "done", task.tried[-1].error
        number = 0 if name == "empty.zip" else len(FILES)
        sha256 = hashlib.sha256(content).hexdigest()
        assert task.output == {"container": sha256, "files": number, "contents": max(0, number - 1)}
        rebuilt = await opened.run("reconstruct.container", container=sha256, output="again")
        assert rebuilt.output == {"output": "again", "sha256": sha256, "verified": True}
        assert (opened.folder / "outbox" / "again").read_bytes() == content
        assert [path.name for path in (opened.folder / "outbox").iterdir()] == ["again"]


async def test_same_content_is_kept_and_read_once(opened: Vault) -> None:
    for name in ("stored.zip", "pax.tar", "stored.zip"):
        assert (await opened.ingest(name, CONTAINERS[name])).status == "done"
    contents = {hashlib.sha256(content).hexdigest() for content in FILES.values()}
    kept = {path.name for path in opened.kept("blobs")}
    assert len(kept) == len(contents) + 2, "the frames of two containers, and nothing twice"
    assert contents < kept
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in opened.kept("blobs"))
    assert await opened.counted() == {
        ("ingest.container", "done"): 3,
        ("extract.exif", "done"): 1,
        ("extract.id3", "done"): 1,
        ("extract.text", "done"): 1,
        ("enrichment", "done"): 1,
        ("search.index", "done"): 3,
    }, "each content was read once, and each has one entry"


async def test_content_is_read_by_type_and_found_by_its_words(opened: Vault) -> None:
    await opened.ingest("packed.zip", CONTAINERS["packed.zip"])
    (_, _, entries) = await opened.index()
    facts = {tuple(sorted(entry["facts"])): entry["facts"] for entry in entries}
    assert facts["keywords", "text"]["keywords"][0] == "carpenter"
    assert facts["exif", "format", "height", "width"]["exif"]["Model"] == "Pinhole 7"
    assert facts["artist", "title"] == {"artist": "The Carpenters of Ulm", "title": "Sägewerk"}
    found = (await opened.run("vault.find", words="overdue carpenter")).output
    assert [file["name"] for file in found] == ["letters/2026/rechnung größe ✉.txt", "letters/copy of it.txt"]
    for words, name in (("pinhole", "pictures/hut.jpg"), ("sägewerk", "music/song.mp3")):
        assert [file["name"] for file in (await opened.run("vault.find", words=words)).output] == [name]
    assert (await opened.run("vault.find", words="plumber")).output == []


async def test_containers_in_containers_are_taken_in_also_one_that_is_there(opened: Vault) -> None:
    inner = tarred({"deep/note.txt": b"a note about marzipan"})
    outer = zipped({"inner.tar": inner, "again/inner.tar": inner})
    await opened.ingest("outer.zip", zipped({"outer.zip": outer}))
    assert (await opened.counted())["ingest.nested", "done"] == 2
    (found,) = (await opened.run("vault.find", words="marzipan")).output
    assert found["container"] == hashlib.sha256(inner).hexdigest()
    rebuilt = await opened.run("reconstruct.container", container=found["container"], output="inner.tar")
    assert (opened.folder / "outbox" / rebuilt.output["output"]).read_bytes() == inner


async def test_index_is_made_again_from_the_store(opened: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vault.catalog.BATCH", 2)
    for name in ("packed.zip", "pax.tar", "gnu.tar"):
        await opened.ingest(name, CONTAINERS[name])
    before = await opened.index()
    assert [len(rows) for rows in before] == [3, 3 * len(FILES), 3]
    async with opened.sandbox.database.transaction(None) as connection:
        await connection.execute("DELETE FROM public.vault_files WHERE place > 1")
        await connection.execute("UPDATE public.vault_entries SET facts = '{}'")
        await connection.execute(
            "INSERT INTO public.vault_files VALUES ('acme', 'none', 1, 'left', 'none', 'text/plain', 1),"
            " ('other', 'none', 1, 'of another org', 'none', 'text/plain', 1)"
        )
    assert (await opened.run("rebuild.index")).output == {"manifests": 3, "entries": 3}
    assert (await opened.counted())["rebuild.part", "done"] == 4
    containers, files, entries = await opened.index()
    assert [file for file in files if file["org_id"] == "other"] != [], "rows of other orgs stay"
    assert [containers, [file for file in files if file["org_id"] == "acme"], entries] == before


def linked(kind: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    return target.getvalue()


def linked_zip() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return target.getvalue()


def overlapping() -> bytes:
    """Return a zip whose directory names one file twice, as a bomb does a thousand times."""
    content = zipped({"a": b"x" * 1_000})
    begin = content.index(b"PK\x01\x02", content.index(b"a"))
    entries = content[content.rindex(b"PK\x01\x02") : content.index(b"PK\x05\x06")]
    end = bytearray(content[content.index(b"PK\x05\x06") :])
    number, size = struct.unpack("<HxxI", end[8:16])
    end[8:16] = struct.pack("<HHI", number + 1, number + 1, size + len(entries))
    assert begin
    return content[: content.index(b"PK\x05\x06")] + entries + bytes(end)


def encrypted() -> bytes:
    content = bytearray(zipped({"a": b"secret"}))
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def damaged() -> bytes:
    content = bytearray(zipped({"a": b"as it was"}, zipfile.ZIP_STORED))
    content[content.index(b"as it was")] ^= 1
    return bytes(content)


TRICKS: dict[str, tuple[bytes, str]] = {
    "parent": (zipped({"../../etc/cron.d/x": b"x"}), "leads out"),
    "parent of windows": (zipped({"a\\..\\..\\x": b"x"}), "leads out"),
    "root": (zipped({"/etc/passwd": b"x"}), "leads out"),
    "drive": (zipped({"C:/windows/x": b"x"}), "leads out"),
    "control": (zipped({"a\x1b[2Jb": b"x"}), "cannot be shown"),
    "parent in a tar": (tarred({"a/../../x": b"x"}), "leads out"),
    "root in a tar": (tarred({"/etc/passwd": b"x"}), "leads out"),
    "symbolic link": (linked(tarfile.SYMTYPE), "neither a file nor a folder"),
    "hard link": (linked(tarfile.LNKTYPE), "neither a file nor a folder"),
    "device": (linked(tarfile.CHRTYPE), "neither a file nor a folder"),
    "pipe": (linked(tarfile.FIFOTYPE), "neither a file nor a folder"),
    "symbolic link in a zip": (linked_zip(), "neither a file nor a folder"),
    "files that share bytes": (overlapping(), "shares bytes"),
    "encrypted": (encrypted(), "encrypted|of a kind"),
    "damaged": (damaged(), "Bad CRC-32"),
    "broken off": (zipped({"a": b"x" * 1_000})[:200], "cannot be read as a zip"),
    "broken off tar": (tarred({"a": b"x" * 1_000})[:1_300], "cannot be read as a tar|behind the end"),
    "text": (TEXT, "neither a zip nor a tar"),
    "nothing": (b"", "neither a zip nor a tar"),
}


async def test_container_that_is_made_to_harm_is_refused_whole(opened: Vault) -> None:
    for name, (content, says) in TRICKS.items():
        task = await opened.ingest("trick", content)
        assert (task.status, task.attempts) == ("dead", 1), name
        assert re.search(says, task.tried[-1].error), (name, task.tried[-1].error)
    assert opened.kept("blobs") == opened.kept("manifests") == []
    assert await opened.index() == [None, None, None]


def test_files_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "UNPACKED_BYTES_MAX", 1_000_000)
    monkeypatch.setattr(containers, "FILES_MAX", 100)
    for number, content in enumerate(
        (
            zipped({"bomb": bytes(1_000_001)}),
            tarred({"bomb": bytes(1_000_001)}),
            zipped({str(name): b"" for name in range(101)}),
            tarred({str(name): b"" for name in range(101)}),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "copy").write_bytes(content)
        with pytest.raises(assent.GiveUp, match="more than"):
            containers.cut(folder / "copy", folder)
        assert [path.name for path in folder.iterdir()] == ["copy"], "nothing was unpacked"


async def test_paths_out_of_the_folders_are_refused(opened: Vault) -> None:
    (opened.folder / "secret.zip").write_bytes(CONTAINERS["packed.zip"])
    for name in ("inbox", "outbox"):
        (opened.folder / name / "link.zip").symlink_to(opened.folder / "secret.zip")
        (opened.folder / name / "linked").symlink_to(opened.folder)
    container = (await opened.ingest("good.zip", CONTAINERS["empty.zip"])).output["container"]
    for path in ("../secret.zip", "/etc/passwd", "link.zip", "", ".", "linked/secret.zip"):
        for refused in (
            await opened.run("ingest.container", source=path),
            await opened.run("reconstruct.container", container=container, output=path),
        ):
            assert refused.status == "dead", path
            assert "is not below VAULT_" in refused.tried[-1].error
    assert (opened.folder / "secret.zip").read_bytes() == CONTAINERS["packed.zip"]


@pytest.mark.parametrize("what", ["a file", "the frame", "the manifest"])
async def test_damaged_store_is_noticed_and_nothing_is_written(opened: Vault, what: str) -> None:
    sha256 = (await opened.ingest("a.zip", CONTAINERS["stored.zip"])).output["container"]
    (manifest,) = opened.kept("manifests")
    known = json.loads(manifest.read_bytes())
    if what == "the manifest":
        known["pieces"].reverse()
        manifest.write_text(json.dumps(known))
    else:
        blob = known["frame"] if what == "the frame" else known["files"][0]["sha256"]
        (path,) = [path for path in opened.kept("blobs") if path.name == blob]
        path.write_bytes(path.read_bytes()[::-1])
    task = await opened.run("reconstruct.container", container=sha256, output="again")
    assert (task.status, task.attempts) == ("dead", 1)
    assert "damaged" in task.tried[-1].error or "and not" in task.tried[-1].error
    assert list((opened.folder / "outbox").iterdir()) == []


async def test_no_more_enrichments_run_at_a_time_than_the_model_serves(
    opened: Vault, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_URL", receiver.url)
    loop, asked = asyncio.get_running_loop(), asyncio.Semaphore(0)
    gates: list[threading.Event] = []
    at_once: list[int] = []
    ended = 0

    def answer(_: Any) -> ReceiverReply:
        gates.append(threading.Event())
        at_once.append(len(gates) - ended)
        loop.call_soon_threadsafe(asked.release)
        reply = reply_json({"response": "It is about wood."})
        return ReceiverReply(reply.status, reply.body, reply.headers, wait_for=gates[-1])

    receiver.otherwise = answer
    texts = {f"{number}.txt": f"text number {number}".encode() for number in range(6)}
    working = asyncio.create_task(opened.ingest("texts.zip", zipped(texts)))
    await asyncio.wait_for(asked.acquire(), 60)
    for number in range(6):
        if number < 5:
            await asyncio.wait_for(asked.acquire(), 60)  # the next one runs while this one does
        ended += 1
        gates[number].set()
    await working
    assert at_once == [1, 2, 2, 2, 2, 2]
    (_, _, entries) = await opened.index()
    assert [entry["facts"]["summary"] for entry in entries] == ["It is about wood."] * 6
    assert {json.loads(one.body)["prompt"].splitlines()[-1] for one in receiver.received} == {
        text.decode() for text in texts.values()
    }


NAMES = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/\\:."), min_size=1, max_size=12
)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.binary(max_size=2_000), max_size=8
)
WRITERS: list[Callable[[Mapping[str, bytes]], bytes]] = [
    zipped,
    lambda files: zipped(files, zipfile.ZIP_STORED),
    streamed,
    tarred,
    lambda files: tarred(files, tarfile.GNU_FORMAT),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cut")


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(files=TREES, write=st.sampled_from(WRITERS))
def test_frame_and_files_are_the_container(
    folders: Path, files: dict[str, bytes], write: Callable[[Mapping[str, bytes]], bytes]
) -> None:
    folder = folders / "one"
    folder.mkdir(exist_ok=True)
    path = folder / "copy"
    path.write_bytes(write(files))
    if containers.kind_of(path) is None:
        assert not files  # an empty tar has no header
        return
    manifest, parts = containers.cut(path, folder)
    blobs = {part.sha256: b"".join(store.chunks(part.path, part.start, part.size)) for part in parts}
    frame, start, whole = blobs[manifest["frame"]], 0, b""
    for sha256, size in manifest["pieces"]:
        if sha256 is None:
            whole += frame[start : start + size]
            start += size
        else:
            whole += blobs[sha256]
    assert whole == path.read_bytes()
    assert start == len(frame)
    assert {file["name"]: blobs[file["sha256"]] for file in manifest["files"]} == files


@pytest.mark.long
def test_it_runs_as_its_readme_says(database_url: str, tmp_path: Path) -> None:
    """A server and a worker in a process of their own, and every command of the page as it stands."""
    page = (ROOT / "examples" / "vault" / "README.md").read_text(encoding="utf-8")
    for name in ("inbox", "outbox"):
        (tmp_path / name).mkdir()
    (tmp_path / "inbox" / "letters.zip").write_bytes(CONTAINERS["packed.zip"])
    environment = {
        **os.environ,
        "ASSENT_DATABASE_URL": database_url,
        "ASSENT_PORT": "0",
        "ASSENT_BLOBS": (tmp_path / "store").as_uri(),
        "VAULT_INBOX": str(tmp_path / "inbox"),
        "VAULT_OUTBOX": str(tmp_path / "outbox"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    place: dict[str, Any] = {"env": environment, "cwd": ROOT / "examples", "text": True}
    command = [sys.executable, "-m", "vault"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, **place) as process,
        vault.app.sync_runtime(database_url) as runtime,
    ):
        try:
            assert process.stdout.readline().startswith("Serving acme on http://")
            returned: dict[str, Any] = {}
            for line in re.search(r"```sh\n# as a member\n(.*?)```", page, re.DOTALL)[1].splitlines():
                text = line.replace("SHA256", returned.get("container", ""))
                run = subprocess.run(["sh", "-ec", text], capture_output=True, check=False, **place)
                assert run.returncode == 0, (text, run.stderr)
                if submitted := re.search(r"submitted ([0-9a-f-]{36})", run.stdout):
                    handle = runtime.org("acme").tasks.handle(UUID(submitted[1]))
                    output = handle.result(timeout="60s")
                    returned |= output if isinstance(output, dict) else {"found": output}
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert (tmp_path / "outbox" / "again.zip").read_bytes() == CONTAINERS["packed.zip"]
    assert returned["verified"] is True
    assert returned["manifests"] == 1
