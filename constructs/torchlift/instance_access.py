"""InstanceAccess: what an instance of ours may reach and who may reach it: nobody, but through Session Manager."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from torchlift import permissions


class InstanceAccess(Construct):
    """Role, instance profile and security group of one instance: no ingress, HTTPS out, Session Manager in."""

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc, description: str = "HTTPS out, nothing in") -> None:
        """Declare the three; further permissions are added to :attr:`role`.

        :param description: of the security group, which its owner may open further
        """
        super().__init__(scope, id)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        permissions.session_manager(self.role)
        self.profile = iam.CfnInstanceProfile(self, "Profile", roles=[self.role.role_name])
        # The profile is what an instance gets: it must not be handed out before the role may do its work.
        self.profile.node.add_dependency(self.role)
        self.security_group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, allow_all_outbound=False, description=description
        )
        self.security_group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS APIs and registries")
