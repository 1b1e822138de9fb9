"""The scalar language: parsing, differentiation, typing, printing."""
