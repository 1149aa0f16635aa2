"""The tables of aiconfigurator-core: in its wheel, in a directory, or as it is installed."""

from __future__ import annotations

import difflib
import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simcg.errors import InputError, SimcgError

Rows = Mapping[str, NDArray[Any]]
"""Columns of one table, of equal lengths."""

PACKAGE = "aiconfigurator_core"
EXTRA = "pip install 'simcg[silicon]'"


class Folder(Protocol):
    """What folders of a file system and of a zip archive have in common."""

    name: str

    def joinpath(self, *parts: str) -> Folder: ...  # noqa: D102
    def iterdir(self) -> Iterable[Folder]: ...  # noqa: D102
    def is_dir(self) -> bool: ...  # noqa: D102
    def is_file(self) -> bool: ...  # noqa: D102
    def read_bytes(self) -> bytes: ...  # noqa: D102


@dataclass(frozen=True)
class Table:
    """One table: its rows, and the framework and version that it was measured with."""

    name: str
    framework: str
    version: str
    rows: Rows

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))

    def where(self, **wanted: object) -> Table:
        """The rows whose columns have these values."""
        keep = np.ones(len(self), dtype=np.bool_)
        for column, value in wanted.items():
            keep &= self.rows[column] == value
        return self.kept(keep)

    def kept(self, keep: NDArray[np.bool_]) -> Table:
        """Those rows alone."""
        rows = {name: column[keep] for name, column in self.rows.items()}
        return Table(self.name, self.framework, self.version, rows)


@dataclass(frozen=True)
class Source:
    """A directory ``systems`` of that package. ``release``: the package's version."""

    path: str
    folder: Folder
    release: str

    def systems(self) -> tuple[str, ...]:
        """The systems that have tables, sorted."""
        data = self.folder.joinpath("data")
        return tuple(sorted(s.name for s in data.iterdir() if s.joinpath("gemm").is_dir()))

    def system(self, name: str) -> str:
        """The system of that name, also without what follows its first underscore."""
        known = self.systems()
        wanted = name.lower().replace("-", "_")
        found = [s for s in known if s == wanted or s.startswith(f"{wanted}_")]
        if len(found) == 1:
            return found[0]
        close = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise InputError(self.path, "--system", name, f"one of {', '.join(known)}{hint}")

    def specification(self, system: str) -> dict[str, Any]:
        """What the package says of a system's hardware."""
        try:
            import yaml  # noqa: PLC0415  # an optional extra
        except ImportError:
            raise SimcgError(f"PyYAML is not installed, expected: {EXTRA}") from None
        file = self.folder.joinpath(f"{system}.yaml")
        if not file.is_file():
            raise InputError(self.path, "", f"no {system}.yaml", "the package's systems")
        found: dict[str, Any] = yaml.safe_load(file.read_bytes())
        return found

    def versions(self, system: str, family: str, framework: str) -> tuple[str, ...]:
        """The versions of a framework that have tables of a family, oldest first."""
        folder = self.folder.joinpath("data", system, family, framework)
        if not folder.is_dir():
            return ()
        held = [v.name for v in folder.iterdir() if v.is_dir() and any(map(_is_table, v.iterdir()))]
        return tuple(sorted(held, key=_order))

    def table(self, system: str, place: tuple[str, str, str], limit: str | None) -> Table | None:
        """The newest table not above version ``limit``, else the oldest; None if there is none.

        ``place``: family, framework and file name without its ending.
        """
        family, framework, file = place
        held: list[tuple[str, Folder]] = []
        for version in self.versions(system, family, framework):
            path = self.folder.joinpath("data", system, family, framework, version)
            path = path.joinpath(f"{file}.parquet")
            if path.is_file():
                held.append((version, path))
        if not held:
            return None
        older = [one for one in held if limit is None or _order(one[0]) <= _order(limit)]
        version, path = older[-1] if older else held[0]
        return Table(file, framework, version, _read(path.read_bytes(), str(path)))


def open_source(path: str) -> Source:
    """The tables at ``path``: a wheel, a directory, or the name of the installed package."""
    place = Path(path)
    if place.is_file():
        try:
            root: Any = zipfile.Path(place)
        except zipfile.BadZipFile:
            raise InputError(path, "", "not a wheel", f"a wheel of {PACKAGE}") from None
    elif place.is_dir():
        root = place
    else:
        spec = find_spec(path) if path.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            expected = f"a wheel, a directory or the installed package {PACKAGE}"
            raise InputError(path, "", "neither a file nor a package", expected)
        root = Path(spec.submodule_search_locations[0])
    for folder in (root, root.joinpath("systems"), root.joinpath(PACKAGE, "systems")):
        if folder.joinpath("data").is_dir():
            return Source(path, folder, _release(root))
    raise InputError(path, "", "no systems/data", f"the contents of {PACKAGE}")


def _release(root: Any) -> str:
    """The package's version by the name of its dist-info, which lies in it or beside it."""
    for folder in (root, *([root.parent, root.parent.parent] if isinstance(root, Path) else [])):
        for entry in folder.iterdir():
            if found := re.fullmatch(rf"{PACKAGE}-(.+)\.dist-info", entry.name):
                return found[1]
    return "of unknown version"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _is_table(file: Folder) -> bool:
    return file.name.endswith(".parquet")


def _read(data: bytes, path: str) -> Rows:
    try:
        import pyarrow as pa  # noqa: PLC0415  # an optional extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise SimcgError(f"pyarrow is not installed, expected: {EXTRA}") from None
    try:
        table = pq.read_table(io.BytesIO(data))
    except pa.ArrowException:
        raise InputError(path, "", "unreadable", "a Parquet table") from None
    return {name: table.column(name).to_numpy() for name in table.column_names}
