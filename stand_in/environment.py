"""The environment that everything around the stand-in runs in: nothing of the caller's AWS set-up gets through."""

from __future__ import annotations

import os
from pathlib import Path

ACCOUNT = "123456789012"
"""The account that moto answers for."""

KEPT = ("LANG", "LC_ALL", "TERM", "COLUMNS", "TMPDIR", "TZ", "SSL_CERT_FILE")
"""Variables of the caller that are passed on. A list of what is kept, not of what is dropped: AWS clients read many
variables (credentials, profiles, endpoints per service, proxies, config files) and more may come."""


ROLE_MARK = "role."
"""Before a role's name, in the access key id of what runs with the role: so its calls can be told."""
NOBODY = "nobody"
"""In the place of a role, of a program that has none: nothing is allowed to it, so each of its calls is refused."""
ADMINISTRATOR = "testing"
"""Access key id of whoever deploys and operates, and of the stand-in itself: all is allowed to them."""


def access_key_of_role(role: str) -> str:
    """The access key id of a role, by name or ARN; the administrator's for an empty one."""
    name = role.rpartition("/")[2]
    return f"{ROLE_MARK}{name}" if name else ADMINISTRATOR


def role_of_access_key(access_key: str) -> str:
    """The name of the role that a call was made with; empty when there was none."""
    return access_key.removeprefix(ROLE_MARK) if access_key.startswith(ROLE_MARK) else ""


def isolated_environment(*, base_url: str, region: str, root: Path, home: Path, role: str = "") -> dict[str, str]:
    """Variables for a child process that must reach the stand-in at `base_url` and nothing else.

    `home` is an empty folder that takes the place of the home directory: the CDK CLI reads `~/.cdk.json`, AWS and hub
    clients have files there too. `role` is the role, by name or ARN, that its calls are made with.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {
        "PATH": os.pathsep.join(
            [
                str(root / ".venv" / "bin"),
                str(root / "node_modules" / ".bin"),
                "/usr/local/bin",
                "/usr/bin",
                "/bin",
            ]
        ),
        "AWS_ENDPOINT_URL": base_url,
        "AWS_ENDPOINT_URL_S3": base_url,
        "AWS_ACCESS_KEY_ID": access_key_of_role(role),
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(home / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "aws-credentials"),
        "HOME": str(home),
        "CDK_HOME": str(home / "cdk"),
        # jsii unpacks its packages there: seconds, once a checkout instead of once a home.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(root / "build" / "jsii"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "NO_COLOR": "1",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(home / "hub"),
        "NO_PROXY": "127.0.0.1,localhost",
        # Jobs and servers share this machine's cores: threads that wait by spinning take them from each other.
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def scrub_process_environment() -> None:
    """Take every AWS variable and every proxy out of this process, for the clients that it makes itself."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
