r"""The filter language of the analyses: `--where 'size >= 1Ki and lifetime < 1000 and site ~ "parser"'`.

    expression = term { "or" term }            term    = factor { "and" factor }
    factor     = "not" factor | "(" expression ")" | test
    test       = FLAG | value relation value | TEXT ( "=" | "!=" | "~" | "!~" ) STRING
    relation   = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
    value      = FIELD | NUMBER [ ( "k" | "M" | "G" | "Ki" | "Mi" | "Gi" ) [ "B" ] | "%" ]

A STRING is enclosed in single or double quotes; \' and \" are quotes within it, and all other characters are
themselves. NUMBER% is allowed with utilisation only.

A filter becomes a function from a batch of lives (steve.kernels._lives) to an array that selects blocks. ~ searches for
a regular expression anywhere in the text. A text is tested once for each stack or heap, not for each block. No part
of an expression is ever executed as code.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import operator
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Set, Tuple

from steve.system.errors import SteveError, UsageError, meant
from steve.trace import missing

if TYPE_CHECKING:
    import numpy as np

    from steve.trace.places import Places

    Batch = np.ndarray
    Test = Callable[[Batch, Places], np.ndarray]
    Match = Callable[[Collection[str]], bool]

DEEPEST = 50  # parentheses and nots within each other


def ratio(part: "np.ndarray", whole: "np.ndarray") -> "np.ndarray":
    """part / whole; 0 where the whole is 0."""
    import numpy as np

    return part / np.maximum(whole, 1)


FIELDS: Dict[str, Tuple[str, Callable[[Any], Any]]] = {
    "size": ("bytes of the block at the end of its life", lambda b: b["size"]),
    "bytes": ("bytes asked for by its New and its Resizes", lambda b: b["bytes"]),
    "resizes": ("how often it was resized", lambda b: b["resizes"]),
    "first_size": ("bytes of its New", lambda b: b["first_size"]),
    "moves": (
        "resizes that gave it another address, in a recording of Valgrind by Valgrind's allocator",
        lambda b: b["moves"],
    ),
    "copied": ("bytes that these had to copy", lambda b: b["copied"]),
    "handle": ("its number, in the order of the News", lambda b: b["handle"]),
    "born": ("number of the operation that made it", lambda b: b["born"]),
    "died": ("number of the operation that freed it, or of all operations", lambda b: b["died"]),
    "lifetime": ("died - born", lambda b: b["died"] - b["born"]),
    "instructions": ("instructions executed during its life", lambda b: b["died_time"] - b["born_time"]),
    "allocated": (
        "bytes that the program asked for during its life",
        lambda b: b["died_allocated"] - b["born_allocated"],
    ),
    "news": ("other blocks made during its life", lambda b: b["news"]),
    "loads": ("loads from it", lambda b: b["loads"]),
    "stores": ("stores to it", lambda b: b["stores"]),
    "modifies": ("modifications of it", lambda b: b["modifies"]),
    "reads": ("loads + modifies", lambda b: b["loads"] + b["modifies"]),
    "writes": ("stores + modifies", lambda b: b["stores"] + b["modifies"]),
    "accesses": ("loads + stores + modifies", lambda b: b["loads"] + b["stores"] + b["modifies"]),
    "bytes_read": ("bytes that its reads read", lambda b: b["bytes_read"]),
    "bytes_written": ("bytes that its writes wrote", lambda b: b["bytes_written"]),
    "used": ("bytes ever accessed, in parts of 1/64 of the block", lambda b: b["used"]),
    "utilisation": ("used / size", lambda b: ratio(b["used"], b["size"])),
    "first_use": (
        "operations from New to the first access; its lifetime if there is none",
        lambda b: b["first_use"] - b["born"],
    ),
    "idle": ("operations from the last access to the end; 0 if there is none", lambda b: b["died"] - b["last_use"]),
    "thread": ("thread that made it", lambda b: b["thread"]),
    "free_thread": ("thread that freed it, 0 if none", lambda b: b["free_thread"]),
}
FLAGS: Dict[str, Tuple[str, Callable[[Any], Any]]] = {
    "freed": ("it was freed", lambda b: b["freed"] != 0),
    "live": ("it was never freed", lambda b: b["freed"] == 0),
    "inherited": ("a forked process had it from its parent", lambda b: b["inherited"] == 1),
    "earlier": (
        "it was made before the trace begins (ljtrace attach --existing-blocks, ljtrace --keep=last)",
        lambda b: b["inherited"] == 2,
    ),
    "lost": (
        "no pointer led to it when the program ended, but from other lost blocks (see `steve leaks`)",
        lambda b: b["reach"] >= 2,
    ),
    "possibly_lost": (
        "only pointers into the middle of a block led to it then, directly or by way of others",
        lambda b: b["reach"] == 1,
    ),
    "shared": ("another thread than its maker accessed it", lambda b: b["shared"] != 0),
}
TEXTS: Dict[str, Tuple[str, str]] = {  # what it is, and the number in a life that it depends on
    "site": ("its site, the whole stack as it is shown, as in `steve sites --json`", "stack"),
    "stack": ("all frames of its stack", "stack"),
    "function": ("function of its line, as in `steve lines`; also with its file, as --by=function shows it", "stack"),
    "file": ("file of its line", "stack"),
    "heap": ("kind of its heap: malloc, lua, mmap, custom", "heap"),
    "type": ("what it holds, of a Lua heap: str, tab, func, proto...", "type"),
    "how": ("how it was made: malloc, calloc, realloc...", "how"),
}
# what depends on loads and stores
OF_ACCESSES = {
    "loads",
    "stores",
    "modifies",
    "reads",
    "writes",
    "accesses",
    "bytes_read",
    "bytes_written",
    "used",
    "utilisation",
    "first_use",
    "idle",
    "shared",
}
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
RELATIONS = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<number>\d+(?:\.\d+)?)(?P<unit>%|[A-Za-z_]\w*)?
                     | (?P<word>[A-Za-z_]\w*) | (?P<sign>==|!=|!~|<=|>=|[=<>~()])
                     | (?P<quote>["'])(?P<string>(?:\\(?P=quote)|(?!(?P=quote)).)*)(?P=quote)""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """kind: number, share (a number in percent), word, sign, string or end; value: its value; column:
    counted from 1."""

    kind: str
    value: Any
    column: int


def wrong(column: int, message: str) -> UsageError:
    return UsageError(f"--where: column {column}: {message}")


def number_of(match: "re.Match[str]", column: int) -> Token:
    """The token of a number. Whole numbers are int, so that large ones stay exact."""
    if match["unit"] == "%":
        return Token("share", float(match["number"]) / 100, column)
    unit = UNITS.get((match["unit"] or "").removesuffix("B"))
    if unit is None:
        raise wrong(
            column,
            f"'{match[0]}' has no unit that is known; there are {', '.join(filter(None, UNITS))}, "
            "also with B, and %",
        )
    value = int(match["number"]) * unit if "." not in match["number"] else float(match["number"]) * unit
    return Token("number", value if isinstance(value, float) or value < 2**64 else float(value), column)


def token_of(match: "re.Match[str]", column: int) -> Token:
    """The token of a match of TOKEN that is not space."""
    if match["number"] is not None:
        return number_of(match, column)
    if match["word"] or match["sign"]:
        return Token("word" if match["word"] else "sign", match[0], column)
    return Token("string", match["string"].replace("\\" + match["quote"], match["quote"]), column)


def tokens(text: str) -> List[Token]:
    """The expression in pieces, with an end piece."""
    result, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            why = "the quote is not closed" if text[at] in "\"'" else "a text must be in quotes"
            raise wrong(at + 1, f"'{text[at:at + 10]}' makes no sense here; {why}")
        if not match["space"]:
            result.append(token_of(match, at + 1))
        at = match.end()
    return result + [Token("end", "", len(text) + 1)]


def shown(token: Token) -> str:
    """A token in a message."""
    return "the end" if token.kind == "end" else f"'{token.value}'"


class Parser:
    """Recursive descent over the tokens; each method gives the test for what it has read."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.depth = 0

    @property
    def here(self) -> Token:
        return self.tokens[0]

    def take(self) -> Token:
        return self.tokens.pop(0) if self.here.kind != "end" else self.here

    def at(self, *values: str) -> bool:
        return self.here.kind in ("word", "sign") and self.here.value in values

    def whole(self) -> "Test":
        test = self.expression()
        if self.here.kind != "end":
            raise wrong(
                self.here.column,
                f"expected `and`, `or` or the end, not {shown(self.here)}"
                + meant(str(self.here.value), ("and", "or", "not")),
            )
        return test

    def expression(self) -> "Test":
        tests = [self.term()]
        while self.at("or"):
            self.take()
            tests.append(self.term())
        return joined(tests, operator.or_)

    def term(self) -> "Test":
        tests = [self.factor()]
        while self.at("and"):
            self.take()
            tests.append(self.factor())
        return joined(tests, operator.and_)

    def factor(self) -> "Test":
        if not self.at("not", "("):
            return self.test()
        opening = self.take()
        self.depth += 1
        if self.depth > DEEPEST:
            raise wrong(opening.column, f"nested more than {DEEPEST} deep")
        test = negated(self.factor()) if opening.value == "not" else self.parenthesis(opening)
        self.depth -= 1
        return test

    def parenthesis(self, opening: Token) -> "Test":
        test = self.expression()
        if not self.at(")"):
            raise wrong(
                self.here.column, f"expected ')' for the '(' of column {opening.column}, not " + shown(self.here)
            )
        self.take()
        return test

    def test(self) -> "Test":
        token = self.here
        if token.kind == "word" and token.value in FLAGS:
            self.take()
            return flag(token.value)
        if token.kind == "word" and token.value in TEXTS:
            return self.text_test()
        left, value = self.here, self.value()
        relation = self.take()
        if relation.kind != "sign" or relation.value not in RELATIONS:
            raise wrong(relation.column, f"expected = != < <= > or >=, not {shown(relation)}")
        right, other = self.here, self.value()
        for share, partner in ((left, right), (right, left)):
            if share.kind == "share" and partner.value != "utilisation":
                raise wrong(share.column, f"% goes with utilisation, not with {shown(partner)}")
        return comparison(value, RELATIONS[relation.value], other)

    def value(self) -> Callable[[Any], Any]:
        token = self.take()
        if token.kind in ("number", "share"):
            return lambda batch: token.value
        if token.kind == "word" and token.value in FIELDS:
            return FIELDS[token.value][1]
        known = (*FIELDS, *FLAGS, *TEXTS)
        guess = meant(token.value, known) if token.kind == "word" else ""
        raise wrong(
            token.column,
            f"expected a field or a number, not {shown(token)}" + (guess or f"; fields are: {', '.join(known)}"),
        )

    def text_test(self) -> "Test":
        field, relation = self.take(), self.take()
        if relation.kind != "sign" or relation.value not in ("=", "==", "!=", "~", "!~"):
            raise wrong(relation.column, f"expected = != ~ or !~ after {field.value}, not {shown(relation)}")
        text = self.take()
        if text.kind != "string":
            raise wrong(text.column, f"expected a text in quotes, not {shown(text)}")
        if "~" not in relation.value:
            check_text(field.value, text)
        return text_match(field.value, matcher(relation.value, text))


def check_text(field: str, text: Token) -> None:
    """UsageError for a text that such a field never has."""
    from steve.trace._memtrace import HEAP_KIND_NAMES, HOW_NAMES, TYPE_NAMES

    known = {"heap": HEAP_KIND_NAMES, "how": HOW_NAMES, "type": TYPE_NAMES}.get(field)
    if known is not None and text.value not in known:
        raise wrong(
            text.column,
            f"no {field} is {shown(text)}" + (meant(text.value, known) or f"; there are: {', '.join(known)}"),
        )


def joined(tests: List["Test"], join: Callable[[Any, Any], Any]) -> "Test":
    def test(batch: "Batch", places: "Places") -> "np.ndarray":
        result = tests[0](batch, places)
        for other in tests[1:]:
            result = join(result, other(batch, places))
        return result

    return test


def negated(test: "Test") -> "Test":
    return lambda batch, places: ~test(batch, places)


def flag(name: str) -> "Test":
    return lambda batch, places: FLAGS[name][1](batch)


def comparison(left: Callable[[Any], Any], relation: Callable[[Any, Any], Any], right: Callable[[Any], Any]) -> "Test":
    def test(batch: "Batch", places: "Places") -> "np.ndarray":
        import numpy as np

        return np.broadcast_to(relation(left(batch), right(batch)), len(batch))

    return test


def matcher(relation: str, text: Token) -> "Match":
    """The test of the texts of one thing that a relation and a STRING make."""
    if "~" not in relation:
        return lambda found: (text.value in found) == (relation != "!=")
    try:
        pattern = re.compile(text.value)
    except re.error as error:
        raise wrong(text.column, f"'{text.value}' is no regular expression: {error}") from None
    return lambda found: any(map(pattern.search, found)) == (relation == "~")


def text_match(field: str, matches: "Match") -> "Test":
    """A test that keeps a table with the result for each stack, heap or way of allocation."""
    table: Dict[int, bool] = {}
    key = TEXTS[field][1]

    def test(batch: "Batch", places: "Places") -> "np.ndarray":
        import numpy as np

        ids, where = np.unique(batch[key], return_inverse=True)
        for number in ids.tolist():
            if number not in table:
                table[number] = matches(places.texts(field, number))
        return np.array([table[number] for number in ids.tolist()], bool)[where]

    return test


def parse(text: str) -> "Test":
    """The test that an expression defines. UsageError with the column of a mistake. The test raises SteveError if it
    depends on accesses and the trace has none because they were not recorded."""
    test, of_accesses = Parser(text).whole(), sorted(fields_of(text) & OF_ACCESSES)
    if not of_accesses:
        return test

    def checked(batch: "Batch", places: "Places") -> "np.ndarray":
        lacking = missing.not_recorded(places.trace)
        if lacking:
            raise SteveError(f"{places.trace.name}: no block has `{of_accesses[0]}` of --where: {lacking}")
        return test(batch, places)

    return checked


def fields_of(text: str) -> Set[str]:
    """The fields that an expression tests."""
    return {token.value for token in tokens(text) if token.kind == "word"} & {*FIELDS, *FLAGS, *TEXTS}


def explained() -> str:
    """The fields with what they mean, for --help."""
    entries = [(name, what) for table in (FIELDS, FLAGS, TEXTS) for name, (what, _) in table.items()]
    return "\n".join(f"  {name:<14}{what}" for name, what in entries)
