"""What a service refuses is an error in the one vocabulary, and no key is in it (CRYSTAL-6)."""

from __future__ import annotations

import pytest

from branches.agents.crystal import CrystalError, CrystalRequest, Sampling
from branches.agents.retrying import Retrying
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.contract.subject import BRIEF, MOST, Subject, user
from tests.leaves.crystals.obedient import NO_SUCH_MODEL, REFUSED
from tests.leaves.crystals.providers import ENVIRON, secret


async def fails(subject: Subject, crystal: RemoteCrystal, text: str, streamed: bool) -> CrystalError:
    request = CrystalRequest((BRIEF, user(text)), sampling=Sampling(max_tokens=MOST))
    with pytest.raises(CrystalError) as caught:
        await subject.invoke(crystal, request, *([lambda piece: None] if streamed else []))
    await crystal.close()
    return caught.value


async def test_a_wrong_key(subject: Subject, streamed: bool):
    if subject.live and subject.provider.name == "local":
        pytest.skip("an endpoint of one's own may take any key")
    subject.refuses = True
    error = await fails(subject, subject.make(api_key=secret("WRONG_KEY")), "Hello.", streamed)
    assert error.code == "unauthorized"
    assert not Retrying().allows(error, 1)
    assert ENVIRON["WRONG_KEY"] not in str(error)


async def test_a_model_that_nobody_has(subject: Subject, streamed: bool):
    if subject.live and subject.provider.name == "local":
        pytest.skip("an endpoint of one's own may have one model, whatever it is called")
    error = await fails(subject, subject.make(model=NO_SUCH_MODEL), "Hello.", streamed)
    assert error.code in ("not_found", "bad_request")
    assert NO_SUCH_MODEL in str(error)
    assert not Retrying().allows(error, 1)


async def test_a_refusal(subject: Subject, streamed: bool):
    """Nothing that is harmless makes every service refuse, so a real one that answers is let be."""
    outcome = await subject.outcome(BRIEF, user(REFUSED), streamed=streamed)
    if subject.live and not isinstance(outcome, CrystalError):
        pytest.skip("this service did not refuse what some refuse by agreement")
    assert isinstance(outcome, CrystalError)
    assert (outcome.code, outcome.status) == ("refused", None)
