#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs what documents say: run.py BUILD_DIR FILE.md..

In a document a fenced block `LANGUAGE NAME` is a file of that name, and a block `console` holds
commands behind `$ ` with their output, in which `...` stands for anything. Blocks of a document
share an empty folder and see the installed command, headers and library.
"""
import os
import re
import subprocess
import sys
import tempfile


def blocks(path):
    """(line, info, text) of each fenced block."""
    start, info, lines = 0, "", []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.startswith("```"):
                lines.append(line)
            elif start == 0:
                start, info, lines = number, line[3:].strip(), []
            else:
                yield start, info, "".join(lines)
                start = 0
    if start != 0:
        raise SystemExit("%s:%d: the block does not end" % (path, start))


def commands(text):
    """(command, wanted output) of a console block."""
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    for part in parts:
        command, _, wanted = part.partition("\n")
        while command.endswith("\\"):
            more, _, wanted = wanted.partition("\n")
            command = command[:-1] + more
        yield command, wanted


def matches(wanted, actual):
    pattern = ".*".join(re.escape(piece) for piece in wanted.split("..."))
    return re.fullmatch(pattern, actual, flags=re.S) is not None


def run_document(path, environment):
    bad = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        for line, info, text in blocks(path):
            words = info.split()
            if len(words) == 2:
                with open(os.path.join(folder, words[1]), "w", encoding="utf-8") as f:
                    f.write(text)
            if words[:1] != ["console"]:
                continue
            for command, wanted in commands(text):
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      stdin=subprocess.DEVNULL, text=True, check=False)
                ran += 1
                if not matches(wanted, done.stdout):
                    bad += 1
                    print("%s:%d: $ %s\n--- written\n%s--- is\n%s" %
                          (path, line, command, wanted, done.stdout))
    return bad, ran


def main():
    build, documents = os.path.abspath(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True,
                       stdout=subprocess.DEVNULL)
        libraries = [root for root, _, files in os.walk(prefix) if "libproem.so" in files]
        environment = dict(os.environ, LC_ALL="C", HOME=prefix,
                           PATH=os.path.join(prefix, "bin") + os.pathsep + os.environ["PATH"],
                           LD_LIBRARY_PATH=libraries[0],
                           PKG_CONFIG_PATH=os.path.join(libraries[0], "pkgconfig"),
                           PROEM_CACHE_DIR=os.path.join(build, "docs-cache"))
        for name in ("CC", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        bad = ran = 0
        for path in documents:
            failed, count = run_document(path, environment)
            bad, ran = bad + failed, ran + count
    print("%d commands, %d differ" % (ran, bad))
    return 1 if bad > 0 or ran == 0 else 0


sys.exit(main())
