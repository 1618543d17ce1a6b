"""AccountBudget: a mail before the month gets expensive, and one when it is."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from constructs import Construct

NOTIFICATIONS = (("ACTUAL", 80), ("FORECASTED", 100))
"""(kind of figure, per cent of the limit)"""


class AccountBudget(Construct):
    """A monthly cost budget over the whole account.

    Not by tag: a tag shows costs only after somebody activated it for cost allocation, and until then such a budget
    is silent.
    """

    def __init__(self, scope: Construct, id: str, *, monthly_usd: int, email: str, topic_arn: str) -> None:
        """Declare the budget; notifications go to `email` and to the alarm topic."""
        super().__init__(scope, id)
        self.budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=monthly_usd, unit="USD"),
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        comparison_operator="GREATER_THAN",
                        notification_type=kind,
                        threshold=per_cent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email),
                        budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic_arn),
                    ],
                )
                for kind, per_cent in NOTIFICATIONS
            ],
        )
