"""The build's sum of the sources that decide what is computed tells each of their states from the others."""
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "cmake" / "write_numerics_identity.cmake"
SOURCES = {"nn/norm.h": "a\n", "nn/norm.cpp": "b\n", "kernels/cpu/rates.cpp": "c\n", "kernels/cpu/loops/matmul.inc": "e\n",
           "server/app.cpp": "d\n", "CMakeLists.txt": "-ffp-contract=off\n"}


def written(sources, compiler="GNU 12 for x86_64: -O2"):
    with tempfile.TemporaryDirectory() as root:
        for name, content in sources.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        output = Path(root, "identity.cpp")
        subprocess.run(["cmake", f"-DROOT={root}", "-DFOLDERS=kernels;nn", f"-DCOMPILER={compiler}",
                        f"-DBUILD={root}/CMakeLists.txt", f"-DOUTPUT={output}", "-P", SCRIPT], check=True)
        return output.read_text(encoding="utf-8")


class NumericsIdentity(unittest.TestCase):
    def test_it_is_a_sha256_and_the_same_wherever_the_sources_lie(self):
        self.assertRegex(written(SOURCES), r'numerics_identity\(\) \{ return "[0-9a-f]{64}"; \}')
        self.assertEqual(written(SOURCES), written(SOURCES))

    def test_a_changed_source_name_or_compiler_changes_it(self):
        edited = SOURCES | {"kernels/cpu/rates.cpp": "c;\n"}
        loops = SOURCES | {"kernels/cpu/loops/matmul.inc": "e;\n"}
        flags = SOURCES | {"CMakeLists.txt": "-ffp-contract=fast\n"}
        renamed = {name.replace("rates", "speeds"): content for name, content in SOURCES.items()}
        swapped = SOURCES | {"nn/norm.h": "b\n", "nn/norm.cpp": "a\n"}
        identities = [written(some) for some in (SOURCES, edited, loops, flags, renamed, swapped, SOURCES | {"nn/rope.h": ""})]
        identities.append(written(SOURCES, compiler="GNU 13 for x86_64: -O2"))
        self.assertEqual(len(identities), len(set(identities)))

    def test_other_folders_do_not(self):
        self.assertEqual(written(SOURCES), written(SOURCES | {"server/app.cpp": "e\n"}))


if __name__ == "__main__":
    unittest.main()
