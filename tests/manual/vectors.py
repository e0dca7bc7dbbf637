#!/usr/bin/env python3
"""Vectors out of the manual's pseudocode, for build/tests/isa_vectors.

    tests/manual/vectors.py TABLES OUT.json

TABLES is a folder with the RDNA3.5 manual's opcode tables and pseudocode as the public tinygrad
repository has them (tinygrad/runtime/autogen/amd/rdna3: enum.py and str_pcode.py); nothing of it is
kept here. The pseudocode is evaluated by pseudo.py over exact rationals (soft.py), one lane at a
time, which shares nothing with the emulator; what the manual says beside the pseudocode is in alu.py.
Each vector's body is some dozens of instructions on operands picked at random from pools of corner
cases, and leaves all results in registers. The seed is fixed: the same tables give the same file.
"""
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import soft
from alu import (M32, NO_DPP, SKIP, Evaluator, constant, dpp16_lane, modes, types_of)
from pseudo import V

R = random.Random(1151)
IN_AT, SG_AT = 0x10000, 0x10000 + 64 * 128
F32 = [0, 0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FA00001, 0xFFC12345, 1, 0x80000001,
       0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0xCF000000, 0x4F000000, 0x4F800000, 0x3EFFFFFF, 0x40200000, 0x43000000]
F16 = [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x3BFF, 0x3800, 0xB800, 0x4100]
F64 = [0, 1 << 63, 0x3FF0000000000000, 0xBFF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
       0x7FF4000000000001, 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x41DFFFFFFFC00000,
       0x41F0000000000000, 0xC1E0000000000000, 0x3FE0000000000000, 0x4004000000000000, 0x47EFFFFFE0000000, 0x36A0000000000000]
INT = [0, 1, 2, 31, 32, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, M32, 63, 64]


def g32():
    c = R.randrange(4)
    moderate = R.randrange(118, 138) << 23
    return (R.choice(F32) if c == 0 else R.getrandbits(32) if c == 1 else R.getrandbits(32) & 0x807FFFFF | moderate if c == 2
            else R.getrandbits(1) << 31 | moderate | R.choice([0, 0x400000, 0x600000, 0x200000]))


def g16():
    c = R.randrange(3)
    return R.choice(F16) if c == 0 else R.getrandbits(16) if c == 1 else R.getrandbits(16) & 0x83FF | R.randrange(10, 20) << 10


def gint():
    c = R.randrange(3)
    return R.choice(INT) if c == 0 else R.getrandbits(32) if c == 1 else R.getrandbits(5) | R.getrandbits(3) << 16


def g64():
    c = R.randrange(4)
    return (R.choice(F64) if c == 0 else R.getrandbits(64) if c == 1
            else R.getrandbits(64) & 0x800FFFFFFFFFFFFF | R.randrange(1015, 1035) << 52 if c == 2
            else R.getrandbits(64) & 0x800FF00000000000 | R.randrange(1010, 1060) << 52)


# v1..v60 and s16..s39, the same in every vector
REG = {0: list(range(32))}
for r in range(1, 13):
    REG[r] = [g32() for _ in range(32)]
for r in range(13, 25):
    REG[r] = [g16() | g16() << 16 for _ in range(32)]
for r in range(25, 49, 2):
    q = [g64() for _ in range(32)]
    REG[r], REG[r + 1] = [x & M32 for x in q], [x >> 32 for x in q]
for r in range(49, 61):
    REG[r] = [gint() for _ in range(32)]
SG = {s: R.choice([g32, gint, gint])() for s in range(16, 32)}
SG.update({s: g16() | g16() << 16 for s in range(32, 40)})
POOL = {"f32": range(1, 13), "f16": range(13, 25), "64": range(25, 49, 2), "i": range(49, 61)}


def asm(text):
    with tempfile.TemporaryDirectory() as d:
        o, b = os.path.join(d, "o"), os.path.join(d, "b")
        subprocess.run(["llvm-mc-19", "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx1151", "-filetype=obj", "-o", o], input=text,
                       text=True, check=True)
        subprocess.run(["llvm-objcopy-19", "-O", "binary", "-j", ".text", o, b], check=True)
        with open(b, "rb") as f:
            return f.read().hex()


def prologue():
    t = ("s_load_b64 s[2:3], s[0:1], 0x0\nv_lshlrev_b32 v255, 2, v0\ns_mov_b32 s4, 0x%x\ns_waitcnt lgkmcnt(0)\n"
         "s_load_b512 s[16:31], s[2:3], s4\ns_load_b256 s[32:39], s[2:3], s4 offset:64\n" % SG_AT)
    for r in range(1, 61):
        base, off = divmod(r * 128, 4096)
        if r == 1 or not off:
            t += "v_add_nc_u32 v252, 0x%x, v255\n" % (IN_AT + base * 4096)
        t += "global_load_b32 v%d, v252, s[2:3] offset:%d\n" % (r, off)
    return t + "s_waitcnt vmcnt(0) lgkmcnt(0)\n"


def epilogue(nv, ns):
    t = "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_waitcnt_vscnt null, 0x0\ns_mov_b32 exec_lo, -1\n"
    for i in range(nv):
        base, off = divmod(i * 128, 4096)
        if not off:
            t += "v_add_nc_u32 v252, 0x%x, v255\n" % (base * 4096)
        t += "global_store_b32 v252, v%d, s[2:3] offset:%d\n" % (64 + i, off)
    t += "s_mov_b32 exec_lo, 1\nv_mov_b32 v252, 0x%x\n" % (nv * 128)
    for i in range(ns):
        t += "v_mov_b32 v251, s%d\nglobal_store_b32 v252, v251, s[2:3] offset:%d\n" % (40 + i, 4 * i)
    return t


class Vector:
    """Results lie in v64.. and s40.., in this order in the output."""

    def __init__(self, mode):
        self.mode, self.body, self.v, self.s = mode, [], [], []

    def room(self, nv, ns):
        return len(self.v) + nv <= 60 and len(self.s) + ns <= 58

    def json(self, number):
        data, nans, what, last = b"", [], [], None
        for words, label, nan in self.v:
            if label != last:
                what.append([len(data) // 4, label])
            last = label
            nans += [len(data) // 4 + l for l in range(32) if nan and nan(words[l])]
            data += b"".join(w.to_bytes(4, "little") for w in words)
        for word, label, nan in self.s:
            if label != last:
                what.append([len(data) // 4, label])
            last = label
            nans += [len(data) // 4] if nan and nan(word) else []
            data += word.to_bytes(4, "little")
        return {"id": "manual/%d" % number, "kind": "wave32", "lanes": 32, "mode": self.mode,
                "body": b"".join(w.to_bytes(4, "little") for w in self.body).hex(), "epi": asm(epilogue(len(self.v), len(self.s))),
                "out": data.hex(), "checked": [], "all": True, "nans": nans, "what": what, "exact": True}


class Maker:
    def __init__(self, tables):
        with open(os.path.join(tables, "str_pcode.py"), encoding="utf-8") as f:
            src = f.read()
        d = ast.parse(src[src.index("PCODE = {"):]).body[0].value
        self.text = {(k.value.id[:-2], re.sub(r"_E(32|64)$", "", k.attr)): v.value for k, v in zip(d.keys, d.values)}
        self.opcode, enc = {}, None
        with open(os.path.join(tables, "enum.py"), encoding="utf-8") as f:
            for line in f:
                m = re.match(r"class (\w+)Op\(", line)
                enc = m.group(1) if m else enc
                m = re.match(r"\s+(\w+) = (0x[0-9a-f]+|\d+)", line)
                if m and enc:
                    self.opcode.setdefault(enc, {})[re.sub(r"_E(32|64)$", "", m.group(1))] = int(m.group(2), 0)
        self.eval = Evaluator(self.code)
        self.vectors, self.proved, self.left = [], set(), {}

    def code(self, name):
        for e in ("VOP2", "VOP3", "VOP1", "VOP3P", "VOP3SD", "VOPC"):
            if (e, name) in self.text:
                return self.text[(e, name)]
        raise KeyError(name)

    def vector(self, mode, nv, ns):
        if not self.vectors or self.vectors[-1].mode != mode or not self.vectors[-1].room(nv, ns):
            self.vectors.append(Vector(mode))
        return self.vectors[-1]

    # ---- vector arithmetic
    def forms(self):
        o = self.opcode
        for n, c in o["VOP1"].items():
            yield "VOP1", n, c, "e32"
            yield "VOP1", n, c + 0x180, "e64"
        for n, c in o["VOP2"].items():
            yield "VOP2", n, c, "e32"
            if not re.search(r"FMAMK|FMAAK|_CO_CI_|DOT2ACC|PK_FMAC", n):
                yield "VOP2", n, c + 0x100, "e64"
        for n, c in o["VOPC"].items():
            yield "VOPC", n, c, "e32"
            yield "VOPC", n, c, "e64"
        for n, c in o["VOP3"].items():
            if not any(n in o[e] for e in ("VOP1", "VOP2", "VOPC")):
                yield "VOP3", n, c, "e64"
        for n, c in o["VOP3SD"].items():
            yield "VOP3SD", n, c, "sd"
        for n, c in o["VOP3P"].items():
            yield "VOP3P", n, c, "p"

    def valu(self, mode, variants):
        for enc, name, opcode, form in self.forms():
            try:
                text = self.code(name)
            except KeyError:
                continue
            if SKIP.search(name) or (mode & 15 and re.search("_(SQRT|RSQ|RCP|DOT2)_F|V_DOT2", name)):
                continue
            types, dt = types_of(name, text)
            if name.startswith("V_CMP"):
                dt = ("u", 32)
                if len(types) < 2:
                    k, w = re.match(r".*_([UIF])(16|32|64)$", name).groups()
                    types = [(k.lower(), int(w))] * 2
            for variant in variants:
                self.instance(enc, name, opcode, form, text, types, dt, mode, variant)

    def modifiers(self, name, form, types, dt, variant):
        mods = dict(neg=0, abs=0, opsel=0, opselhi=7, neghi=0, clamp=0, omod=0)
        n, result = len(types), dt[0] == "f" and not name.startswith(("V_CMP", "V_CNDMASK", "V_MOV"))
        if "_MIX" in name:
            mods.update(opsel=R.randrange(8), opselhi=R.randrange(8))
        if variant != "mod" or form in ("e32", "sd"):
            return mods if variant != "mod" else None
        if form == "p":
            if name.startswith("V_DOT4") or name.startswith("V_DOT8"):
                mods["neg"] = R.randrange(4) if "_I32_I" in name else 0
            elif "_MIX" in name:
                return None
            else:
                if not name.startswith("V_DOT"):
                    mods.update(opsel=R.randrange(8), opselhi=R.randrange(8))
                if name.endswith("F16"):
                    mods.update(neg=R.randrange(8) & (1 << n) - 1, neghi=R.randrange(8) & (1 << n) - 1)
                    if name.startswith("V_DOT2"):
                        mods["neg"], mods["neghi"] = mods["neg"] & 3, mods["neghi"] & 3
            return mods
        floats = sum(1 << i for i in range(n) if types[i][0] == "f" and types[i][1] in (16, 32, 64))
        floats = 3 if name.startswith("V_CNDMASK_B") else 1 if "LDEXP" in name or name.startswith("V_MOV_B") else floats
        floats &= 3 if "FMAC" in name else 7
        mods["neg"], mods["abs"] = R.randrange(8) & floats, R.randrange(8) & floats
        if result:
            mods["clamp"], mods["omod"] = R.randrange(2), R.randrange(4)
        half = sum(1 << i for i in range(n) if types[i][1] == 16) | (8 if dt[1] == 16 else 0)
        mods["opsel"] = R.randrange(16) & half
        return mods if any(mods[k] for k in ("neg", "abs", "clamp", "omod", "opsel")) else None

    def register(self, t):
        k, w = t
        if w == 64:
            return R.choice(list(POOL["64"]) + (list(POOL["i"])[:-2] if k != "f" else []))
        if w == 128:
            return R.choice(list(POOL["i"])[:-3])
        return R.choice(POOL["f16"] if w in (16, "pk") else POOL["f32"] if k == "f" else POOL["i"])

    def value(self, code, t, lane):
        k, w = t
        if code >= 256:
            n = {64: 2, 128: 4}.get(w, 1)
            return sum(REG[code - 256 + i][lane] << 32 * i for i in range(n))
        if code < 106:
            return SG[code] | (SG[code + 1] << 32 if w == 64 else 0)
        return constant(code, k, w)

    def operand_constant(self, name, i, code, t, mods):
        """Inline constants of the instructions that have rules of their own."""
        f = 240 <= code <= 248
        if "_MIX" in name:
            return constant(code, "f", 16 if mods["opselhi"] >> i & 1 else 32)
        if i < 2 and name == "V_DOT2_F32_F16":
            return constant(code, "u", 32)
        if i < 2 and name in ("V_DOT2_F32_BF16", "V_DOT2ACC_F32_F16"):
            h = constant(code, "f", 32) >> 16 if f and "BF16" in name else constant(code, "f", 16) & 0xFFFF
            return h | h << 16
        if name == "V_PK_FMAC_F16" and f:  # measured: gfx11 has it in both halves
            return constant(code, "f", 16) * 0x10001
        return constant(code, *t)

    def instance(self, enc, name, opcode, form, text, types, dt, mode, variant):
        cmp, cmpx = name.startswith("V_CMP_"), name.startswith("V_CMPX_")
        mods = self.modifiers(name, form, types, dt, variant)
        accumulates = "FMAC" in name or name.startswith("V_DOT2ACC")
        n = min(len(types), 2) if accumulates else len(types)
        dpp = variant == "dpp"
        if mods is None or not n or any(t is None for t in types) or re.search("FMAMK|FMAAK", name):
            return
        if dpp and (form not in ("e32", "e64") or NO_DPP.search(name) or any(t[1] in (64, 128) for t in types + [dt])
                    or (form == "e64" and enc in ("VOP1", "VOP2", "VOPC"))):
            return
        regs, scalar = [], R.randrange(n) if variant == "scalar" else -1
        scalar = 0 if scalar >= 0 and form == "e32" else scalar
        for i in range(n):
            if i != scalar or types[i][1] == 128:
                regs.append(256 + self.register(types[i]))
            elif R.randrange(2):
                regs.append(R.choice(range(16, 38, 2)))
            else:
                regs.append(R.choice([128, 240, 241, 242, 243, 244, 245, 246, 247, 248] if types[i][0] in ("f", "bf")
                                     else [128, 129, 133, 160, 192, 193, 197, 208]))
        srcs = [[self.operand_constant(name, i, c, types[i], mods) if 128 <= c < 256 else self.value(c, types[i], l)
                 for l in range(32)] for i, c in enumerate(regs)]
        nd = {64: 2, 128: 4}.get(dt[1], 1)
        nv = 0 if cmp or cmpx else nd
        carry = form == "sd" or "_CO_CI_" in name
        ns = 1 if cmp or cmpx or carry else 0
        v = self.vector(mode, nv, ns)
        dst, sdst = 64 + len(v.v), 40 + len(v.s)
        oldr = R.choice(list(POOL["64"]) if dt[1] == 64 else [49] if dt[1] == 128 else POOL["f32"] if dt == ("f", 32) else
                        POOL["f16"] if dt[1] == 16 or "_F16" in name else POOL["i"])
        old = [sum(REG[oldr + i][l] << 32 * i for i in range(nd)) if nv else 0 for l in range(32)]
        srcs += [old] * (len(types) - n)
        vcc = R.randrange(16, 32)
        before = [0x7E000200 | dst + i << 17 | 256 + oldr + i for i in range(nv)]
        if carry or name.startswith("V_CNDMASK"):
            before.append(0xBEEA0000 | vcc)
        # lanes
        ex = SG[R.randrange(16, 32)] if dpp else M32
        enabled, extra = ex, []
        if dpp:
            before.append(0xBEFE00FF)
            before.append(ex)
            at = int(name in ("V_SUBREV_NC_U32", "V_SUBREV_CO_U32", "V_SUBREV_CO_CI_U32"))  # measured: they swap first
            srcs[at], enabled, extra = self.dpp(regs, srcs[at], ex, form)
        words = self.encode(enc, name, form, opcode, regs, mods, dst, sdst, 0xFA if dpp == 1 and extra[0] == 16 else 0xE9 + extra[1] if dpp else None)
        words += [extra[2]] if dpp else []
        after = []
        if form == "e32" and (cmp or carry):
            after.append(0xBE800000 | sdst << 16 | 106)
        if cmpx:
            after.append(0xBE800000 | sdst << 16 | 126)
        if cmpx or dpp:
            after.append(0xBEFE00C1)
        results, mask = [], 0
        for l in range(32):
            if not enabled >> l & 1:
                results.append(old[l])
                continue
            t = text.replace("EXEC.u64[laneId]", "D0.u64[laneId]") if cmpx else text
            r_, oc, d1 = self.eval.lane(name, t, types, ("u", 64) if cmp or cmpx else dt, [s[l] for s in srcs], l, mode,
                                        old[l], SG[vcc] >> l & 1, mods)
            results.append(r_)
            mask |= (r_ >> l & 1 if cmp or cmpx else oc if d1 is None else d1) << l
        v.body += before + words + after
        label = "%s %s %s %s" % (name.lower(), form, variant, " ".join("%08x" % w for w in words))
        for i in range(nv):
            v.v.append(([x >> 32 * i & M32 for x in results], label, self.nan(name, dt, i, results)))
        if ns:
            v.s.append((mask, label, None))
        self.proved.add(name)

    def nan(self, name, dt, i, results):
        """Which words of a result are NaNs, whose payload nothing fixes."""
        if dt == ("f", 64):
            # both words of a NaN: the low one is left out by being made equal to anything
            return (lambda w: (w & 0x7FFFFFFF) >= 0x7FF00000 and w & 0x7FFFFFFF != 0x7FF00000) if i else None
        if dt == ("f", 32):
            return lambda w: soft.is_nan(32, w)
        if dt[1] == 16 or "F16" in name:
            return lambda w: soft.is_nan(16, w & 0xFFFF) or soft.is_nan(16, w >> 16)
        return None

    def dpp(self, regs, values, ex, form):
        """Permuted values, lanes that are written, and (kind, fi, the DPP dword)."""
        src, regs[0] = regs[0] - 256, regs[0]
        fi = R.randrange(2)
        if R.randrange(4) == 0:
            sel = [R.randrange(8) for _ in range(8)]
            at = [l & ~7 | sel[l & 7] for l in range(32)]
            out = [values[a] if fi or ex >> a & 1 else 0 for a in at]
            return out, ex, (8, fi, src | sum(s << 8 + 3 * i for i, s in enumerate(sel)))
        ctrl = R.choice([R.randrange(256), 0x100 + R.randrange(1, 16), 0x110 + R.randrange(1, 16), 0x120 + R.randrange(1, 16), 0x140,
                         0x141, 0x150 + R.randrange(16), 0x160 + R.randrange(16)])
        bc, rows, banks = R.randrange(2), R.choice([15, 15, 1, 2, 13]), R.choice([15, 15, 5, 8, 7])
        out, enabled = [], 0
        for l in range(32):
            a = dpp16_lane(ctrl, l)
            valid = a is not None and (fi or ex >> a & 1)
            out.append(values[a] if valid else 0)
            if (valid or bc) and rows >> (l >> 4) & 1 and banks >> (l >> 2 & 3) & 1:
                enabled |= 1 << l
        return out, enabled & ex, (16, fi, src | ctrl << 8 | fi << 18 | bc << 19 | banks << 24 | rows << 28)

    def encode(self, enc, name, form, opcode, regs, mods, dst, sdst, src0):
        s = ([src0] + regs[1:]) if src0 is not None else list(regs)
        if form == "e32":
            return [{"VOP1": lambda: 0x7E000000 | dst << 17 | opcode << 9 | s[0],
                     "VOP2": lambda: opcode << 25 | dst << 17 | s[1] - 256 << 9 | s[0],
                     "VOPC": lambda: 0x7C000000 | opcode << 17 | s[1] - 256 << 9 | s[0]}[enc]()]
        if name.startswith("V_CNDMASK") or "_CI_" in name:
            s = s[:2] + [106]
        s += [0] * (3 - len(s))
        if form == "p":
            return [0xCC000000 | opcode << 16 | dst | mods["neghi"] << 8 | mods["opsel"] << 11 | (mods["opselhi"] >> 2 & 1) << 14
                    | mods["clamp"] << 15, s[0] | s[1] << 9 | s[2] << 18 | (mods["opselhi"] & 3) << 27 | mods["neg"] << 29]
        d = sdst if name.startswith("V_CMP_") else 126 if name.startswith("V_CMPX") else dst
        w0 = 0xD4000000 | opcode << 16 | d | mods["clamp"] << 15
        w0 |= sdst << 8 if form == "sd" else mods["abs"] << 8 | mods["opsel"] << 11
        return [w0, s[0] | s[1] << 9 | s[2] << 18 | mods["omod"] << 27 | mods["neg"] << 29]

    # ---- scalar arithmetic
    def salu(self, mode, times):
        for enc in ("SOP1", "SOP2", "SOPC", "SOPK"):
            for name, opcode in self.opcode[enc].items():
                if (enc, name) not in self.text or re.search(
                        "MOVREL|GETPC|SETPC|SWAPPC|RFE|SENDMSG|CALL|SUBVECTOR|WAITCNT|GETREG|SETREG|VERSION|FMAAK|FMAMK", name):
                    continue
                for _ in range(times):
                    self.scalar(enc, name, opcode, mode)

    def scalar_types(self, enc, name):
        types, dt = types_of(name, self.text[(enc, name)])
        wide = bool(re.search("_[BUI]64", name))
        if re.search("BITSET", name):
            return [("u", 32)], ("u", 64 if wide else 32)
        if name.startswith("S_BITREP"):
            return [("u", 32)], ("u", 64)
        if "BITCMP" in name:
            return [("u", 64 if wide else 32), ("u", 32)], dt
        if re.search("CTZ|CLZ|CLS|BCNT", name):
            return [("u", 64 if wide else 32)], ("u", 32)
        if re.search("^S_(QUADMASK|WQM|BREV|NOT)_", name):
            return [("u", 64 if wide else 32)], ("u", 64 if wide else 32)
        if "BFM_B64" in name:
            return [("u", 32)] * 2, ("u", 64)
        if re.search("S_BFE_[UI]64", name):
            return [("u", 64), ("u", 32)], ("u", 64)
        if name == "S_CVT_HI_F32_F16":
            return [("u", 32)], ("f", 32)
        return types, dt

    def scalar(self, enc, name, opcode, mode):
        m = modes(mode)
        types, dt = self.scalar_types(enc, name)
        nd = 2 if dt[1] == 64 else 1
        compares, execs = enc == "SOPC" or name.startswith("S_CMPK"), "EXEC" in name
        v = self.vector(mode, 0, nd + 4)
        if nd == 2 and len(v.s) & 1 and not compares:
            v.body.append(0xBE800080 | 40 + len(v.s) << 16)
            v.s.append((0, "s_mov_b32", None))
        dst, regs = 40 + len(v.s), []
        for t in types[:1] if enc in ("SOP1", "SOPK") else types[:2]:
            k, w = t or ("u", 32)
            if R.randrange(4) == 0 and enc != "SOPK":
                regs.append(R.choice([128, 129, 133, 160, 192, 193, 197, 208] + ([240, 242, 243, 246, 248] if k == "f" else [])))
            else:
                regs.append(R.choice(range(16, 36, 2) if w == 64 else range(32, 40) if w == 16 else range(16, 32)))
        regs = [R.randrange(16, 32)] if name.startswith("S_CMPK") else regs
        vals = [self.value(c, t or ("u", 32), 0) for c, t in zip(regs, types or [("u", 32)])]
        scc, oldr = R.randrange(2), R.choice(range(16, 36, 2))
        old = sum(SG[oldr + i] << 32 * i for i in range(nd))
        body = [] if compares else [0xBE800000 | dst + i << 16 | oldr + i for i in range(nd)]
        mach = self.eval.machine(name, m)
        mach.vars.update(SCC=V("u", 1, scc), D0=V("u", 64 if nd == 2 else 32, old))
        mach.vars.update({"S%d" % i: V("u", 64, x) for i, x in enumerate(vals)})
        simm = R.choice([0, 1, 0x7FFF, 0x8000, 0xFFFF, 0xFFF0, R.getrandbits(16)])
        ex = M32
        if enc == "SOPK":
            mach.vars["SIMM16"] = V("u", 16, simm)
        if execs:
            er = R.choice(range(16, 36, 2))
            ex = SG[er] | SG[er + 1] << 32
            body += [0xBEFE0000 | er, 0xBEFF0000 | er + 1]
            mach.vars["EXEC"] = V("u", 64, ex)
        body.append((0xBF060000 if scc else 0xBF070000) | 16 << 8 | 16)
        word = {"SOP1": lambda: 0xBE800000 | dst << 16 | opcode << 8 | regs[0],
                "SOP2": lambda: 0x80000000 | opcode << 23 | dst << 16 | regs[1] << 8 | regs[0],
                "SOPC": lambda: 0xBF000000 | opcode << 16 | regs[1] << 8 | regs[0],
                "SOPK": lambda: 0xB0000000 | opcode << 23 | (regs[0] if compares else dst) << 16 | simm}[enc]()
        body.append(word)
        mach.run(self.text[(enc, name)].replace("WAVE_MODE.IEEE", "%dU" % m["ieee"]))
        d = mach.vars["D0"].b
        if dt[0] == "f":
            w = dt[1]
            d &= (1 << w) - 1
            if re.search("RNDNE", name):
                a = vals[0] & ((1 << w) - 1)
                d = soft.rint(w, a if (m["den32"] if w == 32 else m["den16"]) & 1 else soft.flush(w, a), "even")
            if not (m["den32"] if w == 32 else m["den16"]) & 2 and not re.search("_(MIN|MAX)_", name):
                d = soft.flush(w, d)
        label = "%s %08x" % (name.lower(), word)
        nan = None
        if dt[0] == "f":
            nan = (lambda x: soft.is_nan(16, x & 0xFFFF)) if dt[1] == 16 else (lambda x: soft.is_nan(32, x))
        if not compares:
            v.s += [(d >> 32 * i & M32, label, nan) for i in range(nd)]
        s = mach.vars["SCC"]
        body.append(0x98000000 | 40 + len(v.s) << 16 | 128 << 8 | 129)
        v.s.append((int(s) if isinstance(s, bool) else s.b & 1, label + " scc", None))
        if execs:
            e = mach.vars["EXEC"].b
            e = ex & ~M32 | e & M32 if "_B32" in name else e
            body += [0xBE800000 | 40 + len(v.s) << 16 | 126, 0xBE800000 | 41 + len(v.s) << 16 | 127, 0xBEFE00C1, 0xBEFF0080]
            v.s += [(e & M32, label + " exec", None), (e >> 32, label + " exec", None)]
        v.body += body
        self.proved.add(name)

    def write(self, path):
        data = b"".join(b"".join(x.to_bytes(4, "little") for x in REG.get(r, [0] * 32)) for r in range(64))
        data += b"".join(SG[s].to_bytes(4, "little") for s in range(16, 40))
        with open(path, "w", encoding="utf-8") as f:
            f.write('{"meta": {"source": "tests/manual/vectors.py", "opcodes": %d},\n"in": "%s",\n"pro": "%s",\n"vectors": [\n'
                    % (len(self.proved), data.hex(), asm(prologue())))
            f.write(",\n".join(json.dumps(v.json(i)) for i, v in enumerate(self.vectors)))
            f.write("\n]}\n")


def main():
    m = Maker(sys.argv[1])
    # the assembler's mode, the compiler's, and one of each rounding with other denormal controls
    m.valu(0x3C0, ["plain", "scalar", "mod", "dpp"])
    m.valu(0x1F0, ["plain", "mod"])
    floats = os.environ.get("MORE")
    for mode in (0x3F5, 0x15A, 0x0AF):
        m.valu(mode, ["plain", "mod"] if floats else ["plain"])
    for mode, times in ((0x3C0, 4), (0x3FA, 2), (0x155, 2)):
        m.salu(mode, times)
    m.write(sys.argv[2])
    print("%d vectors of %d opcodes" % (len(m.vectors), len(m.proved)))


if __name__ == "__main__":
    main()
