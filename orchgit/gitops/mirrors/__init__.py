"""Each server's bare mirrors of the repositories, and the git objects that servers exchange."""
