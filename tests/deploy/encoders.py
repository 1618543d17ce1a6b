"""Text encoding alone, deployed to a stand-in with an encoder so small that its job takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_code.text_encoding import client
from settings import names
from stand_in.demo.cdk import Cdk
from stand_in.session import StandIn
from stand_in.sweep import Inventory

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
LIMITS = client.Limits(max_batch=8, max_sequence=64, min_sequence=16, inputs=INPUTS)
TEXTS = ["the film was good", "the meal was awful"]


def parameter_name(kind: str) -> str:
    """The parameter with the name of the endpoint, or with the prefix of the models."""
    return names.parameter_name("local", "text-encoding", kind)


@dataclass
class Deployment:
    """A stand-in with a bootstrapped account, and the settings of what is deployed to it."""

    aws: StandIn
    cdk: Cdk
    settings: Path
    base_model: Path
    before: Inventory

    def parameter(self, kind: str) -> str:
        return str(self.aws.client("ssm").get_parameter(Name=parameter_name(kind))["Parameter"]["Value"])

    def inputs(self) -> client.Arrays:
        return client.tokenise(self.base_model, TEXTS, limits=LIMITS)

    def ask(self, model: str, *, binary: bool = True) -> dict[str, Any]:
        send = client.sagemaker(self.parameter("endpoint"), self.aws.client("sagemaker-runtime"))
        return client.encode(send, f"{model}.tar.gz", self.inputs(), limits=LIMITS, binary=binary)

    def jobs(self) -> list[tuple[str, str]]:
        return [(one["job"], one["state"]) for one in self.aws.get("/_torchlift/state")["jobs"]]
