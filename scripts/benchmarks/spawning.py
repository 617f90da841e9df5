"""The floor of a command: `subprocess.Popen(ARGV).wait()`, COUNT times in THREADS threads; prints the seconds it took.
A new process for each sample, so that it is as small as an interpreter can be."""

import subprocess
import sys
import threading
import time


def one_after_the_other(argv: list[str], count: int, failed: list[int]) -> None:
    for _ in range(count):
        code = subprocess.Popen(argv).wait()
        if code:
            failed.append(code)


def main(threads: int, count: int, argv: list[str]) -> int:
    share, rest = divmod(count, threads)
    failed: list[int] = []
    running = [
        threading.Thread(target=one_after_the_other, args=(argv, share + (number < rest), failed))
        for number in range(threads)
    ]
    start = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    sys.stdout.write(f"{time.perf_counter() - start}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
