"""`VlmTsiModel`: vision encoder + connector + causal language model on one sequence.

Input (training): ids with frame slots, frames as features or pixels, shifted labels.
Input (streaming): embeddings of the next few positions and a cache.
Output: loss or logits. Invariant: both ways give the same logits for the same sequence
(tests/streaming/test_replay.py holds them to 1e-4).

Shapes: B rows, L positions, F frames in the batch, T tokens a frame, D text width, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from vlm_tsi.model.backbones import efficientnet_lite, hf_vlm  # noqa: F401  (the first registers itself)
from vlm_tsi.model.config import VlmTsiConfig
from vlm_tsi.model.connector import connector
from vlm_tsi.model.loss import labelled_loss
from vlm_tsi.model.vision import FrameEncoder
from vlm_tsi.sequence.tokens import StreamTokens


def vision_width(config: Any) -> int:
    """D_vision of a Hugging Face vision config."""
    for name in ("hidden_size", "hidden_dim"):
        if hasattr(config, name):
            return int(getattr(config, name))
    return int(config.hidden_sizes[-1])


class VlmTsiModel(PreTrainedModel):
    """A real-time vision-language model (paper Section 5)."""

    config_class = VlmTsiConfig
    config: VlmTsiConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    main_input_name = "input_ids"

    def __init__(self, config: VlmTsiConfig) -> None:
        super().__init__(config)
        self.encoder: nn.Module
        self.language_model: Any
        self.connector: nn.Module
        self._positions = hf_vlm.positions_of(config)
        if config.vlm_config is not None:
            self.encoder, self.language_model = hf_vlm.new_parts(config)
            self.connector = nn.Identity()
        else:
            self._join(config)
        self.post_init()

    def _join(self, config: VlmTsiConfig) -> None:
        self.encoder = FrameEncoder(config, AutoModel.from_config(config.vision_config))
        self.language_model = AutoModelForCausalLM.from_config(config.text_config)
        text_width = self.language_model.config.hidden_size
        width = vision_width(config.vision_config) * (config.pooled_tokens if config.merge else 1)
        self.connector = connector(width, text_width)

    @classmethod
    def from_vlm(cls, config: VlmTsiConfig, vlm: Any) -> "VlmTsiModel":
        """A new model of a whole VLM's pretrained weights."""
        with torch.device("meta"):
            model = cls(config)
        model.encoder, model.language_model = hf_vlm.take_apart(vlm, config)
        return model

    @classmethod
    def from_parts(
        cls, config: VlmTsiConfig, vision: nn.Module | None, language: nn.Module | None
    ) -> "VlmTsiModel":
        """A new model around pretrained parts (None keeps a part random)."""
        model = cls(config)
        if vision is not None:
            model.encoder.vision = vision
        if language is not None:
            model.language_model = language
        return model

    @property
    def tokens(self) -> StreamTokens:
        """The stream's special tokens."""
        return self.config.tokens

    def train(self, mode: bool = True) -> "VlmTsiModel":
        """Training mode, but for a frozen encoder: no dropout, no new batch statistics."""
        super().train(mode)
        if not any(p.requires_grad for p in self.encoder.parameters()):
            self.encoder.eval()
        return self

    def get_input_embeddings(self) -> nn.Module:
        """The text embedding table."""
        return self.language_model.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        """The output head."""
        return self.language_model.get_output_embeddings()

    def untie(self) -> None:
        """Give the output head weights of its own.

        LoRA adapts the head; merged into a head that is tied to the embeddings it would
        change those as well.
        """
        head: Any = self.get_output_embeddings()
        table: Any = self.get_input_embeddings()
        if head.weight is table.weight:
            head.weight = nn.Parameter(table.weight.detach().clone())
        if self.config.vlm_config is not None:  # never tied, see `hf_vlm.TextModel`
            return
        configs: tuple[Any, ...] = (self.language_model.config, self.config.text_config)
        for config in configs:
            config.tie_word_embeddings = False

    def encode_pixels(self, pixels_FHWC: torch.Tensor) -> torch.Tensor:
        """Frames uint8 [F, H, W, 3] -> vision features [F, T, D_vision]."""
        return self.encoder(pixels_FHWC.to(self.device))

    def embed_frames(self, features_FTV: torch.Tensor) -> torch.Tensor:
        """Vision features [F, T, D_vision] -> positions [F * T, D]."""
        table = self.get_input_embeddings().get_parameter("weight")
        weight = next(self.connector.parameters(), table)
        embeds_FTD: torch.Tensor = self.connector(features_FTV.to(weight.device, weight.dtype))
        return embeds_FTD.flatten(0, 1)

    def embed_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids [...] -> embeddings [..., D]; a frame id past the table is clamped."""
        table = self.get_input_embeddings()
        rows = len(table.get_parameter("weight"))
        return hf_vlm.widened(table(ids.clamp(max=rows - 1)), self.config)

    def embed(
        self, input_ids_BL: torch.Tensor, frame_mask_BL: torch.Tensor, features_FTV: torch.Tensor
    ) -> torch.Tensor:
        """Merge text embeddings and frames into [B, L, D]."""
        embeds_BLD = self.embed_ids(input_ids_BL)
        frames_ND = self.embed_frames(features_FTV).to(embeds_BLD.dtype)
        return embeds_BLD.masked_scatter(frame_mask_BL[..., None], frames_ND)

    def forward(
        self,
        input_ids: torch.Tensor,
        frame_mask: torch.Tensor,
        frame_features: torch.Tensor | None = None,
        pixels: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        label_weights: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | float | None = None,
        **kwargs: Any,
    ) -> CausalLMOutput:
        """Loss over labelled positions if `labels` is given, else logits [B, L, V].

        Args:
            input_ids: [B, L]; frame slots hold any id.
            frame_mask: bool [B, L], true at frame slots, T consecutive ones a frame.
            frame_features: [F, T, D_vision], or
            pixels: uint8 [F, H, W, 3], the frames of all rows in order.
            labels: [B, L], already shifted, -100 where nothing is predicted.
            label_weights: [B, L].
            num_items_in_batch: the weight that the loss is divided by (default: own sum).
            **kwargs: what wrappers add; not used.
        """
        if frame_features is None:
            assert pixels is not None, "give frame_features or pixels"
            frame_features = self.encode_pixels(pixels)
        hidden_BLD = self.hidden_states(input_ids, frame_mask, frame_features)
        head = self.get_output_embeddings()
        if labels is None:
            return CausalLMOutput(logits=head(hidden_BLD))
        return CausalLMOutput(
            loss=labelled_loss(hidden_BLD, head, labels, label_weights, num_items_in_batch)
        )

    def hidden_states(
        self, input_ids_BL: torch.Tensor, frame_mask_BL: torch.Tensor, features_FTV: torch.Tensor
    ) -> torch.Tensor:
        """What the output head reads, [B, L, D]; arguments as in `embed`."""
        embeds_BLD = self.embed(input_ids_BL, frame_mask_BL, features_FTV)
        positions = self._positions.of_rows(frame_mask_BL)
        output = self._positions.run(
            self.text_body(), embeds_BLD, positions, is_frame_BL=frame_mask_BL, use_cache=False
        )
        hidden_BLD: torch.Tensor = output[0]
        return hidden_BLD

    def text_body(self) -> nn.Module:
        """The language model below its output head."""
        return self.language_model.get_decoder()

    @property
    def text_config(self) -> Any:
        """The language model's config."""
        return self.language_model.config

    @property
    def frame_span(self) -> int:
        """How many positions a frame takes: as many as it has tokens, but with M-RoPE."""
        return self._positions.span

    def run_text(
        self,
        embeds_LD: torch.Tensor,
        cache: Any,
        positions: torch.Tensor | None = None,
        is_frame: Sequence[bool] = (),
    ) -> torch.Tensor:
        """Hidden states [L, D] of positions after what the cache holds (or at `positions`)."""
        mask_BL = torch.tensor([list(is_frame)], dtype=torch.bool) if any(is_frame) else None
        output = self._positions.run(
            self.text_body(), embeds_LD[None], positions, is_frame_BL=mask_BL, cache=cache,
            use_cache=True,
        )  # fmt: skip
        hidden_LD: torch.Tensor = output.last_hidden_state[0]
        return hidden_LD

    @torch.inference_mode()
    def advance(
        self,
        embeds_LD: torch.Tensor,
        cache: Any,
        is_frame: Sequence[bool] | None = None,
        *,
        every: bool = False,
    ) -> torch.Tensor:
        """Feed L positions after what the cache holds; logits [V] of the last, or all [L, V].

        Args:
            embeds_LD: their embeddings.
            cache: a `streaming.cache.StreamCache`.
            is_frame: which of them are frames' (None: none).
            every: logits of all.
        """
        flags = is_frame or [False] * len(embeds_LD)
        bases = cache.take(flags, embeds_LD)
        positions = self._positions.of_units(bases, flags)
        hidden_LD = self.run_text(embeds_LD, cache, positions, flags)
        return self.get_output_embeddings()(hidden_LD if every else hidden_LD[-1])


AutoConfig.register("vlm_tsi", VlmTsiConfig)
AutoModel.register(VlmTsiConfig, VlmTsiModel)
AutoModelForCausalLM.register(VlmTsiConfig, VlmTsiModel)
