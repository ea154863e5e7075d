"""An encoder's fingerprint: under which key its frame features are kept.

Input: a `VlmTsiModel` and the sampling rate. Output: 24 hex digits. Invariant: a changed
encoder weight, frame size, pooling, normalisation or rate gives another key; what comes
after the encoder (connector, language model) does not count.
"""

import hashlib

from vlm_tsi.model.vlm import VlmTsiModel


def encoder_key(model: VlmTsiModel, fps: float) -> str:
    """Name an encoder and its sampling: a changed weight or setting is another key."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.encoder.state_dict().items()):
        digest.update(name.encode() + tensor.detach().float().cpu().numpy().tobytes())
    c = model.config
    settings: tuple = (c.use_cls, c.pool, c.frame_size, c.pixel_mean, c.pixel_std, fps)
    settings += ("merge",) if c.merge else ()
    settings += (c.vlm_config["model_type"], c.grid) if c.vlm_config else ()
    digest.update(repr(settings).encode())
    return digest.hexdigest()[:24]
