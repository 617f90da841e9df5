"""The command line `semantica`: one file per command, named as the command, on top of `client`."""
