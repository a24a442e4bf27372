"""robots.txt by FTP (RFC 9309, 2.3), in crawls of a real server by Scrapy's own handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import Serial, crawl
from tests.support.ftp_site import PASSWORD, USER, ftp_site, scripted, talker
from tests.support.site import PAGE, Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

ACCOUNT = {"ftp_user": USER, "ftp_password": PASSWORD}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two pages and a robots.txt that disallows one of them."""
    (tmp_path / "robots.txt").write_bytes(b"User-agent: *\nDisallow: /closed\n")
    (tmp_path / "open").write_bytes(b"open")
    (tmp_path / "closed").write_bytes(b"closed")
    return tmp_path


@ensureDeferred
async def test_ftp_pages_are_judged_by_the_robots_txt_of_their_server(folder: Path) -> None:
    """2.3: the file is at ftp://authority/robots.txt; it is fetched once, and its rules count."""
    with ftp_site(folder) as site:
        done = await crawl([site.url("/open"), site.url("/closed")])
        assert done.outcomes[site.url("/open")] == 200
        assert done.dropped(site.url("/closed")).why == "robots.txt line 2: Disallow: /closed"
        assert sorted(site.retrieved) == ["/open", "/robots.txt"]
    assert (done.stat("request_count"), done.stat("response_status_count/200")) == (1, 1)


@ensureDeferred
async def test_server_without_the_file(folder: Path) -> None:
    """2.3.1.3: "no such file" (550) means unavailable."""
    (folder / "robots.txt").unlink()
    with ftp_site(folder) as site:
        done = await crawl([site.url("/closed")])
        assert done.outcomes[site.url("/closed")] == 200
    assert done.stat("result/unavailable") == 1


@ensureDeferred
async def test_the_account_of_the_page_is_used_for_its_server(folder: Path, tmp_path: Path) -> None:
    """The user and password of a page are used on its host, but not its local file name."""
    local = tmp_path / "local"
    with ftp_site(folder, anonymous=False) as site:
        meta = {**ACCOUNT, "ftp_local_filename": str(local).encode()}
        done = await crawl(
            [Request(site.url("/open"), meta=meta), Request(site.url("/closed"), meta=ACCOUNT)]
        )
        assert done.outcomes[site.url("/open")] == 200
        assert done.dropped(site.url("/closed")).why == "robots.txt line 2: Disallow: /closed"
    assert local.read_bytes() == b"open"


@pytest.mark.parametrize("wrong", [{**ACCOUNT, "ftp_password": "wrong"}, {}], ids=["wrong", "none"])
@ensureDeferred
async def test_a_login_that_fails_closes_its_own_route_only(
    folder: Path, wrong: dict[str, str]
) -> None:
    """Pages with a working account are judged by the file, even if another account failed."""
    with ftp_site(folder, anonymous=False) as site:
        metas = {"/1": wrong, "/2": wrong, "/open": ACCOUNT, "/closed": ACCOUNT}
        pages = [Request(site.url(path), meta=meta) for path, meta in metas.items()]
        done = await crawl(pages, spider=Serial)
        assert done.outcomes[site.url("/open")] == 200
        assert done.dropped(site.url("/closed")).why == "robots.txt line 2: Disallow: /closed"
        assert "the FTP server answered 530 " in done.dropped(site.url("/1")).why
        logins = [command for command in site.commands if command.startswith("USER")]
        assert logins == [f"USER {wrong.get('ftp_user', 'anonymous')}", *[f"USER {USER}"] * 2]


@pytest.mark.parametrize(("user", "sent"), [(None, "anonymous"), (5, "5")])
@ensureDeferred
async def test_a_user_that_is_no_text(folder: Path, user: object, sent: str) -> None:
    """A user of None counts as absent, and other values as their text."""
    with ftp_site(folder) as site:
        done = await crawl(
            [Request(site.url("/closed"), meta={"ftp_user": user, "ftp_password": 7})]
        )
        assert "robots.txt " in done.dropped(site.url("/closed")).why
        assert site.commands[:2] == [f"USER {sent}", "PASS 7"]
    assert done.stat("result/local") == 0


@ensureDeferred
async def test_a_long_file_is_cut_off(folder: Path) -> None:
    """The transfer ends at the limit (2.5)."""
    lines = b"User-agent: *\nDisallow: /closed\n" + b"#" * 64_000_000 + b"\nDisallow: /open\n"
    (folder / "robots.txt").write_bytes(lines)
    with ftp_site(folder) as site:
        done = await crawl([site.url("/open"), site.url("/closed")])
        assert done.outcomes[site.url("/open")] == 200
        assert done.dropped(site.url("/closed")).why == "robots.txt line 2: Disallow: /closed"
        assert site.left.wait(20)
    assert done.stat("truncated") == 1


@ensureDeferred
async def test_endless_reply() -> None:
    """A server whose reply does not end is disconnected, and unreachable."""
    with talker(b"220-\r\n", b"220-still greeting\r\n" * 1000) as address:
        done = await crawl([f"{address}/open"], {"ROBOTS_TIMEOUT": 20})
        assert done.dropped(f"{address}/open").why == "robots.txt unreachable: connection reset"


@ensureDeferred
async def test_silent_server() -> None:
    """The pages of a silent server wait until ROBOTS_TIMEOUT."""
    with talker(b"220 welcome\r\n") as address:
        done = await crawl([f"{address}/open"], {"ROBOTS_TIMEOUT": 0.3})
        assert done.dropped(f"{address}/open").why == "robots.txt unreachable: no answer in 0.3 s"


@pytest.mark.parametrize(
    "target",
    ["/closed%2Fx", "//closed/x", "/a%2F..//closed/x", "/x.txt?a", "/x.txt;type=i", "/%78.txt"],
)
@ensureDeferred
async def test_a_page_is_judged_by_the_path_that_the_server_gets(folder: Path, target: str) -> None:
    """Scrapy's handler sends another path than the URL has, and both must be allowed (2.2.2)."""
    (folder / "robots.txt").write_bytes(b"User-agent: *\nDisallow: /closed/\nDisallow: /*.txt$\n")
    with ftp_site(folder) as site:
        done = await crawl([site.url(target)])
        assert "robots.txt line " in done.dropped(site.url(target)).why
        assert site.retrieved == ["/robots.txt"]


FULL = b"User-agent: *\n" * 30_000


@pytest.mark.parametrize(
    ("replies", "sent", "cause"),
    [
        ({}, FULL, "connection reset"),
        ({"PASV": b"227 here (127,0,0,1,0,9)"}, b"", "connection refused"),
        ({"PASV": b"502 no passive mode"}, b"", "the FTP server answered 502 no passive mode"),
        ({"RETR": b"600 what"}, b"", "the FTP server answered 600 what"),
        # 550 means "no such file" only before the transfer begins (RFC 959, 5.4).
        ({"RETR": b"150 yes\r\n550 read error"}, b"", "the FTP server answered 550 read error"),
        ({"RETR": b"550 read error"}, FULL, "the FTP server answered 550 read error"),
    ],
)
@ensureDeferred
async def test_a_transfer_that_fails(replies: dict[str, bytes], sent: bytes, cause: str) -> None:
    """A transfer that fails means unreachable (2.3.1.4), and the reason says in words why."""
    with scripted(replies, sent, reset=not replies) as address:
        done = await crawl([f"{address}/open"])
        why = done.dropped(f"{address}/open").why
        assert why == f"robots.txt unreachable: {cause}"


@ensureDeferred
async def test_a_setting_lets_ftp_pages_pass(folder: Path) -> None:
    """Pages of a scheme that ROBOTS_SCHEMES removes pass, and are counted."""
    with ftp_site(folder) as site:
        done = await crawl([site.url("/closed")], {"ROBOTS_SCHEMES": {"ftp": None}})
        assert done.outcomes[site.url("/closed")] == 200
        assert site.retrieved == ["/closed"]
    assert (done.stat("exempted"), done.stat("request_count")) == (1, 0)


@ensureDeferred
async def test_a_redirect_from_http_to_ftp_is_not_followed(folder: Path, site: Site) -> None:
    """A redirect to FTP counts as one without a Location (2.3.1.2)."""
    with ftp_site(folder) as other:
        site.replies = {
            "/robots.txt": Reply(301, headers=(("Location", other.url("/robots.txt")),)),
            "/closed": PAGE,
        }
        done = await crawl([site.url("/closed")])
        assert done.outcomes[site.url("/closed")] == 200
        assert other.commands == []


@ensureDeferred
async def test_a_proxy_of_the_environment_is_not_the_cause(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scrapy's FTP handler uses no proxy, so the reason names none."""
    monkeypatch.setenv("ftp_proxy", "http://127.0.0.1:9")
    with ftp_site(folder, anonymous=False) as site:
        done = await crawl([site.url("/open")])
        assert "through proxy" not in done.dropped(site.url("/open")).why


@ensureDeferred
async def test_tdmrep_is_not_asked_for_by_ftp(folder: Path) -> None:
    """tdmrep.json is requested only by HTTP."""
    settings = {"ROBOTS_USE": ["tdm"]}
    with ftp_site(folder) as site:
        done = await crawl([site.url("/open")], settings)
        assert done.outcomes[site.url("/open")] == 200
        assert site.retrieved == ["/robots.txt", "/open"]


@ensureDeferred
async def test_the_account_of_the_settings_is_used(folder: Path) -> None:
    """FTP_USER and FTP_PASSWORD are used for pages without an account."""
    with ftp_site(folder, anonymous=False) as site:
        done = await crawl([site.url("/closed")], {"FTP_USER": USER, "FTP_PASSWORD": PASSWORD})
        assert done.dropped(site.url("/closed")).why == "robots.txt line 2: Disallow: /closed"
