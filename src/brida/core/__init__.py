"""The loop as a pure machine: what is known of a run, what may happen next, what stops it. No I/O."""
