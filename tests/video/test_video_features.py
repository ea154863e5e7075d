"""The feature store: by content, by encoder, whole, mapped."""

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from vlm_tsi.errors import UserError
from vlm_tsi.video import features
from vlm_tsi.video.features import FeatureStore, content_key

KEY = "ab" * 32


def sample(frames: int = 5, seed: int = 0) -> tuple[np.ndarray, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return np.arange(frames) * 0.5 + 0.01, torch.randn(frames, 3, 7, generator=generator)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_round_trip(tmp_path: Path, dtype: features.Dtype) -> None:
    times_F, features_FTD = sample()
    store = FeatureStore(tmp_path, "encoder a, 2 fps, 64 px", dtype)
    assert not store.has(KEY)
    store.put(KEY, times_F, features_FTD)
    back_F, back_FTD = store.get(KEY)
    assert back_F.dtype == np.float64 and np.array_equal(back_F, times_F)
    assert back_FTD.dtype == getattr(torch, dtype)
    assert torch.equal(back_FTD, features_FTD.to(back_FTD.dtype))
    assert store.has(KEY) and store.is_whole(KEY) and not store.has("cd")
    assert (store.folder / "encoder.txt").read_text().startswith("encoder a, 2 fps, 64 px\n")


def test_another_encoder_or_dtype_sees_nothing(tmp_path: Path) -> None:
    one = FeatureStore(tmp_path, "a")
    path = one.put(KEY, *sample())
    for other in (FeatureStore(tmp_path, "b"), FeatureStore(tmp_path, "a", "float16")):
        assert not other.has(KEY)
        other.path(KEY).parent.mkdir(parents=True)
        other.path(KEY).write_bytes(path.read_bytes())
        with pytest.raises(UserError, match="belongs to another video or encoder"):
            other.get(KEY)
    one.path("abcd").write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="belongs to another video"):
        one.get("abcd")


def test_absent_entry(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="extract them first"):
        FeatureStore(tmp_path, "a").get(KEY)


@pytest.mark.parametrize("damage", ["empty", "header", "cut", "longer", "magic", "times"])
def test_damage_is_named(tmp_path: Path, damage: str) -> None:
    store = FeatureStore(tmp_path, "a")
    path = store.put(KEY, *sample())
    data = path.read_bytes()
    broken = {
        "empty": b"",
        "header": data[:100],
        "cut": data[:-2],
        "longer": data + b"\0\0",
        "magic": b"x" + data[1:],
        "times": data[:130] + bytes(32) + data[162:],
    }
    path.write_bytes(broken[damage])
    with pytest.raises(UserError, match="damaged features: .*; delete the file and extract again"):
        store.get(KEY)
    assert store.has(KEY) and not store.is_whole(KEY)


def test_a_warning_stays_with_its_entry(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path, "a")
    store.put(KEY, *sample(), warning="ends at 2.0 s though its header says 9.0 s")
    store.put("cd" * 32, *sample())
    assert store.warning(KEY) == "ends at 2.0 s though its header says 9.0 s"
    assert store.warning("cd" * 32) == ""


def test_reading_maps_and_keeps_nothing_open(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path, "a")
    big_FTD = torch.zeros(400, 10, 4096)
    store.put(KEY, np.arange(400.0), big_FTD)
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc")

    def resident_kb() -> int:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["RssAnon"].split()[0]) + int(lines["RssFile"].split()[0])

    before, descriptors = resident_kb(), len(os.listdir("/proc/self/fd"))
    held = [store.get(KEY)[1] for _ in range(50)]
    assert float(held[-1][399].float().sum()) == 0
    assert resident_kb() - before < 8_000
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_changes_stay_in_memory(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path, "a")
    path = store.put(KEY, *sample())
    path.chmod(0o444)
    store.get(KEY)[1].zero_()
    assert store.get(KEY)[1].abs().sum() > 0


def test_a_held_tensor_outlives_its_replacement(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path, "a")
    store.put(KEY, *sample(seed=1))
    held = store.get(KEY)[1]
    store.put(KEY, *sample(seed=2))
    assert torch.equal(held, sample(seed=1)[1].bfloat16())
    assert torch.equal(store.get(KEY)[1], sample(seed=2)[1].bfloat16())


def hammer(root: Path, seed: int) -> None:
    store = FeatureStore(root, "a")
    for turn in range(10):
        store.put(KEY, *sample(40 + seed, seed))
        times_F, features_FTD = store.get(KEY)
        assert len(times_F) == len(features_FTD) in (41, 42), turn


def test_processes_share_a_store(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=hammer, args=(tmp_path, seed)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [w.exitcode for w in workers] == [0, 0]
    folder = FeatureStore(tmp_path, "a").path(KEY).parent
    assert [p.name for p in folder.iterdir()] == [f"{KEY}.feat"]


@pytest.mark.parametrize(
    ("times", "shape", "fill", "problem"),
    [
        ([0.0, 0.5], (3, 1, 1), 0.0, "use \\[F\\] and"),
        ([0.0], (1, 4), 0.0, "use \\[F\\] and"),
        ([], (0, 1, 4), 0.0, "use \\[F\\] and"),
        ([0.5, 0.5], (2, 1, 1), 0.0, "increase"),
        ([0.0, np.nan], (2, 1, 1), 0.0, "finite"),
        ([0.0], (1, 1, 1), np.nan, "NaN"),
        ([0.0], (1, 1, 1), 1e39, "infinity"),
    ],
)
def test_wrong_features(
    tmp_path: Path, times: list, shape: tuple, fill: float, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        FeatureStore(tmp_path, "a").put(
            KEY, np.array(times), torch.full(shape, fill, dtype=torch.float64)
        )
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        FeatureStore(tmp_path, "a").has("../x")


def test_unwritable_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError):
        FeatureStore(tmp_path / "file", "a").put(KEY, *sample())


def test_content_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "WHOLE_BELOW", 1000)
    monkeypatch.setattr(features, "CHUNK", 100)
    data = np.random.default_rng(0).bytes(5000)

    def key(content: bytes, name: str = "a") -> str:
        (tmp_path / name).write_bytes(content)
        return content_key(tmp_path / name)

    def changed(at: int, content: bytes = data) -> bytes:
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    assert key(data) == key(data, "b") and len(key(data)) == 64
    assert (
        len({key(data), *(key(changed(at)) for at in (0, 99, 2500, 4999)), key(data + b"x")}) == 6
    )
    assert key(changed(1000)) == key(data)
    small = data[:999]
    assert len({key(small), *(key(changed(at, small)) for at in range(0, 999, 37))}) == 28
    with pytest.raises(UserError, match="No such file"):
        content_key(tmp_path / "none")
