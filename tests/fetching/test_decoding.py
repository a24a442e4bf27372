"""Content codings of a robots.txt are decoded within limits, and broken data allow nothing."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import without_codings
from tests.support.crawling import crawl
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = b"User-agent: *\nDisallow: /x\n"
LIMIT = 1000


def raw_deflate(data: bytes) -> bytes:
    """Compress with deflate, without the zlib wrapper."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def brotli(data: bytes) -> bytes:
    """Compress with brotli, if Scrapy has it, at a quality that servers use for dynamic pages."""
    compressed: bytes = pytest.importorskip("brotli", minversion="1.2").compress(data, quality=5)
    return compressed


def zstd(data: bytes) -> bytes:
    """Compress with zstd, if Scrapy has it."""
    compressed: bytes = pytest.importorskip("backports.zstd").compress(data)
    return compressed


CODINGS: list[tuple[bytes, Callable[[bytes], bytes]]] = [
    (b"gzip", gzip.compress),
    (b"x-gzip", gzip.compress),
    (b"GZip ", gzip.compress),
    (b"deflate", zlib.compress),
    (b"deflate", raw_deflate),
    (b"br", brotli),
    (b"zstd", zstd),
]
each_coding = pytest.mark.parametrize(("coding", "compress"), CODINGS)


@each_coding
def test_every_coding_of_scrapy_is_undone(
    coding: bytes, compress: Callable[[bytes], bytes]
) -> None:
    """RFC 9110, 8.4: every coding that Scrapy's downloader knows is decoded."""
    assert without_codings(compress(TEXT), [coding], LIMIT) == TEXT


@each_coding
def test_bomb_stays_within_bounds(coding: bytes, compress: Callable[[bytes], bytes]) -> None:
    """Section 3: a body that decompresses to 5 MB is decoded up to the limit."""
    bomb = compress(b"#" * 5_000_000)
    assert without_codings(bomb, [coding], LIMIT) == b"#" * LIMIT


@each_coding
def test_truncated_stream_counts_up_to_the_limit_only(
    coding: bytes, compress: Callable[[bytes], bytes]
) -> None:
    """2.5: a truncated stream counts if it reaches the limit. Otherwise the missing part might
    disallow something.
    """
    data = b"".join(b"Disallow: /%d\n" % (n * n * 7919) for n in range(20_000))
    whole = compress(data)
    half = whole[: len(whole) // 2]
    assert without_codings(half, [coding], LIMIT) == data[:LIMIT]
    with pytest.raises(DecodingError):
        without_codings(half, [coding], 10**6)


@given(named=st.sampled_from(CODINGS), many=st.integers(0, 400), limit=st.integers(500, 6000))
def test_body_of_several_parts_is_whole(
    named: tuple[bytes, Callable[[bytes], bytes]], many: int, limit: int
) -> None:
    """A body of one or two parts is decoded as a whole, up to the limit."""
    coding, compress = named
    data = b"".join(b"Disallow: /%d\n" % (n * n * 7919) for n in range(many))
    half = len(data) // 2 if coding.strip().lower() in (b"gzip", b"zstd") else len(data)
    body = compress(data[:half]) + (compress(data[half:]) if half < len(data) else b"")
    assert without_codings(body, [coding], limit) == data[:limit]


def test_too_long_for_what_it_gives() -> None:
    """Section 3: a coded body that is much longer than the limit and decodes to less is an error,
    in any stage.
    """
    long = gzip.compress(TEXT) + gzip.compress(b"")[:10] + b"\0\0\0\xff\xff" * LIMIT
    for body, codings in ((long, [b"gzip"]), (zlib.compress(long), [b"gzip, deflate"])):
        with pytest.raises(
            DecodingError, match="more than 4000 bytes of gzip data for so short a file"
        ):
            without_codings(body, codings, LIMIT)


def test_padding_after_gzip_data() -> None:
    """RFC 1952: padding after gzip data is ignored, and a broken second member is an error."""
    assert without_codings(gzip.compress(TEXT) + bytes(100), [b"gzip"], LIMIT) == TEXT
    with pytest.raises(DecodingError):
        without_codings(gzip.compress(TEXT) + gzip.compress(TEXT)[:-12], [b"gzip"], LIMIT)


@each_coding
def test_broken_from_the_start(coding: bytes, compress: Callable[[bytes], bytes]) -> None:
    """2.3.1.4: data in another format are an error."""
    with pytest.raises(DecodingError):
        without_codings(b"\xff\xffUser-agent: *", [coding], LIMIT)


@each_coding
def test_missing_data(coding: bytes, compress: Callable[[bytes], bytes]) -> None:
    """2.3.1.4: an empty body is not the compressed form of an empty file, so it is an error."""
    assert without_codings(compress(b""), [coding], LIMIT) == b""
    name = coding.decode().strip().lower()
    with pytest.raises(DecodingError, match=f"^the {name} data is missing$"):
        without_codings(b"", [coding], LIMIT)


@pytest.mark.parametrize(("coding", "compress"), [(b"gzip", gzip.compress), (b"zstd", zstd)])
def test_thousands_of_empty_parts(coding: bytes, compress: Callable[[bytes], bytes]) -> None:
    """Section 3: the number of parts is limited, too, because empty parts never reach the limit."""
    with pytest.raises(DecodingError, match="parts"):
        without_codings(compress(b"") * 10_000, [coding], LIMIT)


@pytest.mark.parametrize("codings", [[], [b"gzip"], [b"none"], [b"deflate"]])
@pytest.mark.parametrize("times", [1, 2])
def test_gz_file_with_any_header(codings: list[bytes], times: int) -> None:
    """A .gz file is unpacked, with the coding of its transfer or without one."""
    file = TEXT
    for _ in range(times):
        file = gzip.compress(file)
    compress = dict(CODINGS).get(codings[0] if codings else b"", bytes)
    assert without_codings(compress(file), codings, LIMIT) == TEXT
    with pytest.raises(DecodingError):
        without_codings(compress(file[:-12]), codings, LIMIT)


def test_gzip_inside_gzip_stays_within_bounds() -> None:
    """Nested data are unpacked up to the limit; deeper nesting is an error."""
    bomb = gzip.compress(gzip.compress(b"#" * 50_000_000))
    for codings in ([], [b"gzip"]):
        assert without_codings(bomb, codings, LIMIT) == b"#" * LIMIT
    nested = gzip.compress(gzip.compress(gzip.compress(gzip.compress(TEXT))))
    with pytest.raises(DecodingError, match="gzip data inside gzip data"):
        without_codings(nested, [b"gzip"], LIMIT)


def test_several_codings_are_undone_in_reverse() -> None:
    """RFC 9110, 8.4: codings are decoded in reverse order, from one header or several."""
    body = zlib.compress(gzip.compress(TEXT))
    assert without_codings(body, [b"gzip, deflate"], LIMIT) == TEXT
    assert without_codings(body, [b"gzip", b"deflate"], LIMIT) == TEXT
    assert (
        without_codings(gzip.compress(TEXT) + gzip.compress(b"Disallow: /y\n"), [b"gzip"], LIMIT)
        == TEXT + b"Disallow: /y\n"
    )


@pytest.mark.parametrize("codings", [[b"compress"], [b"gzip, nonsense"], [b"gzip"] * 5])
def test_unknown_codings_are_an_error(codings: list[bytes]) -> None:
    """2.3.1.4: an unknown coding is an error, and so are too many codings."""
    with pytest.raises(DecodingError):
        without_codings(gzip.compress(TEXT), codings, LIMIT)


@pytest.mark.parametrize(
    "name",
    ["", " , ", "identity", "none", "binary", "UTF-8", "utf8", "iso-8859-1", "latin1", "us-ascii"],
)
def test_body_without_a_coding_is_cut_at_the_limit(name: str) -> None:
    """A body whose Content-Encoding names no coding is read as it is, up to the limit."""
    codings = [name.encode()]
    assert without_codings(TEXT, codings, LIMIT) == TEXT
    assert without_codings(TEXT, codings, 4) == b"User"


@given(body=st.binary(max_size=200), coding=st.sampled_from([b"gzip", b"deflate", b"br", b"zstd"]))
def test_any_octets_give_a_bounded_result_or_an_error(body: bytes, coding: bytes) -> None:
    """Section 3: any bytes have a result within the limit or raise `DecodingError`."""
    with contextlib.suppress(DecodingError):
        assert len(without_codings(body, [coding], LIMIT)) <= LIMIT


@pytest.mark.parametrize(
    ("coding", "compress", "expected", "enabled"),
    [
        ("gzip", gzip.compress, "rule", True),
        ("gzip", gzip.compress, "rule", False),
        ("none", bytes, "rule", True),
        ("br", brotli, "rule", True),
        ("zstd", zstd, "rule", False),
        ("gzip", lambda text: gzip.compress(text)[:-12], "unreachable", True),
        ("rot13", bytes, "unreachable", False),
    ],
)
@ensureDeferred
async def test_crawl_reads_a_compressed_robots_txt(
    site: Site, coding: str, compress: Callable[[bytes], bytes], expected: str, enabled: bool
) -> None:
    """A compressed robots.txt is obeyed, with HttpCompressionMiddleware and without it."""
    site.replies["/robots.txt"] = Reply(
        body=compress(TEXT), headers=(("Content-Encoding", coding),)
    )
    result = await crawl([site.url("/x")], {"COMPRESSION_ENABLED": enabled})
    assert result.verdicts() == [expected]


@pytest.mark.parametrize(("status", "expected"), [(200, "unreachable"), (204, 200), (205, 200)])
@ensureDeferred
async def test_status_without_a_body(site: Site, status: int, expected: object) -> None:
    """RFC 9110, 15.3.5 and 15.3.6: after 204 and 205 nothing is missing, whatever the headers say.

    Everything is allowed.
    """
    site.replies["/robots.txt"] = Reply(status, headers=(("Content-Encoding", "gzip"),))
    result = await crawl([site.url("/x")])
    assert result.verdicts() == [expected]


@ensureDeferred
async def test_body_of_an_error_page_does_not_count(site: Site) -> None:
    """2.3.1.3: a 404 counts even if its body cannot be decoded."""
    site.replies["/robots.txt"] = Reply(404, b"not gzip", headers=(("Content-Encoding", "gzip"),))
    result = await crawl([site.url("/x")])
    assert result.outcomes[site.url("/x")] == 200


COLOURS = b'<meta name="color-scheme" content="light dark">'
STYLE = b'<link rel="stylesheet" href="resource://content-accessible/plaintext.css">'


@pytest.mark.parametrize(
    "page",
    [
        b"<html><head>"
        + COLOURS
        + b'</head><body><pre style="white-space: pre-wrap;">%s</pre></body></html>',
        b"<html><head>" + STYLE + b"</head><body><pre>%s</pre></body></html>",
        b"<html><head></head><body>%s</body></html>\n",
        b"<html><head></head><body><pre>%s",
    ],
    ids=["Chromium", "Firefox", "as HTML", "cut off"],
)
def test_text_that_a_browser_shows_is_read_as_text(page: bytes) -> None:
    """A page that a browser made of a text is read as that text, so that its first line counts."""
    text = b"User-agent: *\nDisallow: /a&b<\nDisallow: /\xff"
    shown = text.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
    assert without_codings(page % shown, [], LIMIT) == text


@pytest.mark.parametrize(
    "text",
    [b"User-agent: a&#10;Allow: /", b"Disallow: /x&copy=1", b"Disallow: /&#" + b"9" * 5000 + b";"],
    ids=len,
)
def test_only_what_a_browser_escapes_is_undone(text: bytes) -> None:
    """Other character references are not decoded: none becomes a line end, and none raises."""
    page = b"<html><head></head><body><pre>%s</pre></body></html>"
    assert without_codings(page % text, [], 10_000) == text


@pytest.mark.parametrize("tag", [b"html", b"body", b"pre"])
def test_rule_within_a_tag_is_not_lost(tag: bytes) -> None:
    """A rule inside a tag counts: browsers do not write line ends into tags."""
    page = b"<html><head></head><body><pre>".replace(
        b"<%s" % tag, b"<%s\nUser-agent: *\nDisallow: /\n" % tag
    )
    assert b"\nUser-agent: *\nDisallow: /\n" in without_codings(page, [], LIMIT)


@pytest.mark.parametrize(
    "page",
    [b"<html><head><title>x</title></head><body><pre>a</pre>", b"a<html><head></head><body><pre>b"],
)
def test_other_pages_are_left_alone(page: bytes) -> None:
    """2.3.1.5: any other page is read as it is."""
    assert without_codings(page, [], LIMIT) == page


@ensureDeferred
async def test_rules_that_a_browser_shows_are_obeyed(site: Site) -> None:
    """A crawl obeys the first line of such a page."""
    site.replies["/robots.txt"] = Reply(body=b"<html><head></head><body><pre>" + TEXT)
    pages = [site.url("/x"), site.url("/y")]
    assert (await crawl(pages)).verdicts(*pages) == ["rule", 200]
