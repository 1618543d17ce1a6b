"""Container images for real on a machine without Docker: buildah builds, podman runs, a registry on loopback keeps."""
