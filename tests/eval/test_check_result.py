"""CI's look at a demo's scores: in range, consistent, and of something that was said."""

import pytest

from scripts.check_result import NAMES, check
from vlm_tsi.errors import UserError

GOOD = dict.fromkeys(NAMES, 50.0)


def test_good_scores_pass():
    check(GOOD, "here")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"f1": 0.0}, "f1.*nothing that was said was matched"),
        ({"recall": 101.0}, "recall"),
        ({"s_end": None}, "s_end"),
        ({"trace": 49.0}, "not the mean of its parts"),
    ],
)
def test_bad_scores_are_named(change, told):
    scores = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    with pytest.raises(UserError, match=told):
        check(scores, "here")
