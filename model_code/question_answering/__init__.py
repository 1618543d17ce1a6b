"""Extractive question answering: compile a model into static shapes, and answer with it."""
