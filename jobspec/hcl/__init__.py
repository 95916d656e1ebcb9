"""The HCL2 language: lexer, parser, tree and writer.

`parser.parse_body` gives the tree of a file, `parser.parse_expression` that of one expression.
Nothing here knows what a job is.
"""
