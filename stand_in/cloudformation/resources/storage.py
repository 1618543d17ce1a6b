"""S3, ECR and KMS."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.shapes import document, lower_camel, own_tags, pick, tag_map, unless_gone, upper_camel


@register
class Bucket(Resource):
    """A bucket. It must be empty to be deleted, as on AWS."""

    type_name = "AWS::S3::Bucket"
    properties = frozenset(
        {
            "AccessControl",
            "BucketEncryption",
            "BucketName",
            "LifecycleConfiguration",
            "LoggingConfiguration",
            "OwnershipControls",
            "PublicAccessBlockConfiguration",
            "Tags",
            "VersioningConfiguration",
        }
    )
    replace_on = frozenset({"BucketName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("BucketName") or ctx.generate_name(logical_id).lower()[-63:].lstrip("-")
        where = {} if ctx.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": ctx.region}}
        ctx.client("s3").create_bucket(Bucket=name, **where)
        self._configure(ctx, name, props)
        return Created(physical_id=name, attributes=self._attributes(ctx, name))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        self._configure(ctx, physical_id, new)
        s3 = ctx.client("s3")
        if "LifecycleConfiguration" in old and "LifecycleConfiguration" not in new:
            s3.delete_bucket_lifecycle(Bucket=physical_id)
        if "Tags" in old and "Tags" not in new:
            s3.delete_bucket_tagging(Bucket=physical_id)
        return Created(physical_id=physical_id, attributes=self._attributes(ctx, physical_id))

    @staticmethod
    def _attributes(ctx: Context, name: str) -> dict[str, Any]:
        return {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{ctx.region}.amazonaws.com",
        }

    @staticmethod
    def _configure(ctx: Context, name: str, props: Properties) -> None:
        s3 = ctx.client("s3")
        if props.get("AccessControl", "Private") != "Private":
            raise ResourceFailed(f"AccessControl {props['AccessControl']}: the stand-in keeps every bucket private")
        if "BucketEncryption" in props:
            rules = [
                {
                    "ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"],
                    **pick(rule, "BucketKeyEnabled"),
                }
                for rule in props["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            ]
            s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})
        if "VersioningConfiguration" in props:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=props["VersioningConfiguration"])
        if "PublicAccessBlockConfiguration" in props:
            s3.put_public_access_block(
                Bucket=name, PublicAccessBlockConfiguration=props["PublicAccessBlockConfiguration"]
            )
        if "OwnershipControls" in props:
            s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=props["OwnershipControls"])
        if "LifecycleConfiguration" in props:
            rules = [_lifecycle_to_api(rule) for rule in props["LifecycleConfiguration"]["Rules"]]
            s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
        if "LoggingConfiguration" in props:
            logging = props["LoggingConfiguration"]
            s3.put_bucket_logging(
                Bucket=name,
                BucketLoggingStatus={
                    "LoggingEnabled": {
                        "TargetBucket": logging.get("DestinationBucketName", name),
                        "TargetPrefix": logging.get("LogFilePrefix", ""),
                    }
                },
            )
        if props.get("Tags"):
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": props["Tags"]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("s3").delete_bucket(Bucket=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        s3 = ctx.client("s3")

        def ask(call: Any, **arguments: Any) -> dict[str, Any]:
            try:
                return dict(call(Bucket=physical_id, **arguments))
            except ClientError:
                return {}

        encryption = ask(s3.get_bucket_encryption).get("ServerSideEncryptionConfiguration", {"Rules": []})
        return {
            "BucketName": physical_id,
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {
                        "ServerSideEncryptionByDefault": rule["ApplyServerSideEncryptionByDefault"],
                        **pick(rule, "BucketKeyEnabled"),
                    }
                    for rule in encryption["Rules"]
                ]
            },
            "VersioningConfiguration": pick(ask(s3.get_bucket_versioning), "Status"),
            "PublicAccessBlockConfiguration": ask(s3.get_public_access_block).get("PublicAccessBlockConfiguration"),
            "OwnershipControls": ask(s3.get_bucket_ownership_controls).get("OwnershipControls"),
            "LifecycleConfiguration": {
                "Rules": [
                    _lifecycle_from_api(rule) for rule in ask(s3.get_bucket_lifecycle_configuration).get("Rules", ())
                ]
            },
            "LoggingConfiguration": _logging(ask(s3.get_bucket_logging)),
            "Tags": own_tags(ask(s3.get_bucket_tagging).get("TagSet", ())),
        }


def _logging(answer: dict[str, Any]) -> dict[str, Any] | None:
    held = answer.get("LoggingEnabled")
    if held is None:
        return None
    return {"DestinationBucketName": held["TargetBucket"], "LogFilePrefix": held["TargetPrefix"]}


def _lifecycle_to_api(rule: Properties) -> dict[str, Any]:
    made: dict[str, Any] = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    if "Id" in rule:
        made["ID"] = rule["Id"]
    if "ExpirationInDays" in rule:
        made["Expiration"] = {"Days": rule["ExpirationInDays"]}
    if "ExpiredObjectDeleteMarker" in rule:
        made["Expiration"] = {"ExpiredObjectDeleteMarker": rule["ExpiredObjectDeleteMarker"]}
    if "NoncurrentVersionExpiration" in rule:
        made["NoncurrentVersionExpiration"] = rule["NoncurrentVersionExpiration"]
    if "AbortIncompleteMultipartUpload" in rule:
        made["AbortIncompleteMultipartUpload"] = rule["AbortIncompleteMultipartUpload"]
    unknown = set(rule) - {
        "AbortIncompleteMultipartUpload",
        "ExpirationInDays",
        "ExpiredObjectDeleteMarker",
        "Id",
        "NoncurrentVersionExpiration",
        "Prefix",
        "Status",
    }
    if unknown:
        raise ResourceFailed(f"the stand-in's AWS::S3::Bucket does not know {sorted(unknown)} of a lifecycle rule")
    return made


def _lifecycle_from_api(rule: dict[str, Any]) -> Properties:
    found: Properties = {"Status": rule["Status"]}
    if rule.get("ID"):
        found["Id"] = rule["ID"]
    if rule.get("Filter", {}).get("Prefix"):
        found["Prefix"] = rule["Filter"]["Prefix"]
    expiration = rule.get("Expiration", {})
    if "Days" in expiration:
        found["ExpirationInDays"] = expiration["Days"]
    if expiration.get("ExpiredObjectDeleteMarker"):
        found["ExpiredObjectDeleteMarker"] = True
    return found | pick(rule, "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")


@register
class BucketPolicy(Resource):
    """Who may do what with a bucket."""

    type_name = "AWS::S3::BucketPolicy"
    properties = frozenset({"Bucket", "PolicyDocument"})
    replace_on = frozenset({"Bucket"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ctx.client("s3").put_bucket_policy(Bucket=props["Bucket"], Policy=document(props["PolicyDocument"]))
        return Created(physical_id=props["Bucket"])

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        return self.create(ctx, "", new)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("s3").delete_bucket_policy(Bucket=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        policy = ctx.client("s3").get_bucket_policy(Bucket=physical_id)["Policy"]
        return {"Bucket": physical_id, "PolicyDocument": json.loads(policy)}


@register
class Repository(Resource):
    """An image repository. With images in it, it goes only when EmptyOnDelete is set."""

    type_name = "AWS::ECR::Repository"
    properties = frozenset(
        {
            "EmptyOnDelete",
            "EncryptionConfiguration",
            "ImageScanningConfiguration",
            "ImageTagMutability",
            "LifecyclePolicy",
            "RepositoryName",
            "RepositoryPolicyText",
            "Tags",
        }
    )
    replace_on = frozenset({"EncryptionConfiguration", "RepositoryName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("RepositoryName") or ctx.generate_name(logical_id).lower()
        arguments = pick(props, "EncryptionConfiguration", "ImageScanningConfiguration", "ImageTagMutability")
        made = ctx.client("ecr").create_repository(
            repositoryName=name, tags=props.get("Tags", []), **lower_camel(arguments)
        )["repository"]
        self._configure(ctx, name, props)
        return Created(
            physical_id=name, attributes={"Arn": made["repositoryArn"], "RepositoryUri": made["repositoryUri"]}
        )

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ecr = ctx.client("ecr")
        if "ImageScanningConfiguration" in new:
            ecr.put_image_scanning_configuration(
                repositoryName=physical_id,
                imageScanningConfiguration=lower_camel(new["ImageScanningConfiguration"]),
            )
        if "ImageTagMutability" in new:
            ecr.put_image_tag_mutability(repositoryName=physical_id, imageTagMutability=new["ImageTagMutability"])
        self._configure(ctx, physical_id, new)
        held = ecr.describe_repositories(repositoryNames=[physical_id])["repositories"][0]
        ecr.tag_resource(resourceArn=held["repositoryArn"], tags=new.get("Tags", []))
        return Created(
            physical_id=physical_id,
            attributes={"Arn": held["repositoryArn"], "RepositoryUri": held["repositoryUri"]},
        )

    @staticmethod
    def _configure(ctx: Context, name: str, props: Properties) -> None:
        ecr = ctx.client("ecr")
        if "LifecyclePolicy" in props:
            ecr.put_lifecycle_policy(
                repositoryName=name, lifecyclePolicyText=props["LifecyclePolicy"]["LifecyclePolicyText"]
            )
        if "RepositoryPolicyText" in props:
            ecr.set_repository_policy(repositoryName=name, policyText=document(props["RepositoryPolicyText"]))

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        ecr = ctx.client("ecr")
        unless_gone(lambda: ecr.delete_repository(repositoryName=physical_id, force=bool(props.get("EmptyOnDelete"))))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        ecr = ctx.client("ecr")
        held = ecr.describe_repositories(repositoryNames=[physical_id])["repositories"][0]
        found: Properties = {
            "RepositoryName": held["repositoryName"],
            "ImageTagMutability": held["imageTagMutability"],
            "ImageScanningConfiguration": upper_camel(held["imageScanningConfiguration"]),
            "EncryptionConfiguration": upper_camel(held["encryptionConfiguration"]),
            "Tags": own_tags(ecr.list_tags_for_resource(resourceArn=held["repositoryArn"])["tags"]),
        }
        if "LifecyclePolicy" in props:
            text = ecr.get_lifecycle_policy(repositoryName=physical_id)["lifecyclePolicyText"]
            found["LifecyclePolicy"] = {"LifecyclePolicyText": text}
        if "RepositoryPolicyText" in props:
            found["RepositoryPolicyText"] = json.loads(
                ecr.get_repository_policy(repositoryName=physical_id)["policyText"]
            )
        return found


@register
class Key(Resource):
    """A customer key; deleting it schedules its end."""

    type_name = "AWS::KMS::Key"
    properties = frozenset(
        {"Description", "EnableKeyRotation", "KeyPolicy", "PendingWindowInDays", "RotationPeriodInDays", "Tags"}
    )

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        kms = ctx.client("kms")
        made = kms.create_key(
            Policy=document(props["KeyPolicy"]),
            Tags=[{"TagKey": key, "TagValue": value} for key, value in tag_map(props).items()],
            **pick(props, "Description"),
        )["KeyMetadata"]
        self._rotate(ctx, made["KeyId"], props)
        return Created(physical_id=made["KeyId"], attributes={"Arn": made["Arn"], "KeyId": made["KeyId"]})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        kms = ctx.client("kms")
        kms.put_key_policy(KeyId=physical_id, PolicyName="default", Policy=document(new["KeyPolicy"]))
        kms.update_key_description(KeyId=physical_id, Description=new.get("Description", ""))
        self._rotate(ctx, physical_id, new)
        kms.untag_resource(KeyId=physical_id, TagKeys=list(tag_map(old)))
        kms.tag_resource(
            KeyId=physical_id, Tags=[{"TagKey": key, "TagValue": value} for key, value in tag_map(new).items()]
        )
        arn = kms.describe_key(KeyId=physical_id)["KeyMetadata"]["Arn"]
        return Created(physical_id=physical_id, attributes={"Arn": arn, "KeyId": physical_id})

    @staticmethod
    def _rotate(ctx: Context, key: str, props: Properties) -> None:
        if str(props.get("EnableKeyRotation", "")).lower() == "true":
            ctx.client("kms").enable_key_rotation(KeyId=key, **pick(props, "RotationPeriodInDays"))

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        kms = ctx.client("kms")
        days = int(props.get("PendingWindowInDays", 30))
        unless_gone(lambda: kms.schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        kms = ctx.client("kms")
        return {
            "Description": kms.describe_key(KeyId=physical_id)["KeyMetadata"]["Description"],
            "KeyPolicy": json.loads(kms.get_key_policy(KeyId=physical_id, PolicyName="default")["Policy"]),
            "EnableKeyRotation": kms.get_key_rotation_status(KeyId=physical_id)["KeyRotationEnabled"],
            "Tags": own_tags(
                {"Key": tag["TagKey"], "Value": tag["TagValue"]}
                for tag in kms.list_resource_tags(KeyId=physical_id)["Tags"]
            ),
        }


@register
class Alias(Resource):
    """A name for a key."""

    type_name = "AWS::KMS::Alias"
    properties = frozenset({"AliasName", "TargetKeyId"})
    replace_on = frozenset({"AliasName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ctx.client("kms").create_alias(AliasName=props["AliasName"], TargetKeyId=_key_id(props["TargetKeyId"]))
        return Created(physical_id=props["AliasName"])

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ctx.client("kms").update_alias(AliasName=physical_id, TargetKeyId=_key_id(new["TargetKeyId"]))
        return Created(physical_id=physical_id)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("kms").delete_alias(AliasName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = next(item for item in ctx.client("kms").list_aliases()["Aliases"] if item["AliasName"] == physical_id)
        wanted = props["TargetKeyId"]
        target = held["TargetKeyId"]
        return {"AliasName": held["AliasName"], "TargetKeyId": wanted if _key_id(wanted) == target else target}


def _key_id(arn_or_id: str) -> str:
    return arn_or_id.rpartition("/")[2]
