"""The engine of pipescope for one minor version of torch. pipescope imports it."""
