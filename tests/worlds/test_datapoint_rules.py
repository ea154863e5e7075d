"""HoloAssist's two ways to choose scored turns, and to cut them into datapoints."""

from hypothesis import given
from hypothesis import strategies as st

from vlm_tsi.timeline import Timeline, Utterance
from vlm_tsi.worlds.datapoints import INTERACTION_BEGINS, INTERACTION_ENDS, datapoints, mark_eval

REPLY = "instructor-reply-to-student_correct the wrong action"
FOLLOW_UP = "instructor-start-conversation_follow-up instruction"
QUESTION = "student-start-conversation_ask questions"
OTHER = "instructor-start-conversation_other"
NAMES = {
    "I": INTERACTION_BEGINS,
    "C": INTERACTION_ENDS,
    "R": REPLY,
    "f": FOLLOW_UP,
    "o": OTHER,
    "q": QUESTION,
}


def dialogue(letters: str, step: float = 20) -> list[Utterance]:
    """One turn a letter, each one second long."""
    return [
        Utterance(
            "user" if c == "q" else "assistant", "w", step * k, step * k + 1,
            meta={"purpose": NAMES[c]},
        )
        for k, c in enumerate(letters)
    ]  # fmt: skip


def marks(letters: str, rules: str, step: float = 20) -> str:
    return "".join("x" if u.eval else "." for u in mark_eval(dialogue(letters, step), rules))


def test_paper_interactions_go_from_an_instruction_to_a_correction():
    assert marks("oIoqfoCo", "paper") == "." + "xx.xxx" + "."
    assert marks("IoIoC", "paper") == "..xxx"  # the last instruction before it
    assert marks("IoCoC", "paper") == "xxxxx"  # a second correction of the same instruction


def test_paper_interactions_need_both_ends():
    assert marks("fooC", "paper") == "...."  # a follow-up begins none
    assert marks("IooR", "paper") == "...."  # a reply ends none
    assert marks("oCIo", "paper") == "...."


def test_released_rules_take_any_instruction_any_correction_and_ten_seconds_after():
    assert marks("IofoC", "released") == "..xxx"
    assert marks("ooR", "released") == "xxx"  # back to the beginning
    assert marks("ICoo", "released", step=6) == "xxxx"[:3] + "."
    assert marks("ICqo", "released", step=4) == "xx.x"


def windows(letters: str, *, split_at_user: bool) -> list[list[float]]:
    turns = mark_eval(dialogue(letters), "paper")
    whole = Timeline("v", "v.mp4", 1000, turns)
    return [d.meta["window"] for d in datapoints(whole, split_at_user=split_at_user)]


def test_a_user_turn_splits_a_run_only_where_asked_for():
    assert windows("IoqC", split_at_user=False) == [[0, 61]]
    assert windows("IoqC", split_at_user=True) == [[0, 21], [60, 61]]


def reference(letters: str) -> str:
    """Every pair of an instruction and a correction with no instruction between."""
    marked = ["."] * len(letters)
    for j, last in enumerate(letters):
        for i in range(j):
            if last == "C" and letters[i] == "I" and "I" not in letters[i + 1 : j]:
                marked[i : j + 1] = ["." if c == "q" else "x" for c in letters[i : j + 1]]
    return "".join(marked)


@given(st.text("ICRfoq", max_size=12))
def test_paper_rule_is_its_obvious_reference(letters):
    assert marks(letters, "paper") == reference(letters)


@given(st.text("ICRfoq", max_size=12), st.booleans())
def test_datapoints_hold_each_scored_turn_once_with_all_that_was_said_before(letters, split):
    turns = mark_eval(dialogue(letters), "paper")
    points = datapoints(Timeline("v", "v.mp4", 1000, turns), split_at_user=split)
    scored = [u.start for d in points for u in d.utterances if u.eval]
    assert scored == [u.start for u in turns if u.eval]
    for d in points:
        assert [u.start for u in d.utterances] == [u.start for u in turns[: len(d.utterances)]]
