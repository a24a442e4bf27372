import tempfile
from pathlib import Path

from queuelib import LifoDiskQueue

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "queue")
    queue = LifoDiskQueue(path)
    queue.push(b"a request")
    queue.push(b"another request")
    queue.close()  # the crawl is stopped
    LifoDiskQueue(path).pop()  # it is resumed, and killed
    queue = LifoDiskQueue(path)  # it is resumed again
    queue.pop()
    try:
        print("after the last one:", queue.pop())
    except OSError as error:
        print("after the last one:", error)
