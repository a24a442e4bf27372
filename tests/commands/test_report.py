"""`scrapy robots report`.

What is read, what it adds up to, what is printed about files that are not whole; exit codes.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command_line import on_terminal, run
from tests.support.reports import FEW, crawl, exempt, exported, record, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command_copies import Done

    OriginPolicy = Callable[..., Done]

pytestmark = pytest.mark.once

CRAWL = crawl()


@pytest.fixture
def summed(robots: OriginPolicy, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Sums up octets as JSON, with nothing on stderr."""

    def sums(octets: bytes, *arguments: str) -> dict[str, Any]:
        made, done = sums_of(robots, tmp_path, octets, *arguments)
        assert done.err == ""
        return made

    return sums


def sums_of(
    robots: OriginPolicy, folder: Path, octets: bytes, *arguments: str
) -> tuple[dict[str, Any], Done]:
    """The sums of octets, and how the command ended."""
    (folder / "report").write_bytes(octets)
    done = robots("report", str(folder / "report"), "--json", *arguments)
    assert done.code == 0
    return json.loads(done.out), done


# What it adds up to.


def test_requests_are_counted_by_reason_origin_and_rule(
    summed: Callable[..., dict[str, Any]],
) -> None:
    """Requests are counted by reason, origin and rule, in order.

    Exempt ones stand apart.
    """
    sums = summed(exported(CRAWL))
    asked = [item for item in CRAWL if item["reason"] != "exempt"]
    assert sums["requests"] == len(asked)
    for kind, field in (("by_reason", "reason"), ("by_origin", "origin")):
        counts = Counter(item[field] for item in asked)
        assert {entry[field]: entry["requests"] for entry in sums[kind]} == counts
        assert [entry["requests"] for entry in sums[kind]] == sorted(counts.values(), reverse=True)
    rules = Counter((r["origin"], r["line"], r["rule"], r["token"]) for r in asked if r["rule"])
    assert {
        (e["origin"], e["line"], e["rule"], e["token"]): e["requests"] for e in sums["by_rule"]
    } == rules
    assert sums["unreachable"] == [
        {"why": "503", "requests": 42},
        {"why": "no answer in 30 s", "requests": 22},
    ]
    assert sums["exempt"] == [
        {"entry": "*.staging.example", "requests": 41},
        {"entry": "intranet.example", "requests": 12},
    ]


def test_passwords_are_left_out(summed: Callable[..., dict[str, Any]]) -> None:
    """What may be a password in a URL gets into no sum."""
    sums = summed(
        exported(
            [record(url="https://me:secret@a.example/x", origin="https://me:sec\x1bret@a.example")]
        )
    )
    assert "ret@" not in json.dumps(sums)
    assert sums["by_rule"][0]["origin"] == "https://a.example"
    why = "robots.txt unreachable: no answer from proxy http://me:secret@a.example:1"
    sums = summed(exported([record(reason="unreachable", why=why)]))
    assert sums["unreachable"][0]["why"] == "no answer from proxy http://***@a.example:1"


def test_requests_of_a_dry_run_are_counted_apart(robots: OriginPolicy, tmp_path: Path) -> None:
    """It says how many requests were let through all the same."""
    (tmp_path / "r").write_bytes(exported([record(dry_run=True, count=2), record()]))
    done = robots("report", str(tmp_path / "r"))
    assert "  dry run    2 of them were let through all the same" in done.lines


def test_what_counts_most_is_listed(robots: OriginPolicy, tmp_path: Path) -> None:
    """What counts most is listed, and how much else there is: ten in the text, 1,000 as JSON."""
    records = [record(origin=f"https://{number}.example") for number in range(1001)]
    (tmp_path / "r").write_bytes(exported(records))
    done = robots("report", str(tmp_path / "r"))
    heads = [line for line in done.lines if line and not line.startswith(" ")]
    rules = "by rule: origin, line, rule, token (10 of 1,001)"
    assert heads[1:] == ["by reason", "by origin (10 of 1,001)", rules]
    sums = json.loads(robots("report", str(tmp_path / "r"), "--json").out)
    assert len(sums["by_origin"]) == 1000
    assert {name: more for name, more in sums["more"].items() if more} == {
        "by_origin": 1,
        "by_rule": 1,
    }


# What is read.


@pytest.mark.parametrize(
    "octets",
    [
        b"\xef\xbb\xbf" + exported(FEW),
        b"\n\n" + exported(FEW),
        exported(FEW).replace(b"\n", b"\r\n\r\n"),
        exported(FEW).removesuffix(b"\n"),
    ],
    ids=["byte order mark", "blank lines", "more of them", "no last line end"],
)
def test_other_line_ends_make_no_difference(
    octets: bytes, summed: Callable[..., dict[str, Any]]
) -> None:
    """Line ends and a byte order mark, which an editor may have put there, make no difference."""
    assert summed(octets) == summed(exported(FEW))


def test_a_file_that_a_second_crawl_went_on_with_is_read_to_its_end(
    summed: Callable[..., dict[str, Any]],
) -> None:
    """A file that a second crawl went on with is read to its end.

    Scrapy appends to files by default.
    """
    assert summed(exported(FEW) + exported(FEW))["requests"] == 6


@pytest.mark.parametrize(
    "fields",
    [["rule", "origin"], ["why", "time"], ["count", "reason"], ["robots_url", "spider", "token"]],
)
def test_fields_left_out_leave_others_counted(
    fields: list[str], summed: Callable[..., dict[str, Any]]
) -> None:
    """Fields that are left out, or stand in another order, leave the others counted."""
    sums = summed(exported(FEW[:3], fields))
    assert sums["requests"] == 3
    reasons = {entry["reason"]: entry["requests"] for entry in sums["by_reason"]}
    known = {"rule": 2, "unreachable": 1} if "reason" in fields else {"rule": 2, "not given": 1}
    assert reasons == (known if {"rule", "reason"} & set(fields) else {"not given": 3})


@pytest.mark.parametrize("octets", [b"", b" \n"])
def test_a_report_without_records_is_none_that_failed(
    octets: bytes, robots: OriginPolicy, tmp_path: Path
) -> None:
    """A report without records is none that failed: nothing was disallowed."""
    (tmp_path / "r").write_bytes(octets)
    done = robots("report", str(tmp_path / "r"))
    assert (done.code, done.err, done.lines[0]) == (0, "", "no request was disallowed")


# What is not whole.


def test_a_file_that_breaks_off_is_summed_up_to_there(robots: OriginPolicy, tmp_path: Path) -> None:
    """Of a file that breaks off within a record, the rest is summed up, and one line says so."""
    sums, done = sums_of(robots, tmp_path, exported([record(), record()])[:-100])
    assert sums["requests"] == 1
    found = [sums[key] for key in ("file", "records", "broken")]
    assert found == [str(tmp_path / "report"), 1, 1]
    assert done.err.count("\n") == 1
    assert "; all else is summed up" in done.err


def test_broken_lines_are_counted_and_left_out(robots: OriginPolicy, tmp_path: Path) -> None:
    """Broken lines are counted, and all else is summed up."""
    lines = exported([record()] * 4).splitlines(keepends=True)
    lines[-3], lines[-1] = b'{"time": 2026\n', b"oops\n"
    sums, done = sums_of(robots, tmp_path, b"".join(lines))
    assert sums["requests"] == 2
    assert "report: 2 broken records left out; all else is summed up" in done.err


def test_records_of_another_kind_are_left_out(robots: OriginPolicy, tmp_path: Path) -> None:
    """Objects of another kind among the records are left out as broken ones."""
    sums, done = sums_of(robots, tmp_path, exported([record()]) + b'{"title": "x"}\n')
    assert sums["requests"] == 1
    assert "1 broken record left out" in done.err


def test_broken_standard_input_is_called_by_its_name(robots: OriginPolicy) -> None:
    """What is printed about standard input calls it so, and not by its sign.

    In JSON it stands as on the command line.
    """
    done = robots("report", "-", "--json", stdin=exported([record()]).decode() + "{\n")
    assert done.err.startswith("scrapy robots report: standard input: 1 broken record left out; ")
    assert json.loads(done.out)["file"] == "-"
    assert (
        "report: standard input is no report of ROBOTS_REPORT: "
        in robots("report", "-", stdin="x").err
    )


# The streams and files of the command.


def test_standard_input_is_a_file_like_others(tmp_path: Path) -> None:
    """Standard input is a file like others, and called by its name; the exit code is 0."""
    done = run("report", "-", "--html", "r.html", folder=tmp_path, stdin=exported(FEW))
    assert (done.code, done.err) == (0, "")
    assert done.lines[:2] == ["3 requests disallowed", "  file       standard input (4 records)"]
    assert '"file": "standard input"' in (tmp_path / "r.html").read_text()


def test_exit_code_says_whether_there_was_a_report(tmp_path: Path) -> None:
    """The exit code is 0 where nothing was disallowed, too, and 2 where there is nothing to sum
    up.
    """
    assert run("report", "-", folder=tmp_path).code == 0
    for name in ("nothere", "."):
        done = run("report", name, folder=tmp_path)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_an_output_that_is_closed_is_no_failure_and_a_full_one_is(tmp_path: Path) -> None:
    """Whoever has seen enough of the output is no failure; no room for it is one."""
    (tmp_path / "r").write_bytes(exported(FEW))
    ours, its = os.pipe()
    os.close(ours)
    done = run("report", "r", folder=tmp_path, stdout=its)
    os.close(its)
    assert (done.code, done.err) == (0, "")
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = run("report", "r", folder=tmp_path, stdout=full.fileno())
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the output cannot be written: No space left on device" in done.err


def test_a_page_is_written_beside_the_text(tmp_path: Path) -> None:
    """The page appears beside the text, with the permissions of a new file, and takes the place
    of an earlier one.
    """
    (tmp_path / "r").write_bytes(exported(FEW))
    (tmp_path / "new").touch()
    (tmp_path / "r.html").write_text("earlier")
    done = run("report", "r", "--html", "r.html", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == "3 requests disallowed"
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    mode = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("r.html", "new")]
    assert mode[0] == mode[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "r", "r.html"]


def test_colour_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal there is colour, but not with NO_COLOR, and nothing is cut off."""
    long = [
        record(
            rule=f"Disallow: /{'long/' * 40}",
            origin=f"https://{'a' * 60}.example",
        )
    ]
    (tmp_path / "r").write_bytes(exported(long))
    plain = on_terminal("report", "r", folder=tmp_path, NO_COLOR="1", COLUMNS="60")
    painted = on_terminal("report", "r", folder=tmp_path, COLUMNS="60")
    assert "\x1b[1m1 request disallowed" in painted.out
    assert re.sub(r"\x1b\[\d+m", "", painted.out) == plain.out
    assert any(line.endswith(f"  2  Disallow: /{'long/' * 40}  *") for line in plain.lines)
    assert "\x1b" not in run("report", "r", folder=tmp_path).out


def test_no_terminal_acts(robots: OriginPolicy, tmp_path: Path) -> None:
    """Nothing in a report reaches a terminal as it is."""
    evil = "\x1b[2J\u202e\x07\ud800\r\n"
    fields = dict.fromkeys(("spider", "url", "origin", "token", "reason", "rule", "why"), evil)
    (tmp_path / "r").write_bytes(exported([record(**fields), unreachable(evil), exempt(evil, 1)]))
    done = robots("report", str(tmp_path / "r"))
    assert (done.code, done.err) == (0, "")
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(done.out)
    assert done.out.count("\\x1b[2J\\u202e\\x07\\ud800\\r\\n") >= 5
