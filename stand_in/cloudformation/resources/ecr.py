"""ECR: repositories."""

from __future__ import annotations

import json

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, lower_camel, own_tags, pick, tag_changes, unless_gone, upper_camel


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
        ctx.made(name)
        self._configure(ctx, name, props)
        return Created(
            physical_id=name, attributes={"Arn": made["repositoryArn"], "RepositoryUri": made["repositoryUri"]}
        )

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ecr = ctx.client("ecr")
        ecr.put_image_scanning_configuration(
            repositoryName=physical_id,
            imageScanningConfiguration=lower_camel(new.get("ImageScanningConfiguration", {"ScanOnPush": False})),
        )
        ecr.put_image_tag_mutability(
            repositoryName=physical_id, imageTagMutability=new.get("ImageTagMutability", "MUTABLE")
        )
        self._configure(ctx, physical_id, new)
        if "LifecyclePolicy" in old and "LifecyclePolicy" not in new:
            ecr.delete_lifecycle_policy(repositoryName=physical_id)
        if "RepositoryPolicyText" in old and "RepositoryPolicyText" not in new:
            ecr.delete_repository_policy(repositoryName=physical_id)
        held = ecr.describe_repositories(repositoryNames=[physical_id])["repositories"][0]
        gone, tags = tag_changes(old, new)
        ecr.untag_resource(resourceArn=held["repositoryArn"], tagKeys=gone)
        ecr.tag_resource(resourceArn=held["repositoryArn"], tags=tags)
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
