"""Vector and scalar arithmetic: operands, modifiers, DPP, and what has to come out."""
import re
from fractions import Fraction

import pseudo
import soft
from pseudo import Machine, V

INLINE = {16: [0x3800, 0xB800, 0x3C00, 0xBC00, 0x4000, 0xC000, 0x4400, 0xC400, 0x3118],
          32: [0x3F000000, 0xBF000000, 0x3F800000, 0xBF800000, 0x40000000, 0xC0000000, 0x40800000, 0xC0800000, 0x3E22F983],
          64: [0x3FE0000000000000, 0xBFE0000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x4000000000000000,
               0xC000000000000000, 0x4010000000000000, 0xC010000000000000, 0x3FC45F306DC9C882]}
M32, M64 = 0xFFFFFFFF, (1 << 64) - 1

# Not here: no pseudocode, approximations, lanes (other tests), and where hardware is known to differ
# from the pseudocode (tools/vgpu/isa/sem_vop_float.c says how).
SKIP = re.compile(r"^V_(EXP|LOG|SIN|COS)_|^V_(RCP|RSQ)_F64|MOVREL|PERMLANE|READ.*LANE|WRITELANE|V_SWAP|V_NOP|PIPEFLUSH|V_INTERP"
                  r"|V_WMMA|V_TRIG|V_ILLEGAL|V_DOT2_(BF16|F16)|V_DIV_SCALE|V_DIV_FMAS")
NO_FLUSH = re.compile(r"V_CMPX?_CLASS|V_CNDMASK|V_MOV|V_PACK_B32|V_SAT|V_SWAP")
PICKS = re.compile(r"_(MIN|MAX|MIN3|MAX3|MED3|MAXMIN|MINMAX)_F")
NO_DPP = re.compile(r"64|READ|WRITELANE|PERMLANE|V_MUL_LO_U32|V_MUL_HI_[UI]32$|QSAD|V_DIV_FIXUP|DX9_ZERO|V_SWAP|FMAMK|FMAAK")

# Operand types (kind, bits) where the text does not tell them.
TYPES = {
    "V_MAD_U64_U32": ([("u", 32), ("u", 32), ("u", 64)], ("u", 64)),
    "V_MAD_I64_I32": ([("i", 32), ("i", 32), ("i", 64)], ("i", 64)),
    "V_QSAD_PK_U16_U8": ([("u", 64), ("u", 32), ("u", 64)], ("u", 64)),
    "V_MQSAD_PK_U16_U8": ([("u", 64), ("u", 32), ("u", 64)], ("u", 64)),
    "V_MQSAD_U32_U8": ([("u", 64), ("u", 32), ("u", 128)], ("u", 128)),
    "V_CVT_PK_NORM_I16_F16": ([("f", 16)] * 2, ("u", 32)),
    "V_CVT_PK_NORM_U16_F16": ([("f", 16)] * 2, ("u", 32)),
    "V_PACK_B32_F16": ([("f", 16)] * 2, ("u", 32)),
    "V_SAT_PK_U8_I16": ([("u", 32)], ("u", 16)),
    "V_CVT_U32_U16": ([("u", 16)], ("u", 32)),
    "V_LDEXP_F16": ([("f", 16), ("i", 16)], ("f", 16)),
    "V_FMAC_F32": ([("f", 32)] * 2, ("f", 32)),
    "V_PK_LSHLREV_B16": ([("u", "pk")] * 2, ("u", 32)),
    "V_PK_LSHRREV_B16": ([("u", "pk")] * 2, ("u", 32)),
    "V_PK_ASHRREV_I16": ([("u", "pk")] * 2, ("u", 32)),
    "V_FMA_MIX_F32": ([("f", 32)] * 3, ("f", 32)),
    "V_FMA_MIXLO_F16": ([("f", 32)] * 3, ("u", 32)),
    "V_FMA_MIXHI_F16": ([("f", 32)] * 3, ("u", 32)),
    "V_CVT_OFF_F32_I4": ([("u", 32)], ("f", 32)),
}


def types_of(name, text):
    """((kind, bits) of each source, the same of the result)."""
    if name in TYPES:
        return TYPES[name]
    out = []
    for i in range(3):
        if not re.search(r"\bS%d\b" % i, text):
            out.append(None)
            continue
        ks = re.findall(r"\bS%d(\[[^\]]*\])?\.(bf|[a-z])(\d+)" % i, text)
        packed = any(x[0] and int(x[2]) == 16 for x in ks)
        k = ks[0][1] if ks else "u"
        w = max([int(x[2]) for x in ks if not x[0]] or [32])
        out.append((k, "pk") if packed else ("bf", 16) if k == "bf" else (k, w))
    while out and out[-1] is None:
        out.pop()
    d = re.findall(r"\bD0(\[[^\]]*\])?(?:\.(bf|[a-z])(\d+))", text)
    if not d or d[-1][0]:
        return out, ("u", 32)
    return out, (d[-1][1], int(d[-1][2]))


def modes(mode):
    return {"rnd32": mode & 3, "rnd16": mode >> 2 & 3, "den32": mode >> 4 & 3, "den16": mode >> 6 & 3,
            "dx10": mode >> 8 & 1, "ieee": mode >> 9 & 1}


def constant(code, kind, width):
    """Bits of an inline constant."""
    if code <= 192:
        return code - 128
    if code <= 208:
        return (192 - code) & (M64 if width == 64 else M32)
    w = 64 if width == 64 else 16 if width == 16 or (width == "pk" and kind == "f") else 32
    return INLINE[w][code - 240]


def special(name, srcs, m):
    """Results where the pseudocode is known not to be meant literally; None elsewhere."""
    k = re.match(r"[VS]_(\w+)_F(16|32|64)$", name)
    if k:
        op, w = k.group(1), int(k.group(2))
        a = srcs[0] & ((1 << w) - 1)
        keep = (m["den32"] if w == 32 else m["den16"]) & 1
        if op in ("RCP", "RCP_IFLAG", "RSQ", "SQRT") and w == 32 or not keep:
            a = soft.flush(w, a)  # notes: denormals are flushed
        rnd = 0 if w == 32 else m["rnd16"]
        if op == "RNDNE":
            return soft.rint(w, a, "even")  # the sign of a zero stays
        if op == "FRACT":
            r = soft.add(w, a, soft.neg(w, soft.rint(w, a, "floor")), m["rnd32"] if w == 32 else m["rnd16"])
            one = soft.encode(w, Fraction(1))
            return one - 1 if r == one else r  # notes: result clamped
        if op in ("RCP", "RCP_IFLAG"):
            r = soft.div(w, soft.encode(w, Fraction(1)), a, rnd)
        elif op == "SQRT":
            r = soft.sqrt(w, a, rnd)
        elif op == "RSQ":
            r = soft.rsq(w, a, rnd)
        else:
            r = None
        if r is not None:
            return soft.flush(w, r) if w == 32 else r
        if op == "DIV_FIXUP":
            b, c = srcs[1] & ((1 << w) - 1), srcs[2] & ((1 << w) - 1)
            if not keep:
                b, c = soft.flush(w, b), soft.flush(w, c)
            ordinary = all(not soft.is_nan(w, x) and not soft.is_inf(w, x) and not soft.is_zero(w, x) for x in (b, c))
            far = soft.parts(w, c)[1] - soft.parts(w, b)[1] < {16: -9999, 32: -150, 64: -1075}[w]
            if soft.is_nan(w, a) and ordinary and not far:
                return soft.inf(w, soft.sign(w, b) ^ soft.sign(w, c))  # the estimate overflowed
    if name == "V_CVT_NEAREST_I32_F32":
        a = srcs[0] & M32
        a = a if m["den32"] & 1 else soft.flush(32, a)
        if not soft.is_nan(32, a) and not soft.is_inf(32, a):
            n = (soft.frac(32, a) + Fraction(1, 2)).__floor__()
            return max(-1 << 31, min((1 << 31) - 1, n)) & M32
    if name == "V_CVT_PK_U8_F32":  # measured: rounded as MODE says
        a = srcs[0] & M32
        a = a if m["den32"] & 1 else soft.flush(32, a)
        n = 0
        if soft.is_inf(32, a):
            n = 0 if soft.sign(32, a) else 255
        elif not soft.is_nan(32, a):
            n = soft.frac(32, soft.rint(32, a, ("even", "ceil", "floor", "trunc")[m["rnd32"]]))
        byte = 8 * (srcs[1] & 3)
        return srcs[2] & M32 & ~(255 << byte) | max(0, min(255, int(n))) << byte
    if name == "V_CVT_OFF_F32_I4":
        n = srcs[0] & 15
        return soft.encode(32, Fraction(n - 16 if n & 8 else n, 16))
    return None


def mix(name, srcs, m, old, mods):
    ins = []
    for i in range(3):
        if mods["opselhi"] >> i & 1:
            h = srcs[i] >> (16 if mods["opsel"] >> i & 1 else 0) & 0xFFFF
            ins.append(soft.cvt(32, 16, h if m["den16"] & 1 else soft.flush(16, h)))
        else:
            ins.append(srcs[i] & M32 if m["den32"] & 1 else soft.flush(32, srcs[i] & M32))
    r = soft.fma(32, *ins, m["rnd32"])
    if name == "V_FMA_MIX_F32":
        return r if m["den32"] & 2 else soft.flush(32, r)
    h = soft.cvt(16, 32, r, m["rnd16"])
    h = h if m["den16"] & 2 else soft.flush(16, h)
    return (old & 0xFFFF) | h << 16 if "HI" in name else (old & 0xFFFF0000) | h


def finish(name, fmt, d, m, mods):
    """Output modifiers of a float."""
    den = m["den32"] if fmt == 32 else m["den16"]
    omod = mods["omod"] and not m["ieee"] and not den & 2
    if omod:
        d = pseudo.scale(fmt, d, {1: 1, 2: 2, 3: -1}[mods["omod"]], m["rnd32"] if fmt == 32 else m["rnd16"])
    if mods["clamp"]:
        one = soft.encode(fmt, Fraction(1))
        if soft.is_nan(fmt, d):
            d = 0 if m["dx10"] else d
        elif soft.sign(fmt, d):
            d = 0
        elif soft.less(fmt, d, one) == 1:
            d = one
    if not den & 2 and fmt != "bf" and not NO_FLUSH.search(name) and not (PICKS.search(name) and not omod):
        d = soft.flush(fmt, d)
    return soft.zero(fmt, 0) if omod and soft.is_zero(fmt, d) else d


class Evaluator:
    def __init__(self, code):
        self.code, self.cache = code, {}

    def machine(self, name, m):
        return Machine(self.code, m, self.cache, not NO_FLUSH.search(name))

    def lane(self, name, text, types, dt, srcs, lane, mode, old, vcc, mods):
        """(result, bit of VCC, bit of D1 or None) of one lane."""
        m = modes(mode)
        m["frexp"] = m["real_exponent"] = "FREXP" in name
        if "_MIX" in name:
            return mix(name, srcs, m, old, mods), 0, None
        vals = []
        for i, t in enumerate(types):
            b = srcs[i]
            k, w = t
            if w == "pk":
                lo = b >> (16 if mods["opsel"] >> i & 1 else 0) & 0xFFFF
                hi = b >> (16 if mods["opselhi"] >> i & 1 else 0) & 0xFFFF
                if k in ("f", "bf"):
                    lo ^= (mods["neg"] >> i & 1) << 15
                    hi ^= (mods["neghi"] >> i & 1) << 15
                b = lo | hi << 16
            else:
                if w == 16:
                    b = b >> (16 if mods["opsel"] >> i & 1 else 0) & 0xFFFF
                if k in ("f", "bf") or name.startswith(("V_CNDMASK_B", "V_PACK", "V_MOV")):
                    b &= ~((mods["abs"] >> i & 1) << (w - 1))
                    b ^= (mods["neg"] >> i & 1) << (w - 1)
            vals.append(b)
        d0 = old >> 16 if dt[1] == 16 and mods["opsel"] & 8 else old
        mach = self.machine(name, m)
        if name == "V_PK_FMAC_F16" and not m["den16"] & 1:  # a half of D0 is read when the other is written
            d0 = soft.flush(16, d0 & 0xFFFF) | soft.flush(16, d0 >> 16) << 16
        d, out_vcc, d1 = special(name, vals, m), 0, None
        if d is None:
            mach.vars.update(laneId=V("i", 32, lane), VCC=V("u", 64, vcc << lane), EXEC=V("u", 64, M32),
                             D0=V("u", 32 if dt[1] == 16 else dt[1], d0))
            for i, b in enumerate(vals):
                mach.vars["S%d" % i] = V("u", max(64, types[i][1] if types[i][1] != "pk" else 64), b)
            if name.startswith("V_DOT") and "_I32_I" in name:
                for i in (0, 1):
                    text = text.replace("NEG[%d].u1" % i, "%dU" % (mods["neg"] >> i & 1))
            mach.run(text.replace("WAVE_MODE.IEEE", "%dU" % m["ieee"]))
            d = mach.vars["D0"].b
            out_vcc = mach.vars["VCC"].b >> lane & 1
            d1 = mach.vars["D1"].b & 1 if "D1" in mach.vars else None
        if dt[0] in ("f", "bf"):
            fmt = "bf" if dt[0] == "bf" else dt[1]
            d = finish(name, fmt, d & ((1 << soft.width(fmt)) - 1), m, mods)
        elif (name.startswith("V_PK_") and name.endswith("_F16")) or name == "V_CVT_PK_RTZ_F16_F32":
            none = dict(mods, omod=0)
            d = finish(name, 16, d & 0xFFFF, m, none) | finish(name, 16, d >> 16, m, none) << 16
        if dt[1] == 16:
            d = (old & 0xFFFF) | (d & 0xFFFF) << 16 if mods["opsel"] & 8 else (old & 0xFFFF0000) | (d & 0xFFFF)
        return d, out_vcc, d1


def dpp16_lane(ctrl, lane):
    """The lane that lane reads; None where there is none."""
    row, i, n = lane & ~15, lane & 15, ctrl & 15
    if ctrl < 0x100:
        return lane & ~3 | ctrl >> 2 * (lane & 3) & 3
    kind = ctrl & 0x1F0
    if kind == 0x100:
        return row | i + n if i + n < 16 else None
    if kind == 0x110:
        return row | i - n if i >= n else None
    if kind == 0x120:
        return row | (i - n) & 15
    if kind == 0x140:
        return lane ^ 7 if n else row | 15 - i
    return row | n if kind == 0x150 else lane ^ n
