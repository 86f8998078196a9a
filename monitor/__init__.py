"""specmon: says that, when, why and at what cost speculative decoding stopped paying."""

__version__ = "0.1.0"
