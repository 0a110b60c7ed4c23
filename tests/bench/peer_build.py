"""llama.cpp, built from the source distribution of PyPI's llama-cpp-python, which carries it whole, and a Python with
mlx-lm. Everything lands in one folder and is left alone when it is there already; llama.cpp's source is checked against
a pinned hash.
"""

import pathlib
import shutil
import subprocess
import sys

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
TARGETS = ["llama-bench", "llama-server", "llama-quantize"]

MLX_LM = ["mlx-lm==0.32.2", "mlx[cpu]==0.32.4"]  # of MLX, the release that Redpoll is built with

COMMON = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    # It would take these from the git repository around its folder, which is ours.
    f"-DLLAMA_BUILD_COMMIT={PACKAGE}-{VERSION}",
    "-DLLAMA_BUILD_NUMBER=0",
]
# What the compiler may use: all that this processor has, or no more than a processor with AVX2 has.
FLAGS = {
    "native": ["-DGGML_NATIVE=ON"],
    "avx2": ["-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON",
             "-DGGML_AVX512=OFF", "-DGGML_AVX_VNNI=OFF"],
}  # fmt: skip


def source(folder: pathlib.Path) -> pathlib.Path:
    """The unpacked distribution."""
    target = folder / f"{PACKAGE}-{VERSION}"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    pin = folder / "llama-cpp-python.txt"
    pin.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
    run([sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--no-binary", PACKAGE,
         "--require-hashes", "-d", folder, "-r", pin])  # fmt: skip
    fresh = folder / "unpacking"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    [archive] = folder.glob("llama_cpp_python-*.tar.gz")
    run(["tar", "-xf", archive, "-C", fresh, "--strip-components=1"])
    return fresh.rename(target)


def build(folder: pathlib.Path, isa: str) -> pathlib.Path:
    """The folder of the programs. Goes on where an interrupted build stopped."""
    target = folder / f"llama-{isa}"
    if not (target / "build.ninja").exists():
        run(["cmake", "-S", source(folder) / "vendor" / "llama.cpp", "-B", target, "-G", "Ninja", *COMMON, *FLAGS[isa]])
    run(["ninja", "-C", target, *TARGETS])
    return target / "bin"


def mlx_python(folder: pathlib.Path) -> pathlib.Path:
    """A Python that has mlx-lm."""
    target = folder / "mlx-lm"
    if not target.exists():
        fresh = folder / "mlx-lm.part"
        run([sys.executable, "-m", "venv", "--clear", fresh])
        run([fresh / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *MLX_LM])
        fresh.rename(target)
    return target / "bin" / "python"


def requantize(programs: pathlib.Path, model: pathlib.Path, target: pathlib.Path, embedding: str) -> pathlib.Path:
    """The model with Q4_0 matrices: as many bits as Q4_1 but for the bias, and the type for which llama.cpp has its
    fastest kernels. The embedding, which here is the output matrix too, is of type `embedding`."""
    if not target.exists():
        fresh = target.with_suffix(".part")
        run([programs / "llama-quantize", "--allow-requantize", "--pure", "--token-embedding-type", embedding, model,
             fresh, "q4_0"])  # fmt: skip
        fresh.rename(target)
    return target


def run(command: list) -> None:
    """Its output goes to stderr: stdout has the results only."""
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)
