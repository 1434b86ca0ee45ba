"""The world `harbor`: terminal tasks in folders of Harbor's form, terminal-bench's or SETA's, played in sandboxes."""
