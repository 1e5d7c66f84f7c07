"""Agents that are programs of their own: which there are, and where an installed one lies.

``locks/NAME`` holds each one's ``package.json`` and ``package-lock.json``: its version, and the digest of every package.
"""
