"""AlarmTopic: where alarms, budgets and failed jobs report."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

PUBLISHERS = ("cloudwatch.amazonaws.com", "budgets.amazonaws.com")


class AlarmTopic(Construct):
    """An encrypted topic to which only this account may publish, over TLS: alarms, budgets, and roles that may."""

    def __init__(self, scope: Construct, id: str, *, key: kms.IKey, email: str | None) -> None:
        """Declare the topic.

        :param key: its policy must admit the publishers, else they publish nothing and say nothing
        :param email: address to subscribe; AWS asks it to confirm
        """
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        for service in PUBLISHERS:
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal(service)],
                    actions=["sns:Publish"],
                    resources=[self.topic.topic_arn],
                    conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
                )
            )
        if email is not None:
            sns.Subscription(self, "Email", topic=self.topic, protocol=sns.SubscriptionProtocol.EMAIL, endpoint=email)
