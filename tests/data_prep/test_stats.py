"""Table 1 of any timelines."""

import json

import pytest

from data_prep import stats
from vlm_tsi.timeline import Timeline, Utterance, write_timelines


def said(text, start, end, is_scored=False, role="assistant", **meta):
    return Utterance(role, text, start, end, is_scored, meta=meta)


TURNS = (
    said("one two", 0, 1),
    said("a b c", 2, 4, True),
    said("yes", 3, 5, role="user"),
    said("d", 8, 9, True),
    said("not", 10, 11),
    said("e f", 20, 21, True),
)
WHOLE = Timeline("v", "v.mp4", 30.0, TURNS)


def by_count(found):
    return {row.count: row for row in found}


def test_window_counts_from_first_to_last_scored_and_history_all_before():
    found = by_count(stats.rows("f", [WHOLE], lambda text: len(text.split())))
    window, history = found["window"], found["history"]
    assert window.size == history.size == 2 and window.scored == 1.5
    assert window.utterances == (3 + 1) / 2 and history.utterances == (4 + 6) / 2
    assert window.tokens == (3 + 1 + 1 + 2) / 4
    assert window.gap == ((3 - 4) + (8 - 5)) / 2  # overlap counts as a negative gap
    assert history.gap == pytest.approx((1 - 1 + 3 + 1 - 1 + 3 + 1 + 9) / 8)


def test_a_user_turn_splits_where_asked_for():
    assert stats.rows("f", [WHOLE], len, split_at_user=True)[0].size == 3


def test_turns_that_name_their_cluster_are_taken_at_their_word():
    turns = (said("a", 0, 1, True, cluster=0), said("x", 1, 2), said("b", 2, 3, True, cluster=0))
    (point,) = stats.points_of(Timeline("v", "", 9.0, turns))
    assert point.meta["window"] == [0, 3] and len(point.utterances) == 3


def test_datapoints_are_counted_as_they_are():
    window = Timeline("v#0", "", 30.0, TURNS[:4], meta={"window": [2, 9]})
    assert by_count(stats.rows("f", [window], len))["window"].utterances == 3


def test_nothing_scored_gives_zeros_not_a_crash():
    assert by_count(stats.rows("f", [Timeline("v", "", 1.0)], len))["history"].gap == 0.0


def test_the_command_prints_and_writes_rows_for_each_file(tmp_path, capsys):
    path, out = tmp_path / "t.jsonl", tmp_path / "s.json"
    write_timelines(path, [WHOLE])
    assert stats.main([str(path), str(path), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "16,487" in told and "1,761" in told
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 4 and rows[0]["tokens"] == pytest.approx(1.3 * 7 / 4)
    assert rows[0]["tokens_with_marks"] == pytest.approx(1.3 * 7 / 4 + 4)


def test_tokens_by_a_tokenizer(tmp_path):
    from data_prep.tokenizer import word_tokenizer
    from vlm_tsi.sequence.tokens import TokenSpec

    word_tokenizer(["one two"], TokenSpec()).save_pretrained(tmp_path / "tok")
    length = stats.token_lengths(str(tmp_path / "tok"))
    assert length("one two two") == 3 == length("one two two")


def test_a_tokenizer_that_is_not_there_is_one_line(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    write_timelines(path, [WHOLE])
    assert stats.main([str(path), "--tokenizer", str(tmp_path / "none")]) == 2
    (tmp_path / "empty").mkdir()
    assert stats.main([str(path), "--tokenizer", str(tmp_path / "empty")]) == 2
    assert "name another tokenizer" in capsys.readouterr().err
