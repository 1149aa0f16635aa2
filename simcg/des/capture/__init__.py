"""The start-up of a captured ladder, shape by shape, with the memory it takes along the way."""
