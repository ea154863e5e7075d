"""`VlmTsiConfig`: all that is needed to rebuild a model and to stream with it.

Input: a vision config, a text config, how frames become tokens, the stream's special ids.
Output: a transformers config that saves and loads as JSON.
Invariant: `tokens_per_frame` follows from `use_cls`, `pool` and `merge`, or from `grid`; it is
never set apart.
"""

from typing import Any

from transformers import AutoConfig, PretrainedConfig
from transformers.configuration_utils import SubConfigSpec

from vlm_tsi.sequence.tokens import StreamTokens


class VlmTsiConfig(PretrainedConfig):
    """Vision encoder, text model, and the clock they share.

    Attributes:
        use_cls, pool: a frame is (CLS if use_cls) + pool x pool tokens,
        merge: concatenated into one token (the "pixel shuffle" of small VLMs) if true.
        vlm_config: of a whole vision-language model (`backbones.hf_vlm`), in place of
            `vision_config` and `text_config`; then a frame is `grid` x `grid` tokens.
        frame_size: side of the square the encoder sees, in pixels.
        fps: frames a second the model was trained at.
        scheme: `tsi` or `turn_based`, what the weights were trained for last.
        tokens_per_second: speech rate; the paper's is 150 words/min x 1.3 tokens/word.
        eager_close: look for EOS after every token, not only where a frame or another
            token follows; right for weights that never learnt EOS on silent frames.
        onset: where in the gap after its frame an utterance begins, from 0 to 1; 0 is the
            released code's way, 0.5 the middle of where training places starts.
        silence_threshold: turn-based policy's threshold on the silence token.
        stream_tokens: `StreamTokens.to_dict()`.
    """

    model_type = "vlm_tsi"
    sub_configs_defaults = {
        "vision_config": SubConfigSpec(config_class=AutoConfig, model_type="siglip_vision_model"),
        "text_config": SubConfigSpec(config_class=AutoConfig, model_type="llama"),
    }

    vision_config: dict | PretrainedConfig | None = None
    text_config: dict | PretrainedConfig | None = None
    vlm_config: dict[str, Any] | None = None
    grid: int = 0
    use_cls: bool = True
    pool: int = 0
    merge: bool = False
    frame_size: int = 64
    pixel_mean: list[float] | None = None
    pixel_std: list[float] | None = None
    fps: float = 2.0
    scheme: str = "tsi"
    tokens_per_second: float = 150 * 1.3 / 60
    silence_threshold: float = 0.725
    eager_close: bool = False
    onset: float = 0.5
    stream_tokens: dict[str, Any] | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill defaults and read the sub-configs."""
        self.pixel_mean = self.pixel_mean or [0.5, 0.5, 0.5]
        self.pixel_std = self.pixel_std or [0.5, 0.5, 0.5]
        super().__post_init__(**kwargs)

    @property
    def tokens_per_frame(self) -> int:
        """T: positions a frame takes in the sequence."""
        return 1 if self.merge and not self.grid else self.pooled_tokens

    @property
    def pooled_tokens(self) -> int:
        """Vision tokens a frame is pooled to, before merging."""
        return self.grid * self.grid or int(self.use_cls) + self.pool * self.pool

    @property
    def tokens(self) -> StreamTokens:
        """The stream's special tokens."""
        assert self.stream_tokens is not None, "the model was made without stream tokens"
        return StreamTokens(**self.stream_tokens)
