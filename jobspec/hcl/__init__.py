"""The HCL2 language: lexer, parser and tree of our own; python-hcl2 behind `second_reader`.

`parser.parse_body` gives the tree of a file, `parser.parse_expression` that of one expression.
Nothing here knows what a job is.
"""
