"""Metrics count what the embedded engine does, under SGLang's names."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


@dataclass
class Histogram:
    """Count observations cumulatively by upper bound, as Prometheus wants them."""

    buckets: Counter[float] = field(default_factory=Counter)
    total: float = 0.0
    count: int = 0

    def observe(self, value: float) -> None:
        self.total += value
        self.count += 1
        for bound in SECONDS:
            if value <= bound:
                self.buckets[bound] += 1

    def lines(self, name: str, labels: str) -> list[str]:
        rows = [f'{name}_bucket{{le="{bound}",{labels}}} {self.buckets[bound]}' for bound in SECONDS]
        rows.append(f'{name}_bucket{{le="+Inf",{labels}}} {self.count}')
        return [
            f"# TYPE {name} histogram",
            *rows,
            f"{name}_sum{{{labels}}} {self.total}",
            f"{name}_count{{{labels}}} {self.count}",
        ]


class Metrics:
    """Count what the model's thread does. Read from other threads without a lock: each number is whole in itself."""

    def __init__(self) -> None:
        self.prompt_tokens = self.cached_tokens = self.new_tokens = self.retracted = 0
        self.requests: Counter[str] = Counter()
        self.first = Histogram()
        self.whole = Histogram()
        self._recent: deque[tuple[float, int]] = deque(maxlen=40)  # seconds and new tokens of the last steps

    def drawn(self, tokens: int) -> None:
        """Counted before any reader is told of them: who has heard that a reply ended finds all of it here."""
        self.new_tokens += tokens

    def step(self, seconds: float, new_tokens: int) -> None:
        self._recent.append((seconds, new_tokens))

    def prompt(self, tokens: int, cached: int) -> None:
        self.prompt_tokens += tokens
        self.cached_tokens += cached

    def first_token(self, seconds: float) -> None:
        self.first.observe(seconds)

    def request(self, finish: str, seconds: float) -> None:
        self.requests[finish] += 1
        self.whole.observe(seconds)

    @property
    def throughput(self) -> float:
        """New tokens per second over the last steps."""
        recent = list(self._recent)
        seconds = sum(s for s, _ in recent)
        return sum(n for _, n in recent) / seconds if seconds else 0.0

    def text(self, gauges: Mapping[str, float], model_name: str) -> str:
        """The Prometheus exposition; `gauges` are the present counts."""
        labels = 'model_name="{}"'.format(model_name.replace("\\", "\\\\").replace('"', '\\"'))
        gauges = {
            **gauges,
            "gen_throughput": self.throughput,
            "cache_hit_rate": self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0,
            "num_retracted_reqs": self.retracted,
        }
        counters = {
            "prompt_tokens_total": self.prompt_tokens,
            "generation_tokens_total": self.new_tokens,
            "cached_tokens_total": self.cached_tokens,
            "num_requests_total": sum(self.requests.values()),
            "num_aborted_requests_total": self.requests["abort"],
        }
        lines = []
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, value in values.items():
                lines += [f"# TYPE sglang:{name} {kind}", f"sglang:{name}{{{labels}}} {float(value)}"]
        lines += self.first.lines("sglang:time_to_first_token_seconds", labels)
        lines += self.whole.lines("sglang:e2e_request_latency_seconds", labels)
        return "\n".join(lines) + "\n"
