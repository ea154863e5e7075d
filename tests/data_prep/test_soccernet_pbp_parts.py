"""The play-by-play filter's parts: splits, rates, features, networks, files."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from data_prep.soccernet import pbp_metrics as metrics
from data_prep.soccernet.pbp_data import Half, match_splits, random_split, read_halves
from data_prep.soccernet.pbp_features import Features, timing
from data_prep.soccernet.pbp_fit import ContextRecipe, Corpus, LstmRecipe, Recipes, fit
from data_prep.soccernet.pbp_model import (
    CONFIG,
    WEIGHTS,
    EmbedderId,
    PaperLstm,
    load,
    save,
    window_rows,
    with_zeros,
)
from data_prep.soccernet.pbp_text import TextSpace, grams, small_words, without_names
from data_prep.soccernet.transcript import Segment, find_transcripts
from tests.data_prep.pbp_halves import put_labels
from vlm_tsi.errors import UserError

TINY = Recipes(
    lstm=LstmRecipe(hidden=4, most_epochs=1), context=ContextRecipe(hidden=4, epochs=1, members=2)
)
EMBEDDER = EmbedderId("made-up", "0")
lengths = st.lists(st.integers(0, 40), min_size=1, max_size=5)
scored = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def as_arrays(pairs):
    scores, labels = zip(*pairs, strict=True)
    return np.array(scores), np.array(labels, dtype=bool)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = put_labels(tmp_path_factory.mktemp("labels"))
    halves, _ = read_halves(find_transcripts(root), root)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((sum(len(h.sentences) for h in halves), 6)).astype(np.float32)
    return Corpus(tuple(halves), vectors)


@given(scored, st.sampled_from([0.3, 0.5, 0.9]))
def test_rates_are_those_of_counting_by_hand(pairs, threshold):
    found = metrics.measured(*as_arrays(pairs), threshold)
    said = [(score >= threshold, label) for score, label in pairs]
    tp, fp, fn = (said.count(pair) for pair in ((True, True), (True, False), (False, True)))
    assert found["accuracy"] == pytest.approx(sum(a == b for a, b in said) / len(said), abs=1e-6)
    assert found["precision"] == pytest.approx(tp / (tp + fp) if tp + fp else 0, abs=1e-6)
    assert found["recall"] == pytest.approx(tp / (tp + fn) if tp + fn else 0, abs=1e-6)
    assert found["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn) if tp else 0, abs=1e-6)
    assert sum(found["confusion"].values()) == found["sentences"] == len(pairs)


@given(scored)
def test_calibration_error_is_that_of_bins_filled_by_hand(pairs):
    bins = [[] for _ in range(10)]
    for score, label in pairs:
        bins[min(int(score * 10), 9)].append((score, label))
    gaps = [abs(sum(s for s, _ in b) - sum(label for _, label in b)) for b in bins]
    found = metrics.calibration(*as_arrays(pairs))
    assert found["calibration_error"] == pytest.approx(sum(gaps) / len(pairs), abs=1e-5)
    assert math.isfinite(found["log_loss"])


def test_the_temperature_undoes_overconfidence_and_moves_no_decision():
    rng = np.random.default_rng(1)
    true = rng.uniform(0.02, 0.98, 20000)
    labels = rng.uniform(size=20000) < true
    bold = metrics.cooled(true, 0.5)
    assert metrics.best_temperature(bold, labels) == pytest.approx(2, abs=0.1)
    assert ((metrics.cooled(bold, 2.0) >= 0.5) == (bold >= 0.5)).all()


def test_matches_count_alike_in_the_mean_and_by_sentences_in_the_pool():
    all_right = (np.full(10, 0.9), np.ones(10, bool))
    half_right = (np.full(2, 0.9), np.array([True, False]))
    found = metrics.over_matches({"a": all_right, "b": half_right})
    assert found["accuracy"] == 0.75 and found["pooled"]["accuracy"] == round(11 / 12, 6)
    assert found["accuracy_sd"] == pytest.approx(0.5 / math.sqrt(2), abs=1e-6)
    assert found["by_match"]["b"]["confusion"]["false_positive"] == 1


@given(st.integers(0, 500), st.integers(0, 5))
def test_a_random_split_shares_out_every_sentence_once_70_15_15(count, seed):
    split = random_split(count, seed)
    parts = (split.train, split.valid, split.test)
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    for part, share in zip(parts, (0.7, 0.15, 0.15), strict=True):
        assert abs(len(part) - share * count) <= 1
    assert np.array_equal(split.test, random_split(count, seed).test)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1), st.integers(0, 9)
)
def test_a_match_is_left_out_with_all_its_halves_and_sentences(shape, seed):
    halves = [
        Half(f"{m}/{i}", m, tuple(Segment(t, t + 1, "x") for t in range(n)))
        for i, (m, n) in enumerate(shape)
    ]
    owner = [h.match for h in halves for _ in h.sentences]
    seen = []
    for split in match_splits(halves, seed):
        assert {owner[i] for i in split.test} == {split.name}
        parts = np.concatenate([split.train, split.valid, split.test])
        assert sorted(parts.tolist()) == list(range(len(owner)))
        seen += split.test.tolist()
    assert sorted(seen) == list(range(len(owner)))


@given(lengths)
def test_a_window_is_the_fourteen_before_in_its_half_zeros_on_the_left(shape):
    total, expected, first = sum(shape), [], 0
    for length in shape:
        for i in range(length):
            before = [first + j if j >= 0 else total for j in range(i - 14, i + 1)]
            expected.append(before)
        first += length
    assert window_rows(shape).tolist() == expected


def test_the_lstm_gives_the_numbers_of_torchs_own_two_layers():
    torch.manual_seed(0)
    ours, plain = (
        PaperLstm(5, hidden=3).eval(),
        nn.LSTM(5, 3, 2, batch_first=True, bidirectional=True),
    )
    parts = [("l0", ours.first, "l0"), ("l0_reverse", ours.first, "l0_reverse"),
             ("l1", ours.onward, "l0"), ("l1_reverse", ours.back, "l0")]  # fmt: skip
    for theirs, module, mine in parts:
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(plain, f"{name}_{theirs}").data = getattr(module, f"{name}_{mine}").data
    windows = torch.randn(4, 15, 5)
    expected = ours.out(plain(windows)[0][:, -1])[:, 0]
    assert torch.allclose(ours(windows), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Rooney to Di Maria, chance!", "NAME to NAME , chance !"),
        ("Goal! I'm sure.", "goal ! i'm sure ."),
        ("It is 4-0.", "it is NUM NUM ."),
        ("", ""),
    ],
)
def test_names_and_numbers_lose_their_identity(text, plain):
    assert without_names(text, small_words(["a goal", "it is"])) == plain


def test_players_of_a_new_match_look_like_those_that_were_learned_from():
    space = TextSpace.fit(["Abel to Bruno, out wide.", "Now Abel.", "we will now see"] * 5, 4)
    assert np.array_equal(space.of(["Abel to Bruno, now."]), space.of(["Xaver to Yorick, now."]))


def test_weights_of_ngrams_are_the_textbooks():
    sklearn_text = pytest.importorskip("sklearn.feature_extraction.text")
    plain = ["out to the left .", "out wide", "NAME to the left", "out", "left !"]
    reference = sklearn_text.TfidfVectorizer(
        analyzer=lambda t: list(grams(t)), min_df=3, sublinear_tf=True
    ).fit(plain)
    space = TextSpace.fit(["out to the left.", "out wide", "Abel to the left", "out", "left!"], 2)
    assert list(space.terms) == reference.get_feature_names_out().tolist()
    assert np.allclose(space._weights(plain).toarray(), reference.transform(plain).toarray())


def test_gaps_at_the_edges_are_five_seconds_and_times_may_touch():
    rows = timing((Segment(0, 2, "Out wide!"), Segment(2, 2, "Offside?")))
    assert rows[0, 3] == pytest.approx(math.log(6)) == rows[1, 4]
    assert rows[0, 4] == rows[1, 3] == 0 and np.isfinite(rows).all()
    assert rows[:, 5].tolist() == [1, 0] and rows[:, 6].tolist() == [0, 1]


def test_paired_differences_are_those_of_hand_counting():
    right, wrong = np.array([0.9, 0.1]), np.array([0.1, 0.1])
    labels = np.array([True, False])
    ours = {"a": (right, labels), "b": (right, labels), "c": (wrong, labels)}
    theirs = {"a": (wrong, labels), "b": (right, labels), "c": (wrong, labels)}
    found = metrics.paired(ours, theirs)
    assert found["by_match"] == {"a": 0.5, "b": 0.0, "c": 0.0}
    assert found["mean"] == pytest.approx(1 / 6, abs=1e-6)
    assert found["sd"] == pytest.approx(0.288675, abs=1e-6)
    assert found["standard_error"] == pytest.approx(0.288675 / 3**0.5, abs=1e-6)


@pytest.mark.parametrize("kind", ["context", "lstm"])
def test_labels_and_words_of_a_match_left_out_leave_no_trace(corpus, kind):
    split = list(match_splits(corpus.halves, 0))[1]
    turned = tuple(
        Half(h.name, h.match, tuple(Segment(s.start, s.end, "ZZZ!", is_pbp=not s.is_pbp)
                                    for s in h.sentences))
        if h.match == split.name else h
        for h in corpus.halves
    )  # fmt: skip
    other = Corpus(
        turned, np.where(np.isin(np.arange(240), split.test)[:, None], 9, corpus.embeddings_ND)
    )
    first, second = (fit(kind, c, split, EMBEDDER, 0, TINY) for c in (corpus, other))
    for mine, theirs in zip(first.members, second.members, strict=True):
        weights = zip(mine.state_dict().values(), theirs.state_dict().values(), strict=True)
        assert all(torch.equal(a, b) for a, b in weights)
    assert np.array_equal(first.scores(corpus.halves[0], corpus.embeddings_ND[:40]),
                          second.scores(corpus.halves[0], corpus.embeddings_ND[:40]))  # fmt: skip


@pytest.mark.parametrize("kind", ["context", "lstm"])
def test_test_labels_of_a_random_split_leave_no_trace(corpus, kind):
    split = random_split(240, 3)
    flags = np.isin(np.arange(240), split.test)
    turned, at = [], 0
    for half in corpus.halves:
        segments = [Segment(s.start, s.end, s.text, is_pbp=bool(s.is_pbp ^ flags[at + i]))
                    for i, s in enumerate(half.sentences)]  # fmt: skip
        turned.append(Half(half.name, half.match, tuple(segments)))
        at += len(segments)
    other = Corpus(tuple(turned), corpus.embeddings_ND)
    assert (other.labels != corpus.labels).sum() == len(split.test)
    first, second = (c.scores(fit(kind, c, split, EMBEDDER, 0, TINY)) for c in (corpus, other))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("kind", ["context", "lstm"])
def test_a_saved_classifier_scores_as_before(corpus, kind, tmp_path):
    trained = fit(kind, corpus, random_split(240, 0), EMBEDDER, 0, TINY).cooled(1.5)
    save(tmp_path, trained, {})
    assert np.array_equal(corpus.scores(load(tmp_path)), corpus.scores(trained))
    other = tmp_path / "again"
    other.mkdir()
    save(other, load(tmp_path), {})
    assert (other / WEIGHTS).read_bytes() == (tmp_path / WEIGHTS).read_bytes()


@pytest.mark.parametrize("spoil", ["cut", "text", "gone", "config", "other", "list"])
def test_a_damaged_classifier_is_one_line(corpus, spoil, tmp_path):
    save(tmp_path, fit("context", corpus, random_split(240, 0), EMBEDDER, 0, TINY), {})
    weights, config = tmp_path / WEIGHTS, tmp_path / CONFIG
    if spoil == "cut":
        weights.write_bytes(weights.read_bytes()[:2000])
    elif spoil == "text":
        weights.write_text("no tensors")
    elif spoil == "gone":
        weights.unlink()
    elif spoil == "config":
        config.write_text(config.read_text().replace('"words"', '"wards"'))
    elif spoil == "other":
        config.write_text('{"format": 2, "model_type": "bert"}')
    else:
        config.write_text("[1]")
    with pytest.raises(UserError, match="train"):
        load(tmp_path)


@given(st.integers(1, 30))
def test_scores_of_a_half_do_not_depend_on_padding_or_others(count):
    assume(count)
    torch.manual_seed(0)
    lstm, vectors = PaperLstm(3, hidden=2).eval(), np.ones((count, 3), np.float32)
    alone = lstm(with_zeros(vectors)[torch.from_numpy(window_rows([count]))])
    both = lstm(with_zeros(np.tile(vectors, (2, 1)))[torch.from_numpy(window_rows([count, count]))])
    assert torch.allclose(both[count:], alone, atol=1e-6)


def test_features_know_their_size_and_survive_their_file(corpus):
    features = Features.fit(corpus.halves, corpus.embeddings_ND, np.arange(100))
    rows = features.of(corpus.halves[5], corpus.embeddings_ND[200:])
    again = Features.from_parts(features.arrays(), features.words())
    assert rows.shape == (40, features.size) and rows.dtype == np.float32
    assert np.array_equal(again.of(corpus.halves[5], corpus.embeddings_ND[200:]), rows)
