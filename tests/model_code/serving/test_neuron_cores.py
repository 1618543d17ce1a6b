"""Cores, ports, devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_code.serving.neuron_cores import CoreError, device_of, parse_visible_cores, port_of


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0", (0,)), ("10", (10,)), ("23", (23,)), ("5-5", (5,)), ("0-3,7", (0, 1, 2, 3, 7)), (" 51, 52 ", (51, 52))],
)
def test_lists_and_ranges(text: str, cores: tuple[int, ...]) -> None:
    assert parse_visible_cores(text) == cores


@given(st.sets(st.integers(0, 200), min_size=1))
def test_any_list_comes_back(cores: set[int]) -> None:
    assert parse_visible_cores(",".join(map(str, sorted(cores)))) == tuple(sorted(cores))


@pytest.mark.parametrize("text", ["", ",", "a", "-1", "3-1", "0-3,2", "1;2", "0x1", "1-2-3", "\u0661"])
def test_senseless_lists(text: str) -> None:
    with pytest.raises(CoreError, match="NEURON_RT_VISIBLE_CORES="):
        parse_visible_cores(text)


def test_ports_and_devices_of_inf2() -> None:
    assert [port_of(core) for core in (0, 1, 11)] == [8081, 8082, 8092]
    # inf2.24xlarge: twelve cores on six devices.
    assert [device_of(core) for core in range(12)] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert device_of(7, cores_per_device=4) == 1
