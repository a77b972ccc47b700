"""Random number operators."""

from .kernel import multinomial, normal, threefry_generate, threefry_key, threefry_split, uniform
