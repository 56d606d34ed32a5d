"""The two doors, HTTP and the command line, and the one place where the rooms are joined."""
