"""A small model server: one process per NeuronCore, dynamic batching into compiled shapes."""
