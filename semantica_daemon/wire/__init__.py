"""The wire: params and results of every method, one file per family, and the method table. Imports no other package of
ours."""
