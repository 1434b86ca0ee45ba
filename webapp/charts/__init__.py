"""Draw charts on the server as SVG, each with the sentence that says what it shows.

`frame` lays out and labels all of them; a run's are a `picture`. A module a subject: `updates`, `curves`, `accuracy`,
`shares`, `course`, `heat`; a partial a kind in `templates/charts/`. What has nothing to draw is None, and the page says
so in words.
"""
