"""User code, loaded by file under a private name: `file.py:Name`. `sys.path` is never touched."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from journals import derive_id


class UserCodeError(Exception):
    """Code that cannot be had. `code` is the problem's, `hint` what to do."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


def load_object(reference: str, base: Path) -> Any:
    """What `file.py:Name` names, the file being relative to `base`. Runs the file once. Raises `UserCodeError`."""
    file, colon, name = reference.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise UserCodeError("E112", f"`{reference[:60]}` names no code", "write `file.py:name`")
    module = load_module(base / file)
    try:
        return getattr(module, name)
    except AttributeError:
        names = [known for known in vars(module) if not known.startswith("_")]
        from covenants.problems import suggest

        raise UserCodeError("E406", f"{file} has no `{name}`", suggest(name, names)) from None


def load_module(path: Path) -> ModuleType:
    """The module of a file. The same file with the same content is run once a process. Raises `UserCodeError`."""
    try:
        path = path.resolve(strict=True)
        content = path.read_bytes()
    except (OSError, ValueError, RuntimeError):
        raise UserCodeError(
            "E404", f"there is no file {path}", "paths are relative to the folder of this file"
        ) from None
    name = f"_coven_user_{derive_id(str(path), content.hex())}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        with redirect_stdout(sys.stderr):  # what a command prints is for whoever reads it, and not what a file says
            exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    except SyntaxError as error:
        del sys.modules[name]
        raise UserCodeError("E405", f"{path.name}, line {error.lineno}: {error.msg}", "correct the file") from None
    except (Exception, SystemExit) as error:  # the boundary to user code: whatever it raises is its own problem
        del sys.modules[name]
        hint = "a file of user code is loaded by itself: it can import what is installed, but not its neighbours"
        where = _line_of(error, path)
        raise UserCodeError(
            "E405",
            f"{path.name}{where} raised {type(error).__name__}: {error}",
            hint if isinstance(error, ImportError) else "",
        ) from error
    return module


def _line_of(error: BaseException, path: Path) -> str:
    traceback, line = error.__traceback__, None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f", line {line}," if line is not None else ""
