"""Completion in shells for ljtrace and steve-replay: scripts for bash and zsh, written at build from what --help prints.

steve/completion.py does the same for steve, whose options Python knows, and has what the scripts have in common.

    python3 -m steve.completion_help FOLDER     writes FOLDER/ljtrace.bash, FOLDER/_ljtrace and those of steve-replay

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from steve.completion import (
    COMPLETE_VALUE,
    VALUE_OF_OPTION,
    Option,
    bash_tables,
    quoted,
    zsh_described,
    zsh_specs,
)

FILES = {"FILE", "FILE.png", "<file>", "<filename>", "<dirname>", "<dir>", "OPS"}
HEAPS = ("malloc", "luajit", "custom", "mmap", "files")
WORDS = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")
OPTION = re.compile(r" {2,4}(?:(-\w),? +)?(--[a-z][\w-]*)(\[?=)?(\S*)(?: +(.*))?$")


class Program(NamedTuple):
    """A program, its commands with their texts, and the options by command, "" for those without one. rest: what
    follows the options: a file, a program with its arguments, or a process; by command."""

    name: str
    commands: dict[str, str]
    options: dict[str, list[Option]]
    rest: dict[str, str]


def printed(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def option(found: re.Match, more: list[str]) -> Option:
    """An option from its line in --help, and the lines after it."""
    letter, name, separator, value, text = found.groups()
    value = value.rstrip("]") if separator else ""
    words = tuple(value.split("|")) if WORDS.fullmatch(value) or value == "no" else ()
    if name == "--heap" and value == "LIST":
        words = HEAPS
    about = " ".join([text or "", *more]).strip()
    return Option(
        names=(letter, name) if letter else (name,),
        takes_value=bool(separator),
        words=words,
        is_list=value == "LIST",
        is_file=value in FILES,
        metavar=value,
        help=re.split(r"[;:] | \[|\. ", about)[0],
        repeats="can be repeated" in about,
    )


def options_in(text: str) -> list[Option]:
    """The options that the output of --help lists."""
    found: list[tuple[re.Match, list[str]]] = []
    for line in text.splitlines():
        match = OPTION.match(line)
        if match:
            found.append((match, []))
        elif found and re.match(r" {12,}\S", line):
            found[-1][1].append(line.strip())
    by_name = {each.names[-1]: each for each in (option(*one) for one in found)}
    return list(by_name.values())


def commands_in(text: str) -> list[Option]:
    """The commands of steve-replay, which only its usage has: each with its operand."""
    found = dict(re.findall(r"(--[a-z-]+)(?: (OPS))?(?= |$)", text[: text.index("\n\n")], re.M))
    return [
        Option((name,), False, (), False, False, "", "", False)
        for name in found
        if name not in ("--allocator", "--heap", "--json", "--still")
    ]


def replay() -> Program:
    """steve-replay, with the names of its allocators."""
    text = printed("steve-replay", "--help")
    names = tuple(entry["name"] for entry in json.loads(printed("steve-replay", "--list", "--json")))
    listed = [each._replace(words=names) if each.names[-1] == "--allocator" else each for each in options_in(text)]
    known = {name for each in listed for name in each.names}
    commands = [each for each in commands_in(text) if each.names[0] not in known]
    return Program("steve-replay", {}, {"": commands + listed}, {"": "file"})


def ljtrace() -> Program:
    """ljtrace with its commands, and as a tool of Valgrind."""
    commands = {
        "run": "record a program at native speed",
        "attach": "record a running process",
        "detach": "end the recording of a process",
    }
    options = {name: options_in(printed("ljtrace", name, "--help")) for name in commands}
    return Program(
        "ljtrace",
        commands,
        {**options, "": options_in(printed("ljtrace", "--help"))},
        {"run": "program", "attach": "process", "detach": "process", "": "program"},
    )


# -- bash --------------------------------------------------------------------------------------------------

BASH = """\
# bash completion of {name}. Written by steve/completion_help.py at build.
# SPDX-License-Identifier: GPL-2.0-or-later

{tables}

# what follows the options of command $1
_{function}_rest()
{{
    case $1 in
{rest}
    esac
}}

_{function}()
{{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=- first=1
    local kind words rest i start=
    COMPREPLY=()
    case " {commands} " in
    *" ${{COMP_WORDS[1]}} "*) if ((COMP_CWORD > 1)); then command=${{COMP_WORDS[1]}} first=2; fi ;;
    esac
    rest=$(_{function}_rest "$command")
    for ((i = first; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
        =) ((i++)) ;; # bash makes three words of --option=value
        -*) ;;
        *)
            if [[ $rest == program && ${{COMP_WORDS[i+1]}} != = ]]; then
                if declare -F _command_offset >/dev/null; then
                    _command_offset "$i"
                else
                    mapfile -t COMPREPLY < <(compgen -f -- "$current")
                    compopt -o filenames
                fi
                return
            fi
            ;;
        esac
    done
{value_of_option}
    elif [[ $rest == program ]]; then # a value needs =
        before=
    fi
    read -r kind words < <(_{function}_values "$command" "$before")
{complete_value}
    *)
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_{function}_options "$command")" -- "$current")
            [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace
            return
        fi
        ((COMP_CWORD > 1)) || mapfile -t COMPREPLY < <(compgen -W "{commands}" -- "$current")
        case $rest in
        process) mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=)" -- "$current") ;;
        program)
            mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
            compopt -o filenames
            ;;
        *)
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            compopt -o filenames
            ;;
        esac
        ;;
    esac
}}
complete -F _{function} {name}
"""


def bash(program: Program) -> str:
    """The script for bash."""
    # ljtrace takes a value only after =
    needs_equals = [command for command, rest in program.rest.items() if rest != "file"]
    function = program.name.replace("-", "_")
    return BASH.format(
        name=program.name,
        function=function,
        tables=bash_tables(function, program.options, needs_equals),
        value_of_option=VALUE_OF_OPTION,
        complete_value=COMPLETE_VALUE,
        rest="\n".join(f"    {command or '-'}) echo {rest} ;;" for command, rest in program.rest.items()),
        commands=" ".join(program.commands),
    )


# -- zsh ---------------------------------------------------------------------------------------------------

ZSH = """\
#compdef {name}
# zsh completion of {name}. Written by steve/completion_help.py at build.
# SPDX-License-Identifier: GPL-2.0-or-later

_{function}()
{{
    local -a commands=(
{commands}
    )
    if (( CURRENT > 2 )); then
        case $words[2] in
{cases}
        esac
    elif (( $#commands )); then
        _describe -t commands command commands
    fi
    _arguments \\
        {specs}
}}

_{function} "$@"
"""
REST = {
    "file": [quoted("*:file:_files")],
    "program": [quoted(":program:_command_names -e"), quoted("*::arguments:_normal")],
    "process": [quoted(":process:_pids")],
}


def zsh(program: Program) -> str:
    """The script for zsh."""

    def arguments(command: str, indent: str) -> str:
        specs = [spec for each in program.options[command] for spec in zsh_specs(each)]
        return f" \\\n{indent}".join(specs + REST[program.rest[command]])

    cases = [
        f"        {command})\n            shift words\n            (( CURRENT-- ))\n            _arguments \\\n"
        f"                {arguments(command, ' ' * 16)}\n            return\n            ;;"
        for command in program.commands
    ]
    return ZSH.format(
        name=program.name,
        function=program.name.replace("-", "_"),
        commands=zsh_described(program.commands),
        cases="\n".join(cases),
        specs=arguments("", " " * 8),
    )


def main(folder: Path) -> None:
    """Write the scripts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in (ljtrace(), replay()):
        (folder / f"{program.name}.bash").write_text(bash(program))
        (folder / f"_{program.name}").write_text(zsh(program))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
