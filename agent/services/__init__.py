"""The services that tasks of this node offer, and the checks of their health."""
