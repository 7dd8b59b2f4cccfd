"""Declarations at the top level can be made again; everything else stays as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaves.mediums.quickjs.declarations import redeclarable


@pytest.mark.parametrize(
    ("code", "becomes"),
    [
        ("const x = 1; let y = 2", "var   x = 1; var y = 2"),
        ("const [a, b] = f()\nlet {c} = d", "var   [a, b] = f()\nvar {c} = d"),
        ("let x; let a, b", "var x = void 0; var a = void 0, b = void 0"),
        ("let x\nx = 1", "var x = void 0\nx = 1"),
        ("let x\n= 1", "var x\n= 1"),
        ("class A {}\n(1)", "var A = class A {};\n(1)"),
        (
            "class A extends B { m() { return `}` } } const c = 1",
            "var A = class A extends B { m() { return `}` } }; var   c = 1",
        ),
        ("const re = /[/'\"`]/g; let z = 1", "var   re = /[/'\"`]/g; var z = 1"),
        ("let q = a / b / c; const w = 1", "var q = a / b / c; var   w = 1"),
        ("if (x) /'/.test(y); const k = 1", "if (x) /'/.test(y); var   k = 1"),
        ("let s = `a${`b${c}`} const x`; const t = 1", "var s = `a${`b${c}`} const x`; var   t = 1"),
        ("do {} while (x)\nlet p = 1", "do {} while (x)\nvar p = 1"),
        ("x++\nlet y = 1", "x++\nvar y = 1"),
        ("if (a) { const q = 1 }\nconst w = 2", "if (a) { const q = 1 }\nvar   w = 2"),
        ("const f = () => { const g = 1 }\nconst h = f() / 2", "var   f = () => { const g = 1 }\nvar   h = f() / 2"),
    ],
)
def test_top_level_declarations_become_var(code: str, becomes: str) -> None:
    assert redeclarable(code)[0] == becomes


@pytest.mark.parametrize(
    "code",
    [
        "var x = 1",
        "for (const i of a) { let b = i }",
        "for (let i = 0; i < 3; i++);",
        "function f() { let a = 1; const b = 2; class C {} }",
        "'const x = 1'",
        "`let ${'const'} y`",
        "// const x = 1\n/* let y = 2 */",
        "/const x/.test(y)",
        "a.let = 3; a.class",
        "x = {const: 1, let: 2}",
        "a = class B {}",
        "let",
        "let in x",
        "}{ const x",
        "const 'unfinished",
        "`${",
        "(",
    ],
)
def test_all_else_stays(code: str) -> None:
    assert redeclarable(code)[0] == code


@given(st.text(alphabet=" \n;{}()[]'\"`/\\$*=.,abxy\u00e9", max_size=40).map(lambda text: text + " const x = 1"))
def test_no_code_is_too_strange(code: str) -> None:
    assert len(redeclarable(code)[0].splitlines()) == len(code.splitlines())


PIECES = st.sampled_from(
    ["a", "1", "'const'", "`let ${a}`", "/let/g.test('x')", "[1, {b: 2}]", "(a) / 2 / 1", "{}", "() => { const q = 1 }"]
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["const", "let", "var"]), PIECES, st.sampled_from([";", "\n", ";\n"])), max_size=6
    )
)
def test_of_several_each_becomes_var(declarations: list[tuple[str, str, str]]) -> None:
    code = "".join(f"{word} v{n} = {value}{end}" for n, (word, value, end) in enumerate(declarations))
    wanted = "".join(
        f"{'var  ' if word == 'const' else 'var'} v{n} = {value}{end}"
        for n, (word, value, end) in enumerate(declarations)
    )
    assert redeclarable(code)[0] == wanted
