"""Completion in shells: scripts for bash and zsh, written at build from the parsers of the commands.

The scripts contain all options and values, so that a shell does not start Python when Tab is pressed.
steve/completion_help.py writes those of the other programs with the functions of this file.

    python3 -m steve.completion FOLDER     writes FOLDER/steve.bash and FOLDER/_steve

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

from steve.command import COMMANDS, Command
from steve.terminal.arguments import kinds_of, suggested

GENERAL = {"help": "describe a command", "--help": "list the commands", "--version": "show the version"}
# what the values of options are called in --help where they name a file or a folder that is no input
FILES = {"FILE", "OUT", "STEM", "DIR", "FILM", "PNG", "PATH", "NAME.html"}


class Option(NamedTuple):
    """An option of a command, or its arguments."""

    names: tuple[str, ...]
    """-o and --output; none: an argument."""
    takes_value: bool
    words: tuple[str, ...]
    """The values that are known."""
    is_list: bool
    """A value is a list of words, with commas between."""
    is_file: bool
    metavar: str
    help: str
    repeats: bool

    @property
    def kind(self) -> str:
        """What completes a value: word, list, file or none."""
        if self.words:
            return "list" if self.is_list else "word"
        return "file" if self.is_file else "none"


def options_of(command: str) -> list[Option]:
    """The options and arguments of a command."""
    parser = Command(command).parser
    formatter = parser._get_formatter()
    found = []
    for action in parser._actions:
        words, is_list = suggested(action)
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        is_argument = not action.option_strings
        found.append(
            Option(
                names=tuple(action.option_strings),
                takes_value=action.nargs != 0,
                words=words,
                is_list=is_list,
                is_file=bool(kinds_of(action)) or metavar in FILES or is_argument,
                metavar=metavar,
                help=formatter._expand_help(action) if action.help else "",
                repeats=is_argument or isinstance(action, argparse._AppendAction),
            )
        )
    return found


def quoted(text: str) -> str:
    """Text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


# -- bash --------------------------------------------------------------------------------------------------

# the functions of every script that say what a command has
TABLES = """\
# the options of command $1
_{function}_options()
{{
    case $1 in
{options}
    esac
}}

# how the value of option $2 of command $1 is completed: word, list, file or none, and the words
_{function}_values()
{{
    case "$1 $2" in
{values}
    esac
}}"""

# what every script does with the word at the cursor; a script can add to both, and closes them
VALUE_OF_OPTION = """\
    if [[ $current == = ]]; then # --option=
        current=
    elif [[ $before == = ]]; then # --option=value; bash has made three words of it
        before=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ $current == --*=* ]]; then # the same if = does not separate words
        before=${current%%=*} start=${current%%=*}= current=${current#*=}"""
COMPLETE_VALUE = """\
    case $kind in
    word)
        mapfile -t COMPREPLY < <(compgen -P "$start" -W "$words" -- "$current")
        ;;
    list)
        [[ $current != *,* ]] || start=$start${current%,*},
        mapfile -t COMPREPLY < <(compgen -P "$start" -W "$words" -- "${current##*,}")
        compopt -o nospace
        ;;
    none) ;;
    file)
        mapfile -t COMPREPLY < <(compgen -P "$start" -f -- "$current")
        compopt -o filenames
        ;;"""

BASH = """\
# bash completion of steve. Written by steve/completion.py at build.
# SPDX-License-Identifier: GPL-2.0-or-later

{tables}

_steve()
{{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    local kind words start=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "{commands} {general}" -- "$current")
        return
    elif [[ $command == help ]]; then
        ((COMP_CWORD > 2)) || mapfile -t COMPREPLY < <(compgen -W "{commands}" -- "$current")
        return
    fi
{value_of_option}
    fi
    read -r kind words < <(_steve_values "$command" "$before")
{complete_value}
    *)
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_steve_options "$command")" -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -P "$start" -f -- "$current")
            compopt -o filenames
        fi
        ;;
    esac
}}
complete -F _steve steve
"""


def bash_tables(function: str, by_command: dict[str, list[Option]], needs_equals: Container[str] = ()) -> str:
    """TABLES. The command "" is a program without a command. needs_equals: the commands whose options need = before
    their values."""
    options = []
    same_values: dict[str, list[str]] = {}
    for command, known in by_command.items():
        ending = "=" if command in needs_equals else ""
        names = [
            name + (ending if option.takes_value and name.startswith("--") else "")
            for option in known
            for name in option.names
        ]
        options.append(f"    {command or '-'}) echo {quoted(' '.join(names))} ;;")
        for option in known:
            if option.takes_value and option.names:
                value = " ".join((option.kind, *option.words))
                same_values.setdefault(value, []).extend(f'"{command or "-"} {name}"' for name in option.names)
    values = [f"    {' | '.join(which)}) echo {quoted(value)} ;;" for value, which in same_values.items()]
    return TABLES.format(function=function, options="\n".join(options), values="\n".join(values))


def bash() -> str:
    """The script for bash."""
    return BASH.format(
        tables=bash_tables("steve", {command: options_of(command) for command in COMMANDS}),
        value_of_option=VALUE_OF_OPTION,
        complete_value=COMPLETE_VALUE,
        commands=" ".join(COMMANDS),
        general=" ".join(GENERAL),
    )


# -- zsh ---------------------------------------------------------------------------------------------------

ZSH = """\
#compdef steve
# zsh completion of steve. Written by steve/completion.py at build.
# SPDX-License-Identifier: GPL-2.0-or-later

_steve_commands()
{{
    local -a commands=(
{commands}
    )
    _describe -t commands command commands "$@"
}}

_steve_general()
{{
    local -a general=(
{general}
    )
    _describe -t general 'general option' general
}}

_steve()
{{
    if (( CURRENT == 2 )); then
        _steve_commands
        _steve_general
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
    help) _arguments ':command:_steve_commands' ;;
{cases}
    esac
}}

_steve "$@"
"""


def in_spec(text: str) -> str:
    """Text within a specification of _arguments."""
    for char in "\\[]:":
        text = text.replace(char, "\\" + char)
    return text


def zsh_value(option: Option) -> str:
    """How zsh completes a value: the end of a specification."""
    action = {
        "word": f"({' '.join(option.words)})",
        "list": f"_sequence compadd - {' '.join(option.words)}",
        "file": "_files",
        "none": " ",
    }[option.kind]
    return f":{in_spec(option.metavar)}:{action}"


def zsh_specs(option: Option) -> list[str]:
    """The specifications of an option, one for each of its names."""
    if not option.names:
        return [quoted("*" + zsh_value(option))]
    others = "*" if option.repeats else f"({' '.join(option.names)})"
    found = []
    for name in option.names:
        ending = "" if not option.takes_value else "=" if name.startswith("--") else "+"
        value = zsh_value(option) if option.takes_value else ""
        found.append(quoted(f"{others}{name}{ending}[{in_spec(option.help)}]{value}"))
    return found


def zsh_arguments(known: list[Option]) -> list[str]:
    """All specifications of a command. Its arguments are one, the first, since all are files."""
    options = [spec for option in known if option.names for spec in zsh_specs(option)]
    arguments = [spec for option in known if not option.names for spec in zsh_specs(option)]
    return options + arguments[:1]


def zsh_described(words: dict[str, str]) -> str:
    """Words with their descriptions, as _describe takes them."""
    return "\n".join(f"        {quoted(in_spec(word) + ':' + text)}" for word, text in words.items())


def zsh() -> str:
    """The script for zsh."""
    cases = []
    for command in COMMANDS:
        specs = " \\\n            ".join(zsh_arguments(options_of(command)))
        cases.append(f"    {command})\n        _arguments \\\n            {specs}\n        ;;")
    return ZSH.format(
        commands=zsh_described({name: Command(name).help for name in COMMANDS}),
        general=zsh_described(GENERAL),
        cases="\n".join(cases),
    )


def main(folder: Path) -> None:
    """Write both scripts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steve.bash").write_text(bash())
    (folder / "_steve").write_text(zsh())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
