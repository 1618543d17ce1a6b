"""Amazon machine images: what must be known of one before an instance starts from it."""

from __future__ import annotations


def root_device(ami_parameter: str | None) -> str:
    """The device name of the root volume of an image, which a launch must name to give it a size.

    `/dev/sda1` is Ubuntu's, `/dev/xvda` Amazon Linux's. A pinned image (no parameter) is taken for Ubuntu's, as the
    images of all shipped deployments are; `torchlift preflight` compares it with the image.
    """
    return "/dev/sda1" if ami_parameter is None or "ubuntu" in ami_parameter else "/dev/xvda"
