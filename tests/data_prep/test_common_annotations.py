"""Reading published annotation files and the odd values in them."""

import gzip
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.common import annotations as ann
from vlm_tsi.errors import UserError


def test_json_and_gzip_are_told_apart_by_content(tmp_path):
    plain, packed = tmp_path / "a.json.gz", tmp_path / "b.json"
    plain.write_bytes(b"\xef\xbb\xbf[1]")
    packed.write_bytes(gzip.compress(b"[1]"))
    assert ann.read_annotation_file(plain) == ann.read_annotation_file(packed) == [1]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (gzip.compress(b"[1, 2, 3]" * 99)[:-20], "cut short or broken"),
        (gzip.compress(b"[1]")[:5], "cut short or broken"),
        (b"\x1f\x8bnot gzip at all", "cut short or broken"),
        (b'[\n{"a": 1},\n{', ":3: not JSON"),
        (b"[\xff]", "is not UTF-8"),
        (b"", ":1: not JSON"),
        pytest.param(b"[" * 200_000, "nested too deeply", id="deep"),
    ],
)
def test_a_broken_file_is_one_line(raw, told, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=told) as caught:
        ann.read_annotation_file(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="gone.json"):
        ann.read_annotation_file(tmp_path / "gone.json")


@pytest.mark.parametrize("value", [None, "1", True, [], math.nan, math.inf, 10**400])
def test_what_is_no_finite_number_is_no_time(value):
    assert ann.seconds(value) is None
    assert ann.span(value, 1, "w").problem == ann.span(1, value, "w").problem == ann.NO_TIME


def test_spans_are_mended_by_name():
    assert ann.span(5, 4, "five words said right here").end == 5 + 5 / 2.5
    assert ann.span(5, 4, "w").repairs == (ann.REVERSED,)
    assert ann.span(-1, 4, "w") == ann.Span(0, 4, repairs=(ann.NEGATIVE_START,))
    assert ann.span(-2, -1, "w").problem == ann.BEFORE_ZERO
    assert ann.span(1, 2.5, "w") == ann.Span(1, 2.5)


def test_texts_are_mended_by_name():
    assert ann.words(" a\n b").text == "a b"
    assert ann.words("\ud800 a").repairs == (ann.BROKEN_CHARACTER,)
    assert ann.words("  ").problem == ann.EMPTY_TEXT
    assert ann.words(["a"]).problem == ann.NO_TEXT
    assert ann.words("a b") == ann.Words("a b")


numbers = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2))


@given(numbers, numbers, st.text(max_size=20))
def test_any_span_is_refused_or_fits_a_timeline(start, end, text):
    found = ann.span(start, end, text)
    fits = 0 <= found.start <= found.end < math.inf
    assert found.problem or fits


@given(st.text(st.characters(codec=None, categories=None), max_size=20))
def test_any_text_is_refused_or_fits_a_file(text):
    found = ann.words(text)
    assert found.problem or found.text.strip()
    json.dumps(found.text, ensure_ascii=False).encode()


def test_video_paths_are_told_from_the_timelines(tmp_path):
    assert ann.video_path(None, "v.mp4", tmp_path) == "v.mp4"
    assert ann.video_path(str(tmp_path / "raw"), "v.mp4", tmp_path / "out") == "../raw/v.mp4"
