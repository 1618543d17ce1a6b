"""How the end of a job reaches the wait condition of its stack."""

from __future__ import annotations

from torchlift.handlers._shared.cfn_response import put_json

MAX_REASON_BYTES = 1000


def signal(handle: str, *, success: bool, reason: str, unique_id: str) -> None:
    """Report a job's end to a wait handle.

    :param handle: the handle's presigned URL
    :param reason: cut to 1000 bytes: what failed, where, and where its log is
    :param unique_id: the same for every report about one job: a repeated report changes nothing
    :raises OSError: the report could not be delivered
    """
    short = reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
    status = "SUCCESS" if success else "FAILURE"
    print(f"signal {status}: {short}")
    put_json(handle, {"Status": status, "Reason": short, "UniqueId": unique_id, "Data": ""})
