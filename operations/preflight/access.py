"""What question answering is given by others: a certificate and a secret, which must be there before a deploy."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import error_code
from operations.preflight.row import Row

OWN_KEY = "alias/aws/secretsmanager"
"""What encrypts a secret that names no key; everybody of the account who may read the secret may use it."""


def certificate(account: Account) -> Iterator[Row]:
    """The certificate of the load balancer: issued, or a listener cannot be made with it."""
    section = account.settings.question_answering
    if section is None or section.certificate_arn is None:
        return
    name, arn = "certificate (question_answering)", section.certificate_arn
    try:
        found = account.client("acm").describe_certificate(CertificateArn=arn)["Certificate"]
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
        yield Row(name=name, level="fail", found=f"{arn} does not exist", todo="correct certificate_arn")
        return
    if found["Status"] != "ISSUED":
        todo = "finish its validation in ACM, or name another"
        yield Row(name=name, level="fail", found=f"{found['DomainName']} is {found['Status']}", todo=todo)
    else:
        yield Row(name=name, level="pass", found=f"{found['DomainName']}; clients must call the fleet by that name")


def secret(account: Account) -> Iterator[Row]:
    """The secret with the token: without it no host gets ready."""
    section = account.settings.question_answering
    if section is None or section.token_secret_arn is None:
        return
    name, arn = "token (question_answering)", section.token_secret_arn
    try:
        found = account.client("secretsmanager").describe_secret(SecretId=arn)
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
        yield Row(name=name, level="fail", found=f"{arn} does not exist", todo="make it, or correct token_secret_arn")
        return
    if found.get("DeletedDate"):
        yield Row(name=name, level="fail", found=f"{found['Name']} is being deleted", todo="restore it")
    elif not any("AWSCURRENT" in stages for stages in found.get("VersionIdsToStages", {}).values()):
        yield Row(name=name, level="fail", found=f"{found['Name']} has no value", todo="put the token into it, as text")
    elif (found.get("KmsKeyId") or OWN_KEY).rpartition(":")[2] != OWN_KEY:
        # The hosts' role may not use it, and only its owner can say that they may.
        yield Row(
            name=name,
            level="fail",
            found=f"{found['Name']} is encrypted by {found['KmsKeyId']}, which the hosts may not use",
            todo=f"encrypt it by the account's key for secrets ({OWN_KEY})",
        )
    else:
        yield Row(name=name, level="pass", found=found["Name"])
