"""The page of the rules: it is in step, and no rule stands there without a test and a place."""

from __future__ import annotations

import pytest

from docs import rules
from tests.conformance.loading import load
from tests.docs.examples import ROOT

RULES = [rule for told in rules.rules().values() for rule in told]
PLACES = rules.implemented()


def test_the_page_is_in_step() -> None:
    assert rules.PAGE.read_text(encoding="utf-8") == rules.page_text(), "run `python docs/generate.py`"


def test_there_are_all_rules_and_decisions() -> None:
    families = {"CANTRIP": 3, "INTENT": 3, "ENTITY": 4, "LOOP": 6, "CRYSTAL": 6, "CALL": 5}
    families |= {"CIRCLE": 10, "COMP": 8, "LOOM": 10, "PROD": 5}
    numbered = [f"{family}-{number}" for family, count in families.items() for number in range(1, count + 1)]
    assert [*numbered, *(f"D-{number:03d}" for number in range(1, 12))] == RULES


def test_our_own_suite_has_a_case_for_each() -> None:
    cases = [case for path in (ROOT / "tests/conformance/suite").glob("*.yaml") for case in load(path)]
    held = {rule for case in cases if case.skipped is None for rule in (case.rule, *case.also)}
    assert [rule for rule in RULES if rule not in held] == []


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_implemented_somewhere(rule: str) -> None:
    assert PLACES.get(rule)
