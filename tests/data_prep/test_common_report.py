"""Reports: every record has a fate, and the counts add up."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.common.report import Tally, print_report, write_report


def test_a_report_tells_every_fate_with_its_reason(tmp_path):
    segments, files = Tally("segment"), Tally("file")
    segments.keep(2)
    segments.keep_mended(["merged", "sorted", "merged"], "a.json")
    segments.drop("empty text", "b.json")
    segments.note("key is no number", "b.json: eleven")
    files.keep()
    write_report(tmp_path / "report.json", "import-echoes", [segments, files], {"seed": 0})
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["read"] == report["kept"] + sum(report["dropped"].values()) == 4
    assert report["repaired"] == {"merged": 1, "sorted": 1} and report["repaired_records"] == 1
    assert report["examples"]["empty text"] == ["b.json"]
    assert report["also"] == {
        "file": {"read": 1, "kept": 1, "repaired_records": 0, "repaired": {}, "dropped": {},
                 "noted": {}}
    }  # fmt: skip


def test_counts_that_do_not_add_up_are_refused():
    tally = Tally("segment")
    tally.read = 1
    with pytest.raises(AssertionError, match="do not add up"):
        tally.to_dict()


fates = st.lists(st.tuples(st.sampled_from("krdn"), st.sampled_from(["x", "y"])))


def tally_of(events):
    tally = Tally("record")
    for fate, reason in events:
        if fate == "k":
            tally.keep()
        elif fate == "r":
            tally.keep_mended([reason, "z"], "p")
        elif fate == "d":
            tally.drop(reason, "q")
        else:
            tally.note(reason)
    return tally


@given(fates, fates)
def test_tallies_of_two_files_add_up_to_that_of_both(a, b):
    both = tally_of(a)
    both.add(Tally.from_dict(tally_of(b).to_dict()))
    whole = tally_of(a + b).to_dict()
    assert both.to_dict() == whole
    assert max(whole["repaired"].values(), default=0) <= whole["repaired_records"] <= whole["kept"]


def test_the_table_names_units_and_reasons(capsys):
    tally = Tally("event")
    tally.keep(2)
    tally.drop("unintelligible")
    print_report([tally])
    printed = capsys.readouterr().out
    assert "events" in printed and "unintelligible" in printed and "3" in printed
