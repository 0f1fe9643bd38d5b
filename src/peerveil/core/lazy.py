"""Libraries that take long to import, imported on first use: SciPy's parts, and Numba with the kernels that it compiles.

>>> ndtr
<scipy.special.ndtr, imported on first use>
>>> float(ndtr(0.0))
0.5
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import update_wrapper
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any, Final


class Lazy:
    """A function, distribution or module of a library; the library is imported when it is called or an attribute is read."""

    def __init__(self, module: str, name: str = "") -> None:
        self._module, self._name = module, name

    def _loaded(self) -> Any:
        module = import_module(self._module)
        return getattr(module, self._name) if self._name else module

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call it, imported."""
        return self._loaded()(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded(), name)

    def __repr__(self) -> str:
        return f"<{self._module}{self._name and '.'}{self._name}, imported on first use>"


(
    betaincinv,
    chdtrc,
    chndtr,
    expit,
    gammaincc,
    gammaln,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
    roots_legendre,
    stdtr,
    stdtrit,
) = (
    Lazy("scipy.special", name)
    for name in (
        "betaincinv",
        "chdtrc",
        "chndtr",
        "expit",
        "gammaincc",
        "gammaln",
        "log_ndtr",
        "logsumexp",
        "ndtr",
        "ndtri",
        "roots_legendre",
        "stdtr",
        "stdtrit",
    )
)
brentq, isotonic_regression, linprog, nnls = (
    Lazy("scipy.optimize", name) for name in ("brentq", "isotonic_regression", "linprog", "nnls")
)
beta, binom, student = (Lazy("scipy.stats", name) for name in ("beta", "binom", "t"))
sparse, connected_components = Lazy("scipy.sparse"), Lazy("scipy.sparse.csgraph", "connected_components")
cho_factor, cho_solve = Lazy("scipy.linalg", "cho_factor"), Lazy("scipy.linalg", "cho_solve")
csr_array, hstack, lsqr = (
    Lazy("scipy.sparse", "csr_array"),
    Lazy("scipy.sparse", "hstack"),
    Lazy("scipy.sparse.linalg", "lsqr"),
)

_LOCK: Final = RLock()


class LazyModule(ModuleType):
    """A library that other files import at their top; what it holds is loaded when the first of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            vars(self).update(vars(import_module(self.__name__)))
        return vars(self)[name] if name in vars(self) else getattr(import_module(self.__name__), name)


def import_lazily(name: str) -> None:
    """Let ``import name`` cost nothing from now on, until something of the library is used. For programs, not for libraries."""
    if name not in sys.modules:
        sys.modules[name] = LazyModule(name)


class LazyPackage(ModuleType):
    """A package whose public names are imported on first use, also where a module has the name of a function in it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in vars(self)["__all__"]):  # not the module, as Python would
            super().__setattr__(name, value)


def import_on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, called in its ``__init__``: ``homes`` says in which module of it a name stands."""
    module = sys.modules[package]
    module.__class__ = LazyPackage

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(module, name, value)
        return value

    return load


class Kernel:
    """A function that Numba compiles when it is first called; the compiled code is kept on disk where there is a place for it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self._compiled: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call it, compiled."""
        return (self._compiled or self.compiled())(*arguments)

    def compiled(self) -> Any:
        """Numba's own object; the other kernels among the function's globals become Numba's, too, so that it can call them."""
        with _LOCK:
            if self._compiled is None:
                self._compiled = _compile(self.function, self.options)
                names = self.function.__globals__
                names |= {name: used.compiled() for name, used in list(names.items()) if isinstance(used, Kernel)}
            return self._compiled


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's decorator, without its import."""
    return lambda function: Kernel(function, options)


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    numba = import_module("numba")
    try:
        return numba.njit(**options)(function)
    except RuntimeError:  # no folder for compiled code can be written, neither beside the source nor the user's own
        return numba.njit(**{**options, "cache": False})(function)
