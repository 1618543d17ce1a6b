"""Composition only: settings, stacks, tags, checks."""
