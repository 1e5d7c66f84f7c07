"""Keeping a process apart from everything it has no business with.

``linux`` is the kernel's interface. ``launcher`` is the small process that stands between a service and one command
of somebody else's: it puts up the walls, starts the command, and ends everything that came of it. ``order`` is what
it is told, ``tree`` the file system it builds, ``sweep`` how it ends what no namespace ends, ``probe`` what of all
this the platform lets us have.
"""
