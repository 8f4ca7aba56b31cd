"""``python -m brida``: the command line."""

from brida.cli import main

main()
