"""S3: buckets and their policies."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.shapes import document, own_tags, pick, unless_gone


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
        ctx.made(name)
        self._configure(ctx, name, props)
        return Created(physical_id=name, attributes=self._attributes(ctx, name))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        self._configure(ctx, physical_id, new)
        s3 = ctx.client("s3")
        takes_back = {
            "BucketEncryption": s3.delete_bucket_encryption,
            "LifecycleConfiguration": s3.delete_bucket_lifecycle,
            "OwnershipControls": s3.delete_bucket_ownership_controls,
            "PublicAccessBlockConfiguration": s3.delete_public_access_block,
            "Tags": s3.delete_bucket_tagging,
        }
        for name in set(old) - set(new):
            if name in takes_back:
                takes_back[name](Bucket=physical_id)
        if "VersioningConfiguration" in old and "VersioningConfiguration" not in new:
            s3.put_bucket_versioning(Bucket=physical_id, VersioningConfiguration={"Status": "Suspended"})
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
            "AccessControl": "Private",  # any other was refused
            "VersioningConfiguration": pick(ask(s3.get_bucket_versioning), "Status"),
            "PublicAccessBlockConfiguration": ask(s3.get_public_access_block).get("PublicAccessBlockConfiguration"),
            "OwnershipControls": ask(s3.get_bucket_ownership_controls).get("OwnershipControls"),
            "LifecycleConfiguration": {
                "Rules": [
                    _lifecycle_from_api(rule) for rule in ask(s3.get_bucket_lifecycle_configuration).get("Rules", ())
                ]
            },
            "Tags": own_tags(ask(s3.get_bucket_tagging).get("TagSet", ())),
        }


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
