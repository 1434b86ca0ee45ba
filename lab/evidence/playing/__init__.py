"""The playing of a run: private Talkbacks, the traffic of every arm, the probes, and the journal of what was done."""
