"""What field types cannot say: rules over one or several values. Each runs when the values it needs are valid."""

from __future__ import annotations

# Importing them registers their rules.
from settings import (
    deployment_rules,
    endpoint_rules,
    question_answering_rules,
    text_encoding_rules,
    training_rules,
    update_rules,
)
from settings.rule import RULES, Rule, nearest

__all__ = [
    "RULES",
    "Rule",
    "deployment_rules",
    "endpoint_rules",
    "nearest",
    "question_answering_rules",
    "text_encoding_rules",
    "training_rules",
    "update_rules",
]
