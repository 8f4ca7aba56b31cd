"""Where the events of runs are kept, so that a run outlives its process."""
