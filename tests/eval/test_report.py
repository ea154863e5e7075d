"""The report: one well-formed page, nothing outside it, every text escaped and present."""

import re
from html.parser import HTMLParser

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from eval.picture import timeline_png
from eval.report_data import COLUMNS, Interval, Report, Sweep, VideoView
from eval.report_layout import clock, split_colours, stack_rows, ticks_of
from eval.report_page import report_html, write_report
from eval.report_tables import score_table
from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Generated, Utterance

EVIL = "<script>alert('x')</script> & \"q\""
VOID = {"meta", "img", "br", "hr", "path", "polyline", "input"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps text, tags and attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def says(self, text):
        flat = " ".join("".join(self.text).split())
        return " ".join(text.split()) in flat

    @property
    def titles(self):
        return [value for name, value in self.attributes if name == "title"]


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    path = tmp_path_factory.mktemp("v") / "clip.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for i in range(50):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 5 * i, np.uint8))
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return str(path)


def view(path, texts=("the red lamp", EVIL), **more):
    reference = [Utterance("assistant", t, i, i + 1.5, eval=True) for i, t in enumerate(texts)]
    said = [Generated("v", i, i + 2, f"said {t}") for i, t in enumerate(texts)]
    pairs = {"tsi": [(i, i) for i in range(len(texts) // 2)], "turn_based": []}
    lanes = {"tsi": said, "turn_based": said[:1]}
    return VideoView(f"v{EVIL}", path, 10.0, reference, lanes, pairs, (1.0, 9.0), **more)


def full_run(views):
    scores = {s: {c: 50.0 + i for c in COLUMNS} for i, s in enumerate(("tsi", EVIL))}
    return Report(
        title=f"T{EVIL}",
        scores={"signals": scores, EVIL: scores},
        differences={"signals": {"trace": Interval(3, 1, 5), "f1": Interval(0, -1, 1)}, EVIL: {}},
        by_kind={"signals": {"bent": scores, EVIL: scores}},
        sweeps={EVIL: Sweep([(0.5, scores["tsi"]), (0.725, scores["tsi"])], 0.725)},
        seeds={EVIL: {"signals": scores}},
        videos=views,
        curves={
            EVIL: {"tsi": [(0, 1.0), (1, float("nan")), (2, 0.5)], EVIL: [(0, 1.0)]},
            "none": {},
        },
        commands=[f"make {EVIL}"],
        versions={EVIL: EVIL},
        seconds={EVIL: 1.5},
        embedder=EVIL,
        notes=[EVIL],
    )


def test_a_full_page_is_self_contained_escaped_and_complete(video, tmp_path):
    run = full_run([view(video)])
    assert write_report(tmp_path / "deep" / "report.html", run) == []
    text = (tmp_path / "deep" / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?://|url\(|@import|<link|<script", text)
    assert "script" not in page.tags
    assert all(v.startswith("data:image/jpeg;base64,") for n, v in page.attributes if n == "src")
    assert page.tags.count("img") >= 2
    for utterance in (*run.videos[0].reference, *run.videos[0].lanes["tsi"]):
        assert page.says(utterance.text)
        assert any(utterance.text in title for title in page.titles)
    for piece in ("make demo"[:5], "0.725", "chosen", "+3.0", "+1.0 to +5.0", "1.5 s", EVIL):
        assert page.says(piece)


def test_an_empty_run_and_a_silent_video(video):
    Page(report_html(Report(scores={}))[0])
    silent = VideoView("v", video, 10.0, [], {"tsi": [], "turn_based": []})
    page = Page(report_html(Report(scores={}, videos=[silent]))[0])
    assert page.says("Nothing was said.")


def test_five_hundred_utterances_and_a_very_long_text(video):
    texts = [f"utterance number {i}" for i in range(500)] + ["long " * 4000]
    text, _ = report_html(Report(scores={}, videos=[view(video, texts)]))
    page = Page(text)
    assert all(page.says(t) for t in texts)


def test_a_missing_video_gives_a_placeholder_and_a_note(tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    run = Report(scores={}, videos=[view("/none/clip.mp4"), view(str(broken))])
    text, notes = report_html(run)
    assert len(notes) == 2 and "clip.mp4" in notes[0]
    page = Page(text)
    assert page.says("video not readable") and page.says(notes[0])


def test_no_place_to_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        write_report(tmp_path / "file" / "report.html", Report(scores={}))


def test_the_best_is_bold_and_what_is_missing_is_a_dash():
    table = score_table(
        {"w": {"a": {"trace": 10.04, "f1": 1.0}, "b": {"trace": 10.0, "f1": float("nan")}}}
    )
    assert table.count("<b>10.0</b>") == 2, "equal as printed: both best"
    assert table.count("–") == 1 and "nan" not in table


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (Interval(3, 1, 5), "TSI is better"),
        (Interval(-3, -5, -1), "TSI is worse"),
        (Interval(3, -1, 7), "No clear difference"),
    ],
)
def test_the_lead_says_no_more_than_the_interval_allows(gap, words):
    run = Report(scores={"w": {"tsi": {"trace": 1.0}}}, differences={"w": {"trace": gap}})
    assert Page(report_html(run)[0]).says(words)


def test_times():
    assert [clock(t) for t in (0, 59.96, 65, 3600)] == ["0:00", "1:00", "1:05", "1:00:00"]
    assert clock(65.34, with_tenths=True) == "1:05.3"
    assert ticks_of(10, 3) == [0.0, 5.0, 10.0]
    assert len(ticks_of(1e6, 9000)) < 120


def test_colour_words_are_found_and_the_text_is_kept():
    pieces = split_colours("Red light, not coloured; blue.")
    assert [p for p, c in pieces if c] == ["Red", "blue"]
    assert "".join(p for p, _ in pieces) == "Red light, not coloured; blue."


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 9)), max_size=25))
def test_bars_of_one_row_never_overlap(spans):
    spans = [(s, s + d) for s, d in spans]
    rows = stack_rows(spans)
    for row in set(rows):
        mine = sorted(s for s, r in zip(spans, rows, strict=True) if r == row)
        assert all(a[1] <= b[0] for a, b in zip(mine, mine[1:], strict=False))


@pytest.mark.parametrize("path", ["clip", "/none.mp4"])
def test_the_png(video, tmp_path, path):
    note = timeline_png(tmp_path / "t.png", view(video if path == "clip" else path))
    assert (note is None) == (path == "clip")
    picture = Image.open(tmp_path / "t.png")
    assert picture.width == 2400 and picture.height > 500
    assert len(picture.getcolors(1 << 24)) > 20


def test_the_png_of_nothing_and_of_much(video, tmp_path):
    timeline_png(tmp_path / "a.png", VideoView("v", video, 10.0, [], {}))
    timeline_png(tmp_path / "b.png", view(video, ["x" * 3000, *(f"word {i}" for i in range(100))]))
