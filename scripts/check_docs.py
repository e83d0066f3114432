#!/usr/bin/env python3
"""Fails when the documentation names a file, a heading, a command or an option that does not exist.

    scripts/check_docs.py [--root ROOT] [--pipescope PROGRAM]

Checks each tracked Markdown file: relative links with their headings, files and scripts named in code, and the options
of each `pipescope COMMAND ..` against `pipescope COMMAND --help`. Checks every other tracked file for pages of docs/
that it names. PROGRAM is by default the newest one in build/; without one, commands are not checked.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from check_names import tracked

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"^(?:\./)?[\w.-]+(?:/[\w.-]+)+/?$")
SOURCE_NAME = re.compile(r"^\w+\.(?:h|cpp|cu|py|cmake)$")
SCRIPT = re.compile(r"(?<![\w/.-])scripts/[\w.-]*\w")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
COMMAND = re.compile(r"^(?:\S*/)?pipescope\s+([a-z]+)\b(.*)$", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
# Made by the build or by a command, so no file of the repository.
MADE = re.compile(r"^(\./)?(build|bundle|demo)(/|$)")
# Put together into a page of docs/evidence/ by a script, so that their links begin there.
TEMPLATES = re.compile(r"^benchmarks/paper_tables/")
# Files of others, and of users, that the documentation names.
FOREIGN = {"sqlite3.h", "setup.py", "model.py"}


def slug(heading):
    """The anchor that a heading gets on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")


def without_code_blocks(text):
    """The prose alone: blocks in fences or indented by four spaces after an empty line are left out."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<=\n\n)(?:    .*\n|\n)+", "\n", text)


def code_lines(text):
    """Commands of code blocks, a continued line joined to one."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        yield re.split(r"\s#|\s\|\s|\s>", line.strip())[0]


class Help:
    """The options of each command, as the program itself tells them."""

    def __init__(self, program):
        self.program = program
        self.known = {}
        self.unknown = set()
        self.commands = set(re.findall(r"^  ([a-z]+) ", self.output("--help"), re.MULTILINE)) if program else set()

    def output(self, *arguments):
        result = subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=60, check=False)
        return result.stdout if result.returncode == 0 else ""

    def options(self, command):
        """None where the program cannot tell, as that of a build without torch for `run`."""
        if command not in self.known:
            text = self.output(command, "--help")
            known = set(OPTION.findall(text)) | {"--help", "-h"} if text else None
            if known is not None and command == "check":  # which takes those of run, too
                of_run = self.options("run")
                known = known | of_run if of_run is not None else None
            if known is None:
                self.unknown.add(command)
            self.known[command] = known
        return self.known[command]


def faults_of_command(line, program_help):
    match = COMMAND.match(line)
    if not match:
        return
    command, rest = match.groups()
    if command == "help":
        return
    if command not in program_help.commands:
        yield f"`pipescope {command}` is no command; `pipescope --help` lists them"
        return
    options = program_help.options(command)
    for option in OPTION.findall(re.split(r"\s--(?:\s|$)", rest)[0]) if options is not None else []:
        if option not in options:
            yield f"`pipescope {command}` has no option {option}; see `pipescope {command} --help`"


class Pages:
    def __init__(self, root):
        self.root = root
        self.files = set(tracked(root))
        self.names = {pathlib.PurePath(path).name for path in self.files}
        self.folders = {parent.as_posix() for path in self.files for parent in pathlib.PurePath(path).parents}
        self.top = {path.split("/")[0] for path in self.files if "/" in path}

    def exists(self, path):
        return path.rstrip("/") in self.files | self.folders

    def faults_of_link(self, page, text, target):
        if re.match(r"[a-z]+:", target):
            return
        path, _, anchor = target.partition("#")
        place = pathlib.PurePath("docs/evidence" if TEMPLATES.match(page) else pathlib.PurePath(page).parent) / path
        whole = pathlib.PurePath(page) if not path else pathlib.PurePath(
            (self.root / place).resolve().relative_to(self.root))
        if not self.exists(whole.as_posix()):
            yield f"links to {target}, but there is no {whole}"
        elif anchor and whole.suffix == ".md":
            source = text if not path else (self.root / whole).read_text(encoding="utf-8")
            if anchor not in {slug(heading) for heading in re.findall(r"^#+ (.+)$", source, re.MULTILINE)}:
                yield f"links to {target}, but {whole} has no such heading"

    def faults_of_page(self, page, program_help):
        text = (self.root / page).read_text(encoding="utf-8")
        prose = without_code_blocks(text)
        for match in LINK.finditer(prose):
            yield from self.faults_of_link(page, text, match[1] or match[2])
        spans = [" ".join(span.split()) for span in SPAN.findall(prose)]
        for span in spans:
            top = span.removeprefix("./").split("/")[0]
            if PATH.match(span) and top in self.top and not self.exists(span.removeprefix("./")):
                yield f"names `{span}`, but there is no such file"
            elif SOURCE_NAME.match(span) and span not in self.names | FOREIGN:
                yield f"names `{span}`, but there is no file of that name"
        for script in SCRIPT.findall(text):
            if not self.exists(script):
                yield f"names {script}, but there is no such script"
        if program_help.program:
            for line in [*spans, *code_lines(text)]:
                yield from faults_of_command(line, program_help)

    def faults_of_other(self, path):
        try:
            text = (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return
        for page in PAGE.findall(text):
            if not self.exists(page):
                yield f"names {page}, but there is no such page"


def newest_program(root):
    built = sorted(root.glob("build/*/bin/pipescope"), key=lambda path: path.stat().st_mtime)
    return built[-1] if built else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent)
    parser.add_argument("--pipescope", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    program = arguments.pipescope or newest_program(root)
    program_help = Help(program.resolve() if program else None)
    pages = Pages(root)
    markdown = sorted(path for path in pages.files if path.endswith(".md"))
    faults = []
    for page in markdown:
        # A changelog and its pages tell of files and options as they were.
        if page != "CHANGELOG.md":
            faults += [f"{page}: {fault}" for fault in pages.faults_of_page(page, program_help)]
    for path in sorted(pages.files - set(markdown)):
        if not MADE.match(path) and pathlib.PurePath(path).parts[0] != "tests":
            faults += [f"{path}: {fault}" for fault in pages.faults_of_other(path)]
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    checked = f"commands against {program}" if program else "commands not checked: there is no pipescope in build/"
    if program_help.unknown:
        checked += f", which cannot tell of {', '.join(sorted(program_help.unknown))}"
    print(f"docs: {len(markdown)} pages, {len(faults)} faults; {checked}")
    return 1 if faults or not markdown else 0


if __name__ == "__main__":
    sys.exit(main())
