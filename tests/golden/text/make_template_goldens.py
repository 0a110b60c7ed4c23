"""Makes the expected renderings of chat templates with Jinja2, set up as transformers does.

    make_template_goldens.py                    templates/*.jinja -> templates.json
    make_template_goldens.py --gguf MODEL       the template inside a GGUF file -> starter_renders.json
    make_template_goldens.py --real FOLDER      FOLDER/*.jinja -> real_templates.tsv (hashes only)

The templates in templates/ are this project's own; each uses the constructs of one family of models. FOLDER holds
models' real templates, which are not ours to copy: `--fetch FOLDER` takes them from the source package of
llama-cpp-python on PyPI. The test that compares with real_templates.tsv runs if REDPOLL_REAL_TEMPLATES names FOLDER.

Needs jinja2 (3.1), and gguf for --gguf.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import template_cases

HERE = pathlib.Path(__file__).parent
NOW = 1764428400  # 2025-11-29 15:00:00 UTC


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %} prints what is inside."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


class Raised(Exception):
    pass


def _raise(message):
    raise Raised(message)


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    result = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    result.filters["tojson"] = _to_json
    result.globals["raise_exception"] = _raise
    result.globals["strftime_now"] = lambda pattern: datetime.fromtimestamp(NOW, timezone.utc).strftime(pattern)
    return result


def render(source, context):
    """-> (outcome, text): "ok" and the prompt, "raised" and the template's words, or "error" and nothing."""
    try:
        return "ok", environment().from_string(source).render(**context)
    except Raised as refusal:
        return "raised", str(refusal)
    except Exception:  # a template that Jinja2 cannot parse or that trips over the context
        return "error", ""


def read_template(path):
    return path.read_bytes().decode()


def write_own():
    contexts = template_cases.contexts()
    renders = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        for name, context in contexts.items():
            outcome, text = render(read_template(path), context)
            renders.append({"template": path.name, "context": name, "outcome": outcome, "text": text})
    result = {"now": NOW, "contexts": contexts, "renders": renders}
    (HERE / "templates.json").write_text(json.dumps(result, ensure_ascii=False, indent=0) + "\n")
    print(f"{len(renders)} renderings: " + ", ".join(
        f"{sum(r['outcome'] == kind for r in renders)} {kind}" for kind in ("ok", "raised", "error")))


def write_real(folder):
    lines = ["# template\tits hash\tcontext\toutcome\thash of the text (the first 16 digits of SHA-256)\n"]
    for path in sorted(folder.glob("*.jinja")):
        source = read_template(path)
        for name, context in template_cases.contexts().items():
            outcome, text = render(source, context)
            if outcome == "error":
                continue
            digests = [hashlib.sha256(content.encode()).hexdigest()[:16] for content in (source, text)]
            lines.append("\t".join([path.name, digests[0], name, outcome, digests[1]]) + "\n")
    (HERE / "real_templates.tsv").write_text("".join(lines))
    print(f"{len(lines) - 1} renderings")


def write_starter(model):
    import gguf

    source = gguf.GGUFReader(model).fields["tokenizer.chat_template"].contents()
    renders = []
    for name, context in template_cases.contexts().items():
        outcome, text = render(source, context)
        renders.append({"context": name, "outcome": outcome, "text": text})
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in renders)
    (HERE / "starter_renders.json").write_text(f"[\n{lines}\n]\n")
    print(f"{len(renders)} renderings")


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as download:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "llama-cpp-python", "--no-deps", "--no-binary",
             "llama-cpp-python", "--dest", download], check=True)
        [archive] = pathlib.Path(download).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            for member in files:
                path = pathlib.PurePath(member.name)
                if member.isfile() and path.suffix == ".jinja" and path.parts[-3:-1] == ("models", "templates"):
                    (folder / path.name).write_bytes(files.extractfile(member).read())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("--real", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--fetch", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.fetch:
        fetch(arguments.fetch)
    if arguments.real:
        write_real(arguments.real)
    if arguments.gguf:
        write_starter(arguments.gguf)
    if not arguments.fetch and not arguments.real and not arguments.gguf:
        write_own()


if __name__ == "__main__":
    main()
