"""Cuts a zip or a tar at the beginnings and ends of its files, and refuses one that is made to harm.

What is between the files (headers, the directory, padding) is the frame. Frame and files together, in their order, are
the container again, byte for byte.
"""

import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import assent
from assent.documents.files import HEAD_BYTES, type_of

from .store import Part, chunks

FILES_MAX = 10_000
UNPACKED_BYTES_MAX = 2 * 1024**3
LOCAL_HEADER = struct.Struct("<26xHH")
"""Of a file in a zip: its last two numbers are the lengths of what follows, its name and extra fields."""

Write = Callable[[BinaryIO], object]


@dataclass(frozen=True)
class ContainerFile:
    """A file in a container."""

    name: str
    start: int
    """Where its bytes begin in the container."""
    size: int
    """How many of the container's bytes are its own."""
    unpacked_size: int
    write: Write
    """Writes its content."""


def cut(path: Path, folder: Path) -> tuple[dict[str, Any], list[Part]]:
    """Return the manifest of a container and the blobs that it names; what is unpacked is in the folder."""
    kind = kind_of(path)
    with path.open("rb") as opened:
        try:
            match kind:
                case "zip":
                    with zipfile.ZipFile(opened) as archive:
                        return _cut(path, kind, _checked(path, _members_of_zip(archive, opened)), folder)
                case "tar":
                    with tarfile.open(fileobj=opened, mode="r:") as tar:
                        return _cut(path, kind, _checked(path, _members_of_tar(tar, path)), folder)
        except (
            tarfile.TarError,
            zipfile.BadZipFile,
            zlib.error,
            struct.error,
            EOFError,
            ValueError,
        ) as error:
            raise assent.GiveUp(f"it cannot be read as a {kind}: {error}") from error
        except (NotImplementedError, RuntimeError) as error:
            raise assent.GiveUp(f"it is a {kind} of a kind that is not read here: {error}") from error
    raise assent.GiveUp("it is neither a zip nor a tar")


def kind_of(path: Path) -> str | None:
    """Return `zip` or `tar` by the first bytes of a file; None for anything else."""
    head = b"".join(chunks(path, 0, 512))
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    return "tar" if head[257:262] == b"ustar" else None


def type_of_file(path: Path) -> str:
    """Return the type of a file by its first bytes, so that the same content has the same type everywhere."""
    kind = kind_of(path)
    if kind is not None:
        return {"zip": "application/zip", "tar": "application/x-tar"}[kind]
    return type_of(b"".join(chunks(path, 0, HEAD_BYTES)))


def _cut(
    path: Path, kind: str, members: list[ContainerFile], folder: Path
) -> tuple[dict[str, Any], list[Part]]:
    files: list[dict[str, Any]] = []
    pieces: list[tuple[str | None, int]] = []
    parts: list[Part] = []
    end = 0
    with (folder / "frame").open("wb") as frame:
        for number, member in enumerate(members):
            pieces.append((None, _copy(path, end, member.start, frame)))
            unpacked = folder / str(number)
            with unpacked.open("wb") as opened:
                member.write(opened)
            content, packed = Part.of(unpacked), Part.of(path, member.start, member.size)
            files.append(
                {
                    "name": member.name,
                    "sha256": content.sha256,
                    "size": content.size,
                    "mime_type": type_of_file(unpacked),
                }
            )
            pieces.append((packed.sha256, packed.size))
            parts += [content, packed]
            end = member.start + member.size
        pieces.append((None, _copy(path, end, path.stat().st_size, frame)))
    whole, between = Part.of(path), Part.of(folder / "frame")
    manifest = {"sha256": whole.sha256, "size": whole.size, "kind": kind, "files": files}
    return manifest | {"frame": between.sha256, "pieces": [one for one in pieces if one[1]]}, [
        *parts,
        between,
    ]


def _copy(path: Path, start: int, end: int, target: BinaryIO) -> int:
    return sum(target.write(chunk) for chunk in chunks(path, start, end - start))


def _members_of_zip(archive: zipfile.ZipFile, opened: BinaryIO) -> list[ContainerFile]:
    members = []
    for info in archive.infolist():
        name = _checked_name(info.orig_filename)
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise assent.GiveUp(f"{name!r} is neither a file nor a folder")
        if info.is_dir():
            continue
        opened.seek(info.header_offset)
        lengths = LOCAL_HEADER.unpack(opened.read(LOCAL_HEADER.size))
        start = info.header_offset + LOCAL_HEADER.size + sum(lengths)

        def write(target: BinaryIO, info: zipfile.ZipInfo = info) -> None:
            with archive.open(
                info
            ) as unpacked:  # gives no more bytes than the directory says, and checks them
                shutil.copyfileobj(unpacked, target)

        members.append(ContainerFile(name, start, info.compress_size, info.file_size, write))
    return members


def _members_of_tar(archive: tarfile.TarFile, path: Path) -> list[ContainerFile]:
    members: list[ContainerFile] = []
    for info in archive:
        name = _checked_name(info.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        if info.isdir():
            continue
        if not info.isreg() or info.issparse():
            raise assent.GiveUp(f"{name!r} is neither a file nor a folder")
        if len(members) > FILES_MAX:
            break
        start, end = info.offset_data, info.offset_data + info.size

        def write(target: BinaryIO, start: int = start, end: int = end) -> None:
            _copy(path, start, end, target)

        members.append(ContainerFile(name, start, info.size, info.size, write))
    return members


def _checked(path: Path, members: list[ContainerFile]) -> list[ContainerFile]:
    """Return files in the order of their bytes; give up on those that share some, and on too many."""
    if len(members) > FILES_MAX or sum(member.unpacked_size for member in members) > UNPACKED_BYTES_MAX:
        raise assent.GiveUp(f"it has more than {FILES_MAX:,} files, or {UNPACKED_BYTES_MAX:,} bytes in them")
    members = sorted(members, key=lambda member: (member.start, member.size))
    end = 0
    for member in members:
        if member.start < end:
            raise assent.GiveUp(f"{member.name!r} shares bytes with another file")
        end = member.start + member.size
    if end > path.stat().st_size:
        raise assent.GiveUp(f"{members[-1].name!r} ends behind the end of the container")
    return members


def _checked_name(name: str) -> str:
    """Return a name that leads to a place below the one where it is unpacked; give up on any other."""
    leads_out = name[:1] in ("", "/", "\\") or ".." in re.split(r"[/\\]", name) or re.match("[A-Za-z]:", name)
    if leads_out or not name.isprintable():
        raise assent.GiveUp(f"the name {name!r} leads out of the container, or cannot be shown")
    return name
