#!/usr/bin/env python3
"""Writes THIRD_PARTY.md: what the program links, with versions and licences.

Three parts, each from its own source: MLX and what its wheel bundles (.deps), the Rust crates (cargo metadata), and the
Debian libraries (ldd on the program, and the packages whose static or header-only code it contains). The same inputs
give the same file.

usage: third_party.py            write THIRD_PARTY.md (needs the release build)
       third_party.py --check    fail if the crates named there are not those of rust/Cargo.lock
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "THIRD_PARTY.md"
PROGRAM = ROOT / "build/release/bin/redpoll"

PLATFORM = "x86_64-unknown-linux-gnu"  # the crates of one platform, so that every machine gives the same list

# Debian packages whose code ends up inside the program without being a shared library that ldd shows.
HEADERS_AND_ARCHIVES = {
    "Boost": ("libboost-json1.83-dev", "libboost-json1.81-dev", "libboost1.83-dev", "libboost1.81-dev"),
    "toml++": ("libtomlplusplus-dev",),
    "xxHash": ("libxxhash-dev",),
}

GCC_RUNTIME = {"libgcc-s1", "libstdc++6"}

# The system's own libraries, which no program ships.
SYSTEM_LIBRARIES = {"libc.so", "libm.so", "ld-linux-x86-64.so", "ld-linux-aarch64.so", "linux-vdso.so"}

# Notices that must accompany the crate although its own licence field does not say so.
CRATE_NOTES = {"onig_sys": "contains Oniguruma (BSD-2-Clause, see below)"}

# What the wheel bundles beside libmlx, by the start of the file name.
MLX_BUNDLED = {
    "libblas": "Netlib BLAS | BSD-3-Clause",
    "liblapack": "Netlib LAPACK | BSD-3-Clause",
    "libgfortran": "GNU Fortran run-time library | GPL-3.0-or-later with the GCC Runtime Library Exception",
    "libquadmath": "GNU quad-precision library | LGPL-2.1-or-later",
}


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def cargo_packages():
    """The crates that are linked: no build scripts' or tests' dependencies, sorted by name."""
    cargo = Path.home() / ".cargo/bin/cargo"
    metadata = json.loads(output_of(str(cargo) if cargo.exists() else "cargo", "metadata", "--format-version", "1",
                                    "--locked", "--filter-platform", PLATFORM, "--manifest-path", "rust/Cargo.toml"))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    wanted, pending = set(), [metadata["resolve"]["root"]]
    while pending:
        node = nodes[pending.pop()]
        for dependency in node["deps"]:
            kinds = dependency["dep_kinds"]
            linked = any(kind["kind"] is None for kind in kinds)
            if linked and dependency["pkg"] not in wanted and not is_procedural_macro(packages[dependency["pkg"]]):
                wanted.add(dependency["pkg"])
                pending.append(dependency["pkg"])
    return sorted((packages[identifier] for identifier in wanted), key=lambda p: (p["name"], p["version"]))


def is_procedural_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def crate_rows(packages):
    for package in packages:
        licence = package["license"].replace("/", " OR ")
        note = CRATE_NOTES.get(package["name"], "")
        yield f"| {package['name']} | {package['version']} | {licence} | {note} |"


def oniguruma_notice(packages):
    onig = next(package for package in packages if package["name"] == "onig_sys")
    return (Path(onig["manifest_path"]).parent / "oniguruma/COPYING").read_text(encoding="utf-8").strip()


def mlx_section():
    wheel = next(folder for folder in (ROOT / ".deps/mlx-cpu", ROOT / ".deps/mlx-metal") if folder.exists())
    info = next(wheel.glob("mlx_*.dist-info"))
    version = re.search(r"^Version: (.+)$", (info / "METADATA").read_text(encoding="utf-8"), re.M)[1]
    lines = ["| library | licence |", "| --- | --- |", f"| MLX {version} | MIT |"]
    for library in sorted(wheel.glob("mlx_*.libs/*.so*")):
        bundled = next((text for start, text in MLX_BUNDLED.items() if library.name.startswith(start)), None)
        if bundled is None:
            sys.exit(f"third_party: {library.name} in MLX's wheel is not in the table of scripts/third_party.py")
        lines.append(f"| {bundled} |")
    notice = (info / "licenses/LICENSE").read_text(encoding="utf-8").strip()
    return "\n".join(lines) + f"\n\nMLX's licence:\n\n```\n{notice}\n```\n"


def linked_libraries():
    """Paths of the shared libraries that the program loads, without MLX's own and the C library."""
    for line in output_of("ldd", str(PROGRAM)).splitlines():
        match = re.match(r"\s*(\S+?\.so)\S* => (/\S+)", line)
        if match and match[1] not in SYSTEM_LIBRARIES and ".deps" not in match[2]:
            yield os.path.realpath(match[2])


def owner_of(path):
    """The Debian package of a file, whose list may have the path without /usr."""
    for candidate in (path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", candidate], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return sys.exit(f"third_party: no Debian package owns {path}")


def debian_licence(package):
    """The licence of most of the package's files, from its copyright file where that is machine-readable."""
    if package in GCC_RUNTIME:
        return "GPL-3.0-or-later with the GCC Runtime Library Exception"
    text = (Path("/usr/share/doc") / package / "copyright").read_text(encoding="utf-8", errors="replace")
    for stanza in re.split(r"\n\s*\n", text):
        match = re.search(r"^License: *(\S[^\n]*)$", stanza, re.M)
        if match and re.search(r"^Files: *\n?\s*\*\s*$", stanza, re.M):
            return match[1].strip()
    return "see its copyright file"


def debian_section():
    packages = {owner_of(path) for path in linked_libraries()}
    for alternatives in HEADERS_AND_ARCHIVES.values():
        packages |= {name for name in alternatives if (Path("/usr/share/doc") / name).exists()}
    version = re.search(r'^PRETTY_NAME="(.+)"$', Path("/etc/os-release").read_text(encoding="utf-8"), re.M)[1]
    lines = [f"As built on {version}; full texts, and the licences of single files, are in each "
             "package's copyright file.", "",
             "| package | version | licence |", "| --- | --- | --- |"]
    for package in sorted(packages):
        number = output_of("dpkg-query", "-W", "-f", "${Version}\n", package).splitlines()[0]
        lines.append(f"| {package} | {number} | {debian_licence(package)} |")
    return "\n".join(lines) + "\n"


def write():
    packages = cargo_packages()
    rows = "\n".join(crate_rows(packages))
    OUTPUT.write_text(f"""# Third-party software in Redpoll

Written by scripts/third_party.py (`make third-party`) from what the program links; do not edit.

## MLX

{mlx_section()}
## Rust crates

| crate | version | licence | note |
| --- | --- | --- | --- |
{rows}

Oniguruma's licence:

```
{oniguruma_notice(packages)}
```

## Debian libraries

{debian_section()}""", encoding="utf-8")


def check():
    """The crate table of THIRD_PARTY.md against Cargo.lock."""
    written = OUTPUT.read_text(encoding="utf-8").splitlines()
    expected = set(crate_rows(cargo_packages()))
    section = set(written[written.index("## Rust crates") + 1:written.index("## Debian libraries")])
    rows = {line for line in section if line.startswith("| ") and not line.startswith(("| crate ", "| ---"))}
    for row in sorted(expected ^ rows):
        print(("missing: " if row in expected else "not linked: ") + row)
    if expected != rows:
        sys.exit("THIRD_PARTY.md is out of date: run make third-party")
    print(f"THIRD_PARTY.md names all {len(expected)} crates")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    elif not sys.argv[1:]:
        write()
    else:
        sys.exit(__doc__)
