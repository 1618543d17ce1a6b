"""Metrics of an Inferentia host's cores and servers for CloudWatch. Standard library only."""
