"""Functions of a template resolved without a deployment: what a value would look like, by what it refers to."""

from __future__ import annotations

import json
from typing import Any

from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.template import Template, parse_template

REGION = "us-east-1"
ACCOUNT = "123456789012"
PSEUDO = {
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "Torchlift-some-Stack",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/Torchlift-some-Stack/0",
}
HANDLE = f"https://cloudformation-waitcondition-{REGION}.s3.amazonaws.com/arn%3Aaws%3Acloudformation"
EC2_IDS = {
    "VPC": "vpc",
    "Subnet": "subnet",
    "SecurityGroup": "sg",
    "RouteTable": "rtb",
    "InternetGateway": "igw",
    "NatGateway": "nat",
    "EIP": "eipalloc",
    "LaunchTemplate": "lt",
    "Instance": "i",
    "Volume": "vol",
}
NAMES = (
    "RoleName",
    "FunctionName",
    "LogGroupName",
    "BucketName",
    "RepositoryName",
    "EndpointName",
    "AlarmName",
    "Name",
)
REFERENCE_IS_ARN = (
    "AWS::SNS::Topic",
    "AWS::SageMaker::",
    "AWS::ElasticLoadBalancingV2::",
    "AWS::SecretsManager::",
    "AWS::IAM::ManagedPolicy",
)


def resolver(stack: str, templates: dict[str, dict[str, Any]]) -> Resolver:
    """Resolves values of one stack's template; imports are looked up in the others' outputs."""
    template = parse_template(json.dumps(templates[stack]))

    def imported(name: str) -> Any:
        for other, document in templates.items():
            for output in document.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == name:
                    return resolver(other, templates).resolve(output["Value"])
        raise KeyError(f"no stack exports {name}")

    return Resolver(
        template=template,
        parameters={name: parameter.get("Default", "value") for name, parameter in template.parameters.items()},
        pseudo=PSEUDO,
        reference=lambda name: reference(template, name),
        attribute=lambda name, attribute: attribute_of(template, name, attribute),
        import_value=imported,
        parameter_of_ssm=lambda name: "ami-0123456789abcdef0",
        zones=lambda region: [f"{region}a", f"{region}b"],
    )


def reference(template: Template, name: str) -> str:
    """What `Ref` gives."""
    kind = template.resources[name].type
    if kind == "AWS::CloudFormation::WaitConditionHandle":
        return HANDLE
    if kind.startswith("AWS::EC2::") and kind.rpartition(":")[2] in EC2_IDS:
        return f"{EC2_IDS[kind.rpartition(':')[2]]}-0123456789abcdef0"
    if kind.startswith(REFERENCE_IS_ARN):
        return arn(kind, own_name(template, name))
    return own_name(template, name)


def attribute_of(template: Template, name: str, attribute: str) -> str:
    """What `Fn::GetAtt` gives."""
    kind = template.resources[name].type
    if attribute.endswith("Arn"):
        return arn(kind, own_name(template, name))
    if attribute in ("GroupId", "AllocationId", "VpcId", "DefaultSecurityGroup"):
        prefix = {"AllocationId": "eipalloc", "VpcId": "vpc"}.get(attribute, "sg")
        return f"{prefix}-0123456789abcdef0"
    if attribute == "LatestVersionNumber":
        return "1"
    return own_name(template, name)


def own_name(template: Template, name: str) -> str:
    """The name that the template gives a resource, or one like CloudFormation's own."""
    properties = template.resources[name].properties
    for key in NAMES:
        if isinstance(properties.get(key), str):
            return str(properties[key])
    return name.lower()[:60]


def arn(kind: str, name: str) -> str:
    """An ARN of the form that the service gives its things."""
    service, thing = kind.split("::")[1:]
    service = {"ElasticLoadBalancingV2": "elasticloadbalancing"}.get(service, service.lower())
    if service == "s3":
        return f"arn:aws:s3:::{name}"
    where = f"arn:aws:{service}:{'' if service == 'iam' else REGION}:{ACCOUNT}"
    if service == "sns":
        return f"{where}:{name}"
    if service == "kms":
        return f"{where}:key/01234567-89ab-cdef-0123-456789abcdef"
    words = {
        "Role": "role/",
        "InstanceProfile": "instance-profile/",
        "ManagedPolicy": "policy/",
        "Function": "function:",
        "LogGroup": "log-group:",
        "Rule": "rule/",
        "Alarm": "alarm:",
        "Secret": "secret:",
        "EndpointConfig": "endpoint-config/",
        "TargetGroup": "targetgroup/",
        "LoadBalancer": "loadbalancer/app/",
    }
    return f"{where}:{words.get(thing, thing.lower() + '/')}{name}"
