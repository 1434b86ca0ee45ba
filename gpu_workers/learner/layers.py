"""Layers replace a transformer's own for training: quick on a core, and keeping little for the backward pass.

`slim` takes a Hugging Face model and gives some of its modules another forward pass, with a gradient of its own. What
they compute is what they computed, but for rounding; `tests/gpu_workers/learner/test_layers.py` holds them to it. What
is not known here (another activation, a quantised base, DoRA, dropout) stays as it was. Shapes: N rows, D wide, rank R.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType
from typing import Any, NamedTuple

import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from gpu_workers.learner import products

ATTENTION = "talkback"
"""What a model's configuration calls the attention below."""

CHUNK = 64
"""How many queries the way back through attention takes at once, on a CPU."""

FEW = 512
"""Rows of which the gated layer keeps its products whatever the dtype: little beside the weights."""

NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "Qwen3MoeRMSNorm")
"""Modules whose forward is weight · x / √(mean x² + ε)."""

MLPS = ("LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP", "Qwen3_5MLP")
"""Modules whose forward is down(act(gate(x)) · up(x))."""


def slim(model: Any) -> None:
    """Give the modules of `model` that are known here their leaner passes, in place. Weights and names stay."""
    modules: list[Any] = list(model.modules())
    for module in modules:
        kind = type(module).__name__
        pass_: Callable[..., Tensor]
        if kind in NORMS:
            pass_ = _normed
        elif kind in MLPS and isinstance(module.act_fn, nn.SiLU | type(_silu())):
            pass_ = partial(_gated, original=module.forward)
        elif type(module).__module__ == LoraLinear.__module__ and kind == "Linear":
            pass_ = partial(_adapted, original=module.forward)
        else:
            continue
        module.forward = MethodType(pass_, module)
    if model.config._attn_implementation == "sdpa":
        AttentionInterface.register(ATTENTION, attend)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        model.set_attn_implementation(ATTENTION)


def _silu() -> nn.Module:
    from transformers.activations import ACT2FN

    made: nn.Module = ACT2FN["silu"]
    return made


# Products


class Linear(NamedTuple):
    """A linear map, plain or with an adapter: x W^T + bias + scale · (x A^T) B^T."""

    weight: Tensor  # (O, D)
    bias: Tensor | None  # (O,)
    down: Tensor | None  # (R, D) A
    up: Tensor | None  # (O, R) B
    scale: float = 1.0

    @classmethod
    def of(cls, module: Any) -> Linear | None:
        """What a module computes; None where it is not known here, or trains its base."""
        base, down, up, scale = module, None, None, 1.0
        if type(module) is LoraLinear and not module.merged:
            base = module.base_layer
            if not module.disable_adapters:
                if list(module.active_adapters) != ["default"] or "default" not in module.lora_A:
                    return None
                if module.lora_variant or not isinstance(module.lora_dropout["default"], nn.Identity):
                    return None
                if module.lora_B["default"].bias is not None:
                    return None
                down, up = module.lora_A["default"].weight, module.lora_B["default"].weight
                scale = float(module.scaling["default"])
        if type(base) is not nn.Linear or base.weight.requires_grad:
            return None
        if base.bias is not None and base.bias.requires_grad:
            return None
        return cls(base.weight, base.bias, down, up, scale)

    def product(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """(N, D) to (N, O) in the base's dtype, and x A^T, (N, R), for the way back."""
        y = products.linear(x, self.weight, self.bias)
        if self.down is None or self.up is None:
            return y, None
        low = x @ _laid_out(self.down.t(), x.dtype)
        return y.addmm_(low, _laid_out(self.up.t() * self.scale, x.dtype)), low

    def back(self, grad: Tensor, into: Tensor | None = None) -> Tensor:
        """The gradient of x without the adapter's share, (N, D), added to `into` where that is begun."""
        return products.product(grad, self.weight, into)

    def learn(
        self, grad: Tensor, x: Tensor, low: Tensor | None, into: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of A and B; the adapter's share of x's is added to `into`."""
        if self.down is None or self.up is None or low is None:
            return None, None
        d_up = (low.t() @ grad).t().to(self.up.dtype).mul_(self.scale)  # (O, R)
        d_low = F.linear(grad, _laid_out(self.up.t() * self.scale, grad.dtype))  # (N, R)
        if into is not None:
            into.addmm_(d_low, self.down.to(grad.dtype))
        return (d_low.t() @ x).to(self.down.dtype), d_up


def _laid_out(half: Tensor, dtype: torch.dtype) -> Tensor:
    """A half of an adapter, row after row: a core multiplies many rows by a narrow matrix that lies across in twice the
    time, and to lay it out anew is nothing beside that."""
    return half.to(dtype).contiguous()


class Adapted(torch.autograd.Function):
    """A frozen Linear with its adapter, in the base's dtype; the adapter's own weights stay what they are."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        down: Tensor,
        up: Tensor,
        scale: float,
    ) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        y, low = Linear(weight, bias, down, up, scale).product(rows)
        ctx.save_for_backward(rows, weight, down, up, low)
        ctx.scale, ctx.shape = scale, x.shape
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        rows, weight, down, up, low = ctx.saved_tensors
        linear = Linear(weight, None, down, up, ctx.scale)
        grad = grads[0].reshape(len(rows), -1)
        dx = linear.back(grad) if ctx.needs_input_grad[0] else None
        d_down, d_up = linear.learn(grad, rows, low, dx)
        return None if dx is None else dx.view(ctx.shape), None, None, d_down, d_up, None


def _adapted(module: Any, x: Tensor, *args: Any, original: Any, **kwargs: Any) -> Tensor:
    linear = Linear.of(module) if not args and not kwargs else None
    is_bare = linear is not None and linear.down is None
    if linear is None or linear.weight.dtype != x.dtype or (is_bare and torch.is_grad_enabled()):
        result: Tensor = original(x, *args, **kwargs)
        return result
    if is_bare:
        return linear.product(x.reshape(-1, x.shape[-1]))[0].view(*x.shape[:-1], -1)
    return Adapted.apply(x, *linear)


class Gated(torch.autograd.Function):
    """down(silu(gate(x)) · up(x)) of three frozen Linears with their adapters: of what lies between, the two products
    that silu joins are kept, and nothing else; and of many rows in halves on a CPU not even these, which are most of
    what a layer keeps there: to make them again is a fiftieth to a tenth of a step, as a core is with halves."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scales: tuple[float, float, float], is_kept: bool, *parts: Tensor | None
    ) -> Tensor:
        gate, up, down = _three(parts, scales)
        rows = x.reshape(-1, x.shape[-1])
        is_kept = is_kept and (x.dtype is torch.float32 or x.device.type != "cpu" or len(rows) <= FEW)
        g, low_g = gate.product(rows)
        u, low_u = up.product(rows)
        y, low_d = down.product(F.silu(g, inplace=not is_kept).mul_(u))
        kept = (g, u, low_g, low_u) if is_kept else (None, None, None, None)
        ctx.save_for_backward(rows, *kept, low_d, *parts)
        ctx.scales, ctx.shape = scales, x.shape
        return y.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        rows, g, u, low_g, low_u, low_d, *parts = ctx.saved_tensors
        gate, up, down = _three(parts, ctx.scales)
        if g is None:
            (g, low_g), (u, low_u) = gate.product(rows), up.product(rows)
        grad = grads[0].reshape(len(rows), -1)
        s = F.silu(g)
        a = s * u
        d_a = down.back(grad)
        of_down = down.learn(grad, a, low_d, d_a)
        d_u = torch.mul(d_a, s, out=a)
        d_g = torch.ops.aten.silu_backward(d_a.mul_(u), g)
        dx = up.back(d_u, gate.back(d_g)) if ctx.needs_input_grad[0] else None
        of_gate, of_up = gate.learn(d_g, rows, low_g, dx), up.learn(d_u, rows, low_u, dx)
        dx = None if dx is None else dx.view(ctx.shape)
        return dx, None, None, None, None, *of_gate, None, None, *of_up, None, None, *of_down


def _three(parts: Sequence[Any], scales: tuple[float, float, float]) -> tuple[Linear, Linear, Linear]:
    gate, up, down = (
        Linear(weight, bias, low, high, scale)
        for (weight, bias, low, high), scale in zip((parts[:4], parts[4:8], parts[8:]), scales, strict=True)
    )
    return gate, up, down


def _gated(module: Any, x: Tensor, *, original: Any) -> Tensor:
    gate, up, down = (Linear.of(each) for each in (module.gate_proj, module.up_proj, module.down_proj))
    if gate is None or up is None or down is None or gate.weight.dtype != x.dtype:
        result: Tensor = original(x)
        return result
    scales = (gate.scale, up.scale, down.scale)
    return Gated.apply(x, scales, torch.is_grad_enabled(), *gate[:4], *up[:4], *down[:4])


# Norms


class Normed(torch.autograd.Function):
    """RMSNorm (arXiv:1910.07467) with a frozen weight; keeps its input and one number a row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        rate = norm.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()  # (..., 1)
        ctx.save_for_backward(x, weight, rate)
        y = x * rate  # float32: the wider of the two
        return y.to(x.dtype).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weight, rate = ctx.saved_tensors
        y = x * rate
        d_y = (grads[0] * weight).float()
        along = (d_y * y).mean(-1, keepdim=True)
        return d_y.addcmul_(y, along, value=-1.0).mul_(rate).to(x.dtype), None, None


def _normed(module: Any, hidden_states: Tensor) -> Tensor:
    if module.weight.requires_grad or module.weight.dtype != hidden_states.dtype:
        result: Tensor = type(module).forward(module, hidden_states)
        return result
    return Normed.apply(hidden_states, module.weight, module.variance_epsilon)


# Attention


class Attended(torch.autograd.Function):
    """Causal attention of B rows, H query heads on G key heads: torch's own kernel on the way there, and matrix
    products on the way back, which are several times quicker on a core; neither keeps a (T, T) matrix of numbers.
    `sees`, (T, T) bool, says which earlier positions each looks at; None: all."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, sees: Tensor | None = None
    ) -> Tensor:
        shared = query.shape[1] // key.shape[1]
        blind = None if sees is None else torch.zeros_like(sees, dtype=query.dtype).masked_fill_(~sees, -torch.inf)
        out, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query,
            key.repeat_interleave(shared, 1),
            value.repeat_interleave(shared, 1),
            0.0,
            sees is None,
            attn_mask=blind,
            scale=scale,
        )
        ctx.save_for_backward(query, key, value, out, log_sum, sees)
        ctx.scale = scale
        return out  # (B, H, T, d)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        query, key, value, out, log_sum, sees = ctx.saved_tensors
        rows, heads, length, width = query.shape
        groups, dtype = key.shape[1], query.dtype
        shared, wide = heads // groups, key.shape[-1]

        def grouped(x: Tensor) -> Tensor:  # (B · G, H / G, T, d)
            return x.reshape(rows * groups, shared, length, -1)

        q, grad = grouped(query), grouped(grads[0])
        k, v = key.reshape(rows * groups, length, wide), value.reshape(rows * groups, length, -1)
        k_wide = k.float()
        along = grouped((grads[0] * out).sum(-1, keepdim=True, dtype=torch.float32))  # (BG, H/G, T, 1)
        log_sum = grouped(log_sum)
        d_q = torch.empty_like(q)
        d_k, d_v = torch.zeros_like(k_wide), torch.zeros(v.shape, dtype=torch.float32)
        ahead = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
        for first in range(0, length, CHUNK):
            last = min(first + CHUNK, length)
            count = last - first

            def flat(x: Tensor, at: slice = slice(first, last)) -> Tensor:  # (BG, H/G · C, d)
                return x[:, :, at].reshape(rows * groups, -1, x.shape[-1])

            qc, gc = flat(q), flat(grad)
            scores = torch.bmm(qc.float(), k_wide[:, :last].transpose(1, 2))  # (BG, H/G · C, ≤ T) float32
            probs = scores.mul_(ctx.scale).sub_(flat(log_sum)).exp_()
            by_query = probs.view(rows * groups, shared, count, last)
            if sees is None:
                by_query[..., first:].masked_fill_(ahead[:count, :count], 0.0)
            else:
                by_query.masked_fill_(~sees[first:last, :last], 0.0)
            d_scores = torch.bmm(gc, v[:, :last].transpose(1, 2)).float()
            d_v[:, :last] += torch.bmm(probs.to(dtype).transpose(1, 2), gc)
            d_scores = d_scores.sub_(flat(along)).mul_(probs).mul_(ctx.scale).to(dtype)
            d_q[:, :, first:last] = torch.bmm(d_scores, k[:, :last]).view(rows * groups, shared, count, width)
            d_k[:, :last] += torch.bmm(d_scores.transpose(1, 2), qc)
        return d_q.view_as(query), d_k.to(dtype).view_as(key), d_v.to(dtype).view_as(value), None, None


def attend(
    module: Any,
    query: Tensor,  # (B, H, T, d)
    key: Tensor,  # (B, G, T, d)
    value: Tensor,  # (B, G, T, d)
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers asks for each layer: `Attended` for whole causal rows that train, and for trees, whose
    positions all look at earlier ones alone; torch's own else."""
    is_ours = (
        query.device.type == "cpu"
        and torch.is_grad_enabled()
        and query.requires_grad
        and (attention_mask is None or _is_tree(attention_mask, query.shape[-2]))
        and not dropout
        and is_causal is not False
        and getattr(module, "is_causal", True)
        and query.shape[-2] == key.shape[-2]
        and query.shape[-1] == key.shape[-1] == value.shape[-1]
        and not kwargs.get("softcap")
        and kwargs.get("position_bias") is None
        and kwargs.get("cache") is None
    )
    if not is_ours:
        result: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs
        )
        return result
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    sees = None if attention_mask is None else attention_mask[0, 0]
    out = Attended.apply(query, key, value, scale, sees)
    return out.transpose(1, 2).contiguous(), None


def _is_tree(mask: Tensor, length: int) -> bool:
    """Whether a mask is that of one row whose positions look at themselves and at earlier ones alone."""
    if mask.shape != (1, 1, length, length) or mask.dtype is not torch.bool:
        return False
    return bool(mask[0, 0].diagonal().all()) and not mask[0, 0].triu(1).any()
