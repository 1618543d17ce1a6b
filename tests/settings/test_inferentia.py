"""Inf2: cores, devices, and what fits; docs/inferentia.md says what the code says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from settings import REPO_ROOT, hardware, inferentia
from settings.inferentia import INF2_TYPES, Advice, advise, cores_of, device_of, served_cores, tokenizer_threads
from settings.inferentia_reference import reference

SIZES = {
    "inf2.xlarge": (1, 2, 4, 16),
    "inf2.8xlarge": (1, 2, 32, 128),
    "inf2.24xlarge": (6, 12, 96, 384),
    "inf2.48xlarge": (12, 24, 192, 768),
}
"""Chips, cores, vCPUs and GiB as AWS's instance page has them."""


def test_the_document_is_the_code() -> None:
    made = "run: python -m settings.inferentia_reference > docs/inferentia.md"
    assert (REPO_ROOT / "docs/inferentia.md").read_text() == reference(), made


def test_sizes() -> None:
    assert set(INF2_TYPES) == set(SIZES)
    for name, (chips, cores, vcpus, memory) in SIZES.items():
        one = advise(name, 1, weights_mib=1, shapes=1)
        assert (one.devices, one.cores, one.vcpus_per_core * cores) == (chips, cores, vcpus)
        assert one.host_mib_per_model * cores == memory * 1024
        assert cores_of(name) == cores and served_cores(name, "all") == tuple(range(cores))


@pytest.mark.parametrize("name", SIZES)
def test_every_core_is_on_one_of_the_devices_two_on_each(name: str) -> None:
    devices = [device_of(core) for core in served_cores(name, "all")]
    assert devices == sorted([*range(SIZES[name][0])] * 2)


def test_some_of_the_cores() -> None:
    assert served_cores("inf2.24xlarge", 3) == (0, 1, 2)
    for count in (0, 13):
        with pytest.raises(ValueError, match="12 NeuronCores"):
            served_cores("inf2.24xlarge", count)
    for name in ("inf1.xlarge", "g5.xlarge", "inf2.4xlarge"):
        with pytest.raises(KeyError):
            advise(name, 1, weights_mib=1, shapes=1)


def test_tokenizing_leaves_a_vcpu_for_the_event_loop() -> None:
    assert [tokenizer_threads(name, "all") for name in SIZES] == [1, 8, 7, 7]
    assert tokenizer_threads("inf2.xlarge", 1) == 3


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("shapes", [1, 9, 16])
@pytest.mark.parametrize("weights", [1, 85, 420, 1300, 20_000])
def test_the_most_is_the_last_that_is_not_refused(name: str, shapes: int, weights: float) -> None:
    def look(models: int) -> Advice:
        return advise(name, models, weights_mib=weights, shapes=shapes)

    most = look(1).most_models
    assert look(most + 1).refused and not (most and look(most).refused)
    assert look(most + 1).most_models == most
    if most > 1:
        assert look(most - 1).room_to_change and not look(most).room_to_change
    for models in range(most + 1, most + 4):
        found = look(models)
        too_little = found.device_mib_needed > found.device_mib or found.host_mib_needed > found.host_mib
        assert too_little and len(found.refused) >= 1


def test_each_reason_names_what_is_missing() -> None:
    (host,) = advise("inf2.xlarge", 2, weights_mib=420, shapes=9).refused
    assert host == "A server needs 8.4 GiB of memory and has 6.4."
    (device,) = advise("inf2.48xlarge", 3, weights_mib=420, shapes=9).refused
    assert device == "A core needs 17.8 GiB of device memory and has 16.0."
    assert len(advise("inf2.xlarge", 3, weights_mib=420, shapes=9).refused) == 2


def test_a_server_without_vcpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = replace(hardware.instance("inf2.xlarge"), vcpus=2)
    monkeypatch.setattr(inferentia, "instance", lambda _: narrow)
    found = advise("inf2.xlarge", 1, weights_mib=1, shapes=1)
    assert found.refused == ("A server needs 2 vCPUs and has 1.",) and found.most_models == 0
    assert not advise("inf2.xlarge", 1, weights_mib=1, shapes=1, num_cores=1).refused
