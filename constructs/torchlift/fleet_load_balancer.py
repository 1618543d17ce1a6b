"""FleetLoadBalancer: the one address of a fleet, inside the VPC."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elb
from constructs import Construct

HOST_PORT = 8080
"""nginx of a host (hosts/inferentia/)."""
READY = "/readyz"
LONGEST_REQUEST_SECONDS = 65
"""What a host's nginx waits for its servers: the longest timeout that a client may ask, and 5 seconds."""
IDLE_SECONDS = 70
"""Longer than a request may take; shorter than the 75 seconds that nginx keeps an idle connection, so that it is never
nginx that closes one in use."""
DRAIN_SECONDS = 75
"""A host that goes gets no new requests for so long before it is ended; what runs on it may end."""
CHECK_SECONDS, CHECKS_UP, CHECKS_DOWN = 5, 2, 3
TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
"""TLS 1.2 and 1.3, with forward secrecy."""


class FleetLoadBalancer(Construct):
    """An internal Application Load Balancer, its listener and the target group of the hosts.

    Requests come from the VPC's range only, and hosts are reached from the load balancer only.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        cidr: str,
        subnets: Sequence[ec2.ISubnet],
        hosts: ec2.SecurityGroup,
        certificate_arn: str | None,
    ) -> None:
        """Declare them.

        :param cidr: the VPC's address range
        :param subnets: private, in two zones or more
        :param hosts: the hosts' security group, which is opened for the load balancer
        :param certificate_arn: of ACM; then HTTPS only, else HTTP
        """
        super().__init__(scope, id)
        port = 443 if certificate_arn else 80
        group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            allow_all_outbound=False,
            description="Load balancer of question answering: requests from the VPC in, to the hosts out",
        )
        group.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(port), "Requests from the VPC")
        group.add_egress_rule(hosts, ec2.Port.tcp(HOST_PORT), "nginx of the hosts")
        hosts.add_ingress_rule(group, ec2.Port.tcp(HOST_PORT), "Requests from the load balancer")
        self.balancer = elb.CfnLoadBalancer(
            self,
            "Balancer",
            type="application",
            scheme="internal",
            ip_address_type="ipv4",
            subnets=[subnet.subnet_id for subnet in subnets],
            security_groups=[group.security_group_id],
            load_balancer_attributes=[
                elb.CfnLoadBalancer.LoadBalancerAttributeProperty(key=key, value=value)
                for key, value in (
                    # The stack's own protection is enough. This one would also refuse CloudFormation when a first
                    # deploy fails, and leave a stack that can neither be deployed nor deleted.
                    ("deletion_protection.enabled", "false"),
                    ("idle_timeout.timeout_seconds", str(IDLE_SECONDS)),
                    ("routing.http.drop_invalid_header_fields.enabled", "true"),
                )
            ],
        )
        Validations.of(self.balancer).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-ELB2",
                reason="The servers log every request with its id to CloudWatch; a bucket for a second log of them "
                "would take deliveries after it was emptied, and hold up the removal",
            )
        )
        self.targets = self._build_targets(vpc)
        self.listener = elb.CfnListener(
            self,
            "Listener",
            load_balancer_arn=self.balancer.ref,
            port=port,
            protocol="HTTPS" if certificate_arn else "HTTP",
            ssl_policy=TLS_POLICY if certificate_arn else None,
            certificates=(
                [elb.CfnListener.CertificateProperty(certificate_arn=certificate_arn)] if certificate_arn else None
            ),
            default_actions=[elb.CfnListener.ActionProperty(type="forward", target_group_arn=self.targets.ref)],
        )
        self.url: str = f"{'https' if certificate_arn else 'http'}://{self.balancer.attr_dns_name}"

    def _build_targets(self, vpc: ec2.IVpc) -> elb.CfnTargetGroup:
        return elb.CfnTargetGroup(
            self,
            "Targets",
            vpc_id=vpc.vpc_id,
            target_type="instance",
            protocol="HTTP",
            port=HOST_PORT,
            health_check_enabled=True,
            health_check_protocol="HTTP",
            health_check_path=READY,
            health_check_interval_seconds=CHECK_SECONDS,
            health_check_timeout_seconds=CHECK_SECONDS - 1,
            healthy_threshold_count=CHECKS_UP,
            unhealthy_threshold_count=CHECKS_DOWN,
            matcher=elb.CfnTargetGroup.MatcherProperty(http_code="200"),
            target_group_attributes=[
                elb.CfnTargetGroup.TargetGroupAttributeProperty(key=key, value=value)
                for key, value in (
                    ("deregistration_delay.timeout_seconds", str(DRAIN_SECONDS)),
                    # Answers differ in length by windows: in turn, one host would wait while another has nothing.
                    ("load_balancing.algorithm.type", "least_outstanding_requests"),
                )
            ],
        )
