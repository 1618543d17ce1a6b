"""What the demo says about the mode that it runs in."""

from __future__ import annotations

from stand_in.images.readiness import CannotRunImages, require, require_tools


def sentence(mode: str) -> str:
    """The mode, and why it is this one. Raises CannotRunImages when `mode` is images and this machine cannot."""
    if mode == "images":
        require()
        return (
            "images, as asked for: builds, job instances, hosts and endpoints of the three workloads run as the "
            "templates say, in images that are built here"
        )
    try:
        require_tools()
    except CannotRunImages:
        return "direct, the default: jobs and servers are processes of this machine"
    return (
        "direct, the default: jobs and servers are processes of this machine. What builds and runs images is "
        "installed, too: make demo MODE=images"
    )
