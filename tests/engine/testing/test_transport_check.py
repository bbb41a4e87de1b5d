"""Every transport is what it says of itself, and the check of it finds one that is not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from dimsweep.engine.cluster.packet_model import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.fingerprint import fingerprint
from dimsweep.engine.kernels.packet import hooks
from dimsweep.engine.kernels.packet.hooks import group_of, ignore
from dimsweep.engine.kernels.packet.kernel import run
from dimsweep.engine.kernels.packet.tables import flow_record, keys_record
from dimsweep.engine.kernels.packet.transports import (
    TRANSPORTS,
    Cubic,
    Dcqcn,
    Dctcp,
    Hpcc,
    Static,
    Swift,
    Transport,
    register,
)
from dimsweep.engine.testing import check_transport, transport


@pytest.fixture
def registry() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    kept = dict(TRANSPORTS)
    yield
    TRANSPORTS.clear()
    register(*kept.values())


@pytest.mark.long
@pytest.mark.parametrize("name", TRANSPORTS)
def test_every_transport_is_what_it_says(name: str) -> None:
    check_transport(name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ((Hpcc, "fairness", 1.0), "the slower of two long flows sends 0..* declared as 1"),
        ((Dctcp, "header", 60), "3,772,800 of the 3,988,800 bytes of an incast arrive"),
        ((transport, "_ALONE", 1.0), "a flow alone takes"),
        ((transport, "other_values", lambda value: [value]), "its key 'eta' changes nothing"),
    ],
)
def test_one_that_is_not_is_found(
    changed: tuple[Any, str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*changed)
    if changed[1] == "header":  # its packets are as long as before
        simulated = transport.Star.run
        monkeypatch.setattr(
            transport.Star,
            "run",
            lambda star, _, *flows, **options: simulated(star, Static(), *flows, **options),
        )
    with pytest.raises(DimsweepError, match=f"transport (hpcc|dctcp): .*{told}"):
        check_transport("dctcp" if changed[0] is Dctcp else "hpcc")


class Open(Transport):
    """It leaves a case open: what happens when a flow ends."""

    name = "open"
    state = ()
    header = 0
    telemetry = False
    fairness = 1.0
    needs_window = False
    on_start = on_send = on_mark = on_ack = on_timer = staticmethod(ignore)


@dataclass(frozen=True)
class Silent(Static):
    """It has a name of its own."""

    name = "silent"


@dataclass(frozen=True)
class Twin(Static):
    """It has another one's."""


@dataclass(frozen=True)
class HalfTcp(Silent):
    """It says that it speaks TCP, and has none of its cases."""

    name = "half_tcp"
    speaks_tcp = True


class Keyless(Silent):
    """It forgets that it is a dataclass."""

    name = "keyless"
    key: int = 1


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        (Open, TypeError, "abstract.*on_end"),
        (Twin, ValueError, "there is a transport 'static' already"),
        (Keyless, TypeError, "no frozen dataclass"),
        (HalfTcp, TypeError, "HalfTcp: grow, shrink, time_out are cases of subclasses of Tcp"),
    ],
)
def test_what_is_forgotten_is_an_error_when_it_is_registered(
    wrong: type[Transport], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        register(wrong)
    assert wrong.name not in TRANSPORTS or TRANSPORTS[wrong.name] is Static


@pytest.mark.usefixtures("registry")
def test_a_question_that_is_left_open_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Static, "header")
    with pytest.raises(TypeError, match="Silent does not say its header"):
        register(Silent)


@pytest.mark.usefixtures("registry")
def test_one_that_is_registered_is_known_by_its_name() -> None:
    register(Silent)
    assert PacketModel("silent").sender == Silent()


@pytest.mark.usefixtures("registry")
def test_what_is_compiled_stays_as_it_is_whatever_else_is_registered() -> None:
    """What is compiled is kept by a digest of ours, and by the types of records: of another
    transport these are its own, and its version differs where its text does."""
    before = fingerprint(run), flow_record(Dctcp()), keys_record(Dctcp()).dtype
    register(Silent)
    assert (fingerprint(run), flow_record(Dctcp()), keys_record(Dctcp()).dtype) == before
    of_silent = keys_record(Silent()).dtype
    assert "dctcp" not in (of_silent.fields or {}) and of_silent != before[2]
    assert group_of(Silent).transports == (Silent,)

    @dataclass(frozen=True)
    class Another(Static):
        name = "silent"
        on_ack = staticmethod(Dctcp.on_ack)

    assert keys_record(Another()).dtype != of_silent
    assert hooks.on_send is not ignore, "a plug-in may have an answer where none of ours has"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (lambda: Dcqcn(alpha_every=0), "alpha_every: 0; it must be above 0"),
        (lambda: Dcqcn(gain=1.5), "gain: 1.5; it must be 0 or more, and 1 at most"),
        (lambda: Dcqcn(recoveries=1.5), "recoveries: 1.5 is not a whole number"),  # type: ignore[arg-type]
        (lambda: Dctcp(add=1 << 61), "add: "),
        (lambda: Hpcc(time_bits=63), "time_bits: 63"),
        (lambda: Swift(narrow=100.0), "narrow: 100 packets; it must be less than wide, 100"),
        (lambda: Cubic(first_window=0.5), "first_window: 0.5 segments"),
        (lambda: Cubic(c=float("nan")), "c: nan"),
        (lambda: PacketModel("rdma"), "transport: unknown transport 'rdma'"),
    ],
)
def test_keys_that_make_no_sense_are_named(keys: Any, told: str) -> None:
    with pytest.raises(DimsweepError, match=told):
        keys()
