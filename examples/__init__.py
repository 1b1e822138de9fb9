"""Programs to copy from, with a picture each: ``python -m examples``.

============ =================================================================
`gallery`    the programs; each stands alone and is a page of the documentation
`programs`   a program's constants, and how it runs with others
`__main__`   one command line and one progress bar for all of them
============ =================================================================
"""
