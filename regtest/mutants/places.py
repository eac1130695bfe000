"""places - where a source file can be mutated: the small changes that a test should notice.

C is read with libclang (Debian: python3-clang-14), Python with ast. A mutation replaces a few bytes of one file. The kinds
are those that mutation tools have in common: another comparison, another arithmetic or bit operator, `and` for `or`, a
constant that is one larger, a condition that is always true or never, a statement that is left out. What is not mutated:
assertions, releases of memory (a leak is the sanitizers' subject) and prefetches, which change no result.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """Replace the bytes [begin, end) of a file."""

    path: Path
    begin: int
    end: int
    new: str

    def old(self, text: bytes) -> str:
        return text[self.begin : self.end].decode()

    def line(self, text: bytes) -> int:
        """The number of the line, from 1."""
        return text.count(b"\n", 0, self.begin) + 1

    def applied(self, text: bytes) -> bytes:
        return text[: self.begin] + self.new.encode() + text[self.end :]


OTHER = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "*",
    "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<", "&&": "||", "||": "&&",
    "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "^=": "|=", "<<=": ">>=", ">>=": "<<=",
}  # fmt: skip
WITHOUT_RESULT = re.compile(rb"\b(assert|static_assert|free|prefetch\w*|fetch_soon|__builtin_prefetch)\s*\(")


def places(path: Path, arguments: list[str]) -> list[Mutation]:
    """All mutations of a file, in the order of the text. arguments: the compiler's, for C."""
    text = path.read_bytes()
    found = of_python(path, text) if path.suffix == ".py" else of_c(path, text, arguments)
    kept = {mutation for mutation in found if not WITHOUT_RESULT.search(line_at(text, mutation.begin))}
    return sorted(kept, key=lambda mutation: mutation[1:])


def line_at(text: bytes, at: int) -> bytes:
    return text[text.rfind(b"\n", 0, at) + 1 : (text.find(b"\n", at) + 1 or len(text) + 1) - 1]


# -- C --


def of_c(path: Path, text: bytes, arguments: list[str]) -> Iterator[Mutation]:
    from clang.cindex import CursorKind, Index

    unit = Index.create().parse(str(path), arguments)
    fatal = [problem.spelling for problem in unit.diagnostics if problem.severity >= 3]
    if fatal:
        raise ValueError(f"{path}: libclang cannot read it: {fatal[0]}")
    operators = (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR)
    for top in unit.cursor.get_children():
        if top.kind != CursorKind.FUNCTION_DECL or not is_in(top, path):
            continue
        for node in top.walk_preorder():
            if not is_in(node, path):
                continue
            begin, end = node.extent.start.offset, node.extent.end.offset
            children = list(node.get_children())
            if node.kind in operators and len(children) == 2:
                yield from c_operator(path, text, children[0].extent.end.offset, children[1].extent.start.offset)
            elif node.kind == CursorKind.INTEGER_LITERAL and re.fullmatch(rb"\d\w*", text[begin:end]):
                yield Mutation(path, begin, end, f"({text[begin:end].decode()} + 1)")
            elif node.kind == CursorKind.UNARY_OPERATOR and text[begin : begin + 1] == b"!":
                yield Mutation(path, begin, begin + 1, "!!")
            elif node.kind == CursorKind.IF_STMT:
                yield from c_condition(path, text, begin, children[0])
            if node.kind == CursorKind.COMPOUND_STMT:
                yield from c_statements(path, text, children)


def is_in(node: object, path: Path) -> bool:
    where = node.location.file  # type: ignore[attr-defined]
    return where is not None and where.name == str(path)


def c_operator(path: Path, text: bytes, begin: int, end: int) -> Iterator[Mutation]:
    """The operator between two operands; within a macro's expansion the places do not fit, and there is none."""
    between = text[begin:end] if begin < end else b""
    found = re.fullmatch(rb"[\s)]*([-+*/%&|^<>=!]+)[\s(]*", between)
    if found and found[1].decode() in OTHER:
        yield Mutation(path, begin + found.start(1), begin + found.end(1), OTHER[found[1].decode()])


def c_condition(path: Path, text: bytes, begin: int, condition: object) -> Iterator[Mutation]:
    first, last = condition.extent.start.offset, condition.extent.end.offset  # type: ignore[attr-defined]
    if re.fullmatch(rb"if \(+", text[begin:first]) and text[last : last + 1] == b")":
        old = text[first:last].decode()
        yield Mutation(path, first, last, f"1 || ({old})")
        yield Mutation(path, first, last, f"0 && ({old})")


def c_statements(path: Path, text: bytes, statements: list) -> Iterator[Mutation]:
    """Leave out each call and each assignment."""
    for statement in statements:
        begin, end = statement.extent.start.offset, statement.extent.end.offset
        kind = statement.kind.name
        if kind in ("CALL_EXPR", "COMPOUND_ASSIGNMENT_OPERATOR", "BINARY_OPERATOR", "UNARY_OPERATOR"):
            if text[end : end + 1] == b";":
                yield Mutation(path, begin, end, "(void)0")


# -- Python --

PYTHON_OPERATORS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*"),
    ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip


def of_python(path: Path, text: bytes) -> Iterator[Mutation]:
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def first(node: ast.expr | ast.stmt) -> int:
        return begins[node.lineno - 1] + node.col_offset

    def last(node: ast.expr | ast.stmt) -> int:
        return begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def between(left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutation]:
        if type(operator) in PYTHON_OPERATORS:
            old, new = PYTHON_OPERATORS[type(operator)]
            at = text.find(old.encode(), last(left), first(right))
            if at >= 0:
                yield Mutation(path, at, at + len(old), new)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
                yield from between(left, right, operator)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:]):
                yield from between(left, right, node.op)
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Mutation(path, first(node), first(node.operand), "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield Mutation(path, first(node), last(node), str(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield Mutation(path, first(node), last(node), str(node.value + 1))
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            for always in ("True", "False"):
                yield Mutation(path, first(node.test), last(node.test), always)
        elif isinstance(node, ast.Return) and node.value is not None:
            yield Mutation(path, first(node.value), last(node.value), "None")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield Mutation(path, first(node), last(node), "pass")
