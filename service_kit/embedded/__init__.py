"""The embedded deployment: Postgres and Valkey from wheels and the five services, on one machine.

``home`` keeps the data directory and its rules, ``keys`` the secrets in it, ``processes`` a family of
child processes, ``postgres`` and ``valkey`` the launchers, ``services`` what each service is told, and
``supervisor`` ties them together as ``grove up``. Everything here is synchronous and single-threaded:
a child's death signal is bound to the thread that started it.
"""
