"""What every test shares: one thread, no network, and the way to the shared data.

Input: the environment (`TSI_SHARED` names the shared folder if it does not stand beside
the checkout). Output: fixtures. Invariant: set before torch is first imported, so that
nothing reaches out and nothing competes for the cores.
"""

import os
import signal
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", WANDB_MODE="offline")

import pytest  # noqa: E402
import torch  # noqa: E402

from tests.infer_house import house, reference  # noqa: E402, F401 (fixtures of two files)

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job ignores Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """`../shared/data` beside the checkout (or under `TSI_SHARED`), else a skip."""
    shared = Path(os.environ.get("TSI_SHARED") or ROOT.parent / "shared")
    data = shared / "data"
    if not data.is_dir():
        pytest.skip(f"no {data}: set TSI_SHARED to the folder that holds data/")
    return data
