"""What is read out of files: by shipped and own extractors, within bounds, once, and never over a review."""

import asyncio
import io
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdf
import pytest
from PIL import Image, ImageDraw
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from assent.app import App
from assent.documents import reading
from assent.documents.bounded import Bounds, OutOfBounds, run_bounded
from assent.documents.documents import VersionItem
from assent.documents.extraction import Extraction, FileToRead
from assent.documents.reading import read, read_file
from assent.model.problems import Invalid
from assent.worker.duty import WorkerContext
from assent.worker.tasks import Tasks
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.documents.test_files import PDF
from tests.workers import run_until_done
from tests.world import rows


def pdf_of(*streams: bytes, password: str | None = None) -> bytes:
    """Return a PDF with a page for each content stream."""
    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for content in streams:
        page = writer.add_blank_page(300, 300)
        stream = DecodedStreamObject()
        stream.set_data(content)
        page[NameObject("/Contents")] = writer._add_object(stream.flate_encode())
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if password is not None:
        writer.encrypt(password)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def said(text: str) -> bytes:
    return b"BT /F1 24 Tf 20 100 Td (" + text.encode() + b") Tj ET"


def png_of(width: int, height: int, text: str = "") -> bytes:
    image = Image.new("RGB", (width, height), "white")
    if text:
        ImageDraw.Draw(image).text((20, 20), text, fill="black", font_size=60)
    target = io.BytesIO()
    image.save(target, "PNG")
    return target.getvalue()


def jpeg_with_notes() -> bytes:
    image, target = Image.new("RGB", (400, 300)), io.BytesIO()
    notes = Image.Exif()
    notes[271], notes[34853] = "Pentacon", {1: "N"}
    image.save(target, "JPEG", exif=notes)
    return target.getvalue()


def file_at(path: Path, content: bytes) -> FileToRead:
    path.write_bytes(content)
    return FileToRead(path, "passport", "c-1", path.name, "x/y", len(content))


async def test_the_text_of_a_pdf_is_read(tmp_path: Path) -> None:
    found = await read_file(file_at(tmp_path / "a", pdf_of(said("Erika Mustermann"), said("page two"))))
    assert found.text == "Erika Mustermann\npage two"
    assert (found.fields, found.extraction_confidence, found.problem) == ({"pages": 2}, 100, None)


async def test_the_size_of_a_picture_and_its_notes_are_read_and_not_where_it_was_taken(
    tmp_path: Path,
) -> None:
    found = await read_file(file_at(tmp_path / "a", jpeg_with_notes()))
    assert {**found.fields} == {"width": 400, "height": 300, "format": "JPEG", "exif": {"Make": "Pentacon"}}
    assert found.quality_score == 6.0


async def test_the_words_of_a_picture_are_read_where_tesseract_is_installed(tmp_path: Path) -> None:
    found = await read_file(file_at(tmp_path / "a", png_of(900, 200, "MUSTERMANN 4711")))
    if shutil.which("tesseract"):
        assert found.text == "MUSTERMANN 4711"
        assert found.extraction_confidence > 50
    else:
        assert found.text is None


SEEN = """level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext
1\t1\t0\t0\t0\t0\t0\t0\t900\t200\t-1\t
5\t1\t1\t1\t1\t1\t26\t37\t405\t43\t91.156685\tMUSTERMANN
5\t1\t1\t1\t1\t2\t450\t37\t128\t42\t93.258476\t"4711
"""
"""What tesseract 5.3.0 prints of a picture; the quotation mark is a word's own."""


@pytest.mark.parametrize(
    ("program", "text", "sure"),
    [
        (f"/bin/cat <<'END'\n{SEEN}END\n", 'MUSTERMANN "4711', 92.21),
        (f"/bin/cat <<'END'\n{SEEN.partition('5')[0]}END\n", None, 0),
        ("exit 1", None, None),
        ("exec /bin/sleep 60", None, None),
        (None, None, None),
    ],
    ids=["words", "no word", "it fails", "it hangs", "not installed"],
)
async def test_a_picture_is_read_whatever_becomes_of_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, text: Any, sure: Any
) -> None:
    """With a program of this name on PATH, on every machine; without one, a picture has no text."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    if program is not None:
        (programs / "tesseract").write_text(f"#!/bin/sh\n{program}\n")
        (programs / "tesseract").chmod(0o755)
    monkeypatch.setattr(reading, "OCR_SECONDS", 1)
    found = Extraction(**read(file_at(tmp_path / "a", png_of(900, 200, "MUSTERMANN")).path))
    assert (found.text, found.extraction_confidence) == (text, sure)
    assert (found.fields["width"], found.quality_score, found.problem) == (900, 9.0, None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda: pdf_of(said("secret"), password="geheim"), "PASSWORD_PROTECTED"),
        (lambda: PDF, "CORRUPTED"),
        (lambda: png_of(30, 30)[:60], "CORRUPTED"),
        (lambda: b"PK\x03\x04" + b"\0" * 100, "UNSUPPORTED_FORMAT"),
        (
            lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
            "UNSUPPORTED_FORMAT",
        ),
    ],
)
async def test_a_file_that_cannot_be_read_has_the_problem_that_its_client_reads(
    tmp_path: Path, content: Callable[[], bytes], problem: str
) -> None:
    assert (await read_file(file_at(tmp_path / "a", content()))).problem == problem


def png_bomb() -> bytes:
    """A few hundred kilobytes of PNG that are 30,000 × 30,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    size = 30_000
    head = size.to_bytes(4) + size.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    row = zlib.compress(b"\0" * (1 + 3 * size) * 100)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", row) + chunk(b"IEND", b"")


def pdf_bomb() -> bytes:
    """A megabyte of PDF whose page is a gigabyte."""
    packer, small = zlib.compressobj(9), io.BytesIO()
    for _ in range(1_024):
        small.write(packer.compress(b" " * 1_048_576))
    small.write(packer.flush())
    body = small.getvalue()
    parts = [
        b"1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj\n",
        b"2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj\n",
        b"3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R>> endobj\n",
        b"4 0 obj <</Length %d /Filter /FlateDecode>> stream\n%b\nendstream endobj\n" % (len(body), body),
    ]
    found, places = b"%PDF-1.4\n", []
    for part in parts:
        places.append(len(found))
        found += part
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (
        found
        + b"xref\n0 5\n0000000000 65535 f \n%btrailer <</Size 5 /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
        % (
            table,
            len(found),
        )
    )


@pytest.mark.parametrize("bomb", [png_bomb, pdf_bomb])
async def test_a_bomb_ends_its_own_process_and_nothing_else(
    tmp_path: Path, bomb: Callable[[], bytes]
) -> None:
    content = await asyncio.to_thread(bomb)
    assert len(content) < 2_000_000
    found = await read_file(file_at(tmp_path / "a", content), Bounds(seconds=30, memory_bytes=600_000_000))
    assert found.problem == "CORRUPTED" or not found.text


def forever(path: Path) -> Any:
    while True:
        time.monotonic()


def asleep(path: Path) -> Any:
    time.sleep(3_600)


def greedy(path: Path) -> Any:
    return len(bytearray(4_000_000_000))


def talkative(path: Path) -> Any:
    return "x" * 50_000_000


def failing(path: Path) -> Any:
    raise KeyError(path.name)


WHY_ENDED = {
    "forever": "ended with -|longer than 2 s",
    "asleep": "longer than 2 s",
    "greedy": "ended with 3: it may have 500,000,000 bytes of memory",
    "talkative": "returned more than",
}


@pytest.mark.parametrize("function", ["forever", "asleep", "greedy", "talkative"])
async def test_what_goes_beyond_its_bounds_is_ended(tmp_path: Path, function: str) -> None:
    by_time = function in ("forever", "asleep")
    bounds = Bounds(seconds=2 if by_time else 50, memory_bytes=500_000_000)
    began = time.monotonic()
    with pytest.raises(OutOfBounds, match=WHY_ENDED[function]):
        await run_bounded(f"{__name__}:{function}", tmp_path, bounds)
    assert time.monotonic() - began < 60


async def test_an_error_of_the_function_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="KeyError"):
        await run_bounded(f"{__name__}:failing", tmp_path)


# As tasks


class ReadingCompliance(Compliance):
    """A compliance team whose files are read."""

    async def read(self, content: bytes, **about: Any) -> VersionItem:
        """Upload a file, run the tasks, and return the version then."""
        documents = self.by(PORTAL).documents
        document = await documents.create("passport", "c-1")
        await documents.add_version(document.id, content=content, **about)
        await self.run()
        return (await self.by(VERA).documents.get(document.id)).versions[0]

    async def run(self) -> None:
        tasks = Tasks(WorkerContext(self.database, runtime=self.runtime))
        await run_until_done(tasks)
        await tasks.finish()

    async def tasks(self) -> list[dict[str, Any]]:
        return [row for row in await rows(self.database, "jobs") if row["kind"] == "task"]


def reader(compliance: Compliance, app: App) -> ReadingCompliance:
    runtime = app.runtime(compliance.database, compliance.runtime.core.blobs)
    return ReadingCompliance(runtime, compliance.database, compliance.clock)


async def test_a_version_is_read_after_its_upload_and_found_by_its_words(compliance: Compliance) -> None:
    app = App()
    app.extractor("*")(read_file)
    team = reader(compliance, app)
    version = await team.read(pdf_of(said("Erika Mustermann")), structured_data={"number": "C01"})
    assert version.extracted_at is not None
    assert version.ocr_extracted == {"pages": 1, "text": "Erika Mustermann"}
    assert (version.structured_data, version.extraction_confidence) == ({"number": "C01"}, 100)
    documents = team.by(VERA).documents
    for wanted in ({"q": "mustermann"}, {"q": "Erika"}, {"fields": {"pages": 1}}):
        assert [one.id for one in (await documents.list(**wanted)).items] == [version.document_id]
    assert (await documents.list(q="schmidt")).items == []
    assert (await team.runtime.org("globex", VERA).documents.list(q="mustermann")).items == []
    events = (await documents.get(version.document_id)).events
    assert [one.type for one in events] == ["extracted", "version_uploaded", "created"]


async def test_an_extractor_of_the_application_fills_the_fields_of_its_type(compliance: Compliance) -> None:
    app, seen = App(), []

    @app.extractor("passport")
    async def passport(file: FileToRead) -> Extraction:
        seen.append((file.path.read_bytes(), file.document_type, file.subject, file.found_type))
        return Extraction("text", {"a": 1}, {"number": "C01"}, quality_score=80.5, extraction_confidence=99)

    team = reader(compliance, app)
    version = await team.read(PDF, file_name="p.pdf")
    assert seen == [(PDF, "passport", "c-1", "application/pdf")]
    assert (version.structured_data, version.quality_score) == ({"number": "C01"}, 80.5)
    await team.by(PORTAL).documents.create("visa", "c-1")
    visa = await team.by(PORTAL).documents.create("visa", "c-1")
    await team.by(PORTAL).documents.add_version(visa.id, content=PDF)
    assert len(await team.tasks()) == 1  # no extractor reads a visa


async def test_low_quality_rejects_by_rule_with_a_code_and_the_client_is_asked_again(
    compliance: Compliance,
) -> None:
    app = App()
    app.extractor("passport", reject_below=50)(lambda _: Extraction(quality_score=49.9))
    team = reader(compliance, app)
    await team.begin()
    requirement = (await team.requirements())["passport"]
    documents = team.by(PORTAL).documents
    document = await documents.create("passport", "c-1", requirement_id=requirement.id)
    await team.by(LEAD).requirements.get(requirement.id)
    version = await documents.add_version(document.id, content=PDF)
    await team.run()
    (found,) = (await team.by(VERA).documents.get(document.id)).versions
    assert (found.status, found.rejection_code, found.verified_by) == ("rejected", "LOW_RESOLUTION", "system")
    assert found.id == version.id
    entries = [row for row in await rows(team.database, "audit_log") if row["action"] == "document.reject"]
    assert [row["actor_id"] for row in entries] == ["system"]


async def test_a_problem_rejects_where_the_application_says_so(compliance: Compliance) -> None:
    app = App()
    app.extractor("passport", rejects=["PASSWORD_PROTECTED"])(read_file)
    team = reader(compliance, app)
    protected = await team.read(pdf_of(said("x"), password="geheim"))
    assert (protected.status, protected.rejection_code) == ("rejected", "PASSWORD_PROTECTED")
    corrupted = await team.read(PDF)
    assert (corrupted.status, corrupted.ocr_extracted["problem"]) == ("pending", "CORRUPTED")


async def test_what_is_reviewed_or_erased_before_it_was_read_stays_as_it_is(compliance: Compliance) -> None:
    app = App()
    app.extractor("passport", reject_below=50)(lambda _: Extraction("late", quality_score=1))
    team = reader(compliance, app)
    documents = team.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    reviewed = await documents.add_version(document.id, content=PDF)
    erased = await documents.add_version(document.id, content=PDF)
    await team.by(VERA).documents.verify(document.id, reviewed.id)
    await team.by(LEAD).documents.erase(document.id, erased.id, "asked to")
    await team.run()
    found = (await team.by(VERA).documents.get(document.id)).versions
    assert [(one.status, one.ocr_extracted, one.extracted_at) for one in found] == [
        ("pending", None, None),
        ("verified", None, None),
    ]


@pytest.mark.parametrize(
    "found",
    [
        Extraction(quality_score=101),
        Extraction(fields={"a": "x" * 70_000}),
        Extraction(fields={"a": float("nan")}),
        "text",
    ],
)
async def test_what_is_too_much_or_no_extraction_is_a_dead_letter(compliance: Compliance, found: Any) -> None:
    app = App()
    app.extractor("passport")(lambda _: found)
    team = reader(compliance, app)
    version = await team.read(PDF)
    assert version.extracted_at is None
    (job,) = await team.tasks()
    assert job["status"] == "dead"


def test_an_extractor_is_registered_once() -> None:
    app = App()
    app.extractor("passport")(read_file)
    with pytest.raises(Invalid, match="registered twice"):
        app.extractor("passport")(read_file)
