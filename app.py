"""Composition only: settings, stacks, checks."""

from __future__ import annotations

import sys

import aws_cdk as cdk

from settings import SettingsError, load_settings
from stacks.foundation import Foundation
from stacks.graviton import Graviton
from stacks.inferentia import Inferentia
from stacks.multi_model import MultiModel
from stacks.training import Training


def build(app: cdk.App) -> None:
    """Declare the stacks of the deployment that `-c deployment=…` names; a workload without a section gets none.

    :raises SettingsError: the settings cannot be used; the text lists every problem
    """
    settings = load_settings(str(app.node.try_get_context("deployment") or "dev"))
    foundation = Foundation(app, settings=settings)
    if settings.training is not None:
        training = Training(app, settings=settings, training=settings.training, foundation=foundation)
        if settings.sentiment is not None:
            Graviton(app, settings=settings, sentiment=settings.sentiment, foundation=foundation, training=training)
    if settings.text_encoding is not None:
        MultiModel(app, settings=settings, text_encoding=settings.text_encoding, foundation=foundation)
    if settings.question_answering is not None:
        Inferentia(app, settings=settings, question_answering=settings.question_answering, foundation=foundation)
    if app.node.try_get_context("checks") == "nag":
        # The rules are no part of what synth needs.
        from torchlift.nag import add_rules

        add_rules(app)


if __name__ == "__main__":
    app = cdk.App()
    try:
        build(app)
    except SettingsError as error:
        sys.exit(str(error))
    app.synth()
