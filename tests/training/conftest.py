"""The training set that all tests of this room share."""

import pytest

from tests.training.lessons import Lessons, make_lessons


@pytest.fixture(scope="session")
def lessons(tmp_path_factory) -> Lessons:
    return make_lessons(tmp_path_factory.mktemp("lessons"))
