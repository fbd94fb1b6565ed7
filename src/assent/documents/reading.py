"""Reads what files are made of: the text of PDF, the size and the camera's notes of images, and the words of a picture.

It is run in a process of its own, for files come from outside (`bounded.py`). PDF and images take the extra `extract`;
the words of a picture take the program tesseract.
"""

import csv
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from assent.documents.bounded import BOUNDS, Bounds, OutOfBounds, run_bounded
from assent.documents.extraction import TEXT_CHARACTERS_MAX, Extraction, FileToRead
from assent.documents.files import HEAD_BYTES, type_of

PAGES_MAX: Final = 200
PIXELS_MAX: Final = 100_000_000
PIXELS_GOOD: Final = 2_000_000
"""A picture of a page with so many pixels or more has the score 100."""
NOTES: Final = {"DateTime": 306, "Make": 271, "Model": 272, "Software": 305, "Orientation": 274}
"""What is kept of EXIF; where a picture was taken is not."""
OCR_SECONDS: Final = 45


async def read_file(file: FileToRead | Path, bounds: Bounds = BOUNDS) -> Extraction:
    """Return what is in a file: an extractor, as `app.extractor("passport")(read_file)`, or of any path.

    A file that wants more than it may have, or that no library can read, has the problem `CORRUPTED`.
    """
    try:
        path = file if isinstance(file, Path) else file.path
        found = await run_bounded("assent.documents.reading:read", path, bounds)
    except (OutOfBounds, ValueError) as error:
        return Extraction(fields={"error": str(error)[:500]}, quality_score=0, problem="CORRUPTED")
    return Extraction(**found)


def read(path: Path) -> dict[str, Any]:
    """Return the fields of an `Extraction`."""
    with path.open("rb") as opened:
        kind = type_of(opened.read(HEAD_BYTES))
    if kind == "application/pdf":
        return _read_pdf(path)
    if kind.startswith("image/") and kind != "image/svg+xml":
        return _read_image(path)
    if kind == "text/plain":
        with path.open(encoding="utf-8", errors="replace") as words:
            return {"text": words.read(TEXT_CHARACTERS_MAX), "extraction_confidence": 100}
    return {"problem": "UNSUPPORTED_FORMAT"}


def _read_pdf(path: Path) -> dict[str, Any]:
    import pypdf  # noqa: PLC0415  a part of the extra `extract`

    reader = pypdf.PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        return {"problem": "PASSWORD_PROTECTED", "quality_score": 0}
    texts: list[str] = []
    for page in reader.pages[:PAGES_MAX]:
        texts.append(page.extract_text())
        if sum(map(len, texts)) > TEXT_CHARACTERS_MAX:
            break
    text = "\n".join(texts).strip()
    fields = {"pages": len(reader.pages)}
    return {"text": text[:TEXT_CHARACTERS_MAX], "fields": fields, "extraction_confidence": 100 if text else 0}


def _read_image(path: Path) -> dict[str, Any]:
    from PIL import Image  # noqa: PLC0415  a part of the extra `extract`

    Image.MAX_IMAGE_PIXELS = PIXELS_MAX // 2  # beyond twice as many it raises
    with Image.open(path) as image:
        width, height = image.size
        notes = image.getexif()
        fields = {"width": width, "height": height, "format": image.format}
        known = {name: str(notes[tag])[:200] for name, tag in NOTES.items() if tag in notes}
        image.load()  # a picture that breaks off raises
    found = {"fields": fields | ({"exif": known} if known else {})}
    quality = {"quality_score": min(100, round(100 * width * height / PIXELS_GOOD, 2))}
    return found | quality | (_read_words(path) if shutil.which("tesseract") else {})


def _read_words(path: Path) -> dict[str, Any]:
    """Return the words that tesseract sees in a picture, and how sure it is of them on average.

    A picture is no worse for a program that fails or takes too long: it has no words then.
    """
    command = ["tesseract", str(path), "stdout", "tsv"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=OCR_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return {}
    text = done.stdout.decode("utf-8", "replace")
    rows = [
        row
        for row in csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
        if (row.get("text") or "").strip()
    ]
    if not rows:
        return {"extraction_confidence": 0}
    sure = sum(float(row["conf"]) for row in rows) / len(rows)
    words = " ".join(row["text"] for row in rows)
    return {"text": words[:TEXT_CHARACTERS_MAX], "extraction_confidence": round(max(0.0, sure), 2)}
