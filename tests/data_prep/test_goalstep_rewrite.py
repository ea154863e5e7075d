"""Rewriting through an OpenAI-compatible endpoint: a small server plays it."""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from data_prep.goalstep import rewrite
from data_prep.goalstep.__main__ import main
from tests.data_prep.test_goalstep import meal, segment, video
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json, write_json

KEY = "sk-of-the-test"


class Endpoint(ThreadingHTTPServer):
    """Answers by `script`: (status, body) for a question, or seconds to be silent."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.script = [], lambda question, time: (200, answer("Please do it."))
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = body["messages"][-1]["content"]
        self.server.asked.append((self.path, self.headers.get("Authorization"), body))
        times = sum(b["messages"][-1]["content"] == question for *_, b in self.server.asked)
        reply = self.server.script(question, times)
        if isinstance(reply, float):
            time.sleep(reply)
            return
        status, text = reply
        self.send_response(status)
        if status == 302:
            self.send_header("Location", text)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


def answer(text):
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setenv(rewrite.KEY, KEY)
    monkeypatch.setenv("no_proxy", "*")
    server = Endpoint()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asker(endpoint, tmp_path, **options):
    settings = {"pause": 0.001, "timeout": 5, "workers": 1} | options
    return rewrite.Rewriter(endpoint.url, "some-model", tmp_path / "cache", **settings)


def test_the_command_writes_new_words_once_and_never_the_key(endpoint, tmp_path, capsys):
    endpoint.script = lambda question, _: (200, answer(f'"So: {question.split()[-1]}"\n'))
    write_json(tmp_path / "a.json", {"videos": [meal("v1"), meal("v2")]})
    out = tmp_path / "out"
    asked = ["--annotations", str(tmp_path / "a.json"), "--out", str(out),
             "--rewrite-url", endpoint.url, "--rewrite-model", "some-model"]  # fmt: skip
    assert main(asked) == 0
    path, key, body = endpoint.asked[0]
    assert (path, key, body["model"]) == ("/v1/chat/completions", f"Bearer {KEY}", "some-model")
    assert "Make soup" in body["messages"][-1]["content"]
    texts = [t["content"] for v in read_json(out / "dialogue.json") for t in v["conversation"]]
    assert texts and all(t.startswith("So: ") for t in texts)
    assert read_json(out / "report.json")["noted"][rewrite.REWRITTEN] == 12
    first = {p: p.read_bytes() for p in out.glob("*.json*")}
    assert KEY not in capsys.readouterr().out
    assert not any(KEY.encode() in p.read_bytes() for p in out.rglob("*") if p.is_file())
    endpoint.asked.clear()
    assert main(asked) == 0
    assert endpoint.asked == []
    assert first == {p: p.read_bytes() for p in out.glob("*.json*")}


def test_no_key_is_sent_where_there_is_none(endpoint, tmp_path, monkeypatch):
    monkeypatch.delenv(rewrite.KEY)
    assert asker(endpoint, tmp_path).ask("g", "t") == ("Please do it.", rewrite.REWRITTEN)
    assert endpoint.asked[0][1] is None


@pytest.mark.parametrize("first", [(503, "busy"), (429, ""), (200, "not json"), 0.6])
def test_what_may_pass_is_tried_again(first, endpoint, tmp_path):
    endpoint.script = lambda _, times: first if times == 1 else (200, answer("Go."))
    assert asker(endpoint, tmp_path, timeout=0.3).ask("g", "t") == ("Go.", rewrite.REWRITTEN)
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        ((401, "no"), 1),
        ((404, "no"), 1),
        ((302, "http://127.0.0.1:9/else"), 1),
        ((500, "no"), rewrite.TRIES),
        ((200, answer("  ")), rewrite.TRIES),
        ((200, answer("word " * 41)), rewrite.TRIES),
        ((200, answer(None)), rewrite.TRIES),
        ((200, '{"choices": []}'), rewrite.TRIES),
        ((200, "[" * 50_000), rewrite.TRIES),
    ],
)
def test_what_cannot_be_had_keeps_the_template_and_is_not_cached(reply, tries, endpoint, tmp_path):
    endpoint.script = lambda *_: reply
    asked = asker(endpoint, tmp_path)
    assert asked.ask("g", "t") == ("", rewrite.FAILED)
    assert len(endpoint.asked) == tries and asked.problems
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_failures_are_counted_and_the_template_text_is_kept(endpoint, tmp_path, capsys):
    endpoint.script = lambda question, _: (
        (400, "no") if "salt" in question else (200, answer("Go."))
    )
    write_json(tmp_path / "a.json", {"videos": [video(segment(1, 5), segment(9, 20, "Add salt"))]})
    asked = ["--annotations", str(tmp_path / "a.json"), "--out", str(tmp_path / "out"),
             "--rewrite-url", endpoint.url, "--rewrite-model", "m"]  # fmt: skip
    assert main(asked) == 0
    noted = read_json(tmp_path / "out/report.json")["noted"]
    assert (noted[rewrite.REWRITTEN], noted[rewrite.FAILED]) == (1, 1)
    said = [t["content"] for t in read_json(tmp_path / "out/dialogue.json")[0]["conversation"]]
    assert said[0] == "Go." and "add salt" in said[1].lower()
    assert "warning: rewriting: status 400" in capsys.readouterr().err


def test_an_endpoint_that_is_down_is_given_up_after_a_few_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    asked = rewrite.Rewriter(url, "m", tmp_path, pause=0.001, workers=1)
    fates = [asked.ask("g", f"text {k}")[1] for k in range(rewrite.GIVE_UP + 3)]
    assert fates == [rewrite.FAILED] * rewrite.GIVE_UP + [rewrite.SPARED] * 3


def test_a_broken_cache_file_is_made_anew(endpoint, tmp_path):
    asked = asker(endpoint, tmp_path)
    asked.ask("g", "t")
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for broken in (b"{", b"[]", b"\xff", b'{"rewritten": 3}'):
        kept.write_bytes(broken)
        endpoint.asked.clear()
        assert asked.ask("g", "t")[0] == "Please do it." and len(endpoint.asked) == 1


def test_an_answer_is_cached_by_what_was_asked(endpoint, tmp_path):
    asked = asker(endpoint, tmp_path)
    for goal, text in (("g", "t"), ("g", "u"), ("h", "t"), ("g", "t")):
        asked.ask(goal, text)
    assert len(endpoint.asked) == 3


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-\u2026"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(
    key, endpoint, tmp_path, monkeypatch
):
    monkeypatch.setenv(rewrite.KEY, key)
    with pytest.raises(UserError, match=rewrite.KEY) as caught:
        asker(endpoint, tmp_path)
    assert "sk-" not in str(caught.value)
