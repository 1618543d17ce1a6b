"""What the demo says about the mode that it runs in."""

from __future__ import annotations

from stand_in.images.readiness import CannotRunImages, require, require_tools


def sentence(mode: str) -> str:
    """The mode, and why it is this one. Raises CannotRunImages when `mode` is images and this machine cannot."""
    if mode == "images":
        require()
        return (
            "images, as asked for: the builds, training and endpoint of sentiment, the builds and hosts of question "
            "answering and the image and endpoint of text encoding run as the templates say, in images that are built "
            "here; the model mirrors and the engine's jobs run in direct mode"
        )
    try:
        require_tools()
    except CannotRunImages:
        return "direct, the default: jobs and servers are processes of this machine"
    return (
        "direct, the default: jobs and servers are processes of this machine. What builds and runs images is "
        "installed, too: make demo MODE=images"
    )
