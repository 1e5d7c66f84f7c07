"""Where a turn's command runs: ``sandbox`` starts one behind the walls of ``service_kit.isolation``, ``running`` is it."""
