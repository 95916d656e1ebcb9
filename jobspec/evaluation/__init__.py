"""The evaluation of HCL expressions: values, variables, locals, and what one file may cost."""
