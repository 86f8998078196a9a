"""The running program: the parts put together, their loops, the command line's commands, and the demo."""
