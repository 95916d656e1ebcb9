"""What this node is: attributes under Nomad's names, and resources that work may be placed on.

`node.fingerprint_node` reads files of the kernel and returns at once; `drivers.DriverWatch` asks
the drivers, which may take their time, and goes on asking.
"""
