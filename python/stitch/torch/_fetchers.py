"""Threads that fetch plans aside.

Not those of concurrent.futures, which a program that ends waits for, with all that they have still to do: for minutes
where a server is slow, or stopped.
"""

import logging
import queue
import threading
import typing

from .. import _native


class Fetchers:
    """Up to `count` threads, which do what they are given in its order. Safe to use from several threads."""

    def __init__(self, count: int):
        self._count = count
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._ended = False

    def submit(self, function: typing.Callable, *arguments) -> None:
        """Errors: RuntimeError where no thread can be started, or the program ends."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the program ends")
            if len(self._threads) < self._count:
                self._start(bool(self._threads))
            self._queue.put((function, arguments))

    def end(self) -> None:
        """Before the interpreter ends: what has not begun does not begin, calls to servers that are under way are
        ended, and what is left to do without them is waited for, since no thread may come back to Python later."""
        with self._lock:
            self._ended = True
            threads = list(self._threads)
        if not threads:
            return
        _native.end_calls()
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            thread.join()

    def _start(self, is_more: bool) -> None:
        thread = threading.Thread(target=self._run, name=f"stitch-fetch-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not is_more:
                raise
            return  # the others do it
        self._threads.append(thread)

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None or self._ended:
                return
            function, arguments = work
            try:
                function(*arguments)
            except Exception:  # of a handler of logs, say: the thread has more to do
                logging.getLogger(__name__).exception("what a plan was fetched for failed")
