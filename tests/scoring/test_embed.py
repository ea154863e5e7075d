"""Embedders: which one is found, the cache, and the paper's printed similarities."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.reference.hash_embedder import hash_embed
from vlm_tsi.errors import UserError
from vlm_tsi.scoring import embed
from vlm_tsi.scoring.embed import SentenceEmbedder, find_embedder
from vlm_tsi.scoring.trace_score import score
from vlm_tsi.timeline import Generated, Utterance

WEIGHTS = Path(__file__).resolve().parents[2] / "weights"

PRINTED = [
    ("Here's Milner.", "Oh, it's a kind bounce off Milner now for Dani Alves.", 0.796),
    ("Sanchez.", "Sanchez again.", 0.916),
    ("Iniesta.", "Iniesta.", 1.000),
    (
        "Another decent ball played in, but once again, the offside flag up.",
        "It's offside again.",
        0.878,
    ),
    (
        "Here's Matic.",
        "Here's Matic, he's closed down quickly there by Roberto Firmino, "
        "didn't have the time that he thought he'd got.",
        0.819,
    ),
    ("Here's Costa.", "Costa.", 0.904),
    ("Sergio Aguero.", "It's Aguero!", 0.859),
    ("Now please turn on the camera.", "Please turn on the camera.", 0.952),
    (
        "I'll repeat. We will now detach the lens cover.",
        "The next step is to detach the lens cover.",
        0.846,
    ),
    ("Go ahead and press that button.", "Go and click that.", 0.752),
    (
        "That's the one! Now, adjust the shift arm on the mounting peg. "
        "Make sure it's securely attached.",
        "Yeah, you want to attach that onto, mmmm the mounting peg.",
        0.724,
    ),
    (
        "You're doing great! Keep going.",
        "Yeah, you want to attach that onto, mmmm the mounting peg.",
        0.506,
    ),
]
"""Appendix E, the pairs printed whole: generated, ground truth, semantic score.

With typographic apostrophes they come out differently; with straight ones as printed.
"""


@pytest.fixture(scope="module")
def mpnet() -> SentenceEmbedder:
    folder = WEIGHTS / "all-mpnet-base-v2"
    if not (folder / "model.safetensors").is_file():
        pytest.skip("weights/all-mpnet-base-v2 is not there: run `make weights`")
    return SentenceEmbedder(folder)


def test_appendix_e_semantic_scores(mpnet):
    refs = {str(k): [Utterance("assistant", ref, 0, 1)] for k, (_, ref, _) in enumerate(PRINTED)}
    gens = {str(k): [Generated(str(k), 0, 1, gen)] for k, (gen, *_) in enumerate(PRINTED)}
    result = score(refs, gens, mpnet)
    got = {pair.gen_text: pair.semantic for pair in result.pairs}
    assert got == {gen: pytest.approx(printed, abs=0.0015) for gen, _, printed in PRINTED}


def test_a_texts_vector_does_not_depend_on_its_place(mpnet):
    texts = ["red lamp", "a much longer sentence about a lamp on the left", "red lamp"]
    first, second = mpnet(texts), mpnet(texts[::-1])
    np.testing.assert_array_equal(first, second[::-1])
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    assert mpnet.name == "all-mpnet-base-v2" and mpnet.is_papers


class FakeModel:
    """Stands for a loaded model and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts, **_):
        self.asked.append(list(texts))
        return hash_embed(texts).astype(np.float32)


@pytest.fixture
def fake(monkeypatch) -> FakeModel:
    model = FakeModel()
    monkeypatch.setattr(embed, "_load", lambda *_: model)
    return model


def model_folder(root: Path, name: str, weights: bytes = b"w") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_each_text_once_short_ones_first(fake, tmp_path):
    embedder = SentenceEmbedder(model_folder(tmp_path, "m"))
    got = embedder(["long text here", "b", "b", "a"])
    assert fake.asked == [["a", "b", "long text here"]]
    assert got.shape == (4, 16) and got.dtype == np.float32
    np.testing.assert_array_equal(got[1], got[2])
    assert embedder([]).shape == (0, 0)


def test_cache_asks_only_for_new_texts(fake, tmp_path):
    folder, cache = model_folder(tmp_path, "m"), tmp_path / "cache"
    texts = ["a", "", "zwei\nZeilen", "ä…", "nul\0nul"]
    first = SentenceEmbedder(folder, cache=cache)(texts)
    again = SentenceEmbedder(folder, cache=cache)([*texts, "new"])
    assert fake.asked[1] == ["new", "nul\0nul"]
    np.testing.assert_array_equal(first, again[:-1])


def test_cache_belongs_to_the_weights_and_survives_damage(fake, tmp_path):
    cache = tmp_path / "cache"
    for k in range(2):
        SentenceEmbedder(model_folder(tmp_path / str(k), "m", bytes([k])), cache=cache)(["a"])
    files = list(cache.iterdir())
    assert len(files) == 2 and len(fake.asked) == 2
    for file in files:
        file.write_bytes(file.read_bytes()[:40])
    SentenceEmbedder(tmp_path / "0" / "m", cache=cache)(["a"])
    assert len(fake.asked) == 3


@pytest.fixture
def nowhere(monkeypatch, tmp_path) -> Path:
    """A working folder, and a repository, without weights; no packaged embedder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embed, "__file__", str(tmp_path / "a" / "b" / "c" / "embed.py"))
    monkeypatch.setattr(embed, "_SMALL_PACKAGE", "no_such_package_xyz")
    return tmp_path


def test_none_found_names_the_mend(nowhere):
    with pytest.raises(UserError, match="none found.*make weights.*folder or a hub id"):
        find_embedder()


def test_the_papers_comes_before_the_small_one(nowhere):
    model_folder(nowhere / "weights", "all-MiniLM-L6-v2")
    small = find_embedder()
    assert small.name == "all-MiniLM-L6-v2" and not small.is_papers
    model_folder(nowhere / "a" / "weights", "all-mpnet-base-v2")
    assert find_embedder().is_papers
    assert find_embedder("all-MiniLM-L6-v2").source == str(nowhere / "weights" / "all-MiniLM-L6-v2")


def test_the_small_one_is_found_in_its_package(nowhere, monkeypatch):
    model_folder(nowhere / "site" / "small_package_xyz", "model")
    (nowhere / "site" / "small_package_xyz" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.setattr(embed, "_SMALL_PACKAGE", "small_package_xyz")
    monkeypatch.setattr(sys, "path", [str(nowhere / "site"), *sys.path])
    assert find_embedder().name == "all-MiniLM-L6-v2"


@pytest.mark.parametrize("named", ["./m", "/m/n", "m", "a/b/c", "weights/m", "a/m", "m/"])
def test_a_missing_folder_is_not_a_hub_id(nowhere, named):
    (nowhere / "a").mkdir()
    with pytest.raises(UserError, match="no such folder"):
        find_embedder(named)


def test_a_folder_without_a_model(nowhere):
    (nowhere / "empty").mkdir()
    with pytest.raises(UserError, match="no model in this folder"):
        find_embedder(nowhere / "empty")
    broken = find_embedder(model_folder(nowhere, "broken"))
    with pytest.raises(UserError, match="broken: no sentence embedder there"):
        broken(["a"])


def test_a_hub_id_is_taken_by_its_name(nowhere):
    assert find_embedder("sentence-transformers/all-mpnet-base-v2").is_papers
