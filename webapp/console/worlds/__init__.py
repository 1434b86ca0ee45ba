"""Show what agents played: worlds, tasks, groups of attempts, and each attempt step by step.

A person sees their own; those who run this Talkback see all, and no word of another person's that is off the record.
"""
