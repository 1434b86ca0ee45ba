"""The measures of a reply: what it says on the matter, how it is written, and what a lesson cost it. Pure."""
