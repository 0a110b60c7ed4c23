"""The layer check catches each kind of violation and lets the rest pass."""
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import check_layers  # noqa: E402


def violations(files):
    """Checks a tree made of {path below src/: content}."""
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            path = Path(root, "src", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return list(check_layers.violations(root))


class CheckLayers(unittest.TestCase):
    def test_lower_layers_and_free_libraries_are_allowed(self):
        self.assertEqual([], violations({
            "base/error.h": "#include <string>\n",
            "nn/norm.h": '#include <mlx/mlx.h>\n#include "base/error.h"\n',
            "engine/engine.h": '#include "nn/norm.h"\n',
            "server/app.cpp": '#include <fmt/format.h>\n#include "engine/engine.h"\n#include "base/error.h"\n',
        }))

    def test_an_upper_layer_is_refused(self):
        self.assertEqual(
            ["src/nn/norm.h:2: nn may not include engine (engine/engine.h)"],
            violations({"nn/norm.h": '\n#include "engine/engine.h"\n', "engine/engine.h": ""}))

    def test_every_folder_is_held_to_the_order(self):
        chain = ["base", "kernels", "cache", "nn", "models", "engine", "server", "cli"]
        for upper in range(1, len(chain)):
            for lower in range(upper):
                header = f"{chain[upper]}/x.h"
                self.assertEqual(
                    [f"src/{chain[lower]}/y.h:1: {chain[lower]} may not include {chain[upper]} ({header})"],
                    violations({f"{chain[lower]}/y.h": f'#include "{header}"\n', header: ""}))

    def test_branches_do_not_see_each_other(self):
        for folder, other in [("text", "http"), ("api", "text"), ("kernels", "checkpoint"), ("http", "api")]:
            self.assertEqual(
                [f"src/{folder}/y.h:1: {folder} may not include {other} ({other}/x.h)"],
                violations({f"{folder}/y.h": f'#include "{other}/x.h"\n', f"{other}/x.h": ""}))

    def test_api_sees_two_headers_of_the_engine(self):
        engine = {"engine/request.h": "", "engine/sampling_params.h": "", "engine/engine.h": ""}
        self.assertEqual([], violations({"api/a.h": '#include "engine/request.h"\n', **engine}))
        self.assertEqual([], violations({"api/a.h": '#include "engine/sampling_params.h"\n', **engine}))
        self.assertEqual(["src/api/a.h:1: api may not include engine (engine/engine.h)"],
                         violations({"api/a.h": '#include "engine/engine.h"\n', **engine}))

    def test_api_must_not_reach_mlx_through_them(self):
        self.assertEqual(
            ["src/api/a.h: api must not reach MLX: "
             "api/a.h -> engine/request.h -> kernels/matrix.h -> mlx/array.h"],
            violations({"api/a.h": '#include "engine/request.h"\n',
                        "engine/request.h": '#include "kernels/matrix.h"\n',
                        "kernels/matrix.h": "#include <mlx/array.h>\n"}))

    def test_the_engine_has_no_json(self):
        self.assertEqual(["src/engine/a.cpp:1: engine may not include base/json.h"],
                         violations({"engine/a.cpp": '#include "base/json.h"\n', "base/json.h": ""}))

    def test_outside_libraries_stay_in_their_folders(self):
        for name, folder, places in [
                ("mlx/mlx.h", "server", "kernels, cache, nn, models, engine may include mlx/"),
                ("boost/asio/io_context.hpp", "server", "http may include boost/asio"),
                ("boost/beast.hpp", "api", "http may include boost/beast"),
                ("openssl/sha.h", "base", "http, base/sha256.cpp may include openssl/"),
                ("spdlog/spdlog.h", "base", "base/log.cpp may include spdlog/"),
                ("toml++/toml.h", "server", "cli/config_file.cpp may include toml++/")]:
            self.assertEqual([f"src/{folder}/a.cpp:1: only {places} ({name})"],
                             violations({f"{folder}/a.cpp": f"#include <{name}>\n"}))
        self.assertEqual([], violations({"base/sha256.cpp": "#include <openssl/evp.h>\n",
                                         "base/log.cpp": "#include <spdlog/spdlog.h>\n",
                                         "http/tls.h": "#include <boost/asio/ssl.hpp>\n"}))

    def test_only_sources_of_text_see_the_rust_library(self):
        self.assertEqual([], violations({"text/tokenizer.cpp": '#include "redpoll_text.h"\n'}))
        self.assertEqual(["src/text/tokenizer.h:1: only text/*.cpp, text/rust_call.h may include redpoll_text.h "
                          "(redpoll_text.h)"],
                         violations({"text/tokenizer.h": "#include <redpoll_text.h>\n"}))

    def test_private_headers_stay_private(self):
        header = {"text/rust_call.h": '#include "redpoll_text.h"\n'}
        self.assertEqual([], violations({"text/tokenizer.cpp": '#include "text/rust_call.h"\n', **header}))
        for name in ["text/tokenizer.h", "server/app.cpp"]:
            self.assertEqual([f"src/{name}:1: only text/*.cpp may include text/rust_call.h"],
                             violations({name: '#include "text/rust_call.h"\n', **header}))

    def test_cycles_are_found(self):
        self.assertEqual(
            ["cycle of includes: base/a.h -> base/b.h -> base/c.h -> base/a.h"],
            violations({"base/a.h": '#include "base/b.h"\n', "base/b.h": '#include "base/c.h"\n',
                        "base/c.h": '#include "base/a.h"\n'}))

    def test_includes_name_their_folder_and_exist(self):
        self.assertEqual(['src/base/a.cpp:1: write "base/a.h"'],
                         violations({"base/a.cpp": '#include "a.h"\n', "base/a.h": ""}))
        self.assertEqual(["src/base/a.cpp:1: there is no src/base/gone.h"],
                         violations({"base/a.cpp": '#include "base/gone.h"\n'}))

    def test_a_new_folder_must_be_given_a_place(self):
        self.assertEqual(["src/misc: not a layer: add it to the table of scripts/check_layers.py"],
                         violations({"misc/a.h": ""}))


if __name__ == "__main__":
    unittest.main()
