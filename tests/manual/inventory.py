#!/usr/bin/env python3
"""Which opcodes some test computes the result of: tests/manual/inventory.py [PUBLIC.json]

Names count with E32, E64, DPP and VOPD forms merged, as the rows of tools/vgpu/isa/ops.def are. A
test that names an opcode (after the preprocessor) counts for it. Prints the table of docs/fidelity.md
and the opcodes that none names; exit status 1 if there are any.
"""
import glob
import json
import re
import subprocess
import sys

OPS = {}
with open("tools/vgpu/isa/ops.def", encoding="utf-8") as f:
    for line in f:
        m = re.match(r"OP\((\w+), (\w+), \w+, (.*)\)", line)
        if m:
            OPS[m.group(1)] = (m.group(2), "OPF_STOP" in m.group(3))
LIVE = {n for n, (_, stop) in OPS.items() if not stop}


def public(path):
    with open(path, encoding="utf-8") as f:
        names = {o.split(":")[1] for v in json.load(f)["vectors"] for o in v["ops"]}
    return {re.sub(r"_E(32|64)$", "", n).replace("V_DUAL_", "V_") for n in names} & LIVE


def manual():
    with open("tests/data/manual/alu.json", encoding="utf-8") as f:
        return {w[1].split()[0].upper() for v in json.load(f)["vectors"] for w in v["what"]} & LIVE


def own_tests():
    found = set()
    for path in glob.glob("tests/vgpu_*.c"):
        if "decode" in path:
            continue
        text = subprocess.run(["clang-19", "-E", "-D_GNU_SOURCE", "-I.", "-Itools/vgpu", "-march=x86-64-v3", path],
                              capture_output=True, text=True, check=True).stdout
        here = ""
        for line in text.split("\n"):
            m = re.match(r'# \d+ "([^"]+)"', line)
            if m:
                here = m.group(1)
            elif here.startswith("tests/"):
                found |= set(re.findall(r"\b(?:ISA_|sem_)([A-Z][A-Z0-9_]+)\b", line))
    return found & LIVE


def programs():
    """The programs that run interpreted against compiled."""
    found = set()
    for path in glob.glob("tests/jit_kernels*.s"):
        with open(path, encoding="utf-8") as f:
            for w in re.findall(r"\b(?:v|s|ds|global|flat|scratch|buffer)_\w+", f.read()):
                found.add(re.sub(r"_(e32|e64|dpp|e64_dpp)$", "", w).upper().replace("V_DUAL_", "V_"))
    return found & LIVE


def main():
    sets = {"vectors from the pseudocode": manual(), "own tests": own_tests(), "compiled programs": programs()}
    if len(sys.argv) > 1:
        sets["public vectors"] = public(sys.argv[1])
    print("%d names, %d decode only, %d have a meaning" % (len(OPS), len(OPS) - len(LIVE), len(LIVE)))
    for what, s in sets.items():
        print("%s: %d" % (what, len(s)))
    left = sorted(LIVE - set().union(*sets.values()))
    print("in none: %d %s" % (len(left), " ".join(left)))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
