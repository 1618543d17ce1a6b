"""The scope that carries a job's hash, and what may not leak into it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import jsii
from aws_cdk import Aspects, IAspect, Stack, TagManager, Tags
from constructs import Construct, IConstruct

from torchlift.content_hash import HASH_LENGTH, digest

TAG_PREFIX = "torchlift:"


def job_scope(parent: Construct, *, job: str, hash: str, workload: str, details: Mapping[str, object]) -> Construct:
    """Return the construct under which everything of one job lies, so that each logical id carries its hash.

    The content hash names the result. The resources depend on more than the result does (instance type, purchase
    option, build size …): a digest of those details is part of the path too. So a change of the details makes new
    resources, which find the result in place and start nothing, and never edits the ones of a finished job.

    :param details: every property that goes into the job's resources, tokens included
    :raises ValueError: ``hash`` is not 16 hexadecimal digits
    """
    if not re.fullmatch(rf"[0-9a-f]{{{HASH_LENGTH}}}", hash):
        raise ValueError(f"'{hash}': a job's hash has {HASH_LENGTH} hexadecimal digits")
    stack = Stack.of(parent)
    fingerprint = digest({"job": job, "workload": workload, "details": stack.resolve(dict(details))})[:8]
    scope = Construct(Construct(parent, hash), fingerprint)
    Tags.of(scope).add(f"{TAG_PREFIX}job", job)
    Tags.of(scope).add(f"{TAG_PREFIX}workload", workload)
    # After the tags of the app and the stack (priority 200 or 500): a change of owner must not touch a job.
    Aspects.of(scope).add(_OnlyOurTags(), priority=700)
    return scope


def suffix(scope: Construct) -> str:
    """Return ``<hash>-<details>`` of a scope made by :func:`job_scope`, for physical names."""
    path = scope.node.path.split("/")
    return "-".join(path[-2:])


@jsii.implements(IAspect)
class _OnlyOurTags:
    """Keeps tags that others set for the whole app (owner, cost centre …) out of a job's template text.

    CloudFormation puts stack tags on these resources all the same.
    """

    def visit(self, node: IConstruct) -> None:
        manager = TagManager.of(node)
        if manager is None:
            return
        for name in manager.tag_values():
            if not name.startswith(TAG_PREFIX):
                manager.remove_tag(name, 1_000)
