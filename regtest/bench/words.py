"""words - benchmark: Python as a C program. Counts words, joins, sorts and groups them; reads the file named.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys


def main() -> None:
    count: dict[str, int] = {}
    by_length: dict[int, list[str]] = {}
    with open(sys.argv[1], encoding="ascii") as lines:
        for line in lines:
            for word in line.split():
                count[word] = count.get(word, 0) + 1
    for word in sorted(count):
        by_length.setdefault(len(word), []).append(word.upper())
    print(len(count), sum(n * len(w) for w, n in count.items()))
    print({length: (len(words), "".join(words)[:20]) for length, words in sorted(by_length.items())})


main()
