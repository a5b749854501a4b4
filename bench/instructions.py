"""Counts the instructions that each case of bench_instructions.c executes for an element, under qemu-user: Keel for ARM, plain C for ARM
without vectors of the compiler's and with -O3, and Keel for x86-64 with AVX2. Prints a table.

    tools/cross.sh aarch64 build; tools/build.sh release bench_instructions
    python3 bench/instructions.py [CASE ...]

The count is that of 9 runs less that of one, divided by 8. Ratios are those of Keel for ARM to plain C for ARM."""

import os
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
plugin = root + "/build/aarch64/instructions.so"
arm = ["qemu-aarch64", "-L", root + "/build/aarch64-root"], root + "/build/aarch64/bench/bench_instructions"
x86 = ["qemu-x86_64", "-cpu", "max"], root + "/build/release/bench/bench_instructions"
few, many = 1, 9


def executed(machine, *arguments):
    emulator, program = machine
    # One processor: then all work is done by the thread that asks for it.
    run = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), *emulator, "-plugin", plugin, "-d", "plugin", program, *arguments],
                         capture_output=True, text=True, check=True, env=os.environ | {"KEEL_GPU": "none", "KEEL_CPU": os.environ.get("KEEL_CPU", "v3") if machine is x86 else os.environ.get("KEEL_CPU", "")})
    return int(run.stderr.split("instructions ")[1])


def for_an_element(machine, who, case, elements):
    return (executed(machine, who, case, str(many)) - executed(machine, who, case, str(few))) / ((many - few) * elements)


def main():
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", plugin, root + "/bench/instructions_plugin.c"], check=True)
    lines = subprocess.run([*arm[0], arm[1]], capture_output=True, text=True, check=True).stdout.splitlines()
    print("| case | Keel, NEON | plain C | beside it | plain C, -O3 | beside it | Keel, AVX2 |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    for line in lines:
        case, bits, elements, name = line.split(" ", 3)
        if len(sys.argv) > 1 and case not in sys.argv[1:]:
            continue
        ours, scalar, vector = (for_an_element(arm, who, case, int(elements)) for who in ("keel", "scalar", "vector"))
        theirs = for_an_element(x86, "keel", case, int(elements))
        limit = 0.6 if int(bits) == 64 else 0.35
        mark = [" (!)" if ours > limit * scalar else "", " (!)" if ours > vector else ""]
        missed += any(mark)
        print(f"| {name} | {ours:.2f} | {scalar:.2f} | {ours / scalar:.2f}{mark[0]} | {vector:.2f} | {ours / vector:.2f}{mark[1]} | {theirs:.2f} |", flush=True)
    print(f"\n{missed} cases need more than is wanted: 0.35 of plain C, 0.6 with 64 bits, and never more than with -O3.")


main()
