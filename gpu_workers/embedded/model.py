"""The model runs any Hugging Face causal model as one packed forward: many sequences in a row, each with its cache.

The model's own module runs, so its numbers are the learner's. Two parts are ours: attention, which reads and
writes each sequence's own keys and values, and the linear layers, which add each sequence's own adapter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM

from gpu_workers.embedded.adapters import Adapter
from gpu_workers.embedded.cache import KV, Shape
from gpu_workers.learner import products

log = logging.getLogger(__name__)

ATTENTION = "talkback_packed"
PACKED_ROWS = 8  # the row count oneDNN lays weights out for; other counts run as well


class Unservable(ValueError):
    """This model, or these weights, cannot be served; the message says why."""


@dataclass
class Piece:
    """Consecutive tokens of one sequence in a packed forward; `start` is the position of the first."""

    ids: Sequence[int]
    start: int
    kv: KV
    adapter: Adapter | None = None


class Single(NamedTuple):
    """A piece of one token: its row, and, of each layer's keys and values in turn, where it is written and what it
    sees."""

    row: int
    written: Sequence[Tensor]
    seen: Sequence[Tensor]


@dataclass
class Step:
    """The state of the forward that is running; one object that all of them hold."""

    pieces: list[tuple[int, int, Piece]] = field(default_factory=list)  # of several tokens: first row, last row + 1
    singles: list[Single] = field(default_factory=list)
    spans: list[tuple[int, int, Adapter]] = field(default_factory=list)  # rows of one adapter
    rows: int = 0
    masks: dict[tuple[int, int | None, int], Tensor] = field(default_factory=dict)
    seen_rows: dict[str, int] | None = None  # while probing: linear layer to rows it was given
    shapes: dict[int, Shape] | None = None  # while probing: layer to its key and value shape


class Model:
    """Run forwards on the CPU. Not thread-safe: one thread owns it."""

    def __init__(self, folder: str, dtype: str = "auto") -> None:
        self.folder = str(folder)
        config = AutoConfig.from_pretrained(folder)
        self.dtype = pick_dtype(config) if dtype == "auto" else getattr(torch, dtype)
        AttentionInterface.register(ATTENTION, attend)
        self._step = Step()
        self._hf = AutoModelForCausalLM.from_pretrained(folder, dtype=self.dtype, attn_implementation=ATTENTION).eval()
        self._hf.requires_grad_(False)
        self.config = self._hf.config
        self.linears = self._replace_linears()
        for module in self._hf.modules():
            if hasattr(module, "layer_idx"):
                module.packed_step = self._step
        self.vocabulary = int(self._hf.get_input_embeddings().weight.shape[0])
        self.context_length = int(getattr(self.config, "max_position_embeddings", None) or 2048)
        self.eos_ids = _eos_ids(self._hf)
        self.shapes, self.adaptable = self._probe()

    @property
    def bytes_per_token(self) -> int:
        return sum(shape.heads * (shape.key + shape.value) for shape in self.shapes) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Of the weights as they lie in memory."""
        tensors = {t.data_ptr(): t for t in (*self._hf.parameters(), *self._hf.buffers())}
        linears = sum(linear.bytes for linear in self.linears.values() if not linear.shares(tensors))
        return linears + sum(t.numel() * t.element_size() for t in tensors.values())

    def new_kv(self, capacity: int) -> KV:
        return KV(self.shapes, capacity, self.dtype)

    @torch.inference_mode()
    def forward(self, pieces: Sequence[Piece], wanted: Sequence[int]) -> Tensor:
        """Run all pieces at once, fill their caches, and return float32 logits (W, V) of the `wanted` rows.

        Rows count through the pieces in the order given; pieces of one adapter must stand together.
        """
        step, row = self._step, 0
        step.pieces, step.singles, step.spans, step.masks = [], [], [], {}
        for piece in pieces:
            end = row + len(piece.ids)
            if len(piece.ids) == 1:
                step.singles.append(Single(row, piece.kv.at(piece.start), piece.kv.until(piece.start + 1)))
            else:
                step.pieces.append((row, end, piece))
            if piece.adapter is not None:
                if step.spans and step.spans[-1][2] is piece.adapter:
                    step.spans[-1] = (step.spans[-1][0], end, piece.adapter)
                else:
                    step.spans.append((row, end, piece.adapter))
            row = end
        step.rows = row
        ids = torch.tensor([[i for piece in pieces for i in piece.ids]])
        positions = torch.tensor([[piece.start + n for piece in pieces for n in range(len(piece.ids))]])
        try:
            logits = self._hf(
                input_ids=ids,
                position_ids=positions,
                use_cache=False,
                logits_to_keep=torch.tensor(wanted, dtype=torch.long),
            ).logits[0]
        finally:
            step.pieces, step.singles, step.spans, step.masks = [], [], [], {}
        for piece in pieces:
            piece.kv.length = piece.start + len(piece.ids)
        return logits.float()

    def read_weights(self, folder: str) -> dict[str, Tensor]:
        """The weights in `folder`, checked against this model; nothing is changed. Raises Unservable."""
        if not (Path(folder) / "config.json").is_file():
            raise Unservable(f"Failed to update weights: {folder} holds no model.")
        try:
            other = AutoModelForCausalLM.from_pretrained(folder, dtype=self.dtype)
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
            raise Unservable(f"Failed to update weights: {folder} cannot be read ({error}).") from error
        state: dict[str, Tensor] = other.state_dict()
        mine = {name: tuple(t.shape) for name, t in self._hf.state_dict().items()}
        for name, linear in self.linears.items():
            mine[f"{name}.weight"] = (linear.out_features, linear.in_features)
            if linear.bias is not None:
                mine[f"{name}.bias"] = (linear.out_features,)
        theirs = {name: tuple(t.shape) for name, t in state.items()}
        if wrong := sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)):
            raise Unservable(f"Failed to update weights: {folder} is another architecture (it differs in {wrong[0]}).")
        return state

    @torch.inference_mode()
    def set_weights(self, state: dict[str, Tensor], folder: str) -> None:
        """Serve these weights from now on; `state` comes from read_weights."""
        own = self._hf.state_dict()
        for name, tensor in state.items():
            if name in own:
                own[name].copy_(tensor)
        for name, linear in self.linears.items():
            linear.fill(state[f"{name}.weight"], state.get(f"{name}.bias"))
        self.folder = str(folder)

    def _replace_linears(self) -> dict[str, Linear]:
        linears = {}
        for name, module in list(self._hf.named_modules()):
            if type(module) is nn.Linear:
                parent, _, child = name.rpartition(".")
                linear = linears[name] = Linear(module, name, self._step)
                setattr(self._hf.get_submodule(parent) if parent else self._hf, child, linear)
        return linears

    def _probe(self) -> tuple[list[Shape], frozenset[str]]:
        """Learn the cache's shapes and which layers may be adapted, and hold us to the model's own numbers."""
        step, ids = self._step, [(n + 1) * self.vocabulary // 10 for n in range(8)]
        step.shapes, step.seen_rows = {}, {}
        scratch = Piece(ids, 0, KV([], 0, self.dtype))
        try:
            self.forward([scratch], [len(ids) - 1])
        except (AttributeError, TypeError, KeyError, IndexError, RuntimeError) as error:
            raise Unservable(f"{self.folder}: a model of this kind cannot be served here ({error}).") from error
        shapes = [step.shapes[n] for n in sorted(step.shapes)]
        head = self._hf.get_output_embeddings()
        adaptable = frozenset(
            name for name, rows in step.seen_rows.items() if rows == len(ids) and self.linears[name] is not head
        )
        if sorted(step.shapes) != list(range(len(shapes))) or not shapes:
            raise Unservable(f"{self.folder}: only models whose every layer is attention can be served.")
        step.shapes, step.seen_rows = None, None

        kv = KV(shapes, len(ids), self.dtype)
        ours = self.forward([Piece(ids[:3], 0, kv)], [2])
        ours = torch.cat([ours, self.forward([Piece(ids[3:-1], 3, kv)], [len(ids) - 5])])
        ours = torch.cat([ours, self.forward([Piece(ids[-1:], len(ids) - 1, kv)], [0])])
        self._hf.set_attn_implementation("sdpa")
        with torch.inference_mode():
            step.rows = len(ids)
            theirs = self._hf(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
        self._hf.set_attn_implementation(ATTENTION)
        theirs = theirs[[2, len(ids) - 2, len(ids) - 1]]
        gap = (ours.softmax(-1) - theirs.softmax(-1)).abs().sum(-1).mean().item() / 2  # total variation, 0 to 1
        if not gap < (0.01 if self.dtype == torch.float32 else 0.25):
            raise Unservable(f"{self.folder}: its attention is of a kind that is not served here (off by {gap:.3f}).")
        log.info("attention agrees with the model's own: total variation %.1e", gap)
        return shapes, adaptable


class Linear(nn.Module):
    """Multiply by a weight laid out once for the CPU, and add to each span of rows its own adapter."""

    def __init__(self, source: nn.Linear, name: str, step: Step) -> None:
        super().__init__()
        self.name, self.out_features, self.in_features = name, source.out_features, source.in_features
        self._step = step
        self.bias: Tensor | None = None
        self.fill(source.weight.data, None if source.bias is None else source.bias.data)

    def fill(self, weight: Tensor, bias: Tensor | None) -> None:
        packed = _pack(weight)
        self._is_packed = packed is not None
        self._weight = weight if packed is None else packed
        self.bias = bias

    @property
    def bytes(self) -> int:
        return self._weight.numel() * self._weight.element_size()

    def shares(self, tensors: Container[int]) -> bool:
        """Whether its weight is one of those at these addresses, as an embedding's is where the two are tied."""
        return not self._is_packed and self._weight.data_ptr() in tensors

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        if self._is_packed:
            y = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self.bias, "none", [], "")
        else:
            y = F.linear(rows, self._weight, self.bias)
        step = self._step
        for first, last, adapter in step.spans:
            pair = adapter.pairs.get(self.name)
            if pair is not None:
                down, up = pair
                y[first:last].add_(rows[first:last].float() @ down @ up)
        if step.seen_rows is not None:
            step.seen_rows[self.name] = rows.shape[0]
        return y.view(*x.shape[:-1], self.out_features)


def attend(
    module: Any,  # carries layer_idx and packed_step
    query: Tensor,  # (1, H, N, D)
    key: Tensor,  # (1, G, N, D); H / G query heads share one
    value: Tensor,  # (1, G, N, E)
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend causally from each piece over its own sequence; returns (1, N, H, E)."""
    if others.get("softcap") is not None or others.get("s_aux") is not None:
        raise Unservable("attention with soft caps or sinks is not served here")
    step: Step = module.packed_step
    layer: int = module.layer_idx
    _, heads, rows, width = query.shape
    groups, out_width = key.shape[1], value.shape[-1]
    share = heads // groups
    if step.shapes is not None:
        step.shapes[layer] = Shape(groups, width, out_width)
        return value.repeat_interleave(share, dim=1).transpose(1, 2), None
    # Query heads that share a key head stand as extra queries: far faster on a CPU than repeating the keys.
    grouped = query[0].view(groups, share, rows, width)
    singly = _attend_singly(step, layer, grouped, key, value, scaling, sliding_window) if step.singles else None
    if singly is not None and not step.pieces:
        return singly[None], None
    out = query.new_empty(rows, heads, out_width)
    if singly is not None:
        out[[one.row for one in step.singles]] = singly
    for first, last, piece in step.pieces:
        keys, values = piece.kv.layers[layer]
        start, n = piece.start, last - first
        end = start + n
        keys[:, :, start:end] = key[:, :, first:last]
        values[:, :, start:end] = value[:, :, first:last]
        part = F.scaled_dot_product_attention(
            grouped[None, :, :, first:last].reshape(1, groups, share * n, width),
            keys[:, :, :end],
            values[:, :, :end],
            attn_mask=_mask(step, first, start, n, share, sliding_window, query.dtype),
            scale=scaling,
        )
        out[first:last] = part.view(groups, share, n, out_width).permute(2, 0, 1, 3).reshape(n, heads, out_width)
    return out[None], None


def _attend_singly(
    step: Step,
    layer: int,
    query: Tensor,  # (G, H / G, N, D)
    key: Tensor,  # (1, G, N, D)
    value: Tensor,  # (1, G, N, E)
    scaling: float | None,
    window: int | None,
) -> Tensor:
    """Of the pieces of one token, (pieces, H, E)."""
    singles, at = step.singles, 2 * layer
    queries, new_keys, new_values = query[None].unbind(3), key[0].unbind(1), value[0].unbind(1)
    torch._foreach_copy_(
        [one.written[at] for one in singles] + [one.written[at + 1] for one in singles],
        [new_keys[one.row] for one in singles] + [new_values[one.row] for one in singles],
    )
    parts = []
    for row, _, seen in singles:
        keys, values = seen[at], seen[at + 1]
        if window is not None:
            keys, values = keys[:, :, -window:], values[:, :, -window:]
        parts.append(F.scaled_dot_product_attention(queries[row], keys, values, scale=scaling))
    return torch.cat(parts).flatten(1, 2)


def _mask(step: Step, first: int, start: int, n: int, share: int, window: int | None, dtype: torch.dtype) -> Tensor:
    """0 where query start + i may see key j, else -inf; (share * n, start + n), made once a forward."""
    found = step.masks.get((first, window, share))
    if found is None:
        positions, keys = torch.arange(start, start + n)[:, None], torch.arange(start + n)
        hidden = keys > positions
        if window is not None:
            hidden |= keys <= positions - window
        found = torch.zeros(n, start + n, dtype=dtype).masked_fill_(hidden, float("-inf")).repeat(share, 1)
        step.masks[(first, window, share)] = found
    return found


def _pack(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's own layout, which halves the time of a bfloat16 layer; None where there is none."""
    if weight.dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return None
    try:
        return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_ROWS)
    except (AttributeError, RuntimeError):
        return None


def pick_dtype(config: Any) -> torch.dtype:
    """Choose bfloat16 where this machine multiplies it clearly faster than float32, else float32; takes 0.1 s."""
    width = int(getattr(config, "hidden_size", 576) or 576)

    def work(dtype: torch.dtype) -> Callable[[], object]:
        linear = Linear(nn.Linear(width, 4 * width, bias=False).to(dtype), "probe", Step())
        return partial(linear, torch.randn(8, width).to(dtype))

    with torch.inference_mode():
        taken = products.bests({dtype: work(dtype) for dtype in (torch.float32, torch.bfloat16)}, 20)
    slow, fast = taken[torch.float32], taken[torch.bfloat16]
    log.info("a matrix product takes %.0f us in float32, %.0f us in bfloat16", slow * 1e6, fast * 1e6)
    return torch.bfloat16 if fast < 0.75 * slow else torch.float32


def _eos_ids(hf: Any) -> frozenset[int]:
    ids: set[int] = set()
    for config in (hf.config, getattr(hf, "generation_config", None)):
        eos = getattr(config, "eos_token_id", None)
        ids |= set(eos) if isinstance(eos, list | tuple) else set() if eos is None else {eos}
    return frozenset(ids)
