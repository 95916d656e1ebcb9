"""Access control as values: policy texts become rules, rules become rights. Pure."""
