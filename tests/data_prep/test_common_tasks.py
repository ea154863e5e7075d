"""Tasks: once each, in order, resumable, shared."""

import json
import multiprocessing as mp
import os
import signal
import time
from pathlib import Path

import pytest

from data_prep.common.options import Options
from data_prep.common.report import Tally
from data_prep.common.tasks import BEYOND, GONE, Task, run_tasks, set_aside_leftovers
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json


def double(payload):
    if payload.get("log"):
        with open(payload["log"], "a") as log:
            log.write(f"{payload['n']}\n")
    time.sleep(payload.get("sleep", 0))
    if payload["n"] < 0:
        raise UserError("n", f"is {payload['n']}", "give 0 or more")
    return {"twice": 2 * payload["n"]}


def tasks(folder, count=5, **payload):
    return [Task(f"t{n}", Path(folder) / f"{n}.json", {"n": n, **payload}) for n in range(count)]


def files_of(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).iterdir())}


def run(folder, options=None, settings=None, **payload):
    made = tasks(folder, **payload)
    return run_tasks(made, double, options or Options(), settings or {}, title="doubling")


def test_results_come_in_the_order_of_the_tasks(tmp_path):
    outcomes = run(tmp_path)
    assert [o.result for o in outcomes] == [{"twice": 2 * n} for n in range(5)]
    assert {o.state for o in outcomes} == {"done"}


def test_two_workers_leave_the_same_bytes_as_one(tmp_path):
    run(tmp_path / "one")
    run(tmp_path / "two", Options(workers=2))
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_resume_keeps_what_is_finished_and_does_the_rest(tmp_path):
    log = tmp_path / "log"
    run(tmp_path / "out", count=3, log=str(log))
    outcomes = run(tmp_path / "out", Options(resume=True), count=5, log=str(log))
    assert [o.state for o in outcomes] == ["kept"] * 3 + ["done"] * 2
    assert log.read_text().split() == list("01234")


def test_without_resume_everything_is_done_again(tmp_path):
    run(tmp_path)
    assert {o.state for o in run(tmp_path)} == {"done"}


def test_other_settings_are_not_resumed(tmp_path):
    run(tmp_path, settings={"fps": 2})
    again = run(tmp_path, Options(resume=True), settings={"fps": 4})
    assert {o.state for o in again} == {"done"}


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"twice": 1}'])
def test_a_broken_or_foreign_file_is_made_again(tmp_path, broken):
    run(tmp_path)
    (tmp_path / "2.json").write_text(broken)
    states = [o.state for o in run(tmp_path, Options(resume=True))]
    assert states == ["kept", "kept", "done", "kept", "kept"]


@pytest.mark.parametrize("workers", [1, 2])
def test_one_failure_is_its_own_line_and_is_tried_again(tmp_path, workers):
    made = [Task(str(n), tmp_path / f"{n}.json", {"n": n}) for n in (1, -1, 2)]
    outcomes = run_tasks(made, double, Options(workers=workers), {}, title="doubling")
    assert [o.state for o in outcomes] == ["done", "failed", "done"]
    assert outcomes[1].problem == "n: is -1; give 0 or more"
    assert not (tmp_path / "-1.json").exists()


def share(folder, log):
    run(folder, Options(resume=True), count=6, sleep=0.05, log=log)


def test_processes_that_share_a_folder_do_each_task_once(tmp_path):
    log = tmp_path / "log"
    context = mp.get_context("spawn")
    several = [context.Process(target=share, args=(tmp_path / "out", str(log))) for _ in range(3)]
    for process in several:
        process.start()
    for process in several:
        process.join()
        assert process.exitcode == 0
    assert sorted(log.read_text().split()) == list("012345")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [f"{n}.json" for n in range(6)]


def test_killed_and_resumed_leaves_the_same_bytes(tmp_path):
    run(tmp_path / "whole", count=6)
    log = tmp_path / "log"
    process = mp.get_context("spawn").Process(target=share, args=(tmp_path / "cut", str(log)))
    process.start()
    while not log.exists() or len(log.read_text().split()) < 3:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert len(json.loads((tmp_path / "cut/0.json").read_text())) == 2
    run(tmp_path / "cut", Options(resume=True), count=6)
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "cut")


def leftovers(folder, inputs, done):
    tally = Tally("file")
    paths = [[folder / f"{n}.json" for n in some] for some in (inputs, done)]
    set_aside_leftovers(folder, *paths, tally)
    return dict(tally.noted)


def test_what_inputs_that_are_gone_have_left_is_set_aside_and_taken_back(tmp_path):
    log = tmp_path / "log"
    run(tmp_path / "out", count=4, log=str(log))
    (tmp_path / "out/own.json").write_text('{"of": "the user"}')
    (tmp_path / "out/broken.json").write_text("{")
    for _ in range(2):  # what is told does not depend on which run did it
        assert leftovers(tmp_path / "out", range(2), range(2)) == {GONE: 2}
    assert sorted(files_of(tmp_path / "out")) == [
        "0.json", "1.json", "2.json.earlier", "3.json.earlier", "broken.json", "own.json",
    ]  # fmt: skip
    again = run(tmp_path / "out", Options(resume=True), count=4, log=str(log))
    assert {o.state for o in again} == {"kept"} and log.read_text().split() == list("0123")
    assert leftovers(tmp_path / "out", range(4), range(4)) == {}
    assert not list((tmp_path / "out").glob("*.earlier"))


def test_of_other_settings_nothing_is_taken_back(tmp_path):
    run(tmp_path, count=2)
    leftovers(tmp_path, range(1), range(1))
    again = run(tmp_path, Options(resume=True), settings={"fps": 4}, count=2)
    assert {o.state for o in again} == {"done"}


def test_what_lies_beyond_the_limit_stays_and_is_told(tmp_path):
    run(tmp_path, count=5)
    assert leftovers(tmp_path, range(4), range(2)) == {GONE: 1, BEYOND: 2}
    assert (tmp_path / "3.json").exists() and not (tmp_path / "4.json").exists()


def die(payload):
    os._exit(1)


def test_a_dead_worker_is_named_with_the_mend(tmp_path):
    with pytest.raises(UserError, match="a worker process died; give it fewer --workers"):
        run_tasks(tasks(tmp_path), die, Options(workers=2), {}, title="dying")


@pytest.mark.slow
def test_ray_gives_the_same_bytes(tmp_path):
    pytest.importorskip("ray", reason="Ray (extra `cluster`) is not installed")
    before = signal.getsignal(signal.SIGTERM)
    run(tmp_path / "one")
    run(tmp_path / "ray", Options(workers=2, executor="ray"))
    assert signal.getsignal(signal.SIGTERM) is before
    assert files_of(tmp_path / "one") == files_of(tmp_path / "ray")


def test_other_content_is_made_again_and_a_failure_leaves_nothing_older_in_place(tmp_path):
    path = tmp_path / "a.json"
    options = Options(resume=True)

    def outcome(source, payload):
        [found] = run_tasks(
            [Task("a", path, payload, source)], _doubled, options, {}, title="doubling"
        )
        return found.state

    assert [outcome("one", 2), outcome("one", 3), outcome("two", 3)] == ["done", "kept", "done"]
    assert read_json(path)["value"] == 6
    assert outcome("three", None) == "failed"
    assert not path.exists() and read_json(tmp_path / "a.json.earlier")["value"] == 6
    assert outcome("three", 4) == "done" and not (tmp_path / "a.json.earlier").exists()


def _doubled(payload):
    if payload is None:
        raise UserError("a", "cannot be read", "mend it")
    return {"value": 2 * payload}
