"""Bytes by key: one port, over a directory or an S3-compatible store."""
