#!/usr/bin/env python3
"""Checks who includes whom in src/: the layers, the outside libraries and the absence of cycles.

The tables below are the rules. Prints one line per violation and fails if there is any.

usage: check_layers.py [ROOT]     ROOT: the repository (default: the one this script is in)
"""
import re
import sys
from pathlib import Path

# Each folder of src/ with the folders it may include; it may also include what those may.
MAY_INCLUDE = {
    "base": [],
    "kernels": ["base"],
    "cache": ["kernels"],
    "checkpoint": ["base"],
    "nn": ["cache", "checkpoint"],
    "models": ["nn"],
    "engine": ["models"],
    "text": ["base"],
    "http": ["base"],
    "api": ["base"],
    "server": ["engine", "text", "http", "api"],
    "bench": ["server"],
    "cli": ["server", "bench"],
}

# Single headers that a folder may include although the table above does not let it.
ALSO_ALLOWED = {"api": ["engine/sampling_params.h", "engine/request.h"]}

# Single headers that a folder may not include although the table above would let it.
NOT_ALLOWED = {"engine": ["base/json.h", "base/utf8.h"]}

# Outside headers, by the start of their name, and the folders (or files) that may include them. Others are free.
OUTSIDE = {
    "mlx/": ["kernels", "cache", "nn", "models", "engine"],
    "boost/asio": ["http"],
    "boost/beast": ["http"],
    "openssl/": ["http", "base/sha256.cpp"],
    "spdlog/": ["base/log.cpp"],
    "redpoll_text.h": ["text/*.cpp", "text/rust_call.h"],
    "toml++/": ["cli/config_file.cpp"],
    "editline/": ["cli"],
    "histedit.h": ["cli"],
}

# Headers that only some files of their own folder may include, since they show what the folder hides.
PRIVATE = {"text/rust_call.h": ["text/*.cpp"]}

# Folders that must not reach MLX through any chain of includes either.
FREE_OF_MLX = ["base", "checkpoint", "text", "http", "api"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


class Source:
    """A file of src/: its path below src/ and its includes as (line number, name) pairs."""

    def __init__(self, path, root):
        self.name = path.relative_to(root).as_posix()
        self.folder = self.name.split("/")[0]
        self.own = []  # "folder/file.h"
        self.outside = []  # <library/header>
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match[1] and match[1].split("/")[0] in MAY_INCLUDE:
                self.own.append((number, match[1]))
            elif match:
                self.outside.append((number, match[1] or match[2]))


def allowed_folders(folder):
    """The folder itself and everything below it."""
    allowed = {folder}
    for lower in MAY_INCLUDE[folder]:
        allowed |= allowed_folders(lower)
    return allowed


def is_listed(source, places):
    return any(source.folder == place or Path(source.name).match(place) for place in places)


def check_own_includes(source, sources):
    allowed = allowed_folders(source.folder)
    for number, name in source.own:
        target = name.split("/")[0]
        where = f"src/{source.name}:{number}: "
        if name not in sources:
            yield where + f"there is no src/{name}"
        elif name in PRIVATE and not is_listed(source, PRIVATE[name]):
            yield where + f"only {', '.join(PRIVATE[name])} may include {name}"
        elif name in NOT_ALLOWED.get(source.folder, []):
            yield where + f"{source.folder} may not include {name}"
        elif target not in allowed and name not in ALSO_ALLOWED.get(source.folder, []):
            yield where + f"{source.folder} may not include {target} ({name})"


def check_outside_includes(source, sources):
    for number, name in source.outside:
        where = f"src/{source.name}:{number}: "
        if "/" not in name and f"{source.folder}/{name}" in sources:
            yield where + f'write "{source.folder}/{name}"'
        for prefix, places in OUTSIDE.items():
            if name.startswith(prefix) and not is_listed(source, places):
                yield where + f"only {', '.join(places)} may include {prefix} ({name})"


def chain_to_mlx(source, sources, seen):
    """The includes that lead from a file to MLX, or nothing."""
    for _, name in source.outside:
        if name.startswith("mlx/"):
            return [source.name, name]
    for _, name in source.own:
        if name in sources and name not in seen:
            seen.add(name)
            chain = chain_to_mlx(sources[name], sources, seen)
            if chain:
                return [source.name, *chain]
    return []


def check_mlx_chains(source, sources):
    if source.folder in FREE_OF_MLX:
        chain = chain_to_mlx(source, sources, set())
        if len(chain) > 2:  # a direct include is reported by its line
            yield f"src/{source.name}: {source.folder} must not reach MLX: {' -> '.join(chain)}"


def check_cycles(sources):
    """Depth-first search; reports the includes that close a circle."""
    finished, path = set(), []

    def visit(name):
        if name in path:
            yield "cycle of includes: " + " -> ".join([*path[path.index(name):], name])
        elif name in sources and name not in finished:
            path.append(name)
            for _, target in sources[name].own:
                yield from visit(target)
            path.pop()
            finished.add(name)

    for name in sorted(sources):
        yield from visit(name)


def violations(root):
    src = Path(root) / "src"
    files = sorted(path for path in src.rglob("*") if path.suffix in (".h", ".cpp", ".inc"))
    unknown = sorted({path.relative_to(src).parts[0] for path in files} - set(MAY_INCLUDE))
    for folder in unknown:
        yield f"src/{folder}: not a layer: add it to the table of scripts/check_layers.py"
    sources = {}
    for path in files:
        source = Source(path, src)
        if source.folder in MAY_INCLUDE:
            sources[source.name] = source
    for source in sources.values():
        yield from check_own_includes(source, sources)
        yield from check_outside_includes(source, sources)
        yield from check_mlx_chains(source, sources)
    yield from check_cycles(sources)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found) if found else "layers: every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
