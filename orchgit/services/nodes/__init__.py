"""What is done to nodes: registering, status, draining, pools."""
