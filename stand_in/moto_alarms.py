"""Where moto's CloudWatch alarms differ from AWS's in what our templates use: see each function's docstring."""

from __future__ import annotations

import re
from typing import Any

from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

IN_A_RULE = re.compile(r"""(?:ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*["']?(?P<alarm>[^"')]+?)["']?\s*\)""")
"""A state of another alarm in an AlarmRule: the alarm's name or ARN, with or without quotes."""


def correct() -> None:
    """Correct moto in this process."""
    _alarms_watch_alarms()


def named_in(rule: str) -> list[str]:
    """Names of the alarms that an AlarmRule asks for."""
    return [match["alarm"].rpartition(":alarm:")[2] for match in IN_A_RULE.finditer(rule)]


def _alarms_watch_alarms() -> None:
    """moto keeps composite alarms but has no PutCompositeAlarm; AWS refuses a rule that names an unknown alarm."""

    def put_composite_alarm(self: Any) -> ActionResult:
        known = self.cloudwatch_backend.alarms
        missing = sorted(set(named_in(self._get_param("AlarmRule"))) - set(known))
        if missing:
            raise ValidationError(f"AlarmRule names alarms that do not exist: {', '.join(missing)}")
        return self.put_metric_alarm()

    CloudWatchResponse.put_composite_alarm = put_composite_alarm
