"""Benchmarks: ``make bench`` or ``python -m benchmarks [NAME ...]``.

Each prints ratios against something named; none is a test, because machines differ.
"""
