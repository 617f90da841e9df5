"""The number of each job of a map, by the job's id: some 30 bytes for a job, where a dictionary takes 200."""

from array import array

FEW = 1024


class JobNumbers:
    """Open addressing: a slot of `_keys` has the first 16 digits of an id, of which 60 bits are random; that of
    `_numbers` has its number, or 0 when it is free. At most half of the slots are used."""

    def __init__(self) -> None:
        self._used = 0
        self._make(FEW)

    def __len__(self) -> int:
        return self._used

    def get(self, job_id: str) -> int:
        """0 when the job is not known."""
        return self._numbers[self._slot(_key(job_id))]

    def add(self, job_id: str, number: int) -> int:
        """The number under which the job is known: this one, unless it had another before."""
        key = _key(job_id)
        slot = self._slot(key)
        if not self._numbers[slot]:
            self._keys[slot], self._numbers[slot] = key, number
            self._used += 1
            if 2 * self._used > len(self._numbers):
                self._grow()
            return number
        return self._numbers[slot]

    def _slot(self, key: int) -> int:
        keys, numbers, mask = self._keys, self._numbers, len(self._numbers) - 1
        slot = key & mask
        while numbers[slot] and keys[slot] != key:
            slot = slot + 1 & mask
        return slot

    def _make(self, slots: int) -> None:
        self._keys, self._numbers = array("Q", bytes(8 * slots)), array("I", bytes(4 * slots))

    def _grow(self) -> None:
        keys, numbers = self._keys, self._numbers
        self._make(2 * len(numbers))
        for key, number in zip(keys, numbers, strict=True):
            if number:
                slot = self._slot(key)
                self._keys[slot], self._numbers[slot] = key, number


def _key(job_id: str) -> int:
    return int(job_id[:8] + job_id[9:13] + job_id[24:28], 16)
