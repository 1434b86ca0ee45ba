"""Runs first in every Python of this environment: lets torchvision's CUDA build import beside a CPU torch.

Its compiled operators cannot load there, and their Python half registers fake kernels for two schemas that would
then be unknown. Declaring the schemas before torchvision is imported is all it needs.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            sys.modules[__name__].library = library  # type: ignore[attr-defined]  # it ends with its owner
        return


sys.meta_path.insert(0, _BeforeTorchvision())
