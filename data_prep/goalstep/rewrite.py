"""Guidance turns in a language model's words, through any OpenAI-compatible endpoint.

Input: a base URL (`http://host:8000/v1`), a model's name, a cache folder; then goals and
texts. Output: the texts anew. Invariant: a text that cannot be had keeps its template and is
counted; what was had once is read from the cache (by content) and never asked for again; the
key comes from the environment, goes nowhere but to this endpoint, and is never written.
"""

import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from data_prep.common.annotations import string
from data_prep.goalstep.turns import Video
from vlm_tsi.errors import UserError
from vlm_tsi.files import read_json, writable_folder, write_json

KEY = "OPENAI_API_KEY"
PROMPT = (
    "You guide a person through a task while you watch them. Say the instruction anew in one "
    "short, natural spoken sentence. Name the same objects, add nothing, use no quotation "
    "marks. Answer with the sentence alone."
)
MAX_WORDS, MAX_BYTES = 40, 1_000_000
TRIES, GIVE_UP = 3, 5  # tries of one text; texts that fail in a row before the rest is spared
RETRIED = (408, 409, 425, 429, 500, 502, 503, 504)
REWRITTEN, FAILED = "rewritten", "rewriting failed, template kept"
SPARED = "not rewritten: the endpoint had failed too often"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key elsewhere: it counts as a failure."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing."""
        return None


@dataclass
class Rewriter:
    """Asks an endpoint, a few texts at a time.

    Attributes:
        url: base URL; `/chat/completions` is added.
        model: the endpoint's name of the model.
        cache: folder of answers.
        timeout: seconds for one answer.
        pause: seconds before the second try; doubled for each further one.
        workers: how many are asked for at a time.
    """

    url: str
    model: str
    cache: Path
    timeout: float = 60.0
    pause: float = 1.0
    workers: int = 4
    _failed_in_a_row: int = field(default=0, init=False)
    problems: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if not _is_web(self.url):
            raise UserError("--rewrite-url", f"is {self.url!r}", "use http://host:port/v1")
        if not self.model:
            raise UserError("--rewrite-model", "is missing", "name the endpoint's model")
        if not (_key().isascii() and _key().isprintable()):
            raise UserError(KEY, "holds characters that no key has", "set it again")
        writable_folder(self.cache)

    def rewrite(self, videos: Sequence[Video]) -> None:
        """Put the turns of all videos into new words; each turn is told what became of it."""
        turns = [(v.meta.get("goal", ""), e) for v in videos for e in v.live()]
        wanted = sorted({(goal, e.said.text) for goal, e in turns})
        pool = ThreadPoolExecutor(self.workers)
        try:
            answers = pool.map(lambda pair: self.ask(*pair), wanted)
            bar = track(answers, "rewriting", total=len(wanted), console=Console(stderr=True))
            found = dict(zip(wanted, bar, strict=True))
        finally:  # Ctrl-C: what is under way ends, the rest is not begun
            pool.shutdown(cancel_futures=True)
        for goal, entry in turns:
            text, fate = found[goal, entry.said.text]
            entry.oddities.append(fate)
            entry.said.text = text or entry.said.text

    def ask(self, goal: str, text: str) -> tuple[str, str]:
        """One text anew (empty if it cannot be had), and what became of it."""
        path = self._cached(goal, text)
        kept = _kept(path)
        if kept:
            return kept, REWRITTEN
        if self._failed_in_a_row >= GIVE_UP:
            return "", SPARED
        said = self._try(f"Goal: {goal}\nInstruction: {text}")
        self._failed_in_a_row = 0 if said else self._failed_in_a_row + 1
        if said:
            write_json(path, {"model": self.model, "goal": goal, "text": text, "rewritten": said})
        return said, REWRITTEN if said else FAILED

    def _cached(self, goal: str, text: str) -> Path:
        key = json.dumps([PROMPT, self.model, goal, text])
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.cache / name[:2] / f"{name}.json"

    def _try(self, question: str) -> str:
        """Ask until there is an answer, or no hope of one."""
        pause = self.pause
        for attempt in range(TRIES):
            try:
                return self._usable(self._post(question))
            except urllib.error.HTTPError as err:
                problem, hopeless = f"status {err.code}", err.code not in RETRIED
                err.close()
            except (OSError, http.client.HTTPException) as err:
                problem, hopeless = str(getattr(err, "reason", err) or type(err).__name__), False
            except ValueError as err:
                problem, hopeless = str(err), False
            if hopeless or attempt == TRIES - 1:
                self.problems.append(problem)
                return ""
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def _post(self, question: str) -> bytes:
        messages = [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": question},
        ]
        body = {"model": self.model, "messages": messages, "temperature": 0}
        headers = {"Content-Type": "application/json"}
        if _key():
            headers["Authorization"] = f"Bearer {_key()}"
        request = urllib.request.Request(
            f"{self.url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers
        )
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=self.timeout) as response:
            answer: bytes = response.read(MAX_BYTES)
        return answer

    def _usable(self, raw: bytes) -> str:
        """The sentence of an answer; ValueError if it is none."""
        try:
            content = json.loads(raw)["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as err:
            raise ValueError("the answer is no chat completion") from err
        said = string(content).strip('"“” ')
        if not said or len(said.split()) > MAX_WORDS:
            raise ValueError(f"the answer is empty or longer than {MAX_WORDS} words")
        return said


def _key() -> str:
    return os.environ.get(KEY, "").strip()


def _is_web(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _kept(path: Path) -> str:
    """A cached sentence; empty if there is none, or it is broken."""
    if not path.is_file():
        return ""
    try:
        record = read_json(path)
    except UserError:
        return ""
    return string(record.get("rewritten")) if isinstance(record, dict) else ""
