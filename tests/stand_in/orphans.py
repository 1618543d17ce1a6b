"""One thing of each type, made past CloudFormation as somebody might have left it; and how to take it away again."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable

from stand_in.session import StandIn
from tests.stand_in.conftest import REGION
from tests.stand_in.functions import TRUST
from tests.stand_in.samples import ACCOUNT, KEY_POLICY, allow

ROLE = f"arn:aws:iam::{ACCOUNT}:role/nobody"
Undo = Callable[[], object]
Orphan = tuple[str, Undo]
"""What the report must contain, and what ends it."""

PARTS = {
    "AWS::EC2::Route": "AWS::EC2::RouteTable",
    "AWS::EC2::SecurityGroupEgress": "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupIngress": "AWS::EC2::SecurityGroup",
    "AWS::EC2::SubnetRouteTableAssociation": "AWS::EC2::RouteTable",
    "AWS::EC2::VPCGatewayAttachment": "AWS::EC2::InternetGateway",
    "AWS::ElasticLoadBalancingV2::Listener": "AWS::ElasticLoadBalancingV2::LoadBalancer",
    "AWS::IAM::Policy": "AWS::IAM::Role",
    "AWS::KMS::Alias": "AWS::KMS::Key",
    "AWS::Lambda::Permission": "AWS::Lambda::Function",
    "AWS::S3::BucketPolicy": "AWS::S3::Bucket",
    "AWS::SNS::TopicPolicy": "AWS::SNS::Topic",
}
"""Types that are a part of another and go with it: what could be left is that other."""
NOWHERE = {
    "AWS::CDK::Metadata": "nothing exists",
    "AWS::CloudFormation::CustomResource": "the function's work: whatever it made is one of the others",
    "AWS::CloudFormation::WaitCondition": "CloudFormation's own, gone with its stack",
    "AWS::CloudFormation::WaitConditionHandle": "CloudFormation's own, gone with its stack",
}
"""Types that no service holds, each with the reason."""
MAKERS: dict[str, Callable[[StandIn, str], Orphan]] = {}


def _makes(kind: str) -> Callable[[Callable[[StandIn, str], Orphan]], Callable[[StandIn, str], Orphan]]:
    def keep(maker: Callable[[StandIn, str], Orphan]) -> Callable[[StandIn, str], Orphan]:
        MAKERS[kind] = maker
        return maker

    return keep


def _default_vpc(aws: StandIn) -> tuple[str, str]:
    """The account's own network and one of its subnets, which were there before."""
    ec2 = aws.client("ec2")
    vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]
    return vpc, subnets[0]["SubnetId"]


@_makes("AWS::EC2::VPC")
def _vpc(aws: StandIn, name: str) -> Orphan:
    ec2 = aws.client("ec2")
    made = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    return made, lambda: ec2.delete_vpc(VpcId=made)


@_makes("AWS::EC2::Subnet")
def _subnet(aws: StandIn, name: str) -> Orphan:
    ec2, (vpc, _) = aws.client("ec2"), _default_vpc(aws)
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="172.31.240.0/24")["Subnet"]["SubnetId"]
    return made, lambda: ec2.delete_subnet(SubnetId=made)


@_makes("AWS::EC2::RouteTable")
def _route_table(aws: StandIn, name: str) -> Orphan:
    ec2, (vpc, _) = aws.client("ec2"), _default_vpc(aws)
    made = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    return made, lambda: ec2.delete_route_table(RouteTableId=made)


@_makes("AWS::EC2::InternetGateway")
def _internet_gateway(aws: StandIn, name: str) -> Orphan:
    ec2 = aws.client("ec2")
    made = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    return made, lambda: ec2.delete_internet_gateway(InternetGatewayId=made)


@_makes("AWS::EC2::EIP")
def _address(aws: StandIn, name: str) -> Orphan:
    ec2 = aws.client("ec2")
    made = ec2.allocate_address(Domain="vpc")
    return made["AllocationId"], lambda: ec2.release_address(AllocationId=made["AllocationId"])


@_makes("AWS::EC2::NatGateway")
def _nat(aws: StandIn, name: str) -> Orphan:
    ec2, (_, subnet) = aws.client("ec2"), _default_vpc(aws)
    made = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"]["NatGatewayId"]
    return made, lambda: ec2.delete_nat_gateway(NatGatewayId=made)


@_makes("AWS::EC2::VPCEndpoint")
def _vpc_endpoint(aws: StandIn, name: str) -> Orphan:
    ec2, (vpc, subnet) = aws.client("ec2"), _default_vpc(aws)
    service = f"com.amazonaws.{REGION}.ssm"
    arguments = {"VpcId": vpc, "ServiceName": service, "VpcEndpointType": "Interface", "SubnetIds": [subnet]}
    made = ec2.create_vpc_endpoint(**arguments)["VpcEndpoint"]["VpcEndpointId"]
    return made, lambda: ec2.delete_vpc_endpoints(VpcEndpointIds=[made])


@_makes("AWS::EC2::FlowLog")
def _flow_log(aws: StandIn, name: str) -> Orphan:
    ec2, (vpc, _) = aws.client("ec2"), _default_vpc(aws)
    arguments = {"ResourceIds": [vpc], "ResourceType": "VPC", "TrafficType": "ALL"}
    destination = {"LogDestinationType": "s3", "LogDestination": "arn:aws:s3:::somewhere"}
    aws.client("s3").create_bucket(Bucket="somewhere", CreateBucketConfiguration={"LocationConstraint": REGION})
    made = ec2.create_flow_logs(**arguments, **destination)["FlowLogIds"][0]
    aws.client("s3").delete_bucket(Bucket="somewhere")
    return made, lambda: ec2.delete_flow_logs(FlowLogIds=[made])


@_makes("AWS::EC2::SecurityGroup")
def _security_group(aws: StandIn, name: str) -> Orphan:
    ec2, (vpc, _) = aws.client("ec2"), _default_vpc(aws)
    made = ec2.create_security_group(GroupName=name, Description="x", VpcId=vpc)["GroupId"]
    return made, lambda: ec2.delete_security_group(GroupId=made)


@_makes("AWS::EC2::LaunchTemplate")
def _launch_template(aws: StandIn, name: str) -> Orphan:
    ec2 = aws.client("ec2")
    data = {"InstanceType": "t3.small", "ImageId": "ami-12c6146b"}
    made = ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)["LaunchTemplate"]
    return made["LaunchTemplateId"], lambda: ec2.delete_launch_template(LaunchTemplateName=name)


@_makes("AWS::EC2::Instance")
def _instance(aws: StandIn, name: str) -> Orphan:
    ec2 = aws.client("ec2")
    made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)
    instance = made["Instances"][0]["InstanceId"]
    return made["ReservationId"], lambda: ec2.terminate_instances(InstanceIds=[instance])


@_makes("a volume")
def _volume(aws: StandIn, name: str) -> Orphan:
    ec2 = aws.client("ec2")
    made = ec2.create_volume(AvailabilityZone=f"{REGION}a", Size=1)["VolumeId"]
    return made, lambda: ec2.delete_volume(VolumeId=made)


@_makes("a network interface")
def _interface(aws: StandIn, name: str) -> Orphan:
    ec2, (_, subnet) = aws.client("ec2"), _default_vpc(aws)
    made = ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]
    return made, lambda: ec2.delete_network_interface(NetworkInterfaceId=made)


@_makes("AWS::AutoScaling::AutoScalingGroup")
def _scaling_group(aws: StandIn, name: str) -> Orphan:
    client = aws.client("autoscaling")
    _, remove_template = _launch_template(aws, name)
    template, zones = {"LaunchTemplateName": name, "Version": "1"}, [f"{REGION}a"]
    client.create_auto_scaling_group(
        AutoScalingGroupName=name, LaunchTemplate=template, MinSize=0, MaxSize=1, AvailabilityZones=zones
    )

    def undo() -> None:
        client.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
        remove_template()

    return f"autoscaling_groups/{name}", undo


@_makes("AWS::AutoScaling::ScalingPolicy")
def _group_policy(aws: StandIn, name: str) -> Orphan:
    client = aws.client("autoscaling")
    _, remove_group = _scaling_group(aws, name)
    client.put_scaling_policy(
        AutoScalingGroupName=name, PolicyName=name, PolicyType="TargetTrackingScaling",
        TargetTrackingConfiguration={
            "PredefinedMetricSpecification": {"PredefinedMetricType": "ASGAverageCPUUtilization"}, "TargetValue": 5.0
        },
    )  # fmt: skip

    def undo() -> None:
        client.delete_policy(PolicyName=name)
        remove_group()

    return f"policies/{name}", undo


@_makes("AWS::ElasticLoadBalancingV2::LoadBalancer")
def _load_balancer(aws: StandIn, name: str) -> Orphan:
    client, (_, subnet) = aws.client("elbv2"), _default_vpc(aws)
    made = client.create_load_balancer(Name=name[:32], Subnets=[subnet])["LoadBalancers"][0]["LoadBalancerArn"]
    return made, lambda: client.delete_load_balancer(LoadBalancerArn=made)


@_makes("AWS::ElasticLoadBalancingV2::TargetGroup")
def _target_group(aws: StandIn, name: str) -> Orphan:
    client, (vpc, _) = aws.client("elbv2"), _default_vpc(aws)
    made = client.create_target_group(Name=name[:32], Protocol="HTTP", Port=80, VpcId=vpc)
    arn = made["TargetGroups"][0]["TargetGroupArn"]
    return arn, lambda: client.delete_target_group(TargetGroupArn=arn)


def _target(name: str) -> dict[str, str]:
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{name}/variant/main",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }


@_makes("AWS::ApplicationAutoScaling::ScalableTarget")
def _scalable_target(aws: StandIn, name: str) -> Orphan:
    client = aws.client("application-autoscaling")
    client.register_scalable_target(**_target(name), MinCapacity=1, MaxCapacity=2)
    return f"endpoint/{name}/variant/main", lambda: client.deregister_scalable_target(**_target(name))


@_makes("AWS::ApplicationAutoScaling::ScalingPolicy")
def _scaling_policy(aws: StandIn, name: str) -> Orphan:
    client = aws.client("application-autoscaling")
    _, remove_target = _scalable_target(aws, name)
    tracking = {
        "TargetValue": 1.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
    }
    client.put_scaling_policy(
        PolicyName="orphaned-policy",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=tracking,
        **_target(name),
    )

    def undo() -> None:
        client.delete_scaling_policy(PolicyName="orphaned-policy", **_target(name))
        remove_target()

    return "orphaned-policy", undo


@_makes("AWS::CloudWatch::Alarm")
def _alarm(aws: StandIn, name: str) -> Orphan:
    client = aws.client("cloudwatch")
    client.put_metric_alarm(
        AlarmName=name, MetricName="m", Namespace="n", Period=60, EvaluationPeriods=1, Threshold=1,
        ComparisonOperator="GreaterThanThreshold", Statistic="Sum",
    )  # fmt: skip
    return name, lambda: client.delete_alarms(AlarmNames=[name])


@_makes("AWS::CloudWatch::CompositeAlarm")
def _composite_alarm(aws: StandIn, name: str) -> Orphan:
    client = aws.client("cloudwatch")
    client.put_composite_alarm(AlarmName=name, AlarmRule="FALSE")
    return name, lambda: client.delete_alarms(AlarmNames=[name])


@_makes("AWS::Logs::MetricFilter")
def _metric_filter(aws: StandIn, name: str) -> Orphan:
    client = aws.client("logs")
    client.create_log_group(logGroupName="filtered")
    client.put_metric_filter(
        filterName=name, filterPattern="ERROR", logGroupName="filtered",
        metricTransformations=[{"metricName": "m", "metricNamespace": "n", "metricValue": "1"}],
    )  # fmt: skip

    def undo() -> None:
        client.delete_metric_filter(filterName=name, logGroupName="filtered")
        client.delete_log_group(logGroupName="filtered")

    return name, undo


@_makes("AWS::CloudWatch::Dashboard")
def _dashboard(aws: StandIn, name: str) -> Orphan:
    client = aws.client("cloudwatch")
    client.put_dashboard(DashboardName=name, DashboardBody="{}")
    return name, lambda: client.delete_dashboards(DashboardNames=[name])


@_makes("AWS::CodeBuild::Project")
def _project(aws: StandIn, name: str) -> Orphan:
    client = aws.client("codebuild")
    client.create_project(
        name=name, artifacts={"type": "NO_ARTIFACTS"}, serviceRole=ROLE,
        source={"type": "S3", "location": "bucket/key", "buildspec": "version: 0.2"},
        environment={"type": "LINUX_CONTAINER", "image": "x", "computeType": "BUILD_GENERAL1_SMALL"},
    )  # fmt: skip
    return name, lambda: client.delete_project(name=name)


@_makes("AWS::ECR::Repository")
def _repository(aws: StandIn, name: str) -> Orphan:
    client = aws.client("ecr")
    client.create_repository(repositoryName=name)
    return name, lambda: client.delete_repository(repositoryName=name)


@_makes("AWS::Events::Rule")
def _rule(aws: StandIn, name: str) -> Orphan:
    client = aws.client("events")
    client.put_rule(Name=name, ScheduleExpression="rate(1 day)")
    return name, lambda: client.delete_rule(Name=name)


@_makes("AWS::Budgets::Budget")
def _budget(aws: StandIn, name: str) -> Orphan:
    client = aws.client("budgets")
    budget = {"BudgetName": name, "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    budget["BudgetLimit"] = {"Amount": "1", "Unit": "USD"}  # type: ignore[assignment]
    client.create_budget(AccountId=ACCOUNT, Budget=budget)
    return name, lambda: client.delete_budget(AccountId=ACCOUNT, BudgetName=name)


@_makes("AWS::IAM::Role")
def _role(aws: StandIn, name: str) -> Orphan:
    client = aws.client("iam")
    role = client.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
    return role["RoleId"], lambda: client.delete_role(RoleName=name)


@_makes("AWS::IAM::ManagedPolicy")
def _managed_policy(aws: StandIn, name: str) -> Orphan:
    client = aws.client("iam")
    policy = json.dumps(allow("s3:GetObject"))
    made = client.create_policy(PolicyName=name, PolicyDocument=policy)["Policy"]["Arn"]
    return made, lambda: client.delete_policy(PolicyArn=made)


@_makes("AWS::IAM::InstanceProfile")
def _instance_profile(aws: StandIn, name: str) -> Orphan:
    client = aws.client("iam")
    client.create_instance_profile(InstanceProfileName=name)
    return name, lambda: client.delete_instance_profile(InstanceProfileName=name)


@_makes("AWS::KMS::Key")
def _key(aws: StandIn, name: str) -> Orphan:
    client = aws.client("kms")
    made = client.create_key(Policy=json.dumps(KEY_POLICY))["KeyMetadata"]["KeyId"]
    return made, lambda: client.schedule_key_deletion(KeyId=made, PendingWindowInDays=7)


@_makes("AWS::Lambda::Function")
def _function(aws: StandIn, name: str) -> Orphan:
    client = aws.client("lambda")
    _, remove_role = _role(aws, name)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", "")
    client.create_function(
        FunctionName=name, Runtime="python3.11", Role=f"arn:aws:iam::{ACCOUNT}:role/{name}", Handler="index.handler",
        Code={"ZipFile": packed.getvalue()},
    )  # fmt: skip

    def undo() -> None:
        client.delete_function(FunctionName=name)
        remove_role()

    return f"_functions/{name}", undo


@_makes("AWS::Logs::LogGroup")
def _log_group(aws: StandIn, name: str) -> Orphan:
    client = aws.client("logs")
    client.create_log_group(logGroupName=name)
    return name, lambda: client.delete_log_group(logGroupName=name)


@_makes("AWS::S3::Bucket")
def _bucket(aws: StandIn, name: str) -> Orphan:
    client = aws.client("s3")
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return name, lambda: client.delete_bucket(Bucket=name)


@_makes("AWS::SNS::Topic")
def _topic(aws: StandIn, name: str) -> Orphan:
    client = aws.client("sns")
    made = client.create_topic(Name=name)["TopicArn"]
    return made, lambda: client.delete_topic(TopicArn=made)


@_makes("AWS::SNS::Subscription")
def _subscription(aws: StandIn, name: str) -> Orphan:
    client = aws.client("sns")
    topic, remove_topic = _topic(aws, name)
    made = client.subscribe(TopicArn=topic, Protocol="email", Endpoint="a@example.com", ReturnSubscriptionArn=True)

    def undo() -> None:
        client.unsubscribe(SubscriptionArn=made["SubscriptionArn"])
        remove_topic()

    return made["SubscriptionArn"], undo


@_makes("AWS::SSM::Parameter")
def _parameter(aws: StandIn, name: str) -> Orphan:
    client = aws.client("ssm")
    client.put_parameter(Name=f"/{name}/x", Value="v", Type="String")
    return f"/{name}/x", lambda: client.delete_parameter(Name=f"/{name}/x")


@_makes("AWS::SageMaker::Model")
def _model(aws: StandIn, name: str) -> Orphan:
    client = aws.client("sagemaker")
    container = {"Image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/fake-serving:1"}
    client.create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=ROLE)
    return f"_models/{name}", lambda: client.delete_model(ModelName=name)


@_makes("AWS::SageMaker::EndpointConfig")
def _endpoint_config(aws: StandIn, name: str) -> Orphan:
    client = aws.client("sagemaker")
    _, remove_model = _model(aws, name)
    variant = {"VariantName": "v", "ModelName": name, "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])

    def undo() -> None:
        client.delete_endpoint_config(EndpointConfigName=name)
        remove_model()

    return f"endpoint_configs/{name}", undo


@_makes("AWS::SageMaker::Endpoint")
def _endpoint(aws: StandIn, name: str) -> Orphan:
    client = aws.client("sagemaker")
    _, remove_config = _endpoint_config(aws, name)
    client.create_endpoint(EndpointName=name, EndpointConfigName=name)
    client.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})

    def undo() -> None:
        client.delete_endpoint(EndpointName=name)
        remove_config()

    return f"endpoints/{name}", undo


@_makes("a stack")
def _stack(aws: StandIn, name: str) -> Orphan:
    client = aws.client("cloudformation")
    template = {"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}}
    client.create_stack(StackName=name, TemplateBody=json.dumps(template))
    client.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})

    def undo() -> None:
        client.delete_stack(StackName=name)
        client.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})

    return f"stacks/{name}", undo


@_makes("a secret")
def _secret(aws: StandIn, name: str) -> Orphan:
    client = aws.client("secretsmanager")
    client.create_secret(Name=name, SecretString="x")
    return name, lambda: client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


@_makes("a queue")
def _queue(aws: StandIn, name: str) -> Orphan:
    client = aws.client("sqs")
    url = client.create_queue(QueueName=name)["QueueUrl"]
    return name, lambda: client.delete_queue(QueueUrl=url)
