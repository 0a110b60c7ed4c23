#!/usr/bin/env python3
"""Checks the budgets of the source: sizes of files, functions, headers and folders, and a few things never wanted.

What is over budget must be listed with its size and a reason in tests/lint/budget_exceptions.txt; the hard limit on a
file has no exceptions. Functions are found by following brackets in formatted C++, not by a compiler.

usage: check_budgets.py [ROOT]     ROOT: the repository (default: the one this script is in)
"""
import ast
import re
import sys
from collections import Counter
from pathlib import Path

MAX_FILE_LINES = 400
HARD_FILE_LINES = 600
MAX_HEADER_LINES = 150
MAX_MODEL_LINES = 250
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 5
MAX_NESTING = 3
MAX_FOLDER_FILES = 20

CODE_FOLDERS = ["src", "tests", "rust", "scripts", "web"]
CODE_SUFFIXES = {".h", ".cpp", ".inc", ".rs", ".py", ".ts", ".tsx"}
TEXT_SUFFIXES = CODE_SUFFIXES | {".md", ".txt", ".cmake", ".json", ".toml", ".yaml", ".yml", ".html", ".css", ".in", ""}
SKIPPED = {".git", ".deps", "build", "target", "node_modules", "__pycache__", ".pytest_cache"}
EXCEPTIONS = "tests/lint/budget_exceptions.txt"

TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!(\([^)]+\))?: \S+ \S+ \S+)")  # a reason has three words or more
MACHINE_PATH = re.compile(r"(?<![\w.~}])/(?:work|root|tmp|home/\w+|Users/\w+)/")
CPP_NOISE = re.compile(
    r'R"(?P<end>[^()\\ ]*)\(.*?\)(?P=end)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


class Function:
    def __init__(self, name, line):
        self.name, self.line = name, line
        self.lines = self.parameters = self.nesting = 0


# --- C++ ----------------------------------------------------------------------------------------------------------


def blanked(match):
    """Spaces of the same shape, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match[0])


def top_level(text):
    """(index, character) of what is outside every bracket; `<` counts as one only in template lists."""
    depth = 0
    for index, character in enumerate(text):
        if character in ")]}":
            depth -= 1
        if depth == 0:
            yield index, character
        if character in "([{":
            depth += 1


def parameter_list(head):
    """(name, parameters) when `head`, the text before a `{`, declares a function; otherwise None."""
    head = re.sub(r"\[\[.*?\]\]", "", head).strip()
    head = re.sub(r"^template\s*<.*?>\s*(?=[\w\[])", "", head, flags=re.S)
    if re.match(r"(?:namespace|class|struct|union|enum|extern|export)\b", head) or not head.endswith((")", "const",
            "noexcept", "override", "final", "mutable")) and "->" not in head and not re.search(r"\)\s*:", head):
        return None
    for index, character in top_level(head):
        if character == "=" and not head[:index].rstrip().endswith("operator") and "operator" not in head[:index]:
            return None  # an initializer
        if character == "(":
            name = re.search(r"(operator\s*\S+|~?[\w:~]+)\s*$", head[:index])
            if not name or name[1] in ("if", "for", "while", "switch", "catch"):
                return None
            if name[1] == "operator" and head[index:index + 2] == "()":
                continue
            end = next((i for i, c in top_level(head[index:]) if c == ")" and i > 0), len(head) - index)
            return name[1], split_parameters(head[index + 1:index + end])
    return None


def split_parameters(text):
    text = re.sub(r"->|<=|>=", "  ", text)
    parameters, depth = 1, 0
    for character in text:
        depth += (character in "(<[{") - (character in ")>]}")
        parameters += character == "," and depth == 0
    return parameters if text.strip() and text.strip() != "void" else 0


def is_control(head):
    """Whether the `{` after `head` opens a statement block rather than a list of values."""
    return bool(re.search(r"(?:\)|\]|\belse|\bdo|\btry)\s*(?:mutable|noexcept|->[^;{}]*)?\s*$", head))


def is_value(head):
    """Whether the `{` after `head`, outside functions, starts a default argument or a member's initial value."""
    return head.count("(") > head.count(")") or bool(re.search(r"\)[^;{}()]*:[^:].*\w\s*$", head, re.S))


def cpp_functions(text):
    """Functions with bodies, outermost first, without lambdas."""
    text = DIRECTIVE.sub(blanked, CPP_NOISE.sub(blanked, text))
    functions, stack, start = [], [], 0  # stack of (kind, line); kind: scope, function, control, values
    line_of = [0]
    for character in text:
        line_of.append(line_of[-1] + (character == "\n"))
    for index, character in enumerate(text):
        if character == "{":
            head, inside = text[start:index], any(kind == "function" for kind, _ in stack)
            first = start + len(head) - len(head.lstrip())
            signature = None if inside else parameter_list(head)
            if not inside and is_value(head):
                stack.append(("values", 0))
                continue
            if signature:
                functions.append(Function(signature[0], line_of[first] + 1))
                functions[-1].parameters = signature[1]
                stack.append(("function", line_of[first]))
            else:
                stack.append(("control" if inside and is_control(head) else "values" if inside else "scope", 0))
                if inside:
                    nesting = sum(kind == "control" for kind, _ in stack)
                    functions[-1].nesting = max(functions[-1].nesting, nesting)
            start = index + 1
        elif character == "}":
            kind, first_line = stack.pop() if stack else ("scope", 0)
            if kind == "function":
                functions[-1].lines = line_of[index] - first_line + 1
            start = start if kind == "values" else index + 1
        elif character == ";" and text[start:index].count("(") == text[start:index].count(")"):
            start = index + 1
        elif character == ":" and re.search(r"\b(?:public|private|protected)\s*$", text[start:index]):
            start = index + 1
    return functions


# --- Python -------------------------------------------------------------------------------------------------------


def python_functions(text):
    functions = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = Function(node.name, node.lineno)
            function.lines = node.end_lineno - node.lineno + 1
            names = [argument.arg for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
            function.parameters = len([name for name in names if name not in ("self", "cls")])
            functions.append(function)
    return functions


# --- The checks ---------------------------------------------------------------------------------------------------


def measurements(name, text):
    """(kind, what, value, limit) for everything in one file that has a budget; `what` is the name in exceptions."""
    lines = text.count("\n")
    suffix = Path(name).suffix
    if re.fullmatch(r"src/models/\w+\.cpp", name):
        yield "model", name, lines, MAX_MODEL_LINES
    elif name.startswith("src/") and suffix == ".h":
        yield "header", name, lines, MAX_HEADER_LINES
    else:
        yield "file", name, lines, MAX_FILE_LINES
    functions = cpp_functions(text) if suffix in (".h", ".cpp", ".inc") else []
    if suffix == ".py" or (suffix == "" and text.startswith("#!/usr/bin/env python3")):
        functions = python_functions(text)
    for function in functions:
        what = f"{name}:{function.name}"
        yield "function", what, function.lines, MAX_FUNCTION_LINES
        yield "parameters", what, function.parameters, MAX_PARAMETERS
        yield "nesting", what, function.nesting, MAX_NESTING


def folder_sizes(names):
    """A header and its source count as one."""
    stems = {Path(name).with_suffix("") for name in names if name.startswith("src/")}
    counts = Counter(str(stem.parent) for stem in stems)
    for folder, count in sorted(counts.items()):
        yield "folder", folder, count, MAX_FOLDER_FILES


def read_exceptions(root):
    """{(kind, what): accepted value}, and complaints about lines that cannot be used."""
    accepted, complaints = {}, []
    path = Path(root, EXCEPTIONS)
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, what, value, *reason = [*line.split(), "", "", ""][: max(len(line.split()), 3)]
        if not value.isdigit() or len(reason) < 3:
            complaints.append(f"{EXCEPTIONS}:{number}: expected KIND NAME SIZE and a reason, got '{line}'")
        else:
            accepted[kind, what] = int(value)
    return accepted, complaints


def text_files(root):
    for path in sorted(Path(root).rglob("*")):
        parts = path.relative_to(root).parts
        if not SKIPPED & set(parts) and path.suffix in TEXT_SUFFIXES and path.is_file() and not path.is_symlink():
            try:
                yield "/".join(parts), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # data


def unwanted(name, text):
    """TODOs without a reason and paths of somebody's machine."""
    for number, line in enumerate(text.splitlines(), 1):
        if TODO.search(line):
            yield f"{name}:{number}: a TODO needs a reason: 'TODO: why it is not done'"
        if MACHINE_PATH.search(line):
            yield f"{name}:{number}: a path of one machine: {MACHINE_PATH.search(line)[0]}"


def violations(root):
    accepted, found = read_exceptions(root)
    measured, code = [], []
    for name, text in text_files(root):
        if not name.startswith(("tests/lint/", "scripts/check_budgets.py")):  # which have to spell them out
            found += unwanted(name, text)
        if name.split("/")[0] in CODE_FOLDERS and Path(name).suffix in CODE_SUFFIXES:
            code.append(name)
            measured += measurements(name, text)
            if text.count("\n") > HARD_FILE_LINES:
                found.append(f"{name}: {text.count(chr(10))} lines, over the hard limit of {HARD_FILE_LINES}")
    over = {}
    for kind, what, value, limit in [*measured, *folder_sizes(code)]:
        if value > limit:
            over[kind, what] = max(value, over.get((kind, what), 0))
            if value > accepted.get((kind, what), limit):
                found.append(f"{what}: {kind} {value}, budget {accepted.get((kind, what), limit)}")
    found += [f"{EXCEPTIONS}: {kind} {what} is within its budget: remove the line"
              for kind, what in accepted if (kind, what) not in over]
    return found


def main():
    found = violations(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    print("\n".join(found) if found else "budgets: everything is within its budget or a listed exception")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
