"""The world `repo`: bugs in repositories, in SWE-bench's form, mended in a shell and scored by hidden tests."""
