"""Getting data sets onto this machine: declared sources, verified downloads, one prepared form on disk."""
