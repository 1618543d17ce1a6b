"""One resource of every type that the stand-in knows, and what an update changes of each in place."""

from __future__ import annotations

from typing import Any

from tests.stand_in.conftest import REGION
from tests.stand_in.functions import TRUST, function

ACCOUNT = "123456789012"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/fake-serving:1"
"""An image of another account, which the fixtures' stand-in has a program for."""
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:*", "Resource": "*"}
    ],
}
Resources = dict[str, dict[str, Any]]


def ref(name: str) -> dict[str, Any]:
    return {"Ref": name}


def att(name: str, attribute: str = "Arn") -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


def tags(**values: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in values.items()]


def allow(action: str, resource: Any = "*", **more: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource, **more}
    return {"Version": "2012-10-17", "Statement": [statement]}


def _network() -> Resources:
    return {
        "Vpc": {
            "Type": "AWS::EC2::VPC",
            "Properties": {
                "CidrBlock": "10.9.0.0/16", "EnableDnsHostnames": True, "EnableDnsSupport": True,
                "InstanceTenancy": "default", "Tags": tags(Name="vpc", own="template"),
            },
        },
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {
                "AvailabilityZone": f"{REGION}a", "CidrBlock": "10.9.0.0/20", "MapPublicIpOnLaunch": True,
                "Tags": tags(Name="subnet"), "VpcId": ref("Vpc"),
            },
        },
        "Table": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": ref("Vpc"), "Tags": tags(Name="table")}},
        "Private": {
            "Type": "AWS::EC2::VPCEndpoint",
            "Properties": {
                "RouteTableIds": [ref("Table")], "ServiceName": f"com.amazonaws.{REGION}.s3",
                "VpcEndpointType": "Gateway", "VpcId": ref("Vpc"),
            },
        },
        "Association": {
            "Type": "AWS::EC2::SubnetRouteTableAssociation",
            "Properties": {"RouteTableId": ref("Table"), "SubnetId": ref("Subnet")},
        },
        "Gateway": {"Type": "AWS::EC2::InternetGateway", "Properties": {"Tags": tags(Name="gateway")}},
        "Attachment": {
            "Type": "AWS::EC2::VPCGatewayAttachment",
            "Properties": {"InternetGatewayId": ref("Gateway"), "VpcId": ref("Vpc")},
        },
        "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc", "Tags": tags(Name="address")}},
        "Nat": {
            "Type": "AWS::EC2::NatGateway",
            "Properties": {
                "AllocationId": att("Address", "AllocationId"), "SubnetId": ref("Subnet"), "Tags": tags(Name="nat"),
            },
        },
        "Route": {
            "Type": "AWS::EC2::Route", "DependsOn": "Attachment",
            "Properties": {
                "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": ref("Gateway"), "RouteTableId": ref("Table"),
            },
        },
        "Endpoint": {
            "Type": "AWS::EC2::VPCEndpoint",
            "Properties": {
                "PrivateDnsEnabled": True, "SecurityGroupIds": [ref("Group")], "SubnetIds": [ref("Subnet")],
                "ServiceName": f"com.amazonaws.{REGION}.ssm", "VpcEndpointType": "Interface", "VpcId": ref("Vpc"),
                "Tags": tags(Name="endpoint"),
            },
        },
        "FlowLog": {
            "Type": "AWS::EC2::FlowLog",
            "Properties": {
                "DeliverLogsPermissionArn": att("Role"), "LogDestinationType": "cloud-watch-logs",
                "LogGroupName": ref("Logs"), "ResourceId": ref("Vpc"), "ResourceType": "VPC", "TrafficType": "ALL",
                "Tags": tags(Name="flow"),
            },
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {
                "GroupDescription": "for a test", "GroupName": "sample-group", "VpcId": ref("Vpc"),
                "Tags": tags(Name="group"),
                "SecurityGroupIngress": [
                    {"CidrIp": "10.9.0.0/16", "Description": "a", "FromPort": 443, "IpProtocol": "tcp", "ToPort": 443}
                ],
                "SecurityGroupEgress": [
                    {"CidrIp": "0.0.0.0/0", "Description": "b", "FromPort": 443, "IpProtocol": "tcp", "ToPort": 443}
                ],
            },
        },
        "Ingress": {
            "Type": "AWS::EC2::SecurityGroupIngress",
            "Properties": {
                "GroupId": ref("Group"), "IpProtocol": "tcp", "FromPort": 80, "ToPort": 80,
                "SourceSecurityGroupId": ref("Group"), "Description": "c",
            },
        },
        "Egress": {
            "Type": "AWS::EC2::SecurityGroupEgress",
            "Properties": {
                "GroupId": ref("Group"), "IpProtocol": "tcp", "FromPort": 81, "ToPort": 81, "CidrIp": "10.0.0.0/8",
                "Description": "d",
            },
        },
        "IngressFromOutside": {
            "Type": "AWS::EC2::SecurityGroupIngress",
            "Properties": {
                "GroupId": ref("Group"), "IpProtocol": "tcp", "FromPort": 82, "ToPort": 82, "CidrIp": "10.0.0.0/8",
            },
        },
        "EgressToGroup": {
            "Type": "AWS::EC2::SecurityGroupEgress",
            "Properties": {
                "GroupId": ref("Group"), "IpProtocol": "tcp", "FromPort": 83, "ToPort": 83,
                "DestinationSecurityGroupId": ref("Group"),
            },
        },
    }  # fmt: skip


def _storage(unique: str) -> Resources:
    return {
        "Key": {
            "Type": "AWS::KMS::Key",
            "Properties": {
                "Description": "for a test", "EnableKeyRotation": True, "KeyPolicy": KEY_POLICY,
                "PendingWindowInDays": 7, "Tags": tags(Name="key"),
            },
        },
        "Alias": {
            "Type": "AWS::KMS::Alias",
            "Properties": {"AliasName": f"alias/{unique}", "TargetKeyId": att("Key")},
        },
        "Bucket": {
            "Type": "AWS::S3::Bucket",
            "Properties": {
                "AccessControl": "Private", "BucketName": f"bucket-{unique}",
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [
                        {
                            "BucketKeyEnabled": True,
                            "ServerSideEncryptionByDefault": {
                                "SSEAlgorithm": "aws:kms", "KMSMasterKeyID": att("Key"),
                            },
                        }
                    ]
                },
                "LifecycleConfiguration": {
                    "Rules": [
                        {
                            "Id": "old", "Status": "Enabled", "Prefix": "x/", "ExpirationInDays": 3,
                            "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
                        },
                        {
                            "Id": "parts", "Status": "Enabled",
                            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
                        },
                    ]
                },
                "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                "PublicAccessBlockConfiguration": {
                    "BlockPublicAcls": True, "BlockPublicPolicy": True, "IgnorePublicAcls": True,
                    "RestrictPublicBuckets": True,
                },
                "Tags": tags(Name="bucket"),
                "VersioningConfiguration": {"Status": "Enabled"},
            },
        },
        "BucketPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": ref("Bucket"),
                "PolicyDocument": allow("s3:GetObject", {"Fn::Sub": "${Bucket.Arn}/*"}, Principal={"AWS": ACCOUNT}),
            },
        },
        "Repository": {
            "Type": "AWS::ECR::Repository",
            "Properties": {
                "RepositoryName": f"repository-{unique}", "EmptyOnDelete": True, "ImageTagMutability": "IMMUTABLE",
                "EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": att("Key")},
                "ImageScanningConfiguration": {"ScanOnPush": True},
                "LifecyclePolicy": {
                    "LifecyclePolicyText": '{"rules":[{"rulePriority":1,"selection":{"tagStatus":"untagged",'
                    '"countType":"sinceImagePushed","countUnit":"days","countNumber":7},"action":{"type":"expire"}}]}'
                },
                "RepositoryPolicyText": {
                    "Version": "2012-10-17",
                    "Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "ecr:BatchGetImage"}],
                },
                "Tags": tags(Name="repository"),
            },
        },
    }  # fmt: skip


def _permissions(unique: str) -> Resources:
    return {
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": TRUST, "Description": "for a test", "MaxSessionDuration": 7200,
                "RoleName": f"role-{unique}",
                "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"], "Path": "/test/",
                "PermissionsBoundary": "arn:aws:iam::aws:policy/PowerUserAccess",
                "Policies": [{"PolicyName": "inline", "PolicyDocument": allow("s3:GetObject")}],
                "Tags": tags(Name="role"),
            },
        },
        "Policy": {
            "Type": "AWS::IAM::Policy",
            "Properties": {
                "PolicyDocument": allow("s3:PutObject"), "PolicyName": f"p-{unique}", "Roles": [ref("Role")],
            },
        },
        "ManagedPolicy": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "Description": "for a test", "Path": "/test/", "PolicyDocument": allow("s3:PutObject"),
                "ManagedPolicyName": f"m-{unique}",
                "Roles": [ref("Role")],
            },
        },
        "Profile": {
            "Type": "AWS::IAM::InstanceProfile",
            "Properties": {"InstanceProfileName": f"i-{unique}", "Path": "/test/", "Roles": [ref("Role")]},
        },
    }  # fmt: skip


def _compute(bucket: str, unique: str) -> Resources:
    made = function(bucket, Architectures=["arm64"], Description="d", MemorySize=256, KmsKeyArn=att("Key"))
    made["Function"]["Properties"]["FunctionName"] = f"f-{unique}"
    made["Function"]["Properties"]["Tags"] = tags(Name="function")
    made["FunctionRole"] = made.pop("Role")
    made["Function"]["Properties"]["Role"] = att("FunctionRole")
    made["Logs"]["Properties"] = {
        "KmsKeyId": att("Key"), "LogGroupName": f"/test/{unique}", "RetentionInDays": 7, "Tags": tags(Name="logs"),
    }  # fmt: skip
    return made | {
        "Permission": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction", "FunctionName": att("Function"),
                "Principal": "events.amazonaws.com", "SourceArn": att("Rule"), "SourceAccount": ACCOUNT,
            },
        },
        "Project": {
            "Type": "AWS::CodeBuild::Project",
            "Properties": {
                "Artifacts": {"Type": "NO_ARTIFACTS"}, "Description": "d", "Name": f"project-{unique}",
                "EncryptionKey": att("Key"),
                "Environment": {
                    "ComputeType": "BUILD_GENERAL1_SMALL", "Image": "aws/codebuild/standard:7.0",
                    "PrivilegedMode": True, "Type": "LINUX_CONTAINER", "ImagePullCredentialsType": "CODEBUILD",
                    "EnvironmentVariables": [{"Name": "A", "Type": "PLAINTEXT", "Value": "a"}],
                },
                "LogsConfig": {"CloudWatchLogs": {"GroupName": ref("Logs"), "Status": "ENABLED"}},
                "QueuedTimeoutInMinutes": 30, "ServiceRole": att("Role"), "TimeoutInMinutes": 60,
                "Source": {"Type": "S3", "BuildSpec": "version: 0.2", "Location": {"Fn::Sub": "${Bucket}/source.zip"}},
                "Tags": tags(Name="project"),
            },
        },
        "Template": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateData": {
                    "IamInstanceProfile": {"Arn": att("Profile")}, "ImageId": "ami-12c6146b",
                    "InstanceType": "g5.xlarge",
                    "MetadataOptions": {"HttpTokens": "required"}, "SecurityGroupIds": [ref("Group")],
                    "BlockDeviceMappings": [
                        {"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"}}
                    ],
                    "TagSpecifications": [{"ResourceType": "instance", "Tags": tags(Name="launched")}],
                },
                "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags(Name="template")}],
                "LaunchTemplateName": f"template-{unique}", "VersionDescription": "first",
            },
        },
        "FromTemplate": {
            "Type": "AWS::EC2::Instance",
            "Properties": {"LaunchTemplate": {"LaunchTemplateId": ref("Template"), "Version": "1"}, "Monitoring": True},
        },
        "Instance": {
            "Type": "AWS::EC2::Instance",
            "Properties": {
                "ImageId": "ami-12c6146b", "InstanceType": "t3.small", "SecurityGroupIds": [ref("Group")],
                "SubnetId": ref("Subnet"), "Tags": tags(Name="instance"),
            },
        },
        "Scaled": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "AutoScalingGroupName": f"scaled-{unique}", "DesiredCapacity": "0",
                "HealthCheckGracePeriod": 60, "HealthCheckType": "EC2", "MaxSize": "1", "CapacityRebalance": True,
                "DefaultInstanceWarmup": 90, "MetricsCollection": [{"Granularity": "1Minute"}],
                "TargetGroupARNs": [ref("Targets")],
                "LaunchTemplate": {"LaunchTemplateId": ref("Template"), "Version": "1"}, "MinSize": "0",
                "Tags": [{"Key": "Name", "PropagateAtLaunch": True, "Value": "scaled"}],
                "VPCZoneIdentifier": [ref("Subnet")],
            },
        },
    }  # fmt: skip


def _balancing(unique: str) -> Resources:
    return {
        "Balancer": {
            "Type": "AWS::ElasticLoadBalancingV2::LoadBalancer",
            "Properties": {
                "IpAddressType": "ipv4", "Name": f"lb-{unique}", "Scheme": "internal", "Type": "application",
                "SecurityGroups": [ref("Group")],
                "Subnets": [ref("Subnet")], "Tags": tags(Name="balancer"),
                "LoadBalancerAttributes": [{"Key": "idle_timeout.timeout_seconds", "Value": "70"}],
            },
        },
        "Targets": {
            "Type": "AWS::ElasticLoadBalancingV2::TargetGroup",
            "Properties": {
                "Name": f"tg-{unique}",
                "HealthCheckEnabled": True, "HealthCheckIntervalSeconds": 5, "HealthCheckPath": "/readyz",
                "HealthCheckProtocol": "HTTP", "HealthCheckTimeoutSeconds": 4, "HealthyThresholdCount": 2,
                "Matcher": {"HttpCode": "200"}, "Port": 8080, "Protocol": "HTTP", "TargetType": "instance",
                "TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "75"}],
                "Tags": tags(Name="targets"), "UnhealthyThresholdCount": 3, "VpcId": ref("Vpc"),
            },
        },
        "Listener": {
            "Type": "AWS::ElasticLoadBalancingV2::Listener",
            "Properties": {
                "DefaultActions": [{"TargetGroupArn": ref("Targets"), "Type": "forward"}],
                "LoadBalancerArn": ref("Balancer"), "Port": 80, "Protocol": "HTTP",
            },
        },
        "Grows": {
            "Type": "AWS::AutoScaling::ScalingPolicy",
            "Properties": {
                "AutoScalingGroupName": ref("Scaled"), "EstimatedInstanceWarmup": 60,
                "PolicyType": "TargetTrackingScaling",
                "TargetTrackingConfiguration": {
                    "PredefinedMetricSpecification": {"PredefinedMetricType": "ASGAverageCPUUtilization"},
                    "TargetValue": 70,
                },
            },
        },
    }  # fmt: skip


def _messages(unique: str) -> Resources:
    return {
        "Topic": {
            "Type": "AWS::SNS::Topic",
            "Properties": {
                "DisplayName": "d", "KmsMasterKeyId": att("Key"), "Tags": tags(Name="topic"),
                "TopicName": f"topic-{unique}",
            },
        },
        "TopicPolicy": {
            "Type": "AWS::SNS::TopicPolicy",
            "Properties": {
                "Topics": [ref("Topic")],
                "PolicyDocument": allow(
                    "sns:Publish", ref("Topic"), Principal={"Service": "cloudwatch.amazonaws.com"}, Sid="a"
                ),
            },
        },
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"Endpoint": "a@example.com", "Protocol": "email", "TopicArn": ref("Topic")},
        },
        "Parameter": {
            "Type": "AWS::SSM::Parameter",
            "Properties": {
                "Description": "d", "Name": f"/test/{unique}", "Tags": {"Name": "parameter"}, "Type": "String",
                "Value": "v",
            },
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "Name": f"rule-{unique}", "Description": "d", "EventPattern": {"source": ["aws.codebuild"]},
                "State": "ENABLED",
                "Tags": tags(Name="rule"),
                "Targets": [{"Arn": att("Function"), "Id": "t", "InputPath": "$.detail"}],
            },
        },
        "Schedule": {
            "Type": "AWS::Events::Rule",
            "Properties": {"ScheduleExpression": "rate(1 day)", "State": "DISABLED"},
        },
        "Budget": {
            "Type": "AWS::Budgets::Budget",
            "Properties": {
                "Budget": {
                    "BudgetLimit": {"Amount": 100, "Unit": "USD"}, "BudgetName": f"b-{unique}", "BudgetType": "COST",
                    "TimeUnit": "MONTHLY",
                },
                "NotificationsWithSubscribers": [
                    {
                        "Notification": {
                            "ComparisonOperator": "GREATER_THAN", "NotificationType": "ACTUAL", "Threshold": 80,
                            "ThresholdType": "PERCENTAGE",
                        },
                        "Subscribers": [{"Address": ref("Topic"), "SubscriptionType": "SNS"}],
                    }
                ],
            },
        },
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmActions": [ref("Topic")], "AlarmDescription": "d", "ComparisonOperator": "GreaterThanThreshold",
                "Dimensions": [{"Name": "EndpointName", "Value": "e"}], "DatapointsToAlarm": 1,
                "EvaluationPeriods": 2, "MetricName": "Invocation5XXErrors", "Namespace": "AWS/SageMaker",
                "OKActions": [ref("Topic")], "Period": 60, "Statistic": "Sum", "Threshold": 1,
                "Tags": tags(Name="alarm"), "TreatMissingData": "notBreaching", "ActionsEnabled": False,
                "InsufficientDataActions": [ref("Topic")], "Unit": "Count",
            },
        },
        "Share": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "ComparisonOperator": "GreaterThanOrEqualToThreshold", "EvaluationPeriods": 3, "Threshold": 0.05,
                "Metrics": [
                    {"Id": "share", "Expression": "IF(calls > 20, errors / calls, 0)", "Label": "share of errors"},
                    *(
                        {
                            "Id": key, "ReturnData": False,
                            "MetricStat": {
                                "Metric": {
                                    "Dimensions": [{"Name": "EndpointName", "Value": "e"}], "MetricName": name,
                                    "Namespace": "AWS/SageMaker",
                                },
                                "Period": 60, "Stat": "Sum", "Unit": "Count",
                            },
                        }
                        for key, name in (("errors", "Invocation5XXErrors"), ("calls", "Invocations"))
                    ),
                ],
            },
        },
        "Either": {
            "Type": "AWS::CloudWatch::CompositeAlarm",
            "Properties": {
                "ActionsEnabled": True, "AlarmActions": [ref("Topic")], "AlarmDescription": "d",
                "AlarmName": f"either-{unique}", "InsufficientDataActions": [ref("Topic")],
                "AlarmRule": {"Fn::Sub": 'ALARM("${Alarm}") OR (ALARM(${Percentile.Arn}) AND NOT OK("${Share}"))'},
                "OKActions": [ref("Topic")], "Tags": tags(Name="either"),
            },
        },
        "Lines": {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "FilterName": f"lines-{unique}", "FilterPattern": '{ $.status = "failed" }',
                "LogGroupName": ref("Logs"),
                "MetricTransformations": [
                    {
                        "MetricName": "failures", "MetricNamespace": "Ours", "MetricValue": "1", "Unit": "Count",
                        "Dimensions": [{"Key": "code", "Value": "$.code"}],
                    }
                ],
            },
        },
        "Percentile": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": f"percentile-{unique}", "ComparisonOperator": "GreaterThanThreshold",
                "EvaluationPeriods": 1, "ExtendedStatistic": "p99", "MetricName": "m", "Namespace": "n",
                "Period": 60, "Threshold": 1, "EvaluateLowSampleCountPercentile": "ignore",
            },
        },
        "Dashboard": {
            "Type": "AWS::CloudWatch::Dashboard",
            "Properties": {"DashboardBody": '{"widgets": []}', "DashboardName": f"d-{unique}"},
        },
    }  # fmt: skip


def _serving(unique: str) -> Resources:
    variant = {
        "InitialInstanceCount": 1, "InitialVariantWeight": 1, "InstanceType": "ml.c7g.4xlarge",
        "ModelName": att("Hosted", "ModelName"), "VariantName": "main",
    }  # fmt: skip
    challenger = {
        "ContainerStartupHealthCheckTimeoutInSeconds": 60, "EnableSSMAccess": False, "InitialInstanceCount": 1,
        "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-2", "InitialVariantWeight": 0.25,
        "InstanceType": "ml.c7g.xlarge", "ModelDataDownloadTimeoutInSeconds": 300,
        "ModelName": att("Hosted", "ModelName"), "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
        "VariantName": "challenger", "VolumeSizeInGB": 20,
    }  # fmt: skip
    return {
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {
                "ModelName": f"model-{unique}", "EnableNetworkIsolation": True, "ExecutionRoleArn": att("Role"),
                "PrimaryContainer": {"Image": IMAGE, "Environment": {"MODE": "one"}},
                "Tags": tags(Name="model"),
                "VpcConfig": {"SecurityGroupIds": [ref("Group")], "Subnets": [ref("Subnet")]},
            },
        },
        "ManyModels": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {
                "ExecutionRoleArn": att("Role"),
                "PrimaryContainer": {
                    "Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": "s3://somewhere/models/",
                    "MultiModelConfig": {"ModelCacheSetting": "Disabled"},
                },
            },
        },
        # In no network: its endpoint's interfaces would outlive it.
        "Hosted": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {
                "ExecutionRoleArn": att("Role"),
                "PrimaryContainer": {"Image": IMAGE, "Environment": {"MODE": "one"}},
            },
        },
        "Config": {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {
                "EndpointConfigName": f"config-{unique}", "KmsKeyId": att("Key"),
                "ProductionVariants": [variant, challenger],
                "DataCaptureConfig": {
                    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
                    "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
                    "DestinationS3Uri": "s3://somewhere/captured", "EnableCapture": True,
                    "InitialSamplingPercentage": 10, "KmsKeyId": att("Key"),
                },
                "Tags": tags(Name="config"),
            },
        },
        "Served": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {
                "EndpointName": f"endpoint-{unique}", "RetainAllVariantProperties": True,
                "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}],
                "EndpointConfigName": att("Config", "EndpointConfigName"), "Tags": tags(Name="endpoint"),
                "DeploymentConfig": {
                    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": ref("Alarm")}]},
                    "BlueGreenUpdatePolicy": {
                        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
                    },
                },
            },
        },
        "Target": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "MaxCapacity": 4, "MinCapacity": 1, "ServiceNamespace": "sagemaker",
                "ResourceId": {"Fn::Sub": "endpoint/${Served.EndpointName}/variant/main"},
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            },
        },
        "ScalingPolicy": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "p", "PolicyType": "TargetTrackingScaling", "ScalingTargetId": ref("Target"),
                "TargetTrackingScalingPolicyConfiguration": {
                    "PredefinedMetricSpecification": {
                        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
                    },
                    "TargetValue": 70, "ScaleInCooldown": 60, "ScaleOutCooldown": 30,
                },
            },
        },
        "ByProcessors": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "cpu", "PolicyType": "TargetTrackingScaling", "ScalingTargetId": ref("Target"),
                "TargetTrackingScalingPolicyConfiguration": {
                    "CustomizedMetricSpecification": {
                        "Dimensions": [{"Name": "VariantName", "Value": "main"}], "MetricName": "CPUUtilization",
                        "Namespace": "/aws/sagemaker/Endpoints", "Statistic": "Average", "Unit": "Percent",
                    },
                    "DisableScaleIn": False, "TargetValue": 900,
                },
            },
        },
        "ByExpression": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "expression", "PolicyType": "TargetTrackingScaling", "ScalingTargetId": ref("Target"),
                "TargetTrackingScalingPolicyConfiguration": {
                    "CustomizedMetricSpecification": {
                        "Metrics": [
                            {"Id": "share", "Expression": "cpu / 16", "Label": "per processor", "ReturnData": True},
                            {
                                "Id": "cpu", "ReturnData": False,
                                "MetricStat": {
                                    "Metric": {
                                        "Dimensions": [{"Name": "VariantName", "Value": "main"}],
                                        "MetricName": "CPUUtilization", "Namespace": "/aws/sagemaker/Endpoints",
                                    },
                                    "Stat": "Average",
                                },
                            },
                        ]
                    },
                    "TargetValue": 60,
                },
            },
        },
    }  # fmt: skip


def _own(echo: Any) -> Resources:
    return {
        "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "Signalled": {"Type": "Custom::Signal", "Properties": {"ServiceToken": echo, "Handle": ref("Handle")}},
        "Wait": {
            "Type": "AWS::CloudFormation::WaitCondition", "DependsOn": "Signalled",
            "Properties": {"Count": 1, "Handle": ref("Handle"), "Timeout": "60"},
        },
        "Metadata": {"Type": "AWS::CDK::Metadata", "Properties": {"Analytics": "v2:deflate64:x"}},
    }  # fmt: skip


HANDLER = """
def handler(event, context):
    handle = event["ResourceProperties"]["Handle"]
    if event["RequestType"] == "Create":
        body = json.dumps({"Status": "SUCCESS", "UniqueId": "u", "Reason": "", "Data": ""}).encode()
        request = urllib.request.Request(handle, data=body, method="PUT", headers={"Content-Type": ""})
        urllib.request.urlopen(request, timeout=10)
    answer(event)
"""


def before(bucket: str, unique: str) -> Resources:
    """Every type once. `bucket` holds `code.zip` with HANDLER."""
    made = _network() | _storage(unique) | _permissions(unique) | _compute(bucket, unique) | _balancing(unique)
    return made | _messages(unique) | _serving(unique) | _own(att("Function"))


CHANGES: dict[str, dict[str, Any]] = {
    "Vpc": {"EnableDnsHostnames": False, "Tags": tags(Name="changed")},
    "Subnet": {"MapPublicIpOnLaunch": False, "Tags": tags(Name="changed")},
    "Table": {"Tags": tags(Name="changed", more="x")},
    "Gateway": {"Tags": tags(other="changed")},
    "Address": {"Tags": tags(Name="changed")},
    "Nat": {"Tags": tags(Name="changed")},
    "Route": {"GatewayId": None, "NatGatewayId": ref("Nat")},
    "Endpoint": {"Tags": tags(Name="changed")},
    "FlowLog": {"Tags": tags(Name="changed")},
    "Group": {
        "SecurityGroupIngress": [{"CidrIp": "10.0.0.0/8", "FromPort": 8443, "IpProtocol": "tcp", "ToPort": 8443}],
        "Tags": tags(other="changed"),
    },
    "Key": {"Description": "changed", "EnableKeyRotation": False, "Tags": tags(x="y")},
    "Alias": {"TargetKeyId": ref("OtherKey")},
    "Bucket": {
        "LifecycleConfiguration": None, "Tags": tags(x="y"), "VersioningConfiguration": {"Status": "Suspended"},
        "OwnershipControls": None,
    },
    "BucketPolicy": {
        "PolicyDocument": allow("s3:PutObject", {"Fn::Sub": "${Bucket.Arn}/*"}, Principal={"AWS": ACCOUNT})
    },
    "Repository": {
        "ImageScanningConfiguration": {"ScanOnPush": False}, "ImageTagMutability": "MUTABLE", "LifecyclePolicy": None,
        "RepositoryPolicyText": None, "Tags": tags(x="y"),
    },
    "Role": {
        "Description": "changed", "ManagedPolicyArns": ["arn:aws:iam::aws:policy/ReadOnlyAccess"],
        "MaxSessionDuration": None, "PermissionsBoundary": None, "Tags": tags(x="y"),
        "Policies": [{"PolicyName": "other", "PolicyDocument": allow("s3:ListBucket")}],
    },
    "Policy": {"PolicyDocument": allow("s3:ListBucket"), "Roles": [ref("FunctionRole")]},
    "ManagedPolicy": {"PolicyDocument": allow("s3:ListBucket"), "Roles": [ref("FunctionRole")]},
    "Profile": {"Roles": [ref("FunctionRole")]},
    "Function": {"Description": "changed", "MemorySize": None, "Timeout": 30, "Tags": tags(x="y")},
    "Logs": {"KmsKeyId": att("OtherKey"), "RetentionInDays": 30, "Tags": tags(x="y")},
    "Project": {
        "Description": None, "EncryptionKey": None, "TimeoutInMinutes": 90, "Tags": tags(x="y"),
        "Artifacts": {"Type": "NO_ARTIFACTS"},
    },
    "Template": {
        "LaunchTemplateData": {"InstanceType": "g5.2xlarge"}, "VersionDescription": "second",
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags(x="y")}],
    },
    "Instance": {"Tags": tags(x="y")},
    "Scaled": {
        "MaxSize": "2", "HealthCheckGracePeriod": 90, "TargetGroupARNs": None,
        "Tags": [{"Key": "other", "PropagateAtLaunch": True, "Value": "changed"}],
    },
    "Balancer": {
        "LoadBalancerAttributes": [{"Key": "idle_timeout.timeout_seconds", "Value": "90"}], "Tags": tags(x="y"),
    },
    "Targets": {
        "HealthCheckPath": "/healthz", "Tags": tags(x="y"),
        "TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "30"}],
    },
    "Listener": {"Port": 8080},
    "Grows": {
        "TargetTrackingConfiguration": {
            "PredefinedMetricSpecification": {"PredefinedMetricType": "ASGAverageCPUUtilization"}, "TargetValue": 50,
        },
    },
    "Topic": {"DisplayName": "changed", "Tags": tags(x="y")},
    "TopicPolicy": {
        "PolicyDocument": allow("sns:Publish", ref("Topic"), Principal={"Service": "events.amazonaws.com"}, Sid="b")
    },
    "Parameter": {"Description": "changed", "Value": "changed", "Tags": {"x": "y"}},
    "Rule": {
        "Description": "changed", "State": "DISABLED", "Tags": tags(x="y"),
        "Targets": [{"Arn": att("Function"), "Id": "u"}],
    },
    "Budget": {"Budget.BudgetLimit": {"Amount": 200, "Unit": "USD"}},
    "Alarm": {"Threshold": 2, "AlarmDescription": "changed", "OKActions": None, "Tags": tags(x="y")},
    "Either": {"AlarmRule": {"Fn::Sub": 'ALARM("${Share}")'}, "ActionsEnabled": False, "Tags": tags(x="y")},
    "Lines": {
        "FilterPattern": "ERROR",
        "MetricTransformations": [
            {"MetricName": "errors", "MetricNamespace": "Ours", "MetricValue": "1", "DefaultValue": 0}
        ],
    },
    "Dashboard": {"DashboardBody": '{"widgets": [{"type": "text"}]}'},
    "Model": {"Tags": tags(x="y")},
    "Config": {"Tags": tags(x="y")},
    "Served": {
        "Tags": tags(x="y"),
        "DeploymentConfig": {
            "BlueGreenUpdatePolicy": {
                "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 1}
            }
        },
    },
    "Target": {"MaxCapacity": 6},
    "ScalingPolicy": {
        "TargetTrackingScalingPolicyConfiguration": {
            "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
            "TargetValue": 50,
        }
    },
}  # fmt: skip
"""Properties that an update gives new values to; None takes one away."""
ATTRIBUTES = {
    "Address": "AllocationId",
    "Alarm": "Arn",
    "Either": "Arn",
    "Balancer": "LoadBalancerFullName",
    "Bucket": "RegionalDomainName",
    "Config": "EndpointConfigName",
    "Endpoint": "Id",
    "FlowLog": "Id",
    "Function": "Arn",
    "Gateway": "InternetGatewayId",
    "Group": "GroupId",
    "Instance": "PrivateIp",
    "Key": "KeyId",
    "Logs": "Arn",
    "ManagedPolicy": "PolicyArn",
    "Model": "ModelName",
    "Nat": "NatGatewayId",
    "Profile": "Arn",
    "Project": "Arn",
    "Repository": "RepositoryUri",
    "Role": "RoleId",
    "Rule": "Arn",
    "Served": "EndpointName",
    "Subnet": "AvailabilityZone",
    "Table": "RouteTableId",
    "Target": "Id",
    "Targets": "TargetGroupFullName",
    "Template": "LaunchTemplateId",
    "Topic": "TopicName",
    "Vpc": "DefaultSecurityGroup",
}
"""What GetAtt gives before an update in place, and must give after it."""
NEVER = {
    "AWS::CDK::Metadata": "has nothing to change",
    "AWS::CloudFormation::CustomResource": "see test_custom_resources",
    "AWS::CloudFormation::WaitCondition": "its update is refused: see test_wait_conditions",
    "AWS::CloudFormation::WaitConditionHandle": "has no properties",
}
"""Types without a change in place, each with its reason; beside those all of whose properties are create-only."""


def after(bucket: str, unique: str) -> Resources:
    """The same resources with CHANGES made."""
    made = before(bucket, unique)
    made["OtherKey"] = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": KEY_POLICY, "PendingWindowInDays": 7}}
    for name, changes in CHANGES.items():
        properties = made[name]["Properties"]
        for path, value in changes.items():
            *outer, last = path.split(".")
            place = properties
            for key in outer:
                place = place[key]
            if value is None:
                del place[last]
            else:
                place[last] = value
    return made
