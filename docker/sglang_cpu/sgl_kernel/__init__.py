"""Stands in for SGLang's kernel package, which has no build for a CPU without AMX.

Every name exists and raises when it is called: SGLang imports its kernels eagerly and calls them only on a GPU or
with AMX. Importing this also makes the tensor constructors ignore pin_memory, which the LoRA code always asks for
and which only a GPU build of torch can give.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

import torch


class _Missing:
    """A kernel, or a table of them, that is not here: it has any attribute and refuses to be called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{self.__name__} is a GPU kernel; this is SGLang on a plain CPU")

    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self.__name__}.{name}")


def _name(module: str) -> Callable[[str], Any]:
    def lookup(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{module}.{name}")

    return lookup


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes `import sgl_kernel.anything` work the same way."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = _name(module.__name__)  # type: ignore[method-assign]


def _unpinned(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("pin_memory", None)
        return make(*args, **kwargs)

    return made


__getattr__ = _name("sgl_kernel")
__version__ = "0.4.10"
sys.meta_path.append(_Submodules())
if not torch.cuda.is_available():
    for _constructor in ("tensor", "empty", "zeros", "ones", "full", "arange", "empty_like", "zeros_like"):
        setattr(torch, _constructor, _unpinned(getattr(torch, _constructor)))
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self  # type: ignore[method-assign,assignment]
