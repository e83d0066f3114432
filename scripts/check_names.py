#!/usr/bin/env python3
"""Fails when two files share a name, when one name is defined in two files, or when no program compiles a test.

    scripts/check_names.py [ROOT]

Names of files: every C++, Python and CUDA source of the repository has a name of its own.
Names of definitions: a class, struct, enum, constant or function at namespace scope is defined in one file only, unless
its namespace is anonymous. Functions with different parameters are overloads. The linker accepts two classes of one name
and mixes them up; a unity build does not accept them. Tests too: two cases of one name cannot be told apart in CTest.
"""

import collections
import pathlib
import re
import subprocess
import sys

SOURCES = {".h", ".cpp", ".cu", ".py"}
CPP = {".h", ".cpp", ".cu"}
# Each of these files is a program or a library of its own, with its own main() or its own pipescope_model().
STANDALONE = re.compile(r"^(examples/|tests/models/plugins/)")
# The build takes one of the two.
# Stand in for headers of another project, whose names they bear.
SHIM = "engine/processes/gloo_shim/"
ALTERNATIVES = {"profiler/recorder/no_device_capture.cpp"}
ENTRY_POINTS = {"main", "LLVMFuzzerTestOneInput"}

NOISE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | (?:u8|[uUL])?R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:\\\n|[^\n])*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
NAMESPACE = re.compile(r"(?:^|\s)(?:inline\s+)?namespace(?:\s+([\w:]+))?$")
TYPE = re.compile(r"^(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?(?:\s*:[^:].*)?$")
NAME = re.compile(r"(?:(::)\s*|\b)(operator\s*(?:\(\s*\)|[^\w\s(]+|\w[\w\s*&:]*)|\w+)\s*$")
CONSTANT = re.compile(r"^inline\s+(?:constexpr|const)\s+[\w:<>,*\s]+?\b(\w+)$")
TEST_MACROS = {"TEST", "TEST_F", "TEST_P"}
ATTRIBUTES = re.compile(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)|__global__|__device__")


def strip_noise(text):
    """The code without comments, preprocessor lines and what stands in literals."""
    return NOISE.sub(lambda match: '""' if match[0].endswith('"') else " ", text)


def skip_template(head):
    """The head without a leading template<..>; None in place of a specialisation's."""
    while head.startswith("template"):
        depth, end = 0, 0
        for end, letter in enumerate(head):
            depth += (letter == "<") - (letter == ">")
            if letter == ">" and depth == 0:
                break
        if head[: end + 1].replace(" ", "") == "template<>":
            return None
        head = head[end + 1 :].strip()
    return head


def parameter_types(parameters):
    """The parameter list without default values and names, so that two declarations of one function are equal."""
    types, depth, start = [], 0, 0
    for at, letter in enumerate(parameters + ","):
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            one = parameters[start:at].split("=")[0].strip()
            start = at + 1
            one = re.sub(r"(?<=[\s*&>])\w+$", "", one) if not re.fullmatch(r"(?:const\s+)?[\w:]+", one) else one
            types.append(re.sub(r"\s+", "", one))
    return ",".join(types)


def parameters_begin(head):
    """Where the parenthesis of a function's parameters opens; None if the head is no function's."""
    operator = re.search(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+|\w[\w\s*&:]*)\s*\(", head)
    if operator:
        return operator.end() - 1
    depth = 0
    for at, letter in enumerate(head):
        depth += (letter == "<") - (letter == ">")
        if letter == "=" and depth == 0:
            return None
        if letter == "(" and depth == 0:
            return at
    return None


def closing(text, opening):
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return len(text)


def defined_by(head, is_block):
    """What the text before a brace or a semicolon at namespace scope defines: a name, or None."""
    head = skip_template(ATTRIBUTES.sub("", " ".join(head.split())).strip())
    if not head:
        return None
    if is_block and (match := TYPE.match(head)):
        return match[1]
    if match := CONSTANT.match(head.split("=")[0].strip()):
        return match[1]
    opening = parameters_begin(head)
    match = NAME.search(head[:opening]) if is_block and opening else None
    if not match or match[1] or re.search(r"\bstatic\b|=\s*$|^extern\b", head[: match.start()]):
        return None
    end = closing(head, opening)
    parameters = head[opening + 1 : end]
    if match[2] in TEST_MACROS:
        return "TEST " + ".".join(word.strip() for word in parameters.split(","))
    return f"{match[2]}({parameter_types(parameters)})"


def definitions(text):
    """Yields the qualified names that the text defines at the scope of named namespaces."""
    text = strip_noise(text)
    scopes = []  # one for each open brace: a namespace's name, "" for an anonymous one, None for a body
    start, at, parentheses = 0, 0, 0
    while at < len(text):
        letter = text[at]
        parentheses += (letter == "(") - (letter == ")")
        outside = None not in scopes
        if letter == "{" and parentheses == 0:
            head = text[start:at].strip()
            namespace = NAMESPACE.search(head) if outside else None
            if namespace:
                scopes.append(namespace[1] or "")
                start = at + 1
            else:
                if outside and (found := defined_by(head, True)):
                    yield from qualified(scopes, found)
                scopes.append(None)
        elif letter == "}" and parentheses == 0:
            if scopes:
                scopes.pop()
            start = at + 1
        elif letter == ";" and parentheses == 0 and outside:
            if found := defined_by(text[start:at].strip(), False):
                yield from qualified(scopes, found)
            start = at + 1
        at += 1


def qualified(scopes, name):
    if name.startswith("TEST "):
        yield name
    elif "" not in scopes and name.split("(")[0] not in ENTRY_POINTS:
        yield "::".join([*scopes, name])


def tracked(root):
    """Every file that git tracks; without git every file that is not hidden and not built."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [path for path in listed.stdout.split("\0") if path and (root / path).is_file()]
    paths = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(path for path in paths if not re.match(r"(\.|build/|demo/)", path))


def shared(places, what):
    for name, files in sorted(places.items()):
        if len(files) > 1:
            yield f"{name}: {what} {', '.join(sorted(files))}; rename all but one"


def unbuilt(root, files):
    """Tests that no CMakeLists.txt names: they would never run."""
    lists = "\n".join((root / path).read_text(encoding="utf-8") for path in files if path.endswith("CMakeLists.txt"))
    for path in files:
        name = pathlib.PurePath(path).name
        if name.endswith("_test.cpp") and not re.search(rf"\b{re.escape(name)}\b", lists):
            yield f"{path}: no CMakeLists.txt names it, so it never runs; add it to one"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files = tracked(root)
    sources = [path for path in files if pathlib.PurePath(path).suffix in SOURCES]
    by_file, by_definition = collections.defaultdict(set), collections.defaultdict(set)
    for path in sources:
        if not path.startswith(SHIM) and pathlib.PurePath(path).name != "__init__.py":  # Python gives that name
            by_file[pathlib.PurePath(path).name].add(path)
        if pathlib.PurePath(path).suffix in CPP and not STANDALONE.match(path) and path not in ALTERNATIVES:
            for name in definitions((root / path).read_text(encoding="utf-8")):
                by_definition[name].add(path)
    faults = [*shared(by_file, "files of one name:"), *shared(by_definition, "defined in"), *unbuilt(root, files)]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"names: {len(sources)} files, {len(by_definition)} definitions, {len(faults)} faults")
    return 1 if faults or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
