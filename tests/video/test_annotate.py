"""Captions burnt in: where they show, when they show, what stays as it was."""

from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image

from vlm_tsi.errors import UserError
from vlm_tsi.timeline import Generated, Word
from vlm_tsi.video.annotate import (
    annotate,
    caption_font,
    draw_captions,
    output_size,
    wrap,
)


def make(path, times, width=64, height=48):
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 90_000)
        for t in times:
            frame = av.VideoFrame.from_ndarray(np.full((height, width, 3), 90, np.uint8))
            frame.pts, frame.time_base = round(t * 90_000), Fraction(1, 90_000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def read(path):
    with av.open(str(path)) as video:
        frames = [(f.time, f.to_ndarray(format="rgb24")) for f in video.decode(video=0)]
        return [t for t, _ in frames], [p for _, p in frames], len(video.streams.audio)


def whiteness(picture):
    return int((picture.min(axis=2) > 200).sum())


def g(start, end, text="the red lamp is on"):
    return Generated("v", start, end, text)


def test_the_caption_shows_from_start_to_end_and_times_are_kept(tmp_path):
    times = [0.0, 0.4, 0.5, 1.1, 1.9, 2.0, 2.75]
    video = make(tmp_path / "in.mp4", times)
    assert annotate(video, [g(0.5, 2.0)], tmp_path / "out.mp4") == len(times)
    got, pictures, num_audio = read(tmp_path / "out.mp4")
    assert got == pytest.approx(times, abs=1e-3)
    assert [whiteness(p) > 50 for p in pictures] == [0.5 <= t < 2.0 for t in times]
    assert pictures[0].shape == (240, 320, 3)
    assert num_audio == 0


def test_word_by_word(tmp_path):
    video = make(tmp_path / "in.mp4", [0.0, 1.0, 2.0, 3.0])
    words = [(Word("red", 1.0, 1.5), Word("lamp", 2.0, 2.5))]
    annotate(video, [g(1.0, 3.0, "red lamp")], tmp_path / "out.mp4", words)
    a, b, c, d = map(whiteness, read(tmp_path / "out.mp4")[1])
    assert a == d == 0
    assert 0 < b < c


def test_a_zero_length_caption_can_be_seen(tmp_path):
    video = make(tmp_path / "in.mp4", [0.0, 0.3, 1.0])
    annotate(video, [g(0.1, 0.1)], tmp_path / "out.mp4")
    assert [whiteness(p) > 0 for p in read(tmp_path / "out.mp4")[1]] == [False, True, False]


def test_overlapping_captions_are_both_shown():
    picture = np.zeros((240, 320, 3), np.uint8)
    one = np.asarray(draw_captions(picture, (320, 240), ["first"]))
    two = np.asarray(draw_captions(picture, (320, 240), ["first", "second"]))
    assert whiteness(two) > whiteness(one) > 0


@pytest.mark.parametrize("size", [(1, 1), (7, 300), (320, 180), (1921, 1081)])
@pytest.mark.parametrize("text", ["hi", "word " * 300, "x" * 500, "привет 日本 Füße"])
def test_any_size_and_text(size, text):
    out = output_size(*size)
    picture = draw_captions(np.zeros((size[1], size[0], 3), np.uint8), out, [text])
    assert isinstance(picture, Image.Image) and picture.size == out
    assert out[0] >= 320 and out[0] % 2 == out[1] % 2 == 0
    assert whiteness(np.asarray(picture)) > 10


def test_wrapped_lines_fit_and_keep_the_words():
    font = caption_font(16)
    text = "one two three four five " * 5 + "w" * 80
    lines = wrap(text, font, 150)
    assert max(font.getlength(line) for line in lines) <= 150
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert wrap("  ", font, 150) == []


def test_bad_inputs_leave_nothing_behind(tmp_path):
    video = make(tmp_path / "in.mp4", [0.0, 0.5])
    with pytest.raises(UserError, match="itself"):
        annotate(video, [], video)
    with pytest.raises(UserError, match=r"\.mp4"):
        annotate(video, [], tmp_path / "out.txt")
    with pytest.raises(UserError):
        annotate(tmp_path / "none.mp4", [], tmp_path / "out.mp4")
    with pytest.raises(ValueError, match="entries"):
        annotate(video, [g(0, 1)], tmp_path / "out.mp4", words=[])
    assert [p.name for p in tmp_path.iterdir()] == ["in.mp4"]
