"""Settings: from files, variables and flags to the agent that they describe."""
