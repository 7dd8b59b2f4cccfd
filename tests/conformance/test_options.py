"""The command line of the harness: any file, each with its own result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.examples import ROOT

CASE = """\
- rule: LOOP-6
  name: {name}
  setup:
    crystal: {{ responses: [{{ content: "hi" }}] }}
    circle: {{ type: tools, gates: [done], wards: [{{ max_turns: 10 }}] }}
  action: {{ cast: {{ intent: "go" }} }}
  expect: {{ {expect} }}
"""


def run(*paths: Path) -> tuple[int, str]:
    options = [option for path in paths for option in ("--suite", str(path))]
    command = [sys.executable, "-m", "pytest", "tests/conformance/test_suites.py", "-v", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    return ran.returncode, ran.stdout


def test_several_suites_are_run_and_what_is_wrong_in_them_is_told(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.yaml", tmp_path / "wrong.yaml"
    right.write_text(
        CASE.format(name="right", expect='result: "hi"') + "- { rule: LOOP-1, name: held elsewhere, skip: why not }\n"
    )
    wrong.write_text(f"# the second line is the first of the case\n{CASE.format(name='wrong', expect='turns: 2')}")
    code, said = run(right, wrong)
    assert code == 1
    assert "1 failed, 1 passed, 1 skipped" in said
    assert f"{wrong}:2: LOOP-6 wrong (tools)" in said
    assert "turns: expected 2, found 1" in said


def test_a_file_that_is_no_suite_is_refused_with_its_place(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(CASE.format(name="bad", expect='result: "hi", resullt: 1'))
    code, said = run(bad)
    assert code == 2
    assert f"{bad}:7: unknown key 'resullt'" in said
    assert run(tmp_path / "none.yaml")[0] == 2
