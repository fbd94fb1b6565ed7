"""Names and types of files: what is declared, what was found, and what is served are three things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.documents.files import (
    ACTIVE_ENDINGS,
    ENDINGS,
    OCTETS,
    clean_name,
    disposition,
    served_name,
    served_type,
    type_of,
)

HTML = b"<!DOCTYPE html><html><script>fetch('/api/org')</script></html>"
SVG = b'<?xml version="1.0"?>\n<!-- a --><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("passport.pdf", "passport.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\cy\\..\\scan.png", "scan.png"),
        ("a/b/../", None),
        ("....//", None),
        (".htaccess", "htaccess"),
        ("scan\x00.pdf\r\nX-Evil: 1", "scan.pdfX-Evil_ 1"),
        ("gp\u202efdp.exe", "gpfdp.exe"),
        ("CON.txt", "_CON.txt"),
        ("nul", "_nul"),
        ("a" * 500 + ".pdf", "a" * 146 + ".pdf"),
        ("\u00a0 . ", None),
        ("\ud800.pdf", "pdf"),
        ("Päss 🛂.pdf", "Päss 🛂.pdf"),
        ("a<b>|c?.png", "a_b__c_.png"),
        ("%2e%2e%2fx", "_2e_2e_2fx"),
        (None, None),
    ],
)
def test_a_name_is_one_part_that_no_system_takes_for_a_command(given: str | None, kept: str | None) -> None:
    assert clean_name(given) == kept


@given(st.text(max_size=400))
def test_a_cleaned_name_is_clean_and_stays_as_it_is(text: str) -> None:
    name = clean_name(text)
    if name is None:
        return
    assert clean_name(name) == name
    assert 1 <= len(name) <= 151
    assert name.isprintable()
    assert not set(name) & set('/\\<>:"|?*%\x00')
    assert not name.startswith(".")
    header = disposition(name, OCTETS)
    assert header.isascii()
    assert header.isprintable()


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "application/pdf"),
        (b"%PDF-1.4\n1 0 obj <</Type /Catalog>> endobj", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01", "image/jpeg"),
        (HTML, "text/html"),
        (b"\n\n  <HTML>", "text/html"),
        (b"\xef\xbb\xbf<script>", "text/html"),
        ("\ufeff<html>".encode("utf-16-le"), "text/html"),
        (b"hello " * 100 + b"<iframe src=x>", "text/html"),
        (SVG, "image/svg+xml"),
        (b"<svg onload=alert(1)>", "image/svg+xml"),
        (b"just words, in UTF-8: \xc3\xa4", "text/plain"),
        (b"a;b\n1;2\n", "text/plain"),
        (b"\x00\x01\x02\x03 nothing that has a name", OCTETS),
    ],
)
def test_the_type_is_that_of_the_bytes(head: bytes, found: str) -> None:
    assert type_of(head) == found


@pytest.mark.parametrize(
    "declared", [HTML, SVG, b"MZ\x90\x00" + b"\0" * 60, b"\x7fELF" + b"\0" * 60, b"#!/bin/sh\n"]
)
def test_nothing_that_is_executed_is_served_as_what_it_is(declared: bytes) -> None:
    found = type_of(declared)
    assert served_type(found) in (OCTETS, "text/plain; charset=utf-8")
    for ending in (*ACTIVE_ENDINGS, ".png", ".pdf"):
        name = served_name(f"passport{ending}", found)
        assert not name.endswith((".html", ".svg", ".exe", ".sh", ".js", ".png", ".pdf", ".xml", ".hta"))


@pytest.mark.parametrize(
    ("name", "found", "served"),
    [
        ("scan.png", "image/png", "scan.png"),
        ("scan.PNG", "image/png", "scan.PNG"),
        ("scan.png", "application/pdf", "scan.png.pdf"),
        ("scan.html", "application/pdf", "scan.html.pdf"),
        ("scan.pdf", "text/html", "scan.pdf.bin"),
        ("scan.svg", "image/svg+xml", "scan.svg.bin"),
        ("report.docx", "application/zip", "report.docx"),
        (None, "image/jpeg", "document.jpg"),
        (None, OCTETS, "document"),
    ],
)
def test_a_file_is_saved_with_the_ending_of_its_type(name: str | None, found: str, served: str) -> None:
    assert served_name(name, found) == served


def test_what_is_served_as_itself_is_nothing_that_a_browser_executes() -> None:
    for kind in ENDINGS:
        assert not any(word in kind for word in ("html", "svg", "xml", "script", "octet"))
