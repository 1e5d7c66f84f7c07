"""The container a query runs in: a process that holds the rows of one memory and can do nothing but read them.

``container`` is what an adapter uses. ``keeper`` is the process that forks one child for each query, ``walls`` what
a child gives up before it looks at the statement, ``statement`` the SQLite in it, ``messages`` what travels between.
"""
