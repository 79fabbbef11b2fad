"""The live page of a stream: what a browser shows while it runs.

It decides nothing. A host has a `board` (how the stream is, its last windows, what happened); a `feed` looks at it once a
second and says what is new; a `server` in a thread of its own sends that to browsers as server-sent events. `static/` is the page
itself, `vendor/` the library that draws its charts. Starlette and uvicorn are imported only when a page is asked for.
"""

from headwater.page.settings import Page

__all__ = ["Page"]
