"""Subtitles parsed back give what was said, when it was said."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_tsi.streaming.subtitles import MAX_LINE, to_srt, to_vtt
from vlm_tsi.timeline import Generated

STAMP = r"(\d{2,}):([0-5]\d):([0-5]\d)[,.](\d{3})"
CUE = re.compile(rf"(\d+)\n{STAMP} --> {STAMP}\n((?:.+\n)+)(?:\n|\Z)")


def g(start, end, text):
    return Generated("v", start, end, text)


def seconds(h, m, s, ms):
    return int(h) * 3600 + int(m) * 60 + int(s) + int(ms) / 1000


def parse(text):
    """(start, end, lines) of each cue; everything must belong to a cue."""
    body = text.removeprefix("WEBVTT\n").removeprefix("\n")
    cues = list(CUE.finditer(body))
    assert "".join(c.group(0) for c in cues) == body
    assert [int(c[1]) for c in cues] == list(range(1, len(cues) + 1))
    return [
        (seconds(*c.groups()[1:5]), seconds(*c.groups()[5:9]), c[10].splitlines()) for c in cues
    ]


def said(lines, is_vtt):
    text = " ".join(lines)
    return html.unescape(text) if is_vtt else text.replace("\u2060", "")


BOTH = pytest.mark.parametrize("to", [to_srt, to_vtt])


@BOTH
def test_times_and_order(to):
    cues = parse(to([g(5, 6.5, "b"), g(1.0004, 7, "a"), g(5, 5, "zero")]))
    assert cues == [(1.0, 7, ["a"]), (5, 5.001, ["zero"]), (5, 6.5, ["b"])]


@BOTH
def test_more_than_a_day_and_rounding_up(to):
    assert parse(to([g(90000, 3600 * 123, "x")]))[0][:2] == (90000, 3600 * 123)
    assert "00:01:00" in to([g(59.9999, 61, "x")])


@BOTH
def test_nothing(to):
    assert parse(to([g(1, 2, "  ")])) == []
    assert to([]) == ("WEBVTT\n" if to is to_vtt else "")


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "<i>red & blue</i>",
        "a --> b",
        "{\\an8}top",
        "Füße 日本語 привет 🔴",
        "NOTE this",
        "2 00:00:01,000 --> 00:00:02,000 x",
        "WEBVTT",
        "&lt;b&gt;",
    ],
)
def test_texts_come_back(to, text):
    out = to([g(1, 2, text)])
    ((_, _, lines),) = parse(out)
    assert said(lines, to is to_vtt) == text
    assert out.count("-->") == 1
    assert not re.search(r"<[A-Za-z/]", out)


@BOTH
def test_long_lines_are_wrapped_and_breaks_are_spaces(to):
    ((_, _, lines),) = parse(to([g(1, 2, "word " * 40 + "\n\n1\r\n" + "x" * 100)]))
    assert len(lines) > 4
    assert max(map(len, lines)) <= MAX_LINE


@BOTH
def test_broken_characters_do_not_break_the_file(to):
    out = to([g(1, 2, "a\x00b \x1b\ufffd c")])
    assert parse(out)[0][2] == ["ab \ufffd c"]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e4), st.text(max_size=200)), max_size=6))
def test_anything_parses(utterances):
    generated = [g(s, s + d, t) for s, d, t in utterances]
    for to in (to_srt, to_vtt):
        for start, end, lines in parse(to(generated)):
            assert start < end and all(lines)
