"""The call is immutable (CALL-1)."""

from __future__ import annotations

import msgspec
import pytest

from branches.agents.call import Call, CallIsImmutable
from branches.agents.crystal import Sampling


@pytest.mark.parametrize("field", ["system_prompt", "sampling", "no_such_field"])
def test_a_call_says_that_it_cannot_be_changed(field: str) -> None:
    call = Call(system_prompt="You are helpful", sampling=Sampling(temperature=0.7))
    with pytest.raises(CallIsImmutable, match=f"call is immutable: make a new cantrip with another '{field}'"):
        setattr(call, field, "You are evil")
    with pytest.raises(CallIsImmutable):
        delattr(call, field)
    assert call == Call(system_prompt="You are helpful", sampling=Sampling(temperature=0.7))
    assert hash(call) == hash(msgspec.structs.replace(call))
