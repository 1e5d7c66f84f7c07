"""The ``grove`` command."""
