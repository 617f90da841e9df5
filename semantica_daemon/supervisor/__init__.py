"""Who minds the children: a small process of its own, standard library only, that starts and ends what jobs run."""
