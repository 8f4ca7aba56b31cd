"""What the harness costs, beside a plain loop on the SDK and the SDK's own ``tool_runner``.

``python -m bench`` runs all of them against one server that answers at once, in a process of its own,
and prints one table. It asserts nothing: a bound that is not met says FAIL, and the exit code stays 0.
"""
