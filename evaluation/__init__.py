"""How often the embedded model asks for the right calls: ``make eval-embedded``.

The same tasks in three languages (``tasks.toml``) over a small sample project (``project.toml``), each
run by a real agent with its usual limits and policy. It measures and judges nothing; the figures are in
``docs/embedded.md``.
"""
